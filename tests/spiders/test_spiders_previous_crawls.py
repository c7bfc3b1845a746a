"""What a crawl need not fetch again: pages of one that was cut off, and pages that the server says are unchanged."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.core.lifetime import tell_job
from almanac.core.settings import installation
from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.crawl_job import Job
from almanac.spiders.crawling.previous_crawls import Ending, PreviousCrawls, PreviousPages, find_previous_crawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.store.raw import RawStore
from tests.conftest import PATIENCE_S
from tests.spiders.journals import edit
from tests.spiders.test_spiders_crawl import links, source

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

_PAGES = 40


def serve_pages(site: "Site", delay_s: float = 0.02, **keys: Any) -> None:
    """A start page, pages that it leads to, one of them by a redirect, and one page below each."""
    site.page("/", links(*(f"/{n}" for n in range(_PAGES)), "/old"), **keys)
    site.page("/old", status=301, headers={"Location": "/new"})
    site.page("/new", links("/new/below"), **keys)
    site.page("/new/below", "x", **keys)
    for n in range(_PAGES):
        site.page(f"/{n}", f"<h1>{n}</h1>" + links(f"/{n}/below"), delay_s=delay_s, **keys)
        site.page(f"/{n}/below", f"below {n}", delay_s=delay_s, **keys)


def kill_when(pages: int, declared: SiteSource, raw: RawStore, run_id: str, previous: PreviousCrawls) -> None:
    """Crawls in a process group of its own, and kills it once so many pages are stored."""
    job = Job(
        source=declared.model_dump(by_alias=True, mode="json", exclude_defaults=True),
        raw=raw.root,
        run_id=run_id,
        previous=previous,
    )
    command = [sys.executable, "-m", "almanac.spiders.crawling.crawl_process"]
    with subprocess.Popen(
        command, cwd=installation(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        tell_job(process, job.model_dump_json())
        deadline = time.monotonic() + PATIENCE_S
        while len(list(raw.index(run_id).in_order())) < pages:
            assert process.poll() is None and time.monotonic() < deadline, "the crawl ended before it was killed"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)


def never(_run_id: str) -> Ending:
    return "cut off"


def stored(raw: RawStore, run_id: str) -> dict[str, bytes]:
    return {page.url: page.body for page in raw.pages(run_id)}


def test_a_crawl_killed_anywhere_goes_on_in_the_next_run(loopback_site: "Site", tmp_path: Path) -> None:
    """Killed in three runs one after another; no page that was stored is asked for again, and the end is as if never
    killed.
    """
    site = loopback_site
    serve_pages(site)
    declared = source(site, politeness={"per_domain": 4})
    whole, raw = RawStore(tmp_path / "whole"), RawStore(tmp_path / "raw")
    crawl_site(declared, whole, "r0")
    for run_id, pages in (("r1", 3), ("r2", 30), ("r3", 60)):
        kill_when(pages, declared, raw, run_id, find_previous_crawls(raw, run_id, never))
    had = {entry.url for run_id in ("r1", "r2", "r3") for entry in raw.index(run_id).in_order()}
    site.requests.clear()
    previous = find_previous_crawls(raw, "r4", never)
    assert previous == PreviousCrawls(interrupted=["r3", "r2", "r1"])
    outcome = crawl_site(declared, raw, "r4", previous=previous)
    assert stored(raw, "r4") == stored(whole, "r0")
    assert outcome.pages == PageCounts(fetched=2 * _PAGES + 3)
    requested = {site.base + path for path in site.requests}
    assert len(had) >= 60 and not had & requested
    assert outcome.finish == "finished" and outcome.bytes == sum(map(len, stored(raw, "r4").values()))


def test_a_crawl_that_had_finished_is_taken_over_without_a_request(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    serve_pages(site, delay_s=0)
    first = crawl_site(source(site), raw, "r1")
    times = {page.url: page.fetched_at for page in raw.pages("r1")}
    site.requests.clear()
    second = crawl_site(source(site), raw, "r2", previous=find_previous_crawls(raw, "r2", never))
    assert (second.pages, second.bytes, site.requests.total()) == (first.pages, first.bytes, 0)
    assert stored(raw, "r2") == stored(raw, "r1")
    assert {page.url: page.fetched_at for page in raw.pages("r2")} == times


def test_what_the_road_no_longer_reaches_is_not_taken_over(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    serve_pages(site, delay_s=0)
    crawl_site(source(site), raw, "r1")
    narrower = source(site, follow={"deny": ["below", "/new$"]}, limits={"pages": 30})
    outcome = crawl_site(narrower, raw, "r2", previous=find_previous_crawls(raw, "r2", never))
    assert len(stored(raw, "r2")) == outcome.pages.fetched == 30 and outcome.finish == "pages"
    assert not [url for url in stored(raw, "r2") if url.endswith(("below", "new"))]


def test_an_old_page_that_a_young_crawl_took_over_is_asked_for_again(loopback_site: "Site", tmp_path: Path) -> None:
    """Nights that all fail after their crawl must not serve the first night's pages for ever."""
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1", "/2"))
    site.page("/1", "x")
    site.page("/2", "x")
    crawl_site(source(site), raw, "r1")
    edit(raw.journal_path("r1"), r'_at": "20\d\d', '_at": "2001', only='/1"')
    site.requests.clear()
    crawl_site(source(site), raw, "r2", previous=find_previous_crawls(raw, "r2", never))
    assert set(site.requests) == {"/1", "/robots.txt"}


def test_pages_of_a_run_that_failed_are_asked_for_with_their_validators(loopback_site: "Site", tmp_path: Path) -> None:
    """It may have failed over another source, night after night; and what it did not come to, the last one that counts
    knows.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1", "/2"), headers={"ETag": '"a"'})
    site.page("/1", "x", headers={"ETag": '"b"'})
    site.page("/2", "x", headers={"ETag": '"c"'})
    crawl_site(source(site), raw, "r1")
    site.page("/1", "y", headers={"ETag": '"b2"'})
    crawl_site(source(site, follow={"deny": ["/2"]}), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    site.requests.clear()
    outcome = crawl_site(source(site), raw, "r3", previous=PreviousCrawls(failed="r2", concluded="r1"))
    assert outcome.pages == PageCounts(unchanged=3)
    assert set(site.requests) == {"/robots.txt", "/", "/1", "/2"}


def test_pages_that_no_way_leads_to_any_more_are_counted(loopback_site: "Site", tmp_path: Path) -> None:
    """Those that are gone, that failed or that redirect now are accounted for already."""
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1", "/2", "/3", "/4", "/5"))
    for n in range(1, 6):
        site.page(f"/{n}", "x")
    assert crawl_site(source(site), raw, "r1").pages.vanished == 0
    site.page("/", links("/1", "/2", "/3", "/6"))
    site.page("/2", status=410)
    site.page("/3", status=302, headers={"Location": "/7"})
    site.page("/6", "x")
    site.page("/7", "x")
    pages = crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1")).pages
    assert pages == PageCounts(fetched=4, gone=1, vanished=2)
    cut = crawl_site(source(site, limits={"pages": 1}), raw, "r3", previous=PreviousCrawls(concluded="r1"))
    assert (cut.finish, cut.pages.vanished) == ("pages", 0)


def test_pages_that_redirect_to_each_other_have_failed_and_are_kept(loopback_site: "Site", tmp_path: Path) -> None:
    """Also those whose redirect leads into the circle, or to a page that failed: each waited for one that never
    came.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    names = ("a", "b", "c", "into", "fine", "to-fine", "down", "to-down", "gone", "to-gone")
    site.page("/", links(*(f"/{name}" for name in names)))
    for name in names:
        site.page(f"/{name}", f"<h1>{name}</h1>")
    assert crawl_site(source(site), raw, "r1").pages == PageCounts(fetched=11)
    for name, target in {
        "a": "b",
        "b": "c",
        "c": "a",
        "into": "a",
        "to-fine": "fine",
        "to-down": "down",
        "to-gone": "gone",
    }.items():
        site.page(f"/{name}", status=302, headers={"Location": f"/{target}"})
    site.page("/down", status=500)
    site.page("/gone", status=410)
    crawled = crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    failures = {
        failure.url.removeprefix(f"{site.base}/"): (failure.reason, failure.detail.replace(site.base, ""))
        for failure in crawled.failures
    }
    assert {name: reason for name, (reason, _) in failures.items()} == {
        **dict.fromkeys(("a", "b", "c", "into"), "error"), "down": "server_error", "to-down": "server_error",
        "gone": "gone", "to-gone": "gone",
    }  # fmt: skip
    assert "redirects in a circle" in failures["a"][1] and failures["to-down"][1] == "redirects to /down: server_error"
    assert crawled.pages == PageCounts(fetched=2, failed=6, gone=2)
    assert {page.url.removeprefix(f"{site.base}/") for page in raw.pages("r2")} == {
        "",
        "fine",
        "a",
        "b",
        "c",
        "into",
        "down",
        "to-down",
    }


def test_crawls_are_told_apart_by_their_runs_and_their_age(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    now = datetime.now(UTC)
    for run_id, hours in (("r1", 30), ("r2", 25), ("r3", 20), ("r4", 30), ("r5", 1)):
        line = {
            "url": "http://x.test/",
            "requested_url": "",
            "status": 200,
            "content_type": "",
            "etag": None,
            "last_modified": None,
            "sha256": "0",
        }
        raw.journal_path(run_id).parent.mkdir(exist_ok=True)
        head = json.dumps({"format": 1}) + "\n"
        raw.journal_path(run_id).write_text(
            head + json.dumps({**line, "fetched_at": (now - timedelta(hours=hours)).isoformat()}) + "\n"
        )
    raw.journal_path("r6").touch()
    endings: dict[str, Ending] = {"r2": "concluded"}
    assert find_previous_crawls(raw, "r7", lambda run_id: endings.get(run_id, "cut off")) == PreviousCrawls(
        interrupted=["r5", "r3"], concluded="r2"
    )
    endings |= {"r1": "failed", "r3": "failed", "r4": "failed"}
    for run_id in ("r1", "r4"):
        raw.stats_path(run_id).touch()
    # r3's run told that it failed; its crawl was cut off all the same.
    assert find_previous_crawls(raw, "r4", endings.__getitem__) == PreviousCrawls(interrupted=["r3"], concluded="r2")
    assert find_previous_crawls(raw, "r7", lambda run_id: endings.get(run_id, "cut off")) == PreviousCrawls(
        interrupted=["r5"], failed="r4", concluded="r2"
    )
    endings |= {"r4": "concluded"}
    assert find_previous_crawls(raw, "r5", endings.__getitem__) == PreviousCrawls(concluded="r4")
    assert find_previous_crawls(RawStore(tmp_path / "none"), "r1", never) == PreviousCrawls()


def test_a_clock_that_was_set_right_in_mid_crawl_makes_no_page_young(tmp_path: Path) -> None:
    """Set back, nothing of the crawl is taken over without a request; set forward, what came after it is."""
    now = datetime.now(UTC)
    for name, before in (("back", now + timedelta(days=1500)), ("forward", now - timedelta(days=1500))):
        raw = RawStore(tmp_path / name)
        with raw.journal("r1") as journal:
            for path, at in (("early", before), ("late", now)):
                address = f"http://x.test/{path}"
                journal.add(
                    Page(url=address, requested_url=address, body=b"x", fetched_at=at.isoformat(timespec="seconds"))
                )
        previous = find_previous_crawls(raw, "r2", never)
        assert previous == PreviousCrawls(interrupted=["r1"] if name == "forward" else [])
        pages = PreviousPages(raw, "r2", previous, "")
        assert pages.arrived("http://x.test/early") is None and (pages.arrived("http://x.test/late") is not None) is (
            name == "forward"
        )


def test_unchanged_pages_are_not_sent_again_and_stay_as_they_were(loopback_site: "Site", tmp_path: Path) -> None:
    """Some have an ETag, some a date."""
    site, raw = loopback_site, RawStore(tmp_path)
    serve_pages(site, delay_s=0, headers={"ETag": '"v1"'})
    for n in range(_PAGES):
        site.page(f"/{n}/below", f"below {n}", headers={"Last-Modified": "Sat, 01 Mar 2025 10:00:00 GMT"})
    crawl_site(source(site), raw, "r1")
    edit(raw.journal_path("r1"), r'_at": "20\d\d', '_at": "2001')
    site.page("/7", "<h1>changed</h1>", headers={"ETag": '"v2"'})
    del site.answers["/8"]
    site.sent.clear()
    outcome = crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    pages = {page.url.removeprefix(site.base): page for page in raw.pages("r2")}
    # Pages 7 and 8 no longer lead to those below them.
    assert outcome.pages == PageCounts(fetched=1, unchanged=2 * _PAGES + 3 - 4, gone=1, vanished=2)
    assert set(site.sent) == {"/7", "/8", "/old", "/robots.txt"}
    assert (
        pages["/7"].body == b"<h1>changed</h1>"
        and pages["/9"].fetched_at.startswith("2001")
        and pages["/9"].content_type == "text/html; charset=utf-8"
    )
    assert (pages["/new"].requested_url, pages["/9"].status) == (f"{site.base}/old", 200)
    assert {entry.url for entry in raw.index("r2").in_order() if not entry.unchanged} == {f"{site.base}/7"}
    third = crawl_site(source(site), raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert third.pages == PageCounts(unchanged=2 * _PAGES + 3 - 3, gone=1)


def test_a_crawl_of_unchanged_pages_that_is_cut_off_is_taken_over_too(loopback_site: "Site", tmp_path: Path) -> None:
    """Its pages are old, but the server has spoken of them just now."""
    site, raw = loopback_site, RawStore(tmp_path)
    serve_pages(site, delay_s=0, headers={"ETag": '"v"'})
    crawl_site(source(site), raw, "r1")
    edit(raw.journal_path("r1"), r'_at": "20\d\d', '_at": "2001')
    crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    site.requests.clear()
    previous = find_previous_crawls(raw, "r3", lambda run_id: "concluded" if run_id == "r1" else "cut off")
    assert previous == PreviousCrawls(interrupted=["r2"], concluded="r1")
    outcome = crawl_site(source(site), raw, "r3", previous=previous)
    assert (outcome.pages, site.requests.total()) == (PageCounts(unchanged=2 * _PAGES + 3), 0)


def test_a_page_that_fails_once_more_keeps_no_other_from_vanishing_after_a_cut(
    loopback_site: "Site", tmp_path: Path
) -> None:
    """No page need arrive for it: the failed one's copy leads to nothing that was not asked for."""
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1", "/2", "/3"))
    for n in range(1, 4):
        site.page(f"/{n}", links("/"))
    crawl_site(source(site), raw, "r1")
    site.page("/", links("/1", "/2"))
    site.page("/2", status=500)
    for run_id, interrupted in (("r2", []), ("r3", ["r2"])):
        outcome = crawl_site(
            source(site), raw, run_id, previous=PreviousCrawls(interrupted=interrupted, concluded="r1")
        )
        assert (outcome.vanished, outcome.kept) == ([f"{site.base}/3"], 1)


def test_pages_that_were_sent_to_somebody_else_are_asked_for_anew(loopback_site: "Site", tmp_path: Path) -> None:
    """Neither taken over nor asked for with their validators, until the same one asks again."""
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1"), headers={"ETag": '"a"'})
    site.page("/1", "<h1>1</h1>", headers={"ETag": '"b"'})
    ann, bob = (source(site, politeness={"cookies": {"session": session}}) for session in ("ann", "bob"))
    crawl_site(ann, raw, "r1")
    assert crawl_site(bob, raw, "r2", previous=PreviousCrawls(interrupted=["r1"], concluded="r1")).pages == PageCounts(
        fetched=2
    )
    assert site.sent["/1"] == 2
    assert crawl_site(ann, raw, "r3", previous=PreviousCrawls(interrupted=["r2"], concluded="r1")).pages == PageCounts(
        unchanged=2
    )


def test_a_seal_is_of_all_that_is_sent_and_of_nothing_else() -> None:
    def fingerprint_of(**manners: Any) -> str:
        return requester_fingerprint(
            SiteSource.model_validate(
                {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "politeness": manners}
            )
        )

    auths: list[dict[str, Any]] = [{"auth": {"user": "u", "password": password}} for password in "pq"]
    cookies: list[dict[str, Any]] = [{"cookies": {"a": value}} for value in "bc"]
    headers: list[dict[str, Any]] = [{"headers": {name: "b"}} for name in "AB"]
    sent = [{}, {"user_agent": "other"}, *auths, *cookies, *headers]
    assert len({fingerprint_of(**manners) for manners in sent}) == len(sent)
    assert fingerprint_of() == fingerprint_of(delay_s=9, robots=False)


@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_unchanged_page_without_its_body_is_asked_for_again(loopback_site: "Site", tmp_path: Path, damage: str) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/1"), headers={"ETag": '"a"'})
    site.page("/1", "<h1>1</h1>", headers={"ETag": '"b"'})
    crawl_site(source(site), raw, "r1")
    digest = next(page.sha256 for page in raw.pages("r1") if page.url.endswith("/1"))
    body = next(raw.root.glob(f"bodies/*/{digest}.gz"))
    if damage == "missing":
        body.unlink()
    else:
        body.write_bytes(body.read_bytes()[:-4])
    outcome = crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert outcome.pages == PageCounts(fetched=1, unchanged=1)
    assert stored(raw, "r2")[f"{site.base}/1"] == b"<h1>1</h1>"


def test_validators_belong_to_one_url_and_304_unasked_is_an_error(loopback_site: "Site", tmp_path: Path) -> None:
    """/a now redirects to /b, which never saw the ETag that /a had; and /c claims to be unchanged although nothing was
    sent.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/a", "/c"))
    site.page("/a", "old", headers={"ETag": '"a"'})
    crawl_site(source(site), raw, "r1")
    site.page("/a", status=302, headers={"Location": "/b"})
    site.page("/b", "new", headers={"ETag": '"a"'})
    site.page("/c", status=304)
    outcome = crawl_site(source(site), raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert stored(raw, "r2")[f"{site.base}/b"] == b"new"
    assert outcome.pages == PageCounts(fetched=2, failed=1)
    assert [(failure.url.removeprefix(site.base), failure.status) for failure in outcome.failures] == [("/c", 304)]


def test_a_stored_page_that_is_larger_than_a_new_limit_is_refused(loopback_site: "Site", tmp_path: Path) -> None:
    """A refresh holds what a first crawl would: of an unchanged page no byte comes that the limit could count."""
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/large", "/small"), headers={"ETag": '"a"'})
    site.page("/large", "x" * 5000, headers={"ETag": '"b"'})
    site.page("/small", "x", headers={"ETag": '"c"'})
    crawl_site(source(site), raw, "r1")
    outcome = crawl_site(
        source(site, limits={"bytes_per_page": 4000}), raw, "r2", previous=PreviousCrawls(concluded="r1")
    )
    assert outcome.pages == PageCounts(unchanged=2, refused=1)
    assert [(failure.url.removeprefix(site.base), failure.reason) for failure in outcome.failures] == [
        ("/large", "too_large")
    ]
    again = crawl_site(
        source(site, limits={"bytes_per_page": 4000}), raw, "r3", previous=PreviousCrawls(interrupted=["r1"])
    )
    assert again.pages == PageCounts(fetched=2, refused=1)
