"""The Parquet tables under `data/processed` and in each version: their columns, and items in and out of them.

Nested values (`fields`, `metadata`) are canonical JSON in one text column: their shape is the declaration's, not ours.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.durable import write_file
from schemas.errors import DamagedVersion
from schemas.items import ChunkRow, Item, canonical_json, sha256

RECORDS = "records.parquet"
DOCUMENTS = "documents.parquet"
CHUNKS = "chunks.parquet"

_TEXT = pa.string()
_ITEM_COLUMNS = (
    "source", "kind", "document_id", "url", "title", "text", "fields", "metadata", "raw_sha256", "content_sha256", "text_sha256", "fetched_at",
)  # fmt: skip
ITEM_SCHEMA = pa.schema([(name, _TEXT) for name in _ITEM_COLUMNS])
CHUNK_SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("chunk_id", "document_id", "source", "url", "title", "kind")),
        ("ordinal", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        *((name, _TEXT) for name in ("text", "embedded_text", "text_sha256", "metadata", "fetched_at")),
    ]
)


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a Parquet file, whole or not at all."""
    write_file(path, lambda file: pq.write_table(table, file, compression="zstd"))


def read_table(path: Path, columns: list[str]) -> pa.Table:
    """Columns of a table of a version. Raises DamagedVersion where it is missing or cannot be read."""
    try:
        return pq.read_table(path, columns=columns)
    except (pa.ArrowException, FileNotFoundError, KeyError) as error:
        hint = "almanac verify says what is wrong; almanac rollback publishes an older version; almanac run builds a new one"
        raise DamagedVersion(f"the table cannot be read: {error}", where=str(path), hint=hint) from error


def items_table(items: Iterable[Item]) -> pa.Table:
    rows = [
        {
            "source": i.source, "kind": i.kind, "document_id": i.document_id, "url": i.url, "title": i.title, "text": i.text,
            "fields": canonical_json(i.fields), "metadata": canonical_json(i.metadata),
            "raw_sha256": i.raw_sha256, "content_sha256": i.content_sha256, "text_sha256": sha256(i.text),
            "fetched_at": i.fetched_at,
        }
        for i in items
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ITEM_SCHEMA)


def chunks_table(chunks: Iterable[ChunkRow]) -> pa.Table:
    rows = [
        {
            "chunk_id": c.chunk_id, "document_id": c.document_id, "source": c.source, "url": c.url, "title": c.title, "kind": c.kind,
            "ordinal": c.ordinal, "start": c.start, "end": c.end, "text": c.text, "embedded_text": c.embedded_text,
            "text_sha256": c.text_sha256, "metadata": canonical_json(c.metadata), "fetched_at": c.fetched_at,
        }
        for c in chunks
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=CHUNK_SCHEMA)
