"""Writes the lexical index of a segment with tantivy.

An index is always written in full, and nothing in it changes afterwards. What costs time is the analysis of texts, so
its result is kept beside the index: it is taken over for the rows that stay the same, and scores are computed from it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import tantivy

from almanac.core.durable import write_file
from almanac.core.passage_parts import parts_of
from almanac.core.tables import CHUNKS, read_batches
from almanac.core.verified import verified_file
from almanac.index.lexical.analyzer import folded_tokens, has_folded, stored_tokens
from almanac.index.lexical.facts import FACTS, LEXICAL, LexicalFacts, analyzer_fingerprint, lexical_facts
from almanac.index.lexical.terms import BODY, FIELDS, FOLDED, REBUILD, TERMS, Terms, TermsFile, TermsWriter
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion, storage_error
from almanac.schemas.manifest import Sealed

ID, ID_HIGH, ID_LOW, ROW = "id", "id_high", "id_low", "row"
COLUMNS = ["chunk_id", "document_id", "title", "embedded_text", "passage", "metadata"]
AUTO = "auto"  # as declared language: each chunk has its own
UNDETERMINED = "und"

_HEAP = 48 << 20  # bytes of tantivy's write buffer, after which a segment of its own is written
_ROWS = 2000  # rows in memory at a time
_LONGEST_TERM = 65_530  # bytes; tantivy ignores longer terms
# characters of a value that is not indexed again; a shorter one, such as "yes", may stand in the text by chance
_LEAST_KNOWN = 12
_FEW_DIGITS = 6  # an id of more digits is typed by nobody who does not mean it
# Ids that a program made: a long run of letters and digits in lower case, or a UUID. Codes that people type are short,
# in capitals, or in words.
_GENERATED = re.compile(r"(?=.*\d)(?=.*[a-z])[A-Za-z\d]{12,}|(?i:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})")
_ADDRESS = re.compile(r"[a-z][a-z\d+.-]*://\S+", re.IGNORECASE)


class KnownRows(NamedTuple):
    """Rows of an earlier segment that are in the new one, too."""

    folder: Path  # the earlier segment's
    manifest: Sealed  # of that folder
    kept: RowNumbers  # the rows' numbers in the new segment, ascending
    places: RowNumbers  # the same rows' numbers in the earlier segment


class KnownTerms:
    """Terms of earlier segments' rows, for the rows that are in the new segment, too."""

    def __init__(self, sources: Sequence[tuple[TermsFile, RowNumbers, RowNumbers]]) -> None:
        """`sources` has the terms of each earlier segment, with `kept` and `places` as in `KnownRows`."""
        self._sources = sources

    @classmethod
    def of(cls, sources: Sequence[KnownRows], language: str) -> Self:
        """Returns the terms that earlier segments know; those from another analyzer or declared language are left out.

        Raises DamagedVersion where a file is missing or differs from the manifest.
        """
        found = []
        for source in sources:
            facts = lexical_facts(source.folder / LEXICAL)
            if (facts.analyzer, facts.language) == (analyzer_fingerprint(), language):
                path = verified_file(source.folder, source.manifest, f"{LEXICAL}/{TERMS}")
                found.append((TermsFile(path, facts.rows), source.kept, source.places))
        return cls(found)

    def between(self, begin: int, end: int) -> dict[int, Terms]:
        """Returns the known terms of the rows `begin` to `end` of the new segment, end excluded, by their offset from
        `begin`.
        """
        found: dict[int, Terms] = {}
        for terms, kept, places in self._sources:
            first, last = np.searchsorted(kept, [begin, end])
            order = np.argsort(places[first:last])
            offsets = (kept[first:last] - begin)[order].tolist()
            for _, batch in terms.batches(places[first:last][order]):
                of_rows = zip(*(batch.column(name).to_pylist() for name in FIELDS), strict=True)
                found.update(zip(offsets[: len(batch)], of_rows, strict=True))
                del offsets[: len(batch)]
        return found


def lexical_schema() -> tantivy.Schema:
    """Schema of the index: the row's number in chunks.parquet; the chunk id as a term, for filters, and as two
    integers; terms with counts, no positions.
    """
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(ID, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field(ID_HIGH, fast=True)
    builder.add_unsigned_field(ID_LOW, fast=True)
    builder.add_unsigned_field(ROW, fast=True)
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
    with TermsWriter(folder / TERMS) as kept:
        begin = 0
        for batch in read_batches(version_dir / CHUNKS, COLUMNS, rows=_ROWS):
            already = known.between(begin, begin + len(batch)) if known else {}
            others = pa.array([number for number in range(len(batch)) if number not in already], pa.int64())
            newly = (analyzed(row, language) for row in batch.take(others).to_pylist())
            terms = [already.get(number) or next(newly) for number in range(len(batch))]
            for row, (chunk_id, of_row) in enumerate(
                zip(batch.column("chunk_id").to_pylist(), terms, strict=True), start=begin
            ):
                writer.add_document(_document(row, chunk_id, *of_row))
            kept.add(terms, [language_of(metadata, language) for metadata in batch.column("metadata").to_pylist()])
            begin += len(batch)
    writer.commit()
    writer.wait_merging_threads()
    for path in folder.glob(".*"):  # lock files, and a list of files for the next writer; there will be none
        path.unlink()
    languages = dict(sorted(kept.languages.items())) if kept.rows or language == AUTO else {language: 0}
    facts = LexicalFacts(
        analyzer=analyzer_fingerprint(), language=language, languages=languages, rows=kept.rows, terms=kept.terms,
        longest=kept.longest
    )  # fmt: skip
    write_file(folder / FACTS, facts.model_dump_json() + "\n")
    # tantivy makes its list of segments for its owner alone, and a reader may be another user
    for path in folder.iterdir():
        path.chmod((folder / FACTS).stat().st_mode)


@contextmanager
def as_damaged_lexical(folder: Path) -> Iterator[None]:
    """Converts tantivy's read errors into DamagedVersion, including panics of its Rust core, which `except Exception`
    does not catch.
    """
    try:
        yield
    except PermissionError as error:
        raise storage_error(error, Path(error.filename or folder)) from error
    except BaseException as error:
        if isinstance(error, ValueError | OSError) or type(error).__name__ == "PanicException":
            raise DamagedVersion(
                f"the lexical index cannot be read: {error}", where=str(folder), hint=REBUILD
            ) from error
        raise


def language_of(metadata: str, declared: str) -> str:
    """Returns the language for the analysis of a chunk: the declared one; for `auto`, the one in its metadata (a JSON
    text), else `und`.
    """
    if declared != AUTO:
        return declared
    found = json.loads(metadata).get("language")
    return found if isinstance(found, str) and found else UNDETERMINED


def indexed_text(row: dict[str, Any]) -> str:
    """Returns the text that is indexed for a chunk: title, embedded text, and what the passage of a record adds to
    them.
    """
    title, text = row["title"], row["embedded_text"]
    said = text if not title or text.startswith(title) else f"{title}\n{text}"
    return (
        said if row["passage"] is None else "\n".join([said, *_added(row["passage"], said, title, row["document_id"])])
    )


def _added(passage: str, said: str, title: str, document_id: str) -> Iterator[str]:
    """The fields of a passage that the text does not hold, with their labels.

    Left out are addresses, whose words are those of a path, and ids that nobody types: one of a few digits, for "12"
    asks for twelve of something and not for record 12, and one such as pb90a9e1eb82a.
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


def analyzed(row: dict[str, Any], declared: str) -> Terms:
    """Returns the terms of a row of `COLUMNS`, as `terms.arrow` has them."""
    language, text = language_of(row["metadata"], declared), indexed_text(row)
    return _joined(stored_tokens(text, language)), _joined(folded_tokens(text)) if has_folded(language) else None


def _joined(terms: list[str]) -> str:
    """Joins terms by single spaces as tantivy takes them apart: by spaces inside a term, too, and without terms of more
    than 65,530 bytes.
    """
    text = " ".join(terms)
    if "  " in text or text[:1] == " " or text[-1:] == " " or len(text) > _LONGEST_TERM // 4:
        return " ".join(term for term in text.split(" ") if term and len(term.encode()) <= _LONGEST_TERM)
    return text


def _document(row: int, chunk_id: str, body: str, folded: str | None) -> tantivy.Document:
    document = tantivy.Document()
    document.add_unsigned(ROW, row)
    document.add_text(ID, chunk_id)
    document.add_unsigned(ID_HIGH, int(chunk_id[:16], 16))
    document.add_unsigned(ID_LOW, int(chunk_id[16:], 16))
    document.add_text(BODY, body)
    if folded is not None:
        document.add_text(FOLDED, folded)
    return document
