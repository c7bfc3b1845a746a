"""What the last run that confirmed the live version was made from: the same pages under the same rules need no more work."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from almanac.core.durable import write_file
from almanac.flows.pipeline.run import STATE, Run
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.schemas.hashing import canonical_json, file_sha256, sha256
from almanac.schemas.items import Reject
from almanac.schemas.reports import ItemCounts

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


def inputs_of(run: Run) -> str:
    """A hash of all that a run's items are made from: the pages of each source, the stages, what was taken down."""
    pages = {outcome.source: run.raw(outcome.source).index(outcome.crawl).fingerprint for outcome in run.report.sources}
    later = {name: value for name, value in run.stages.items() if name != "page"}
    return sha256(canonical_json([pages, later, sorted(forgotten_urls(run.index_dir))]))


def remember(run: Run, digest: str) -> None:
    """Notes what the live version was confirmed from. Call it once the version is live."""
    version = run.report.version
    assert version is not None
    rejects = _hash_of(run.processed / "rejects.jsonl")
    state = State(
        version=version,
        digest=digest,
        inputs=run.report.inputs,
        items=run.report.items,
        chunks=run.report.chunks.total,
        truncated=run.report.chunks.truncated,
        rejects=rejects,
        validation=run.validation,
    )
    if _read(run.processed / STATE) != state:
        write_file(run.processed / STATE, state.model_dump_json(indent=1))


def nothing_changed(run: Run) -> bool:
    """Whether the live version was confirmed from exactly these pages and rules. Then the run's counts are taken from there."""
    state, live = _read(run.processed / STATE), run.live_if_whole
    path = run.processed / "rejects.jsonl"
    if (
        run.scope.full
        or not run.report.inputs
        or state is None
        or live is None
        or (state.version, state.digest, state.inputs) != (live.version, live.digest, run.report.inputs)
    ):
        return False
    if state.rejects != _hash_of(path):
        return False
    before, counts = state.items, run.report.items
    counts.in_, counts.deduplicated, counts.quarantined = before.in_, before.deduplicated, before.quarantined
    counts.unchanged = run.live_items = before.added + before.changed + before.moved + before.unchanged
    run.report.chunks.total = run.report.chunks.cached = state.chunks
    run.report.chunks.truncated = state.truncated
    lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
    run.rejects = [Reject(**json.loads(line)) for line in lines if line]
    run.validation = state.validation
    return True


def _read(path: Path) -> State | None:
    try:
        state = State.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None
    return state if state.format == _FORMAT else None


def _hash_of(path: Path) -> str:
    return file_sha256(path) if path.is_file() else ""
