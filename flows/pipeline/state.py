"""What the last run that confirmed the live version was made from: the same pages under the same rules need no more work."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from almanac.core.durable import write_file
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.flows.pipeline.handles import Chunks, Comparison, Live, Pages, Rejects, Validated
from almanac.flows.pipeline.run import Run
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.schemas.hashing import canonical_json, file_sha256, sha256
from almanac.schemas.reports import ItemCounts, RunReport

STATE = "state.json"
_FORMAT = 1


class State(BaseModel):
    """`inputs` is the hash of a run's pages and stages, `rejects` that of the file which names what it quarantined."""

    format: int = _FORMAT
    version: str
    digest: str
    inputs: str
    items: ItemCounts
    chunks: int
    truncated: int | None = None
    rejects: str
    validation: list[dict[str, Any]] = []


def inputs_of(run: Run, pages: tuple[Pages, ...]) -> str:
    """A hash of all that a run's items are made from: the pages of each source, the stages, what was taken down."""
    later = {name: value for name, value in run.stages.items() if name != "page"}
    return sha256(canonical_json([{one.source: one.fingerprint for one in pages}, later, sorted(forgotten_urls(run.index_dir))]))


def remember(run: Run, report: RunReport, digest: str, validation: list[dict[str, Any]]) -> None:
    """Notes what the live version was confirmed from: once the version is live, and the report is written. `validation` has a row for each expectation."""
    if report.version is None:
        raise ValueError(f"run {run.run_id} confirmed no version")
    state = State(
        version=report.version,
        digest=digest,
        inputs=report.inputs,
        items=report.items,
        chunks=report.chunks.total,
        truncated=report.chunks.truncated,
        rejects=_hash_of(run.processed / "rejects.jsonl"),
        validation=validation,
    )
    if _read(run.processed / STATE) != state:
        write_file(run.processed / STATE, state.model_dump_json(indent=1))


def confirmed_before(run: Run, inputs: str, live: Live | None) -> tuple[Validated, Comparison, Chunks] | None:
    """What the steps from mapping to chunking would hand on, where the live version was confirmed from exactly these pages and rules."""
    state, path = _read(run.processed / STATE), run.processed / "rejects.jsonl"
    if run.scope.full or not inputs or state is None or live is None or not live.is_whole:
        return None
    if (state.version, state.digest, state.inputs) != (live.manifest.version, live.manifest.digest, inputs) or state.rejects != _hash_of(path):
        return None
    tables = [run.processed / name for name in (RECORDS, DOCUMENTS, CHUNKS)]
    if not all(table.is_file() for table in tables):
        return None
    before = state.items
    present = before.added + before.changed + before.moved + before.unchanged
    counts = ItemCounts(**{"in": before.in_}, deduplicated=before.deduplicated, quarantined=before.quarantined, unchanged=present)
    report = run.staging / "validation.json"
    write_file(report, canonical_json(state.validation))
    broken = sum(not row["ok"] for row in state.validation) if state.validation else None
    rejects = Rejects(path, before.quarantined) if before.quarantined else Rejects()
    return (
        Validated((rejects,), None, report, broken),
        Comparison(counts, present, tables[0], tables[1], None),
        Chunks(tables[2], state.chunks, state.truncated, live.manifest.digest),
    )


def _read(path: Path) -> State | None:
    try:
        state = State.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None
    return state if state.format == _FORMAT else None


def _hash_of(path: Path) -> str:
    return file_sha256(path) if path.is_file() else ""
