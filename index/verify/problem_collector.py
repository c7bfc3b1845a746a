"""Reporting of problems found by a verification."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from almanac.schemas.reports import Problem

_LISTED = 100  # problems reported per kind, at most
_SHOWN = 200  # characters of a value shown in a problem


class ProblemCollector:
    """Passes on problems as they are found, at most 100 of each kind, with values cut to 200 characters.

    `inside` is the public path of what is verified, relative to the knowledge base's index, such as `segments/NAME/`;
    it precedes all places but those of the vector store, which is outside of it.
    """

    def __init__(self, send: Callable[[Problem], None], inside: str = "") -> None:
        self._send, self._inside = send, inside
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, where: str, found: Any = None, expected: Any = None) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= _LISTED:
            place = where if where.startswith(("/", "vectors/")) else f"{self._inside}{where}"
            self._send(Problem(kind=kind, where=place, found=_shown(found), expected=_shown(expected)))


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else str(value)[:_SHOWN]
