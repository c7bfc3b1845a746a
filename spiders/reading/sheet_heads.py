"""What names the columns of a table in a sheet, and what stands above: told from merged cells, from the kinds of
values, and from what the sheet declares.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from almanac.core.table_heads import is_name, is_value, joined
from almanac.spiders.reading.sheet_rows import Declared, SheetRow

_MOST_ABOVE = 10  # rows in which notes above a table are looked for
_MOST_HEADS = 5  # rows


class Head(NamedTuple):
    """The texts above a table, one name for each column (empty where nothing names it), and the number of its first row
    of values.
    """

    above: list[str]
    names: list[str]
    height: int


def head_of(rows: Sequence[SheetRow], columns: range, declared: Declared) -> Head:
    """The head of a run of rows.

    A row with one cell, or merged over the width, is a title, and so are notes that fill half of the columns at most,
    above a row of names. Below, the row of a declared table, filter or frozen pane names the columns, else the first
    one, unless it holds values like those below it. A row of groups above goes with the names, and so does one of names
    below groups; where that is not certain, the first row names the columns and the next one is a row.
    """
    kinds = [[row.kinds.get(column, "") for column in columns] for row in rows]
    first = _titles(rows, columns)
    declared_row = _declared_row(rows, first, declared)
    if declared_row is None:
        first = _notes(rows, kinds, first, len(columns))
        if is_value(kinds[first], kinds[first + 1 :]) and not _counts_up(
            [rows[first].texts.get(column, "") for column in columns]
        ):
            return Head(_texts(rows[:first], columns), [""] * len(columns), first)
        last = first
        while last + 2 < len(rows) and last - first < _MOST_HEADS and _goes_on(rows, kinds, last, columns):
            last += 1
    else:
        last = first = declared_row
        while first > 0 and _is_group(rows[first - 1], rows[first], columns):
            first -= 1
    names = joined([_spread(rows, number, columns, is_last=number == last) for number in range(first, last + 1)])
    return Head(_texts(rows[:first], columns), names, last + 1)


def _texts(rows: Sequence[SheetRow], columns: range) -> list[str]:
    return [" ".join(row.texts[column] for column in columns if column in row.texts) for row in rows]


def _titles(rows: Sequence[SheetRow], columns: range) -> int:
    """The number of rows at the beginning that are titles; none where no row below has several cells."""
    titles = sum(
        1 for _ in takewhile(lambda row: len(row.texts) == 1 and (columns[0] in row.texts or not row.spread), rows)
    )
    return titles if titles < len(rows) else 0


def _declared_row(rows: Sequence[SheetRow], first: int, declared: Declared) -> int | None:
    """The last row of names, by what the sheet declares: a table, a filter, or what is frozen, unless that ends with a
    title or has full rows of values.
    """
    numbers = {row.number: at for at, row in enumerate(rows)}
    for names in declared.tables:
        if (at := numbers.get(names[-1])) is not None and first <= at < len(rows) - 1:
            return at
    at = numbers.get(declared.frozen)
    if at is None or not first <= at < min(len(rows) - 1, first + _MOST_HEADS):
        return None
    return at if all(len(row.texts) < len(rows[at].texts) for row in rows[first:at]) else None


def _notes(rows: Sequence[SheetRow], kinds: Sequence[Sequence[str]], first: int, width: int) -> int:
    """The row below notes such as `Date: | 2024-01-01`, which fill the first columns, and half of all at most; `first`
    where there are none.
    """
    for at in range(first, min(first + _MOST_ABOVE, len(rows))):
        filled = [number for number, kind in enumerate(kinds[at]) if kind]
        if 2 * len(filled) > width:
            is_complement = at > first and any(
                above and not here for above, here in zip(kinds[at - 1], kinds[at], strict=True)
            )
            return at if at > first and not is_complement and is_name(kinds[at], kinds[at + 1 :]) else first
        if rows[at].spread or filled != list(range(len(filled))):
            break
    return first


def _goes_on(rows: Sequence[SheetRow], kinds: Sequence[Sequence[str]], last: int, columns: range) -> bool:
    """Whether the row below one of names goes on naming the columns."""
    upper, lower, below = rows[last], rows[last + 1], kinds[last + 2 :]
    if is_value(kinds[last + 1], below):
        return False
    if lower.hanging:
        return True
    is_certain = is_name(kinds[last + 1], below)
    groups: dict[str, list[str]] = {}
    for column in columns:
        if (
            name := upper.spread.get(column) or (upper.texts.get(column) if column + 1 in upper.spread else None)
        ) and column in lower.texts:
            groups.setdefault(name, []).append(lower.texts[column])
    if parted := [names for names in groups.values() if len(names) > 1]:
        others = [
            (column in upper.texts, column in lower.texts) for column in columns if not _is_grouped(upper, column)
        ]
        fits = bool(others) and all(above != here for above, here in others)
        return is_certain or fits or len(parted) > len({tuple(names) for names in parted})
    gaps = _gaps(upper, columns)
    is_filled = all(column in lower.texts for column in gaps)
    # a row of units has no name for the first column
    return is_certain and (is_filled if gaps else columns[0] not in lower.texts)


def _is_grouped(row: SheetRow, column: int) -> bool:
    return column in row.spread or column + 1 in row.spread


def _is_group(upper: SheetRow, lower: SheetRow, columns: range) -> bool:
    """Whether a row above one of names groups them: merged cells say so, or gaps."""
    if lower.hanging or (upper.spread and len(upper.texts) > 1) or (upper.spread and columns[0] not in upper.texts):
        return True
    filled, gaps = [column for column in columns if column in upper.texts], _gaps(upper, columns)
    is_note = gaps == list(columns[len(filled) :])
    return (
        len(filled) > 1
        and any(column in lower.texts for column in gaps)
        and not (is_note and all(column in lower.texts for column in filled))
    )


def _gaps(row: SheetRow, columns: range) -> list[int]:
    return [column for column in columns if column not in row.texts and column not in row.spread]


def _counts_up(texts: Sequence[str]) -> bool:
    """Whether the numbers of a row rise evenly, as sizes and hours do that name columns."""
    numbers = [int(text) for text in texts if text.isdecimal() and len(text) < 7]
    steps = {after - before for before, after in pairwise(numbers)}
    return len(numbers) > 2 and len(steps) == 1 and min(steps) > 0


def _spread(rows: Sequence[SheetRow], number: int, columns: range, *, is_last: bool) -> list[str]:
    """The names that a row gives to its columns. Without merged cells, a group's name goes on to the right as far as
    there is none.
    """
    row = rows[number]
    names = [row.texts.get(column) or row.spread.get(column, "") for column in columns]
    if is_last or row.spread:
        return names
    below = rows[number + 1].texts
    group = ""
    for at, column in enumerate(columns):
        group = (names[at] if column in below else "") if names[at] else group
        names[at] = names[at] or (group if column in below else "")
    return names
