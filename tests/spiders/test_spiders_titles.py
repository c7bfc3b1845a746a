"""Titles of pages: which of <title>, `og:title` and headings names a page is told by what they share."""

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.mapping.titles import own_title
from almanac.spiders.reading.content import Content


def title_of(head: str, body: str) -> str:
    markup = f"<html><head><meta charset=utf-8>{head}</head><body>{body}</body></html>"
    return own_title(
        Content(Page(url="http://x.test/p", body=markup.encode(), content_type="text/html; charset=utf-8"))
    )


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        # Sections in first-level headings, the name of the page in <title> alone.
        (
            "<title>Journal Modes</title>",
            "<div class=fancy>Journal Modes</div><h1>1. Overview</h1><p>x<h1>2. How it works</h1>",
            "Journal Modes",
        ),
        ("<title>Journal Modes</title>", "<h1><span>1.</span> Overview</h1>", "Journal Modes"),
        ("<title>Overview Of Modes</title>", "<h1>1. Overview</h1><h1>2. Use</h1>", "Overview Of Modes"),
        ("<title>Journal Modes</title>", "<h1>Overview</h1><h1>Use</h1>", "Journal Modes"),
        ("<title>手順 | 文書</title>", "<h1>1. 概要</h1><h1>2. 使い方</h1>", "手順 | 文書"),
        # No first-level heading.
        ("<title>Fair Use</title>", "<h2>Situations</h2>", "Fair Use"),
        ("<title>Install – Docs</title><meta property=og:title content=Install>", "<h2>Step</h2>", "Install"),
        ("<title>Install – Docs</title><meta property=og:title content='Our docs'>", "<h2>Step</h2>", "Install – Docs"),
        # The heading that <title> names, whatever stands beside it, and wherever.
        (
            "<title>Setup &#8212; Mill 2.3 documentation</title>",
            "<h1>Setup<a href='#s'>¶</a></h1><h1 class=logo>Mill</h1>",
            "Setup",
        ),
        (
            "<title>1. First Steps &#8212; Mill documentation</title>",
            "<h1>1. First Steps<a href='#f'>¶</a></h1>",
            "1. First Steps",
        ),
        ("<title>Harbour - Wiki</title>", "<h1 id=firstHeading>Harbour</h1><h2>History</h2>", "Harbour"),
        ("<title>Deploy | Site</title>", "<h1>Deploy</h1><h1>Before</h1><h1>Usage</h1>", "Deploy"),
        ("<title>Red Kettle – The Shop</title>", "<h1>The Shop</h1><h1>Red Kettle</h1>", "Red Kettle"),
        ("<title>Kettles Ltd | Red Kettle</title>", "<h1>Red Kettle</h1>", "Red Kettle"),
        (
            "<title>TLS (SSL) | Mill v2 Documentation</title>",
            "<h1>Mill v2 documentation</h1><h2>TLS (SSL)<a href='#t'>#</a></h2>",
            "TLS (SSL)",
        ),
        ("<title>Introduction (Mill 3.8)</title>", "<h1>1. Introduction</h1>", "1. Introduction"),
        ("<title>L’équipe - Musée</title>", "<h1>L'équipe</h1>", "L'équipe"),
        ("<title>C# | Languages</title>", "<h1>C#</h1>", "C#"),
        ("<title>Learn F#</title>", "<h1>Learn F#<a href='/f#f'>#</a></h1>", "Learn F#"),
        # One first-level heading that shares nothing with <title> names the page, unless it is that of a section.
        ("<title>The Shop</title>", "<h1>Red Kettle</h1>", "Red Kettle"),
        ("<title>Kettles we love</title>", "<h1>10 best kettles</h1>", "10 best kettles"),
        ("<title>Kettles Ltd</title>", "<h1>2.5 Million Kettles</h1>", "2.5 Million Kettles"),
        ("<title>Start</title>", "<h1>7. Juni: Sommerfest</h1>", "7. Juni: Sommerfest"),
        ("<title>Chapter 3. Installing</title>", "<h1>Chapter 3. Installing</h1>", "Chapter 3. Installing"),
        # A logo that leads to the home page is the name of the site.
        (
            "<title>手順 - 案内</title>",
            "<header><h1><a href='/'>案内</a></h1></header><h2>1.1 はじめに</h2>",
            "手順 - 案内",
        ),
        (
            "<title>Anlegen | Hafenbuch</title>",
            "<a href=https://hafen.example><h1>Hafenbuch</h1></a><h1>Anlegen</h1>",
            "Anlegen",
        ),
        ("<title>Anlegen</title>", "<h1><a href='/pier/'>Am Pier</a></h1>", "Am Pier"),
        ("", "<h1><a href=/>Hafenbuch</a></h1>", "Hafenbuch"),
        ("", "<h1>1. Overview</h1>", "1. Overview"),
        ("", "<p>x</p>", ""),
    ],
)
def test_title_of_a_page(head: str, body: str, title: str) -> None:
    assert title_of(head, body) == title


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ({"css": ".name"}, "The Ferry"),
        ({"css": "h2", "attr": "id"}, "f-1"),
        ({"xpath": "//h2[2]"}, "Site"),  # nothing there: the page's own
        ({"json": "name", "from": "json-ld"}, "Ferry, as data"),
        ("{n}: ferry", "7: ferry"),
    ],
)
def test_a_declared_title_is_a_template_or_a_selector(title: object, expected: str) -> None:
    markup = (
        "<title>Site</title><h2 id=f-1 class=name> The <i>Ferry</i> </h2><p class=n>7</p><script type=application/"
        'ld+json>{"@type": "Product", "name": "Ferry, as data"}</script>'
    )
    declared = {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "fields": {"n": {"css": ".n"}}}
    source = SiteSource.model_validate({**declared, "title": title})
    page = Page(url="http://x.test/p", body=markup.encode(), content_type="text/html")
    ((draft,),) = (extraction.drafts for extraction in map_pages([page], source, "en"))
    assert draft.title == expected
