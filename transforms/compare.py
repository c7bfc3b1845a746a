"""This run's items against the live version's: what is new, what changed, and since when each text is known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schemas.items import ChunkRow, Item


class Known(NamedTuple):
    """What the live version says of one item."""

    content_sha256: str
    fetched_at: str


# Ids are unique within a source: two folders may both hold an index.md.
ItemKey = tuple[str, str]


@dataclass(slots=True)
class Comparison:
    items: list[Item] = field(default_factory=list)
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0


def compare_items(items: Iterable[Item], live: Mapping[ItemKey, Known]) -> Comparison:
    """Counts by source and document id. An unchanged item keeps the time at which its content was first seen."""
    result = Comparison()
    seen: set[ItemKey] = set()
    for item in items:
        key = (item.source, item.document_id)
        seen.add(key)
        known = live.get(key)
        if known is None:
            result.added += 1
        elif known.content_sha256 == item.content_sha256:
            result.unchanged += 1
            item = replace(item, fetched_at=known.fetched_at)
        else:
            result.changed += 1
        result.items.append(item)
    result.removed = sum(key not in seen for key in live)
    return result


def keep_first_seen(chunks: Iterable[ChunkRow], live: Mapping[str, str]) -> list[ChunkRow]:
    """Chunks of a changed document that did not change keep their time: `live` maps chunk ids to it."""
    return [replace(chunk, fetched_at=live.get(chunk.chunk_id, chunk.fetched_at)) for chunk in chunks]
