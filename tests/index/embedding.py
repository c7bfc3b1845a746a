"""Embeds what is missing as a run does: texts staged, then one checkpoint after the other."""

from collections.abc import Callable
from pathlib import Path

from almanac.core.progress import OnProgress, ignore
from almanac.index.embedding.embedder import Embedder
from almanac.index.vectors.missing import CHECKPOINT, EmbeddedPart, StagedTexts, embed_checkpoint, stage_missing
from almanac.index.vectors.vector_store import VectorStore


def embed_missing(
    chunks: Path,
    store: VectorStore,
    load: Callable[[], Embedder],
    *,
    checkpoint: int = CHECKPOINT,
    on_progress: OnProgress = ignore,
) -> tuple[StagedTexts, list[EmbeddedPart]]:
    """`load` is asked for the embedder only where a text has no vector."""
    staged = chunks.with_name("texts.parquet")
    texts = stage_missing(chunks, store, staged, checkpoint=checkpoint)
    return texts, [
        embed_checkpoint(staged, number, load(), store, on_progress=on_progress) for number in range(texts.checkpoints)
    ]
