"""Plans a run: the same survey, written to a scratch folder. The data directory is only read."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from almanac.core.progress import ignore
from almanac.core.settings import DataDir
from almanac.core.tables import batches_of, read_rows
from almanac.flows.pipeline.acquire import acquire, read_outcomes
from almanac.flows.pipeline.batches import do_all
from almanac.flows.pipeline.changed_embedder import try_embedder
from almanac.flows.pipeline.chunk import chunk
from almanac.flows.pipeline.compare import compare
from almanac.flows.pipeline.crawls_ahead import crawls_ahead
from almanac.flows.pipeline.earlier_runs import find_live, newest_first
from almanac.flows.pipeline.embed import check_cost
from almanac.flows.pipeline.handles import Rejects, Tables
from almanac.flows.pipeline.item_batches import cut_batch, is_much_to_cut, stage_items
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.map import map_pages
from almanac.flows.pipeline.page_batches import is_worth_sharing, map_batch, stage_pages
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.survey import Survey, begin_survey, confirmed, is_live, judge_run, judged
from almanac.flows.pipeline.validate import require_records, validate
from almanac.index.embedding.tokens import count_tokens
from almanac.index.vectors.keys import RowNumbers, keys_in
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import NoRecords
from almanac.schemas.manifest import Verdict
from almanac.schemas.reports import Outcome, PlanResult
from almanac.schemas.scope import Scope
from almanac.transforms.remedies import remedies_of

_SAMPLE = 32  # texts that tell a rate
_MUCH = 300  # texts, from which a rate is worth to be measured
_REPORTS = 20  # of earlier runs that are looked through


def plan(
    declaration: Declaration,
    data: DataDir,
    scope: Scope = Scope(),  # noqa: B008  # frozen
    sample: int | None = None,
) -> PlanResult:
    """Crawls as a run would, and counts. Raises the errors that a run raises before the gate; the `report` of a
    NoRecords has `sources` and `rejects`, too.

    Golden questions are asked where the embedder is another one than the live version's, on a `sample` of at most so
    many chunks, which are embedded for it: by default 500 by a model on this machine, and none by an API, which costs.
    """
    with tempfile.TemporaryDirectory(prefix="almanac-plan-") as scratch:
        run = Run(declaration, data, scope, scratch=Path(scratch))
        ledger = Ledger(run)
        try:
            surveyed = survey(ledger)
        except NoRecords as nothing:
            nothing.about(declaration.handle)
            sources = [outcome.model_dump() for outcome in read_outcomes(run)]
            nothing.report = {
                **nothing.as_json(),
                "kb": run.kb,
                "sources": sources,
                "rejects": _as_json(ledger.rejects),
            }
            raise
        change, measured = try_embedder(run, surveyed.tables, surveyed.live, sample)
        if measured is not None:
            counted = surveyed.pages, surveyed.validated, surveyed.comparison
            surveyed = replace(surveyed, verdict=judge_run(run, *counted, measured))
        foreseen = foresee(run, surveyed)
        seconds = _seconds(run, surveyed, foreseen.chunks_to_embed, sum(ledger.seconds.values()))
        facts = {"rejects": _as_json(surveyed.validated.rejects), "seconds": seconds, "embedder": change}
        return foreseen.model_copy(update=facts)


def survey(ledger: Ledger) -> Survey:
    """The steps of a refresh that embed nothing, in their order and without Prefect, which would be a third of what a
    plan takes.
    """
    run = ledger.run
    known = begin_survey(ledger)
    with ledger.stage("crawl"), crawls_ahead(run, known) as crawls:
        pages = tuple(
            acquire(run, source, known, crawls.on_progress_of(source, ignore), crawls.take)
            for source in run.declaration.sources
        )
    live = find_live(run)
    if (surveyed := confirmed(ledger, pages, live)) is not None:
        return surveyed
    with ledger.stage("map"):
        works = stage_pages(run, pages) if is_worth_sharing(run, pages) else None
        do_all(map_batch, run, works)
        items = ledger.note(map_pages(run, pages, batches=works))
    with ledger.stage("validate"):
        validated = ledger.note(validate(run, items))
        require_records(run, pages, items, validated)
    with ledger.stage("chunk"):
        comparison = ledger.note(compare(run, items, validated, live))
        texts = stage_items(run, comparison, live) if is_much_to_cut(run, comparison, live) else None
        do_all(cut_batch, run, texts)
        tables = ledger.note(chunk(run, comparison, live, batches=texts))
    return judged(ledger, live, pages, items, validated, comparison, tables)


def _seconds(run: Run, surveyed: Survey, texts: int, survey_took: float) -> float | None:
    """About what a run takes: the survey as long as it took now, and embedding at the rate of the last run that
    embedded much, else at this machine's.

    None where an API embeds and no run has told its rate.
    """
    if not texts:
        return round(survey_took, 1)
    reports = islice(newest_first(run.data, run.kb), _REPORTS)
    same = (
        report
        for report in reports
        if report.stages.get("embedder") == run.stages["embedder"] and report.chunks.embedded >= _SAMPLE
    )
    last = next(same, None)
    if last is not None:
        rate = last.seconds.get("embed", 0.0) / last.chunks.embedded
    elif texts < _MUCH:
        rate = 0.0  # a matter of seconds, which loading a model would double
    elif run.embed.provider == "local":
        rate = _rate_here(run, surveyed, texts)
    else:
        return None
    return round(survey_took + rate * texts, 1)


def _rate_here(run: Run, surveyed: Survey, texts: int) -> float:
    """Seconds that this machine takes for a text, by texts from all over the missing ones."""
    rows = _missing(run, surveyed.tables)[:: max(1, texts // _SAMPLE)][:_SAMPLE]
    sample = list(_texts(surveyed.tables, rows))
    model = run.model()
    model.embed_documents(sample[:1])  # the first one is slower
    began = time.perf_counter()
    model.embed_documents(sample)
    return (time.perf_counter() - began) / len(sample)


def _as_json(files: Iterable[Rejects]) -> list[dict[str, Any]]:
    return [reject.as_json() for rejects in files for reject in rejects.read()]


def foresee(run: Run, surveyed: Survey) -> PlanResult:
    """The plan of a run after its survey, without the items that would be quarantined."""
    embed = run.embed
    missing = _missing(run, surveyed.tables) if not is_live(run, surveyed) else np.zeros(0, dtype=np.int64)
    tokens = count_tokens(embed, _texts(surveyed.tables, missing)) if len(missing) else 0
    affordable = check_cost(embed, tokens)
    checks = [*surveyed.verdict.checks, *([affordable] if affordable else [])]
    would_refuse = not surveyed.is_passed or not all(check.ok for check in checks)
    sources = read_outcomes(run, surveyed.comparison.sources)
    return PlanResult(
        kb=run.kb,
        outcome="gate_refused" if would_refuse else _outcome(run, surveyed),
        pages=sum((page.counts for page in surveyed.pages), PageCounts()),
        items=surveyed.comparison.counts,
        chunks_to_embed=len(missing),
        tokens=tokens,
        cost=embed.cost(tokens),
        gate={"would_refuse": would_refuse, "checks": [check.model_dump() for check in checks]},
        remedies=remedies_of(
            run.declaration, Verdict(verdict="refused" if would_refuse else "passed", checks=checks), sources
        ),
        limits_reached=[limit for source in sources for limit in source.limits_reached],
        sources=sources,
    )


def _outcome(run: Run, surveyed: Survey) -> Outcome:
    if is_live(run, surveyed):
        return "unchanged"
    return "published_with_rejects" if surveyed.validated.rejected else "published"


def _missing(run: Run, tables: Tables) -> RowNumbers:
    """The rows of texts without a vector, each text once."""
    return VectorStore(run.data.vectors, run.embedder).absent(keys_in(tables.chunks))


def _texts(tables: Tables, rows: RowNumbers) -> Iterator[str]:
    for batch, _ in read_rows(batches_of(tables.chunks), ["embedded_text"], rows):
        yield from batch.column(0).to_pylist()
