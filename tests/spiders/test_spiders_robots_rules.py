"""What a page asks of crawlers, in its head and in its headers."""

from datetime import UTC, datetime

import pytest

from almanac.schemas.items import Page
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.robots_rules import RobotsRules, robots_rules

_NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def rules(
    body: str = "", header: str = "", content_type: str = "text/html", agent: str = "almanac (+mailto:us@x.test)"
) -> RobotsRules:
    return robots_rules(
        Content(Page("http://x.test/", body.encode(), content_type=content_type, robots=header)), agent, _NOW
    )


@pytest.mark.parametrize(
    ("head", "noindex", "nofollow"),
    [
        ('<meta name="robots" content="noindex">', True, False),
        ("<META NAME=ROBOTS CONTENT=' NoIndex , Follow '>", True, False),
        ('<meta content="none" name="robots"/>', True, True),
        ('<meta name="robots" content="index, nofollow">', False, True),
        ('<meta name="robots" content="max-snippet:50"><meta name="robots" content="noindex">', True, False),
        ('<meta name="robots" content="noindex nofollow">', True, True),
        ('<meta name="Almanac" content="noindex">', True, False),
        ('<meta name="googlebot" content="noindex">', False, False),
        ('<meta name="robots" content="all"><meta name="description" content="noindex">', False, False),
        ('<meta name="robots" content="unavailable_after: 25-Jun-2010 15:00:00 EST">', True, False),
        ('<meta name="robots" content="unavailable_after: 2031-01-01">', False, False),
        ("<p>Write &lt;meta name=robots content=noindex&gt; into the head</p><pre>noindex</pre>", False, False),
        ('<!-- <meta name="robots" content="noindex"> -->', False, False),
        ('<noscript><meta name="robots" content="noindex"></noscript>', False, False),
    ],
)
def test_meta_tags_are_read_in_any_case_and_add_up(head: str, noindex: bool, nofollow: bool) -> None:
    page_rules = rules(f"<html><head>{head}</head><body><p>text</p></body></html>")
    assert (bool(page_rules.noindex), page_rules.nofollow) == (noindex, nofollow)


@pytest.mark.parametrize("content_type", ["application/xhtml+xml", "application/xml", "text/html"])
def test_xhtml_is_read_as_html_is(content_type: str) -> None:
    page = (
        '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><meta name="robots" '
        'content="noindex"/></head><body/></html>'
    )
    assert rules(page, content_type=content_type).noindex == '<meta name="robots">: noindex'


@pytest.mark.parametrize(
    ("header", "noindex", "nofollow"),
    [
        ("noindex", True, False),
        ("NOINDEX,NOFOLLOW", True, True),
        ("nosnippet\nnoindex", True, False),
        ("googlebot: noindex", False, False),
        ("googlebot: noindex, nofollow", False, False),
        ("googlebot: noindex\nnone", True, True),
        ("almanac: noindex", True, False),
        ("otherbot: nofollow, Almanac: none", True, True),
        ("max-snippet: 20, noindex", True, False),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST", True, False),
        ("unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, nofollow", True, True),
        ("unavailable_after: Fri, 25 Jun 2032 15:00:00 GMT", False, False),
        ("unavailable_after: 25 Jun 2010", True, False),
        ("unavailable_after: some day", False, False),
        ("almanac: unavailable_after: 2010-06-25T15:00:00Z", True, False),
        ("googlebot: unavailable_after: 2010-06-25", False, False),
        (",, :, noindexed", False, False),
        ("", False, False),
    ],
)
def test_headers_are_read_for_all_crawlers_and_for_this_one(header: str, noindex: bool, nofollow: bool) -> None:
    page_rules = rules("<p>text</p>", header)
    assert (bool(page_rules.noindex), page_rules.nofollow) == (noindex, nofollow)


def test_a_header_holds_for_what_is_no_html() -> None:
    assert rules('{"a": 1}', "noindex", "application/json").noindex == "X-Robots-Tag: noindex"


def test_the_crawler_is_called_as_its_user_agent_begins() -> None:
    assert rules("", "shopbot: noindex", agent="ShopBot/2.1 (+https://x.test)").noindex
    assert not rules("", "almanac: noindex", agent="ShopBot/2.1 (+https://x.test)").noindex
