"""Steps: the texts that have no vector yet, staged, priced, and embedded by checkpoints of at most 500."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from almanac.core.durable import remove, write_file
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import read_batches, read_table
from almanac.flows.pipeline.batches import at_batch
from almanac.flows.pipeline.handles import Embedded, Items, Live, Rejects, Tables, Texts, Validated
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.validate import write_rows
from almanac.flows.pipeline.worker import model
from almanac.index.embedding.tokens import count_tokens
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.missing import CHECKPOINT, EmbeddedPart, embed_checkpoint, stage_missing
from almanac.index.vectors.restore import restore_vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import GateRefused, OperationalError
from almanac.schemas.items import Reject
from almanac.schemas.manifest import Check, Verdict
from almanac.schemas.reports import ChunkCounts
from almanac.transforms.item_changes import ItemKey

log = get_logger("almanac.embed")


class LostVectors(NamedTuple):
    """Texts without a vector in the vector store: those whose vector was `restored` from the live version, and those
    that are `missing` still.
    """

    restored: int
    missing: int


def restore_lost(run: Run, tables: Tables, live: Live | None) -> LostVectors:
    """Restores vectors that the vector store has lost and the live version still has."""
    store, keys = VectorStore(run.data.vectors, run.embedder), keys_in(tables.chunks)
    restored, absent = 0, len(store.absent(keys))
    for folder, sealed in live.tables.readable_folders() if live is not None and absent else []:
        restored += restore_vectors(store, keys, folder, sealed)
    return LostVectors(restored, absent - restored)


def embeds_on_workers(run: Run) -> bool:
    """Whether workers of a cluster embed. An API is asked by the run: it sets the pace, its key stays on one machine,
    and one process keeps to its limits.
    """
    return run.declaration.run.engine != "local" and run.embed.provider == "local"


def stage_texts(run: Run, tables: Tables, live: Live | None) -> Texts:
    """Finds the texts without a vector. Vectors that the store has lost, and the live version still has, are restored
    from it.

    Tokens are counted where the cost of embedding is limited.
    """
    table, embed = run.staging / "texts.parquet", run.embed
    # of texts that were staged before, and whose vectors were damaged
    for note in run.staging.glob(_note_of(run, "*").name):
        remove(note)
    restore_lost(run, tables, live)
    store, is_shared = VectorStore(run.data.vectors, run.embedder), embeds_on_workers(run)
    staged = stage_missing(tables.chunks, store, table, checkpoint=CHECKPOINT, is_shared=is_shared)
    texts = (text for batch in read_batches(table, ["text"]) for text in batch.column(0).to_pylist())
    tokens = None if embed.max_cost is None else count_tokens(embed, texts)
    return Texts(table, staged.texts, staged.checkpoints, staged.cached, tokens)


def check_cost(embed: Embed, tokens: int | None) -> Check | None:
    """The gate's check of what embedding so many tokens costs; None where nothing limits it."""
    if embed.max_cost is None:
        return None
    cost = embed.cost(tokens)
    return Check(name="max_cost", value=cost, limit=embed.max_cost, ok=cost is None or cost <= embed.max_cost)


def require_affordable(ledger: Ledger, texts: Texts, verdict: Verdict) -> None:
    """Raises GateRefused where embedding the texts would cost more than `embed.max_cost`, which then is part of the
    noted verdict.
    """
    run = ledger.run
    check = check_cost(run.embed, texts.tokens) if texts.size else None
    if check is None or check.ok:
        return
    ledger.note(Verdict(verdict="refused", checks=[*verdict.checks, check]))
    raise GateRefused(
        f"embedding {texts.size:,} texts of about {texts.tokens:,} tokens costs about {check.value:,}, and "
        f"embed.max_cost is {check.limit:,}",
        where=str(run.declaration.path),
        hint=(
            "nothing was embedded, and what is published serves on; almanac plan KB tells the cost; raise "
            "embed.max_cost if it is right"
        ),
    )


def embed_texts(run: Run, texts: Texts, first: int, last: int, on_progress: OnProgress = ignore) -> Embedded:
    """Embeds the checkpoints from `first` to `last`, numbered from 1, each on disk before the next begins;
    `on_progress` counts the texts of the run.

    The client of an API owns the retries: it knows which requests failed, and what the server asks for. This step is
    not tried again.
    """
    store, embedder = VectorStore(run.data.vectors, run.embedder), run.model()
    counted = partial(count_tokens, run.embed)
    parts: list[EmbeddedPart] = []
    for number in range(first - 1, last):
        shown = partial(_count_on, on_progress, number * CHECKPOINT, texts.size)
        part = embed_checkpoint(texts.table, number, embedder, store, count_tokens=counted, on_progress=shown)
        parts.append(part)
        name = part.part.stem[:12] if part.part is not None else "none"
        log.info(
            "checkpoint",
            kb=run.kb,
            number=number + 1,
            of=texts.count,
            texts=part.embedded,
            tokens=part.tokens,
            part=name,
        )
    refused = {key: reason for part in parts for key, reason in part.refused.items()}
    path = run.staging / f"refused-{first}.json" if refused else None
    if path is not None:
        write_file(path, json.dumps(refused), synced=False)
    billed = [part.billed for part in parts if part.billed is not None]
    return Embedded(sum(part.embedded for part in parts), sum(billed) if billed else None, path)


def embed_batch(run: Run, texts: Texts, number: int) -> int:
    """Embeds a checkpoint as `embed_texts` does, in a worker's process, and returns the number of its texts. For local
    models, which refuse no text.

    One that is on disk is noted in the staging folder: where a worker dies, its others are not embedded again.
    """
    note = _note_of(run, number)
    if not note.exists():
        with at_batch(run, f"checkpoint {number} of {texts.count} of the texts to embed"):
            store = VectorStore(run.data.vectors, run.embedder)
            part = embed_checkpoint(texts.table, number - 1, model(run.embed, run.data), store)
            write_file(note, str(part.embedded), synced=False)
        log.info("checkpoint", kb=run.kb, number=number, of=texts.count, texts=part.embedded)
    return int(note.read_text())


def _note_of(run: Run, number: int | str) -> Path:
    return run.staging / f"embedded-{number}"


def _count_on(on_progress: OnProgress, before: int, total: int, done: int, _of_part: int) -> None:
    on_progress(before + done, total)


def embedded_counts(run: Run, tables: Tables, texts: Texts, parts: Sequence[Embedded]) -> ChunkCounts:
    """What embedding came to, for the report."""
    billed = [part.tokens for part in parts if part.tokens is not None]
    tokens = sum(billed) if billed else None
    return ChunkCounts(
        total=tables.total,
        embedded=sum(part.texts for part in parts),
        cached=min(texts.cached, tables.total),
        truncated=tables.truncated,
        tokens=tokens,
        cost=run.embed.cost(tokens),
    )


def refused_texts(parts: Sequence[Embedded]) -> dict[str, str]:
    """Text key → the reason for which the embedder refused the text."""
    return {
        key: reason
        for part in parts
        if part.refused is not None
        for key, reason in json.loads(part.refused.read_bytes()).items()
    }


def quarantine_refused(
    run: Run, items: Items | None, validated: Validated, tables: Tables, parts: Sequence[Embedded]
) -> Validated:
    """Takes out the items of which a text was refused. Raises OperationalError without `items`: texts of an unchanged
    knowledge base had vectors before, and no table says which items they belong to.
    """
    refused = refused_texts(parts)
    first = next(iter(refused.values()))
    if items is None:
        raise OperationalError(
            f"{len(refused)} texts that were embedded before are refused now; the first: {first}",
            where=run.embedder.model,
            hint=f"almanac run {run.declaration.handle} --full rejects their items",
        )
    reasons: dict[ItemKey, str] = {}
    for batch in read_batches(tables.chunks, ["source", "document_id", "text_sha256"], rows=10_000):
        for source, document_id, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if key in refused:
                reasons.setdefault((source, document_id), refused[key])
    before = validated.quarantined_rows()
    columns = (column.to_pylist() for column in read_table(items.table, ["source", "document_id", "url"]).columns)
    rows = {
        row: item_key
        for row, item_key in enumerate(zip(*columns, strict=True))
        if item_key[:2] in reasons and row not in before
    }
    rejects = [
        Reject(source, url, document_id, "embed", reasons[source, document_id])
        for source, document_id, url in rows.values()
    ]
    log.warning("items are rejected: the embedder refuses them", kb=run.kb, items=len(rows), first=first)
    return Validated(
        rejects=(*validated.rejects, Rejects.write(run.staging / "rejects-embed.jsonl", rejects)),
        quarantined=write_rows(run.staging / "quarantined-embed.json", before | rows.keys()),
        report=validated.report,
        broken=validated.broken,
        checks=validated.checks,
        judged_by=validated.judged_by,
    )
