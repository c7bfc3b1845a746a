"""The documents and records of a version, as they are listed."""

from collections.abc import Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from almanac.index.chunk_set import ChunkSet
from almanac.index.reader import OpenVersion
from almanac.schemas.results import ListedDocument


def table_of_documents(opened: OpenVersion, visible: ChunkSet | None) -> pa.Table:
    """One row for each document or record with a visible chunk, by source and title: `source` (its URL, else its id),
    `title`, `chunks`. None sees all.
    """
    found = opened.table(("source", "document_id", "url", "title"), visible)
    found = found.group_by(["source", "document_id"], use_threads=False).aggregate(
        [("url", "first"), ("title", "first"), ([], "count_all")]
    )
    is_without_url = pc.equal(pc.fill_null(found["url_first"], ""), "")
    listed = {
        "source": pc.if_else(is_without_url, found["document_id"], found["url_first"]),
        "title": found["title_first"],
        "chunks": found["count_all"],
    }
    return pa.table(listed).sort_by([("source", "ascending"), ("title", "ascending")])


class ListedDocuments(Sequence[ListedDocument]):
    """Documents in a list, of which each is made when it is asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, place: int) -> ListedDocument: ...
    @overload
    def __getitem__(self, place: slice) -> list[ListedDocument]: ...
    def __getitem__(self, place: int | slice) -> ListedDocument | list[ListedDocument]:
        places = range(len(self))[place]
        rows = self._table.take(pa.array([places] if isinstance(places, int) else places, pa.int64())).to_pylist()
        found = [ListedDocument(**row) for row in rows]
        return found[0] if isinstance(places, int) else found
