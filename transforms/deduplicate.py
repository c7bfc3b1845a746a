"""One item once: the same item found twice is dropped and counted; two different items under one id are not both right."""

from collections.abc import Callable, Iterable, Iterator

from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.items import Item, Reject


class Deduplication:
    """Counts `duplicates` and gathers `rejects` while items go through `kept`; of each item it holds hashes and its URL."""

    def __init__(self, right_address: Callable[[Item], str | None] = lambda _: None) -> None:
        self.duplicates = 0
        self.rejects: list[Reject] = []
        self._right_address = right_address
        self._content: set[bytes] = set()
        self._urls: dict[tuple[str, str], str] = {}

    def kept(self, items: Iterable[Item]) -> Iterator[Item]:
        """The first of equal items, in order of arrival.

        Documents of one source are equal when their text is (a page under a second URL); records when their text and all their fields are. An
        item whose id another, different one of its source already has is quarantined: publishing either silently would be a guess. It is none
        where the item's page calls the other's the right one (`right_address`): then the other is kept.
        """
        for item in items:
            content = _content_of(item)
            key = (item.source, item.document_id)
            first = self._urls.get(key)
            if content in self._content or (first is not None and first == self._right_address(item)):
                self.duplicates += 1
            elif first is not None:
                reason = f"id is taken by another item, from {first}"
                self.rejects.append(Reject(item.source, item.url, item.document_id, "deduplicate", reason, "id", item.document_id, None))
            else:
                self._content.add(content)
                self._urls[key] = item.url
                yield item


def _content_of(item: Item) -> bytes:
    return bytes.fromhex(sha256(canonical_json([item.source, item.kind, item.text, item.fields if item.kind == "record" else None])))
