"""Verification of the lexical index: the same rows as the chunks table, and sampled rows that are found by their own words."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from almanac.core.tables import CHUNKS
from almanac.index.build.chunk_rows import ChunkRows
from almanac.index.lexical.analyzer import stored_tokens
from almanac.index.lexical.facts import LEXICAL, lexical_facts
from almanac.index.lexical.part import LexicalPart
from almanac.index.lexical.reader import LexicalIndex, rows_of
from almanac.index.lexical.writer import COLUMNS, as_damaged_lexical, indexed_text, language_of
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion

_PROBES = 16


def check_lexical(version_dir: Path, table: pa.Table, problems: ProblemCollector) -> None:
    """Compares the rows of the lexical index with `table`, which has all chunk ids, in the order of chunks.parquet."""
    ids = table.column("chunk_id").to_pylist()
    try:
        index = LexicalIndex([LexicalPart(version_dir)], rows_of(ids))
        with as_damaged_lexical(version_dir / LEXICAL):
            counted = Counter(index.ids())
            missing = [chunk_id for chunk_id in ids if chunk_id not in counted]
            for chunk_id in missing:
                problems.add("row_missing", f"{LEXICAL}: {chunk_id}")
            for chunk_id in sorted((counted - Counter(ids)).keys()):
                problems.add("row_foreign", f"{LEXICAL}: {chunk_id}")
            _probe(index, version_dir, len(ids), set(missing), problems)
    except DamagedVersion as error:
        problems.add("unreadable", LEXICAL, error.message)


def _probe(index: LexicalIndex, version_dir: Path, rows: int, missing: set[str], problems: ProblemCollector) -> None:
    """Checks that 16 rows, spread evenly over the table, are found by their own text; rows without any term are skipped."""
    declared = lexical_facts(version_dir / LEXICAL).language
    numbers = np.unique(np.linspace(0, rows - 1, num=min(_PROBES, rows), dtype=np.int64))
    for row in ChunkRows(version_dir / CHUNKS, numbers, COLUMNS).slice(0, len(numbers)).to_pylist():
        text = indexed_text(row)
        if row["chunk_id"] not in missing and stored_tokens(text, language_of(row["metadata"], declared)) and not index.finds(text, row["chunk_id"]):
            problems.add("probe_failed", f"{LEXICAL}: {row['chunk_id']}", "not found by its own text", row["chunk_id"])
