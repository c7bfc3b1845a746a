"""The publish gate: one verdict over a run's counts, against what is declared and what is live."""

from schemas.declaration import Declaration
from schemas.manifest import Check, Verdict
from schemas.reports import ItemCounts, PageCounts


def judge(declaration: Declaration, pages: PageCounts, items: ItemCounts, live_items: int | None) -> Verdict:
    """Every check with its value and limit. Shares of the live version are None where there is none: a first version compares with nothing."""
    gate, rules = declaration.gate, declaration.validate_
    kept = items.added + items.changed + items.moved + items.unchanged
    checks = [
        Check(name="min_items", value=kept, limit=rules.min_items, ok=kept >= rules.min_items),
        _at_most("max_rejected", items.quarantined, items.in_, rules.max_rejected),
        _at_most("max_failed", pages.failed, pages.fetched + pages.unchanged + pages.failed, gate.max_failed),
        _at_most("max_lost", items.removed, live_items, gate.max_lost),
        _at_most("max_added", items.added, live_items, gate.max_added),
    ]
    return Verdict(verdict="passed" if all(check.ok for check in checks) else "refused", checks=checks)


def _at_most(name: str, part: int, whole: int | None, limit: float | None) -> Check:
    """A share against its limit; either may be missing, and then nothing is refused."""
    share = None if whole is None else round(part / whole, 6) if whole else float(part > 0)
    return Check(name=name, value=share, limit=limit, ok=share is None or limit is None or share <= limit)
