"""De-duplication: drops equal items, says which item each equals, and quarantines different items that share an id."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.items import Duplicate, Item, Reject

UNIQUE_ID = "id: unique"  # what is declared of an id by declaring one


class Deduplication:
    """Filters items through `kept`; meanwhile collects `duplicates` and `rejects`. Memory per item: its hash, key and URL.

    `right_address` returns the canonical URL that an item's page declares, or None.
    """

    def __init__(self, right_address: Callable[[Item], str | None] = lambda _: None) -> None:
        self.duplicates: list[Duplicate] = []
        self.rejects: list[Reject] = []
        self._right_address = right_address
        self._keys: dict[bytes, tuple[str, str]] = {}  # by content
        self._urls: dict[tuple[str, str], str] = {}

    def kept(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yields the first of equal items, in order of arrival.

        Documents of one source are equal if their text is (a page under a second URL), records if their text and all fields are. An item whose id another,
        different item of its source already has is quarantined, because publishing either silently would be a guess. If its page declares the
        other's URL as canonical, it counts as a duplicate instead.
        """
        for item in items:
            content = _content_of(item)
            key = (item.source, item.document_id)
            first = self._urls.get(key)
            if (equal := self._keys.get(content)) is not None:
                self.drop(item, "equal", self._urls[equal], equal[1])
            elif first is not None and first == self._right_address(item):
                self.drop(item, "canonical", first, key[1])
            elif first is not None:
                reason = f"id is taken by another item, from {first}"
                breaks = {"id": UNIQUE_ID}
                self.rejects.append(Reject(item.source, item.url, item.document_id, "deduplicate", reason, "id", item.document_id, None, breaks))
            else:
                self._keys[content] = key
                self._urls[key] = item.url
                yield item

    def drop(self, item: Item, reason: Literal["equal", "canonical"], url: str, document_id: str) -> None:
        """Notes an item as a duplicate of the one with that URL and id, which is kept."""
        self.duplicates.append(Duplicate(item.source, item.url, item.document_id, reason, {"url": url, "document_id": document_id}))


def _content_of(item: Item) -> bytes:
    return bytes.fromhex(sha256(canonical_json([item.source, item.kind, item.text, item.fields if item.kind == "record" else None])))
