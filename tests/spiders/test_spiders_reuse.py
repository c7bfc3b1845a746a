"""When an earlier crawl's pages are read again without a request."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.source import FilesSource, SiteSource
from almanac.schemas.items import Page
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.reuse import pages_of, reusable_crawl
from almanac.spiders.crawling.stats import CrawlStats
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore


def site(**keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys})


def crawled(root: Path, source: SiteSource, hours: float = 1, finish: str = "finished") -> RawStore:
    raw = RawStore(root)
    at = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="seconds")
    with raw.journal("r1", Head(requester_fingerprint(source), fetching_of(source))) as journal:
        for path in ("", "a", "b"):
            journal.add(
                Page(
                    url=f"http://x.test/{path}",
                    body=path.encode() * 10,
                    fetched_at=at,
                    requested_url=f"http://x.test/{path}",
                )
            )
    raw.stats_path("r1").write_text(CrawlStats(source="s", finish=finish).model_dump_json())
    return raw


_BASE = PreviousCrawls(concluded="r1")


def test_a_young_whole_crawl_is_read_again_when_only_the_mapping_changed(tmp_path: Path) -> None:
    raw = crawled(tmp_path, site())
    mapped = site(yields="records", fields={"name": {"css": "h1"}}, title="{name}", match="/a")
    assert reusable_crawl(mapped, raw, _BASE) == "r1"
    outcome = pages_of(mapped, raw, "r1")
    assert (outcome.crawl, outcome.finish, outcome.pages, outcome.kept, outcome.bytes) == (
        "r1",
        "reused",
        PageCounts(unchanged=3),
        0,
        20,
    )


def test_links_that_an_earlier_crawl_did_not_follow_count_while_the_rules_are_the_same(tmp_path: Path) -> None:
    paged = site(pagination={"parameter": "page"})
    raw = crawled(tmp_path, paged)
    raw.stats_path("r1").write_text(CrawlStats(source="s", unfollowed=4).model_dump_json())
    assert pages_of(paged, raw, "r1").unfollowed == 4
    assert pages_of(site(pagination={"parameter": "p"}), raw, "r1").unfollowed == 0


@pytest.mark.parametrize(
    "other",
    [
        {"start_urls": ["http://x.test/b"]},
        {"limits": {"pages": 5}},
        {"politeness": {"user_agent": "b"}},
        {"politeness": {"robots": False}},
    ],
)
def test_what_would_be_asked_otherwise_is_asked(tmp_path: Path, other: dict[str, Any]) -> None:
    assert reusable_crawl(site(**other), crawled(tmp_path, site()), _BASE) is None


@pytest.mark.parametrize(
    "lack", ["old", "from the future", "cut", "a page", "a sitemap", "no stats", "no body", "no crawl", "never"]
)
def test_a_crawl_that_is_not_whole_or_not_young_is_made_anew(tmp_path: Path, lack: str) -> None:
    raw = crawled(
        tmp_path,
        site(),
        hours={"old": 25, "from the future": -50_000}.get(lack, 1),
        finish="pages" if lack == "cut" else "finished",
    )
    if lack in ("a page", "a sitemap"):
        failed = (
            {"pages": PageCounts(fetched=3, failed=1)}
            if lack == "a page"
            else {"sitemaps_failed": ["http://x.test/sitemap.xml"]}
        )
        raw.stats_path("r1").write_text(CrawlStats.model_validate({"source": "s", **failed}).model_dump_json())
    elif lack == "no stats":
        raw.stats_path("r1").unlink()
    elif lack == "no body":
        next(tmp_path.glob("bodies/*/*.gz")).write_bytes(b"")
    elif lack == "no crawl":
        raw.journal_path("r1").unlink()
    assert reusable_crawl(site(), raw, PreviousCrawls() if lack == "never" else _BASE) is None


def test_files_are_always_read(tmp_path: Path) -> None:
    files = FilesSource.model_validate({"name": "s", "kind": "files", "glob": "*.md"})
    assert reusable_crawl(files, crawled(tmp_path, site()), _BASE) is None


def test_fetching_is_all_that_decides_which_pages_there_are_and_no_more() -> None:
    card = {"match": "/l", "each": {"css": "li"}, "link": {"css": "a"}}
    paged: dict[str, Any] = {"pagination": {"parameter": "page"}}
    same: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"match": "/x"}),
        ({}, {"vanish_after": 3}),
        ({}, {"each": {"css": "p"}}),
        ({}, {"politeness": {"delay_s": 9, "per_domain": 1}}),
    ]
    same += [({"listing": card, **paged}, {"listing": {**card, "fields": {"a": {"css": "b"}}}, **paged, "match": "/x"})]
    for keys, other in same:
        assert fetching_of(site(**keys)) == fetching_of(site(**other)), other
    # Where a pagination ends depends on what a page adds: the items on it, or its text where it may be one.
    differ = [
        ({}, paged),
        (paged, {**paged, "match": "/x"}),
        (paged, {**paged, "each": {"css": "p"}}),
        ({}, {"follow": {"deny": ["x"]}}),
    ]
    differ += [
        ({"listing": card}, {"listing": {**card, "link": {"css": "b"}}}),
        ({}, {"limits": {"depth": 1}}),
        ({}, {"sitemaps": ["http://x.test/s.xml"]}),
    ]
    for keys, other in differ:
        assert fetching_of(site(**keys)) != fetching_of(site(**other)), other
