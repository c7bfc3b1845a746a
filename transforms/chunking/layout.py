"""A text, and where its words, lines and sentences begin: found once, in any script. Every way to cut goes by it."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import regex  # type: ignore[import-untyped]  # ships no types
from sentencex import get_sentence_boundaries


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


# Scripts that put no space between words: each letter counts as a word there, with its marks and the punctuation that closes it.
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\u30fc"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javanese}\p{Balinese}"
)
_BLOCK = 2000  # characters in which sentences are looked for at once
_LONGEST_UNIT = 64  # what is longer counts once for every so many characters: no text is a single word
_WORD = regex.compile(
    rf"(?:(?=[\p{{Ps}}\p{{Pi}}])\X){{0,4}}(?=[{_UNSPACED}])\X(?:(?=[\p{{Pe}}\p{{Pf}}\p{{Po}}\p{{Pd}}\p{{Pc}}])\X){{0,8}}"
    rf"|(?:(?![\s\x1c-\x1f{_UNSPACED}])\X){{1,{_LONGEST_UNIT}}}"
)
_GRAPHEME = regex.compile(r"\X")
_EXTENDS = regex.compile(r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]")
_LINE_BREAK = re.compile(r"(?>\r\n|[\n\r\v\f\x85\u2028\u2029])\s*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Ruler(Protocol):
    """How long a part of a text is, in some unit."""

    def count(self, start: int, end: int) -> int:
        """Units of which anything lies between the two characters."""

    def end_of(self, start: int, units: int) -> int:
        """The furthest end that so many units reach from `start`."""

    def start_of(self, end: int, units: int) -> int:
        """The earliest start from which so many units reach `end`."""


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
    """Counts words or tokens, given as ranges of characters in reading order."""

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
    """A text in a language (BCP 47), with a ruler in the declared unit. All positions are characters of `text`."""

    def __init__(self, text: str, language: str, ruler: Ruler) -> None:
        self.text = text
        self.language = language
        self.ruler = ruler

    def length(self, span: Span) -> int:
        """How long it is, in the ruler's unit."""
        return self.ruler.count(span.start, span.end)

    @property
    def whole(self) -> Span:
        """All of the text but white space at its ends; empty where there is nothing else."""
        return self.trim(Span(0, len(self.text)))

    def trim(self, span: Span) -> Span:
        """Without white space at either end."""
        part = self.text[span.start : span.end]
        start = span.start + len(part) - len(part.lstrip())
        return Span(start, max(start, span.end - len(part) + len(part.rstrip())))

    @cached_property
    def word_starts(self) -> Sequence[int]:
        return [start for start, _ in word_spans(self.text)]

    @cached_property
    def line_starts(self) -> Sequence[int]:
        """Where a line begins that holds anything, but for the first."""
        return [match.end() for match in _LINE_BREAK.finditer(self.text)]

    @cached_property
    def sentence_starts(self) -> Sequence[int]:
        """By the rules of the language; never between a letter and its marks."""
        starts: list[int] = []
        for begin, end in _sentences(encodable(self.text), self.language.partition("-")[0].lower()):
            start = self.trim(Span(begin, end)).start
            if start < end and (not start or self.text[start - 1].isspace() or not _EXTENDS.match(self.text, start)):
                starts.append(start)
        return starts

    def cut_before(self, start: int, position: int) -> int:
        """The last place up to `position` that is between letters, counted from `start`; `position` itself where one letter is longer than that."""
        if position >= len(self.text):
            return len(self.text)
        cut = start
        for letter in _GRAPHEME.finditer(self.text, start):
            if letter.end() > position:
                break
            cut = letter.end()
        return cut if cut > start else position


def _sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each sentence, in order. Of one that goes over the end of a block, what stands in that block.

    The library takes quadratic time for what has no line break (13 s for 160,000 characters of Chinese), so it sees one block after the other.
    """
    position, goes_on = 0, False
    while position < len(text):
        block = text[position : position + _BLOCK]
        found = [(position + one["start_index"], position + one["end_index"]) for one in get_sentence_boundaries(language, block)]
        is_last = position + len(block) == len(text)
        whole = found if is_last or len(found) == 1 else found[:-1]  # the last may go on behind the block
        yield from whole[1:] if goes_on else whole
        goes_on = len(found) == 1
        position = whole[-1][1]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Every visible character is in one: runs between white space, and single letters of scripts that put no space between words."""
    return [match.span() for match in _WORD.finditer(text)]


def encodable(text: str) -> str:
    """The text for libraries that want valid Unicode: of the same length, to the character."""
    return _SURROGATE.sub("\ufffd", text)
