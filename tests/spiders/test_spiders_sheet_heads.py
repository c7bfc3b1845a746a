"""What names the columns of a sheet's table, and that titles and notes above it are texts."""

import datetime as dt
import io
from collections.abc import Callable
from typing import Any

import openpyxl  # type: ignore[import-untyped]  # ships no types
import pytest
from openpyxl.worksheet.table import Table  # type: ignore[import-untyped]  # ships no types

from almanac.spiders.reading.workbook import read_xlsx

_VALUES = [["Lamp", 1, 2, 4, 4], ["Bed", 5, 6, 7, 8], ["Sofa", 5, 6, 7, 8]]
_WORDS = [["Lamp", "oak", "Bern"], ["Bed", "pine", "Basel"], ["Sofa", "ash", "Genf"]]
_LETTERS = ["a", "b", "c", "d", "e"]
_QUARTERS = ["Product", "2024 Q1", "2024 Q2", "2025 Q1", "2025 Q2"]
Change = Callable[[Any], object]


def _read(rows: list[list[Any]], change: Change) -> tuple[list[str], list[str], list[list[str]]]:
    """The texts above, the names of the columns, and the rows."""
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    change(made.active)
    out = io.BytesIO()
    made.save(out)
    *texts, table = read_xlsx(out.getvalue(), 10_000, "en").elements[1:]
    names, *values = map(list, table.rows)
    return [text.text for text in texts], names, values


def _merging(*where: str) -> Change:
    return lambda sheet: [sheet.merge_cells(cell_range) for cell_range in where]


def _table(where: str, heads: int = 1) -> Change:
    def change(sheet: Any) -> None:
        sheet.add_table(Table(displayName="T", ref=where, headerRowCount=heads))

    return change


def _filter(where: str) -> Change:
    return lambda sheet: setattr(sheet.auto_filter, "ref", where)


def _freeze(where: str) -> Change:
    return lambda sheet: setattr(sheet, "freeze_panes", where)


@pytest.mark.parametrize(
    ("heads", "change", "above", "names"),
    [
        ([_LETTERS], _merging(), [], _LETTERS),
        # titles
        ([["Prices"], _LETTERS], _merging(), ["Prices"], _LETTERS),
        ([["Prices"], ["as of May"], _LETTERS], _merging("A1:E1", "A2:E2"), ["Prices", "as of May"], _LETTERS),
        ([[None, None, "Prices"], _LETTERS], _merging(), ["Prices"], _LETTERS),
        ([["Prices"], [None], _LETTERS], _merging("A1:C2"), ["Prices"], _LETTERS),
        # notes
        ([["Report:", "Sales"], ["Date:", dt.date(2024, 1, 5)], _LETTERS], _merging(), ["Report: Sales",
        "Date: 2024-01-05"], _LETTERS),
        # names of two rows and three
        ([["Product", 2024, None, 2025, None], [None, "Q1", "Q2", "Q1", "Q2"]], _merging("A1:A2", "B1:C1", "D1:E1"), [],
        _QUARTERS),
        ([["Sales"], ["Product", 2024, None, 2025, None], [None, "Q1", "Q2", "Q1", "Q2"]], _merging("A1:E1", "B2:C2",
        "D2:E2"), ["Sales"], _QUARTERS),
        ([[None, "2024", None, "2025", None], ["Product", "Q1", "Q2", "Q1", "Q2"]], _merging(), [], _QUARTERS),
        ([["Product", 2024, None, 2025, None], [None, "Q1", "Q2", "Q1", "Q2"]], _merging(), [], _QUARTERS),
        (
            [[None, "Cost", None, "Gain", None], ["P", 2023, 2024, 2023, 2024]],
            _merging("B1:C1", "D1:E1"),
            [],
            ["P", "Cost 2023", "Cost 2024", "Gain 2023", "Gain 2024"],
        ),
        (
            [["P", "2024"], [None, "H1", None, "H2"], [None, "Q1", "Q2", "Q3", "Q4"]],
            _merging("A1:A3", "B1:E1", "B2:C2", "D2:E2"),
            [],
            ["P", "2024 H1 Q1", "2024 H1 Q2", "2024 H2 Q3", "2024 H2 Q4"],
        ),
        ([["P", "Mass", "Length", "Price", "Tax"], [None, "kg", "m", "EUR", "%"]], _merging(), [], ["P", "Mass kg",
        "Length m", "Price EUR", "Tax %"]),
        # names that are no words
        ([["P", *(dt.datetime(2024, month, 1) for month in range(1, 5))]], _merging(), [], ["P", "2024-01-01",
        "2024-02-01", "2024-03-01", "2024-04-01"]),
        ([["P", 2021, 2022, 2023, 2024]], _merging(), [], ["P", "2021", "2022", "2023", "2024"]),
        ([["Size", 36, 38, 40, 42]], _merging(), [], ["Size", "36", "38", "40", "42"]),
        # nothing names the columns
        ([], _merging(), [], [""] * 5),
        ([["Sales 2024"]], _merging("A1:E1"), ["Sales 2024"], [""] * 5),
    ],
)  # fmt: skip
def test_names_stand_in_the_first_row_and_titles_above(
    heads: list[list[Any]], change: Change, above: list[str], names: list[str]
) -> None:
    values = [[str(value) for value in row] for row in _VALUES]
    assert _read([*heads, *_VALUES], change) == (above, names, values)


@pytest.mark.parametrize(
    ("heads", "change", "above"),
    [
        ([["Stock", "of", "May"], ["x", "y", "z"], ["a", "b", "c"]], _table("A3:C6"), ["Stock of May", "x y z"]),
        ([["Stock", "of", "May"], ["a", "b", "c"]], _filter("A2:C5"), ["Stock of May"]),
        ([["Stock", "of May"], ["a", "b", "c"]], _freeze("A3"), ["Stock of May"]),
        ([["Stock"], ["a", "b", "c"]], _freeze("A2"), ["Stock"]),
        ([["a", "b", "c"]], _freeze("B1"), []),
        ([["a", "b", "c"]], _freeze("A4"), []),
        ([["a", "b", "c"]], _table("A1:C3", heads=0), []),
    ],
)
def test_what_the_sheet_declares_names_the_columns(heads: list[list[Any]], change: Change, above: list[str]) -> None:
    """But frozen panes that end among the values, or with a title."""
    assert _read([*heads, *_WORDS], change) == (above, ["a", "b", "c"], _WORDS)


def test_words_below_groups_are_names_where_they_say_the_same_of_each() -> None:
    rows: list[list[Any]] = [
        ["Branch", "Weekday", None, "Saturday", None],
        ["Code", "from", "to", "from", "to"],
        ["B0", "8:00", "18:00", "9:00", "12:00"],
        ["B1", "9:00", "", "", ""],
    ]
    assert _read(rows, _merging("B1:C1", "D1:E1"))[1] == [
        "Branch Code",
        "Weekday from",
        "Weekday to",
        "Saturday from",
        "Saturday to",
    ]


def test_a_row_that_may_be_values_is_kept_as_one() -> None:
    rows: list[list[Any]] = [["Name", None, "City"], ["Ann", "Lee", "Bern"], ["Bob", "Ray", "Basel"]]
    assert _read(rows, _merging("A1:B1")) == ([], ["Name", "Name", "City"], rows[1:])
