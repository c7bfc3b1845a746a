"""Crawls of real sites on loopback: what is fetched, what is counted, and what a kill leaves behind."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.http import Request, Response

from almanac.core.lifetime import tell_job
from almanac.core.settings import installation
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import CredentialRefused, NoRecords, OperationalError, Unreachable
from almanac.spiders.crawling import crawl, site_spider
from almanac.spiders.crawling import crawl_start as start
from almanac.spiders.crawling.crawl import crawl_site, fetch_site
from almanac.spiders.crawling.crawl_job import Job
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, PreviousPages
from almanac.spiders.mapping.inspect_url import inspect_url
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.content import Content
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore
from tests.conftest import PATIENCE_S
from tests.reference.journey import CONTENT
from tests.spiders.conftest import Answer

if TYPE_CHECKING:
    from tests.spiders.conftest import Site


_REDIRECTS = CONTENT / "adv_redirects"


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


@pytest.mark.parametrize("limit", [1, 7])
def test_page_limit_is_exact(loopback_site: "Site", tmp_path: Path, limit: int) -> None:
    """Also where some of the requests give no page: a failure does not use up the limit."""
    loopback_site.page("/", links("/missing", *(f"/{n}" for n in range(20))))
    for n in range(20):
        loopback_site.page(f"/{n}", "x")
    outcome, stored = crawled(loopback_site, tmp_path, limits={"pages": limit})
    assert (len(stored), outcome.pages.fetched, outcome.finish) == (limit, limit, "pages")


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


def test_endless_links_end_by_the_limits_and_say_so(loopback_site: "Site", tmp_path: Path) -> None:
    """A calendar: every month leads to the next one."""
    site = loopback_site

    def month(path: str) -> Answer:
        number = int(path.rpartition("=")[2]) if "=" in path else 0
        return Answer(links(f"/?month={number + 1}", f"/?month={number + 2}") + "x" * 1000)

    site.otherwise = month
    outcome, stored = crawled(site, tmp_path / "pages", limits={"pages": 12})
    assert (len(stored), outcome.finish, outcome.beyond_depth) == (12, "pages", 0)
    assert [
        (reached_limit.limit, reached_limit.known_urls_not_fetched, reached_limit.folders)
        for reached_limit in outcome.limits_reached
    ] == [("pages", 2, {"/": 2})]
    outcome, stored = crawled(site, tmp_path / "depth", limits={"depth": 5})
    # a declared depth is what is wanted
    assert (len(stored), outcome.finish, outcome.beyond_depth, outcome.limits_reached) == (11, "finished", 2, [])
    outcome, _ = crawled(site, tmp_path / "default")
    assert [
        (reached_limit.limit, reached_limit.known_urls_not_fetched) for reached_limit in outcome.limits_reached
    ] == [("depth", 2)]
    outcome, stored = crawled(site, tmp_path / "bytes", limits={"bytes": "5kB"}, politeness={"per_domain": 1})
    assert outcome.finish == "bytes" and outcome.bytes >= 5000 and len(stored) < 15


def test_a_site_that_wants_a_cookie_back_is_told_with_its_name(loopback_site: "Site", tmp_path: Path) -> None:
    """Whether a page redirects to itself, round by another or on and on, or two pages wait for each other; values are
    not shown.
    """
    site = loopback_site
    site.page("/", links("/self", "/round", "/a", "/b", "/on?n=0", "/plain", "/held", "/dropped"))
    for path, target, cookie in (
        ("/self", "/self", "sid=abc123; Path=/; HttpOnly\nlang=xyz789"),
        ("/round", "/check", ""),
        ("/check", "/round", "seen=abc123"),
        ("/a", "/b", "first=abc123"),
        ("/b", "/a", ""),
        ("/plain", "/plain", ""),
        ("/held", "/held", "token=abc123"),
        ("/dropped", "/dropped", "old=; Max-Age=0"),
    ):
        site.page(path, status=302, headers={"Location": target} | ({"Set-Cookie": cookie} if cookie else {}))
    for n in range(30):
        site.page(f"/on?n={n}", status=302, headers={"Location": f"/on?n={n + 1}", "Set-Cookie": "step=abc123"})
    outcome, _ = crawled(site, tmp_path, politeness={"allow_private": True, "cookies": {"token": "lapsed"}})
    details = {
        failure.url.removeprefix(site.base): failure.detail.replace(site.base, "") for failure in outcome.failures
    }
    wanted = "and sets a cookie that it may want back: politeness: {cookies: {%s}}, with what a browser has for it"
    assert details["/self"] == f"redirects in a circle, back to /self, {wanted % 'sid: …, lang: …'}"
    assert details["/round"] == f"redirects in a circle, back to /round, {wanted % 'seen: …'}"
    assert details["/on?n=0"] == f"more than 20 redirects, {wanted % 'step: …'}"
    assert wanted % "first: …" in details["/a"]
    assert details["/held"].endswith(
        "and sets the cookie token anew: its value in politeness.cookies is not taken any more"
    )
    assert (
        details["/plain"] == "redirects in a circle, back to /plain"
        and details["/dropped"] == "redirects in a circle, back to /dropped"
    )
    assert not any(value in outcome.model_dump_json() for value in ("abc123", "xyz789", "lapsed"))


@pytest.mark.skipif(not _REDIRECTS.is_dir(), reason=f"the collected redirects are not at {_REDIRECTS}")
def test_collected_redirects_all_end(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    for line in map(json.loads, (_REDIRECTS / "manifest.jsonl").read_text().splitlines()):
        body = (_REDIRECTS / line["file"]).read_bytes() if "file" in line else b""
        site.page(
            line["path"],
            body,
            status=line["status"],
            headers={"Location": line["location"]} if "location" in line else {},
        )
    outcome, stored = crawled(site, tmp_path, ignore_parameters=["utm_*"])
    assert stored == [
        "/",
        "/canonical-1",
        "/dup",
        "/dup/",
        "/final",
        "/frag",
        "/meta-loop",
        "/q?a=1&b=2",
        "/q?b=2&a=1",
        "/rel/end",
        "/canonical-2",
    ]
    assert {failure.url.removeprefix(site.base): failure.reason for failure in outcome.failures} == {
        "/loop-a": "error", "/self": "error", "/chain/0": "error", "/to-other-host": "off_site"
    }  # fmt: skip


def test_start_url_that_is_gone_means_no_records(loopback_site: "Site", tmp_path: Path) -> None:
    with pytest.raises(NoRecords, match=r"no page arrived: .*/: gone \(status 404\)") as caught:
        crawled(loopback_site, tmp_path)
    assert caught.value.hint == f"is the address right? curl -I {loopback_site.base}/"


@pytest.mark.parametrize(
    ("status", "manners", "error"),
    [(401, {}, CredentialRefused), (403, {"cookies": {"a": "b"}}, CredentialRefused), (403, {}, NoRecords)],
)
def test_refused_credentials_are_told_from_a_page_that_is_not_there(
    loopback_site: "Site", tmp_path: Path, status: int, manners: dict[str, Any], error: type[Exception]
) -> None:
    loopback_site.page("/", status=status)
    with pytest.raises(error, match=f"status {status}") as caught:
        crawled(loopback_site, tmp_path, politeness=manners)
    assert ("politeness: auth" in str(caught.value)) is (error is CredentialRefused)


def test_start_url_refused_by_robots_means_no_records(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", "x")
    loopback_site.page("/robots.txt", "User-agent: *\nDisallow: /", content_type="text/plain")
    with pytest.raises(NoRecords, match="refused_by_robots") as caught:
        crawled(loopback_site, tmp_path)
    assert "politeness: {robots: false}" in str(caught.value.hint)
    outcome, _ = crawled(loopback_site, tmp_path / "rude", politeness={"robots": False})
    assert outcome.pages.fetched == 1


def test_robots_txt_holds_for_every_page_that_waits_for_it(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/robots.txt", "User-agent: *\nDisallow: /no", content_type="text/plain", delay_s=0.3)
    for path in ("/yes", *(f"/no/{n}" for n in range(5))):
        site.page(path, "x")
    outcome, stored = crawled(
        site, tmp_path, start_urls=[f"{site.base}{path}" for path in site.answers if path != "/robots.txt"]
    )
    assert (stored, outcome.pages.refused, site.requests["/robots.txt"]) == (["/yes"], 5, 1)
    assert not any(site.requests[f"/no/{n}"] for n in range(5))


def test_robots_txt_that_fails_allows_nothing(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", "x")
    loopback_site.page("/robots.txt", status=503)
    with pytest.raises(Unreachable, match=r"robots\.txt answered 503"):
        crawled(loopback_site, tmp_path)
    assert loopback_site.requests["/"] == 0


@pytest.mark.slow
def test_port_that_refuses_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    with pytest.raises(Unreachable, match="unreachable") as caught:
        declared = {"name": "s", "kind": "site", "start_urls": [url], "politeness": {"allow_private": True}}
        crawl_site(SiteSource.model_validate(declared), RawStore(tmp_path), "r1")
    assert url in caught.value.message and url in (caught.value.hint or "")


def test_time_limit_ends_the_crawl_and_keeps_what_arrived(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", links(*(f"/{n}" for n in range(200))))
    for n in range(200):
        loopback_site.page(f"/{n}", "x", delay_s=0.3)
    outcome, stored = crawled(loopback_site, tmp_path, limits={"seconds": 2}, politeness={"per_domain": 2})
    assert outcome.finish == "seconds" and 1 < len(stored) < 60
    [cut] = outcome.limits_reached
    # what was under way, too
    assert (cut.limit, cut.known_urls_not_fetched + len(stored) + len(outcome.failures)) == ("seconds", 201)


def test_a_page_with_a_defect_has_failed_and_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(content: Content, _: Source) -> None:
        if "bad" in content.url:
            raise KeyError("oops")

    monkeypatch.setattr(site_spider, "withheld", stumble)
    raw, declared = RawStore(tmp_path), {"name": "s", "kind": "site", "start_urls": ["http://a.test/"]}
    with raw.journal("r1", Head("requester", "fetching")) as journal:
        previous = PreviousPages(raw, "r1", PreviousCrawls(), "requester")
        spider = site_spider.SiteSpider(SiteSource.model_validate(declared), journal, previous, lambda *_: None)
        for path in ("bad", "good"):
            waiting = Waiting(f"http://a.test/{path}")
            spider.frontier.add(waiting)
            assert spider.frontier.take() is waiting
            headers = {"Content-Type": "text/html"}
            spider._handle(Response(waiting.url, headers=headers, body=b"<p>x", request=Request(waiting.url)), waiting)
        stats = spider.finished("finished")
    assert [(failure.url, failure.reason, failure.detail.partition(": ")[2]) for failure in stats.failures] == [
        ("http://a.test/bad", "error", "KeyError: 'oops'")
    ]
    assert (stats.finish, stats.pages.fetched, stats.pages.failed) == ("finished", 1, 1)


@pytest.mark.slow
def test_what_waits_for_other_pages_is_decided_when_the_time_is_up(loopback_site: "Site", tmp_path: Path) -> None:
    """The host has a page for whatever it is asked for, which only shows when all have arrived, and one never does."""
    site = loopback_site
    site.otherwise = site.unknown = lambda path: Answer(f"<p>A page of its own for {path}, with enough to read.</p>")
    site.page("/slow", "<p>Late</p>", delay_s=20)
    site.page("/", links("/slow", *(f"/{n}" for n in range(5))))
    outcome, stored = crawled(site, tmp_path, limits={"seconds": 4})
    assert (outcome.finish, sorted(stored)) == ("seconds", ["/", *(f"/{n}" for n in range(5))])
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/slow", "timeout")]


def test_a_crawl_that_is_cut_short_counts_what_it_knows_by_folder_also_from_the_last_one(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    rooms, events = [f"/rooms/{n}" for n in range(4)], [f"/events/{n}" for n in range(3)]
    site.page("/", links(*rooms, "/events"))
    site.page("/events", links(*events))
    for path in (*rooms, *events):
        site.page(path, path)
    first = crawl_site(source(site), raw, "r1")
    assert (first.finish, first.pages.fetched, first.limits_reached) == ("finished", 9, [])
    again = crawl_site(source(site, limits={"pages": 2}), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    [cut] = again.limits_reached
    # Of the events, no page has been read that leads there.
    assert (cut.source, cut.limit, cut.known_urls_not_fetched, cut.folders) == (
        "s",
        "pages",
        7,
        {"/events/": 3, "/rooms/": 3, "/": 1},
    )
    assert (again.kept, again.pages.vanished, len([*raw.pages("r2")])) == (7, 0, 9)
    # One page by name says nothing of the others, and denied pages are none that anybody wants.
    single_page = fetch_site(
        source(site), raw, "r3", previous=PreviousCrawls(concluded="r2"), only=[f"{site.base}/rooms/1"]
    )
    assert single_page.limits_reached == again.limits_reached
    denied = crawl_site(
        source(site, limits={"pages": 2}, follow={"deny": ["/events"]}),
        raw,
        "r4",
        previous=PreviousCrawls(concluded="r1"),
    )
    assert [reached_limit.folders for reached_limit in denied.limits_reached] == [{"/rooms/": 3}]
    whole = crawl_site(source(site, limits={"pages": 9}), raw, "r5", previous=PreviousCrawls(concluded="r2"))
    assert (whole.finish, whole.limits_reached, whole.kept) == ("finished", [], 0)


def test_crawl_without_an_outcome_is_a_failure(
    loopback_site: "Site", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback_site.page("/", "x")
    monkeypatch.setattr(start, "subprocess", subprocess)  # started, not forked
    monkeypatch.setattr(crawl, "GRACE_S", -3599.9)  # the hard limit strikes before the process is ready
    with pytest.raises(OperationalError, match="left no stats"):
        crawled(loopback_site, tmp_path)


def test_a_crash_of_a_library_says_where(
    loopback_site: "Site", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback_site.page("/", "x", delay_s=30)
    monkeypatch.setattr(start, "subprocess", subprocess)  # started, not forked

    def crash(_done: int, _seen: int) -> None:
        for crawls in _crawls_of(os.getpid()) if loopback_site.requests else ():
            os.kill(crawls, signal.SIGSEGV)

    with pytest.raises(
        OperationalError,
        match=r"(?s)ended with signal SIGSEGV and left no stats; its stderr: Fatal Python error: .*crawl_process\.py",
    ) as crashed:
        crawl_site(source(loopback_site), RawStore(tmp_path), "r1", on_page=crash)
    assert "Extension modules" not in str(crashed.value)


def test_of_a_crash_the_place_is_told_and_not_the_other_threads() -> None:
    beginning = (
        "a warning\nFatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n  File one\n\n"
    )
    place = "Current thread 0x2 (most recent call first):\n  File two\n  File three"
    more = "\n\nThread 0x3 (most recent call first):\n  File four\n\nExtension modules: a, b (total: 2)\n"
    assert crawl._telling(f"{beginning}{place}{more}") == f"Fatal Python error: Segmentation fault\n{place}"
    assert crawl._telling(f"{place}{more}") == place
    assert crawl._telling("x" * 2000) == "x" * 1500


def test_progress_is_reported_and_an_exception_ends_the_process(
    loopback_site: "Site", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "subprocess", subprocess)  # started, not forked
    loopback_site.page("/", links(*(f"/{n}" for n in range(50))))
    pids: list[int] = []

    def interrupt(done: int, seen: int) -> None:
        if not done:  # told every second, also where nothing has arrived
            return
        assert done <= seen
        pids.extend(_crawls_of(os.getpid()))
        raise KeyboardInterrupt

    for n in range(50):
        loopback_site.page(f"/{n}", "x", delay_s=0.5)
    with pytest.raises(KeyboardInterrupt):
        crawl_site(source(loopback_site), RawStore(tmp_path), "r1", on_page=interrupt)
    assert pids and not any(map(_is_running, pids))


def test_killed_crawl_keeps_its_pages_and_goes_on_without_fetching_them_again(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/", links(*(f"/{n}" for n in range(40))))
    for n in range(40):
        site.page(f"/{n}", links(f"/{n}/below"), delay_s=0.05)
        site.page(f"/{n}/below", "x", delay_s=0.05)
    declared, raw = source(site, politeness={"per_domain": 2}), RawStore(tmp_path / "raw")
    job = Job(source=declared.model_dump(by_alias=True, mode="json", exclude_defaults=True), raw=raw.root, run_id="r1")
    command = [sys.executable, "-m", "almanac.spiders.crawling.crawl_process"]
    process = subprocess.Popen(command, cwd=installation(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tell_job(process, job.model_dump_json())
    _wait_for(lambda: len(list(raw.pages("r1"))) >= 10)
    process.kill()
    process.communicate()
    arrived = {page.url.removeprefix(site.base) for page in raw.pages("r1")}
    assert 10 <= len(arrived) < 81 and not raw.stats_path("r1").exists()
    requests_before = site.requests.copy()
    outcome = crawl_site(declared, raw, "r1")
    assert outcome.pages.fetched == len(list(raw.pages("r1"))) == 81
    assert {path for path in arrived if site.requests[path] > requests_before[path]} == set()


def test_crawl_ends_when_its_parent_is_killed(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", links(*(f"/{n}" for n in range(500))))
    for n in range(500):
        loopback_site.page(f"/{n}", "x", delay_s=0.2)
    program = (
        "import sys; from pathlib import Path; from almanac.schemas.declaration.source import SiteSource; from "
        "almanac.spiders.store.raw import RawStore;"
        "from almanac.spiders.crawling.crawl import crawl_site;"
        "crawl_site(SiteSource.model_validate_json(sys.argv[1]), RawStore(Path(sys.argv[2])), 'r1')"
    )
    declared = source(loopback_site).model_dump_json(by_alias=True, exclude_defaults=True)
    parent = subprocess.Popen([sys.executable, "-c", program, declared, str(tmp_path)], cwd=installation())
    _wait_for(lambda: loopback_site.requests["/"] > 0)
    children = _crawls_of(parent.pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert children
    _wait_for(lambda: not any(map(_is_running, children)))


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


def _wait_for(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def _crawls_of(parent: int) -> list[int]:
    """Ids of the crawl processes that a process has started and that still run."""
    process_ids = []
    for entry in Path("/proc").iterdir():
        try:
            state, ppid = (
                (entry / "stat").read_text().rpartition(")")[2].split()[:2] if entry.name.isdigit() else ("", "")
            )
            if (
                ppid == str(parent)
                and state != "Z"
                and b"almanac.spiders.crawling.crawl_process" in (entry / "cmdline").read_bytes()
            ):
                process_ids.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return process_ids


def _is_running(pid: int) -> bool:
    try:
        return b"almanac.spiders.crawling.crawl_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


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
