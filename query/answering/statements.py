"""Statements of a reply while it is written: sentences, list items, table rows, headings and blocks of code."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from almanac.core.multiplier_words import POWERS
from almanac.query.answering.figure_words import month_of
from almanac.query.answering.markers import without_markers
from almanac.query.answering.sentences import split

_AHEAD = 24  # characters after a full stop that decide whether it ends a sentence; fewer only at the end of a line
_LINE_START = 12  # characters of a line that show what kind it is
_FENCE = re.compile(r"(`{3,}|~{3,})")
_HEADING = re.compile(r"(#{1,6})\s")
_ITEM = re.compile(r"(?:[-*+•·‣▪◦–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+")
_ROW = re.compile(r"\|")
_END = re.compile(r"[.!?…。！？؟।։။።]+[\"'”’»)\]*_]*(?:\s*\[\d{1,3}\])*")
_MARKED = re.compile(r"\s*\[\d{1,3}\]$")
_ORDINAL = re.compile(r"\d\.$")
_LAST_WORD = re.compile(r"([^\W\d_]+)\.$")
# Abbreviations behind a number, which a sentence in another language than the one of the splitter may have.
_ABBREVIATED = frozenset(word for word in POWERS if 1 < len(word) <= 4 and word.isalpha()) - {"mil", "mila", "lakh"}
_COLONS = (":", "：", ":**", ":*", ":__")
_HEADINGS, _COLON, _TABLE = 0, 7, 8  # ranks of leads; a heading has its level


class Statement(NamedTuple):
    """A statement of a reply. The reply is `gap` + `text` of each; `start` is the offset of `text` in it.

    `lead` is the rank of a statement that leads in others (a heading, a line before a list, the head of a table), the
    smaller the wider; None for others.
    """

    start: int
    gap: str
    text: str
    lead: int | None


class StatementReader:
    """Streaming splitter of a reply into statements. They do not depend on how the input is cut into pieces.

    `language` is the BCP 47 tag of the reply, `und` where it is not known. White space at the end of the reply is left
    out.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._held = ""
        self._offset = 0  # of `_held` in the reply
        self._in_table = False

    def feed(self, piece: str) -> list[Statement]:
        """Takes the next piece and returns the statements that are complete by now."""
        self._held += piece
        return list(self._read(is_final=False))

    def finish(self) -> list[Statement]:
        """Ends the reply and returns its last statements."""
        return list(self._read(is_final=True))

    def _read(self, *, is_final: bool) -> Iterator[Statement]:
        while self._held.strip():
            begin = len(self._held) - len(self._held.lstrip())
            gap = self._held[:begin]
            found = self._length(begin, is_line_start="\n" in gap or self._offset == 0, is_final=is_final)
            if found is None:
                return
            length, lead = found
            text = self._held[begin : begin + length]
            kept = text.rstrip()
            yield Statement(self._offset + begin, gap, kept, lead)
            self._held = self._held[begin + len(kept) :]
            self._offset += begin + len(kept)

    def _length(self, begin: int, *, is_line_start: bool, is_final: bool) -> tuple[int, int | None] | None:
        """Length of the statement at `begin`, with its rank as a lead; None where more input is needed."""
        held = self._held
        line_end = held.find("\n", begin)
        is_complete = is_final or line_end >= 0
        line = held[begin : line_end if line_end >= 0 else len(held)]
        if is_line_start:
            if not is_complete and len(line) < _LINE_START:
                return None
            if fence := _FENCE.match(line):
                return self._block(begin, fence[1], is_final=is_final)
            heading, is_row = _HEADING.match(line), bool(_ROW.match(line))
            if heading or is_row or _ITEM.match(line):
                if not is_complete:
                    return None
                # The first row of a table and the rule below it are its head.
                is_head = is_row and (not self._in_table or not any(c.isalnum() for c in line))
                self._in_table = is_row
                return len(line), len(heading[1]) if heading else _TABLE if is_head else _COLON if _leads(
                    line
                ) else None
            self._in_table = False
        for end in _END.finditer(line):
            if not is_complete and len(line) < end.end() + _AHEAD:
                return None
            if end.end() < len(line.rstrip()) and self._ends_sentence(line, end.end()):
                return end.end(), None
        return (len(line), _COLON if _leads(line) else None) if is_complete else None

    def _block(self, begin: int, fence: str, *, is_final: bool) -> tuple[int, None] | None:
        """A block of code to the end of its last line, or to the end of the reply."""
        closing = re.compile(
            rf"\n[ \t]*{re.escape(fence)}[`~]*[ \t]*(?=\n|$)"
            if is_final
            else rf"\n[ \t]*{re.escape(fence)}[`~]*[ \t]*(?=\n)"
        )
        found = closing.search(self._held, begin)
        if found:
            return found.end() - begin, None
        return (len(self._held) - begin, None) if is_final else None

    def _ends_sentence(self, line: str, end: int) -> bool:
        """Whether a sentence of a line ends at `end`, where a full stop is: so if a marker follows it, else by the
        sentence splitter, without markers.
        """
        before = without_markers(line[:end]).rstrip()
        after = without_markers(line[end : end + _AHEAD])
        following = after.split(maxsplit=1)[:1]
        if _MARKED.search(line[:end]) and following and not following[0][0].islower():
            return True
        if _ORDINAL.search(before) and following and month_of(following[0]):
            return False
        if (word := _LAST_WORD.search(before)) and word[1].casefold() in _ABBREVIATED:
            return False
        return any(stop == len(before) for _, stop in split(before + after, self._language))


def _leads(line: str) -> bool:
    return without_markers(line).rstrip().endswith(_COLONS)
