"""Writes the lexical index of a version with tantivy.

An index is always written in full: deleted rows would stay in tantivy's statistics (number of rows, lengths, document frequencies), and equal content would
rank differently. What costs time is the analysis of texts, so its result is kept beside the index and taken over for the rows that stay the same.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from almanac.core.durable import write_file
from almanac.core.passage_parts import parts_of
from almanac.core.tables import CHUNKS, TableWriter, read_batches, read_table
from almanac.core.verified import verified_file
from almanac.index.lexical.analyzer import folded_tokens, has_folded, stored_tokens
from almanac.index.lexical.facts import FACTS, LEXICAL, LexicalFacts, analyzer_fingerprint, lexical_facts
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Manifest

ID, ID_HIGH, ID_LOW, BODY, FOLDED = "id", "id_high", "id_low", "body", "folded"
COLUMNS = ["chunk_id", "document_id", "title", "embedded_text", "passage", "metadata"]
UNDETERMINED = "und"
REBUILD = "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"
TERMS = "terms.parquet"  # the terms of each row of chunks.parquet, in its order, joined by spaces; `folded` is null where the language has no such terms

_TERMS_SCHEMA = pa.schema([(BODY, pa.large_string()), (FOLDED, pa.large_string())])
_HEAP = 48 << 20  # bytes of tantivy's write buffer, after which a segment is written
_ROWS = 2000  # rows in memory at a time
_LEAST_KNOWN = 12  # characters of a value that is not indexed again; a shorter one, such as "yes", may stand in the text by chance
_FEW_DIGITS = 6  # an id of more digits is typed by nobody who does not mean it
# Ids that a program made: a long run of letters and digits in lower case, or a UUID. Codes that people type are short, in capitals, or in words.
_GENERATED = re.compile(r"(?=.*\d)(?=.*[a-z])[A-Za-z\d]{12,}|(?i:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})")
_ADDRESS = re.compile(r"[a-z][a-z\d+.-]*://\S+", re.IGNORECASE)
_Terms = tuple[str, str | None]


@dataclass(frozen=True)
class KnownTerms:
    """Terms of an earlier version's rows, for the rows that are in the new version, too.

    `terms` is the earlier version's table. `kept` are row numbers of the new version, ascending; `places` are the same rows' numbers in `terms`.
    """

    terms: pa.Table
    kept: RowNumbers
    places: RowNumbers

    @classmethod
    def of(cls, folder: Path, manifest: Manifest, language: str, kept: RowNumbers, places: RowNumbers) -> Self | None:
        """Returns the terms of the version in `folder`; None where they come from another analyzer or declared language.

        Raises DamagedVersion where a file is missing or differs from the manifest.
        """
        facts = lexical_facts(folder / LEXICAL)
        if (facts.analyzer, facts.language) != (analyzer_fingerprint(), language):
            return None
        return cls(read_table(verified_file(folder, manifest, f"{LEXICAL}/{TERMS}"), [BODY, FOLDED]).combine_chunks(), kept, places)

    def between(self, begin: int, end: int) -> dict[int, _Terms]:
        """Returns the known terms of the rows `begin` to `end` of the new version, end excluded, by their offset from `begin`."""
        first, last = np.searchsorted(self.kept, [begin, end])
        found = self.terms.take(pa.array(self.places[first:last]))
        return dict(zip((self.kept[first:last] - begin).tolist(), zip(*(column.to_pylist() for column in found.columns), strict=True), strict=True))


def lexical_schema() -> tantivy.Schema:
    """Schema of the index: the chunk id as a term, for filters, and as two integers, which are faster to read; terms with counts, no positions."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(ID, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field(ID_HIGH, fast=True)
    builder.add_unsigned_field(ID_LOW, fast=True)
    for name in (BODY, FOLDED):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def build_lexical(version_dir: Path, language: str, known: KnownTerms | None = None) -> None:
    """Builds the lexical index of the chunks table in `version_dir`, 2,000 rows at a time.

    Args:
        version_dir: Directory of the new version, with its chunks table.
        language: Declared language, a BCP 47 tag, or `auto` for each chunk's own.
        known: Terms that need not be analyzed again.
    """
    folder = version_dir / LEXICAL
    folder.mkdir()
    writer = tantivy.Index(lexical_schema(), str(folder)).writer(_HEAP, 1)
    with TableWriter(folder / TERMS, _TERMS_SCHEMA) as kept:
        begin = 0
        for batch in read_batches(version_dir / CHUNKS, COLUMNS, rows=_ROWS):
            already = known.between(begin, begin + len(batch)) if known else {}
            others = pa.array([number for number in range(len(batch)) if number not in already], pa.int64())
            analyzed = (_analyzed(row, language) for row in batch.take(others).to_pylist())
            terms = [already.get(number) or next(analyzed) for number in range(len(batch))]
            for chunk_id, of_row in zip(batch.column("chunk_id").to_pylist(), terms, strict=True):
                writer.add_document(_document(chunk_id, *of_row))
            kept.write(pa.table(list(map(list, zip(*terms, strict=True))), schema=_TERMS_SCHEMA))
            begin += len(batch)
    writer.commit()
    writer.wait_merging_threads()
    for path in folder.glob(".*"):  # lock files, and a list of files for the next writer; there will be none
        path.unlink()
    facts = LexicalFacts(analyzer=analyzer_fingerprint(), language=language, languages=_languages(version_dir / CHUNKS, language))
    write_file(folder / FACTS, facts.model_dump_json() + "\n")


@contextmanager
def as_damaged_lexical(folder: Path) -> Iterator[None]:
    """Converts tantivy's read errors into DamagedVersion, including panics of its Rust core, which `except Exception` does not catch."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, ValueError | OSError) or type(error).__name__ == "PanicException":
            raise DamagedVersion(f"the lexical index cannot be read: {error}", where=str(folder), hint=REBUILD) from error
        raise


def language_of(metadata: str, declared: str) -> str:
    """Returns the language for the analysis of a chunk: the declared one; for `auto`, the one in its metadata (a JSON text), else `und`."""
    if declared != "auto":
        return declared
    found = json.loads(metadata).get("language")
    return found if isinstance(found, str) and found else UNDETERMINED


def indexed_text(row: dict[str, Any]) -> str:
    """Returns the text that is indexed for a chunk: title, embedded text, and what the passage of a record adds to them."""
    title, text = row["title"], row["embedded_text"]
    said = text if not title or text.startswith(title) else f"{title}\n{text}"
    return said if row["passage"] is None else "\n".join([said, *_added(row["passage"], said, title, row["document_id"])])


def _added(passage: str, said: str, title: str, document_id: str) -> Iterator[str]:
    """The fields of a passage that the text does not hold, with their labels.

    Left out are addresses, whose words are those of a path, and ids that nobody types: one of a few digits, for "12" asks for twelve of something and not for
    record 12, and one such as pb90a9e1eb82a.
    """
    said = " ".join(said.split())
    for part in parts_of(passage):
        value = " ".join(passage[part.start : part.end].split())
        is_bare_id = value == document_id and _is_untyped(value)
        is_known = value == title or (len(value) >= _LEAST_KNOWN and value.removesuffix(" …") in said)
        if not is_bare_id and not is_known and not _ADDRESS.fullmatch(value):
            yield passage[part.begin : part.end]


def _is_untyped(value: str) -> bool:
    """Whether an id is one that nobody types into a search."""
    return len(value) <= _FEW_DIGITS if value.isdecimal() else _GENERATED.fullmatch(value) is not None


def _analyzed(row: dict[str, Any], declared: str) -> _Terms:
    language, text = language_of(row["metadata"], declared), indexed_text(row)
    return " ".join(stored_tokens(text, language)), " ".join(folded_tokens(text)) if has_folded(language) else None


def _document(chunk_id: str, body: str, folded: str | None) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text(ID, chunk_id)
    document.add_unsigned(ID_HIGH, int(chunk_id[:16], 16))
    document.add_unsigned(ID_LOW, int(chunk_id[16:], 16))
    document.add_text(BODY, body)
    if folded is not None:
        document.add_text(FOLDED, folded)
    return document


def _languages(chunks: Path, declared: str) -> list[str]:
    """Languages of the chunks, sorted. Equal metadata, as of the chunks of one document, is parsed once."""
    if declared != "auto":
        return [declared]
    return sorted({language_of(metadata, declared) for metadata in pc.unique(read_table(chunks, ["metadata"]).column(0)).to_pylist()})
