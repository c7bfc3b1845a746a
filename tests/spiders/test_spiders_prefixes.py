"""A rule with a namespace prefix that a document does not declare finds nothing there, and says so."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Extraction, Page
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.inspect_url import report_page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.selecting import embedded
from almanac.spiders.selecting.prefixes import _prefixed

URL = "http://x.test/feed.xml"
_FEED = '<rss version="2.0" {}><channel><title>F</title><item><title>One</title>{}</item></channel></rss>'
_DUBLIN = 'xmlns:dublin="http://purl.org/dc/elements/1.1/"'
_ITEMS = {"yields": "records", "each": {"xpath": "//item"}}


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_WARNED_OF", set())


def _source(**keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **_ITEMS, **keys})


def _page(markup: str, content_type: str = "application/xml") -> Page:
    return Page(url=URL, body=markup.encode(), content_type=content_type)


def _mapped(markup: str, **keys: Any) -> Extraction:
    (extraction,) = map_pages([_page(markup)], _source(**keys), "en")
    return extraction


@pytest.mark.parametrize(
    "rule",
    [
        {"xpath": "dc:creator"},
        {"css": "dc|creator"},
        {"xpath": "string(self::*/dc:creator)"},
        {"xpath": "self::dc:creator/@dc:x"},
    ],
)
@pytest.mark.parametrize(
    ("declared", "inside", "says"),
    [
        (
            _DUBLIN,
            "<dublin:creator>Ann</dublin:creator>",
            "is not declared in this document, which declares dublin: `*[local-name()='creator']`",
        ),
        (
            "",
            "<dc:creator>Ann</dc:creator>",
            "is used in this document, which does not declare it: `*[name()='dc:creator']`",
        ),
        ("", "", "is not declared in this document, which declares none"),
    ],
)
def test_a_field_with_a_prefix_that_is_not_declared_is_told(
    rule: dict[str, str], declared: str, inside: str, says: str
) -> None:
    markup, source = _FEED.format(declared, inside), _source(fields={"by": rule, "title": {"xpath": "title"}})
    with capture_logs() as logs:
        (item,) = report_page(_page(markup), source, URL, "en").items
        report_page(_page(markup), source, URL, "en")
    (note,) = [field.note for field in item.fields.values() if field.note is not None]
    assert "the prefix 'dc'" in note and says in note
    (warning,) = logs
    assert (warning["event"], warning["rule"], warning["url"], warning["reason"]) == (
        "rule_finds_nothing",
        next(iter(rule.values())),
        URL,
        note,
    )


def test_a_required_field_says_so_in_its_reject_and_in_the_error_of_the_run() -> None:
    source = _source(fields={"by": {"xpath": "dc:creator", "required": True}})
    markup = _FEED.format(_DUBLIN, "<dublin:creator>Ann</dublin:creator>")
    (extraction,) = map_pages([_page(markup)], source, "en")
    assert "required field is missing: the prefix 'dc' is not declared" in extraction.rejects[0].reason
    with pytest.raises(
        NoRecords, match=rf"xpath: dc:creator matched nothing .*\. {URL}: the prefix 'dc' is not declared"
    ):
        require_matches(source, {"by": 0}, 1, 1, [_page(markup)])


def test_an_each_that_misses_what_is_there_by_its_prefix_is_a_reject_and_one_of_a_feed_without_them_is_none() -> None:
    fields = {"by": {"xpath": "."}}
    (reject,) = _mapped(
        f"<catalog {_DUBLIN}><dublin:creator>Ann</dublin:creator></catalog>",
        each={"xpath": "//dc:creator"},
        fields=fields,
    ).rejects
    assert (reject.field, reject.rule) == ("each", "each: //dc:creator") and "'dc'" in reject.reason
    without = "<catalog/>"
    nothing = _mapped(without, each={"xpath": "//dc:creator"}, fields=fields)
    assert (list(nothing.drafts), list(nothing.rejects)) == ([], [])
    with pytest.raises(NoRecords, match="the prefix 'dc' is not declared"):
        require_matches(_source(each={"xpath": "//dc:creator"}, fields=fields), {}, 0, 1, [_page(without)])


def test_a_feed_that_no_rule_reads_is_said_to_lack_the_prefix() -> None:
    source = _source(each={"xpath": "//dc:creator"}, fields={"by": {"xpath": "."}})
    report = report_page(_page(_FEED.format(_DUBLIN, "<dublin:creator>Ann</dublin:creator>")), source, URL, "en")
    assert (
        report.withheld is not None
        and report.withheld.startswith("feed: ")
        and "each: the prefix 'dc' is not declared" in report.withheld
    )


def test_html_has_no_prefixes() -> None:
    page = _page("<html><body><h1>T</h1><dc:creator>Ann</dc:creator></body></html>", "text/html")
    source = _source(
        each=None, fields={"by": {"xpath": "//dc:creator"}, "named": {"xpath": "//*[name()='dc:creator']"}}
    )
    (item,) = report_page(page, source, URL, "en").items
    assert item.fields["named"].value == "Ann"
    assert "none is in HTML: `*[name()='dc:creator']`" in (item.fields["by"].note or "")


def test_prefixes_that_are_declared_axes_texts_and_functions_are_none_to_tell() -> None:
    declared = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
    rules = ["dc:creator", "child::x", "x[. = 'a:b']", "*[re:test(., 'x')]", "descendant-or-self::node()/x", "dc:*"]
    with capture_logs() as logs:
        (item,) = report_page(
            _page(_FEED.format(declared, "")),
            _source(fields={f"f{n}": {"xpath": rule} for n, rule in enumerate(rules)}),
            URL,
            "en",
        ).items
    assert {field.note for field in item.fields.values()} == {None} and logs == []


def test_prefixes_of_an_expression() -> None:
    assert _prefixed("self::dc:creator | //a-b.c:d[@x:y = 'q:r']/child::*/m:* | e::f") == (
        ("dc", "creator"),
        ("a-b.c", "d"),
        ("x", "y"),
        ("m", "*"),
    )
