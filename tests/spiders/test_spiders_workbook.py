"""Sheets as a person sees them: values by their number formats, nothing that is hidden, merged cells in each of their
rows.
"""

import datetime as dt
import io
import re
import zipfile
from decimal import Decimal
from typing import Any

import openpyxl  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils.datetime import CALENDAR_MAC_1904  # type: ignore[import-untyped]  # ships no types

from almanac.spiders.reading.document import Unreadable
from almanac.spiders.reading.number_formats import marks_of, number_text, text_text
from almanac.spiders.reading.number_sections import Marks
from almanac.spiders.reading.workbook import read_xlsx

_EN = Marks()
_ACCOUNTING = '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)'


def _saved(made: Any) -> bytes:
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def _with(body: bytes, name: str, old: str, new: str) -> bytes:
    """The file with a part in which `old`, a regular expression, is replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as parts, zipfile.ZipFile(out, "w") as archive:
        for part in parts.namelist():
            content = parts.read(part).decode()
            if part == name:
                changed = re.sub(old, new, content)
                assert changed != content
                content = changed
            archive.writestr(part, content)
    return out.getvalue()


def _shown(body: bytes, language: str = "en") -> list[Any]:
    elements = read_xlsx(body, 10_000, language).elements
    return [list(map(list, element.rows)) if element.kind == "table" else element.text for element in elements]


def _sheet(rows: Any, change: Any = lambda _: None) -> bytes:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    change(made.active)
    return _saved(made)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.25, "0%", "25%"), (0.125, "0.0%", "12.5%"), (0.125, "0%", "13%"), (1.005, "0.00", "1.01"), (0.285, "0%",
        "29%"),
        (1234.5, "€ #,##0.00", "€ 1,234.50"), (1234.5, "#,##0.00\\ [$€-407]", "1,234.50 €"), (1234.5, '"$"#,##0.00_-',
        "$1,234.50"),
        (5, "[$CHF] 0.00", "CHF 5.00"), (1234567, "#,##0", "1,234,567"), (999, "#,##0", "999"), (0, "#,##0", "0"), (0,
        "#", ""),
        (7, "00000", "00007"), (1234, "0", "1234"), (1500000, '0.0,,"M"', "1.5M"), (12345, "#,##0,", "12"), (3,
        '0 "pcs"', "3 pcs"),
        (90, '0 "km"/"h"', "90 km/h"), (3, "0\\ \\k\\g", "3 kg"), (5551234567, "(000) 000-0000", "(555) 123-4567"),
        (1234567, "##\\,##\\,##0", "12,34,567"), (12345, "0.00E+00", "1.23E+04"), (0.00012, "0.0E-0", "1.2E-4"), (9.999,
        "0.0E+0", "1.0E+1"),
        (12345, "##0.0E+0", "12.3E+3"), (1.5, "# ?/?", "1 1/2"), (0.25, "# ?/?", "1/4"), (2, "# ?/?", "2"), (1.5, "?/?",
        "3/2"),
        (0.5, "# ?/8", "4/8"), (-12, "0", "-12"), (-12, "#,##0_);(#,##0)", "-12"), (-12, "0;[Red]0", "-12"), (-12,
        '0;"minus "0', "minus 12"),
        (-12, "0;-0", "-12"), (-0.001, "0.00", "0.00"), (-1234.5, _ACCOUNTING, "-$1,234.50"), (0, _ACCOUNTING, "$0.00"),
        (1234.5, _ACCOUNTING, "$1,234.50"), (0, "0;-0;", ""), (5, ";;;", ""), (0, '0;0;"none"', "none"), (1,
        "[=1]0 \"day\";0 \"days\"", "1 day"),
        (2, "[=1]0 \"day\";0 \"days\"", "2 days"), (150, "[>=100]\"many\";0", "many"), (-5, "[>=100]\"many\";0", "-5"),
        (1, '"yes";;"no"', "yes"),
        (0, '"yes";;"no"', "no"), (1.5, '0.0"°C"', "1.5°C"), (2.5, "0.##", "2.5"), (2, "0.##", "2"), (3, "@", "3"),
        (1.5, 'General" km"', "1.5 km"),
        (0.1 + 0.2, "General", "0.3"), (1e-7, "General", "0.0000001"), (1e30, "General", "1E+30"), (-1.5e308, "0.00",
        "-1.5E+308"),
        (1e-305, "General", "1E-305"), (2**60, "General", "1152921504606846976"),
        (29.000000000000004, "General", "29"), (1, "0" * 400 + "%" * 400, "1"), (1, '"never closed', "never closed"),
        (float("inf"), "0", ""),
        (1, "[", "1"), (1, "\\", ""),
    ],
)  # fmt: skip
def test_a_number_is_written_as_its_format_shows_it(value: float, code: str, text: str) -> None:
    assert number_text(value, code, _EN) == text


def test_marks_are_those_of_the_language() -> None:
    shown = {
        language: number_text(1234567.5, "#,##0.00", marks_of(language))
        for language in ("en", "de", "fr", "vi", "auto", "")
    }
    assert (
        shown["en"] == shown["auto"] == shown[""] == "1,234,567.50"
        and shown["de"] == shown["vi"] == "1.234.567,50"
        and shown["fr"] == "1 234 567,50"
    )
    assert number_text(0.5, "General", marks_of("de")) == "0,5"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("General", "a"),
        ("@", "a"),
        ('"No. "@', "No. a"),
        ('0;0;0;"x "@', "x a"),
        (";;;", ""),
        ("0.00", "a"),
        ("0;;", "a"),
    ],
)
def test_a_text_has_what_its_format_puts_around_it(code: str, text: str) -> None:
    assert text_text("a", code) == text


@given(st.one_of(st.integers(), st.floats()), st.text('0#?.,%/@E+-;[]()"\\_*gG €x<=>1 ', max_size=30))
def test_any_format_writes_any_number(value: float, code: str) -> None:
    assert isinstance(number_text(value, code, _EN), str)


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=2, allow_nan=False))
def test_a_grouped_number_reads_back_as_itself(value: Decimal) -> None:
    assert Decimal(number_text(float(value), "#,##0.00", _EN).replace(",", "")) == value


@pytest.mark.parametrize("is_1904", [False, True])
def test_dates_are_written_by_iso_8601_as_far_as_their_format_goes(is_1904: bool) -> None:
    made = openpyxl.Workbook()
    if is_1904:
        made.epoch = CALENDAR_MAC_1904
    day, moment = dt.datetime(2024, 3, 5), dt.datetime(2024, 3, 5, 14, 30)
    cells = {
        "dd/mm/yyyy": (day, "2024-03-05"), "[$-407]d. mmmm yyyy": (day, "2024-03-05"), 'yyyy"年"m"月"d"日"': (day,
        "2024-03-05"), "mmm yyyy": (day, "2024-03"),
        "yyyy": (day, "2024"), "d mmm": (day, "2024-03-05"), "m/d/yy h:mm": (moment, "2024-03-05 14:30"),
        "yyyy-mm-dd hh:mm:ss": (moment, "2024-03-05 14:30:00"),
        "dd.mm.yyyy": (moment, "2024-03-05"), "h:mm AM/PM": (moment, "14:30"), "h:mm": (dt.time(9, 5), "09:05"),
        "[h]:mm:ss": (dt.timedelta(hours=30, minutes=5), "30:05:00"),
        "[h]:mm": (dt.timedelta(hours=30, minutes=5), "30:05"), "dd/mm/yy": (0, ""),
        "dd/mm/yyyy h:mm": (dt.datetime(2024, 3, 5), "2024-03-05"),
    }  # fmt: skip
    for number, (code, (value, _)) in enumerate(cells.items(), start=1):
        made.active.cell(number, 1, code)
        made.active.cell(number, 2, value).number_format = code
    assert _shown(_saved(made)) == ["Sheet", [["", ""], *([code, text] for code, (_, text) in cells.items())]]


def test_dates_that_east_asian_files_format_by_number_only_are_dates() -> None:
    body = _sheet([["日付", 45356]], lambda sheet: setattr(sheet["B1"], "number_format", "0"))
    assert _shown(_with(body, "xl/styles.xml", r'numFmtId="1"', 'numFmtId="31"')) == ["Sheet", [["日付", "2024-03-05"]]]


def test_kept_values_of_formulas_booleans_and_errors() -> None:
    """An error says that there is no value; a text that only looks like one is a text."""
    body = _sheet([["total", 3], ["name", "x"], ["done", True], ["bad", "#N/A"], ["end", 1]])
    body = _with(body, "xl/worksheets/sheet1.xml", r'<c r="B1" t="n"><v>3</v>', '<c r="B1"><f>1+2</f><v>3</v>')
    body = _with(
        body,
        "xl/worksheets/sheet1.xml",
        r'<c r="B2" t="inlineStr"><is><t>x</t></is>',
        '<c r="B2" t="str"><f>"y"</f><v>y_x000D_z</v>',
    )
    assert _shown(body) == ["Sheet", [["total", "3"], ["name", "y z"], ["done", "TRUE"], ["bad", ""], ["end", "1"]]]
    assert _shown(_sheet([["a", "#tag"]])) == ["Sheet", [["a", "#tag"]]]


def test_hidden_rows_columns_and_sheets_are_left_out() -> None:
    def hide(sheet: Any) -> None:
        sheet.row_dimensions[2].hidden = sheet.column_dimensions["B"].hidden = True
        sheet.column_dimensions["E"].width = 77
        kept_back = sheet.parent.create_sheet("Kept back")
        kept_back.append(["SECRET"])
        kept_back.sheet_state = "veryHidden"

    rows = [
        ["name", "SECRET", "price", "unit", "SECRET"],
        ["SECRET", 1, 2, "x", 3],
        ["lamp", "SECRET", 10, "pc", 4],
        [],
        ["next", 1, 2],
    ]
    body = _with(_sheet(rows, hide), "xl/worksheets/sheet1.xml", 'width="77"', 'width="0"')
    assert _shown(body) == ["Sheet", [["name", "price", "unit"], ["lamp", "10", "pc"]], [["next", "2"]]]
    # two columns, a row, two columns, one column, a sheet
    left = ["SECRET SECRET", "SECRET 1 2 x 3", "SECRET 4", "1", "SECRET"]
    assert read_xlsx(body, 1000).left_out == {"hidden": {"blocks": 5, "characters": sum(map(len, left))}}


def test_a_range_of_hidden_columns_is_left_out() -> None:
    def hide(sheet: Any) -> None:
        sheet.column_dimensions.group("B", "D", hidden=True)

    assert _shown(_sheet([["a", "SECRET", "SECRET", "SECRET", "e"]], hide)) == ["Sheet", [["a", "e"]]]


def test_a_merged_cell_stands_in_each_of_its_rows_and_in_the_first_of_its_columns_and_names_all_of_them() -> None:
    rows = [
        ["region", "product", "price", None],
        ["north", "lamp", 1, "a"],
        [None, "bed", 2, None],
        [None, "chair", 3, "c"],
        ["south", "both", None, "d"],
    ]

    def merge(sheet: Any) -> None:
        for where in ("A2:A4", "D2:D3", "B5:C5", "C1:D1"):
            sheet.merge_cells(where)

    shown = [
        ["region", "product", "price", "price"],
        ["north", "lamp", "1", "a"],
        ["north", "bed", "2", "a"],
        ["north", "chair", "3", "c"],
        ["south", "both", "", "d"],
    ]
    assert _shown(_sheet(rows, merge)) == ["Sheet", shown]


def test_what_a_merged_cell_covers_is_not_shown_and_its_value_is_beside_hidden_cells() -> None:
    body = _sheet(
        [["a", "b", "c"], ["x", "COVERED", "1"], ["COVERED", "COVERED", "2"]],
        lambda sheet: setattr(sheet.row_dimensions[2], "hidden", True),
    )
    body = _with(
        body,
        "xl/worksheets/sheet1.xml",
        "</sheetData>",
        '</sheetData><mergeCells count="1"><mergeCell ref="A2:B3"/></mergeCells>',
    )
    assert _shown(body) == ["Sheet", [["a", "b", "c"], ["x", "", "2"]]]


def test_a_title_over_several_rows_stands_once_and_parts_no_table() -> None:
    def merge(sheet: Any) -> None:
        for where in ("A1:C2", "A3:A4", "B3:B4"):
            sheet.merge_cells(where)

    rows = [["Prices 2024"], [None], ["name", "price", "x"], [None, None, "y"], ["lamp", 1, 2]]
    assert _shown(_sheet(rows, merge)) == ["Sheet", "Prices 2024", [["name", "price", "x y"], ["lamp", "1", "2"]]]


def test_numbers_are_in_the_language_of_the_texts_where_none_is_declared() -> None:
    """An item may be in another language than its workbook, so that a mark that could be either is left out."""
    rows = [
        ["Bezeichnung der Ware und Preis in unserem Geschäft", "Der Tisch ist aus Holz und steht im Wohnzimmer"],
        ["Tisch", 1234],
        ["x", 1234567],
        ["y", 1234],
    ]

    def formatted(sheet: Any) -> None:
        sheet["B2"].number_format = sheet["B3"].number_format = "#,##0"
        sheet["B4"].number_format = "#,##0.00"

    shown = {
        language: [row[1] for row in _shown(_sheet(rows, formatted), language)[1][1:]]
        for language in ("auto", "de", "en")
    }
    assert shown == {
        "auto": ["1234", "1.234.567", "1.234,00"],
        "de": ["1.234", "1.234.567", "1.234,00"],
        "en": ["1,234", "1,234,567", "1,234.00"],
    }


def test_a_workbook_without_styles_is_read() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_sheet([["a", 1]]))) as parts, zipfile.ZipFile(out, "w") as archive:
        for part in parts.namelist():
            if part != "xl/styles.xml":
                archive.writestr(part, re.sub(rb"<[^>]*styles\.xml[^>]*/>", b"", parts.read(part)))
    assert _shown(out.getvalue()) == ["Sheet", [["a", "1"]]]


def test_repeated_values_count_as_cells() -> None:
    rows = [["x", 0], *([None, number] for number in range(6000))]
    with pytest.raises(Unreadable, match="elements_per_file"):
        _shown(_sheet(rows, lambda sheet: sheet.merge_cells("A1:A6001")))


def test_raised_and_lowered_text_of_a_cell_is_characters() -> None:
    from openpyxl.cell.rich_text import CellRichText, TextBlock  # type: ignore[import-untyped]  # ships no types
    from openpyxl.cell.text import InlineFont  # type: ignore[import-untyped]  # ships no types

    def stands(text: str, how: str) -> Any:
        return TextBlock(InlineFont(vertAlign=how), text)

    dose = CellRichText(
        "2.4 × 10", stands("-", "superscript"), stands("6", "superscript"), " of H", stands("2", "subscript"), "O"
    )
    body = _sheet(
        [["Strain", "Dose"], ["A", dose], ["B", CellRichText(TextBlock(InlineFont(b=True), "bold"), " and plain")]]
    )
    assert _shown(body)[1:] == [[["Strain", "Dose"], ["A", "2.4 × 10⁻⁶ of H₂O"], ["B", "bold and plain"]]]
