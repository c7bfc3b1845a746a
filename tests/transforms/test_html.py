"""HTML becomes text that one can read: structure kept, navigation gone, no network asked."""

import html
import socket
from collections.abc import Callable

import pytest

from almanac.spiders.mapping.values import convert
from almanac.transforms.clean import clean_text
from almanac.transforms.html.page import Part, html_to_markdown
from tests.growth import assert_linear

_PAGE = """<html><head><title>t</title><script>var a = 1</script></head><body>
<nav><ul><li><a href="/">Home page</a></li><li><a href="/tours">All tours</a></li></ul></nav>
<main><h1>Refund policy</h1>
<p>We refund <b>all</b> payments within 14 days &mdash; no ques<i>tion</i>s asked, and no fee is kept for it.</p>
<h2>How to ask</h2>
<ul><li>Write to the office that sold the tour.</li><li>Name the booking code.</li></ul>
<table><tr><th>Days before</th><th>Refund</th></tr><tr><td>30</td><td>100 %</td></tr><tr><td>7</td><td>50 %</td></tr></table>
<p>Tiền được hoàn lại trong vòng mười bốn ngày kể từ ngày hủy tour.</p></main>
<footer><p>© 2026 An Agency. All rights reserved.</p></footer></body></html>"""  # noqa: E501


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.slow
def test_main_text_keeps_headings_lists_tables_and_inline_words() -> None:
    text = html_to_markdown(_PAGE, "main")
    assert "# Refund policy" in text
    assert "## How to ask" in text
    assert "within 14 days — no questions asked" in text
    assert "- Write to the office that sold the tour.\n- Name the booking code." in text
    assert "| Days before | Refund |\n| --- | --- |\n| 30 | 100 % |\n| 7 | 50 % |" in text
    assert "Tiền được hoàn lại trong vòng mười bốn ngày" in text


@pytest.mark.slow
def test_main_text_leaves_navigation_and_footer_out() -> None:
    text = html_to_markdown(_PAGE, "main")
    assert "All tours" not in text
    assert "All rights reserved" not in text
    assert "var a" not in text


@pytest.mark.slow
def test_all_keeps_what_the_page_shows() -> None:
    text = html_to_markdown(_PAGE, "all")
    assert "All tours" in text
    assert "All rights reserved" in text
    assert "var a" not in text


@pytest.mark.slow
@pytest.mark.parametrize("page", ["", "   ", "<html></html>", "<html><body><script>x()</script></body></html>"])
@pytest.mark.parametrize("part", ["main", "all"])
def test_a_page_without_text_gives_none(page: str, part: str) -> None:
    assert html_to_markdown(page, part) == ""  # type: ignore[arg-type]


def test_malformed_html_is_read() -> None:
    assert "still here" in html_to_markdown("<p>text <b>still here<div></p></i>" + "<div>" * 200, "all")


_GUIDE = """<html><head><title>t</title></head><body><header><a href=/>Site</a><h1>Install guide</h1></header>
<div id=menu><ul><li><a href=/a>All of our products</a></li><li><a href=/b>Everything else we have</a></li></ul></div>
<div class=titlepage><div><h2>Before you start</h2></div></div>
<div class=para>Read this guide to its end before you start, since the second step cannot be taken back without our help.</div>
<ol><li>Fetch the archive from the mirror.</li><li>Unpack it:<ul><li>on Linux with tar,</li><li>elsewhere with a tool.</li></ul></li></ol>
<pre><span>def</span> install(path):
    return   path</pre>
<div class=para>Run <code>install  now</code> and wait until the lamp on the front is green, which takes about two minutes in all.</div>
<table><caption>Sizes</caption><tr><th>Name</th><th>Size</th></tr><tr><td rowspan=2>Large</td><td>20 cm</td></tr><tr><td>30 cm</td></tr></table>
<dl><dt>Mirror</dt><dd>A server that holds a copy of another one, near to you.</dd></dl>
<details><summary>Is it free of charge?</summary><p>Yes, the installer is free for all uses, at home as well as at work and in schools.</p></details>
<aside><h3>Related posts</h3><p>Ten things that you should know about our other installers, and more.</p></aside></body></html>"""  # noqa: E501


@pytest.mark.parametrize("part", ["main", "all"])
def test_lists_code_tables_definitions_and_questions_keep_their_form(part: Part) -> None:
    text = html_to_markdown(_GUIDE, part)
    for block in (
        "# Install guide",
        "## Before you start",
        "1. Fetch the archive from the mirror.\n2. Unpack it:\n  - on Linux with tar,\n  - elsewhere with a tool.",
        "```\ndef install(path):\n    return   path\n```",
        "Run install now and wait",
        "Sizes",
        "Sizes\n\n| Name | Size |\n| --- | --- |\n| Large | 20 cm |\n| Large | 30 cm |",
        "- Mirror: A server that holds a copy of another one, near to you.",
        "#### Is it free of charge?",
    ):
        assert block in text
    assert text.index("Fetch") < text.index("def install") < text.index("Name | Size") < text.index("Is it free")


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("<tr><th rowspan=2>City<th colspan=2>Price<th rowspan=2>Open<tr><th>Adult<th>Child<tr><td>Bern<td>9<td>" "5<td>9-17",  # noqa: E501
         "| City | Price Adult | Price Child | Open |\n| --- | --- | --- | --- |\n| Bern | 9 | 5 | 9-17 |"),
        ("<tr><th>Jour<th>Matin<th>Soir<th>Prix<tr><td>Lundi<td colspan=2>fermé<td>0 €<tr><td>Mardi<td>9 h<td>18 " "h<td>5 €",  # noqa: E501
         "| Jour | Matin | Soir | Prix |\n| --- | --- | --- | --- |\n| Lundi | fermé | fermé | 0 € |\n| Mardi | 9 " "h | 18 h | 5 € |"),  # noqa: E501
        ("<tr><th><th>Adulte<th>Enfant<tr><th>Lundi<td>9 €<td>5 €<tr><th>Mardi<td><td>6 €",
         "| | Adulte | Enfant |\n| --- | --- | --- |\n| Lundi | 9 € | 5 € |\n| Mardi | | 6 € |"),
        ("<tr><td><th colspan=2>Giá<tr><td>Ngày<th>Người lớn<th>Trẻ em<tr><td>Thứ Hai<td>9<td>5",
         "| Ngày | Giá Người lớn | Giá Trẻ em |\n| --- | --- | --- |\n| Thứ Hai | 9 | 5 |"),
        ("<tr><td><img src=x><td>Phở<td>9 €<tr><td><img src=y><td>Bún<td>8 €",
        "| | |\n| --- | --- |\n| Phở | 9 € |\n| Bún | 8 € |"),
    ],
)  # fmt: skip
def test_values_stand_below_their_heads(table: str, rows: str) -> None:
    page = (
        "<main><h1>Table</h1><p>A sentence above the table, which says what its rows and columns are about, in "
        f"many words.</p><table>{table}</table></main>"
    )
    assert all(html_to_markdown(page, part).endswith(rows) for part in ("main", "all"))
    assert convert(f"<table>{table}</table>", "html") == rows


def test_main_text_of_a_page_whose_boilerplate_is_not_marked_leaves_it_out() -> None:
    text = html_to_markdown(_GUIDE, "main")
    assert "All of our products" not in text
    assert "Related posts" not in text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
        (
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>",
            "| A | B |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<div>Just a line</div>", "Just a line"),
        ("<body>bare<p>para</p>tail <i>it</i> end", "bare\n\npara\n\ntail it end"),
        ("<p>0</p>", "0"),
        ("<h1>東京ツアー</h1><p>三日間の旅行です。</p>", "# 東京ツアー\n\n三日間の旅行です。"),
        ("<h1>عنوان</h1><p>نص قصير.</p>", "# عنوان\n\nنص قصير."),
        ("<p>write &lt;br&gt; or &amp;lt;</p>", "write <br> or &lt;"),
    ],
)
@pytest.mark.parametrize("part", ["main", "all"])
def test_short_pages_lose_nothing(page: str, text: str, part: Part) -> None:
    assert html_to_markdown(page, part) == text


def test_all_keeps_what_libraries_leave_out() -> None:
    text = html_to_markdown(
        "<p>a</p><select><option>small<option>large</select><textarea>typed</textarea><math><mi>x</mi></math>", "all"
    )
    assert all(word in text for word in ("a", "small", "large", "typed", "x"))


@pytest.mark.parametrize("mark", ["😍", "﷽", "%", "-", ".", "\\", "0"])
@pytest.mark.parametrize("part", ["main", "all"])
def test_a_paragraph_of_one_mark_is_text(mark: str, part: Part) -> None:
    assert html_to_markdown(f"<p>Before.</p><p>{mark}</p><p>After.</p>", part) == f"Before.\n\n{mark}\n\nAfter."


def test_all_has_the_words_of_a_drawing_and_main_has_not() -> None:
    page = (
        "<p>Sales.</p><svg><style>.a{}</style><title>Chart</title><text>Jan</text><text>Feb <tspan>12</tspan> "
        "%</text></svg><p>More.</p>"
    )
    assert html_to_markdown(page, "all") == "Sales.\n\nChart Jan Feb 12 %\n\nMore."
    assert html_to_markdown(page, "main") == "Sales.\n\nMore."


def test_facts_beside_main_text_belong_to_it() -> None:
    text = (
        "A lamp that gives a warm light in the evening, and that stands on three feet of solid oak. It was made "
        "by hand in our workshop."
    )
    facts = "<dl><dt>Size<dd>XL<dt>Colour<dd>red</dl>"
    menu = "<ul><li><a href=/a>Lamps and lights</a><li><a href=/b>Chairs and tables</a></ul>"
    for box in (f"{facts}<p>{text}</p>", f"<p>{text}</p>{facts}"):
        markdown = html_to_markdown(
            f"<html><body>{menu}<div>{box}</div><footer>All rights reserved</footer></body></html>", "main"
        )
        assert "- Size: XL\n- Colour: red" in markdown and text in markdown and "Chairs" not in markdown


def test_a_table_that_lays_out_the_page_is_no_table() -> None:
    page = "<table><tr><td><h2>Left</h2><ul><li>x</li></ul></td><td><p>Right</p></td></tr></table>"
    assert html_to_markdown(page, "all") == "## Left\n\n- x\n\nRight"


# How many pieces take some 50 ms where the main text is looked for, and where all is read.
_LARGE: dict[str, tuple[Callable[[int], str], dict[Part, int]]] = {
    "cells": (
        lambda n: "<table>" + ("<tr>" + "<td>c</td>" * 20 + "</tr>") * n + "</table><p>INSIDE</p>",
        {"main": 40, "all": 500},
    ),
    "paragraphs": (
        lambda n: "<p>Some words in a paragraph, and more of them.</p>" * n + "<p>INSIDE</p>",
        {"main": 300, "all": 8_000},
    ),
    "nested": (lambda n: "<div>" * n + "<p>INSIDE</p>", {"main": 40, "all": 40}),
    "a long line": (lambda n: "<p>" + "word " * n + "INSIDE</p>", {"main": 10_000, "all": 500_000}),
    "spans": (
        lambda n: "<table>" + "<tr><td rowspan=5000>c</td></tr>" * n + "</table><p>INSIDE</p>",
        {"main": 60, "all": 300},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["main", "all"])
@pytest.mark.parametrize("name", _LARGE)
def test_large_pages_are_read_whole_in_linear_time(name: str, part: Part) -> None:
    def read(page: str) -> None:
        assert "INSIDE" in html_to_markdown(page, part)

    make, counts = _LARGE[name]
    assert_linear(read, make, counts[part])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            "main",
            "has elements in more than 100 others: it is read as a whole, without telling its main text; only "
            "what is navigation by its tag is left out",
        ),
        ("all", "has elements in more than 100 others: it is read as a whole, in one pass"),
    ],
)
def test_what_keeps_a_page_from_being_divided_is_told(
    part: Part, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert html_to_markdown("<html><body>" + "<div>" * 100 + "<p>Inside</p>", part) == "Inside"
    assert [record.getMessage().split(" characters ", 1)[1] for record in caplog.records] == [message]


@pytest.mark.parametrize("word", ["_", "<", '"', "http://", "a.", "1.", "@a.", "é!"])
@pytest.mark.parametrize("part", ["main", "all"])
def test_a_long_word_of_marks_takes_linear_time(word: str, part: Part) -> None:
    assert word * 50_000 in html_to_markdown(f"<p>{html.escape(word * 50_000)}</p>", part)
    assert_linear(
        lambda page: html_to_markdown(page, part), lambda count: f"<p>{html.escape(word * count)}</p>", 60_000
    )


_NASTY = [
    "'; DROP TABLE users--", "Ω≈ç√∫˜µ≤≥÷", "田中さんにあげて下さい", "مُنَاقَشَةُ سُبُلِ", "👩‍👩‍👧‍👦 🇻🇳",
    "Z̮̞̠͙͔ͅḀ̗̞͈̻̗Ḷ͙͎̯̹̞͓G̻O̭̗̮", "<script>alert(1)</script>", "{{7*7}}",
    "NULL", "nil", "true", "0", "1e309", "-0.0", "./../../etc/passwd", "```", "~~~x", "---", "+++", "# no heading",
    "| a | b |", "- item", "&lt;b&gt;",
    "&amp;nbsp;", "$HOME `ls`", "]]>", "<!-- x -->", "<![CDATA[x]]>", "ﷺ Ⱥ ß ŉ ﬃ", "a\u200bb\u202ec\ufeffd",
    "line\u2028sep", "x" * 10_000, "CON", "=1+1",
]  # fmt: skip


@pytest.mark.parametrize("part", ["main", "all"])
@pytest.mark.parametrize("text", _NASTY)
def test_no_string_breaks_a_page_or_is_lost_in_it(text: str, part: Part) -> None:
    page = f"<html><body><h1>Title</h1><p>{html.escape(text)}</p></body></html>"
    expected_letters = [c for c in clean_text(text, entities=False) if c.isalnum()]
    read_letters = [c for c in clean_text(html_to_markdown(page, part), entities=False) if c.isalnum()]
    assert read_letters == [*"Title", *expected_letters]
