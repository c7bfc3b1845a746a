"""Tells a PDF's page numbers, with the lines that they stand in: lines at the edge of the pages that are the same, in
the same place, but for a page number.

Numbers that grow with the pages may as well be content ("Day 1", "Day 2"; a year, a price). So a line with a page
number is one of these:

- the number of the page by itself, `12`, `- iv -`, or apart from words that other pages have there, too: `Chapter 2
  12`;
- a number and how many pages there are: `Page 3 of 12`, `3/12`;
- at the bottom, one word and then the number, or the number parted from words by a mark: `Page 3`, `3 | Rules`;
- what the file itself calls no content; of numbers by themselves, what its page labels name.

Pages are counted from the first or from one behind it, never from one before it. What is larger than the text or,
beside words, bold, is a heading.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from statistics import median
from typing import Literal

from almanac.spiders.reading.paragraphs import PdfLine

_LINES_AT_THE_EDGE = 3
_MIN_PAGES = 3
_NEARLY_ALL = 0.8
_LARGER = 1.15  # times the usual size: a heading
_APART = 6.0  # times the height of the letters: a number so far from words belongs to none of them
_PLACE = 3.0  # points that a line may be off its place
_NUMBER = re.compile(r"(?<![\w.,])(?:(?P<figures>\d{1,4})|(?P<roman>[ivxlc]+|[IVXLC]+))(?!\w|[.,]\d)")
_FIGURES = re.compile(r"(?<![\w.,])\d{1,4}(?![\w.,])")
_ROMAN = re.compile(r"(c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})", re.IGNORECASE)
_ROMAN_FIGURES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_MOST_NUMBERS = 20  # of a row; one with more is a row of a table, and would be noted as often as it has numbers
_SLOT = "\0"  # stands for the page number
_LAST = re.compile(r"(?:^|\t)\W*[^\W\d_]+\.? ?\0\W*(?:\t|$)")
_PARTED = re.compile(r"^\W*\0\s*[^\w\s.,()]+\s|\s[^\w\s.,()]+\s*\0\W*$")

Edge = Literal["top", "bottom"]


@dataclass(frozen=True, slots=True)
class PdfPage:
    """The rows of a page, each as its pieces from left to right; how many points it is high, and what the file calls it
    (empty if it does not).
    """

    rows: list[list[PdfLine]]
    height: float
    label: str = ""

    @property
    def lines(self) -> list[PdfLine]:
        return list(chain.from_iterable(self.rows))


@dataclass(frozen=True, slots=True)
class _Row:
    """What is printed at one height, from left to right, `at` so many points from the edge of the page."""

    page: int
    edge: Edge
    at: float
    pieces: list[PdfLine]

    @property
    def text(self) -> str:
        return "\t".join(" ".join(piece.text.split()) for piece in self.pieces)

    @property
    def is_artifact(self) -> bool:
        return all(piece.is_artifact for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A row, seen as one with a page number in it: `text` with a slot for the number, and the pieces that have a place
    of their own.
    """

    row: _Row
    text: str = ""
    number: int = 0
    written: str = ""
    placed: Sequence[PdfLine] = ()


# edge, the text with a slot for the number (empty if that stands alone), notation of the number, number less page
Key = tuple[Edge, str, str, int]


def rows_with_page_numbers(pages: Sequence[PdfPage]) -> list[list[PdfLine]]:
    """What is printed at one height, where that is nothing but what other pages have there, too, and the number of the
    page.
    """
    sizes = [line.size for page in pages for line in page.lines]
    usual = median(sizes) if sizes else 0.0
    groups: dict[Key, list[_Numbered]] = defaultdict(list)
    for number, page in enumerate(pages, start=1):
        for row in _edge_rows(page, number):
            for key, numbered in _readings(row):
                groups[key].append(numbered)
    groups = {key: placed for key, group in groups.items() if len(placed := _in_place(group)) > 1}
    counting = {
        key: group
        for key, group in groups.items()
        if len(group) >= _MIN_PAGES and _counts_pages(key, group, pages, usual)
    }
    for key, group in groups.items():  # the pages counted i, ii before 1, 2, 3
        if (
            key not in counting
            and key[3] <= 0
            and any(key[:2] == other_key[:2] and _is_alike(group, counting[other_key]) for other_key in list(counting))
        ):
            counting[key] = group
    return [numbered.row.pieces for group in counting.values() for numbered in _alike(group)]


def _alike(group: list[_Numbered]) -> list[_Numbered]:
    """Those of which the text but for the number is also on another page, or no text at all."""
    counts = Counter(numbered.text for numbered in group)
    return [numbered for numbered in group if counts[numbered.text] > 1 or not any(map(str.isalnum, numbered.text))]


def repeated_lines(pages: Sequence[PdfPage]) -> tuple[list[list[PdfLine]], list[list[PdfLine]]]:
    """Rows at the edge that nearly every page has, all alike, at the same place; and those of them that say nothing
    anew.

    Alike rows may be content, as labels of a form are. The latter are those that the file itself calls no content, from
    their second page on.
    """
    groups: dict[tuple[Edge, str], list[_Numbered]] = defaultdict(list)
    for number, page in enumerate(pages, start=1):
        for row in _edge_rows(page, number):
            groups[row.edge, row.text].append(_Numbered(row, placed=row.pieces))
    repeated = [
        group for group in map(_in_place, groups.values()) if len(group) >= _MIN_PAGES and _is_on_nearly_all(group)
    ]
    running = [numbered.row.pieces for group in repeated for numbered in group]
    gone = [
        numbered.row.pieces
        for group in repeated
        if all(other.row.is_artifact for other in group)
        for numbered in group[1:]
    ]
    return running, gone


def _edge_rows(page: PdfPage, number: int) -> Iterator[_Row]:
    rows: list[list[PdfLine]] = []
    for line in sorted((line for line in page.lines if not line.lies_behind), key=lambda line: (-line.top, line.left)):
        if rows and rows[-1][0].top - line.top < line.size / 2:
            rows[-1].append(line)
        else:
            rows.append([line])
    for pieces in (*rows[:_LINES_AT_THE_EDGE], *rows[_LINES_AT_THE_EDGE:][-_LINES_AT_THE_EDGE:]):
        above, below = page.height - pieces[0].top, pieces[0].top
        edge: Edge = "top" if above < below else "bottom"
        yield _Row(number, edge, min(above, below), sorted(pieces, key=lambda piece: piece.left))


def _readings(row: _Row) -> Iterator[tuple[Key, _Numbered]]:
    text = row.text
    numbers = list(islice(_NUMBER.finditer(text), _MOST_NUMBERS + 1))
    for match in numbers if len(numbers) <= _MOST_NUMBERS else ():
        value = int(match[0]) if match["figures"] else _roman(match[0])
        if value:
            notation = "1" if match["figures"] else "i" if match[0].islower() else "I"
            around = f"{text[: match.start()]}{_SLOT}{text[match.end() :]}"
            piece = text[: match.start()].count("\t")
            if _is_alone(row.pieces, piece, match[0]):
                yield (
                    (row.edge, "", notation, value - row.page),
                    _Numbered(row, around, value, match[0], row.pieces[piece : piece + 1]),
                )
            else:
                yield (
                    (row.edge, around, notation, value - row.page),
                    _Numbered(row, around, value, match[0], row.pieces),
                )


def _is_alone(pieces: Sequence[PdfLine], place: int, written: str) -> bool:
    """Whether a number stands apart from words, far from those in the same row."""
    piece = pieces[place]
    gaps = [max(piece.left - other.right, other.left - piece.right) for other in pieces if other is not piece]
    return (
        not any(map(str.isalnum, piece.text.replace(written, "", 1)))
        and min(gaps, default=_APART * piece.size) >= _APART * piece.size
    )


def _roman(written: str) -> int:
    """The value of a Roman number; 0 if it is none."""
    if not _ROMAN.fullmatch(written):
        return 0
    values = [_ROMAN_FIGURES[letter] for letter in written.lower()]
    return sum(-value if value < following else value for value, following in pairwise([*values, 0]))


def _in_place(group: list[_Numbered]) -> list[_Numbered]:
    """Those that stand as far from the edge as most, and below or above another one, by one of their ends or their
    middle.
    """
    at = median(numbered.row.at for numbered in group)
    level = [numbered for numbered in group if abs(numbered.row.at - at) < _PLACE]
    below: set[int] = set()
    for place_of in (_left, _right, _middle):
        in_order = sorted(range(len(level)), key=lambda number: place_of(level[number]))
        below |= {
            number
            for pair in pairwise(in_order)
            if abs(place_of(level[pair[0]]) - place_of(level[pair[1]])) < _PLACE
            for number in pair
        }
    return [level[number] for number in sorted(below)]


def _left(numbered: _Numbered) -> float:
    return numbered.placed[0].left


def _right(numbered: _Numbered) -> float:
    return numbered.placed[-1].right


def _middle(numbered: _Numbered) -> float:
    return (_left(numbered) + _right(numbered)) / 2


def _is_alike(group: list[_Numbered], other: list[_Numbered]) -> bool:
    return bool(group) and bool(other) and abs(group[0].row.at - other[0].row.at) < _PLACE


def _counts_pages(key: Key, group: list[_Numbered], pages: Sequence[PdfPage], usual: float) -> bool:
    edge, text, _, offset = key
    if not _is_on_nearly_all(group):
        return False
    if all(piece.is_artifact for numbered in group for piece in numbered.placed):
        return True
    if not text and all(numbered.written == pages[numbered.row.page - 1].label for numbered in group):
        return True
    if offset > 0 or any(
        piece.size > _LARGER * usual or (text and piece.is_bold) for numbered in group for piece in numbered.placed
    ):
        return False
    if not text:
        return True
    last = max(numbered.number for numbered in group)
    totals = [int(figures) for figures in _FIGURES.findall(text)]
    if (
        last in totals
        or len(pages) in totals
        or (
            edge == "bottom"
            and len(totals) == 1
            and totals[0] >= last
            and not _FIGURES.search(text.partition(_SLOT)[0])
        )
    ):
        return True
    is_last = edge == "bottom" and (_LAST.search(text) or _PARTED.search(text)) is not None
    return is_last and len(group) >= _NEARLY_ALL * len(pages)


def _is_on_nearly_all(group: list[_Numbered]) -> bool:
    """Whether nearly all pages from the first to the last have it, or all left or all right ones."""
    numbers = [numbered.row.page for numbered in group]
    step = 2 if len({number % 2 for number in numbers}) == 1 and len(numbers) > 1 else 1
    return len(numbers) >= _NEARLY_ALL * ((max(numbers) - min(numbers)) // step + 1)
