"""Statements of a reply while it is written: sentences, list items, table rows, headings and blocks of code."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from almanac.core.sentences import sentence_spans
from almanac.query.answering.markers import MARKERS, without_markers

_AHEAD = 24  # characters behind a full stop that decide whether it ends a sentence; fewer only at the end of a line
_LINE_START = 12  # characters of a line that show what kind it is
_FENCE = re.compile(r"(`{3,}|~{3,})")
_HEADING = re.compile(r"(#{1,6})\s")
_ITEM = re.compile(r"(?:[-*+•·‣▪◦–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+")
_END = re.compile(rf"(?:[.!?…؟։።]+|(?P<full>[。！？।]+))[\"'”’»)\]*_]*(?P<marked>{MARKERS})?", re.IGNORECASE)
_OPEN_MARKER = re.compile(r"\s*[\[【［⟦][^\]】］⟧]{0,120}$|\([^()\s]{0,600}$")
_COLONS = (":", "：", ":**", ":*", ":__")
_COLON, _TABLE = 7, 8  # ranks of leads; a heading has its level


class Statement(NamedTuple):
    """A statement of a reply. The reply is `gap` + `text` of each.

    `lead` is the rank of a statement that leads in others (a heading, a line before a list, the head of a table), the
    smaller the wider; None for others.
    """

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
        self._held, self._is_first, self._in_table = "", True, False

    def feed(self, piece: str) -> list[Statement]:
        """Takes the next piece and returns the statements that are complete by now."""
        self._held += piece
        return list(self._read(is_final=False))

    def finish(self) -> list[Statement]:
        """Ends the reply and returns its last statements."""
        return list(self._read(is_final=True))

    def _read(self, *, is_final: bool) -> Iterator[Statement]:
        while text := self._held.lstrip():
            gap = self._held[: -len(text)]
            found = self._next(text, is_line_start="\n" in gap or self._is_first, is_final=is_final)
            if found is None:
                return
            length, lead = found
            yield Statement(gap, kept := text[:length].rstrip(), lead)
            self._held, self._is_first = text[len(kept) :], False

    def _next(self, text: str, *, is_line_start: bool, is_final: bool) -> tuple[int, int | None] | None:
        """Length of the statement that `text` begins with, and its rank as a lead; None where more input is needed."""
        line, stop, _ = text.partition("\n")
        is_complete = is_final or bool(stop)
        if is_line_start:
            if not is_complete and len(line) < _LINE_START:
                return None
            if fence := _FENCE.match(line):
                closed = re.compile(rf"\n[ \t]*{fence[1]}[`~]*[ \t]*(?=\n{'|$' if is_final else ''})").search(text)
                return (closed.end(), None) if closed else (len(text), None) if is_final else None
            heading, is_row = _HEADING.match(line), line.startswith("|")
            if heading or is_row or _ITEM.match(line):
                if not is_complete:
                    return None
                # the first row of a table and the rule below it are its head
                is_head = is_row and not (self._in_table and any(c.isalnum() for c in line))
                self._in_table = is_row
                return len(line), len(heading[1]) if heading else _TABLE if is_head else _rank(line)
            self._in_table = False
        for end in _END.finditer(line):
            rest = line[end.end() :]
            if not is_complete and (len(rest) < _AHEAD or _OPEN_MARKER.match(rest)):
                return None
            if rest.strip() and self._ends_sentence(line, end, rest):
                return end.end(), None
        return (len(line), _rank(line)) if is_complete else None

    def _ends_sentence(self, line: str, end: re.Match[str], rest: str) -> bool:
        """Whether a sentence ends with a full stop and its markers. Without white space behind it, as in Japanese, only
        letters may follow: nothing is torn apart that is a link or an address.
        """
        if not rest[0].isspace() and not ((end["full"] or end["marked"]) and rest[0].isalnum()):
            return False
        if end["marked"] and not rest.lstrip()[0].islower():
            return True
        before = without_markers(line[: end.end()]).rstrip()
        text = before + without_markers(rest[:_AHEAD])
        return any(len(text[:stop].rstrip()) == len(before) for _, stop in sentence_spans(text, self._language))


def _rank(line: str) -> int | None:
    return _COLON if without_markers(line).rstrip().endswith(_COLONS) else None
