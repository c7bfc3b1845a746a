"""Compares this run's items with the live version's: added, changed, moved, unchanged and removed, and since when each content is known."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

# Ids are unique within a source: two folders may both hold an index.md.
ItemKey = tuple[str, str]
Change = Literal["added", "changed", "moved", "unchanged"]


class Brief(NamedTuple):
    """The columns of an item that a comparison needs. `fetched_at` is the time since when its content is known."""

    source: str
    document_id: str
    kind: str
    url: str
    content_sha256: str
    text_sha256: str
    fetched_at: str

    @property
    def key(self) -> ItemKey:
        return (self.source, self.document_id)


@dataclass(slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        changes: the change of each item, in the order of the items.
        before: what each item was in the live version; None if it is new. Same order.
        first_seen: since when each item's content is known. Same order.
        removed: live items that no longer exist.
        unchanged: keys of the unchanged items.
        rewritten: places, in the order of the items, of those that were in the live version with another text.
    """

    changes: list[Change] = field(default_factory=list)
    before: list[Brief | None] = field(default_factory=list)
    first_seen: list[str] = field(default_factory=list)
    removed: list[Brief] = field(default_factory=list)
    unchanged: frozenset[ItemKey] = frozenset()
    rewritten: list[int] = field(default_factory=list)

    def count(self, change: Change) -> int:
        """How many items have that change."""
        return self.changes.count(change)


def compare_items(items: Iterable[Brief], live: Iterable[Brief], led_to: Mapping[tuple[str, str], str] | None = None) -> Comparison:
    """Compares items by source and document id. Known content keeps the time at which it was first seen.

    An item whose id is new counts as moved from a live item of its source that is gone, if that item's page redirects to it (`led_to`: (source, old URL) →
    new URL) or both have the same text. An item with the id and text of a live one and another URL has moved too. Each live item moves once.
    """
    known = {item.key: item for item in live}
    found = list(items)
    keys = {item.key for item in found}
    gone = {key: item for key, item in known.items() if key not in keys}
    moved_from = _moves([item for item in found if item.key not in known], gone, led_to or {})
    result = Comparison()
    for item in found:
        before = known.get(item.key) or moved_from.get(item.key)
        same_text = before is not None and before.text_sha256 == item.text_sha256
        if before is not None and not same_text:
            result.rewritten.append(len(result.changes))
        result.changes.append(_change(item, before))
        result.before.append(before)
        result.first_seen.append(before.fetched_at if before is not None and same_text and result.changes[-1] != "changed" else item.fetched_at)
    result.unchanged = frozenset(item.key for item, change in zip(found, result.changes, strict=True) if change == "unchanged")
    left = {before.key for before in moved_from.values()}
    result.removed = [item for key, item in gone.items() if key not in left]
    return result


def _change(item: Brief, before: Brief | None) -> Change:
    if before is None:
        return "added"
    if before.content_sha256 == item.content_sha256:
        return "unchanged"
    if before.key != item.key or (before.url != item.url and before.text_sha256 == item.text_sha256):
        return "moved"
    return "changed"


def _moves(new: list[Brief], gone: Mapping[ItemKey, Brief], led_to: Mapping[tuple[str, str], str]) -> dict[ItemKey, Brief]:
    """New item → the live item that it was before; redirects with the same text come first, then other redirects, then any item of the same text."""
    by_redirect: dict[Any, list[Brief]] = defaultdict(list)
    by_text: dict[Any, list[Brief]] = defaultdict(list)
    for item in sorted(gone.values()):
        if (item.source, item.url) in led_to:
            by_redirect[item.source, item.kind, led_to[item.source, item.url]].append(item)
        by_text[item.source, item.kind, item.text_sha256].append(item)
    moves: dict[ItemKey, Brief] = {}
    taken: set[ItemKey] = set()
    for rule in ("redirect and text", "redirect", "text"):
        for item in sorted(new):
            if item.key in moves:
                continue
            waiting = by_text.get((item.source, item.kind, item.text_sha256), ())
            if rule != "text":
                waiting = by_redirect.get((item.source, item.kind, item.url), ())
            same_text = rule == "redirect and text"
            before = next((one for one in waiting if one.key not in taken and (not same_text or one.text_sha256 == item.text_sha256)), None)
            if before is not None:
                moves[item.key] = before
                taken.add(before.key)
    return moves
