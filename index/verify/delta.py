"""Verification of a delta build: all added rows in full, and a sample of the rows copied from the parent.

The parent was verified when it was built, and its index files were compared with its manifest when they were copied, so
the copy is not read in full again. All chunk ids are compared; of the copied rows a sample is read, a different one
with each delta.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, read_table
from almanac.core.verified import verified_file
from almanac.index.build.chunk_rows import ChunkRows
from almanac.index.build.delta import compare_rows
from almanac.index.build.digest import DIGESTED
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.store import VectorStore
from almanac.index.verify.files import UNREADABLE, check_digest, check_hashes, require_schema
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.index.versions.store import manifest_in
from almanac.schemas.errors import AlmanacError
from almanac.schemas.manifest import EmbedderInfo, Manifest

_SAMPLE = 2000  # copied rows that are read again: 0.3 s
_PARTS = 16  # vector parts from which the sample is drawn; reading all parts, 200 for 100,000 rows, takes 0.7 s


@dataclass(frozen=True)
class Changed:
    """The new chunks table, and the rows of it to compare with Chroma in full."""

    table: pa.Table  # chunk ids, vector keys, metadata and `fetched_at` of all rows
    rows: pa.Table  # all columns of the added and the sampled rows


def check_changed(
    version_dir: Path,
    since: Path,
    manifest: Manifest | None,
    vectors_root: Path,
    embedder: EmbedderInfo,
    problems: ProblemCollector,
    meanwhile: Callable[[], object],
) -> Changed | None:
    """Checks the added and sampled rows of a delta's chunks table against their hashes and returns them; None, with a
    problem, when it cannot be read.

    Args:
        version_dir: Directory of the new version.
        since: Directory of its parent.
        manifest: The new version's manifest, whose digest is checked; None before it is written.
        vectors_root: Folder of the vector store.
        embedder: The version's embedder.
        problems: Collects the problems.
        meanwhile: Called in this thread while the table is checked in another one.
    """
    with ThreadPoolExecutor(1) as thread:
        checked = thread.submit(
            _check_table, version_dir / CHUNKS, since, manifest, VectorStore(vectors_root, embedder), embedder, problems
        )
        meanwhile()
        try:
            return checked.result()
        except AlmanacError as error:
            problems.add("unreadable", error.where or str(since), error.message)
        except UNREADABLE as error:
            problems.add("unreadable", CHUNKS, error)
    return None


def _check_table(
    path: Path,
    since: Path,
    manifest: Manifest | None,
    store: VectorStore,
    embedder: EmbedderInfo,
    problems: ProblemCollector,
) -> Changed:
    parent = manifest_in(since, since.parent.parent, since.name)
    require_schema(pq.read_schema(path))
    table = read_table(path, [*DIGESTED, "fetched_at"])
    if manifest is not None:
        check_digest(table, manifest, embedder, problems)
    before = read_table(verified_file(since, parent, CHUNKS), ["chunk_id", "fetched_at"])
    compared = compare_rows(before, table)
    numbers = np.union1d(
        compared.added, _sample(compared.kept, table, store, (parent.lineage.get("build") or {}).get("deltas", 0))
    )
    rows = ChunkRows(path, numbers, CHUNK_SCHEMA.names).slice(0, len(numbers))
    check_hashes(rows.to_pylist(), problems)
    return Changed(table, rows)


def _sample(inherited: RowNumbers, table: pa.Table, store: VectorStore, turn: int) -> RowNumbers:
    """Draws a sample of the copied rows, spread over vector parts; successive values of `turn` use different parts,
    until every part was used.
    """
    if len(inherited) <= _SAMPLE:
        return inherited
    keys = table.column("text_sha256").take(pa.array(inherited))
    among = inherited[store.in_few_parts(keys, _PARTS, turn)]
    return among[np.linspace(0, len(among) - 1, num=min(_SAMPLE, len(among)), dtype=np.int64)]
