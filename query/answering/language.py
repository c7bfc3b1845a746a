"""Language of a reply: the one that the caller asks for, else that of the question, else that of the conversation."""

from collections.abc import Mapping, Sequence

from babel import Locale, UnknownLocaleError

from almanac.query.retrieval.question_language import question_language
from almanac.schemas.errors import UsageError


def reply_language(question: str, history: Sequence[Mapping[str, str]], asked: str | None) -> str | None:
    """Tag of the language that a reply is written in; None leaves it to the model.

    `asked` if the caller names a language; else that of the question; else, for "2?" and the like, that of the last
    message of the user in `history` (oldest first) whose language can be identified.
    """
    if asked is not None:
        return asked
    texts = [question, *(message.get("content", "") for message in reversed(history) if message.get("role") == "user")]
    return next((found for text in texts if isinstance(text, str) and (found := question_language(text))), None)


def require_language(asked: str | None) -> None:
    """Raises UsageError for what is not the tag of a known language; None leaves the language to the question."""
    try:
        if asked is not None:
            Locale.parse(asked, sep="-")
    except (UnknownLocaleError, ValueError, TypeError):
        raise UsageError(
            f"there is no language '{asked}'", where="language", hint="a BCP 47 tag, such as en, he or pt-BR"
        ) from None


def language_name(tag: str) -> str:
    """English name of a language with its tag: `Hebrew (he)` for `he`. An unknown tag is returned unchanged."""
    try:
        return f"{Locale.parse(tag, sep='-').english_name} ({tag})"
    except (UnknownLocaleError, ValueError):
        return tag
