"""The publish gate: one verdict, the same checks in the same order, and nothing to compare with is no reason to
refuse.
"""

from typing import Any

import pytest

from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration import Declaration
from almanac.schemas.manifest import Check, Verdict
from almanac.schemas.reports import ItemCounts, Recall
from almanac.transforms.gate import judge

_NAMES = [
    "min_items",
    "max_rejected",
    "expectations",
    "complete",
    "max_failed",
    "compared_with",
    "max_lost",
    "max_added",
    "max_shrunk",
    "max_changed",
]
_NAMES += ["min_recall", "max_recall_drop"]
_PAGES = PageCounts(fetched=100)


def _declared(**gate: Any) -> Declaration:
    return Declaration.model_validate(
        {"name": "kb", "sources": [{"name": "s", "kind": "files", "glob": "*.md"}], "gate": gate}
    )


def _items(**counts: int) -> ItemCounts:
    arrived = sum(
        counts.get(name, 0) for name in ("added", "changed", "moved", "unchanged", "deduplicated", "quarantined")
    )
    return ItemCounts.model_validate({"in": arrived, **counts})


def _check(verdict: Verdict, name: str) -> Check:
    return next(check for check in verdict.checks if check.name == name)


def test_a_first_version_compares_with_nothing() -> None:
    verdict = judge(_declared(max_added="1%"), _PAGES, _items(added=100), None)
    assert verdict.verdict == "passed"
    assert [(check.name, check.value) for check in verdict.checks] == list(
        zip(_NAMES, [100, 0.0, None, 0, 0.0, None, None, None, None, None, None, None], strict=True)
    )


@pytest.mark.parametrize(
    ("off", "verdict"),
    [({}, "refused"), ({"max_shrunk": None}, "refused"), ({"max_lost": None, "max_shrunk": None}, "passed")],
)
def test_a_live_version_that_cannot_be_read_refuses_what_would_be_compared(off: dict[str, Any], verdict: str) -> None:
    judged = judge(
        _declared(**off), _PAGES, _items(added=50), None, compared_with="v0007", incomparable="its tables are gone"
    )
    check = _check(judged, "compared_with")
    assert (judged.verdict, check.value, check.limit) == (verdict, "nothing: its tables are gone", "v0007")
    assert check.ok == (verdict == "passed")


@pytest.mark.parametrize(("limit", "ok"), [(0.05, False), (None, True)])
def test_a_live_version_that_cannot_be_asked_refuses_where_a_fall_is_limited(limit: float | None, ok: bool) -> None:
    recall = Recall(recall=1.0, questions=4)
    judged = judge(
        _declared(golden="g", max_recall_drop=limit),
        _PAGES,
        _items(unchanged=10),
        10,
        recall=recall,
        unasked="it has format 8",
    )
    assert _check(judged, "max_recall_drop").ok == ok


@pytest.mark.parametrize(
    ("name", "gate", "pages", "items", "value", "ok"),
    [
        ("max_failed", {"max_failed": "5%"}, {"fetched": 95, "failed": 5}, {"unchanged": 100}, 0.05, True),
        ("max_failed", {"max_failed": "5%"}, {"fetched": 94, "failed": 6}, {"unchanged": 100}, 0.06, False),
        ("max_failed", {"max_failed": "5%"}, {"unchanged": 19, "failed": 1}, {"unchanged": 100}, 0.05, True),
        ("max_failed", {"max_failed": None}, {"failed": 9, "fetched": 1}, {"unchanged": 100}, 0.9, True),
        ("max_lost", {}, {"fetched": 1}, {"unchanged": 70, "removed": 30}, 0.3, False),
        ("max_lost", {"max_lost": "30%"}, {"fetched": 1}, {"unchanged": 70, "removed": 30}, 0.3, True),
        ("max_lost", {"max_lost": "0.7%"}, {"fetched": 1}, {"unchanged": 993, "removed": 7}, 0.07, False),
        ("max_added", {"max_added": "10%"}, {"fetched": 1}, {"unchanged": 100, "added": 11}, 0.11, False),
        ("max_added", {"max_added": 1}, {"fetched": 1}, {"unchanged": 100, "added": 100}, 1.0, True),
        ("max_added", {}, {"fetched": 1}, {"unchanged": 100, "added": 200}, 2.0, True),
        ("max_rejected", {}, {"fetched": 1}, {"unchanged": 95, "quarantined": 5}, 0.05, True),
        ("max_rejected", {}, {"fetched": 1}, {"unchanged": 94, "quarantined": 6}, 0.06, False),
        ("min_items", {}, {"fetched": 1}, {"quarantined": 0}, 0, False),
    ],
)  # fmt: skip
def test_shares_are_held_against_their_limits(
    name: str, gate: dict[str, Any], pages: dict[str, int], items: dict[str, int], value: float, ok: bool
) -> None:
    verdict = judge(_declared(**gate), PageCounts(**pages), _items(**items), 100)
    check = _check(verdict, name)
    assert (check.value, check.ok) == (value, ok)
    assert ok or verdict.verdict == "refused"


@pytest.mark.parametrize(
    ("gate", "texts", "values", "refused"),
    [
        ({}, {"shrunk": 9, "rewritten": 50}, (0.1, 0.555556), []),
        ({}, {"shrunk": 10, "rewritten": 10}, (0.111111, 0.111111), ["max_shrunk"]),
        ({"max_shrunk": None}, {"shrunk": 90, "rewritten": 90}, (1.0, 1.0), []),
        (
            {"max_shrunk": "20%", "max_changed": "50%"},
            {"shrunk": 18, "rewritten": 46},
            (0.2, 0.511111),
            ["max_changed"],
        ),
    ],
)
def test_texts_that_shrank_or_changed_are_a_share_of_the_items_that_stayed(
    gate: dict[str, Any], texts: dict[str, Any], values: tuple[float, float], refused: list[str]
) -> None:
    """Neither of those that are new nor of those that are gone."""
    verdict = judge(
        _declared(max_lost=None, **gate),
        _PAGES,
        _items(added=500, changed=60, moved=10, unchanged=20, removed=30),
        120,
        shrunk=texts["shrunk"],
        rewritten=texts["rewritten"],
    )
    assert (_check(verdict, "max_shrunk").value, _check(verdict, "max_changed").value) == values
    assert [check.name for check in verdict.checks if not check.ok] == refused


@pytest.mark.parametrize(
    ("live", "lost", "gate", "limit", "ok"),
    [
        (1, 1, {}, 0.1, False),  # all that there was
        (2, 1, {}, 0.5, True),
        (3, 1, {}, 0.333333, True),
        (3, 2, {}, 0.333333, False),  # more than half
        (3, 3, {}, 0.333333, False),
        (5, 2, {}, 0.4, True),
        (15, 2, {}, 0.133333, True),  # as many as of 20
        (15, 3, {}, 0.133333, False),
        (15, 12, {}, 0.133333, False),
        (19, 2, {}, 0.105263, True),
        (20, 2, {}, 0.1, True),
        (20, 3, {}, 0.1, False),
        (3, 1, {"max_lost": 0}, 0, False),  # nothing may go
        (3, 1, {"max_lost": "1%"}, 0.01, False),
        (3, 2, {"max_lost": "70%"}, 0.7, True),  # the share itself holds
        (3, 1, {"at_least": 1}, 0.1, False),
        (60, 9, {"at_least": 100}, 0.166667, True),
        (60, 11, {"at_least": 100}, 0.166667, False),
    ],
)
def test_of_few_items_a_share_is_a_number_of_them(
    live: int, lost: int, gate: dict[str, Any], limit: float, ok: bool
) -> None:
    """What it allows of `at_least` items, and of half of them at most; so there is no step at that number."""
    verdict = judge(_declared(**gate), _PAGES, _items(added=lost, unchanged=live - lost, removed=lost), live)
    check = _check(verdict, "max_lost")
    assert (check.limit, check.ok, verdict.verdict) == (limit, ok, "passed" if ok else "refused")


@pytest.mark.parametrize("hit", [0, 1, 2, 3])
def test_all_shares_of_few_are_numbers(hit: int) -> None:
    """By 5 % one of 20, by 10 % two; of three, half of them is one."""
    declared = _declared(max_changed="10%", max_added="10%")
    counts = _items(changed=hit, unchanged=3 - hit, added=hit, quarantined=hit)
    verdict = judge(declared, PageCounts(fetched=3 - hit, failed=hit), counts, 3, shrunk=hit, rewritten=hit)
    few = {"max_failed", "max_shrunk", "max_changed"}
    refused = {0: set(), 1: set(), 2: few | {"max_rejected"}, 3: few | {"max_rejected", "max_added"}}[hit]
    assert {check.name for check in verdict.checks if not check.ok} == refused


def test_a_share_just_at_its_limit_passes_however_it_is_written() -> None:
    """0.7 % as declared is a hair below 7/1000."""
    assert _check(judge(_declared(max_lost="0.7%"), _PAGES, _items(unchanged=993, removed=7), 1000), "max_lost").ok
    assert not _check(judge(_declared(max_lost="0.7%"), _PAGES, _items(unchanged=992, removed=8), 1000), "max_lost").ok


def test_what_moved_is_neither_lost_nor_added() -> None:
    verdict = judge(_declared(max_added="1%", max_lost="1%"), _PAGES, _items(moved=50, unchanged=50), 100)
    assert verdict.verdict == "passed"
    assert (_check(verdict, "max_lost").value, _check(verdict, "max_added").value) == (0.0, 0.0)


def test_a_live_version_without_items_refuses_nobody_who_comes() -> None:
    verdict = judge(_declared(max_added="10%"), _PAGES, _items(added=5), 0)
    assert (verdict.verdict, _check(verdict, "max_lost").value, _check(verdict, "max_added").value) == (
        "passed",
        0.0,
        None,
    )


def test_broken_expectations_inform_and_do_not_refuse() -> None:
    check = _check(judge(_declared(), _PAGES, _items(added=100), None, broken_expectations=3), "expectations")
    assert (check.value, check.limit, check.ok) == (3, None, True)


@pytest.mark.parametrize(
    ("declared", "not_fetched", "limit", "ok", "warns"),
    [
        ({}, 0, "warn", True, False),
        ({}, 44, "warn", True, True),
        ({"complete": "warn"}, 44, "warn", True, True),
        ({"complete": True}, 0, 0, True, False),
        ({"complete": True}, 1, 0, False, False),
        ({"complete": None}, 44, None, True, False),
    ],
)
def test_a_crawl_that_was_cut_short(
    declared: dict[str, Any], not_fetched: int, limit: Any, ok: bool, warns: bool
) -> None:
    verdict = judge(_declared(**declared), _PAGES, _items(added=100), None, not_fetched=not_fetched)
    check = _check(verdict, "complete")
    assert (check.value, check.limit, check.ok, check.warns, verdict.verdict) == (
        not_fetched,
        limit,
        ok,
        warns,
        "passed" if ok else "refused",
    )


@pytest.mark.parametrize(
    ("new", "live", "gate", "value", "drop", "refused"),
    [
        (0.9, None, {"min_recall": 0.9}, 0.9, None, []),
        (0.8, None, {"min_recall": 0.9}, 0.8, None, ["min_recall"]),
        (0.8, 0.9, {"max_recall_drop": 0.05}, 0.8, 0.1, ["max_recall_drop"]),
        (0.85, 0.9, {"max_recall_drop": 0.05}, 0.85, 0.05, []),
        (1.0, 0.9, {"max_recall_drop": 0, "min_recall": "100%"}, 1.0, -0.1, []),
        (0.1, 0.9, {}, 0.1, 0.8, []),
        (0.8, 1.0, {"max_recall_drop": 0.1, "min_recall": 0.9}, 0.8, 0.2, ["min_recall", "max_recall_drop"]),
    ],
)
def test_recall_and_its_drop(
    new: float, live: float | None, gate: dict[str, Any], value: float, drop: float | None, refused: list[str]
) -> None:
    declared = _declared(golden="kb.golden.jsonl", **gate)
    recall, live_recall = Recall(recall=new, questions=10), None if live is None else Recall(recall=live, questions=10)
    verdict = judge(declared, _PAGES, _items(unchanged=100), 100, recall=recall, live_recall=live_recall)
    assert (_check(verdict, "min_recall").value, _check(verdict, "max_recall_drop").value) == (value, drop)
    assert [check.name for check in verdict.checks if not check.ok] == refused


def test_questions_that_nothing_answers_are_no_recall() -> None:
    nothing = Recall(recall=None, unanswerable=3, abstained=1)
    verdict = judge(
        _declared(golden="g", min_recall=1, max_recall_drop=0),
        _PAGES,
        _items(unchanged=100),
        100,
        recall=nothing,
        live_recall=nothing,
    )
    assert (verdict.verdict, _check(verdict, "min_recall").value, _check(verdict, "max_recall_drop").value) == (
        "passed",
        None,
        None,
    )
