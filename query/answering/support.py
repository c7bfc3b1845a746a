"""Support of a generated reply: statements with figures that no cited passage states are left out while the reply is
written.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from almanac.query.answering.credit import Credit
from almanac.query.answering.figure_words import NO, NOT, month_of
from almanac.query.answering.figures import Stated, figures_of
from almanac.query.answering.markers import Marked, without_markers
from almanac.query.answering.statements import Statement, StatementReader
from almanac.schemas.results import Hit

_NUMBERING = re.compile(r"(?:#{1,6}\s+)?\(?\d{1,3}(?:\.\d{1,2})*[.)]\s+(?=(\S*))")
_NO, _NOT = re.compile(NO, re.IGNORECASE), re.compile(NOT, re.IGNORECASE)


def states(hit: Hit) -> Stated:
    """What a hit states in figures: in its passage, text, title and metadata."""
    return Stated([hit.readable, hit.text, hit.title, *_values(hit.metadata)])


def is_supported(statement: str, stated: Stated, asked: Stated) -> bool:
    """Whether all figures of a statement stand in what its passages state.

    Figures of the question are no evidence: "Yes, it costs 5 euros" needs a passage that says so. Two kinds may be
    repeated all the same: counts and ages, which are conditions of the question ("for 2 adults", "a child of 10"), and
    figures that the statement denies, as in "No, it is not 5 euros".

    Args:
        statement: A statement of a reply; citation markers and the numbering of lists are no figures.
        stated: What the cited passages state.
        asked: What the question and the user's earlier messages state.
    """
    figures = figures_of(_without_numbering(without_markers(statement)))
    missing = [figure for figure in figures if not stated.has(figure)]
    if not all(asked.has(figure) for figure in missing):
        return False
    if all(figure.is_count for figure in missing) or _NO.match(statement):
        return True
    return bool(_NOT.search(statement)) and any(stated.has(figure) and not asked.has(figure) for figure in figures)


@dataclass(slots=True)
class _Pending:
    """A statement that waits to be passed on. `is_kept` is None while it depends on what the rest of the reply
    cites.
    """

    gap: str
    text: str
    marks: list[Marked]  # positions within the text
    lead: int | None
    is_kept: bool | None


class SupportedReply:
    """Streaming filter of a reply whose citations are normalized. `text` and `marked` are the reply so far, without
    what was left out.

    With `drops_statements`, a statement is left out if one of its figures stands in none of the passages that it cites,
    or, where it cites none, in none that the reply cites. What leads in only such statements goes with them. Without,
    such a statement stays and loses its markers, and one without markers is not looked at. A statement that another
    passage says is credited to that one. The result does not depend on how the input is cut into pieces.

    Args:
        shown: Hits by citation number.
        asked: The question, and the user's earlier messages.
        language: BCP 47 tag of the reply, `und` where it is not known.
        credit: Tells which of `shown` says a statement.
        drops_statements: Whether statements are left out, as where the documents alone may be used.
    """

    def __init__(
        self, shown: Mapping[int, Hit], asked: Iterable[str], language: str, credit: Credit, *, drops_statements: bool
    ) -> None:
        self.text = ""
        self.marked: list[Marked] = []
        self.dropped = 0  # statements left out
        self.dropped_markers = 0  # markers that statements lost
        self._shown, self._credit, self._drops = shown, credit, drops_statements
        self._reader = StatementReader(language)
        self._asked = Stated(asked)
        self._states = cache(lambda number: states(shown[number]))
        self._cited = Stated(())  # by all statements that are kept
        self._queue: list[_Pending] = []
        self._leads: list[_Pending] = []
        self._has_dropped = False  # since the last lead
        self._gap = ""

    def feed(self, piece: str, marked: Sequence[Marked]) -> str:
        """Takes the next piece of the reply and returns the text that is final by now. `marked` are all citations so
        far, by offset in the reply.
        """
        for statement in self._reader.feed(piece):
            self._judge(statement, marked)
        return self._pass_on()

    def finish(self, marked: Sequence[Marked]) -> str:
        """Ends the reply and returns the rest of the text."""
        for statement in self._reader.finish():
            self._judge(statement, marked)
        for pending in self._queue:
            pending.is_kept = bool(pending.is_kept)
        text = self._pass_on()
        if not self._has_dropped:
            text += self._flush_leads()
        return text

    def _judge(self, statement: Statement, marked: Sequence[Marked]) -> None:
        end = statement.start + len(statement.text)
        marks = [
            Marked(mark.position - statement.start, mark.number)
            for mark in marked
            if statement.start <= mark.position < end
        ]
        cited = self._stated_by(marks)
        pending = _Pending(statement.gap, statement.text, marks, statement.lead, True)
        if marks and not is_supported(statement.text, cited, self._asked):
            pending.is_kept = not self._drops
            self._strip(pending)
        elif marks:
            self._correct(pending)
            cited = self._stated_by(pending.marks)
        elif not marks and self._drops:
            pending.is_kept = is_supported(statement.text, self._cited, self._asked) or None
        self._queue.append(pending)
        if pending.is_kept and pending.marks:
            self._cited = self._cited.joined(cited)
            for earlier in self._queue:
                if earlier.is_kept is None and is_supported(earlier.text, self._cited, self._asked):
                    earlier.is_kept = True

    def _stated_by(self, marks: Sequence[Marked]) -> Stated:
        stated = Stated(())
        for number in {mark.number for mark in marks}:
            stated = stated.joined(self._states(number))
        return stated

    def _strip(self, pending: _Pending) -> None:
        """Takes the markers out of a statement that stays."""
        if not self._drops:
            self._cite(pending, [])

    def _correct(self, pending: _Pending) -> None:
        """Takes markers of passages that do not say the statement out of it where another one does, whose marker it
        gets if none is left.
        """
        cited = [mark.number for mark in pending.marks]
        rightly = self._credit.corrected(pending.text, cited)
        if not set(cited) <= set(rightly):
            self._cite(pending, rightly)

    def _cite(self, pending: _Pending, rightly: Sequence[int]) -> None:
        """Leaves those markers in a statement whose number is in `rightly`; where none is, the first marker gets its
        first number.
        """
        written, end, marks = "", 0, list[Marked]()
        is_moved = bool(rightly) and not any(mark.number in rightly for mark in pending.marks)
        for place, mark in enumerate(pending.marks):
            written += pending.text[end : mark.position]
            end = mark.position + len(f"[{mark.number}]")
            number = mark.number if mark.number in rightly else rightly[0] if is_moved and place == 0 else None
            if number is not None:
                marks.append(Marked(len(written), number))
                written += f"[{number}]"
            else:
                self.dropped_markers += 1
                written = written.rstrip() if not pending.text.startswith("[", end) else written
        pending.text, pending.marks = written + pending.text[end:], marks

    def _pass_on(self) -> str:
        passed = ""
        while self._queue and self._queue[0].is_kept is not None:
            pending = self._queue.pop(0)
            if not pending.is_kept:
                self.dropped += 1
                self._has_dropped = True
                self._gap = _wider(self._gap, pending.gap)
            elif pending.lead is not None:
                self._hold_lead(pending, pending.lead)
            else:
                passed += self._flush_leads() + self._put(pending)
                self._has_dropped = False
        return passed

    def _hold_lead(self, lead: _Pending, rank: int) -> None:
        """Keeps a lead until something that it leads in is kept. Earlier ones that lead in nothing any more are left
        out.
        """
        if self._has_dropped:
            while self._leads and (self._leads[-1].lead or 0) >= rank:
                self._gap = _wider(self._gap, self._leads.pop().gap)
        self._has_dropped = False
        self._leads.append(lead)

    def _flush_leads(self) -> str:
        passed = "".join(self._put(lead) for lead in self._leads)
        self._leads = []
        return passed

    def _put(self, pending: _Pending) -> str:
        gap = _wider(self._gap, pending.gap) if self.text else ""
        self._gap = ""
        begin = len(self.text) + len(gap)
        self.marked += [Marked(begin + mark.position, mark.number) for mark in pending.marks]
        self.text += gap + pending.text
        return gap + pending.text


def _wider(first: str, second: str) -> str:
    """The gap between two statements where those between them are left out: as many line breaks as the wider one has,
    and the indentation of the second.
    """
    lines = max(first.count("\n"), second.count("\n"))
    if "\n" not in second:
        return first if lines else first or second
    return "\n" * lines + second.rpartition("\n")[2]


def _without_numbering(text: str) -> str:
    numbered = _NUMBERING.match(text)
    return text[numbered.end() :] if numbered and month_of(numbered[1]) is None else text


def _values(metadata: Any) -> Iterator[str]:
    if isinstance(metadata, Mapping):
        for value in metadata.values():
            yield from _values(value)
    elif isinstance(metadata, list):
        for value in metadata:
            yield from _values(value)
    elif metadata is not None and not isinstance(metadata, bool):
        yield str(metadata)
