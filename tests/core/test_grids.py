"""Which tables of a page are grids of values, what names their columns, and that no text of theirs is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from almanac.core.grids import grid_blocks, is_grid, write_grids
from tests.growth import assert_linear


def _written(table: str) -> list[str]:
    """The blocks of a page's grids."""
    root = lxml_html.fromstring(f"<div>{table}</div>")
    write_grids(root)
    return [block for element in root.iter("table") if is_grid(element) for block in grid_blocks(element)]


def _rows(table: str) -> list[list[str]]:
    """The rows of a grid, its names first, without the line below them."""
    names, _, *rows = _written(f"<table>{table}</table>")[-1].split("\n")
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in (names, *rows)]


@pytest.mark.parametrize(
    ("markup", "names"),
    [
        ("<thead><tr><td>A<td>B</thead><tbody><tr><td>1<td>2</tbody>", ["A", "B"]),
        ("<tr><th>A<th>B<tr><td>1<td>2", ["A", "B"]),
        ("<tr><td><th>A<th>B<tr><th>x<td>1<td>2", ["", "A", "B"]),
        # two rows and three
        ("<tr><th rowspan=2>P<th colspan=2>2024<tr><th>Q1<th>Q2<tr><td>x<td>1<td>2", ["P", "2024 Q1", "2024 Q2"]),
        ("<thead><tr><th>P<th>P<tr><th>a<th>b<tr><th>kg<th>kg</thead><tr><td>1<td>2", ["P a kg", "P b kg"]),
        (
            "<tr><td rowspan=2>P<td colspan=2>2024<tr><td>Q1<td>Q2<tr><td>x<td>1<td>2<tr><td>y<td>1<td>2",
            ["P", "2024 Q1", "2024 Q2"],
        ),
        (
            "<tr><td><td colspan=2>2024<tr><td>P<td>Q1<td>Q2<tr><td>x<td>1<td>2<tr><td>y<td>1<td>2",
            ["P", "2024 Q1", "2024 Q2"],
        ),
        # no tag says so
        (
            "<tr><td>Jour<td>Lieu<td>Prix<tr><td>lundi<td>Lyon<td>9 €<tr><td>mardi<td>Nice<td>8 €",
            ["Jour", "Lieu", "Prix"],
        ),
        ("<tr><td><b>Tag</b><td><strong>Zeit</strong><tr><td>Mo<td>9-17<tr><td>Di<td>9-17", ["Tag", "Zeit"]),
        ("<tr><td><td>Giá<tr><td>Phở<td>9<tr><td>Bún<td>8", ["", "Giá"]),
        (
            "<tr><td colspan=2>Pro<td colspan=2>Contra<tr><td>+<td>cheap<td>-<td>loud<tr><td>+<td>light<td>-<td>old",
            ["Pro", "Pro", "Contra", "Contra"],
        ),
        # nothing names the columns
        ("<tr><th>Price<td>5 €<tr><th>Size<td>L", ["", ""]),
        ("<tr><td>Region<td>Napa<tr><td>Grape<td>Zinfandel", ["", ""]),
        ("<tr><td>Lamp<td>9 €<td>3<tr><td>Bed<td>80 €<td>1", ["", "", ""]),
        ("<thead><tr><td>Lamp<td>9<tr><td>Bed<td>80</thead>", ["", ""]),
    ],
)
def test_the_first_row_of_a_grid_names_its_columns(markup: str, names: list[str]) -> None:
    assert _rows(markup)[0] == names


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("<ul><li>10:00 to 20:00</li></ul>", "10:00 to 20:00"),
        ("<ul>\n <li>9:00 - 12:00</li>\n <li>14:00 - 18:00</li>\n</ul>", "9:00 - 12:00; 14:00 - 18:00"),
        (
            "Bring: <ol><li>shoes</li><li>water<ul><li>2 l</li></ul></li></ol> and time",
            "Bring: shoes; water; 2 l and time",
        ),
        ("<p>One.</p><p>Two</p>", "One. Two"),
        ("9-12<br>14-18", "9-12 14-18"),
        ("<pre>a = 1\nb = 2</pre>", "a = 1 b = 2"),
        ("<h3>Basic</h3><div>for <b>t</b>wo</div>", "Basic for two"),
        ("<dl><dt>net</dt><dd>5</dd><dt>gross</dt><dd>6</dd></dl>", "net: 5; gross: 6"),
        ("<table><tr><td>Beamer<td>2<tr><td>Chairs<td>30</table>", "Beamer 2; Chairs 30"),
        ("<blockquote>said</blockquote><script>var a</script>", "said"),
        ("<ruby>目</ruby>の<x-time>前</x-time>", "目の前"),
        ("a | b", "a \\| b"),
    ],
)
def test_whatever_a_cell_holds_stands_on_its_line(cell: str, text: str) -> None:
    blocks = _written(f"<table><tr><th>Day<th>Open<tr><td>Mon<td>{cell}</td></tr><tr><td>Tue<td>closed</table>")
    assert blocks == [f"| Day | Open |\n| --- | --- |\n| Mon | {text} |\n| Tue | closed |"]


def test_what_a_page_calls_a_table_is_one() -> None:
    head = (
        "<div role=rowgroup><div role=row><span role=columnheader>Plan</span><span role=columnheader>Seats</span>"
        "</div></div>"
    )
    rows = "".join(
        f"<div role=row><!-- x --><b role=rowheader>{plan}</b><span role=cell>{seats}</span></div>"
        for plan, seats in (("S", "5"), ("M", "<i>25</i>"))
    )
    plans = f"<div role=table>{head}<div class=scroll><div role=rowgroup>{rows}</div></div></div>"
    assert _written(plans) == ["| Plan | Seats |\n| --- | --- |\n| S | 5 |\n| M | 25 |"]
    assert _written("<div role=grid><div role=row>no cells</div></div>") == []


def test_what_stands_alone_above_the_names_is_no_row() -> None:
    rows = "<tr><th colspan=3>Opening hours 2024<tr><th>B<th>Mo<th>Sa<tr><td>x<td>8-18<td>9-12<tr><td>y<td>8-18<td>"
    table = f"<table><caption>Fees <i>net</i></caption>{rows}</table>"
    assert _written(table) == [
        "Fees net",
        "Opening hours 2024",
        "| B | Mo | Sa |\n| --- | --- | --- |\n| x | 8-18 | 9-12 |\n| y | 8-18 | |",
    ]
    within = "<table><tr><th>Dish<th>Price<tr><td colspan=2>Starters<tr><td>Soup<td>4<tr><td>Fish<td>9</table>"
    assert _written(within)[0].split("\n")[2] == "| Starters | |"


def test_sums_come_last_and_empty_rows_and_columns_are_none() -> None:
    table = (
        "<thead><tr><th>A<th><th>B</thead><tfoot><tr><td>Sum<td><td>3</tfoot><tbody><tr><td>x<td><td>1<tr><td><td>"
        "<td><tr><td>y<td><td>2</tbody>"
    )
    assert _rows(table) == [["A", "B"], ["x", "1"], ["y", "2"], ["Sum", "3"]]


@pytest.mark.parametrize(
    "table",
    [
        "<table role=presentation><tr><th>A<th>B<tr><td>1<td>2</table>",
        "<table><tr><th>A<tr><td>1<tr><td>2</table>",
        "<table><tr><th>Phone<td>123</table>",
        "<table><tr><td colspan=2>Banner<tr><td><ul><li><a href=/a>x</a></ul><td>Text</table>",
        f"<table><tr><td>menu<td>{'<p>Long.' * 9}<tr><td>more<td>end</table>",
        f"<table><tr><td>a<td>b<tr><td>c<td><table><tr><th>x<th>y<tr><td>{'1 ' * 400}<td>2</table></table>",
        "<table><tr><td><h2>News</h2>text<td><h2>Dates</h2>text<tr><td>more<td>more</table>",
        "<table><tr><td><td>1<tr><td><td>2</table>",
    ],
)
def test_a_table_for_layout_is_no_grid(table: str) -> None:
    root = lxml_html.fromstring(f"<div>{table}</div>")
    write_grids(root)
    assert not is_grid(root.find("table"))


def test_a_page_does_not_say_itself_what_is_a_grid() -> None:
    assert _written("<table data-almanac-grid><tr><td>a</table>") == []


_PARTS = st.sampled_from(
    [
        "<p>",
        "<ul><li>",
        "<li>",
        "</li></ul>",
        "<br>",
        "<pre>",
        "<b>",
        "</b>",
        "<div>",
        "</div>",
        "<dl><dt>",
        "<dd>",
        "</dl>",
        "<a href=x>",
        "</a>",
    ]
)
_CELL = st.lists(st.one_of(_PARTS, st.sampled_from(["w1", "w2 ", " w3", "w4|", ";", "é"])), max_size=8).map("".join)
_ROW = st.lists(
    st.tuples(st.sampled_from(["<td>", "<th>", "<td colspan=2>", "<td rowspan=2>", "<th rowspan=3 colspan=2>"]), _CELL),
    max_size=4,
)


@given(st.lists(_ROW, max_size=5), st.sampled_from(["", "<caption>w5</caption>", "w6", "<thead>", "<tfoot>"]))
def test_no_word_of_a_table_is_lost(rows: list[list[tuple[str, str]]], before: str) -> None:
    written = "".join(f"<tr>{''.join(tag + cell + f'</{tag[1:3]}>' for tag, cell in row)}</tr>" for row in rows)
    table = f"<table>{before}{written}</table>"
    root = lxml_html.fromstring(f"<div>{table}</div>")
    words = set(re.findall(r"w\d|é", root.text_content()))
    write_grids(root)
    if (element := root.find(".//table")) is not None and is_grid(element):
        shown = " ".join(grid_blocks(element))
        assert words <= set(re.findall(r"w\d|é", shown))
        widths = {line.replace("\\|", "").count("|") for line in list(grid_blocks(element))[-1].split("\n")}
        assert len(widths) == 1


def test_long_tables_take_linear_time() -> None:
    def table(rows: int) -> lxml_html.HtmlElement:
        return lxml_html.fromstring(
            f"<div><table><tr><th>A<th>B{'<tr><td>x<td><ul><li>y<li>z</ul>' * rows}</table></div>"
        )

    assert_linear(write_grids, table, 2_000)


def test_long_cells_take_linear_time() -> None:
    def table(lines: int) -> lxml_html.HtmlElement:
        cell = "<br>".join(f"line {number} <a href=x>more</a>" for number in range(lines))
        return lxml_html.fromstring(f"<div><table><tr><th>A<th>B<tr><td>x<td>{cell}</table></div>")

    assert_linear(write_grids, table, 1_000)
