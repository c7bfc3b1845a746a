"""Judges the items of one source by its rules, in batches, so that memory does not grow with the items.

Rules that need all items at once keep a narrow column of them: 8 to 24 bytes an item.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from almanac.schemas.declaration.near_words import did_you_mean
from almanac.schemas.declaration.source import Source
from almanac.schemas.items import PLACES, Item, Reject
from almanac.schemas.reports import BrokenValue, JudgedExpectation
from almanac.transforms.cells import STRANGE, Narrow, cell_of, cells_of, is_present, later_ones, value_of
from almanac.transforms.expectations import MET, Rule
from almanac.transforms.findings import shown, with_observed
from almanac.transforms.library import Finding, Library, Question, reason_of

_BATCH = 5000  # rows of a frame
_BATCH_CHARACTERS = 8 << 20  # of texts in a frame
_SAMPLES = 10
_WANTED = {"number": "numbers", "moment": "dates", "text": "texts"}  # what a rule needs, by what it looks at


class _Tally:
    """What is known of one rule: the items that break it, and what is not in order with it."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.rows = array("q")  # items of the source by number, once each
        self.values = 0  # that were there
        self.present = 0  # items with something to judge, the whole of `mostly`
        self.strange = 0  # of the values, what is no number or date where the rule needs one
        self.finding: Finding | None = None  # on a whole column
        self.error: str | None = None
        self.checked = 0
        self.samples: list[BrokenValue] = []
        self.by_mapping = 0  # items that mapping rejected for this rule
        self.also_by_mapping = 0  # and those that it rejected for an earlier one


class SourceJudge:
    """Judges the items of one source."""

    def __init__(self, source: Source, rules: Sequence[Rule]) -> None:
        self._source = source
        self._tallies = [_Tally(rule) for rule in rules]
        self._numbers = array("q")  # of the items, in the whole run
        self._mapped_rejects = 0
        self._local = [tally for tally in self._tallies if tally.rule.known.level == "row" and not tally.rule.is_whole]
        self._whole = {
            id(tally): [Narrow(tally.rule.aspect) for _ in tally.rule.fields]
            for tally in self._tallies
            if tally.rule.is_whole or tally.rule.known.level == "column"
        }
        self._library = Library(
            [Question(tally.rule, _columns(number, tally.rule)) for number, tally in enumerate(self._local)]
        )
        self._names: dict[str, None] = dict.fromkeys(source.declared_fields())
        self._asks_names = source.takes_own_fields or any(tally.rule.known.level == "names" for tally in self._tallies)
        self._first: dict[int, Rule] = {}
        self.wanted: dict[int, list[_Tally]] = {}  # number of an item → the rules that it is to be shown for
        self._start_batch()

    def add(self, number: int, item: Item) -> None:
        """Takes an item, whose number in the run is `number`."""
        row = len(self._numbers)
        self._numbers.append(number)
        if self._asks_names:
            self._names.update(dict.fromkeys(name for name in item.fields if name != PLACES))
        for place, tally in enumerate(self._local):
            entries = _cells(item, tally)
            tally.present += is_present(tally.rule, entries)
            self._take(place, row, entries)
        for tally in self._tallies:
            columns = self._whole.get(id(tally), ())
            entries = _cells(item, tally) if columns else []
            tally.present += is_present(tally.rule, entries)
            for entry in entries:
                tally.values += any(cell is not None for cell in entry)
                if any(cell is STRANGE for cell in entry):
                    tally.strange += 1
                    tally.rows.append(row)
                for column, cell in zip(columns, entry, strict=True):
                    column.add(row, cell)
        self._rows_in_batch += 1
        if self._rows_in_batch >= _BATCH or self._characters > _BATCH_CHARACTERS:
            self._judge_batch()

    def add_reject(self, reject: Reject) -> None:
        """Takes an item that mapping rejected: it breaks the rules that `breaks` names, and of the others nothing is
        known.
        """
        row = -1 - self._mapped_rejects
        self._mapped_rejects += 1
        for place, tally in enumerate(self._local):
            self._take(place, row, [(_cell_of_reject(reject, tally.rule),) * len(tally.rule.fields)])
        for tally in self._tallies:
            is_broken = _is_broken(reject, tally.rule)
            columns = self._whole.get(id(tally), ())
            if is_broken and columns:
                columns[0].add(row, cell_of(reject.document_id, tally.rule.aspect))
            if is_broken and next(iter(reject.breaks)) in tally.rule.fields:
                tally.by_mapping += 1
                if len(tally.samples) < _SAMPLES:
                    tally.samples.append(
                        BrokenValue(url=reject.url, document_id=reject.document_id, value=shown(reject.value))
                    )
            elif is_broken:
                tally.also_by_mapping += 1
        self._rows_in_batch += 1
        if self._rows_in_batch >= _BATCH:
            self._judge_batch()

    @property
    def has_items(self) -> bool:
        return len(self._numbers) > 0

    @property
    def lacking(self) -> list[Rule]:
        """The rules on fields that no item of the source has, although its fields are those of the file: nobody could
        tell before.
        """
        if not self._source.takes_own_fields:
            return []
        names = {*self._names, "title", "url", "text"}
        return [
            tally.rule
            for tally in self._tallies
            if tally.rule.known.level != "names" and not tally.rule.by_mapping and not names >= set(tally.rule.fields)
        ]

    @property
    def having(self) -> set[tuple[str, tuple[str, ...], str]]:
        """What is declared of fields that the source has: `declared` of each rule."""
        return {tally.rule.declared for tally in self._tallies}.difference(rule.declared for rule in self.lacking)

    def leave_out(self, rule: Rule) -> None:
        """Judges nothing by a rule on fields that only another source has, and has no result of it."""
        self._tallies = [tally for tally in self._tallies if tally.rule != rule]

    def refuse(self, rule: Rule) -> None:
        """Reports a rule on fields that no item has as an error, so that it judges nothing."""
        known = sorted({*self._names, "title", "url", "text"})
        absent = next(name for name in rule.fields if name not in known)
        for tally in self._tallies:
            if tally.rule == rule:
                tally.error = (
                    f"no item has a field '{absent}'{did_you_mean(absent, known)}; there is {', '.join(known[:20])}"
                )

    def judge(self) -> dict[int, Rule]:
        """Judges what was taken. Returns number of the item in the run → the first rule that quarantines it."""
        self._judge_rows()
        self._first = self._quarantined()
        self._judge_columns()
        for tally in self._tallies:
            for number in self._to_show(tally):
                self.wanted.setdefault(number, []).append(tally)
        return self._first

    def _judge_rows(self) -> None:
        self._judge_batch()
        for tally in self._tallies:
            if tally.rule.known.level != "row":
                continue
            tally.checked = len(self._numbers) + self._mapped_rejects
            if tally.error is None and (columns := self._whole.get(id(tally))):
                self._judge_whole(tally, columns, without=())
            if tally.rule.aspect in _WANTED and tally.strange == tally.values > 0:
                tally.error = f"it needs {_WANTED[tally.rule.aspect]}, and none of {tally.values} values is one"
            if tally.error is not None:
                tally.rows = array("q")

    def _quarantined(self) -> dict[int, Rule]:
        first: dict[int, Rule] = {}
        for tally in self._tallies:
            for row in tally.rows if tally.rule.severity == "quarantine" else ():
                if row >= 0:
                    first.setdefault(self._numbers[row], tally.rule)
        return first

    def _judge_columns(self) -> None:
        """Judges the rules on whole columns, over the items that are not quarantined."""
        for tally in self._tallies:
            if tally.rule.known.level == "row":
                continue
            tally.checked = len(self._numbers) - len(self._first)
            if tally.error is None:
                self._judge_whole(tally, self._whole.get(id(tally), ()), without=self._first)

    def _to_show(self, tally: _Tally) -> list[int]:
        if tally.rule.known.level != "row":
            return []
        numbers = (self._numbers[row] for row in tally.rows if row >= 0)
        meant = (
            number for number in numbers if tally.rule.severity != "quarantine" or self._first.get(number) is tally.rule
        )
        return list(islice(meant, max(0, _SAMPLES - len(tally.samples))))

    def show(self, number: int, item: Item) -> None:
        """Keeps the value of a wanted item for the rules that it breaks."""
        for tally in self.wanted.get(number, ()):
            values = [value_of(item, name) for name in tally.rule.fields]
            value = shown(values if len(values) > 1 else values[0])
            tally.samples.append(BrokenValue(url=item.url, document_id=item.document_id, value=value))

    def results(self) -> Iterator[JudgedExpectation]:
        """The result of each rule, in declared order."""
        counts = Counter(id(rule) for rule in self._first.values())
        yield from (self._result(tally, counts[id(tally.rule)]) for tally in self._tallies)

    def _result(self, tally: _Tally, first: int) -> JudgedExpectation:
        rule = tally.rule
        result = JudgedExpectation(
            source=self._source.name, field=rule.field, expectation=rule.expectation, rule=rule.rule,
            severity=rule.severity,
            checked=tally.checked, ok=tally.error is None, error=tally.error, samples=tally.samples,
        )  # fmt: skip
        if rule.known.level != "row":
            return with_observed(result, rule, tally.finding)
        of_items = sum(row >= 0 for row in tally.rows)
        if rule.severity == "quarantine":
            result.broken = first + tally.by_mapping
            result.also = of_items - first + tally.also_by_mapping
            result.ok &= result.broken + result.also == 0
        else:
            result.broken = of_items
            result.value, result.limit = (1 - of_items / tally.present if tally.present else 1.0), rule.mostly
            result.value = round(result.value, 6)
            result.ok &= result.value >= rule.mostly - 1e-9
        return result

    def _start_batch(self) -> None:
        self._rows_in_batch = self._characters = 0
        self._strange: list[list[int]] = [[] for _ in self._local]
        self._cells: list[list[tuple[Any, ...]]] = [[] for _ in self._local]
        self._owners: list[array[int]] = [array("q") for _ in self._local]

    def _take(self, place: int, row: int, cells: list[tuple[Any, ...]]) -> None:
        tally = self._local[place]
        for entry in cells:
            tally.values += any(cell is not None for cell in entry)
            if any(cell is STRANGE for cell in entry):
                tally.strange += 1
                self._strange[place].append(row)
                entry = tuple(None if cell is STRANGE else cell for cell in entry)
            self._characters += sum(len(cell) for cell in entry if isinstance(cell, str))
            self._cells[place].append(entry)
            self._owners[place].append(row)

    def _judge_batch(self) -> None:
        if not self._local or not self._rows_in_batch:
            return
        import pandas as pd

        height = max(len(cells) for cells in self._cells)
        frame = {}
        for number, (tally, cells) in enumerate(zip(self._local, self._cells, strict=True)):
            # Of lists there is a row for each entry, so columns differ in length; what fills them up belongs to no
            # item.
            filling = (_neutral(tally.rule),) * len(tally.rule.fields)
            filled = [*cells, *[filling] * (height - len(cells))]
            for place, name in enumerate(_columns(number, tally.rule)):
                frame[name] = pd.Series([cell[place] for cell in filled], dtype=object)
        findings = self._library.judge(pd.DataFrame(frame))
        for tally, owners, strange, finding in zip(self._local, self._owners, self._strange, findings, strict=True):
            tally.error = tally.error or finding.error
            tally.rows.extend(sorted({*strange, *(owners[row] for row in finding.rows if row < len(owners))}))
        self._start_batch()

    def _judge_whole(self, tally: _Tally, columns: Sequence[Narrow], without: Collection[int]) -> None:
        try:
            self._judge_all(tally, columns, without)
        except Exception as error:  # as in `_cells`
            tally.error = reason_of(error)

    def _judge_all(self, tally: _Tally, columns: Sequence[Narrow], without: Collection[int]) -> None:
        import numpy as np
        import pandas as pd

        rule, level = tally.rule, tally.rule.known.level
        if level == "column" and tally.strange:
            tally.error = f"it needs {_WANTED[rule.aspect]}, and {tally.strange} of {tally.values} values are none"
            return
        if level == "table":
            frame = pd.DataFrame(index=pd.RangeIndex(tally.checked))
        elif level == "names":
            frame = pd.DataFrame(columns=list(self._names))
        else:
            owners = (
                np.frombuffer(columns[0].owners, dtype=np.int64)
                if len(columns[0].owners)
                else np.array([], dtype=np.int64)
            )
            mask = (
                ~np.isin(np.frombuffer(self._numbers, dtype=np.int64)[owners], list(without))
                if without and len(owners)
                else None
            )
            frame = pd.DataFrame(
                {name: column.column(mask) for name, column in zip(_columns(0, rule), columns, strict=True)}
            )
        names = rule.fields if level == "names" else _columns(0, rule)
        (finding,) = Library([Question(rule, names)]).judge(frame)
        tally.error, tally.finding = finding.error, finding
        if level == "row":
            rows = finding.rows
            if "unique" in rule.expectation:
                rows = list(later_ones(frame.fillna(-1).to_numpy(), rows))
            tally.rows = array("q", sorted({*tally.rows, *(int(owners[row]) for row in rows)}))


def _cells(item: Item, tally: _Tally) -> list[tuple[Any, ...]]:
    """The item's cells; one that cannot be made is an error of the rule, so that no value of an item ends a run."""
    try:
        return cells_of(item, tally.rule)
    except Exception as error:  # of any kind: values come from anywhere
        tally.error = tally.error or f"of {item.url}, {reason_of(error)}"
        return []


def _columns(number: int, rule: Rule) -> tuple[str, ...]:
    """The names of a rule's columns in a frame: each rule has its own, as each looks at a value in its own way."""
    return tuple(f"{number}.{place}" for place in range(len(rule.fields)))


def _is_broken(reject: Reject, rule: Rule) -> bool:
    return rule.by_mapping and reject.breaks.get(rule.fields[0]) == rule.rule


def _cell_of_reject(reject: Reject, rule: Rule) -> Any:
    if not _is_broken(reject, rule):
        return _neutral(rule)
    return None if rule.expectation == "expect_column_values_to_not_be_null" else f"not {MET}"


def _neutral(rule: Rule) -> Any:
    """A cell that breaks no rule."""
    return MET if rule.expectation == "expect_column_values_to_not_be_null" else None


def judge_count(rule: Rule, count: int) -> JudgedExpectation:
    """The result of a rule on the number of all items."""
    import pandas as pd

    (finding,) = Library([Question(rule, ())]).judge(pd.DataFrame(index=pd.RangeIndex(count)))
    result = JudgedExpectation(
        source="",
        field="",
        expectation=rule.expectation,
        rule=rule.rule,
        severity=rule.severity,
        checked=count,
        ok=True,
        error=finding.error,
    )
    return with_observed(result, rule, finding)
