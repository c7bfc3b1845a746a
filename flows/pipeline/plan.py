"""What a run would do now: the same road as far as the gate, on a scratch copy. Nothing in the data directory is touched."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, read_batches
from almanac.flows.pipeline.run import Run, Show, silent
from almanac.flows.pipeline.steps import check_cost
from almanac.flows.pipeline.survey import is_live, passed, survey
from almanac.index.embedding.tokens import count_tokens
from almanac.index.vectors.store import VectorStore
from almanac.schemas.declaration import Declaration
from almanac.schemas.reports import Outcome, PlanResult
from almanac.schemas.scope import Scope


def plan(declaration: Declaration, data: DataDir, scope: Scope = Scope(), *, show: Show = silent) -> PlanResult:  # noqa: B008  # frozen
    """Asks the sites as a run would, and counts. Raises what the run would raise before the gate, such as NoRecords.

    Golden questions are not asked: there is no version yet that could answer them.
    """
    with tempfile.TemporaryDirectory(prefix="almanac-plan-") as scratch:
        run = Run(declaration, data, scope, show=show, scratch=Path(scratch))
        survey(run)
        return foresee(run)


def foresee(run: Run) -> PlanResult:
    """What a run that has been surveyed is about to do."""
    assert run.report.gate is not None
    embed = run.declaration.embed
    missing = set() if is_live(run) else _missing(run)
    tokens = count_tokens(embed, _texts(run, missing)) if missing else 0
    affordable = check_cost(embed, tokens)
    checks = [*run.report.gate.checks, *([affordable] if affordable else [])]
    would_refuse = not passed(run) or not all(check.ok for check in checks)
    return PlanResult(
        kb=run.kb,
        outcome="gate_refused" if would_refuse else _outcome(run),
        pages=run.report.pages.model_copy(),
        items=run.report.items.model_copy(),
        chunks_to_embed=len(missing),
        tokens=tokens,
        cost=embed.cost(tokens),
        gate={"would_refuse": would_refuse, "checks": [check.model_dump() for check in checks]},
        sources=run.report.sources,
    )


def _outcome(run: Run) -> Outcome:
    if is_live(run):
        return "unchanged"
    return "published_with_rejects" if run.rejects else "published"


def _missing(run: Run) -> set[str]:
    """Keys of the texts that have no vector yet; none where nothing was cut, for nothing changed."""
    path = run.tables / CHUNKS
    if not path.is_file():
        return set()
    keys = (key for batch in read_batches(path, ["text_sha256"], rows=10_000) for key in batch.column(0).to_pylist())
    return set(VectorStore(run.data.vectors, run.embedder).missing(keys))


def _texts(run: Run, keys: set[str]) -> Iterator[str]:
    left = set(keys)
    for batch in read_batches(run.tables / CHUNKS, ["text_sha256", "embedded_text"]):
        for key, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if key in left:
                left.remove(key)
                yield text
