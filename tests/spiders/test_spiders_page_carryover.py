"""Which pages keep their place although a crawl did not get them, which lose it, and why: decided over journals, and
seen on real sites.
"""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage, PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import CredentialRefused, Unreachable, UsageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.crawl import crawl_site, fetch_site, require_pages
from almanac.spiders.crawling.page_carryover import carry_over_pages
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, PreviousPages, find_previous_crawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.stats import CrawlStats, read_stats
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Answer
from tests.spiders.journals import edit
from tests.spiders.test_spiders_crawl import links, source
from tests.spiders.test_spiders_previous_crawls import kill_when

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

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


@pytest.mark.parametrize(
    ("broken", "kind", "detail"),
    [
        ('{"rows": [{"name": "2-', "application/json", "not JSON: "),
        ("<h1>Back soon</h1>", "text/html", "not JSON: "),
        (
            '{"error": {"code": 1, "text": "später"}}',
            "application/json",
            'an error in place of rows: {"code": 1, "text": "später"}',
        ),
        (
            '{"rows": [], "errors": ["too many"], "next": null}',
            "application/json",
            'an error in place of rows: ["too many"]',
        ),
    ],
)
@pytest.mark.parametrize("pagination", [{"json": "next", "parameter": "page"}, {"parameter": "page"}])
def test_an_api_page_that_is_no_json_or_tells_an_error_costs_no_item(
    loopback_site: "Site", tmp_path: Path, broken: str, kind: str, detail: str, pagination: dict[str, str]
) -> None:
    """It has failed: its items stay, and those of the pages that only it leads to, run after run."""
    site, raw = loopback_site, RawStore(tmp_path)
    keys: dict[str, Any] = {
        "pagination": pagination,
        "each": {"json": "rows"},
        "yields": "records",
        "fields": {"name": {"json": "name", "required": True}},
    }
    api, paths = source(site, **keys), ["/", "/?page=2", "/?page=3", "/?page=4"]
    for number, path in enumerate(paths, start=1):
        body = {
            "rows": [{"name": f"{number}-{n}"} for n in range(2)],
            "next": number + 1 if number < len(paths) else None,
        }
        site.page(path, json.dumps(body), content_type="application/json")
    crawl_site(api, raw, "r1")
    names = [
        draft.fields["name"] for extraction in map_pages(raw.pages("r1"), api, "en") for draft in extraction.drafts
    ]
    site.page("/?page=2", broken, content_type=kind)
    for number in (2, 3):
        outcome = crawl_site(api, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert (outcome.pages.failed, outcome.pages.vanished, outcome.kept) == (1, 0, 1)
        assert [(failure.reason, failure.detail[: len(detail)]) for failure in outcome.failures] == [
            ("not_json", detail)
        ]
        again = [
            draft.fields["name"]
            for extraction in map_pages(raw.pages(f"r{number}"), api, "en")
            for draft in extraction.drafts
        ]
        assert sorted(again) == sorted(names) and len(names) == 8


def test_an_api_that_tells_of_errors_beside_its_items_has_them(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    for number in (1, 2):
        body = {
            "rows": [{"name": str(number)}],
            "errors": ["one row is hidden"],
            "error": None,
            "next": 2 if number == 1 else None,
        }
        site.page("/" if number == 1 else f"/?page={number}", json.dumps(body), content_type="application/json")
    site.page("/?page=3", '{"error": null, "errors": [], "rows": []}', content_type="application/json")
    api = source(
        site,
        pagination={"json": "next", "parameter": "page"},
        each={"json": "rows"},
        yields="records",
        fields={"name": {"json": "name"}},
    )
    outcome = crawl_site(api, RawStore(tmp_path), "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=2), [])


def test_cards_that_are_an_error_have_failed_and_a_detail_that_tells_of_one_has_not(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    listing = {"match": "/api", "each": {"json": "rows"}, "link": {"json": "url"}}
    declared = source(
        site, start_urls=[f"{site.base}/api"], listing=listing, yields="records", fields={"name": {"json": "name"}}
    )
    cards, error = (
        json.dumps({"rows": [{"url": f"/{n}"} for n in range(3)], "errors": ["hidden: 1"]}),
        '{"error": "too many requests"}',
    )
    for n in range(3):
        site.page(f"/{n}", json.dumps({"name": str(n), "errors": ["no picture"]}), content_type="application/json")
    for number, body in enumerate([cards, error], start=1):
        site.page("/api", body, content_type="application/json")
        outcome = crawl_site(
            declared, raw, f"r{number}", previous=PreviousCrawls(concluded="r1" if number > 1 else None)
        )
        assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/api", "not_json")] * (
            number - 1
        )
        assert (outcome.pages.present, outcome.pages.vanished) == (4 if number == 1 else 3, 0)
        assert sorted(
            draft.fields["name"]
            for extraction in map_pages(raw.pages(f"r{number}"), declared, "en")
            for draft in extraction.drafts
        ) == ["0", "1", "2"]


@pytest.mark.parametrize("body", ['{"name": "1', "No such thing today"])
def test_an_api_that_answers_nothing_but_no_json_is_worth_another_try(
    loopback_site: "Site", tmp_path: Path, body: str
) -> None:
    site = loopback_site
    site.page("/", body, content_type="application/json")
    with pytest.raises(Unreachable, match="not_json") as caught:
        crawl_site(source(site, yields="records", fields={"name": {"json": "name"}}), RawStore(tmp_path), "r1")
    assert caught.value.hint == f"the rules read JSON: look at what comes, curl {site.base}/"


@pytest.mark.parametrize("beyond", ["", "<p>no more</p>", '{"error": "no such page"}'])
def test_an_api_that_answers_without_json_beyond_its_end_has_no_failed_page(
    loopback_site: "Site", tmp_path: Path, beyond: str
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", '{"rows": [{"name": "1"}]}', content_type="application/json")
    site.otherwise = lambda _: Answer(
        beyond, content_type="text/html" if beyond.startswith("<") else "application/json"
    )
    site.unknown = site.otherwise
    api = source(
        site,
        pagination={"parameter": "page"},
        each={"json": "rows"},
        yields="records",
        fields={"name": {"json": "name"}},
    )
    outcome = crawl_site(api, raw, "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=1), [])


def numbered_api(site: "Site", pages: int, cut: int | None = None) -> SiteSource:
    """An API of `pages` numbered pages with a row each, of which one may be cut short."""
    for number in range(1, pages + 1):
        body = json.dumps({"rows": [{"name": str(number)}]})
        site.page(
            "/" if number == 1 else f"/?page={number}",
            body[:20] if number == cut else body,
            content_type="application/json",
        )
    return source(
        site,
        pagination={"parameter": "page"},
        each={"json": "rows"},
        yields="records",
        fields={"name": {"json": "name"}},
    )


@pytest.mark.parametrize(
    ("beyond", "kind"),
    [("<p>no more</p>", "text/html"), ("No results", "application/json"), ('{"error": "beyond"}', "application/json")],
)
def test_an_api_that_shrinks_loses_the_pages_beyond_its_end(
    loopback_site: "Site", tmp_path: Path, beyond: str, kind: str
) -> None:
    """Whatever it says there, if no later number is a page, a number that was one before is beyond the end, and does
    not fail run after run.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    api = numbered_api(site, 4)
    crawl_site(api, raw, "r1")
    del site.answers["/?page=3"], site.answers["/?page=4"]
    site.otherwise = lambda _: Answer(beyond, content_type=kind)
    seen = []
    for number in (2, 3):
        outcome = crawl_site(api, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        seen.append((outcome.pages.vanished, outcome.kept, outcome.failures, len(raw.index(f"r{number}").urls)))
    assert seen == [(2, 0, [], 2), (0, 0, [], 2)]


def test_without_its_first_page_nothing_shows_where_an_api_ends(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    api = numbered_api(site, 3)
    site.page("/other", '{"rows": [{"name": "other"}]}', content_type="application/json")
    api = api.model_copy(update={"start_urls": [*api.start_urls, f"{site.base}/other"]})
    crawl_site(api, raw, "r1")
    for path in ("/", "/?page=2", "/?page=3"):
        site.page(path, "<h1>Back soon</h1>")
    outcome = crawl_site(api, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.pages.vanished, outcome.kept, outcome.pages.failed) == (0, 3, 3)


@pytest.mark.parametrize("cut", [2, 3])
def test_a_numbered_page_that_is_cut_short_has_failed_also_where_it_is_new_and_the_last(
    loopback_site: "Site", tmp_path: Path, cut: int
) -> None:
    site = loopback_site
    outcome = crawl_site(numbered_api(site, 3, cut), RawStore(tmp_path), "r1")
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/?page={cut}", "not_json")]


def test_a_listing_in_json_that_is_html_now_hides_no_page_whatever_the_rules_of_its_details(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    listing = {"match": "/api", "each": {"json": "rows"}, "link": {"json": "url"}}
    declared = source(
        site, start_urls=[f"{site.base}/api"], listing=listing, yields="records", fields={"name": {"css": "h1"}}
    )
    site.page("/api", json.dumps({"rows": [{"url": f"/{n}"} for n in range(3)]}), content_type="application/json")
    for n in range(3):
        site.page(f"/{n}", f"<h1>{n}</h1>")
    crawl_site(declared, raw, "r1")
    site.page("/api", "<h1>Back soon</h1>")
    for number in (2, 3):
        outcome = crawl_site(declared, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/api", "not_json")]
        assert (outcome.pages.present, outcome.pages.vanished, outcome.kept) == (3, 0, 1)


@pytest.mark.parametrize("fields", [{"name": {"json": "name"}}, {"name": {"json": "name"}, "note": {"css": "h2"}}])
@pytest.mark.parametrize("is_redirect", [True, False])
def test_an_api_that_shows_a_page_to_log_in_has_failed(
    loopback_site: "Site", tmp_path: Path, fields: dict[str, Any], is_redirect: bool
) -> None:
    """Also behind a redirect to a page that yields no item, and where CSS rules read more."""
    site, raw = loopback_site, RawStore(tmp_path)
    api = source(
        site, start_urls=[f"{site.base}/api/{n}" for n in (1, 2)], match="/api/", yields="records", fields=fields
    )
    for n in (1, 2):
        site.page(f"/api/{n}", json.dumps({"name": str(n)}), content_type="application/json")
    crawl_site(api, raw, "r1")
    site.page("/login", "<h1>Log in</h1>")
    site.page(
        "/api/1",
        "" if is_redirect else "<h1>Log in</h1>",
        status=302 if is_redirect else 200,
        headers={"Location": "/login"} if is_redirect else {},
    )
    for number in (2, 3):
        outcome = crawl_site(api, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/api/1", "not_json")]
        assert sorted(
            draft.fields["name"]
            for extraction in map_pages(raw.pages(f"r{number}"), api, "en")
            for draft in extraction.drafts
        ) == ["1", "2"]


def test_where_items_are_data_in_pages_nothing_needs_to_be_json(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", '<script type="application/ld+json">{"@type": "Product", "name": "1"}</script>' + links("/data"))
    site.page("/data", "// no data", content_type="application/json")
    keys: dict[str, Any] = {
        "each": {"json": "@", "from": "json-ld"},
        "yields": "records",
        "fields": {"name": {"json": "name"}},
    }
    outcome = crawl_site(source(site, **keys), raw, "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=2), [])


def test_an_html_page_that_leads_to_json_is_no_failed_page(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/one"))
    site.page("/one", '{"name": "1"}', content_type="application/json")
    outcome = crawl_site(source(site, yields="records", fields={"name": {"json": "name"}}), raw, "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=2), [])


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
