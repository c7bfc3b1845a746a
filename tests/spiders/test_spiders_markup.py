"""Markup of any kind gives a tree, keeps its text, and takes linear time."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.spiders.reading.markup import MAX_ATTRIBUTES, parse_markup
from almanac.spiders.selecting.selectors import element_text
from tests.growth import assert_linear

_HOSTILE: dict[str, tuple[Callable[[int], str], int]] = {
    "divs": (lambda n: "<div>" * n + "INSIDE" + "</div>" * n, 10_000),
    "inline": (lambda n: "<b>" * n + "INSIDE", 10_000),
    "tables": (lambda n: "<table><tr><td>" * n + "INSIDE", 3_500),
    "lists": (lambda n: "<ul><li>item " * n + "INSIDE", 5_000),
    "one attribute": (lambda n: '<p title="' + "x" * n + '">INSIDE', 2_000_000),
    "many attributes": (lambda n: "<p " + " ".join(f"a{number}=1" for number in range(n)) + ">INSIDE", 50_000),
    "empty tags": (lambda n: "<br>" * n + "INSIDE", 15_000),
    "cells": (lambda n: "<table>" + ("<tr>" + "<td>c" * 20) * n + "</table>INSIDE", 600),
    "closers": (lambda n: "</div></p></b>" * n + "INSIDE", 80_000),
    "angles": (lambda n: "<" * n + " INSIDE", 400_000),
    "ampersands": (lambda n: "&" * n + "INSIDE", 1_000_000),
    "one line": (lambda n: "word " * n + "INSIDE", 300_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _HOSTILE)
def test_text_of_hostile_markup_is_kept_in_linear_time(name: str) -> None:
    def read(markup: str) -> None:
        assert "INSIDE" in element_text(parse_markup(markup).root)

    assert_linear(read, *_HOSTILE[name])


@pytest.mark.parametrize(
    "markup",
    [
        "<p>a\0b INSIDE",
        "<html><body>X</body></html>INSIDE",
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><p><![CDATA[INSIDE]]></p></body></html>',
        "<p>a<plaintext>INSIDE <b>",
        "<div>" * 100_000 + "INSIDE" + "</div>" * 100_000,
    ],
    ids=["NUL", "behind the end", "CDATA", "plaintext", "deep"],
)
def test_text_of_broken_markup_is_kept(markup: str) -> None:
    assert "INSIDE" in element_text(parse_markup(markup).root)


@pytest.mark.parametrize(
    ("piece", "start", "count"),
    [
        ('<a b="', "", 50_000),
        ("<a b='", "<div>" * 3000, 50_000),
        ("<!--", "", 200_000),
        ("<script>", "", 100_000),
        ("<?php ", "", 100_000),
    ],
)
def test_what_is_never_closed_takes_linear_time(piece: str, start: str, count: int) -> None:
    assert_linear(parse_markup, lambda pieces: start + piece * pieces, count)


def test_what_follows_a_deep_nest_is_still_there() -> None:
    page = parse_markup(
        "<p>before</p>" + "<div>" * 5000 + "<h2 class=x>deep</h2>" + "</div>" * 5000 + "<p class=y>after</p>"
    )
    assert page.css("p.y::text").get() == "after"
    assert "before" in element_text(page.root)
    assert "deep" in element_text(page.root)


def test_the_first_attributes_of_a_tag_count() -> None:
    tag = "<a href='/x' " + " ".join(f"a{n}='{n}'" for n in range(1000)) + ">t</a>"
    attributes = parse_markup(tag).css("a").attrib
    assert attributes["href"] == "/x"
    assert len(attributes) <= MAX_ATTRIBUTES + 1


@pytest.mark.parametrize("form", ["html", "xml"])
@pytest.mark.parametrize(
    "text", ["", "  ", "<!-- only -->", "no markup", "<a>" * 5000 + "deep", "\x01\ufffe", "<?xml version='1.0'?>"]
)
def test_there_is_always_a_tree(text: str, form: str) -> None:
    assert isinstance(element_text(parse_markup(text, form).root), str)


def test_xml_keeps_cdata_and_resolves_no_entities() -> None:
    assert element_text(parse_markup("<r><![CDATA[a<b]]></r>", "xml").root) == "a<b"
    bomb = (
        '<!DOCTYPE r [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>'
        "<r>&b;&c;</r>"
    )
    assert "root:" not in element_text(parse_markup(bomb, "xml").root)


@given(st.text(alphabet="<>/&;!-= \"'abdivpx\0\n", max_size=200))
def test_no_markup_is_refused(text: str) -> None:
    element_text(parse_markup(text).root)
