"""Generators, the models that write answers: their interface, and those behind an API."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Generator as PythonGenerator
from contextlib import closing
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from almanac.core.settings import DataDir
from almanac.index.api.api_client import AnswerMalformed, Api, ApiKey, Unanswered, shared_limit
from almanac.index.api.batching import estimate_tokens
from almanac.index.api.retry import Retry
from almanac.index.api.sdks import SDKS
from almanac.index.api.taken import Taken, change_for, changed
from almanac.schemas.declaration.api_section import GENERATORS, provided
from almanac.schemas.declaration.generate import Generate

_FAILED = "error"  # finish reason of a failed reply
T = TypeVar("T")
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
    """The declared generator; None where the provider is `extractive`. Raises CredentialRefused where the key of an API
    is missing or malformed.

    Args:
        generate: The declared `generate` section.
        data: Data directory, whose processes share the declared rate limit. Default: the one of the environment.
        retry: Number of attempts, and delays between them.
    """
    if generate.provider == "extractive":
        return None
    made: Generator = provided(GENERATORS, generate.provider).load()(generate, data, retry=retry)
    return made


class ApiGenerator:
    """Chat completions of an API. Safe to share among threads.

    What a model does not take, such as `max_tokens` or a temperature, its server says once: from then on, also in
    other processes with the same data directory, it is asked as it takes it.
    """

    # frozen
    def __init__(self, generate: Generate, data: DataDir | None = None, *, retry: Retry = Retry()) -> None:  # noqa: B008
        assert generate.model is not None
        self._model = generate.model
        limit = shared_limit(data, generate.server, generate.model, generate.requests_per_second, None)
        self._taken = Taken(limit.path.with_suffix(".json"))
        sdk, key = SDKS[generate.provider], ApiKey(generate.key_variable)
        self._api = Api(sdk, generate.server, key, limit, timeout_s=generate.timeout_s, retry=retry, section="generate")
        self._complete, self._stream = _CALLS[generate.provider]
        self._may_change = generate.provider == "openai"  # Mistral's library knows its own options alone

    def generate(self, messages: Messages, *, temperature: float, max_tokens: int) -> str:
        def send(client: Any, body: dict[str, Any]) -> str:
            choices = self._complete(client, body).choices
            text = _text_of(choices[0].message.content) if choices and choices[0].message is not None else ""
            if not choices or choices[0].finish_reason == _FAILED or not text.strip():
                raise AnswerMalformed("the model wrote nothing, or broke off")
            return text

        return self._call(send, messages, temperature, max_tokens)

    def stream(self, messages: Messages, *, temperature: float, max_tokens: int) -> Iterator[str]:
        """The reply in parts. Failures before the first part are retried; later ones are raised, since the reader has
        seen the beginning.
        """

        def send(client: Any, body: dict[str, Any]) -> tuple[str, PythonGenerator[str, None, None]]:
            parts = _parts_of(self._stream(client, body))
            return next(parts), parts

        first, parts = self._call(send, messages, temperature, max_tokens)
        with closing(parts):
            yield first
            try:
                while (part := self._api.call(lambda _: next(parts, None), attempts=1)) is not None:
                    yield part
            except Unanswered as failure:
                raise failure.error from None

    def _call(self, send: Callable[..., T], messages: Messages, temperature: float, max_tokens: int) -> T:
        """Calls `send` with a client and a request that the model takes, as far as that is known."""
        request = {"model": self._model, "messages": list(messages)}
        options = {"temperature": temperature, "max_tokens": max_tokens}
        tokens = sum(estimate_tokens(message["content"]) for message in messages)
        changes = self._taken.known()
        while True:
            body = {**request, **changed(options, changes)}
            try:
                answer = self._api.call(partial(send, body=body), tokens=tokens)
            except Unanswered as failure:
                further = change_for(failure.error.message, changes) if self._may_change else None
                if further is None:
                    raise failure.error from None
                changes = changes | {further}
            else:
                self._taken.keep(changes)
                return answer


class _Message(BaseModel):
    content: Any = None


class _Choice(BaseModel):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Chat(BaseModel):
    """The part of a response, or of an event of a stream, that is read."""

    choices: list[_Choice]


def _complete_openai(client: Any, body: dict[str, Any]) -> Any:
    return _read(client.chat.completions.with_raw_response.create(**body).content)


def _stream_openai(client: Any, body: dict[str, Any]) -> PythonGenerator[Any, None, None]:
    with client.chat.completions.create(**body, stream=True) as events:
        for event in events:
            yield _read(event.to_json())


def _read(body: str | bytes) -> _Chat:
    try:
        return _Chat.model_validate_json(body)
    except ValidationError:
        raise AnswerMalformed("its answer is not what the API says") from None


def _complete_mistral(client: Any, body: dict[str, Any]) -> Any:
    return client.chat.complete(**body)


def _stream_mistral(client: Any, body: dict[str, Any]) -> PythonGenerator[Any, None, None]:
    with client.chat.stream(**body) as events:
        for event in events:
            yield event.data


# Of each provider: how a complete reply is asked for, and one in events. Replies and events have `choices`.
_CALLS: dict[
    str, tuple[Callable[[Any, dict[str, Any]], Any], Callable[[Any, dict[str, Any]], PythonGenerator[Any, None, None]]]
] = {
    "mistral": (_complete_mistral, _stream_mistral),
    "openai": (_complete_openai, _stream_openai),
}


def _parts_of(events: PythonGenerator[Any, None, None]) -> PythonGenerator[str, None, None]:
    """The text of a stream's events. Raises AnswerMalformed where the stream ends without a finish reason, or without
    text.
    """
    is_finished = has_text = False
    with closing(events):
        for event in events:
            for choice in event.choices:
                if choice.delta is not None and (text := _text_of(choice.delta.content)):
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
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part if isinstance(part, dict) else vars(part) for part in parts]
    return "".join(str(part.get("text", "")) for part in texts if part.get("type") == "text")
