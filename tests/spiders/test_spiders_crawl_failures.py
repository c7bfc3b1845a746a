"""Pages that fail: redirects without an end, start URLs that are gone or refused, robots.txt that allows nothing."""

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.http import Request, Response

from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import CredentialRefused, NoRecords, Unreachable
from almanac.spiders.crawling import site_spider
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, PreviousPages
from almanac.spiders.reading.content import Content
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore
from tests.reference.journey import CONTENT
from tests.spiders.test_spiders_crawl import crawled, links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

_REDIRECTS = CONTENT / "adv_redirects"


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
