"""What another embedder does to the golden questions of a live knowledge base: measured on a sample of its items, for a
plan, before the whole is embedded.

Two small versions of the same items are built in the plan's scratch folder and asked: one of the live version's chunks
and vectors, one of the new chunks, which are embedded. The sample is what the questions expect, what the live version
finds for them, and items from all over. It has fewer wrong passages than the whole, so both recalls are higher in it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.durable import write_file
from almanac.core.logs import get_logger
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, Batches, batches_of, read_batches, read_table, write_table
from almanac.flows.pipeline.embed import check_cost
from almanac.flows.pipeline.handles import Live, Measured, Tables
from almanac.flows.pipeline.question_vectors import UnknownQuestions, kept_questions, known_questions
from almanac.flows.pipeline.run import Run
from almanac.index.build.builder import build_version
from almanac.index.build.derived import derive
from almanac.index.build.job import BuildJob
from almanac.index.embedding.embedder import Vectors
from almanac.index.embedding.tokens import count_tokens
from almanac.index.reader import OpenVersion
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.missing import embed_checkpoint, stage_missing
from almanac.index.vectors.restore import restore_vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.version_store import version_dir
from almanac.query.evaluation.golden import Golden, measure_recall, requests_for, without_history
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Counts, Derived, EmbedderInfo
from almanac.schemas.reports import EmbedderChange, Recall
from almanac.schemas.results import Hit

log = get_logger("almanac.plan")

_SAMPLED = 500  # chunks that a model on this machine embeds
_DEPTH = 20  # hits of a question that belong to the sample: what a right one has to come before
_VERSION = "v0001"
_EmbedQueries = Callable[[Sequence[str]], Vectors]


def try_embedder(
    run: Run, tables: Tables, live: Live | None, sample: int | None
) -> tuple[EmbedderChange | None, Measured | None]:
    """The change of the embedder since the live version, and what it does to the golden questions in a sample of at
    most so many chunks, which are embedded: by default 500 by a model on this machine, none by an API. (None, None)
    where the embedder is the same; the change alone where nothing is measured.

    Of the live version nothing is measured where the vectors of the questions are not kept, since its embedder is not
    declared any more. Raises the embedder's errors.
    """
    if live is None or live.manifest.embedder.fingerprint == run.embedder.fingerprint:
        return None, None
    change = EmbedderChange(was=live.manifest.embedder.model, now=run.embedder.model)
    most = sample if sample is not None else _SAMPLED if run.embed.provider == "local" else 0
    golden = without_history(run.golden)
    if not most or not golden:
        return change, None
    of_live = VectorStore(run.data.vectors, live.manifest.embedder)
    embed_known: _EmbedQueries | None = known_questions(of_live, live.manifest.embedder.query_prompt)
    try:
        hits = _find_live_hits(run, live, golden, embed_known)
    except UnknownQuestions:
        embed_known, hits = None, _find_live_hits(run, live, golden, None)
    chosen = _chosen(batches_of(tables.chunks), golden, hits, most)
    questions = [
        question
        for question, question_hits in zip(golden, hits, strict=True)
        if _can_be_asked(question, question_hits, chosen)
    ]
    if not any(question.is_answerable for question in questions):
        why = f"no answer of a golden question is in a sample of {most:,} chunks; --sample N takes more"
        return change.model_copy(update={"unmeasured": why}), None

    new = _Sample(run, live, run.staging / "after", run.embedder)
    paths = {CHUNKS: tables.chunks, RECORDS: tables.records, DOCUMENTS: tables.documents}
    new.fill({name: batches_of(path) for name, path in paths.items()}, chosen)
    texts = new.chunks.with_name("texts.parquet")
    staged = stage_missing(new.chunks, new.store, texts)
    cost = check_cost(run.embed, count_tokens(run.embed, _texts(texts)))
    if cost is not None and not cost.ok:
        why = f"embedding the sample costs about {cost.value:,}, and embed.max_cost is {cost.limit:,}"
        return change.model_copy(update={"unmeasured": why}), None
    for number in range(staged.checkpoints):
        embed_checkpoint(texts, number, run.model(), new.store)
    ask = kept_questions(new.store, run.model, run.embedder.query_prompt)
    recall, was = new.recall(derive(batches_of(new.chunks), run.embed), ask, questions), None
    if embed_known is not None:
        old = _Sample(run, live, run.staging / "before", live.manifest.embedder)
        old.fill({name: live.tables.batches_of(name) for name in paths}, chosen)
        for folder, sealed in live.tables.readable_folders():
            restore_vectors(old.store, keys_in(old.chunks), folder, sealed)
        was = old.recall(live.manifest.derived, embed_known, questions)
    figures = {"sampled": new.size, "left_out": len(golden) - len(questions), "recall": recall, "live_recall": was}
    path = _written(run.staging / "recall.json", recall)
    live_path = None if was is None else _written(run.staging / "recall-live.json", was)
    return change.model_copy(update=figures), Measured(path, live_path)


def _texts(staged: Path) -> list[str]:
    return [text for batch in read_batches(staged, ["text"]) for text in batch.column(0).to_pylist()]


def _written(path: Path, recall: Recall) -> Path:
    write_file(path, recall.model_dump_json(), synced=False)
    return path


def _find_live_hits(
    run: Run, live: Live, golden: Sequence[Golden], embed_known: _EmbedQueries | None
) -> list[list[Hit]]:
    """The live version's first hits of each question. Without vectors of the questions, it is asked by their words
    alone; one that is damaged finds nothing.
    """
    size = live.manifest.embedder.dimension
    embed = embed_known or (lambda texts: np.full((len(texts), size), size**-0.5, dtype=np.float32))
    requests = requests_for(run.declaration, embed, golden, k=_DEPTH, mode=None if embed_known else "lexical")
    try:
        with OpenVersion(run.index_dir, live.manifest.version) as opened:
            retriever = Retriever(run.declaration, opened, embed)
            return [retriever.find(request).hits for request in requests]
    except DamagedVersion as error:
        log.warning("the live version is damaged", kb=run.kb, version=live.manifest.version, error=error.message)
        return [[] for _ in golden]


def _chosen(chunks: Batches, golden: Sequence[Golden], hits: Sequence[list[Hit]], most: int) -> dict[str, str]:
    """Document id → URL of the items of the sample, as long as they have at most `most` chunks together: what questions
    expect, then the first hit of each, the second of each and so on, then others from all over.
    """
    sizes, urls = Counter[str](), dict[str, str]()
    for batch in chunks(["document_id", "url"]):
        ids = batch.column("document_id").to_pylist()
        sizes.update(ids)
        urls.update(zip(ids, batch.column("url").to_pylist(), strict=True))
    ids = frozenset[str]().union(*(question.document_ids for question in golden))
    wanted = frozenset[str]().union(*(question.urls for question in golden))
    expected = (
        document_id for document_id, url in urls.items() if document_id in ids or not wanted.isdisjoint(_names_of(url))
    )
    hit_ids = (hit.document_id for rank in zip_longest(*hits) for hit in rank if hit is not None)
    others = list(urls)[:: max(1, sum(sizes.values()) // most)]
    chosen: dict[str, str] = {}
    for document_id in chain(expected, hit_ids, others):
        if document_id in urls and document_id not in chosen and sizes[document_id] <= most:
            chosen[document_id] = urls[document_id]
            most -= sizes[document_id]
    return chosen


def _names_of(url: str) -> tuple[str, str]:
    return unquote(url), unquote(url.partition("#")[0])


def _can_be_asked(golden: Golden, hits: Sequence[Hit], chosen: Mapping[str, str]) -> bool:
    """Whether nothing answers the question, or its answer is in the sample."""
    if golden.document_ids or golden.urls:
        return any(golden.is_from(*item) for item in chosen.items())
    return not golden.parts or any(hit.document_id in chosen and golden.is_answered_by(hit) for hit in hits)


class _Sample:
    """A version of some items in a folder of its own."""

    def __init__(self, run: Run, live: Live, folder: Path, embedder: EmbedderInfo) -> None:
        self._run, self._live, self._folder, self._embedder = run, live, folder, embedder
        self._sizes: dict[str, int] = {}
        self.chunks = folder / CHUNKS
        self.store = VectorStore(folder / "vectors", embedder)

    @property
    def size(self) -> int:
        """Number of chunks."""
        return self._sizes[CHUNKS]

    def fill(self, tables: Mapping[str, Batches], items: Mapping[str, str]) -> None:
        """Takes the rows of these items from the tables, and the vectors that the data directory has."""
        ids = pa.array(list(items), pa.string())
        for name, batches in tables.items():
            rows = [batch.filter(pc.is_in(batch.column("document_id"), value_set=ids)) for batch in batches(None)]
            if rows:
                self._write(name, pa.concat_tables(rows))
        keys, stored_vectors = keys_in(self.chunks).to_pylist(), VectorStore(self._run.data.vectors, self._embedder)
        if known := sorted(set(keys) - set(stored_vectors.missing(keys))):
            self.store.write_part(known, stored_vectors.read(known))

    def _write(self, name: str, table: pa.Table) -> None:
        write_table(self._folder / name, table)
        self._sizes[name] = len(table)

    def recall(self, derived: Derived, ask: _EmbedQueries, golden: Sequence[Golden]) -> Recall:
        """Builds the version, and asks it. Chunks without a vector, which an API refused, are left out."""
        run, chunks = self._run, read_table(self.chunks)
        if lost := self.store.missing(chunks.column("text_sha256").to_pylist()):
            self._write(CHUNKS, chunks.filter(pc.invert(pc.is_in(chunks.column("text_sha256"), pa.array(lost)))))
        records, documents = (self._folder / name if name in self._sizes else None for name in (RECORDS, DOCUMENTS))
        job = BuildJob(
            kb=run.kb,
            version_dir=version_dir(self._folder, _VERSION),
            collection=run.declaration.collection,
            language=run.declaration.language,
            chunks=self.chunks,
            records=records,
            documents=documents,
            vectors_root=self._folder / "vectors",
            embedder=self._embedder,
        )
        build_version(job)
        counts = Counts(**{name: self._sizes.get(f"{name}.parquet", 0) for name in Counts.model_fields})
        manifest_fields: dict[str, Any] = {
            "version": _VERSION,
            "embedder": self._embedder,
            "derived": derived,
            "counts": counts,
        }
        manifest_fields |= {"segments": [], "files": [], "calibration": None}
        manifest = self._live.manifest.model_copy(update=manifest_fields)
        with OpenVersion(self._folder, _VERSION, manifest=manifest) as opened:
            return measure_recall(run.declaration, opened, ask, golden)
