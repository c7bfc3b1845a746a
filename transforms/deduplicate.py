"""De-duplication: drops equal items, says which item each equals, and quarantines different items that share an id."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from almanac.core.digests import digest_of_parts
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Duplicate, Item, Reject
from almanac.schemas.left_out import LeftOut

UNIQUE_ID = "id: unique"  # what is declared of an id by declaring one


class Deduplication:
    """Filters items through `keep_first`; meanwhile collects `duplicates` and `rejects`. Memory per item: two hashes of
    16 bytes in dictionaries, its id and URL.

    `right_address` returns the canonical URL that an item's page declares, or None. Items of different workspaces, by
    the metadata field `workspace`, are never equal: one tenant's copy is not to take the place of another's.
    """

    def __init__(
        self, right_address: Callable[[Item], str | None] = lambda _: None, workspace: str | None = None
    ) -> None:
        self.duplicates: list[Duplicate] = []
        self.rejects: list[Reject] = []
        self.left_out: dict[str, LeftOut] = {}  # by source, the texts of duplicates
        self._right_address, self._workspace = right_address, workspace
        self._by_content: dict[bytes, int] = {}  # number of the first item with that content
        self._by_key: dict[bytes, int] = {}  # and of the item with that source and id
        self._names = _Names()

    def keep_first(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yields the first of equal items, in order of arrival.

        Documents of one source are equal if their text is (a page under a second URL), records if their text and all
        fields are. An item whose id another, different item of its source already has is quarantined, because
        publishing either silently would be a guess. If its page declares the other's URL as canonical, it counts as a
        duplicate instead.
        """
        for item in items:
            content = _content_of(item, self._workspace)
            key = digest_of_parts([item.source, item.document_id])
            number = self._by_key.get(key)
            first = None if number is None else self._names[number][0]
            if (equal := self._by_content.get(content)) is not None:
                self.drop(item, "equal", *self._names[equal])
            elif first is not None and first == self._right_address(item):
                self.drop(item, "canonical", first, item.document_id)
            elif first is not None:
                reason = f"id is taken by another item, from {first}"
                breaks = {"id": UNIQUE_ID}
                self.rejects.append(
                    Reject(
                        item.source,
                        item.url,
                        item.document_id,
                        "deduplicate",
                        reason,
                        "id",
                        item.document_id,
                        None,
                        breaks,
                    )
                )
            else:
                self._by_content[content] = self._by_key[key] = self._names.add(item.url, item.document_id)
                yield item

    def drop(self, item: Item, reason: Literal["equal", "canonical"], url: str, document_id: str) -> None:
        """Notes an item as a duplicate of the one with that URL and id, which is kept."""
        self.left_out.setdefault(item.source, LeftOut()).add("duplicates", item.passage or item.text)
        self.duplicates.append(
            Duplicate(item.source, item.url, item.document_id, reason, {"url": url, "document_id": document_id})
        )


class _Names:
    """URLs and ids of items by number, as bytes one after the other."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])

    def add(self, url: str, document_id: str) -> int:
        """Takes in an item, and returns its number."""
        for name in (url, document_id):
            self._text += name.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._text))
        return len(self._ends) // 2 - 1

    def __getitem__(self, number: int) -> tuple[str, str]:
        begin, middle, end = self._ends[2 * number : 2 * number + 3]
        url, document_id = self._text[begin:middle], self._text[middle:end]
        return url.decode("utf-8", "surrogatepass"), document_id.decode("utf-8", "surrogatepass")


def _content_of(item: Item, workspace: str | None) -> bytes:
    belongs = [] if workspace is None else [item.metadata.get(workspace)]
    return digest_of_parts(
        [canonical_json([item.source, item.kind, item.text, item.fields if item.kind == "record" else None, *belongs])]
    )
