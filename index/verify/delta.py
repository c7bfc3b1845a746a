"""Verification of a version that was made from another one: all that is new, and enough of what was taken over.

The parent was verified when it was made, and its index files were compared with its manifest when they were copied; a copy is not read in full again.
Which rows it should have is compared with all of its ids; of the rows taken over some are read, other ones with each delta.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.tables import CHUNK_SCHEMA, CHUNKS
from almanac.index.build.chunk_rows import ChunkRows
from almanac.index.build.delta import compare_rows, verified_chunks
from almanac.index.build.digest import DIGESTED
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.store import VectorStore
from almanac.index.verify.files import UNREADABLE, check_digest, check_hashes, require_schema
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.index.versions.store import manifest_in
from almanac.schemas.errors import AlmanacError
from almanac.schemas.manifest import EmbedderInfo, Manifest

_SAMPLE = 2000  # rows taken over that are read again: 0.3 s
_PARTS = 16  # vector parts that their vectors come from; all of them, 200 for 100,000 rows, take 0.7 s


@dataclass(frozen=True)
class Changed:
    """Ids and keys of the new table, and those of its rows that are compared with Chroma in full."""

    table: pa.Table
    rows: pa.Table


def check_changed(
    version_dir: Path,
    since: Path,
    manifest: Manifest | None,
    vectors_root: Path,
    embedder: EmbedderInfo,
    findings: ProblemCollector,
    meanwhile: Callable[[], object],
) -> Changed | None:
    """Finds what is new since the parent in folder `since`, and checks those rows of the table; None when they cannot be read.

    `meanwhile` is called in this thread.
    """
    with ThreadPoolExecutor(1) as thread:
        checked = thread.submit(_check_table, version_dir / CHUNKS, since, manifest, VectorStore(vectors_root, embedder), embedder, findings)
        meanwhile()
        try:
            return checked.result()
        except AlmanacError as error:
            findings.add("unreadable", error.where or str(since), error.message)
        except UNREADABLE as error:
            findings.add("unreadable", CHUNKS, error)
    return None


def _check_table(path: Path, since: Path, manifest: Manifest | None, store: VectorStore, embedder: EmbedderInfo, findings: ProblemCollector) -> Changed:
    parent = manifest_in(since, since.parent.parent, since.name)
    require_schema(pq.read_schema(path))
    table = pq.read_table(path, columns=[*DIGESTED, "fetched_at"])
    if manifest is not None:
        check_digest(table, manifest, embedder, findings)
    before = pq.read_table(verified_chunks(since, parent), columns=["chunk_id", "fetched_at"])
    compared = compare_rows(before, table)
    numbers = np.union1d(compared.added, _sample(compared.kept, table, store, (parent.lineage.get("build") or {}).get("deltas", 0)))
    rows = ChunkRows(path, numbers, CHUNK_SCHEMA.names).slice(0, len(numbers))
    check_hashes(rows.to_pylist(), findings)
    return Changed(table, rows)


def _sample(inherited: RowNumbers, table: pa.Table, store: VectorStore, turn: int) -> RowNumbers:
    """Rows spread over the parts that hold their vectors; with each turn other parts, so that after some every part was looked at."""
    if len(inherited) <= _SAMPLE:
        return inherited
    keys = table.column("text_sha256").take(pa.array(inherited)).to_pylist()
    among = inherited[store.in_few_parts(keys, _PARTS, turn)]
    return among[np.linspace(0, len(among) - 1, num=min(_SAMPLE, len(among)), dtype=np.int64)]
