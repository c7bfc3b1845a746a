"""Cells of tables that reach over several rows stand in each of them."""

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
        ("<tr><td colspan=2>a<td rowspan=2>b<tr><td>c<td>d", [["a", "b"], ["c", "d", "b"]]),
        ("<tr><td rowspan=3>a<td rowspan=2>b<td>c<tr><td>d<tr><td>e<td>f", [["a", "b", "c"], ["a", "b", "d"], ["a", "e", "f"]]),
        ("<tr><td rowspan=9>a<td>b<tr><td>c", [["a", "b"], ["a", "c"]]),
        ("<tr><td rowspan=0>a<td rowspan=x>b<td rowspan=-1>c<tr><td>d", [["a", "b", "c"], ["d"]]),
        ("<thead><tr><th rowspan=2>a<th>b<tr><th>c</thead><tbody><tr><td>d<td>e", [["a", "b"], ["a", "c"], ["d", "e"]]),
        ("<tr><td rowspan=2><b>a</b> b<td>c<tr>", [["a b", "c"], ["a b"]]),
    ],
)
def test_a_cell_stands_in_each_row_that_it_reaches_over(markup: str, rows: list[list[str]]) -> None:
    assert _rows(markup) == rows


def test_cells_that_reach_over_everything_are_written_out_to_a_limit() -> None:
    def table(rows: int) -> lxml_html.HtmlElement:
        return lxml_html.fromstring(f"<table>{'<tr>' + '<td rowspan=999>x</td>' * 3 + '</tr>' * rows}</table>")

    grown = lxml_html.fromstring("<table>" + "<tr><td rowspan=200>x</td></tr>" * 1_000 + "</table>")
    write_out_spanned(grown)
    assert len(list(grown.iter("td"))) <= 4_000
    assert_linear(write_out_spanned, table, 2_000)
