"""Figures: how much of a truth was found, and what was not."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_STRAIGHT = (
    {ord(c): "'" for c in "‘’‚‛"} | {ord(c): '"' for c in "“”„‟"} | dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
)


@dataclass(slots=True)
class Figure:
    """`count` of `expected`; anything from `floor` up is good enough, and without a floor all of it has to be there."""

    what: str
    count: int
    expected: int
    differences: list[str] = field(default_factory=list)
    floor: int | None = None

    @property
    def holds(self) -> bool:
        return (self.expected if self.floor is None else self.floor) <= self.count <= self.expected

    def __str__(self) -> str:
        floor = "" if self.floor is None else f" (at least {self.floor})"
        return f"{self.what}: {self.count} of {self.expected}{floor}" + "".join(
            f"\n    {d}" for d in self.differences[:20]
        )


def equal(what: str, actual: Mapping[str, Any], expected: Mapping[str, Any], floor: int | None = None) -> Figure:
    """How many keys have the value that they should have; keys that nobody expects are told as differences."""
    wrong = [
        f"{_short(key)}: found {_short(actual.get(key))}, expected {_short(value)}"
        for key, value in expected.items()
        if actual.get(key) != value
    ]
    surplus = [f"{key}: not expected" for key in actual.keys() - expected.keys()]
    return Figure(what, len(expected) - len(wrong), len(expected), [*wrong, *sorted(surplus)], floor)


def contained(
    what: str, text_of: Mapping[str, str], segments: Iterable[tuple[str, str]], floor: int | None = None
) -> Figure:
    """How many of the segments `(key, text)` stand in the text of that key, whatever the white space between words."""
    wanted = list(segments)
    texts = {key: squeeze(text) for key, text in text_of.items()}
    missing = [f"{key}: {_short(segment)}" for key, segment in wanted if squeeze(segment) not in texts.get(key, "")]
    return Figure(what, len(wanted) - len(missing), len(wanted), missing, floor)


def kept_out(
    what: str, text_of: Mapping[str, str], segments: Iterable[tuple[str, str]], floor: int | None = None
) -> Figure:
    """How many of the segments do not stand in the text of their key."""
    wanted = list(segments)
    texts = {key: squeeze(text) for key, text in text_of.items()}
    let_in = [f"{key}: {_short(segment)}" for key, segment in wanted if squeeze(segment) in texts.get(key, "")]
    return Figure(what, len(wanted) - len(let_in), len(wanted), let_in, floor)


def squeeze(text: str) -> str:
    """Single spaces, straight quotes, Unicode NFC: what `clean: standard` promises, said in other words."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_STRAIGHT).split())


def _short(value: Any) -> str:
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 160 else f"{shown[:100]} … {shown[-50:]}"
