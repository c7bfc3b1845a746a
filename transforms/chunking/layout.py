"""A text with the positions of its words, lines and sentences in any script, on which all chunking strategies are
based.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.core.sentences import sentence_spans
from almanac.transforms.chunking.headings import Heading, find_headings


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


# Scripts without spaces between words: each letter counts as a word, with its marks and closing punctuation.
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\u30fc"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javane"
    r"se}\p{Balinese}"
)
_BLOCK = 2000  # characters that are searched for sentences at a time
_LONGEST_UNIT = 64  # characters; a longer run counts as several words, so that no text is a single word
_WORD = regex.compile(
    rf"(?:(?=[\p{{Ps}}\p{{Pi}}])\X){{0,4}}(?=[{_UNSPACED}])\X(?:(?=[\p{{Pe}}\p{{Pf}}\p{{Po}}\p{{Pd}}\p{{Pc}}])\X)"
    rf"{{0,8}}"
    rf"|(?:(?![\s\x1c-\x1f{_UNSPACED}])\X){{1,{_LONGEST_UNIT}}}"
)
_GRAPHEME = regex.compile(r"\X")
_EXTENDS = regex.compile(r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]")
_LINE_BREAK = re.compile(r"(?>\r\n|[\n\r\v\f\x85\u2028\u2029])\s*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Ruler(Protocol):
    """Measures parts of a text in some unit."""

    def count(self, start: int, end: int) -> int:
        """The number of units that lie at least partly between two positions."""

    def end_of(self, start: int, units: int) -> int:
        """The furthest end that `units` units from `start` reach."""

    def start_of(self, end: int, units: int) -> int:
        """The earliest start from which `units` units reach `end`."""


class Characters:
    """Counts characters."""

    def __init__(self, text: str) -> None:
        self._length = len(text)

    def count(self, start: int, end: int) -> int:
        return end - start

    def end_of(self, start: int, units: int) -> int:
        return min(start + units, self._length)

    def start_of(self, end: int, units: int) -> int:
        return max(end - units, 0)


class Units:
    """Counts words or tokens, given as (start, end) in characters, in reading order."""

    def __init__(self, text: str, spans: Iterable[tuple[int, int]]) -> None:
        self._length = len(text)
        parts = [(at, min(at + _LONGEST_UNIT, end)) for start, end in spans for at in range(start, end, _LONGEST_UNIT)]
        self._starts = [start for start, _ in parts]
        self._ends = [end for _, end in parts]

    def count(self, start: int, end: int) -> int:
        return max(bisect_left(self._starts, end) - bisect_right(self._ends, start), 0)

    def end_of(self, start: int, units: int) -> int:
        following = bisect_right(self._ends, start) + units
        return max(self._starts[following], start) if following < len(self._starts) else self._length

    def start_of(self, end: int, units: int) -> int:
        preceding = bisect_left(self._starts, end) - units
        return self._ends[preceding - 1] if preceding > 0 else 0


class Layout:
    """A text in a language (BCP 47 tag) with a ruler in the declared unit and the rows of its tables. All positions are
    in characters of `text`.
    """

    def __init__(self, text: str, language: str, ruler: Ruler, table_rows: Sequence[Span] = ()) -> None:
        self.text = text
        self.language = language
        self.ruler = ruler
        self._table_rows = table_rows

    def length(self, span: Span) -> int:
        """The length of a span in the ruler's unit."""
        return self.ruler.count(span.start, span.end)

    @property
    def whole(self) -> Span:
        """The text without white space at its ends; empty if there is nothing else."""
        return self.trim(Span(0, len(self.text)))

    def trim(self, span: Span) -> Span:
        """The span without white space at either end."""
        part = self.text[span.start : span.end]
        start = span.start + len(part) - len(part.lstrip())
        return Span(start, max(start, span.end - len(part) + len(part.rstrip())))

    @cached_property
    def word_starts(self) -> Sequence[int]:
        """Start of each word."""
        return [start for start, _ in word_spans(self.text)]

    @cached_property
    def line_starts(self) -> Sequence[int]:
        """Start of each line that is not blank, except the first, and the line below the names of a table's columns."""
        return [match.end() for match in _LINE_BREAK.finditer(self.text) if not self.parts_row(match.end())]

    @cached_property
    def row_starts(self) -> Sequence[int]:
        """Start of each row of a table."""
        return [row.start for row in self._table_rows]

    def parts_row(self, position: int) -> bool:
        """Whether a position lies inside a row of a table."""
        return self.row_around(position) is not None

    def row_around(self, position: int) -> Span | None:
        """The row of a table that a position lies inside of."""
        number = bisect_left(self.row_starts, position) - 1
        row = self._table_rows[number] if number >= 0 else None
        return row if row is not None and row.start < position < row.end else None

    @cached_property
    def headings(self) -> Sequence[Heading]:
        """The headings of the text."""
        return list(find_headings(self.text))

    @cached_property
    def _with_following(self) -> Sequence[tuple[Span, int]]:
        """Each heading without white space at its ends, and where what follows it begins: the next heading, too."""
        spans = [self.trim(Span(heading.start, heading.end)) for heading in self.headings]
        return [(heading, max(heading.end, self.trim(Span(heading.end, len(self.text))).start)) for heading in spans]

    @cached_property
    def heading_starts(self) -> Sequence[int]:
        """Start of each heading."""
        return [heading.start for heading, _ in self._with_following]

    @cached_property
    def heading_ends(self) -> Sequence[int]:
        """Start of what follows each heading."""
        return [following for _, following in self._with_following]

    def begins_heading(self, position: int) -> bool:
        """Whether a heading begins at a position."""
        number = bisect_left(self.heading_starts, position)
        return number < len(self.heading_starts) and self.heading_starts[number] == position

    def parts_heading(self, position: int) -> bool:
        """Whether a cut at a position would end a chunk inside a heading, or with a heading that what follows it has
        been cut from.
        """
        number = bisect_left(self.heading_starts, position) - 1
        return number >= 0 and position <= self.heading_ends[number]

    def is_in_heading(self, position: int) -> bool:
        """Whether a position lies inside a heading, so that no chunk should begin there."""
        number = bisect_left(self.heading_starts, position) - 1
        return number >= 0 and position < self._with_following[number][0].end

    @cached_property
    def sentence_starts(self) -> Sequence[int]:
        """Start of each sentence by the rules of the language; never between a letter and its marks, nor inside a row
        of a table.
        """
        starts: list[int] = []
        for begin, end in _sentences(encodable(self.text), self.language):
            start = self.trim(Span(begin, end)).start
            is_parted = start and not self.text[start - 1].isspace() and _EXTENDS.match(self.text, start)
            if start < end and not is_parted and not self.parts_row(start):
                starts.append(start)
        return starts

    def cut_before(self, start: int, position: int) -> int:
        """The last boundary between letters (grapheme clusters) up to `position`, counted from `start`; `position`
        itself if one letter extends beyond it.
        """
        if position >= len(self.text):
            return len(self.text)
        cut = start
        for letter in _GRAPHEME.finditer(self.text, start):
            if letter.end() > position:
                break
            cut = letter.end()
        return cut if cut > start else position


def _sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each sentence, in order; of a sentence longer than a block, the part in its first block.

    `sentence_spans` takes quadratic time on text without line breaks, so it gets 2,000 characters at a time.
    """
    position, goes_on = 0, False
    while position < len(text):
        block = text[position : position + _BLOCK]
        sentences = [(position + begin, position + end) for begin, end in sentence_spans(block, language)]
        is_last = position + len(block) == len(text)
        # the last sentence may continue in the next block
        whole = sentences if is_last or len(sentences) == 1 else sentences[:-1]
        yield from whole[1:] if goes_on else whole
        goes_on = len(sentences) == 1
        position = whole[-1][1]


def word_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of each word; together they cover every visible character.

    A word is a run between white space, or a single letter in scripts without spaces between words.
    """
    return [match.span() for match in _WORD.finditer(text)]


def encodable(text: str) -> str:
    """The text with unpaired surrogates replaced, for libraries that need valid Unicode; its length stays the same."""
    return _SURROGATE.sub("\ufffd", text)
