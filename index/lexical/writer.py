"""Writes the lexical index of a version with tantivy, in full or by changing a copy of the parent's."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import tantivy

from almanac.core.durable import write_file
from almanac.core.tables import CHUNKS, read_batches
from almanac.index.lexical.analyzer import folded_tokens, has_folded, stored_tokens
from almanac.index.lexical.facts import FACTS, LEXICAL, LexicalFacts, analyzer_fingerprint, lexical_facts
from almanac.schemas.errors import DamagedVersion

ID, ID_HIGH, ID_LOW, BODY, FOLDED = "id", "id_high", "id_low", "body", "folded"
COLUMNS = ["chunk_id", "title", "embedded_text", "metadata"]
UNDETERMINED = "und"

_HEAP = 48 << 20  # bytes of tantivy's write buffer, after which a segment is written
_ROWS = 2000  # rows in memory at a time


def lexical_schema() -> tantivy.Schema:
    """Schema of the index: the chunk id as a term, for filters and deletion, and as two integers, which are faster to read; terms with counts, no positions."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(ID, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field(ID_HIGH, fast=True)
    builder.add_unsigned_field(ID_LOW, fast=True)
    for name in (BODY, FOLDED):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def build_lexical(version_dir: Path, language: str) -> None:
    """Builds the lexical index of the chunks table in `version_dir`, 2,000 rows at a time. `language` is a BCP 47 tag, or `auto` for each chunk's own."""
    folder = version_dir / LEXICAL
    folder.mkdir()
    _write(tantivy.Index(lexical_schema(), str(folder)), [], read_batches(version_dir / CHUNKS, COLUMNS, rows=_ROWS), language)
    _note(folder, version_dir / CHUNKS, language, 0)


def change_lexical(version_dir: Path, removed: list[str], added: Iterable[pa.Table], language: str) -> None:
    """Changes the copy of the parent's index in `version_dir`: deletes rows, then adds rows.

    Args:
        version_dir: Directory of the new version, with its chunks table and the copied index.
        removed: Chunk ids to delete.
        added: Batches of rows to add, with the columns `COLUMNS`; an added row may have the id of a deleted one.
        language: Declared language, a BCP 47 tag or `auto`.

    Raises DamagedVersion where tantivy cannot read the copy.
    """
    folder = version_dir / LEXICAL
    with as_damaged_lexical(folder):
        facts = lexical_facts(folder)
        _write(tantivy.Index.open(str(folder)), removed, added, language)
    _note(folder, version_dir / CHUNKS, language, facts.deleted + len(removed))


@contextmanager
def as_damaged_lexical(folder: Path) -> Iterator[None]:
    """Converts tantivy's read errors into DamagedVersion, including panics of its Rust core, which `except Exception` does not catch."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, ValueError | OSError) or type(error).__name__ == "PanicException":
            hint = "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"
            raise DamagedVersion(f"the lexical index cannot be read: {error}", where=str(folder), hint=hint) from error
        raise


def language_of(metadata: str, declared: str) -> str:
    """Returns the language for the analysis of a chunk: the declared one; for `auto`, the one in its metadata (a JSON text), else `und`."""
    if declared != "auto":
        return declared
    found = json.loads(metadata).get("language")
    return found if isinstance(found, str) and found else UNDETERMINED


def indexed_text(row: dict[str, Any]) -> str:
    """Returns the text that is indexed for a chunk: the embedded text, preceded by the title unless it already begins with it."""
    title, text = row["title"], row["embedded_text"]
    return text if not title or text.startswith(title) else f"{title}\n{text}"


def _write(index: tantivy.Index, removed: list[str], batches: Iterable[pa.Table], declared: str) -> None:
    writer = index.writer(_HEAP, 1)
    for chunk_id in removed:
        writer.delete_documents_by_term(ID, chunk_id)
    for batch in batches:
        for row in batch.to_pylist():
            writer.add_document(_document(row, declared))
    writer.commit()
    writer.wait_merging_threads()


def _document(row: dict[str, Any], declared: str) -> tantivy.Document:
    language, text = language_of(row["metadata"], declared), indexed_text(row)
    document = tantivy.Document()
    document.add_text(ID, row["chunk_id"])
    document.add_unsigned(ID_HIGH, int(row["chunk_id"][:16], 16))
    document.add_unsigned(ID_LOW, int(row["chunk_id"][16:], 16))
    document.add_text(BODY, " ".join(stored_tokens(text, language)))
    if has_folded(language):
        document.add_text(FOLDED, " ".join(folded_tokens(text)))
    return document


def _note(folder: Path, chunks: Path, declared: str, deleted: int) -> None:
    facts = LexicalFacts(analyzer=analyzer_fingerprint(), language=declared, languages=sorted(set(_languages(chunks, declared))), deleted=deleted)
    write_file(folder / FACTS, facts.model_dump_json() + "\n")


def _languages(chunks: Path, declared: str) -> Iterator[str]:
    if declared != "auto":
        yield declared
        return
    for batch in read_batches(chunks, ["metadata"]):
        yield from (language_of(metadata, declared) for metadata in batch.column(0).to_pylist())
