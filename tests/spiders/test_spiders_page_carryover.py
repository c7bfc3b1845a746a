"""Which pages keep their place although a crawl did not get them, which lose it, and why: decided over journals."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.schemas.crawl_outcome import FailedPage, PageCounts
from almanac.schemas.items import Page
from almanac.spiders.crawling.page_carryover import carry_over_pages
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, PreviousPages
from almanac.spiders.crawling.stats import CrawlStats, read_stats
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore
from tests.spiders.journals import edit
from tests.spiders.test_spiders_crawl import source

if TYPE_CHECKING:
    pass


_HOST = "http://x.test"


def url(path: str) -> str:
    return _HOST + path


def declared(**keys: Any) -> Any:
    return source(type("At", (), {"base": _HOST})(), **keys)


class Crawls:
    """Crawls of a site that nobody asks: journals and stats as a crawl's process would leave them."""

    def __init__(self, root: Path, **keys: Any) -> None:
        self.raw = RawStore(root)
        self.source = declared(**keys)
        self.last: str | None = None
        self.number = 0

    def __call__(
        self,
        *paths: str,
        failed: dict[str, str] | None = None,
        requester: str = "s",
        forgotten: tuple[str, ...] = (),
        **stats: Any,
    ) -> dict[str, str]:
        """One more crawl, which got `paths`; returns why the others that are still there keep their place."""
        self.number += 1
        run_id = f"r{self.number}"
        failures = [FailedPage(url=url(path), reason=reason) for path, reason in (failed or {}).items()]
        self.stats = CrawlStats(source="s", **{"failures": failures, "pages": PageCounts(fetched=len(paths)), **stats})
        with self.raw.journal(run_id, Head(requester)) as journal:
            for path in paths:
                requested, _, landed = path.partition("→")
                journal.add(
                    Page(
                        url=url(landed or requested),
                        requested_url=url(requested),
                        body=path.encode(),
                        etag='"e"',
                        fetched_at="2026-01-01T00:00:00+00:00",
                    )
                )
        if self.last is not None:
            carry_over_pages(
                self.source,
                self.raw,
                run_id,
                self.last,
                read_stats(self.raw, self.last),
                self.stats,
                map(url, forgotten),
            )
        self.raw.stats_path(run_id).write_text(self.stats.model_dump_json())
        self.last = run_id
        reasons = {
            entry.url.removeprefix(_HOST): entry.kept for entry in self.raw.index(run_id).in_order() if entry.kept
        }
        assert self.stats.kept == len(reasons) == self.raw.index(run_id).kept and self.stats.pages.vanished == len(
            self.stats.vanished
        )
        return reasons

    @property
    def vanished(self) -> list[str]:
        return [page_url.removeprefix(_HOST) for page_url in self.stats.vanished]


@pytest.mark.parametrize("reason", ["server_error", "timeout", "unreachable", "error"])
def test_a_page_that_failed_keeps_its_place_however_often(tmp_path: Path, reason: str) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/2")
    for _ in range(3):
        assert crawls("/", "/2", failed={"/1": reason}, fallbacks_used=[url("/1")]) == {"/1": reason}
    assert {page.body for page in crawls.raw.pages("r4")} == {b"/", b"/1", b"/2"} and crawls.vanished == []
    assert crawls("/", "/1", "/2") == {}
    assert crawls("/", "/2") == {} and crawls.vanished == ["/1"]


@pytest.mark.parametrize(
    "reason",
    ["gone", "refused_by_robots", "off_site", "denied", "too_large", "not_text", "private_address", "forgotten"],
)
def test_a_page_that_is_gone_or_refused_loses_its_place_and_has_not_vanished(tmp_path: Path, reason: str) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1")
    assert crawls("/", failed={"/1": reason}, fallbacks_used=[url("/1")]) == {} and crawls.vanished == []
    assert crawls.raw.index("r2").urls == {url("/")}


@pytest.mark.parametrize("misses", [1, 3])
def test_a_page_vanishes_after_the_declared_number_of_misses_in_a_row(tmp_path: Path, misses: int) -> None:
    crawls = Crawls(tmp_path, vanish_after=misses)
    crawls("/", "/1", "/2")
    for _ in range(misses - 1):
        assert crawls("/", "/2") == {"/1": "missed"}
    if misses > 1:
        # Met once, it starts anew; a crawl that was cut short, and one in which it failed, are no misses.
        crawls("/", "/1", "/2")
        assert crawls("/", "/2") == {"/1": "missed"}
        assert crawls("/", finish="pages") == {"/1": "not_asked", "/2": "not_asked"}
        assert crawls("/", "/2") == {"/1": "missed"}
    assert crawls("/", "/2") == {} and crawls.vanished == ["/1"]


@pytest.mark.parametrize(
    "stats", [{"finish": "pages"}, {"finish": "seconds"}, {"finish": "bytes"}, {"finish": "partial"}, {"unqueued": 3}]
)
def test_a_crawl_that_was_cut_short_purges_only_what_it_saw_go(tmp_path: Path, stats: dict[str, Any]) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/2", "/3")
    assert crawls("/", failed={"/1": "gone", "/2": "server_error"}, fallbacks_used=[url("/2")], **stats) == {
        "/2": "server_error",
        "/3": "not_asked",
    }


def test_a_failure_that_may_hide_pages_lets_none_vanish(tmp_path: Path) -> None:
    """A page that was never had, and failed before too, hides nothing that is known; one that was had and whose links
    nobody could follow does.
    """
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/2")
    assert crawls("/", "/1", failed={"/new": "server_error"}) == {"/2": "not_asked"}
    assert crawls("/", "/1", failed={"/new": "timeout"}) == {} and crawls.vanished == ["/2"]
    for _ in range(2):
        assert crawls("/", failed={"/1": "server_error"}) == {"/1": "server_error"}
    crawls("/", "/1", "/2")
    for _ in range(2):
        assert crawls("/", failed={"/1": "server_error"}) == {"/1": "server_error", "/2": "not_asked"}
    assert crawls("/", failed={"/1": "server_error"}, fallbacks_used=[url("/1")]) == {
        "/1": "server_error"
    } and crawls.vanished == ["/2"]
    assert crawls("/", failed={"/1": "server_error", "/cart": "refused_by_robots"}, fallbacks_used=[url("/1")]) == {
        "/1": "server_error"
    }


@pytest.mark.parametrize(
    ("reason", "status", "hides"), [("server_error", 500, True), ("timeout", None, True), ("error", 404, False)]
)
def test_a_sitemap_that_fails_hides_its_pages_and_one_that_is_gone_for_good_does_not(
    tmp_path: Path, reason: str, status: int | None, hides: bool
) -> None:
    """Also where single pages were fetched in between, which asks no sitemap; and one that never was there hides
    nothing.
    """
    crawls, sitemap, never = Crawls(tmp_path), url("/sitemap.xml"), url("/never.xml")
    broken = FailedPage(url=never, reason="error", status=200, detail="sitemap: none")
    failures = [FailedPage(url=sitemap, reason=reason, status=status, detail="sitemap: down"), broken]
    crawls("/", "/1", "/2", sitemaps=[sitemap], failures=[broken], sitemaps_failed=[never])
    assert crawls("/", finish="partial") == {"/1": "not_asked", "/2": "not_asked"}
    assert crawls("/", failures=failures, sitemaps_failed=[sitemap, never]) == {"/1": "not_asked", "/2": "not_asked"}
    assert crawls("/", failures=failures, sitemaps_failed=[sitemap, never]) == (
        {"/1": "not_asked", "/2": "not_asked"} if hides else {}
    )
    assert crawls("/", "/1", failures=[broken], sitemaps=[sitemap], sitemaps_failed=[never]) == {}


def test_a_page_that_redirects_elsewhere_has_moved_and_one_whose_redirect_leads_nowhere_has_failed(
    tmp_path: Path,
) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/old→/2", "/3", "/4")
    reasons = crawls(
        "/",
        "/1→/one",
        failed={"/old": "server_error", "/new": "timeout"},
        landed={url("/3"): url("/new"), url("/2"): url("/old")},
    )
    assert reasons == {"/2": "server_error", "/3": "timeout", "/4": "not_asked"} and crawls.vanished == []
    assert crawls("/", "/one", failed={"/old": "gone"}) == {} and crawls.vanished == ["/3", "/4"]


def test_what_the_declaration_no_longer_wants_keeps_no_place(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/private/2", "/4?sort=a")
    crawls.source = declared(follow={"deny": ["/private/"]}, ignore_parameters=["sort"], vanish_after=5)
    assert crawls("/", "/4", finish="pages") == {"/1": "not_asked"} and crawls.vanished == ["/private/2"]


def test_what_was_taken_down_is_never_carried_on(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/2")
    assert crawls("/", finish="pages", forgotten=("/1",)) == {"/2": "not_asked"}


def test_numbers_that_a_pagination_no_longer_has_go_also_in_a_crawl_that_was_cut_short(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path, pagination={"parameter": "page"})
    crawls("/", "/?page=2", "/?page=3", "/1")
    assert crawls("/?page=1", finish="pages", ended=[url("/?page=2")]) == {
        "/?page=3": "not_asked",
        "/1": "not_asked",
    } and crawls.vanished == ["/?page=2"]
    assert crawls("/", "/1") == {} and crawls.vanished == ["/?page=3"]


def test_pages_that_were_sent_to_somebody_else_keep_their_place_without_validators(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", requester="ann")
    assert crawls("/", finish="pages", requester="bob") == {"/1": "not_asked"}
    entry = crawls.raw.index("r2").find(url("/1"))
    assert entry is not None and entry.etag is None


def test_a_second_attempt_at_a_crawl_decides_anew(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls("/", "/1", "/2")
    crawls("/", finish="pages")
    crawls.raw.drop_kept("r2")
    assert crawls.raw.index("r2").urls == {url("/")}
    crawls.number, crawls.last = 1, "r1"
    assert crawls("/2", finish="pages") == {"/1": "not_asked"}


def test_kept_pages_are_read_but_never_taken_for_arrived(tmp_path: Path) -> None:
    """A crawl that was cut off after it had said what keeps its place: its successor asks for those pages."""
    crawls = Crawls(tmp_path)
    crawls("/", "/1")
    crawls("/", finish="pages")
    pages = PreviousPages(crawls.raw, "r3", PreviousCrawls(interrupted=["r2"], concluded="r1"), "s")
    assert pages.arrived(url("/1")) is None and pages.known(url("/1")) is not None
    edit(crawls.raw.journal_path("r2"), re.escape("2026-01-01T00:00:00+00:00"), datetime.now(UTC).isoformat())
    pages = PreviousPages(crawls.raw, "r3", PreviousCrawls(interrupted=["r2"], concluded="r1"), "s")
    assert pages.arrived(url("/")) is not None and pages.arrived(url("/1")) is None
