"""What people read of a run: shares as percent, a dash for nothing, and why pages are missing."""

from typing import Any

import pytest

from almanac.flows.artifacts import show_summary
from almanac.flows.outcome import describe_run
from almanac.flows.reporting.report_tables import (
    as_records,
    diff_rows,
    gate_rows,
    gate_title,
    limit_rows,
    lost_pages,
    lost_rows,
    percent,
    plan_rows,
    reject_rows,
    summary_line,
    summary_rows,
)
from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage, LimitReached, PageCounts
from almanac.schemas.items import Duplicate
from almanac.schemas.manifest import Check, Verdict
from almanac.schemas.reports import DiffResult, ItemCounts, PlanResult, RunReport

_REFUSED = Verdict(
    verdict="refused",
    checks=[
        Check(name="min_items", value=12345, limit=1, ok=True),
        Check(name="expectations", value=2, limit=None, ok=True),
        Check(name="max_lost", value=0.100001, limit=0.1, ok=False),
        Check(name="max_added", value=None, limit=0.5, ok=True),
        Check(name="min_recall", value=None, limit=0.9, ok=True),
        Check(name="max_recall_drop", value=None, limit=None, ok=True),
    ],
)
_SITE = CrawlOutcome(
    source="site",
    vanished=["http://site.test/v"],
    failures=[
        *(FailedPage(url=f"http://site.test/{number}", reason="gone", status=404) for number in range(5)),
        FailedPage(url="http://site.test/slow", reason="timeout"),
        FailedPage(url="http://site.test/secret", reason="refused_by_robots"),
    ],
)


def test_a_verdict_reads_as_percent_and_words() -> None:
    assert gate_rows(_REFUSED) == [
        ("min_items", "12,345", "1", "ok"),
        ("expectations", "2", "–", "no limit"),
        ("max_lost", "10.0001 %", "10 %", "REFUSED"),
        ("max_added", "–", "50 %", "nothing to compare with"),
        ("min_recall", "–", "90 %", "not measured"),
        ("max_recall_drop", "–", "–", "–"),
    ]
    assert gate_rows({"would_refuse": True, "checks": [check.model_dump() for check in _REFUSED.checks]}) == gate_rows(
        _REFUSED
    )
    assert [percent(share) for share in (0, 1, 0.05, 0.333333, -0.0833, 12.5)] == [
        "0 %",
        "100 %",
        "5 %",
        "33.3333 %",
        "-8.33 %",
        "1250 %",
    ]


def test_a_verdict_says_what_serves_on() -> None:
    assert gate_title(_REFUSED, "v0001") == "Gate refused: v0001 serves on"
    assert gate_title(_REFUSED, None) == "Gate refused, and nothing is live; a first version compares with nothing"
    assert gate_title(Verdict(verdict="passed", checks=[]), "v0001") == "Gate passed"


def test_an_error_of_a_page_says_which_without_its_address() -> None:
    details = {
        "loop": "redirects in a circle, back to http://site.test/loop",
        "many": "more than 20 redirects",
        "odd": "http://site.test/x is odd",
        "bare": "",
    }
    failures = [
        FailedPage(url=f"http://site.test/{name}", reason="error", status=302, detail=detail)
        for name, detail in details.items()
    ]
    reasons = [
        "error (302): redirects in a circle",
        "error (302): more than 20 redirects",
        "error (302)",
        "error (302)",
    ]
    assert [reason for _, reason in lost_pages([CrawlOutcome(source="site", failures=failures)])] == reasons


def test_missing_pages_are_told_by_reason_with_examples() -> None:
    assert lost_rows([_SITE]) == [
        ("gone (404)", 5, "/", "http://site.test/0"),
        ("refused by robots", 1, "/", "http://site.test/secret"),
        ("timeout", 1, "/", "http://site.test/slow"),
        ("vanished", 1, "/", "http://site.test/v"),
    ]
    assert len(lost_pages([_SITE, _SITE])) == 16
    assert lost_rows([CrawlOutcome(source="all well")]) == []


def test_fifty_pages_are_a_line_by_folder() -> None:
    urls = [f"http://site.test/{folder}/{number}" for number in range(25) for folder in ("tours", "news")]
    failures = [FailedPage(url=url, reason="gone", status=404) for url in urls]
    assert lost_rows([CrawlOutcome(source="site", failures=failures)]) == [
        ("gone (404)", 50, "/news/ 25, /tours/ 25", "http://site.test/tours/0")
    ]


def test_a_crawl_that_was_cut_short_is_told_in_every_summary() -> None:
    cut = LimitReached(source="site", limit="pages", known_urls_not_fetched=1234, folders={"/tours/": 1230, "/": 4})
    report = RunReport(kb="kb", run_id="r", outcome="published", exit_code=0, version="v0001", limits_reached=[cut])
    line = "site cut short by limits.pages, 1,234 known URLs not fetched"
    assert (
        line in summary_line(report)
        and line in describe_run(report)
        and "cut short" not in summary_line(report.model_copy(update={"limits_reached": []}))
    )
    assert ("known URLs not fetched: site, limits.pages", 1234) in summary_rows(report)
    assert limit_rows([cut]) == [("site", "limits.pages", 1234, "/tours/ 1,230, / 4")]
    checks = [
        Check(name="complete", value=1234, limit="warn", ok=True),
        Check(name="complete", value=1234, limit=0, ok=False),
    ]
    assert [row[1:] for row in gate_rows(Verdict(verdict="refused", checks=checks))] == [
        ("1,234", "warn", "WARNING"),
        ("1,234", "0", "REFUSED"),
    ]


def test_duplicates_are_a_table_in_prefect_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[str, tuple[list[dict[str, Any]], str]] = {}
    monkeypatch.setattr(
        "almanac.flows.artifacts._table", lambda _kb, what, rows, caption: tables.update({what: (rows, caption)})
    )
    copy = Duplicate("pages", "http://site.test/b", "b", "equal", {"url": "http://site.test/a", "document_id": "a"})
    show_summary(
        RunReport(
            kb="kb", run_id="r", outcome="published", exit_code=0, items=ItemCounts(deduplicated=3), duplicates=[copy]
        )
    )
    rows, caption = tables["duplicates"]
    assert rows == [{"source": "pages", "dropped": "http://site.test/b", "equals": "http://site.test/a"}]
    assert caption == "Items that equal another one, and which: the first 1 of 3 (run r of kb)"


def test_counters_stand_one_a_row() -> None:
    report = RunReport(
        kb="kb",
        run_id="r",
        outcome="gate_refused",
        exit_code=4,
        seconds={"crawl": 1.26, "map": 0.5},
        items=ItemCounts(added=3),
    )
    summary = dict(summary_rows(report))
    assert (summary["outcome"], summary["version"], summary["items added"], summary["seconds crawl"]) == (
        "gate refused",
        None,
        3,
        1.3,
    )
    plan = PlanResult(
        kb="kb", outcome="unchanged", pages=PageCounts(unchanged=7), items=ItemCounts(unchanged=7), chunks_to_embed=0,
        tokens=0, cost=None,
        gate={"would_refuse": False, "checks": []},
    )  # fmt: skip
    assert dict(plan_rows(plan))["pages unchanged"] == 7
    assert "links of start pages not followed" not in dict(plan_rows(plan))
    left = plan.model_copy(
        update={"sources": [CrawlOutcome(source="s", unfollowed=2), CrawlOutcome(source="t", unfollowed=3)]}
    )
    assert dict(plan_rows(left))["links of start pages not followed"] == 5
    assert dict(plan_rows(plan))["gate"] == "would let it pass"
    times = {
        seconds: dict(plan_rows(plan.model_copy(update={"seconds": seconds}))).get("time of a run, about")
        for seconds in (None, 0.2, 59, 61, 3570, 9000)
    }
    assert list(times.values()) == [None, "1 s", "59 s", "1 min", "1 h 0 min", "2 h 30 min"]
    diff = DiffResult(
        kb="kb",
        since="v0001",
        to="v0002",
        items={"moved": 2},
        chunks={"kept": 5},
        stages=["chunker", "index"],
        changes=[],
    )
    assert dict(diff_rows(diff)) == {"items moved": 2, "chunks kept": 5, "stages that changed": "chunker, index"}
    assert as_records(("what", "value"), [("cost", None)]) == [{"what": "cost", "value": "–"}]


def test_rejects_as_a_table() -> None:
    reject = {
        "source": "s",
        "url": "http://x.test/1",
        "document_id": None,
        "stage": "map",
        "reason": "required field is missing",
        "field": "code",
        "value": None,
    }
    other = {**reject, "document_id": "C2", "field": "price", "value": {"amount": "1" * 100}}
    rows = reject_rows([reject, {**reject, "document_id": "http://x.test/1"}, other])
    assert rows[0] == rows[1] == ("http://x.test/1", "code", "required field is missing", None)
    assert rows[2][0] == "http://x.test/1 (C2)"
    assert str(rows[2][3]).startswith('{"amount":"111')
    assert len(str(rows[2][3])) == 81
