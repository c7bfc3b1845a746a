"""Arguments of a search, as callers in Python and on the command line give them: parsed, and refused before anything is
read or embedded.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from almanac.schemas.errors import UsageError


def parse_where(text: str | None) -> dict[str, Any] | None:
    """Parses the JSON object of `--where` into a filter; None for None. Raises UsageError where it is not a JSON
    object.
    """
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"not JSON: {error}", where="--where", hint="""write it like --where '{"kind": "record"}'"""
        ) from error
    if not isinstance(where, dict):
        raise UsageError(
            f"a filter is a JSON object; found {text}",
            where="--where",
            hint='write it like --where \'{"kind": "record"}\'',
        )
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


def require_text(question: str) -> None:
    """Raises UsageError for a question that is blank or not valid UTF-8."""
    if not question.strip():
        raise UsageError("the question is empty", hint="ask something")
    if any("\ud800" <= c <= "\udfff" for c in question):
        raise UsageError("the question is not valid UTF-8", hint="check the terminal's or the caller's encoding")


def require_hits(k: int | None) -> None:
    """Raises UsageError for a number of hits that is none; None stands for as many as declared."""
    if k is not None and (not isinstance(k, int) or k < 1):
        raise UsageError(
            f"k must be at least 1, and a whole number; found {k!r}",
            where="-k",
            hint="1 or more; without it, as many as declared",
        )


def require_floor(floor: float | None) -> None:
    """Raises UsageError for a floor that is no cosine; None stands for the declared one."""
    if floor is not None and not (isinstance(floor, int | float) and -1 <= floor <= 1):
        raise UsageError(
            f"floor is a cosine from -1 to 1; found {floor!r}",
            where="--floor",
            hint="such as 0.3; without it, as declared",
        )


def require_parts(parts: Mapping[str, str] | None) -> None:
    """Raises UsageError unless the parts of a query template are texts by name."""
    if parts is not None and not (
        isinstance(parts, Mapping) and all(isinstance(one, str) for pair in parts.items() for one in pair)
    ):
        raise UsageError(
            f"parts are texts by name; found {parts!r}", where="parts", hint="such as {'product': 'Kettle 2'}"
        )


def require_history(history: Sequence[Mapping[str, str]]) -> None:
    """Raises UsageError unless a history is a list of messages. What they hold is up to who reads them."""
    if (
        isinstance(history, str | Mapping)
        or not isinstance(history, Sequence)
        or not all(isinstance(one, Mapping) for one in history)
    ):
        hint = "such as [{'role': 'user', 'content': 'What does the kettle cost?'}]"
        raise UsageError(f"history is a list of messages; found {history!r}", where="history", hint=hint)
