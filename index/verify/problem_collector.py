"""Reporting of problems found by a verification."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from almanac.schemas.reports import Problem

_LISTED = 100  # problems reported per kind, at most
_SHOWN = 200  # characters of a value shown in a problem


class ProblemCollector:
    """Passes on problems as they are found, at most 100 of each kind, with values cut to 200 characters."""

    def __init__(self, send: Callable[[Problem], None]) -> None:
        self._send = send
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, where: str, found: Any = None, expected: Any = None) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= _LISTED:
            self._send(Problem(kind=kind, where=where, found=_shown(found), expected=_shown(expected)))


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else str(value)[:_SHOWN]
