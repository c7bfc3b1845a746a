"""Verification of the lexical index: the same rows as the chunks table, and sampled rows that are found by their own
words.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from almanac.core.tables import CHUNKS
from almanac.index.build.chunk_rows import ChunkRows
from almanac.index.lexical.facts import LEXICAL, analyzer_fingerprint, lexical_facts
from almanac.index.lexical.part import LexicalPart
from almanac.index.lexical.reader import LexicalIndex, TableRows
from almanac.index.lexical.terms import BODY, TERMS, TermsFile
from almanac.index.lexical.union import Union
from almanac.index.lexical.writer import COLUMNS, analyzed, as_damaged_lexical, indexed_text
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion

_PROBES = 16


def check_lexical(version_dir: Path, table: pa.Table, problems: ProblemCollector) -> None:
    """Compares the rows of the lexical index with `table`, which has all chunk ids, in the order of chunks.parquet."""
    ids = table.column("chunk_id").to_pylist()
    try:
        with as_damaged_lexical(version_dir / LEXICAL):
            union = Union([version_dir / LEXICAL])
            places = union.places()
            listed = union.ids_at(places)
            counted, found = Counter(listed), dict(zip(union.rows_at(places)[1].tolist(), listed, strict=True))
            missing = [chunk_id for chunk_id in ids if chunk_id not in counted]
            foreign = sorted((counted - Counter(ids)).keys())
            misplaced = (
                []
                if missing or foreign
                else [chunk_id for row, chunk_id in enumerate(ids) if found.get(row) != chunk_id]
            )
            for kind, wrong in (("row_missing", missing), ("row_foreign", foreign), ("row_altered", misplaced)):
                for chunk_id in wrong:
                    problems.add(kind, f"{LEXICAL}: {chunk_id}")
            if not missing and not foreign and not misplaced:  # else the stored terms are those of other rows, too
                _probe(LexicalIndex([LexicalPart(version_dir)], TableRows.of(ids)), version_dir, len(ids), problems)
    except DamagedVersion as error:
        problems.add("unreadable", LEXICAL, error.message)


def _probe(index: LexicalIndex, version_dir: Path, rows: int, problems: ProblemCollector) -> None:
    """Checks 16 rows, spread evenly over the table: each is found by its own text, unless it has no term, and its terms
    are those of its text.
    """
    facts = lexical_facts(version_dir / LEXICAL)
    numbers = np.unique(np.linspace(0, rows - 1, num=min(_PROBES, rows), dtype=np.int64))
    stored = (
        TermsFile(version_dir / LEXICAL / TERMS, facts.rows).texts(BODY, numbers)
        if facts.analyzer == analyzer_fingerprint()
        else []
    )
    for number, row in enumerate(ChunkRows(version_dir / CHUNKS, numbers, COLUMNS).slice(0, len(numbers)).to_pylist()):
        where = f"{LEXICAL}: {row['chunk_id']}"
        text, (terms, _) = indexed_text(row), analyzed(row, facts.language)
        if terms and not index.finds(text, row["chunk_id"]):
            problems.add("probe_failed", where, "not found by its own text", row["chunk_id"])
        elif number < len(stored) and stored[number] != terms.encode():
            problems.add("probe_failed", where, f"{TERMS} has the terms of another text", row["chunk_id"])
