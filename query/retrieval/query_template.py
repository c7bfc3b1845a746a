"""Query templates: the text to search for, composed of a question and of the parts that a caller passes by name."""

from collections.abc import Mapping

from almanac.core.invisible import without_invisible
from almanac.core.templates import fill
from almanac.schemas.declaration.template import template_names
from almanac.schemas.errors import UsageError


def compose_query(template: str | None, question: str, parts: Mapping[str, str] | None = None) -> str:
    """Composes the text to search for, without characters that no reader sees: cleaning has taken them out of the
    content, too.

    Args:
        template: The declared `retrieve.query`, such as `{product} {question}`. None: the parts, in their order, then
            the question, separated by spaces.
        question: The question; it takes precedence over a part named `question`.
        parts: Texts for the placeholders, by name. A missing or empty part is left out, with the literal text after its
            placeholder.

    Returns:
        The filled template; the question where that is empty.

    Raises:
        UsageError: A part has no placeholder in the template.
    """
    given = parts or {}
    if template is None:
        composed = " ".join(text for text in ({**given, "question": question}).values() if text.strip()).strip()
        return without_invisible(composed or question)
    if unknown := [name for name in given if name not in template_names(template)]:
        raise UsageError(
            f"retrieve.query has no placeholder for the part '{unknown[0]}'", where="--part", hint=f"it is {template!r}"
        )
    return without_invisible(fill(template, {**given, "question": question}) or question)
