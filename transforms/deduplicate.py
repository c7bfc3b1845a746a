"""One item once: the same item found twice is dropped and counted; two different items under one id are not both right."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from schemas.items import Item, Reject, canonical_json, sha256


@dataclass(slots=True)
class Deduplicated:
    items: list[Item] = field(default_factory=list)
    duplicates: int = 0
    rejects: list[Reject] = field(default_factory=list)


def deduplicate(items: Iterable[Item], right_address: Callable[[Item], str | None] = lambda _: None) -> Deduplicated:
    """Keeps the first of equal items, in order of arrival.

    Documents of one source are equal when their text is (a page under a second URL); records when their text and all their fields are. An item
    whose id another, different one of its source already has is quarantined: publishing either silently would be a guess. It is none where the
    item's page calls the other's the right one (`right_address`): then the other is kept.
    """
    result = Deduplicated()
    seen_content: set[str] = set()
    seen_ids: dict[tuple[str, str], Item] = {}
    for item in items:
        content = sha256(canonical_json([item.source, item.kind, item.text, item.fields if item.kind == "record" else None]))
        first = seen_ids.get((item.source, item.document_id))
        if content in seen_content or (first is not None and first.url == right_address(item)):
            result.duplicates += 1
        elif first is not None:
            reason = f"id is taken by another item, from {first.url}"
            result.rejects.append(Reject(item.source, item.url, item.document_id, "deduplicate", reason, "id", item.document_id, None))
        else:
            seen_content.add(content)
            seen_ids[item.source, item.document_id] = item
            result.items.append(item)
    return result
