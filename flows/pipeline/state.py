"""The inputs from which the live version was last confirmed. A run with the same inputs has nothing to map."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from almanac.core.durable import write_file
from almanac.core.tables import CHUNKS, DOCUMENTS, DUPLICATES, RECORDS, REJECTS
from almanac.flows.pipeline.fingerprints import golden_of
from almanac.flows.pipeline.handles import Comparison, Duplicates, Live, MappedSource, Pages, Rejects, Tables, Validated
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.validation_results import judged_by, write_judged
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.crawl_outcome import SourceTexts
from almanac.schemas.hashing import canonical_json, checked, file_sha256, sha256, unchecked
from almanac.schemas.reports import ExpectationResult, ItemCounts, RunReport
from almanac.transforms.gate import refusing

STATE = "state.json"
_FORMAT = 2


class State(BaseModel):
    """`inputs` is the hash of pages and stage fingerprints. `rejects` and `duplicates` are the hashes of rejects.jsonl
    and duplicates.jsonl, and `vectors` is that of the names of all vector parts; `tables` has those of the tables in
    data/processed, by file name.

    `texts` says by source what extraction made of its pages. `validation` has the results of the declared rules without
    samples of values, which must not outlive a takedown here; `judged_by` is the run that keeps them.
    """

    format: int = _FORMAT
    version: str
    digest: str
    inputs: str
    items: ItemCounts
    chunks: int
    truncated: int | None = None
    rejects: str
    vectors: str
    tables: dict[str, str]
    duplicates: str
    validation: list[ExpectationResult] = []
    judged_by: str | None = None
    texts: dict[str, SourceTexts] = {}
    golden: str = ""  # what the live version was asked last, by `golden_of`


def inputs_of(run: Run, pages: tuple[Pages, ...]) -> str:
    """A hash of everything that determines a run's items: the pages of each source, the stage fingerprints, and the
    takedowns.
    """
    later = {name: value for name, value in run.stages.items() if name != "page"}
    return sha256(
        canonical_json(
            [{page.source: page.fingerprint for page in pages}, later, sorted(forgotten_urls(run.index_dir))]
        )
    )


def remember(run: Run, report: RunReport, digest: str) -> None:
    """Records the inputs of the live version. Call it when the version is live and the report written."""
    if report.version is None:
        raise ValueError(f"run {run.run_id} confirmed no version")
    before = _read(run.processed / STATE)
    if report.recall is not None and report.recall.questions + report.recall.unanswerable:
        golden_fingerprint = golden_of(run.declaration, run.golden)
    else:
        golden_fingerprint = (
            before.golden if before is not None and (before.version, before.digest) == (report.version, digest) else ""
        )
    state = State(
        version=report.version,
        digest=digest,
        inputs=report.inputs,
        items=report.items,
        chunks=report.chunks.total,
        truncated=report.chunks.truncated,
        rejects=_hash_of(run.processed / REJECTS),
        duplicates=_hash_of(run.processed / DUPLICATES),
        vectors=_vector_parts(run),
        tables=_hashes_of_tables(run),
        validation=report.expectations,
        judged_by=judged_by(report),
        golden=golden_fingerprint,
        texts={source.source: SourceTexts.model_validate(source, from_attributes=True) for source in report.sources},
    )
    _write(run.processed, state)


def change_state(processed: Path, change: Callable[[Any], Any]) -> None:
    """Rewrites the recorded state as `change` makes it of its JSON value, which may have URLs in it."""
    state = _read(processed / STATE)
    if state is not None:
        _write(processed, State.model_validate(change(state.model_dump(mode="json", by_alias=True))))


def _write(processed: Path, state: State) -> None:
    if _read(processed / STATE) != state:
        write_file(processed / STATE, json.dumps(checked(state.model_dump(mode="json", by_alias=True)), indent=1))


def confirmed_before(run: Run, inputs: str, live: Live | None) -> tuple[Validated, Comparison, Tables] | None:
    """The handles of mapping to chunking, restored without work; None unless the live version was confirmed from
    exactly these inputs.
    """
    state, rejected, dropped = _read(run.processed / STATE), run.processed / REJECTS, run.processed / DUPLICATES
    if run.scope.full or not inputs or state is None or live is None or not live.is_whole:
        return None
    if (state.version, state.digest, state.inputs) != (live.manifest.version, live.manifest.digest, inputs):
        return None
    if (state.rejects, state.duplicates) != (_hash_of(rejected), _hash_of(dropped)):
        return None
    tables = (run.processed / RECORDS, run.processed / DOCUMENTS, run.processed / CHUNKS)
    if state.tables != _hashes_of_tables(run):
        return None
    before = state.items
    present = before.added + before.changed + before.moved + before.unchanged
    counts = ItemCounts(
        **{"in": before.in_}, deduplicated=before.deduplicated, quarantined=before.quarantined, unchanged=present
    )
    broken = sum(not result.ok for result in state.validation) if state.validation else None
    rejects = Rejects(rejected, before.quarantined) if before.quarantined else Rejects()
    duplicates = Duplicates(dropped, before.deduplicated) if before.deduplicated else Duplicates()
    sources = tuple(MappedSource(source, 0, texts) for source, texts in state.texts.items())
    return (
        Validated(
            (rejects,),
            None,
            write_judged(run.staging / "validation.json", state.validation),
            broken,
            refusing(state.validation),
            state.judged_by,
        ),
        Comparison(
            counts, present, tables[0], tables[1], None, duplicates, sources, compared_with=live.manifest.version
        ),
        Tables(*tables, state.chunks, state.truncated, live.manifest.digest),
    )


def tables_are_of(run: Run, version: str) -> bool:
    """Whether the tables in data/processed are still those from which a version was last confirmed."""
    state = _read(run.processed / STATE)
    return state is not None and state.version == version and state.tables == _hashes_of_tables(run)


def is_to_be_asked(run: Run, live: Live) -> bool:
    """Whether there are golden questions that the live version was not asked, neither when it was made nor since:
    others, or asked otherwise.
    """
    golden_fingerprint, state = golden_of(run.declaration, run.golden), _read(run.processed / STATE)
    since = (
        state.golden
        if state is not None and (state.version, state.digest) == (live.manifest.version, live.manifest.digest)
        else ""
    )
    return golden_fingerprint not in ("", live.manifest.lineage.get("golden"), since)


def vectors_as_confirmed(run: Run) -> bool:
    """Whether the vector store has the same parts as when the live version was last confirmed; then it lacks no vector
    of it.
    """
    state = _read(run.processed / STATE)
    return state is not None and state.vectors == _vector_parts(run)


def _vector_parts(run: Run) -> str:
    return sha256(canonical_json(VectorStore(run.data.vectors, run.embedder).parts()))


def judges_of_live(processed: Path) -> set[str]:
    """The run whose results of declared rules belong to the live version, as a set."""
    state = _read(processed / STATE)
    return set() if state is None or state.judged_by is None else {state.judged_by}


def _read(path: Path) -> State | None:
    try:
        state = State.model_validate(unchecked(json.loads(path.read_bytes())))
    except (OSError, ValueError):
        return None
    return state if state.format == _FORMAT else None


def _hashes_of_tables(run: Run) -> dict[str, str]:
    return {name: _hash_of(run.processed / name) for name in (RECORDS, DOCUMENTS, CHUNKS)}


def _hash_of(path: Path) -> str:
    return file_sha256(path) if path.is_file() else ""
