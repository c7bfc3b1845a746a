"""Markup of any kind gives a tree, keeps its text, and takes bounded time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.spiders.reading.markup import MAX_ATTRIBUTES, parse_markup
from almanac.spiders.selecting.selectors import element_text

_HOSTILE = {
    "divs": "<div>" * 100_000 + "INSIDE" + "</div>" * 100_000,
    "inline": "<b>" * 100_000 + "INSIDE",
    "tables": "<table><tr><td>" * 20_000 + "INSIDE",
    "lists": "<ul><li>item " * 30_000 + "INSIDE",
    "one attribute": '<p title="' + "x" * 50_000_000 + '">INSIDE',
    "many attributes": "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">INSIDE",
    "empty tags": "<br>" * 1_000_000 + "INSIDE",
    "cells": "<table>" + ("<tr>" + "<td>c" * 20) * 10_000 + "</table>INSIDE",
    "closers": "</div></p></b>" * 300_000 + "INSIDE",
    "angles": "<" * 3_000_000 + " INSIDE",
    "ampersands": "&" * 5_000_000 + "INSIDE",
    "one line": "word " * 4_000_000 + "INSIDE",
    "NUL": "<p>a\0b INSIDE",
    "behind the end": "<html><body>X</body></html>INSIDE",
    "CDATA": '<html xmlns="http://www.w3.org/1999/xhtml"><body><p><![CDATA[INSIDE]]></p></body></html>',
    "plaintext": "<p>a<plaintext>INSIDE <b>",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _HOSTILE)
def test_text_of_hostile_markup_is_kept_in_bounded_time(name: str) -> None:
    start = time.process_time()
    text = element_text(parse_markup(_HOSTILE[name]).root)
    assert "INSIDE" in text
    assert time.process_time() - start < 10


@pytest.mark.parametrize("markup", ['<a b="' * 200_000, "<div>" * 3000 + "<a b='" * 100_000, "<!--" * 1_000_000, "<script>" * 300_000, "<?php " * 300_000])
def test_what_is_never_closed_takes_linear_time(markup: str) -> None:
    start = time.process_time()
    parse_markup(markup)
    assert time.process_time() - start < 5


def test_what_follows_a_deep_nest_is_still_there() -> None:
    page = parse_markup("<p>before</p>" + "<div>" * 5000 + "<h2 class=x>deep</h2>" + "</div>" * 5000 + "<p class=y>after</p>")
    assert page.css("p.y::text").get() == "after"
    assert "before" in element_text(page.root)
    assert "deep" in element_text(page.root)


def test_the_first_attributes_of_a_tag_count() -> None:
    tag = "<a href='/x' " + " ".join(f"a{n}='{n}'" for n in range(1000)) + ">t</a>"
    attributes = parse_markup(tag).css("a").attrib
    assert attributes["href"] == "/x"
    assert len(attributes) <= MAX_ATTRIBUTES + 1


@pytest.mark.parametrize("form", ["html", "xml"])
@pytest.mark.parametrize("text", ["", "  ", "<!-- only -->", "no markup", "<a>" * 5000 + "deep", "\x01\ufffe", "<?xml version='1.0'?>"])
def test_there_is_always_a_tree(text: str, form: str) -> None:
    assert isinstance(element_text(parse_markup(text, form).root), str)


def test_xml_keeps_cdata_and_resolves_no_entities() -> None:
    assert element_text(parse_markup("<r><![CDATA[a<b]]></r>", "xml").root) == "a<b"
    bomb = '<!DOCTYPE r [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]><r>&b;&c;</r>'
    assert "root:" not in element_text(parse_markup(bomb, "xml").root)


@given(st.text(alphabet="<>/&;!-= \"'abdivpx\0\n", max_size=200))
def test_no_markup_is_refused(text: str) -> None:
    element_text(parse_markup(text).root)
