"""What is searched for: a question and the parts that a caller names, put together in the same way each time."""

from collections.abc import Mapping

from schemas.templates import fill


def compose_query(template: str | None, question: str, parts: Mapping[str, str] | None = None) -> str:
    """The declared template filled; a part that is missing takes the text after it along. Without a template the parts go before the question."""
    given = parts or {}
    names = [*given, "question"]
    return fill(template or " ".join(f"{{{name}}}" for name in names), {**given, "question": question}) or question
