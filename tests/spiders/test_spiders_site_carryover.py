"""Pages of real sites that fail, are withdrawn or are fetched alone: which keep their place, run after run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.schemas.crawl_outcome import CrawlOutcome, PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import CredentialRefused, Unreachable, UsageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.crawl import crawl_site, fetch_site, require_pages
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, find_previous_crawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.stats import CrawlStats
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Answer
from tests.spiders.test_spiders_crawl import links, source
from tests.spiders.test_spiders_previous_crawls import kill_when

if TYPE_CHECKING:
    from tests.spiders.conftest import Site


def had(site: "Site", raw: RawStore, shop: SiteSource, *paths: str) -> None:
    """A crawl `r1` that got these pages, as one would have left it."""
    with raw.journal("r1", Head(requester_fingerprint(shop))) as journal:
        for path in paths:
            answer = site.answers.get(path) or site.otherwise(path)
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            stored_page = Page(
                site.base + path, body, content_type="text/html; charset=utf-8", requested_url=site.base + path
            )
            journal.add(replace(stored_page, etag=answer.headers.get("ETag"), fetched_at="2026-01-01T00:00:00+00:00"))
    raw.stats_path("r1").write_text(CrawlStats(source="s", pages=PageCounts(fetched=len(paths))).model_dump_json())


_SHOP: dict[str, Any] = {
    "pagination": {"parameter": "page"},
    "listing": {"match": "/list$", "each": {"css": "li"}, "link": {"css": "a"}, "fields": {"price": {"css": "b"}}},
    "yields": "records",
    "fields": {"name": {"css": "h1"}},
}


def serve_shop(site: "Site", pages: int = 4, per_page: int = 5) -> None:
    """A numbered listing with cards; beyond its end, a server error."""
    for number in range(1, pages + 1):
        cards = "".join(f"<li><a href=/i/{number}-{n}>x</a><b>{number}.{n}</b></li>" for n in range(per_page))
        site.page("/list" if number == 1 else f"/list?page={number}", f"<ul>{cards}</ul>")
    site.otherwise = lambda path: (
        Answer(f"<h1>{path}</h1>", headers={"ETag": f'"{path}"'}) if path.startswith("/i/") else Answer("", 403)
    )


def prices(raw: RawStore, run_id: str, shop: Any) -> dict[str, str]:
    drafts = [draft for extraction in map_pages(raw.pages(run_id), shop, "en") for draft in extraction.drafts]
    return {draft.fields["name"]: draft.fields["price"] for draft in drafts}


def test_listing_pages_that_fail_cost_no_item_and_end_no_pagination(loopback_site: "Site", tmp_path: Path) -> None:
    """Numbered pages and cards: two pages of the listing down, one item gone, one no longer listed; then all is well
    again.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    serve_shop(site)
    shop = source(site, start_urls=[f"{site.base}/list"], **_SHOP)
    listings, details = (
        ["/list", *(f"/list?page={n}" for n in (2, 3, 4))],
        [f"/i/{number}-{n}" for number in range(1, 5) for n in range(5)],
    )
    had(site, raw, shop, *listings, *details)
    items = prices(raw, "r1", shop)
    assert len(items) == 20
    first, fourth = site.answers["/list"], site.answers["/list?page=4"]
    for number in (2, 3):
        site.page(f"/list?page={number}", status=500 if number == 2 else 403)
    site.page("/i/1-0", status=404)
    site.answers["/list?page=4"] = Answer(str(fourth.body).replace("<li><a href=/i/4-0>x</a><b>4.0</b></li>", ""))
    second = crawl_site(shop, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert second.pages == PageCounts(fetched=2, unchanged=18, failed=2, gone=1, vanished=1)
    assert (second.kept, second.crawl, second.vanished) == (2, "r2", [f"{site.base}/i/4-0"])
    assert json.loads(raw.stats_path("r2").read_text()).items() >= second.model_dump().items()
    assert prices(raw, "r2", shop) == {name: price for name, price in items.items() if name not in ("/i/1-0", "/i/4-0")}
    card = raw.index("r2").find(f"{site.base}/i/2-0").card  # type: ignore[union-attr]
    assert card == [
        f"{site.base}/list?page=2",
        raw.index("r1").find(f"{site.base}/list?page=2").sha256,  # type: ignore[union-attr]
        "text/html; charset=utf-8",
    ]
    serve_shop(site)
    del site.answers["/i/1-0"]
    site.answers["/list"] = first
    third = crawl_site(shop, raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert (third.pages.failed, third.kept, third.pages.vanished) == (0, 0, 0)
    assert prices(raw, "r3", shop) == items
    assert raw.index("r3").fingerprint == raw.index("r1").fingerprint != raw.index("r2").fingerprint


@pytest.mark.parametrize(("gone", "kept_count"), [([], 3), ([403], 1), ([401, 403], 0), ([401, 403, 451], 0)])
def test_pages_that_a_site_withdraws_are_gone_where_that_is_declared(
    loopback_site: "Site", tmp_path: Path, gone: list[int], kept_count: int
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links(*(f"/{n}" for n in range(6))))
    for n in range(6):
        site.page(f"/{n}", f"<p>Page {n}</p>{links(f'/{n}/more')}")
        site.page(f"/{n}/more", f"<p>More of {n}</p>")
    crawl_site(source(site), raw, "r1")
    for n, status in enumerate((401, 403, 403, 404)):
        site.page(f"/{n}", "turned away", status=status)
    outcome = crawl_site(source(site, gone=gone), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.pages.failed, outcome.pages.gone) == (kept_count, 4 - kept_count)
    # Pages behind one that merely failed are still found by its stored copy.
    assert {page.url.removeprefix(f"{site.base}/") for page in raw.pages("r2")} >= {"", "4", "4/more", "5", "5/more"}
    assert (outcome.kept, outcome.pages.vanished) == (kept_count, 4 - kept_count)
    assert {failure.reason for failure in outcome.failures if failure.status in gone} <= {"gone"}


def test_a_site_that_turns_everybody_away_is_not_gone(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", "log in", status=401)
    with pytest.raises(CredentialRefused, match="wants other credentials"):
        crawl_site(source(loopback_site, gone=[401, 403]), RawStore(tmp_path), "r1")


def test_a_front_page_that_fails_costs_nothing_and_a_dead_host_is_not_asked_for_all_it_had(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links(*(f"/{n}" for n in range(20))))
    for n in range(20):
        site.page(f"/{n}", "x", headers={"ETag": '"e"'})
    had(site, raw, source(site), "/", *(f"/{n}" for n in range(20)))
    site.page("/", status=403)
    outcome = crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.pages, outcome.kept) == (PageCounts(unchanged=20, failed=1), 1)
    site.answers.clear()
    site.otherwise = lambda _: Answer("", 501)
    site.requests.clear()
    with pytest.raises(Unreachable):
        crawl_site(source(site), raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert len(set(site.requests) - {"/robots.txt"}) <= 4
    assert raw.index("r3").urls == set()


def test_what_a_forbidden_listing_led_to_is_still_had(loopback_site: "Site", tmp_path: Path) -> None:
    """robots.txt shuts the listing: it loses its place, and nothing that it led to seems to have vanished, run after
    run.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/list/1", "/about"))
    site.page("/about", "x")
    site.page("/list/1", links("/i/1", "/i/2"))
    site.page("/i/1", "x")
    site.page("/i/2", "y")
    had(site, raw, source(site), "/", "/about", "/list/1", "/i/1", "/i/2")
    site.page("/robots.txt", "User-agent: *\nDisallow: /list/\n", content_type="text/plain")
    for number in (2, 3):
        outcome = crawl_site(source(site), raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert (outcome.pages, outcome.kept) == (PageCounts(fetched=4, refused=1), 0)
        assert f"{site.base}/list/1" not in raw.index(f"r{number}").urls


def crawl_site_alone(site: "Site", raw: RawStore, path: str) -> CrawlOutcome:
    outcome = fetch_site(source(site), raw, "r4", previous=PreviousCrawls(concluded="r1"), only=[site.base + path])
    require_pages(source(site), outcome)
    return outcome


def test_one_page_alone_is_fetched_and_all_else_stays(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1", "/2"))
    site.page("/1", "one")
    site.page("/2", "two")
    with pytest.raises(UsageError, match="no crawl is complete yet"):
        fetch_site(source(site), raw, "r1", only=[f"{site.base}/1"])
    had(site, raw, source(site), "/", "/1", "/2")
    site.page("/1", "changed" + links("/3"))
    site.page("/2", status=404)
    site.requests.clear()
    outcome = fetch_site(
        source(site),
        raw,
        "r2",
        previous=PreviousCrawls(interrupted=["r1"], concluded="r1"),
        only=[f"{site.base}/1#top", f"{site.base}/2"],
    )
    assert (outcome.pages, outcome.finish, outcome.kept) == (PageCounts(fetched=1, gone=1), "partial", 1)
    assert set(site.requests) == {"/robots.txt", "/1", "/2"}
    assert [page.body[:7] for page in raw.pages("r2")] == [links("/1", "/2").encode()[:7], b"changed"]
    narrow = source(site, follow={"deny": ["/private"]})
    for bad, finding in (
        ("http://elsewhere.test/", "none of the source's hosts"),
        (f"{site.base}/private", "follow.deny"),
        ("mailto:x", "no http"),
    ):
        with pytest.raises(UsageError, match=finding):
            fetch_site(narrow, raw, "r3", previous=PreviousCrawls(concluded="r2"), only=[bad])
    site.page("/1", status=404)
    gone = crawl_site_alone(site, raw, "/1")  # what is gone says enough
    assert (gone.pages, gone.kept) == (PageCounts(gone=1), 2)
    site.page("/1", status=501)
    with pytest.raises(Unreachable):
        crawl_site_alone(site, raw, "/1")


def test_what_was_taken_down_is_asked_for_by_no_way(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1?x=1", "/moved", "/copy", "/2"))
    site.page("/moved", status=302, headers={"Location": "/1?x=1"})
    site.page("/copy", f"<link rel=canonical href='{site.base}/1?x=1'>the same")
    site.page("/1?x=1", "secret")
    site.page("/2", "x")
    outcome = fetch_site(source(site), raw, "r1", forgotten=frozenset([f"{site.base}/1?x=1"]))
    assert (outcome.pages.fetched, outcome.pages.refused, site.requests["/1?x=1"]) == (2, 3, 0)
    assert {failure.reason for failure in outcome.failures} == {"forgotten"}
    assert raw.index("r1").urls == {f"{site.base}/", f"{site.base}/2"}


def test_a_crawl_that_is_killed_keeps_places_like_one_that_was_not(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links(*(f"/{n}" for n in range(12))))
    for n in range(12):
        site.page(f"/{n}", f"<h1>{n}</h1>", delay_s=0.05)
    slow = source(site, politeness={"per_domain": 1})
    had(site, raw, slow, "/", *(f"/{n}" for n in range(12)))
    site.page("/3", status=403)
    kill_when(6, slow, raw, "r2", PreviousCrawls(concluded="r1"))
    fetched = {page.url for page in raw.pages("r2")}
    site.requests.clear()
    previous = find_previous_crawls(raw, "r3", lambda run_id: "concluded" if run_id == "r1" else "cut off")
    outcome = crawl_site(slow, raw, "r3", previous=previous)
    assert (outcome.pages, outcome.kept) == (PageCounts(fetched=12, failed=1), 1)
    assert len(fetched) >= 6 and not fetched & {site.base + path for path in site.requests}
    assert raw.index("r3").fingerprint == raw.index("r1").fingerprint
