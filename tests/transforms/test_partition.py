"""HTML becomes text that one can read: structure kept, navigation gone, no network asked."""

import socket

import pytest

from transforms.partition import html_to_markdown

_PAGE = """<html><head><title>t</title><script>var a = 1</script></head><body>
<nav><ul><li><a href="/">Home page</a></li><li><a href="/tours">All tours</a></li></ul></nav>
<main><h1>Refund policy</h1>
<p>We refund <b>all</b> payments within 14 days &mdash; no ques<i>tion</i>s asked, and no fee is kept for it.</p>
<h2>How to ask</h2>
<ul><li>Write to the office that sold the tour.</li><li>Name the booking code.</li></ul>
<table><tr><th>Days before</th><th>Refund</th></tr><tr><td>30</td><td>100 %</td></tr><tr><td>7</td><td>50 %</td></tr></table>
<p>Tiền được hoàn lại trong vòng mười bốn ngày kể từ ngày hủy tour.</p></main>
<footer><p>© 2026 An Agency. All rights reserved.</p></footer></body></html>"""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_main_text_keeps_headings_lists_tables_and_inline_words() -> None:
    text = html_to_markdown(_PAGE, "main")
    assert "# Refund policy" in text
    assert "## How to ask" in text
    assert "within 14 days — no questions asked" in text
    assert "- Write to the office that sold the tour.\n- Name the booking code." in text
    assert "30 | 100 %\n7 | 50 %" in text
    assert "Tiền được hoàn lại trong vòng mười bốn ngày" in text


def test_main_text_leaves_navigation_and_footer_out() -> None:
    text = html_to_markdown(_PAGE, "main")
    assert "All tours" not in text
    assert "All rights reserved" not in text
    assert "var a" not in text


def test_all_keeps_what_the_page_shows() -> None:
    text = html_to_markdown(_PAGE, "all")
    assert "All tours" in text
    assert "All rights reserved" in text
    assert "var a" not in text


@pytest.mark.parametrize("page", ["", "   ", "<html></html>", "<html><body><script>x()</script></body></html>"])
@pytest.mark.parametrize("part", ["main", "all"])
def test_a_page_without_text_gives_none(page: str, part: str) -> None:
    assert html_to_markdown(page, part) == ""  # type: ignore[arg-type]


def test_malformed_html_is_read() -> None:
    assert "still here" in html_to_markdown("<p>text <b>still here<div></p></i>" + "<div>" * 200, "all")
