"""Arguments of a search, as callers in Python and on the command line give them: parsed, refused before anything is
read or embedded, and composed to the text that is searched for.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from almanac.core.invisible import without_invisible
from almanac.schemas.errors import UsageError


def parse_where(text: str | None) -> dict[str, Any] | None:
    """Parses the JSON object of `--where` into a filter; None for None. Raises UsageError for anything else."""
    hint = """write it like --where '{"kind": "record"}'"""
    try:
        where = None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where="--where", hint=hint) from error
    if text is not None and not isinstance(where, dict):
        raise UsageError(f"a filter is a JSON object; found {text}", where="--where", hint=hint)
    return where


def parse_parts(parts: Sequence[str] | None) -> dict[str, str]:
    """Parses the values of `--part NAME=TEXT` into name → text. Raises UsageError for another form."""
    named = {}
    for part in parts or ():
        name, equals, text = part.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"not NAME=TEXT: {part!r}", where="--part", hint="write it like --part product='Kettle 2'")
        named[name] = text
    return named


def require_arguments(question: str, k: int | None, floor: float | None, parts: Mapping[str, str] | None) -> None:
    """Raises UsageError for a question that is blank or not valid UTF-8, a number of hits that is none, a floor that is
    no cosine, and parts that are no texts by name.
    """
    if not question.strip():
        raise UsageError("the question is empty", hint="ask something")
    if any("\ud800" <= c <= "\udfff" for c in question):
        raise UsageError("the question is not valid UTF-8", hint="check the terminal's or the caller's encoding")
    if k is not None and (not isinstance(k, int) or k < 1):
        hint = "1 or more; without it, as many as declared"
        raise UsageError(f"k must be at least 1, and a whole number; found {k!r}", where="-k", hint=hint)
    if floor is not None and not (isinstance(floor, int | float) and -1 <= floor <= 1):
        hint = "such as 0.3; without it, as declared"
        raise UsageError(f"floor is a cosine from -1 to 1; found {floor!r}", where="--floor", hint=hint)
    if parts is not None and not (
        isinstance(parts, Mapping) and all(isinstance(text, str) for pair in parts.items() for text in pair)
    ):
        hint = "such as {'product': 'Kettle 2'}"
        raise UsageError(f"parts are texts by name; found {parts!r}", where="parts", hint=hint)


def require_temperature(temperature: float | None) -> None:
    """Raises UsageError for a temperature outside 0 to 2."""
    if temperature is not None and not 0 <= temperature <= 2:
        hint = "0 gives the most likely answer"
        raise UsageError(f"temperature must be from 0 to 2; found {temperature}", where="temperature", hint=hint)


def require_history(history: Sequence[Mapping[str, str]]) -> None:
    """Raises UsageError unless a history is a list of messages. What they hold is up to who reads them."""
    if (
        isinstance(history, str | Mapping)
        or not isinstance(history, Sequence)
        or not all(isinstance(message, Mapping) for message in history)
    ):
        hint = "such as [{'role': 'user', 'content': 'What does the kettle cost?'}]"
        raise UsageError(f"history is a list of messages; found {history!r}", where="history", hint=hint)


def compose_query(template: str | None, question: str, parts: Mapping[str, str] | None = None) -> str:
    """Composes the text to search for, without characters that no reader sees: cleaning has taken them out of the
    content, too. The question where that is empty.

    Args:
        template: The declared `retrieve.query`, such as `{product} {question}`. None: the parts, in their order, then
            the question, separated by spaces.
        question: The question; it takes precedence over a part named `question`.
        parts: Texts for the placeholders, by name. A missing or empty part is left out, with the literal text after its
            placeholder.

    Raises UsageError for a part that has no placeholder in the template.
    """
    given = parts or {}
    if template is None:
        composed = " ".join(text for text in ({**given, "question": question}).values() if text.strip()).strip()
        return without_invisible(composed or question)
    from almanac.core.templates import fill
    from almanac.schemas.declaration.template import template_names

    if unknown := [name for name in given if name not in template_names(template)]:
        raise UsageError(
            f"retrieve.query has no placeholder for the part '{unknown[0]}'", where="--part", hint=f"it is {template!r}"
        )
    return without_invisible(fill(template, {**given, "question": question}) or question)
