"""Crawls of real sites on loopback: what is fetched, followed, stored and counted."""

import gzip
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import NoRecords
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.mapping.inspect_url import inspect_url
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Answer

if TYPE_CHECKING:
    from tests.spiders.conftest import Site


def source(site: "Site", **keys: Any) -> SiteSource:
    manners = {"allow_private": True, **keys.pop("politeness", {})}
    return SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": [f"{site.base}/"], "politeness": manners, **keys}
    )


def links(*paths: str) -> str:
    return "".join(f"<a href='{path}'>{path}</a>" for path in paths)


def crawled(site: "Site", folder: Path, **keys: Any) -> tuple[CrawlOutcome, list[str]]:
    """The outcome, and the paths of the pages that were stored."""
    raw = RawStore(folder)
    outcome = crawl_site(source(site, **keys), raw, "r1")
    return outcome, [page.url.removeprefix(site.base) for page in raw.pages("r1")]


def test_every_answer_is_stored_or_counted_with_a_reason(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/robots.txt", "User-agent: *\nDisallow: /private\n", content_type="text/plain")
    paths = [
        "/ok",
        "/gone",
        "/broken",
        "/loop",
        "/private/x",
        "/blob",
        "/forbidden",
        "/big",
        "/zipped",
        "/moved",
        "/away",
        "/none",
        "/photo.jpg",
        "/typeless",
    ]
    site.page("/", links(*paths, "mailto:a@b.test", "https://elsewhere.test/", "/ok#again"))
    site.page("/ok", "<h1>ok</h1>", headers={"ETag": '"e1"'})
    site.page("/gone", status=410)
    site.page("/broken", status=500)
    site.page("/loop", status=302, headers={"Location": "/loop2"})
    site.page("/loop2", status=302, headers={"Location": "/loop"})
    site.page("/blob", b"\x00" * 100, content_type="application/octet-stream")
    site.page("/forbidden", status=403)
    site.page("/big", "x" * 200_000)
    site.page("/zipped", gzip.compress(b"x" * 200_000), headers={"Content-Encoding": "gzip"})
    site.page("/moved", status=301, headers={"Location": "/new"})
    site.page("/new", "<h1>new</h1>")
    site.page("/away", status=302, headers={"Location": "http://127.0.0.2:9/"})
    site.page("/none", "")
    site.page("/typeless", "<h1>?</h1>", content_type=None)
    outcome, stored = crawled(site, tmp_path, limits={"bytes_per_page": "100kB"})
    assert stored == ["/", "/new", "/none", "/ok", "/typeless"]
    reasons = {failure.url.removeprefix(site.base): (failure.reason, failure.status) for failure in outcome.failures}
    assert reasons == {
        "/gone": ("gone", 410),
        "/broken": ("server_error", 500),
        "/loop": ("error", 302),
        "/private/x": ("refused_by_robots", None),
        "/blob": ("not_text", 200),
        "/forbidden": ("error", 403),
        "/big": ("too_large", None),
        "/zipped": ("too_large", None),
        "/away": ("off_site", 302),
    }
    details = {failure.url.removeprefix(site.base): failure.detail for failure in outcome.failures}
    assert details["/big"] == "more than 100,000 bytes: limits.bytes_per_page"
    assert details["/zipped"] == "more than 100,000 bytes, unpacked: limits.bytes_per_page"
    assert (outcome.pages.fetched, outcome.pages.gone, outcome.pages.failed, outcome.pages.refused) == (5, 1, 3, 5)
    assert [site.requests[path] for path in ("/ok", "/broken", "/private/x", "/photo.jpg")] == [1, 3, 0, 0]
    assert outcome.finish == "finished"
    pages = {page.url.removeprefix(site.base): page for page in RawStore(tmp_path).pages("r1")}
    assert pages["/ok"].etag == '"e1"' and pages["/new"].requested_url == f"{site.base}/moved"


def test_what_is_no_page_is_told_with_what_it_is(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    page = gzip.compress(b"<h1>page</h1>", mtime=0)
    site.page("/", links("/packed", "/twice", "/blob", "/nowhere", "/file", "/long"))
    site.page("/packed", page)
    site.page("/twice", gzip.compress(page, mtime=0), headers={"Content-Encoding": "gzip"})
    site.page("/blob", bytes(range(256)))
    site.page("/nowhere", status=301)
    site.page("/file", status=302, headers={"Location": "file:///etc/passwd"})
    site.page("/long", status=302, headers={"Location": "file:///" + "x" * 5000})
    outcome, _ = crawled(site, tmp_path)
    assert {
        failure.url.removeprefix(site.base): (failure.reason, failure.detail.removeprefix("text/html; charset=utf-8"))
        for failure in outcome.failures
    } == {
        "/packed": ("not_text", "; but its body is gzip data: compressed twice, or without a Content-Encoding"),
        "/twice": ("not_text", "; but its body is gzip data: compressed twice, or without a Content-Encoding"),
        "/blob": ("not_text", "; but its body is binary"),
        "/nowhere": ("error", "answered 301 without a Location"),
        "/file": ("error", "answered 302, which leads to file:///etc/passwd"),
        "/long": ("error", "answered 302, which leads to file:///" + "x" * 292),
    }


def test_a_page_that_a_proxy_changed_on_its_way_is_a_page(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/", links("/one", "/half"), status=203)
    site.page("/one", "<h1>One</h1>", status=203)
    site.page(
        "/half", gzip.compress(b"<h1>Two</h1>" * 99, mtime=0)[:20], status=203, headers={"Content-Encoding": "gzip"}
    )
    site.page(
        "/s.xml",
        f"<urlset><url><loc>{site.base}/listed</loc></url></urlset>",
        status=203,
        content_type="application/xml",
    )
    site.page("/listed", "<h1>Listed</h1>")
    outcome, stored = crawled(site, tmp_path, sitemaps=[f"{site.base}/s.xml"])
    assert stored == ["/", "/listed", "/one"]
    assert [failure.detail for failure in outcome.failures] == ["its compressed body is cut short"]


def test_links_are_followed_as_declared(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/", links("/a/1?utm_source=x", "/a/1", "/a/secret", "/b/1") + "<link rel='next' href='/a/2'>")
    for path in ("/a/1", "/a/2", "/a/secret", "/b/1"):
        site.page(path, links("/a/1", "/a/3"))
    site.page("/a/3", "deep")
    follow = {"allow": ["/a/"], "deny": ["secret"]}
    _, stored = crawled(site, tmp_path, follow=follow, ignore_parameters=["utm_*"], limits={"depth": 1})
    assert stored == ["/", "/a/1", "/a/2"]
    assert site.requests["/a/1"] == 1


def test_declared_listing_is_no_free_crawl(loopback_site: "Site", tmp_path: Path) -> None:
    """Only cards and the next pages are followed, from the second page on too, which no longer looks like the first."""
    site = loopback_site
    site.page("/list", "<li><a href=/i/1>1</a></li><a class=next href='/list?p=2'>next</a><a href=/imprint>imprint</a>")
    site.page("/list?p=2", "<li><a href=/i/2>2</a></li><a href=/imprint>imprint</a>")
    for path in ("/i/1", "/i/2", "/imprint"):
        site.page(path, links("/imprint", "/i/99") + "<a class=next href=/list?p=9>n</a>")
    listing = {"match": "/list$", "each": {"css": "li"}, "link": {"css": "a"}}
    start = {"start_urls": [f"{site.base}/list"], "pagination": {"next": {"css": "a.next"}}, "listing": listing}
    _, stored = crawled(site, tmp_path, **start)
    assert stored == ["/i/1", "/i/2", "/list", "/list?p=2"]


def test_json_pagination_is_followed(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", '{"next": "/p2"}', content_type="application/json")
    loopback_site.page("/p2", '{"next": null}', content_type="application/json")
    _, stored = crawled(loopback_site, tmp_path, pagination={"next": {"json": "next"}})
    assert stored == ["/", "/p2"]


def test_canonical_pages_are_fetched_and_their_aliases_come_last(loopback_site: "Site", tmp_path: Path) -> None:
    """In the order of mapping, so that the page under the right address is kept where both are the same."""
    site = loopback_site
    page = "<link rel='Canonical' href='{}'><p>text</p>"
    site.page("/", links("/a?x=1", "/list?p=2", "/off", "/denied-alias", "/self", "/by-header"))
    site.page("/a?x=1", page.format("/z"))
    site.page("/z", page.format("/z"))
    site.page("/list?p=2", page.format("/z") + "more")
    site.page("/off", page.format("http://127.0.0.2:9/"))
    site.page("/denied-alias", page.format("/denied"))
    site.page("/self", page.format("#top") + page.format("/"))
    site.page("/by-header", "text", content_type="text/plain", headers={"Link": '</z>; rel="canonical"'})
    outcome, stored = crawled(site, tmp_path, follow={"deny": ["/denied$"]})
    assert stored == ["/", "/denied-alias", "/off", "/self", "/z", "/a?x=1", "/by-header", "/list?p=2"]
    assert outcome.failures == []
    assert RawStore(tmp_path).index("r1").find(f"{site.base}/a?x=1").canonical == f"{site.base}/z"  # type: ignore[union-attr]


def test_a_host_is_asked_for_as_many_pages_at_once_as_declared(loopback_site: "Site", tmp_path: Path) -> None:
    lock, at_once, peak = threading.Lock(), 0, 0

    def answer(path: str) -> Answer:
        nonlocal at_once, peak
        with lock:
            at_once += 1
            peak = max(peak, at_once)
        time.sleep(0.05)
        with lock:
            at_once -= 1
        return Answer(links(*(f"/{n}" for n in range(20))) if path == "/" else "x")

    loopback_site.otherwise = answer
    _, stored = crawled(loopback_site, tmp_path, politeness={"per_domain": 3})
    assert (len(stored), peak) == (21, 3)


def test_a_card_whose_link_redirects_to_a_page_that_was_met_before_is_not_lost(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/", links("/p/1", "/tours"))
    site.page("/p/1", "<h1>One</h1>")
    site.page("/tours", "<li><a href=/go/1>1</a><b>05/06/2025</b></li>", delay_s=0.3)
    site.page("/go/1", status=302, headers={"Location": "/p/1?ref=go"})
    listing = {"match": "/tours$", "each": {"css": "li"}, "link": {"css": "a"}, "fields": {"date": {"css": "b"}}}
    keys: dict[str, Any] = {
        "listing": listing,
        "yields": "records",
        "fields": {"name": {"css": "h1"}},
        "follow": {"allow": ["/p/", "/tours"]},
    }
    outcome, stored = crawled(site, tmp_path, **keys, ignore_parameters=["ref"])
    assert (stored, outcome.failures, site.requests["/p/1"]) == (["/", "/p/1", "/tours"], [], 1)
    drafts = [
        draft
        for extraction in map_pages(RawStore(tmp_path).pages("r1"), source(site, **keys), "en")
        for draft in extraction.drafts
    ]
    assert [(draft.url.removeprefix(site.base), draft.fields["date"]) for draft in drafts] == [("/p/1", "05/06/2025")]


def test_canonical_page_has_the_card_of_its_alias(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/list", "<li><a href='/i/1?from=list'>1</a><b>05/06/2025</b></li>")
    for path in ("/i/1", "/i/1?from=list"):
        site.page(path, "<link rel=canonical href='/i/1'><h1>One</h1>")
    listing = {"match": "/list$", "each": {"css": "li"}, "link": {"css": "a"}, "fields": {"date": {"css": "b"}}}
    keys: dict[str, Any] = {
        "start_urls": [f"{site.base}/list"],
        "listing": listing,
        "yields": "records",
        "fields": {"name": {"css": "h1"}},
    }
    _, stored = crawled(site, tmp_path, **keys)
    assert stored == ["/i/1", "/list", "/i/1?from=list"]
    drafts = [
        draft
        for extraction in map_pages(RawStore(tmp_path).pages("r1"), source(site, **keys), "en")
        for draft in extraction.drafts
    ]
    assert [(draft.url.removeprefix(site.base), draft.fields["date"]) for draft in drafts] == [
        ("/i/1", "05/06/2025"),
        ("/i/1?from=list", "05/06/2025"),
    ]


def test_one_url_is_inspected_without_following_it(loopback_site: "Site") -> None:
    site = loopback_site
    site.page("/tours", "<li><a href=/tours/a>A</a><b>05/06/2025</b></li>")
    site.page("/tours/a", "<h1>Tour A</h1>" + links("/tours/b"))
    declared = source(
        site,
        yields="records",
        match="/tours/",
        follow={"allow": ["/tours/"]},
        listing={
            "match": "/tours$",
            "each": {"css": "li"},
            "link": {"css": "a"},
            "fields": {"date": {"css": "b", "required": True}},
        },
        fields={"name": {"css": "h1"}, "code": {"css": ".code"}},
    )
    item = inspect_url(declared, f"{site.base}/tours/a", "en")
    assert (item.role, item.status, item.links.first, item.rejects) == ("item", 200, [f"{site.base}/tours/b"], [])
    fields = item.model_dump()["items"][0]["fields"]
    assert fields["name"] == {"value": "Tour A", "rule": "css: h1", "matched": True}
    assert not fields["code"]["matched"] and not fields["date"]["matched"]
    listing = inspect_url(declared, f"{site.base}/tours", "en")
    assert listing.role == "listing" and listing.items[0].fields["date"].value == "05/06/2025"
    assert site.requests["/tours/b"] == 0
    site.page("/", "<h1>Tours</h1>" + links("/tours"))
    begun = declared.model_copy(update={"match": None, "start_urls": [f"{site.base}/"]})
    home, detail = (inspect_url(begun, f"{site.base}{path}", "en") for path in ("/", "/tours/a"))
    assert (home.role, home.items, detail.role) == ("other", [], "item"), (
        "no card leads to the page that a crawl begins with"
    )
    with pytest.raises(NoRecords, match="no page arrived") as caught:
        inspect_url(declared, f"{site.base}/nowhere", "en")
    assert caught.value.hint == f"is the address right? curl -I {site.base}/nowhere", (
        "not the command that was just given"
    )


def test_links_of_start_pages_that_are_not_followed_are_counted_once_each(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/", links("/a", "/a#x", "/b", "/", "/shop", "/photo.jpg", "/login", "//elsewhere.test/", "/item/1"))
    site.page("/shop", "<li>" + links("/item/1") + "</li>" + links("/d") + "<a class=next href='/shop?page=2'>2</a>")
    site.page("/shop?page=2", "<li>" + links("/item/1") + "</li>" + links("/e"))
    site.page("/item/1", "An item.")
    shop = {
        "start_urls": [f"{site.base}/", f"{site.base}/shop"],
        "follow": {"deny": ["login"]},
        "pagination": {"next": {"css": ".next"}},
    }
    listing = {"match": "/shop", "each": {"css": "li"}, "link": {"css": "a"}}
    outcome, stored = crawled(site, tmp_path / "1", **shop, listing=listing)
    assert (sorted(stored), outcome.unfollowed) == (["/", "/item/1", "/shop", "/shop?page=2"], 3)  # /a, /b, /d
    outcome, stored = crawled(site, tmp_path / "2", **{**shop, "follow": {"allow": ["/[ab]$"]}}, listing=listing)
    assert ("/a" in site.requests, outcome.unfollowed) == (True, 0)
    assert crawled(site, tmp_path / "3", **shop, listing=listing, limits={"depth": 0})[0].unfollowed == 0
