"""A generated reply while it is written, statement by statement: links that no passage holds and markers of passages
that were not shown are taken out, and so are statements with numbers that no cited passage states.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from almanac.query.answering.credit import Credit
from almanac.query.answering.figures import Stated, is_supported, stated_by
from almanac.query.answering.links import without_foreign_links
from almanac.query.answering.markers import Marked, normalize_markers, without_markers
from almanac.query.answering.statements import Statement, StatementReader
from almanac.schemas.hashing import canonical_json
from almanac.schemas.results import Hit

_NUMBERING = re.compile(r"(?:#{1,6}\s+)?\(?\d{1,3}(?:\.\d{1,2})*[.)]\s+")


@dataclass(slots=True)
class _Pending:
    """A statement that waits to be passed on. `is_kept` is None while it depends on what the rest of the reply
    cites.
    """

    statement: Statement
    marks: list[Marked]  # positions within its text
    is_kept: bool | None = True


class CheckedReply:
    """`text` and `marked` are the reply so far, without what was left out; `said` are the statements that cite a
    passage, by its number. They do not depend on how the input is cut into pieces.

    With `drops_statements`, a statement is left out if one of its numbers stands in none of the passages that it cites,
    or, where it cites none, in none that the reply cites. What leads in only such statements goes with them. Without,
    such a statement stays and loses its markers, and one without markers is not looked at. A statement that another
    passage says is credited to that one.

    Args:
        shown: Hits by citation number, from 1.
        asked: The question, and the user's earlier messages.
        language: BCP 47 tag of the reply, `und` where it is not known.
        declared: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit.
        held: Addresses that links may have; None for any.
        drops_statements: Whether statements are left out, as where the documents alone may be used.
    """

    def __init__(
        self,
        shown: Mapping[int, Hit],
        asked: Iterable[str],
        language: str,
        declared: str,
        held: frozenset[str] | None,
        *,
        drops_statements: bool,
    ) -> None:
        self.text = ""
        self.marked: list[Marked] = []
        self.said: dict[int, list[str]] = {}
        self.written: list[Statement] = []  # all statements with links and markers checked
        self.is_cited = False  # whether the model cited a passage at all
        self.dropped_sentences = self.dropped_citations = 0
        self._shown, self._held, self._drops = shown, held, drops_statements
        self._asked, self._credit = stated_by(asked), Credit(shown, declared)
        self._states = cache(lambda number: _stated_in(shown[number]))
        self._reader = StatementReader(language)
        self._cited: Stated = frozenset()  # stated by what all kept statements cite
        self._queue: list[_Pending] = []
        self._leads: list[_Pending] = []
        self._has_dropped = False  # since the last lead
        self._gap = self._gap_read = ""

    def feed(self, piece: str) -> None:
        """Takes the next piece of what the model writes."""
        for statement in self._reader.feed(piece):
            self._judge(statement)
        self._pass_on()

    def finish(self) -> None:
        """Ends the reply."""
        for statement in self._reader.finish():
            self._judge(statement)
        for pending in self._queue:
            pending.is_kept = bool(pending.is_kept)
        self._pass_on()
        if not self._has_dropped:
            self._put_leads()

    def attributed(self) -> str | None:
        """A finished reply without citations with a marker behind each statement: that of the passage that has at least
        .6 of its words, and all its numbers. None where one of them has no such passage.
        """
        numbers = [self._credit.best(statement.text) for statement in self.written]
        marked = [  # code ends its line
            f"{one.gap}{one.text}{chr(10) if one.text.endswith(('```', '~~~')) else ' '}[{number}]"
            for one, number in zip(self.written, numbers, strict=True)
        ]
        return "".join(marked) if all(numbers) else None

    def _judge(self, raw: Statement) -> None:
        gap = _wider(self._gap_read, raw.gap)
        text, marks = self._checked(raw.text)
        self._gap_read = "" if text else gap
        self.is_cited |= bool(marks)
        if not text:
            return
        self.written.append(Statement(gap, text, raw.lead))
        pending = _Pending(self.written[-1], marks)
        self._queue.append(pending)
        if marks and not self._is_supported(text, self._stated_by(marks)):
            pending.is_kept = not self._drops
            self._cite(pending, [])
        elif marks:
            self._cite(pending, self._credit.corrected(text, [mark.number for mark in marks]))
            self._cited |= self._stated_by(pending.marks)
        elif self._drops:
            pending.is_kept = None
        for earlier in self._queue:
            if earlier.is_kept is None and self._is_supported(earlier.statement.text, self._cited):
                earlier.is_kept = True

    def _checked(self, text: str) -> tuple[str, list[Marked]]:
        """A statement with its links and markers checked; what is taken out may leave another one behind."""
        while True:
            linked = text if self._held is None else without_foreign_links(text, self._held)
            normal, marks, dropped = normalize_markers(linked, len(self._shown))
            self.dropped_citations += dropped
            if normal == text:
                return text, marks
            text = normal

    def _is_supported(self, text: str, stated: Stated) -> bool:
        plain = without_markers(text)
        numbered = _NUMBERING.match(plain)
        return is_supported(plain[numbered.end() :] if numbered else plain, stated, self._asked)

    def _stated_by(self, marks: Sequence[Marked]) -> Stated:
        return frozenset[str]().union(*(self._states(mark.number) for mark in marks))

    def _cite(self, pending: _Pending, rightly: Sequence[int]) -> None:
        """Leaves those markers in a statement whose number is in `rightly`; where none is, the first marker gets its
        first number.
        """
        text, written, end, marks = pending.statement.text, "", 0, list[Marked]()
        is_moved = bool(rightly) and not any(mark.number in rightly for mark in pending.marks)
        for place, mark in enumerate(pending.marks):
            written += text[end : mark.position]
            end = mark.position + len(f"[{mark.number}]")
            number = mark.number if mark.number in rightly else rightly[0] if is_moved and place == 0 else None
            if number is not None:
                marks.append(Marked(len(written), number))
                written += f"[{number}]"
            elif pending.is_kept:
                self.dropped_citations += 1
                written = written.rstrip() if not text.startswith("[", end) else written
        pending.statement, pending.marks = pending.statement._replace(text=written + text[end:]), marks

    def _pass_on(self) -> None:
        while self._queue and self._queue[0].is_kept is not None:
            pending = self._queue.pop(0)
            if not pending.is_kept:
                self.dropped_sentences += 1
                self._has_dropped = True
                self._gap = _wider(self._gap, pending.statement.gap)
            elif (rank := pending.statement.lead) is not None:
                # earlier leads that lead in nothing any more are left out
                while self._has_dropped and self._leads and (self._leads[-1].statement.lead or 0) >= rank:
                    self._gap = _wider(self._gap, self._leads.pop().statement.gap)
                self._has_dropped = False
                self._leads.append(pending)
            else:
                self._put_leads()
                self._put(pending)
                self._has_dropped = False

    def _put_leads(self) -> None:
        for lead in self._leads:
            self._put(lead)
        self._leads = []

    def _put(self, pending: _Pending) -> None:
        text = pending.statement.text
        begin = len(self.text) + len(gap := _wider(self._gap, pending.statement.gap) if self.text else "")
        self._gap = ""
        for mark in pending.marks:
            self.marked.append(Marked(begin + mark.position, mark.number))
            before = without_markers(text[: mark.position]) or without_markers(text) or self.text
            self.said.setdefault(mark.number, []).append(before)
        self.text += gap + text


def _stated_in(hit: Hit) -> Stated:
    return stated_by([hit.readable, hit.text, hit.title, canonical_json(hit.metadata)])


def _wider(first: str, second: str) -> str:
    """The gap between two statements where those between them are left out: as many line breaks as the wider one has,
    and the indentation of the second.
    """
    lines = max(first.count("\n"), second.count("\n"))
    if "\n" not in second:
        return first if lines else first or second
    return "\n" * lines + second.rpartition("\n")[2]
