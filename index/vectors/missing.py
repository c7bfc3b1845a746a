"""Embeds the texts that have no vector yet, in checkpoints: a text whose part is on disk is never embedded again.

The texts are first staged in a table, in the order in which they are embedded. Each checkpoint then reads its row
group, embeds it and writes one part.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import RowNumbers, SortedDigests, digests_of
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import TableWriter, batches_of, in_order, open_table, read_rows
from almanac.index.embedding.embedder import Embedder, RemoteEmbedder, Vectors, checked_vectors
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.errors import EmbedderMismatch

CHECKPOINT = 500  # texts per checkpoint, at most
# of a checkpoint, a smaller one has an eighth at least: each costs a tenth of a second beside its texts
_LEAST_SHARE = 8
_LEFT_SHARE = 4  # of the texts that are left, a checkpoint has a quarter at most, so that two workers end together
_BATCH = 2000  # rows read at a time
_SHOWN_EVERY = 128  # texts embedded between two progress reports: four forward passes
_SCHEMA = pa.schema([("text_sha256", pa.string()), ("text", pa.string())])


@dataclass(frozen=True)
class StagedTexts:
    """Counts of a staged table: `texts` to embed, in `checkpoints` row groups. `cached` are the other rows of the
    chunks table, which need no embedding.
    """

    texts: int
    checkpoints: int
    cached: int


@dataclass
class EmbeddedPart:
    """Result of one checkpoint."""

    embedded: int  # texts whose vectors were written
    billed: int | None  # tokens billed by an API; None for a local model
    tokens: int | None  # tokens billed, otherwise counted locally; None where they cannot be counted
    part: Path | None  # the file with the vectors; None where every text was refused
    refused: dict[str, str] = field(default_factory=dict)  # key of each refused text → the embedder's reason


def stage_missing(
    chunks: Path, store: VectorStore, to: Path, *, checkpoint: int = CHECKPOINT, is_shared: bool = False
) -> StagedTexts:
    """Stages the texts without a vector for `embed_checkpoint`, each once, longest first.

    Sorting by length gives a checkpoint texts of similar length, which need little padding, and puts the slowest
    checkpoint before the first estimate of the remaining time. The texts are not held in memory together.

    Args:
        chunks: Path of the chunks table.
        store: Vector store that decides which texts are missing.
        to: Path of the staging table to write.
        checkpoint: Texts per row group.
        is_shared: Whether several workers embed. The last row groups are then smaller and smaller, or one worker would
            embed while the others have ended.
    """
    keys, read = keys_in(chunks), batches_of(chunks, rows=_BATCH)
    rows = store.absent(keys)
    missing = digests_of(keys.take(pa.array(rows)))
    lengths = np.zeros(len(rows), dtype=np.int64)
    for table, places in read_rows(read, ["embedded_text"], rows):
        lengths[places] = pc.utf8_length(table.column(0)).to_numpy()
    placed = np.empty(len(rows), dtype=np.int64)
    placed[np.lexsort((SortedDigests(missing).ranks(), -lengths))] = np.arange(len(rows))
    checkpoints = 0
    with TableWriter(to, _SCHEMA) as writer:
        columns = ["text_sha256", "embedded_text"]

        def staged() -> Iterator[tuple[pa.Table, RowNumbers]]:
            for table, places in read_rows(read, columns, rows):
                yield table.rename_columns(_SCHEMA.names), placed[places]

        for texts in in_order(staged, len(rows), checkpoint):
            while len(texts):
                left = len(rows) - writer.rows
                most = max(checkpoint // _LEAST_SHARE, -(-left // _LEFT_SHARE), 1) if is_shared else checkpoint
                writer.write(texts.slice(0, most).cast(_SCHEMA))
                texts, checkpoints = texts.slice(most), checkpoints + 1
    return StagedTexts(len(rows), checkpoints, len(keys) - len(rows))


def embed_checkpoint(
    staged: Path,
    number: int,
    embedder: Embedder,
    store: VectorStore,
    *,
    count_tokens: Callable[[list[str]], int | None] = lambda _: None,
    on_progress: OnProgress = ignore,
) -> EmbeddedPart:
    """Embeds one staged row group and writes its vectors as one part, atomically.

    Args:
        staged: Table written by `stage_missing`.
        number: Row group to embed, from 0.
        embedder: Local or remote embedder. Only a remote one can refuse single texts.
        store: Vector store of the same embedder.
        count_tokens: Counts the tokens of texts where none are billed.
        on_progress: Called with (texts done, texts in this row group).

    Raises EmbedderMismatch where `store` belongs to another embedder, and the embedder's own errors.
    """
    if embedder.info.fingerprint != store.fingerprint:
        raise EmbedderMismatch(
            f"the vectors are of embedder {store.fingerprint}, not {embedder.info.fingerprint}", where=str(store.folder)
        )
    keys, texts = _read_checkpoint(staged, number)
    billed_before = embedder.tokens if isinstance(embedder, RemoteEmbedder) else 0
    taken: list[str] = []
    vectors: list[Vectors] = []
    refused: dict[str, str] = {}
    for start in range(0, len(texts), _SHOWN_EVERY):
        end = min(start + _SHOWN_EVERY, len(texts))
        embedded, reasons = _embed(embedder, texts[start:end])
        vectors.append(embedded)
        refused.update((keys[start + row], reason) for row, reason in reasons.items())
        taken += [keys[start + row] for row in range(end - start) if row not in reasons]
        on_progress(end, len(texts))
    part = store.write_part(taken, np.concatenate(vectors)) if taken else None
    billed = embedder.tokens - billed_before if isinstance(embedder, RemoteEmbedder) else None
    return EmbeddedPart(len(taken), billed, count_tokens(texts) if billed is None else billed, part, refused)


def _embed(embedder: Embedder, texts: list[str]) -> tuple[Vectors, Mapping[int, str]]:
    """Returns the vectors of the accepted texts, float32 (n, dimension), in order, and row → reason for the refused
    ones.
    """
    if not isinstance(embedder, RemoteEmbedder):
        return checked_vectors(embedder.embed_documents(texts), texts, embedder.info), {}
    vectors, reasons = embedder.embed_each(texts)
    taken = [text for row, text in enumerate(texts) if row not in reasons]
    return checked_vectors(vectors, taken, embedder.info), reasons


def _read_checkpoint(staged: Path, number: int) -> tuple[list[str], list[str]]:
    with open_table(staged) as file:
        keys, texts = (column.to_pylist() for column in file.read_row_group(number).columns)
    return keys, texts
