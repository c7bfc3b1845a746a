"""Embeds the texts that have no vector yet, a checkpoint at a time: what is on disk by then is never embedded again.

First the texts are staged in the order in which they are embedded; then each checkpoint reads its own, embeds them, and writes one part.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import TableWriter, read_texts
from almanac.index.embedding.embedder import Embedder, RemoteEmbedder, Vectors, checked_vectors
from almanac.index.vectors.store import VectorStore
from almanac.schemas.errors import EmbedderMismatch

CHECKPOINT = 500  # texts
_SHOWN_EVERY = 128  # texts embedded between two moves of the progress bar: four forward passes
_SCHEMA = pa.schema([("text_sha256", pa.string()), ("text", pa.string())])


@dataclass(frozen=True)
class StagedTexts:
    """`texts` without a vector, in `checkpoints` row groups. `cached` are the rows of the chunks table beyond one for each of these texts."""

    texts: int
    checkpoints: int
    cached: int


@dataclass
class EmbeddedPart:
    """A checkpoint. `embedded` texts have their vectors in `part`, None where there was none; `billed` are the tokens that an API billed for them.

    `tokens` are these, else what was counted, None where nobody can. `refused` maps the keys of the other texts to why the embedder does not take them.
    """

    embedded: int
    billed: int | None
    tokens: int | None
    part: Path | None
    refused: dict[str, str] = field(default_factory=dict)


def stage_missing(chunks: Path, store: VectorStore, to: Path, *, checkpoint: int = CHECKPOINT) -> StagedTexts:
    """Writes the texts of a chunks table that have no vector into the table `to`, each once, in row groups of `checkpoint` texts.

    The longest come first: texts of a checkpoint are of like length, so that little is padded, and the slowest part comes before the estimates.
    """
    keys = pq.read_table(chunks, columns=["text_sha256"]).column(0).to_pylist()
    missing = set(store.missing(keys))
    texts = sorted(read_texts(chunks, missing), key=lambda entry: (-len(entry[1]), entry[0]))
    with TableWriter(to, _SCHEMA) as writer:
        for begin in range(0, len(texts), checkpoint):
            part_keys, part_texts = zip(*texts[begin : begin + checkpoint], strict=True)
            writer.write(pa.table({"text_sha256": pa.array(part_keys, pa.string()), "text": pa.array(part_texts, pa.string())}, schema=_SCHEMA))
    return StagedTexts(len(texts), -(-len(texts) // checkpoint), len(keys) - len(texts))


def embed_checkpoint(
    staged: Path,
    number: int,
    embedder: Embedder,
    store: VectorStore,
    *,
    count_tokens: Callable[[list[str]], int | None] = lambda _: None,
    on_progress: OnProgress = ignore,
) -> EmbeddedPart:
    """Embeds the staged texts of row group `number` and writes their part, whole or not at all. `on_progress(done, total)` counts the texts of this part.

    `count_tokens` is asked where nothing is billed. A local model takes every text. Raises EmbedderMismatch where `store` is another embedder's, and what
    the embedder raises.
    """
    if embedder.info.fingerprint != store.fingerprint:
        raise EmbedderMismatch(f"the vectors are of embedder {store.fingerprint}, not {embedder.info.fingerprint}", where=str(store.folder))
    keys, texts = _read_checkpoint(staged, number)
    billed_before = embedder.tokens if isinstance(embedder, RemoteEmbedder) else 0
    taken: list[str] = []
    vectors: list[Vectors] = []
    refused: dict[str, str] = {}
    for start in range(0, len(texts), _SHOWN_EVERY):
        end = min(start + _SHOWN_EVERY, len(texts))
        found, reasons = _embed(embedder, texts[start:end])
        vectors.append(found)
        refused.update((keys[start + row], reason) for row, reason in reasons.items())
        taken += [keys[start + row] for row in range(end - start) if row not in reasons]
        on_progress(end, len(texts))
    part = store.write_part(taken, np.concatenate(vectors)) if taken else None
    billed = embedder.tokens - billed_before if isinstance(embedder, RemoteEmbedder) else None
    return EmbeddedPart(len(taken), billed, count_tokens(texts) if billed is None else billed, part, refused)


def _embed(embedder: Embedder, texts: list[str]) -> tuple[Vectors, Mapping[int, str]]:
    """The vectors of those that the embedder takes, in order, and by row why it does not take the others."""
    if not isinstance(embedder, RemoteEmbedder):
        return checked_vectors(embedder.embed_documents(texts), texts, embedder.info), {}
    vectors, reasons = embedder.embed_each(texts)
    taken = [text for row, text in enumerate(texts) if row not in reasons]
    return checked_vectors(vectors, taken, embedder.info), reasons


def _read_checkpoint(staged: Path, number: int) -> tuple[list[str], list[str]]:
    with pq.ParquetFile(staged, page_checksum_verification=True) as file:
        keys, texts = (column.to_pylist() for column in file.read_row_group(number).columns)
    return keys, texts
