"""Cells of tables that reach over several rows or columns stand in each of them."""

import pytest
from lxml import html as lxml_html

from almanac.core.spanned_cells import write_out_spanned
from tests.growth import assert_linear


def _rows(markup: str) -> list[list[str]]:
    table = lxml_html.fromstring(f"<table>{markup}</table>")
    write_out_spanned(table)
    return [[cell.text_content() for cell in row] for row in table.iter("tr")]


@pytest.mark.parametrize(
    ("markup", "rows"),
    [
        ("<tr><td rowspan=2>a<td>b<tr><td>c", [["a", "b"], ["a", "c"]]),
        ("<tr><td>a<td rowspan=2>b<tr><td>c", [["a", "b"], ["c", "b"]]),
        ("<tr><td colspan=2>a<td rowspan=2>b<tr><td>c<td>d", [["a", "a", "b"], ["c", "d", "b"]]),
        (
            "<tr><td rowspan=3>a<td rowspan=2>b<td>c<tr><td>d<tr><td>e<td>f",
            [["a", "b", "c"], ["a", "b", "d"], ["a", "e", "f"]],
        ),
        ("<tr><td rowspan=9>a<td>b<tr><td>c", [["a", "b"], ["a", "c"]]),
        ("<tr><td rowspan=0>a<td rowspan=x>b<td rowspan=-1>c<tr><td>d", [["a", "b", "c"], ["d"]]),
        ("<thead><tr><th rowspan=2>a<th>b<tr><th>c</thead><tbody><tr><td>d<td>e", [["a", "b"], ["a", "c"], ["d", "e"]]),
        ("<tr><td rowspan=2><b>a</b> b<td>c<tr>", [["a b", "c"], ["a b"]]),
    ],
)
def test_a_cell_stands_in_each_row_that_it_reaches_over(markup: str, rows: list[list[str]]) -> None:
    assert _rows(markup) == rows


@pytest.mark.parametrize(
    ("markup", "rows"),
    [
        # heads of two rows
        ("<tr><th rowspan=2>City<th colspan=2>Price<tr><th>Adult<th>Child<tr><td>Bern<td>9<td>5",
         [["City", "Price", "Price"], ["City", "Adult", "Child"], ["Bern", "9", "5"]]),
        ("<thead><tr><th colspan=2>Nom et prénom<th>Âge</thead><tr><td>Faure<td>Hélène<td>41",
         [["Nom et prénom", "Nom et prénom", "Âge"], ["Faure", "Hélène", "41"]]),
        # a value of several columns, and a label
        ("<tr><th>Ngày<th>Sáng<th>Chiều<th>Giá<tr><td>Thứ Hai<td colspan=2>nghỉ<td>0<tr><td colspan=3>Tổng<td>5",
         [["Ngày", "Sáng", "Chiều", "Giá"], ["Thứ Hai", "nghỉ", "nghỉ", "0"], ["Tổng", "", "", "5"]]),
        ("<tr><th>ליום<th>בוקר<th>ערב<tr><td>א<td colspan=2>סגור", [["ליום", "בוקר", "ערב"], ["א", "סגור", "סגור"]]),
        ("<tr><td colspan=2>Vorteile<td colspan=2>Nachteile<tr><td>+<td>billig<td>-<td>laut",
         [["Vorteile", "Vorteile", "Nachteile", "Nachteile"], ["+", "billig", "-", "laut"]]),
        # over rows and columns
        ("<tr><th>a<th>b<th>c<tr><td>d<td colspan=2 rowspan=2>e<tr><td>f", [["a", "b", "c"], ["d", "e", "e"], ["f", "e",
        "e"]]),
        # a title, a remark, and what reaches into columns that are none
        ("<tr><td colspan=3>Bảng giá<tr><th>A<th>B<th>C<tr><td>1<td>2<td>3", [["Bảng giá"], ["A", "B", "C"], ["1", "2",
        "3"]]),
        ("<tr><td>a<td colspan=99>b<tr><td colspan=2>c<td>d", [["a", "b", "b"], ["c", "", "d"]]),
        ("<tr><td colspan=2>a<td colspan=3>b<tr><td colspan=2>c<td colspan=3>d", [["a", "b"], ["c", "d"]]),
        ("<tr><td>a<td colspan=0>b<td colspan=x>c<td colspan=-2>d<tr><td>e", [["a", "b", "c", "d"], ["e"]]),
        (f"<tr><th>a<th>b<th>c<tr><td>d<td colspan=2>{'long ' * 200}", [["a", "b", "c"], ["d", "long " * 200, ""]]),
    ],
)  # fmt: skip
def test_a_cell_stands_in_each_column_that_it_reaches_over(markup: str, rows: list[list[str]]) -> None:
    assert _rows(markup) == rows


def test_a_table_inside_a_cell_is_left_alone() -> None:
    table = lxml_html.fromstring(
        "<table><tr><td>a<td><table><tr><td colspan=2>b<tr><td>c<td>d</table><tr><td colspan=2>e</table>"
    )
    write_out_spanned(table)
    assert [cell.get("colspan") for cell in table.iter("td")] == [None, None, "2", None, None, None]


def test_cells_that_reach_over_everything_are_written_out_to_a_limit() -> None:
    def table(rows: int) -> lxml_html.HtmlElement:
        return lxml_html.fromstring(f"<table>{'<tr>' + '<td rowspan=999>x</td>' * 3 + '</tr>' * rows}</table>")

    grown = lxml_html.fromstring("<table>" + "<tr><td rowspan=200>x</td></tr>" * 1_000 + "</table>")
    write_out_spanned(grown)
    assert len(list(grown.iter("td"))) <= 4_000
    assert_linear(write_out_spanned, table, 2_000)


def test_cells_over_many_columns_are_written_out_to_a_limit() -> None:
    def table(rows: int) -> lxml_html.HtmlElement:
        return lxml_html.fromstring(
            f"<table>{'<tr>' + '<td>x' * 50 + '</tr>'}{'<tr><td>y<td colspan=49>z</tr>' * rows}</table>"
        )

    wide = table(1_000)
    write_out_spanned(wide)
    assert len(list(wide.iter("td"))) <= 5_000
    assert_linear(write_out_spanned, table, 1_000)
