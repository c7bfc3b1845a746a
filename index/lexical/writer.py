"""Writes the lexical index of a segment.

An index is always written in full, and nothing in it changes afterwards. What costs time is the analysis of texts (19
seconds for 100,000 of 130 words, of 22), so rows that an earlier segment has, too, are taken over from it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from almanac.core.logs import get_logger
from almanac.core.passage_parts import parts_of
from almanac.core.tables import CHUNKS, read_batches, read_table
from almanac.core.verified import verified_file
from almanac.index.lexical.analyzer import folded_tokens, has_folded, stored_tokens
from almanac.index.lexical.lexical_facts import LEXICAL, LexicalFacts, analyzer_fingerprint
from almanac.index.lexical.postings import (
    ARRAYS,
    FOLDED,
    MOST_COUNTED,
    Postings,
    hash_of_ids,
    term_hash,
    write_postings,
)
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Sealed

COLUMNS = ["chunk_id", "document_id", "title", "embedded_text", "passage", "metadata"]
AUTO = "auto"  # as declared language: each chunk has its own
UNDETERMINED = "und"

_ROWS = 2000  # rows in memory at a time
# characters of a value that is not indexed again; a shorter one, such as "yes", may stand in the text by chance
_LEAST_KNOWN = 12
_FEW_DIGITS = 6  # an id of more digits is typed by nobody who does not mean it
# Ids that a program made: a long run of letters and digits in lower case, or a UUID. Codes that people type are short,
# in capitals, or in words.
_GENERATED = re.compile(r"(?=.*\d)(?=.*[a-z])[A-Za-z\d]{12,}|(?i:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})")
_ADDRESS = re.compile(r"[a-z][a-z\d+.-]*://\S+", re.IGNORECASE)
_log = get_logger("almanac.lexical")


class KnownRows(NamedTuple):
    """Rows of an earlier segment that are in the new one, too."""

    folder: Path  # the earlier segment's
    manifest: Sealed  # of that folder
    kept: RowNumbers  # the rows' numbers in the new segment
    places: RowNumbers  # the same rows' numbers in the earlier segment


class Terms(NamedTuple):
    """What a row is found by."""

    counts: Counter[str]  # of all its terms, those without diacritics among them
    lengths: tuple[int, int]  # number of its terms, and of those without diacritics
    language: str


def build_lexical(version_dir: Path, language: str, known: Sequence[KnownRows] = ()) -> None:
    """Builds the lexical index of the chunks table in `version_dir`, with 2,000 rows and all postings in memory.

    Args:
        version_dir: Directory of the new version, with its chunks table.
        language: Declared language, a BCP 47 tag, or `auto` for each chunk's own.
        known: Rows that need not be analyzed again, unless their index is damaged, or was made in another way.
    """
    ids = read_table(version_dir / CHUNKS, ["chunk_id"]).column(0)
    lengths, languages = np.zeros((2, len(ids)), np.int32), np.zeros(len(ids), np.uint16)
    codes: dict[str, int] = {}  # of languages
    postings = [(np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.uint16))]
    is_new = np.ones(len(ids), np.bool_)
    for source in known:
        if (earlier := _reusable(source, language)) is not None:
            own_rows, places = (numbers[is_new[source.kept]] for numbers in (source.kept, source.places))
            postings.append(earlier.taken(places, own_rows))
            own = np.array([codes.setdefault(tag, len(codes)) for tag in earlier.facts.languages], np.uint16)
            lengths[:, own_rows], languages[own_rows], is_new[own_rows] = (
                earlier.lengths[:, places],
                own[earlier.languages[places]],
                False,
            )
    begin = 0
    for batch in read_batches(version_dir / CHUNKS, COLUMNS, rows=_ROWS):
        new = np.flatnonzero(is_new[begin : begin + len(batch)])
        rows, terms = begin + new, [analyzed(row, language) for row in batch.take(new).to_pylist()]
        lengths[:, rows] = np.array([row_terms.lengths for row_terms in terms], np.int32).reshape(-1, 2).T
        languages[rows] = [codes.setdefault(row_terms.language, len(codes)) for row_terms in terms]
        hashes = np.array([term_hash(term) for row_terms in terms for term in row_terms.counts], np.uint64)
        counts = np.array([count for row_terms in terms for count in row_terms.counts.values()], np.int64)
        numbers = np.repeat(rows, [len(row_terms.counts) for row_terms in terms]).astype(np.int32)
        postings.append((hashes, numbers, counts.clip(max=MOST_COUNTED).astype(np.uint16)))
        begin += len(batch)
    facts = LexicalFacts(
        analyzer=analyzer_fingerprint(), language=language, languages=list(codes), chunks=hash_of_ids(ids)
    )
    write_postings(version_dir / LEXICAL, facts, postings, lengths, languages)


def _reusable(source: KnownRows, language: str) -> Postings | None:
    """The index of an earlier segment; None where it is damaged, or of another analyzer or declared language."""
    try:
        for name in ARRAYS:
            verified_file(source.folder, source.manifest, f"{LEXICAL}/{name}.npy")
        postings = Postings(source.folder / LEXICAL)
    except DamagedVersion as error:
        _log.warning("a lexical index is damaged: its rows are analyzed again", where=error.where, why=error.message)
        return None
    is_alike = (postings.facts.analyzer, postings.facts.language) == (analyzer_fingerprint(), language)
    return postings if is_alike else None


def language_of(metadata: str, declared: str) -> str:
    """Returns the language for the analysis of a chunk: the declared one; for `auto`, the one in its metadata (a JSON
    text), else `und`.
    """
    if declared != AUTO:
        return declared
    tag = json.loads(metadata).get("language")
    return tag if isinstance(tag, str) and tag else UNDETERMINED


def analyzed(row: dict[str, Any], declared: str) -> Terms:
    """Returns the terms of a row of `COLUMNS`."""
    language, text = language_of(row["metadata"], declared), indexed_text(row)
    terms, folded = stored_tokens(text, language), folded_tokens(text) if has_folded(language) else []
    counts = Counter(terms)
    counts.update(FOLDED + term for term in folded)
    return Terms(counts, (len(terms), len(folded)), language)


def indexed_text(row: dict[str, Any]) -> str:
    """Returns the text that is indexed for a chunk: title, embedded text, and what the passage of a record adds to
    them.
    """
    title, text = row["title"], row["embedded_text"]
    indexed = text if not title or text.startswith(title) else f"{title}\n{text}"
    if row["passage"] is None:
        return indexed
    return "\n".join([indexed, *_added(row["passage"], indexed, title, row["document_id"])])


def _added(passage: str, indexed: str, title: str, document_id: str) -> Iterator[str]:
    """The fields of a passage that the text does not hold, with their labels.

    Left out are addresses, whose words are those of a path, and ids that nobody types: one of a few digits, for "12"
    asks for twelve of something and not for record 12, and one such as pb90a9e1eb82a.
    """
    indexed = " ".join(indexed.split())
    for part in parts_of(passage):
        value = " ".join(passage[part.start : part.end].split())
        is_bare_id = value == document_id and _is_untyped(value)
        is_known = value == title or (len(value) >= _LEAST_KNOWN and value.removesuffix(" …") in indexed)
        if not is_bare_id and not is_known and not _ADDRESS.fullmatch(value):
            yield passage[part.begin : part.end]


def _is_untyped(value: str) -> bool:
    """Whether an id is one that nobody types into a search."""
    return len(value) <= _FEW_DIGITS if value.isdecimal() else _GENERATED.fullmatch(value) is not None
