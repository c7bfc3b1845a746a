"""Tables of a version in formats that other tools read."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.durable import write_file
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.index.segments.version_tables import VersionTables
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.version_store import read_manifest, version_dir
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import canonical_json

What = Literal["chunks", "documents", "records", "vectors"]
Format = Literal["jsonl", "csv", "parquet"]
Rows = Iterator[dict[str, Any]]
_CHUNK_COLUMNS = (
    "chunk_id", "document_id", "source", "url", "title", "kind", "ordinal", "start", "end", "text", "passage",
    "embedded_text", "text_sha256", "metadata",
    "fetched_at",
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# What spreadsheets read as the start of a formula (OWASP, CSV Injection), also in the full width that East Asian ones
# take for it, and behind a line break.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_DOCUMENT_COLUMNS = ("document_id", "source", "url", "title", "text", "raw_sha256")


def export_table(
    declaration: Declaration,
    data: DataDir,
    version: str,
    what: What,
    file_format: Format,
    out: Path | None,
    *,
    spreadsheet_safe: bool = False,
) -> None:
    """Writes to `out`, or to stdout: a batch of rows at a time for JSONL and CSV. With `spreadsheet_safe`, no text of a
    CSV is a formula.
    """
    if file_format == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError(
            "Parquet is not for a terminal",
            where="--format parquet",
            hint="name a file with --out FILE, or redirect stdout",
        )
    columns, rows = _rows(declaration, data, version, what)
    write_csv = partial(_write_csv, cell=_inert if spreadsheet_safe else _exact)
    writers: dict[Format, Callable[[IO[bytes], list[str], Rows], None]] = {
        "jsonl": _write_jsonl,
        "csv": write_csv,
        "parquet": _write_parquet,
    }
    writer = writers[file_format]
    if out is not None and out.is_dir():
        raise UsageError("is a folder", where=str(out), hint="--out names the file to write")
    if out is None:
        writer(sys.stdout.buffer, columns, rows)
        sys.stdout.buffer.flush()
    else:
        write_file(out.resolve(), lambda file: writer(file, columns, rows), is_for_user=True)


def _rows(declaration: Declaration, data: DataDir, version: str, what: What) -> tuple[list[str], Rows]:
    index_dir = data.index(declaration.name)
    manifest = read_manifest(index_dir, version)
    tables = VersionTables.in_folder(version_dir(index_dir, version), manifest)
    if what == "chunks":
        return list(_CHUNK_COLUMNS), _read(tables, CHUNKS, _CHUNK_COLUMNS)
    if what == "documents":
        return list(_DOCUMENT_COLUMNS), _read(tables, DOCUMENTS, _DOCUMENT_COLUMNS)
    if what == "records":
        names = _field_names(declaration, tables)
        return ["document_id", "source", "url", *(_export_name(n) for n in names if n != "url")], _records(
            tables, names
        )
    return ["chunk_id", "text_sha256", "vector"], _vectors(tables, VectorStore(data.vectors, manifest.embedder))


def _field_names(declaration: Declaration, tables: VersionTables) -> list[str]:
    """The columns that records have: declared fields, then those that files name themselves, in order of appearance."""
    sources = [source for source in declaration.sources if source.yields == "records"]
    names = dict.fromkeys(name for source in sources for name in source.declared_fields())
    if any(source.takes_own_fields for source in sources):
        for row in _read(tables, RECORDS, ("fields",)):
            names |= dict.fromkeys(json.loads(row["fields"]))
    return list(names)


def _read(tables: VersionTables, name: str, columns: tuple[str, ...]) -> Rows:
    for batch in tables.batches(name, columns):
        for row in batch.select(list(columns)).to_pylist():
            yield {**row, "metadata": json.loads(row["metadata"])} if "metadata" in row else row


def _records(tables: VersionTables, names: list[str]) -> Rows:
    for row in _read(tables, RECORDS, ("document_id", "source", "url", "fields")):
        fields = json.loads(row.pop("fields"))
        yield {**row, **{_export_name(name): fields.get(name) for name in names if name != "url"}}


def _export_name(field: str) -> str:
    """A declared field that has the name of one of our columns stands beside it."""
    return f"fields.{field}" if field in ("document_id", "source") else field


def _vectors(tables: VersionTables, store: VectorStore) -> Rows:
    for part in tables.parts(CHUNKS):
        columns = part.read(["chunk_id", "text_sha256"])
        vectors = store.read_to_disk(columns.column("text_sha256"))
        for chunk_id, key, vector in zip(*(column.to_pylist() for column in columns.columns), vectors, strict=True):
            yield {"chunk_id": chunk_id, "text_sha256": key, "vector": vector.tolist()}


def _write_jsonl(file: IO[bytes], _: list[str], rows: Rows) -> None:
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def _write_csv(file: IO[bytes], columns: list[str], rows: Rows, *, cell: Callable[[Any], Any]) -> None:
    """UTF-8 with a byte order mark, without which spreadsheets guess; nested values are JSON in their cell."""
    file.write(b"\xef\xbb\xbf")
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(map(cell, columns))
    for row in rows:
        writer.writerow(
            [
                cell(canonical_json(value) if isinstance(value := row.get(name), list | dict) else value)
                for name in columns
            ]
        )
        file.write(buffer.getvalue().encode("utf-8", "backslashreplace"))
        buffer.seek(0)
        buffer.truncate()


def _exact(value: Any) -> Any:
    return value


def _inert(value: Any) -> Any:
    """The value; a text that spreadsheets would take for a formula gets an apostrophe before it, by which they show it
    as text. Numbers stay numbers.
    """
    is_formula = isinstance(value, str) and value.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def _write_parquet(file: IO[bytes], columns: list[str], rows: Rows) -> None:
    """Nested fields become JSON text, so that every row has the same type; numbers, texts and vectors stay what they
    are.
    """
    flat = [{name: _flat(row.get(name)) for name in columns} for row in rows]
    table = pa.table({name: _column([row[name] for row in flat]) for name in columns})
    pq.write_table(table, file, compression="zstd")


def _flat(value: Any) -> Any:
    is_vector = isinstance(value, list) and value and isinstance(value[0], float)
    return canonical_json(value) if isinstance(value, list | dict) and not is_vector else value


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    # a field that is a number here and a text there, or a number beyond 64 bits
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if v is None else v if isinstance(v, str) else canonical_json(v) for v in values])
