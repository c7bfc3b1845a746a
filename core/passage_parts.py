"""Layout of a record's passage, for those that write and that read it.

Short values come first, one a line as `Label: value`. Each long text follows behind an empty line, below a line with
its label and a colon:

    Price, adult: 9.500.000 ₫
    Departure: 14/11/2026

    Cancellation policy:
    15 days or more before sailing: 10% of the price is kept
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_HEADING = re.compile(r"(?:\A|\n\n)([^\n:]+):\n(?=[^\n])")
# also those below: behind the empty line after the first, they would be headings
_LIKE_HEADINGS = re.compile(r"(?<=\n\n)(?:[^\n:]+:\n)+(?=[^\n])")
_COLON = re.compile(r"\s*[:：]+(?=\s|$)|[:：]+$")


class Part(NamedTuple):
    """A field in a passage: `passage[start:end]` is its value (offsets in characters), `begin` where its label begins.
    A line or a long text.
    """

    label: str
    begin: int
    start: int
    end: int
    is_line: bool


def parts_of(passage: str) -> Iterator[Part]:
    """The fields of a passage, in order."""
    headings = list(_HEADING.finditer(passage))
    head = passage[: headings[0].start()] if headings else passage
    begin = 0
    for line in head.split("\n") if head else ():
        label, colon, _ = line.partition(": ")
        start = begin + len(label) + len(colon) if colon else begin
        yield Part(label if colon else "", begin, start, begin + len(line), is_line=True)
        begin += len(line) + 1
    for number, heading in enumerate(headings):
        end = headings[number + 1].start() if number + 1 < len(headings) else len(passage)
        yield Part(heading[1], heading.start(1), heading.end(), end, is_line=False)


def lay_out(lines: Iterable[tuple[str, str]], texts: Iterable[tuple[str, str]]) -> str:
    """The passage of (label, value) pairs: lines, whose values are one line each, then long texts."""
    head = "\n".join(f"{_plain(label)}: {value}" for label, value in lines)
    # A lead-in within a text is told from a label by the empty line behind it.
    blocks = (
        f"{_plain(label)}:\n" + _LIKE_HEADINGS.sub(lambda match: match[0].replace("\n", "\n\n"), value)
        for label, value in texts
    )
    return "\n\n".join(filter(None, [head, *blocks]))


def _plain(label: str) -> str:
    return _COLON.sub("", " ".join(label.split())).replace(":", "\u2236")
