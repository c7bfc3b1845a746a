"""Generators, the models that write answers: their interface, and the one for Mistral's API or a compatible server."""

from collections.abc import Generator as PythonGenerator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

from almanac.core.settings import DataDir
from almanac.index.mistral.batching import estimate_tokens
from almanac.index.mistral.client import AnswerMalformed, MistralApi, Unanswered, shared_limit
from almanac.index.mistral.retry import Retry
from almanac.schemas.declaration.generate import Generate

if TYPE_CHECKING:
    from mistralai.client import Mistral


_FAILED = "error"  # finish reason of a failed reply
Messages = Sequence[Mapping[str, str]]  # {role: system | user | assistant, content}, oldest first


class Generator(Protocol):
    """A model that writes replies to messages.

    Both methods take a `temperature` from 0 on and the maximum number of tokens to write. They raise OperationalError
    or one of its subclasses, and DeclarationError where the server redirects or has no such address or model.
    """

    def generate(self, messages: Messages, *, temperature: float, max_tokens: int) -> str:
        """The complete reply, never empty."""

    def stream(self, messages: Messages, *, temperature: float, max_tokens: int) -> Iterator[str]:
        """The reply in parts, as they are written. Errors may be raised after some parts."""


# frozen
def load_generator(generate: Generate, data: DataDir | None = None, *, retry: Retry = Retry()) -> Generator | None:  # noqa: B008
    """The declared generator; None where the provider is `extractive`. Raises CredentialRefused where MISTRAL_API_KEY
    is missing or malformed.

    Args:
        generate: The declared `generate` section.
        data: Data directory, whose processes share the declared rate limit. Default: the one of the environment.
        retry: Number of attempts, and delays between them.
    """
    return MistralGenerator(generate, data, retry=retry) if generate.provider == "mistral" else None


class MistralGenerator:
    """Chat completions of Mistral's API or a compatible server. Safe to share among threads."""

    # frozen
    def __init__(self, generate: Generate, data: DataDir | None = None, *, retry: Retry = Retry()) -> None:  # noqa: B008
        assert generate.model is not None
        self._model = generate.model
        limit = shared_limit(data, generate.server_url, generate.model, generate.requests_per_second, None)
        self._api = MistralApi(
            generate.server_url, limit, timeout_s=generate.timeout_s, retry=retry, section="generate"
        )

    def generate(self, messages: Messages, *, temperature: float, max_tokens: int) -> str:
        def send(client: "Mistral") -> str:
            answer = client.chat.complete(
                model=self._model, messages=_asked(messages), temperature=temperature, max_tokens=max_tokens
            )
            choice = answer.choices[0] if answer.choices else None
            text = _text_of(choice.message.content) if choice is not None and choice.message is not None else ""
            if choice is None or choice.finish_reason == _FAILED or not text.strip():
                raise AnswerMalformed("the model wrote nothing, or broke off")
            return text

        try:
            return self._api.call(send, tokens=_tokens(messages))
        except Unanswered as failure:
            raise failure.error from None

    def stream(self, messages: Messages, *, temperature: float, max_tokens: int) -> Iterator[str]:
        """The reply in parts. Failures before the first part are retried; later ones are raised, since the reader has
        seen the beginning.
        """

        def send(client: "Mistral") -> tuple[str, PythonGenerator[str, None, None]]:
            events = client.chat.stream(
                model=self._model, messages=_asked(messages), temperature=temperature, max_tokens=max_tokens
            )
            parts = _parts_of(events)
            return next(parts), parts

        try:
            first, parts = self._api.call(send, tokens=_tokens(messages))
            with closing(parts):
                yield first
                while (part := self._api.call(lambda _: next(parts, None), attempts=1)) is not None:
                    yield part
        except Unanswered as failure:
            raise failure.error from None


def _parts_of(events: Any) -> PythonGenerator[str, None, None]:
    """The text of a stream's events. Raises AnswerMalformed where the stream ends without a finish reason, or without
    text.
    """
    is_finished = has_text = False
    with events:
        for event in events:
            for choice in event.data.choices:
                if text := _text_of(choice.delta.content):
                    has_text = True
                    yield text
                is_finished = is_finished or bool(choice.finish_reason and choice.finish_reason != _FAILED)
    if not is_finished:
        raise AnswerMalformed("the answer breaks off")
    if not has_text:
        raise AnswerMalformed("the model wrote nothing")


def _text_of(content: Any) -> str:
    """The text of a message, whose content is a text or a list of parts; parts of other types (thoughts, references)
    are left out.
    """
    parts = content if isinstance(content, list) else []
    return (
        content
        if isinstance(content, str)
        else "".join(part.text for part in parts if getattr(part, "type", "") == "text")
    )


def _asked(messages: Messages) -> Any:
    return list(messages)


def _tokens(messages: Messages) -> int:
    return sum(estimate_tokens(message["content"]) for message in messages)
