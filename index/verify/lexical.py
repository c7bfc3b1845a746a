"""Verification of the lexical index: it is of the rows of the chunks table, and sampled rows have the terms of their
texts.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from almanac.core.tables import CHUNKS, batches_of, read_rows
from almanac.core.verified import as_damaged
from almanac.index.lexical.lexical_facts import CALLED, LEXICAL, analyzer_fingerprint
from almanac.index.lexical.postings import MOST_COUNTED, Postings, hash_of_ids, term_hash
from almanac.index.lexical.writer import COLUMNS, analyzed
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion

_PROBES = 16


def check_lexical(version_dir: Path, table: pa.Table, problems: ProblemCollector) -> None:
    """Compares the lexical index with `table`, which has all chunk ids, in the order of chunks.parquet."""
    try:
        with as_damaged(CALLED, version_dir / LEXICAL):
            postings = Postings(version_dir / LEXICAL)
            if (chunks := postings.facts.chunks) != (wanted := hash_of_ids(table.column("chunk_id"))):
                problems.add("row_altered", f"{LEXICAL}: chunks", chunks, wanted)
            elif (wrong := postings.misfit()) is not None:
                problems.add("row_altered", LEXICAL, wrong)
            else:
                _probe(postings, version_dir, problems)
    except DamagedVersion as error:
        problems.add("unreadable", LEXICAL, error.message)


def _probe(postings: Postings, version_dir: Path, problems: ProblemCollector) -> None:
    """Compares the terms of 16 rows, spread evenly over the table, with those of their texts, by the same analysis."""
    if postings.facts.analyzer != analyzer_fingerprint():
        return
    rows = np.unique(np.linspace(0, len(postings) - 1, num=min(_PROBES, len(postings)), dtype=np.int64))
    hashes, numbers, counts = (part.tolist() for part in postings.taken(rows, rows))
    stored = {(number, term): count for term, number, count in zip(hashes, numbers, counts, strict=True)}
    for batch, places in read_rows(batches_of(version_dir / CHUNKS), COLUMNS, rows):
        for number, row in zip(rows[places].tolist(), batch.to_pylist(), strict=True):
            terms = analyzed(row, postings.facts.language).counts
            wanted = {(number, term_hash(term)): min(count, MOST_COUNTED) for term, count in terms.items()}
            if wanted != {key: count for key, count in stored.items() if key[0] == number}:
                problems.add("probe_failed", f"{LEXICAL}: {row['chunk_id']}", "it has the terms of another text")
