"""Rewriting of follow-up questions by the declared model, so that they stand by themselves.

It is optional at run time: where the model is unreachable, overloaded or returns nothing usable,
`query.retrieval.searching` decides, and the trace and the log contain the reason. Errors that the operator has to fix
(key, model name, address) are raised, since they would otherwise go unnoticed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from almanac.core.logs import get_logger
from almanac.schemas.errors import CredentialRefused, OperationalError

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

_MESSAGES = 6  # of the conversation, the last ones
_CHARACTERS = 600  # of each: a reply may be long, and only what it names is needed
_LONGEST = 600  # characters of a question; more is an answer
_TOKENS = 150
_log = get_logger("almanac.rewrite")


class Rewriting(NamedTuple):
    """The question as the model wrote it; None where the model failed, for the reason `failure`."""

    question: str | None
    failure: str | None = None


def rewrite(generator: "Generator", question: str, history: Sequence[Mapping[str, str]]) -> Rewriting:
    """Asks the model for the question as it stands by itself. `history` has the earlier messages, oldest first: {role,
    content}.

    Raises CredentialRefused, and DeclarationError where the server redirects or has no such address or model.
    """
    prompt = Template((Path(__file__).parent / "prompts" / "rewrite.txt").read_text(encoding="utf-8"))
    asked = prompt.substitute(
        conversation="\n".join(_quoted(message) for message in history[-_MESSAGES:]),
        question=" ".join(question.split()),
    )
    try:
        written = generator.generate([{"role": "user", "content": asked}], temperature=0.0, max_tokens=_TOKENS)
    except CredentialRefused:
        raise
    except OperationalError as error:
        return _failed(error.message, where=error.where)
    lines = [line.strip().strip("\"'«»“”„").strip() for line in written.splitlines() if line.strip()]
    if len(lines) != 1 or not lines[0] or len(lines[0]) > _LONGEST:
        return _failed("the model wrote no single question")
    return Rewriting(lines[0])


def _failed(reason: str, where: str | None = None) -> Rewriting:
    _log.warning("the question is continued by its words: the model did not rewrite it", where=where, failure=reason)
    return Rewriting(None, reason)


def _quoted(message: Mapping[str, str]) -> str:
    role = "Assistant" if message.get("role") == "assistant" else "User"
    content = message.get("content")
    return f"{role}: {' '.join(content.split())[:_CHARACTERS]}" if isinstance(content, str) else ""
