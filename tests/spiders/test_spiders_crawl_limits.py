"""Crawls that a limit ends: pages, depth, bytes, time, and what is known then and not fetched."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from almanac.spiders.crawling.crawl import crawl_site, fetch_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Answer
from tests.spiders.test_spiders_crawl import crawled, links, source

if TYPE_CHECKING:
    from tests.spiders.conftest import Site


@pytest.mark.parametrize("limit", [1, 7])
def test_page_limit_is_exact(loopback_site: "Site", tmp_path: Path, limit: int) -> None:
    """Also where some of the requests give no page: a failure does not use up the limit."""
    loopback_site.page("/", links("/missing", *(f"/{n}" for n in range(20))))
    for n in range(20):
        loopback_site.page(f"/{n}", "x")
    outcome, stored = crawled(loopback_site, tmp_path, limits={"pages": limit})
    assert (len(stored), outcome.pages.fetched, outcome.finish) == (limit, limit, "pages")


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


def test_time_limit_ends_the_crawl_and_keeps_what_arrived(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", links(*(f"/{n}" for n in range(200))))
    for n in range(200):
        loopback_site.page(f"/{n}", "x", delay_s=0.3)
    outcome, stored = crawled(loopback_site, tmp_path, limits={"seconds": 2}, politeness={"per_domain": 2})
    assert outcome.finish == "seconds" and 1 < len(stored) < 60
    [cut] = outcome.limits_reached
    # what was under way, too
    assert (cut.limit, cut.known_urls_not_fetched + len(stored) + len(outcome.failures)) == ("seconds", 201)


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
