"""What a figure is: what it may mean, and what it shows."""

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import NamedTuple

Atom = tuple[str, ...]  # ("number", "9500000"), ("date", "2026", "11", "14"), …
Atoms = frozenset[Atom]
IS_PERCENT: Atom = ("percent",)
READ, READ_TIME = "\0", "\1"  # masks of what has been read, so that places stay


class Figure(NamedTuple):
    """A figure of a text.

    `readings` are what it may mean: a text states the figure if it shows all atoms of one of them. `shows` is what the
    figure itself shows. `is_count` is whether it may be a count or an age, a whole number below 100 without currency,
    unit or percent sign.
    """

    text: str
    readings: tuple[Atoms, ...]
    shows: Atoms
    is_count: bool = False


Read = Callable[[re.Match[str], str], list[Figure] | None]
"""Makes figures of a match in a text; None leaves the match to other readers."""
Reader = tuple[re.Pattern[str], Read, str]
"""A pattern, how its matches are read, and the mask that they leave behind."""


def number_of(value: Decimal | int | str) -> Atom:
    return ("number", format(Decimal(value).normalize(), "f"))


def figure_as(text: str, *readings: Iterable[Atom], shows: Iterable[Atom] = (), is_count: bool = False) -> Figure:
    """A figure with these readings, which shows all atoms of its readings and `shows`."""
    sets = tuple(frozenset(reading) for reading in readings)
    return Figure(text, sets, frozenset(shows).union(*sets), is_count)


def either(text: str, figures: Iterable[Figure | None]) -> list[Figure] | None:
    """One figure that may be any of these; None where there is none."""
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    return [
        Figure(
            text,
            tuple(r for f in known for r in f.readings),
            frozenset().union(*(f.shows for f in known)),
            all(f.is_count for f in known),
        )
    ]
