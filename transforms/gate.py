"""The publish gate: one verdict on a run, from its counts and the recall of its version, against declared limits and
the live version.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import floor, inf

from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration import Declaration
from almanac.schemas.manifest import Check, Verdict
from almanac.schemas.reports import ExpectationResult, ItemCounts, Recall

# Tolerance for floating point: a declared limit of 0.7 % is slightly below 7/1000.
_ROUNDING = 1e-9
_HALF = 0.5
# `gate.complete` → the limit of its check
_COMPLETE: dict[bool | str | None, int | str | None] = {True: 0, "warn": "warn", None: None}


def judge(
    declaration: Declaration,
    pages: PageCounts,
    items: ItemCounts,
    live_items: int | None,
    *,
    shrunk: int = 0,
    rewritten: int = 0,
    compared_with: str | None = None,
    incomparable: str | None = None,
    not_fetched: int = 0,
    broken_expectations: int | None = None,
    expectations: Sequence[Check] = (),
    recall: Recall | None = None,
    live_recall: Recall | None = None,
    unasked: str | None = None,
) -> Verdict:
    """All checks with value and limit, for a declaration always the same ones in the same order, and the verdict.

    A check whose value is None passes: shares of a live version that does not exist or is empty, recall without golden
    questions. Moved items count neither as removed nor as added. The limit of a check is the one that applied: of fewer
    than `gate.at_least` items or pages, see `_limit_among`.

    Args:
        live_items: number of items in the live version; None before the first one.
        shrunk: of the items that stayed (changed, moved or unchanged), those whose text fell below half of its length.
        rewritten: of the items that stayed, those whose text is another.
        compared_with: the version that is live; None before the first one.
        incomparable: why its items cannot be read. Then the gate refuses, unless no check compares.
        not_fetched: known URLs that limits kept crawls from; only informs, unless `gate.complete` is true.
        broken_expectations: number of declared expectations that some item broke; only informs, since the share of
            quarantined items is limited anyway.
        expectations: the checks of the declared rules, from `refusing`.
        recall: recall of the new version.
        live_recall: recall of the live version.
        unasked: why the live version could not be asked. Then the gate refuses where a drop is limited.
    """
    gate, rules = declaration.gate, declaration.validate_
    stayed = items.changed + items.moved + items.unchanged
    compared = None if live_items is None else stayed
    compares = any(limit is not None for limit in (gate.max_lost, gate.max_added, gate.max_shrunk, gate.max_changed))
    against = compared_with if incomparable is None else f"nothing: {incomparable}"
    recalled, recalled_live = (measured.recall if measured is not None else None for measured in (recall, live_recall))
    drop = None if recalled is None or recalled_live is None else round(recalled_live - recalled, 6)
    share = partial(_share_at_most, at_least=gate.at_least)
    checks = [
        _at_least("min_items", items.added + stayed, rules.min_items),
        share("max_rejected", items.quarantined, items.in_, rules.max_rejected),
        Check(name="expectations", value=broken_expectations, limit=None, ok=True),
        *expectations,
        Check(
            name="complete",
            value=not_fetched,
            limit=_COMPLETE[gate.complete],
            ok=gate.complete is not True or not not_fetched,
        ),
        share("max_failed", pages.failed, pages.present + pages.failed, gate.max_failed),
        Check(name="compared_with", value=against, limit=compared_with, ok=incomparable is None or not compares),
        share("max_lost", items.removed, live_items, gate.max_lost),
        share("max_added", items.added, live_items, gate.max_added, most=inf),
        share("max_shrunk", shrunk, compared, gate.max_shrunk),
        share("max_changed", rewritten, compared, gate.max_changed),
        _at_least("min_recall", recalled, gate.min_recall),
        _drop(drop, gate.max_recall_drop, unasked),
    ]
    return Verdict(verdict="passed" if all(check.ok for check in checks) else "refused", checks=checks)


def refusing(expectations: Sequence[ExpectationResult]) -> tuple[Check, ...]:
    """The gate's checks of declared rules: of each that refuses, and of each that could not be judged and does not only
    warn.

    A check is named for its rule, and for its source where several have one of that name.
    """
    meant = [
        expectation
        for expectation in expectations
        if expectation.severity == "refuse" or (expectation.severity == "quarantine" and expectation.error is not None)
    ]
    names = Counter(rule.name for rule in meant)
    named = (
        (rule, rule.name if names[rule.name] == 1 or not rule.source else f"{rule.name} ({rule.source})")
        for rule in meant
    )
    return tuple(Check(name=name, value=rule.value, limit=rule.limit, ok=rule.ok) for rule, name in named)


def _share_at_most(
    name: str, part: int, whole: int | None, limit: float | None, *, at_least: int, most: float = _HALF
) -> Check:
    share = round(part / whole, 6) if whole else 0.0 if whole == part == 0 else None
    return _at_most(name, share, limit if limit is None or not whole else _limit_among(whole, limit, at_least, most))


def _limit_among(whole: int, limit: float, at_least: int, most: float) -> float:
    """The limit of a share of so many items or pages.

    Of a handful, one is a large share. So of fewer than `at_least`, as many may be hit as the limit allows of that
    number, but no more than `most` of them: 10 % of 20 are two, and of three items one. A limit of 0 stays 0.
    """
    if whole >= at_least:
        return limit
    allowed = floor(min(limit * at_least + _ROUNDING, most * whole))
    return max(limit, round(allowed / whole, 6))


def _at_most(name: str, value: float | None, limit: float | None) -> Check:
    return Check(name=name, value=value, limit=limit, ok=value is None or limit is None or value <= limit + _ROUNDING)


def _drop(drop: float | None, limit: float | None, unasked: str | None) -> Check:
    if limit is None or unasked is None:
        return _at_most("max_recall_drop", drop, limit)
    return Check(name="max_recall_drop", value=f"not measured: {unasked}", limit=limit, ok=False)


def _at_least(name: str, value: float | None, limit: float | None) -> Check:
    return Check(name=name, value=value, limit=limit, ok=value is None or limit is None or value >= limit - _ROUNDING)
