"""The whole refresh: from taking the lock to letting go of what retention no longer wants. `do` carries out a step, and nothing here knows how."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import structlog

from almanac.core.durable import REMOVED, TEMPORARY, remove, sweep
from almanac.core.progress import Show, silent
from almanac.flows.pipeline.earlier_runs import ending_of
from almanac.flows.pipeline.embed import check_cost, embed_texts, embedded_counts, quarantine_refused, spans_of, stage_texts
from almanac.flows.pipeline.handles import Comparison, Embedded, Texts
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.publish import build, manifest_of, measure, publish, publish_finished, verify
from almanac.flows.pipeline.question_vectors import question_key
from almanac.flows.pipeline.retention import apply_retention
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import remember
from almanac.flows.pipeline.survey import Do, Survey, call_directly, cut, finished_before, is_live, judge_run, refused_before, survey
from almanac.flows.pipeline.takedown import complete_takedowns
from almanac.flows.pipeline.validate import require_records
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.versions.lock import Lease, writer_lock
from almanac.index.versions.store import current_version, discard_unfinished, next_version
from almanac.schemas.errors import AlmanacError, GateRefused, NoRecords, as_storage_error
from almanac.schemas.manifest import Manifest, Verdict
from almanac.schemas.reports import ChunkCounts, Outcome, RunReport

log = structlog.get_logger("almanac.refresh")


@dataclass(frozen=True)
class Conduct:
    """How a refresh is carried out: `do` carries out a step and returns what it returns, `show` shows how far it has come, and `embedding` is a context
    that waits until this run may embed. `interruptions` are the exceptions by which somebody ends it; `when_surveyed` is told what there is to publish."""

    do: Do = call_directly
    show: Show = silent
    embedding: Callable[[], AbstractContextManager[Any]] = nullcontext
    interruptions: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
    when_surveyed: Callable[[Run, Survey], None] = lambda _run, _survey: None


@dataclass(frozen=True)
class _Conclusion:
    """How a refresh ends that comes to an end; `survey` is None where there was nothing to publish."""

    outcome: Outcome
    exit_code: int
    survey: Survey | None = None
    error: dict[str, Any] | None = None


_PLAIN = Conduct()


def carry_out(run: Run, conduct: Conduct = _PLAIN, *, go_live: bool = True, rejects_ok: bool = False, ledger: Ledger | None = None) -> dict[str, Any]:
    """Refreshes a knowledge base, and returns the report of the run, which is also written.

    Without `go_live` the new version is kept and not made the live one; with `rejects_ok` quarantined items are nothing to report. Nothing to publish and
    a refusal by the gate are outcomes; what the operator has to mend is raised once the report is written, and has it as `report`. RunLocked has none.
    """
    ledger = Ledger() if ledger is None else ledger
    validation: list[dict[str, Any]] = []
    with as_storage_error(run.data.root), writer_lock(run.index_dir, run.run_id) as lease:
        try:
            with as_storage_error(run.data.root):
                concluded = _refresh(run, lease, conduct, ledger, go_live=go_live, rejects_ok=rejects_ok)
                validation = concluded.survey.validated.report_rows() if concluded.survey is not None else []
        except NoRecords as nothing:
            nothing.about(run.declaration.handle)
            concluded = _Conclusion("no_records", nothing.exit_code, error=nothing.as_json()["error"])
        except AlmanacError as error:
            error.about(run.declaration.handle)
            outcome: Outcome = "gate_refused" if isinstance(error, GateRefused) else "failed"
            error.report = ledger.close(run, outcome, error.exit_code, error.as_json()["error"]).model_dump(by_alias=True)
            raise
        except BaseException as error:
            interrupted = isinstance(error, conduct.interruptions)  # Ctrl-C, or cancelled in Prefect
            kind, message = ("interrupted", "interrupted") if interrupted else ("crash", repr(error))
            ledger.close(run, "failed", 130 if interrupted else 1, {"kind": kind, "message": message, "where": None, "hint": None})
            raise
        report = ledger.close(run, concluded.outcome, concluded.exit_code, concluded.error)
        _look_back(run, concluded, report, validation, lease)
    return report.model_dump(by_alias=True)


def _refresh(run: Run, lease: Lease, conduct: Conduct, ledger: Ledger, *, go_live: bool, rejects_ok: bool) -> _Conclusion:
    log.info("run", kb=run.kb, run_id=run.run_id)
    discard_unfinished(run.index_dir)
    _sweep(run)
    complete_takedowns(run.data, run.declaration, lease=lease)
    ledger.previous = current_version(run.index_dir)
    surveyed = survey(run, conduct.do, ledger=ledger, show=conduct.show)
    conduct.when_surveyed(run, surveyed)
    if is_live(run, surveyed):
        return _confirm(surveyed, ledger)
    if not surveyed.is_passed and (refused := refused_before(run, surveyed.chunks.digest)):
        ledger.version = refused.version
        return _Conclusion("gate_refused", GateRefused.exit_code, surveyed)
    with vectors_in_use(run.data.vectors):
        if finished := finished_before(run, surveyed, ledger.previous):
            is_passed = _publish_finished(run, lease, conduct, finished, ledger, go_live=go_live)
        else:
            surveyed, embedded = _embed(run, conduct, surveyed, ledger)
            if is_live(run, surveyed):  # without the items that the embedder refuses
                return _confirm(surveyed, ledger)
            is_passed = _publish(run, lease, conduct, surveyed, embedded, ledger, go_live=go_live)
    if not is_passed:
        return _Conclusion("gate_refused", GateRefused.exit_code, surveyed)
    if not go_live:
        return _Conclusion("kept", 0, surveyed)
    with_rejects = surveyed.validated.rejected > 0
    return _Conclusion("published_with_rejects" if with_rejects else "published", 5 if with_rejects and not rejects_ok else 0, surveyed)


def _confirm(surveyed: Survey, ledger: Ledger) -> _Conclusion:
    """The live version holds exactly this."""
    ledger.version = ledger.previous if surveyed.is_passed else None
    _count_all_as_cached(ledger)
    return _Conclusion("unchanged", 0, surveyed) if surveyed.is_passed else _Conclusion("gate_refused", GateRefused.exit_code, surveyed)


def _count_all_as_cached(ledger: Ledger) -> None:
    counts = ledger.noted(ChunkCounts) or ChunkCounts()
    ledger.note(counts.model_copy(update={"cached": counts.total}))


def _sweep(run: Run) -> None:
    """Takes away what runs that were killed left half written."""
    for path in [*run.processed.glob(".staging"), *run.processed.glob(REMOVED)]:
        remove(path)
    latest = [crawls[-1] for source in run.declaration.sources if (crawls := run.raw(source.name).crawls())]
    is_cut_off = any(ending_of(run.data, run.kb, crawl) == "cut off" for crawl in latest)
    for folder in (run.processed, run.data.vectors, *([run.data.raw(run.kb, "")] if is_cut_off else [])):
        sweep(folder.rglob(TEMPORARY))


def _embed(run: Run, conduct: Conduct, surveyed: Survey, ledger: Ledger) -> tuple[Survey, tuple[Embedded, ...]]:
    """Embeds what has no vector yet. Where the embedder refuses texts, the survey that is returned is the one without their items."""
    do = conduct.do
    with ledger.stage("embed", run.kb), conduct.show("embed") as on_progress:
        texts: Texts = do(stage_texts, run, surveyed.chunks)
        _require_affordable(run, texts, surveyed, ledger)
        with conduct.embedding() if texts.count else nullcontext():
            on_progress(0, texts.count)
            embedded = tuple(do(embed_texts, run, texts, first, last, on_progress) for first, last in spans_of(run, texts))
        ledger.note(embedded_counts(run, surveyed.chunks, texts, embedded))
        validated = quarantine_refused(run, surveyed.items, surveyed.validated, surveyed.chunks, embedded)
        if validated is None or surveyed.items is None:
            return surveyed, embedded
        ledger.note(validated)
        ledger.forget(Comparison)
        require_records(run, surveyed.pages, surveyed.items, validated)
        comparison, chunks = cut(run, do, surveyed.items, validated, surveyed.live, ledger)
        ledger.note(embedded_counts(run, chunks, texts, embedded))
        verdict = ledger.note(judge_run(run, surveyed.pages, validated, comparison))
    return replace(surveyed, validated=validated, comparison=comparison, chunks=chunks, verdict=verdict), embedded


def _require_affordable(run: Run, texts: Texts, surveyed: Survey, ledger: Ledger) -> None:
    check = check_cost(run.declaration.embed, texts.tokens) if texts.count else None
    if check is None or check.ok:
        return
    ledger.note(Verdict(verdict="refused", checks=[*surveyed.verdict.checks, check]))
    raise GateRefused(
        f"embedding {texts.count:,} texts of about {texts.tokens:,} tokens costs about {check.value:,}, and embed.max_cost is {check.limit:,}",
        where=str(run.declaration.path),
        hint="nothing was embedded, and what is published serves on; almanac plan KB tells the cost; raise embed.max_cost if it is right",
    )


def _publish(run: Run, lease: Lease, conduct: Conduct, surveyed: Survey, embedded: tuple[Embedded, ...], ledger: Ledger, *, go_live: bool) -> bool:
    """Builds and verifies the version, asks it the golden questions, and lets the gate say what becomes of it: whether it passes."""
    do, live, pages, comparison, chunks = conduct.do, surveyed.live, surveyed.pages, surveyed.comparison, surveyed.chunks
    version, verdict, measured = next_version(run.index_dir), surveyed.verdict, None
    with ledger.stage("build", run.kb), conduct.show("build") as on_progress:
        built = do(build, run, version, comparison, chunks, embedded, live, on_progress)
    with ledger.stage("verify", run.kb):
        verified = do(verify, run, built, comparison, chunks, live)
    if run.golden:
        with ledger.stage("golden", run.kb):
            manifest = manifest_of(run, pages, comparison, chunks, verified, verdict, ledger.previous)
            measured = ledger.note(do(measure, run, verified, manifest, live))
        verdict = ledger.note(judge_run(run, pages, surveyed.validated, comparison, measured))
        if verdict.verdict == "refused" and (refused := refused_before(run, chunks.digest)):
            remove(built.folder)
            ledger.version = refused.version
            return False
    is_passed = verdict.verdict == "passed"
    with ledger.stage("publish", run.kb):
        manifest = manifest_of(run, pages, comparison, chunks, verified, verdict, ledger.previous)
        do(publish, run, verified, measured, manifest, lease, go_live=is_passed and go_live)
    ledger.version = version
    return is_passed


def _publish_finished(run: Run, lease: Lease, conduct: Conduct, finished: Manifest, ledger: Ledger, *, go_live: bool) -> bool:
    """What a run that was cut off left to do: it had built, verified and judged this version. Whether it passed."""
    ledger.version = finished.version
    ledger.note(finished.gate)
    _count_all_as_cached(ledger)
    if go_live:
        with ledger.stage("publish", run.kb):
            conduct.do(publish_finished, run, finished.version, lease)
    return finished.gate.verdict == "passed"


def _look_back(run: Run, concluded: _Conclusion, report: RunReport, validation: list[dict[str, Any]], lease: Lease) -> None:
    """What follows a verdict and changes nothing of it: the next run looks for changes since this one, and what is too old goes."""
    try:
        if concluded.survey is not None and report.outcome in ("published", "published_with_rejects", "unchanged"):
            remember(run, report, concluded.survey.chunks.digest, validation)
        # An unchanged run leaves a journal, too: once there are twice as many as are kept, they go.
        crawls = max(len(run.raw(source.name).crawls()) for source in run.declaration.sources)
        if report.outcome not in ("unchanged", "no_records") or crawls > 2 * run.declaration.retention.crawls:
            keep_vectors = {question_key(golden.question, run.embedder.query_prompt) for golden in run.golden}
            apply_retention(run.data, run.declaration, crawls={run.run_id}, keep_vectors=keep_vectors, lease=lease)
    except (AlmanacError, OSError) as error:
        log.warning("the run stands, but what is too old could not be taken away", kb=run.kb, error=str(error))
