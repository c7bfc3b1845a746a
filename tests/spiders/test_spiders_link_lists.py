"""Feeds and sitemaps among the pages of a site: told by their content, read for their links."""

from typing import Any

import pytest

from almanac.schemas.declaration.source import FilesSource, SiteSource
from almanac.schemas.items import Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.link_lists import kind_of_list
from almanac.spiders.selecting.links import UrlPolicy

RSS = """<?xml version="1.0"?>
<!-- made by hand --><?xml-stylesheet href="feed.xsl"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>News</title><link>http://x.test/news</link>
<atom:link rel="self" href="http://x.test/feed"/><atom:link rel="next" href="http://x.test/feed?page=2"/>
<image><link>http://x.test/image</link></image>
<item><title>One</title><link>http://x.test/1</link><description>The first of all that is told here.</description></item>
<item><title>Two</title><link> /2 </link><description>The second &amp; last.</description></item>
<item><title>Elsewhere</title><link>https://elsewhere.test/3</link></item></channel></rss>"""  # noqa: E501
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><link href="/"/><link rel="self" href="/feed"/><link rel="next" href="/feed?page=2"/>
<entry><title>One</title><link rel="enclosure" href="/1.mp3"/><link href="1"/><content>All of it.</content></entry></feed>"""  # noqa: E501
RSS_1 = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="http://x.test/feed"><title>News</title><link>http://x.test/</link></channel>
<item rdf:about="http://x.test/1"><title>One</title><link>http://x.test/1</link></item></rdf:RDF>"""
JSON_FEED = """{"version": "https://jsonfeed.org/version/1.1", "title": "News", "home_page_url": "http://x.test/", "next_url": "/feed?page=2",
"items": [{"id": "1", "url": "http://x.test/1", "content_text": "One"}, {"id": "2"}]}"""  # noqa: E501
DUBLIN_CORE = """<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><item><title>One</title><dc:creator>Ada</dc:creator></item></channel></rss>"""
SITEMAP = """<?xml version='1.0'?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://x.test/1</loc></url></urlset>"""
INDEX = """<sitemapindex><sitemap><loc>http://x.test/s1.xml</loc></sitemap></sitemapindex>"""
_XML = ("application/xml", "text/xml; charset=utf-8", "text/html", "text/plain", "")


def content(body: str, content_type: str) -> Content:
    return Content(
        Page("http://x.test/feed", body.encode(), content_type=content_type, requested_url="http://x.test/feed")
    )


def site(**keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys})


@pytest.mark.parametrize("content_type", _XML)
@pytest.mark.parametrize(
    ("body", "own_type", "kind", "linked"),
    [
        (RSS, "application/rss+xml", "feed", ["/1", "/2", "/news", "/feed?page=2"]),
        (ATOM, "application/atom+xml", "feed", ["/1", "/", "/feed?page=2"]),
        (RSS_1, "application/rdf+xml", "feed", ["/1", "/"]),
        (SITEMAP, "application/xml", "sitemap", ["/1"]),
        (INDEX, "application/xml", "sitemap", ["/s1.xml"]),
    ],
    ids=["RSS", "Atom", "RSS 1.0", "sitemap", "index"],
)
def test_lists_of_links_are_told_by_their_content(
    content_type: str, body: str, own_type: str, kind: str, linked: list[str]
) -> None:
    """Whatever they are served as; their links are followed within the source's domains, and they are no documents."""
    for served in (content_type, own_type):
        page = content("\ufeff\n" + body, served)
        assert kind_of_list(page) == kind
        assert [link.url.removeprefix("http://x.test") for link in UrlPolicy(site()).links(page)] == linked
        (mapped,) = map_pages([page.page], site(body="all"), "en")
        assert (mapped.drafts, mapped.rejects) == ([], [])


def test_a_json_feed_is_a_list_of_links() -> None:
    for served in ("application/feed+json", "application/json"):
        page = content(JSON_FEED, served)
        assert kind_of_list(page) == "feed"
        assert [link.url.removeprefix("http://x.test") for link in UrlPolicy(site()).links(page)] == [
            "/1",
            "/",
            "/feed?page=2",
        ]
        (mapped,) = map_pages([page.page], site(), "en")
        assert (mapped.drafts, mapped.rejects) == ([], [])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (
            "<html><body><p>&lt;rss&gt; begins a feed, and <code>&lt;urlset&gt;</code> a sitemap</p></body></html>",
            "text/html",
        ),
        ("<!DOCTYPE html><title>rss</title><rss>not the root</rss>", "text/html"),
        ("<?xml version='1.0'?><feed><price>3</price></feed>", "application/xml"),
        (
            "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><foaf:Person/></rdf:RDF>",
            "application/rdf+xml",
        ),
        ("<rssguide><p>text</p></rssguide>", "application/xml"),
        ('{"version": "1.1", "see": "https://jsonfeed.org/version/1.1", "items": []}', "application/json"),
        ("# RSS\n\n<rss> is how a feed begins", "text/markdown"),
        ("", "text/html"),
        ("<!-- never closed " + "<rss>" * 1000, "text/html"),
    ],
)
def test_what_only_speaks_of_feeds_is_none(body: str, content_type: str) -> None:
    assert kind_of_list(content(body, content_type)) is None


@pytest.mark.parametrize(
    ("body", "content_type", "rules", "names"),
    [
        (RSS, "application/rss+xml", {"each": {"xpath": "//item"}}, ["One", "Two", "Elsewhere"]),
        (RSS, "text/xml", {"each": {"css": "channel > item"}}, ["One", "Two", "Elsewhere"]),
        (RSS, "text/html", {"each": {"css": "item"}}, ["One", "Two", "Elsewhere"]),
        (ATOM, "application/atom+xml", {"each": {"css": "entry"}, "fields": {"name": {"css": "title"}}}, ["One"]),
        (ATOM, "application/atom+xml", {"each": {"xpath": "//entry"}, "fields": {"name": {"xpath": "title"}}}, ["One"]),
        (SITEMAP, "text/xml", {"each": {"css": "url"}, "fields": {"name": {"css": "loc"}}}, ["http://x.test/1"]),
        (DUBLIN_CORE, "text/xml", {"each": {"css": "item"}, "fields": {"name": {"xpath": "dc:creator"}}}, ["Ada"]),
        (DUBLIN_CORE, "text/xml", {"each": {"css": "item"}, "fields": {"name": {"css": "dc|creator"}}}, ["Ada"]),
        (
            ATOM,
            "application/atom+xml",
            {"each": {"xpath": "//*[local-name()='entry']"}, "fields": {"name": {"xpath": "*[local-name()='title']"}}},
            ["One"],
        ),
        (RSS, "text/xml", {"fields": {"name": {"xpath": "//channel/title"}}, "id": "{name}"}, ["News"]),
        (
            JSON_FEED,
            "application/feed+json",
            {"each": {"json": "items"}, "fields": {"name": {"json": "id"}}, "id": "{name}"},
            ["1", "2"],
        ),
        (
            SITEMAP,
            "text/xml",
            {"each": {"xpath": "//*[local-name()='url']"}, "fields": {"name": {"xpath": "*[local-name()='loc']"}}},
            ["http://x.test/1"],
        ),
    ],
)
def test_rules_that_are_about_a_list_read_it(
    body: str, content_type: str, rules: dict[str, Any], names: list[str]
) -> None:
    declared = {
        "fields": {"name": {"css": "title", "required": True}},
        "id": "{name}",
        "text": "{name}",
        "yields": "records",
        **rules,
    }
    (mapped,) = map_pages([content(body, content_type).page], site(**declared), "en")
    assert [draft.fields["name"] for draft in mapped.drafts] == names


@pytest.mark.parametrize("rules", [{}, {"each": {"css": "article"}}, {"each": {"css": "div.item, li.entry"}}])
def test_rules_for_pages_find_no_record_in_a_feed(rules: dict[str, Any]) -> None:
    declared = {
        "fields": {
            "name": {"css": "title", "required": True},
            "price": {"css": ".price", "type": "price", "required": True},
        },
        "yields": "records",
        **rules,
    }
    (mapped,) = map_pages([content(RSS, "text/xml").page], site(**declared), "en")
    assert (mapped.drafts, mapped.rejects) == ([], [])


def test_files_are_the_users_own() -> None:
    source = FilesSource.model_validate(
        {"name": "f", "kind": "files", "glob": "*.html", "format": "html", "body": "all"}
    )
    (mapped,) = map_pages([Page("feed.html", RSS.encode(), content_type="text/html", noindex="meta")], source, "en")
    assert len(mapped.drafts) == 1


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("\n      http://x.test/my page.html\n    ", "/my%20page.html"),
        ("http://x.test/a  b/c d?q=e f", "/a%20%20b/c%20d?q=e%20f"),
        ("http://x.test/over\n        two-lines", "/overtwo-lines"),
        ("http://x.test/a\r\n/b\tc", "/a/bc"),
        ("\xa0/fran\xe7ais un ", "/fran%C3%A7ais%20un"),
        ("<![CDATA[ http://x.test/x y?a=1&amp;b=2 ]]>", "/x%20y?a=1&b=2"),
        ("http://x.test/a%20b c", "/a%20b%20c"),
    ],
)
def test_spaces_belong_to_a_url_and_what_indents_or_wraps_it_does_not(written: str, path: str) -> None:
    channel = f"<rss><channel><title>t</title><item><link>{written}</link></item></channel></rss>"
    guid = f"<rss><channel><item><guid>{written}</guid></item></channel></rss>"
    urls, maps = (
        f"<urlset><url><loc>{written}</loc></url></urlset>",
        f"<sitemapindex><sitemap><loc>{written}</loc></sitemap></sitemapindex>",
    )
    attribute = written.replace("<![CDATA[", "").replace("]]>", "")
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{attribute}"/></entry></feed>'
    is_wrapped = "\n" in written.strip()  # what XML makes of that in an attribute are spaces
    for body in (channel, guid, urls, maps, *([] if is_wrapped else [atom])):
        links = UrlPolicy(site()).links(content(body, "application/xml"))
        assert [link.url for link in links] == [f"http://x.test{path}"]
