"""Compares this run's items with the live version's: added, changed, moved, unchanged and removed, and since when each
content is known.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import Digests, DigestSet, RowNumbers, SortedDigests, as_digests, digest_of_parts, digests_of
from almanac.core.tables import Batches

# Ids are unique within a source: two folders may both hold an index.md.
ItemKey = tuple[str, str]
Change = Literal["added", "changed", "moved", "unchanged"]
CHANGES: tuple[Change, ...] = ("added", "changed", "moved", "unchanged")
_ADDED, _CHANGED, _MOVED, _UNCHANGED = range(4)
_KEY = 16  # bytes of an item's key as a hash


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


class Briefs:
    """Items in order, of each what a comparison needs: some 80 bytes besides id, URL and the names of source and
    kind.
    """

    def __init__(self, batches: Iterable[pa.Table]) -> None:
        """`batches` have the columns of `Brief`."""
        keys, contents, texts = [np.empty(0, dtype=f"S{_KEY}")], [digests_of([])], [digests_of([])]
        tables = [pa.table({name: pa.array([], pa.large_string()) for name in _TEXTS})]
        for batch in batches:
            keys.append(item_keys(batch))
            contents.append(digests_of(batch.column("content_sha256")))
            texts.append(digests_of(batch.column("text_sha256")))
            tables.append(batch.select(_TEXTS).cast(tables[0].schema))
        self.keys: Digests = np.concatenate(keys)
        self.contents: Digests = np.concatenate(contents)
        self.texts: Digests = np.concatenate(texts)
        self._columns = {name: pa.concat_tables(tables).column(name).combine_chunks() for name in _TEXTS}

    @classmethod
    def read(cls, batches: Batches, without: Collection[int] = ()) -> Self:
        """Reads the items of tables, except those whose row number is in `without`."""
        return cls(_without(batches(Brief._fields), without))

    @classmethod
    def from_briefs(cls, items: Iterable[Brief]) -> Self:
        """Takes the items one by one."""
        return cls(
            [
                pa.Table.from_pylist(
                    [item._asdict() for item in items],
                    schema=pa.schema([(name, pa.string()) for name in Brief._fields]),
                )
            ]
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> Brief:
        texts = {name: self._columns[name][row].as_py() for name in _TEXTS}
        return Brief(
            **texts,
            content_sha256=self.contents[row : row + 1].tobytes().hex(),
            text_sha256=self.texts[row : row + 1].tobytes().hex(),
        )

    def column(self, name: str) -> pa.LargeStringArray:
        """One of the columns source, document_id, kind, url and fetched_at."""
        return self._columns[name]


_TEXTS = [name for name in Brief._fields if not name.endswith("_sha256")]


@dataclass(slots=True)
class Comparison:
    """The result of a comparison. Rows are those of the items, and of the live version's items.

    Attributes:
        changes: the change of each item, as its place in `CHANGES`.
        before: the live row of what each item was; -1 if it is new.
        first_seen: since when each item's content is known.
        removed: live rows of items that no longer exist.
        unchanged: keys of the unchanged items, as hashes.
        rewritten: rows of the items that were in the live version with another text.
    """

    changes: npt.NDArray[np.int8]
    before: RowNumbers
    first_seen: pa.LargeStringArray
    removed: RowNumbers
    unchanged: DigestSet
    rewritten: RowNumbers

    def count(self, change: Change) -> int:
        """How many items have that change."""
        return int((self.changes == CHANGES.index(change)).sum())


def item_keys(batch: pa.Table) -> Digests:
    """Hashes of `source` and `document_id` of each row, S16 (n,). Rows of one item are adjacent, as its chunks are."""
    keys: list[bytes] = []
    last: ItemKey | None = None
    for pair in zip(batch.column("source").to_pylist(), batch.column("document_id").to_pylist(), strict=True):
        keys.append(keys[-1] if pair == last else digest_of_parts(pair, _KEY))
        last = pair
    return as_digests(keys, _KEY)


def compare_items(items: Briefs, live: Briefs, led_to: Mapping[tuple[str, str], str] | None = None) -> Comparison:
    """Compares items by source and document id. Known content keeps the time at which it was first seen.

    An item whose id is new counts as moved from a live item of its source that is gone, if that item's page redirects
    to it (`led_to`: (source, old URL) → new URL) or both have the same text. An item with the id and text of a live one
    and another URL has moved too. Each live item moves once.
    """
    before = SortedDigests(live.keys).find(items.keys)
    is_gone = np.ones(len(live), dtype=np.bool_)
    is_gone[before[before >= 0]] = False
    moves = _moves(items, np.flatnonzero(before < 0), live, np.flatnonzero(is_gone), led_to or {})
    has_moved = np.zeros(len(items), dtype=np.bool_)
    for row, place in moves.items():
        before[row], has_moved[row] = place, True
        is_gone[place] = False
    was = before >= 0
    same_content, same_text = (
        _equal(ours, theirs, before) for ours, theirs in ((items.contents, live.contents), (items.texts, live.texts))
    )
    changes = np.full(len(items), _ADDED, dtype=np.int8)
    changes[was] = _CHANGED
    changes[has_moved] = _MOVED
    edited = np.flatnonzero(was & same_text & ~same_content)
    elsewhere = pc.not_equal(
        items.column("url").take(pa.array(edited)), live.column("url").take(pa.array(before[edited]))
    )
    changes[edited[elsewhere.to_numpy(zero_copy_only=False)]] = _MOVED
    changes[same_content] = _UNCHANGED
    is_known = was & same_text & (changes != _CHANGED)
    since = live.column("fetched_at").take(pa.array(before[is_known]))
    # another release may not have noted it
    since = pc.if_else(pc.equal(since, ""), items.column("fetched_at").filter(pa.array(is_known)), since)
    return Comparison(
        changes=changes,
        before=before,
        first_seen=pc.replace_with_mask(items.column("fetched_at"), pa.array(is_known), since),
        removed=np.flatnonzero(is_gone),
        unchanged=DigestSet(items.keys[changes == _UNCHANGED]),
        rewritten=np.flatnonzero(was & ~same_text & ~same_content),
    )


def _equal(ours: Digests, theirs: Digests, places: RowNumbers) -> npt.NDArray[np.bool_]:
    """Whether each of our digests is the one at its place in theirs; not where the place is -1."""
    is_equal = places >= 0
    is_equal[is_equal] = ours[is_equal] == theirs[places[is_equal]]
    return is_equal


def _moves(
    items: Briefs, new: RowNumbers, live: Briefs, gone: RowNumbers, led_to: Mapping[tuple[str, str], str]
) -> dict[int, int]:
    """Row of a new item → row of the live item that it was before; redirects with the same text come first, then other
    redirects, then any of the same text.

    Only those are looked at one by one that have a text, or a redirect, in common.
    """
    to = {(source, url) for (source, _), url in led_to.items()}
    new = new[DigestSet(live.texts[gone]).has(items.texts[new]) | _is_at(items, new, to)]
    gone = gone[DigestSet(items.texts[new]).has(live.texts[gone]) | _is_at(live, gone, led_to)]
    by_redirect: dict[Any, list[tuple[Brief, int]]] = defaultdict(list)
    by_text: dict[Any, list[tuple[Brief, int]]] = defaultdict(list)
    for item, row in sorted((live[row], row) for row in gone.tolist()):
        if (item.source, item.url) in led_to:
            by_redirect[item.source, item.kind, led_to[item.source, item.url]].append((item, row))
        by_text[item.source, item.kind, item.text_sha256].append((item, row))
    waiting = sorted((items[row], row) for row in new.tolist())
    moves: dict[int, int] = {}
    taken: set[int] = set()
    for rule in ("redirect and text", "redirect", "text"):
        for item, row in waiting:
            if row in moves:
                continue
            there = by_text.get((item.source, item.kind, item.text_sha256), ())
            if rule != "text":
                there = by_redirect.get((item.source, item.kind, item.url), ())
            same_text = rule == "redirect and text"
            before = next(
                (
                    place
                    for old_item, place in there
                    if place not in taken and (not same_text or old_item.text_sha256 == item.text_sha256)
                ),
                None,
            )
            if before is not None:
                moves[row] = before
                taken.add(before)
    return moves


def _is_at(items: Briefs, rows: RowNumbers, addresses: Collection[tuple[str, str]]) -> npt.NDArray[np.bool_]:
    """Whether source and URL of these rows are among `addresses`."""
    if not addresses:
        return np.zeros(len(rows), dtype=np.bool_)
    columns = (items.column(name).take(pa.array(rows)).to_pylist() for name in ("source", "url"))
    return np.array([pair in addresses for pair in zip(*columns, strict=True)], dtype=np.bool_)


def _without(batches: Iterable[pa.Table], without: Collection[int]) -> Iterable[pa.Table]:
    left_out, begin = np.array(sorted(without), dtype=np.int64), 0
    for batch in batches:
        numbers = np.arange(begin, begin + len(batch))
        begin += len(batch)
        yield batch if not len(left_out) else batch.filter(pa.array(~np.isin(numbers, left_out)))
