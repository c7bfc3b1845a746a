"""What is searched for: a question and the parts that a caller names, put together in the same way each time."""

from collections.abc import Mapping

from almanac.core.templates import fill
from almanac.schemas.errors import UsageError


def compose_query(template: str | None, question: str, parts: Mapping[str, str] | None = None) -> str:
    """The declared template filled; a part that is missing takes the text after it along. Without a template the parts go before the question.

    Raises UsageError for a part that the template has no place for.
    """
    given = parts or {}
    if template and (unknown := [name for name in given if f"{{{name}}}" not in template]):
        raise UsageError(f"retrieve.query has no place for the part '{unknown[0]}'", where="--part", hint=f"it is {template!r}")
    names = [*given, "question"]
    return fill(template or " ".join(f"{{{name}}}" for name in names), {**given, "question": question}) or question
