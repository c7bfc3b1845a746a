"""A whole refresh, from taking the lock to applying retention. Each step is called through `Conduct.do`: directly, or
as a Prefect task.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

from almanac.core.durable import REMOVED, TEMPORARY, remove, sweep
from almanac.core.lifetime import uninterrupted
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, Show, silent
from almanac.core.store.session import writing
from almanac.flows.pipeline.batches import FanOut, do_all, spans_of
from almanac.flows.pipeline.earlier_runs import ending_of
from almanac.flows.pipeline.embed import (
    check_cost,
    embed_batch,
    embed_texts,
    embedded_counts,
    embeds_on_workers,
    quarantine_refused,
    refused_again,
    restore_lost,
    stage_texts,
)
from almanac.flows.pipeline.handles import Comparison, Embedded, Live, PlannedSegments, Tables, Texts
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.publish import build, manifest_of, measure, measure_live, publish, publish_finished, verify
from almanac.flows.pipeline.question_vectors import question_key
from almanac.flows.pipeline.retention import apply_retention
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.segments import make_segment_of, plan_segments
from almanac.flows.pipeline.state import is_to_be_asked, remember, vectors_as_confirmed
from almanac.flows.pipeline.survey import (
    Do,
    Survey,
    call_directly,
    cut,
    finished_before,
    is_live,
    judge_run,
    refused_before,
    survey,
)
from almanac.flows.pipeline.takedown import complete_takedowns
from almanac.flows.pipeline.validate import require_records
from almanac.index.build.builder import BUILDER
from almanac.index.build.child_process import Ahead
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.verify.verifier import VERIFIER
from almanac.index.versions.lock import Lease, writer_lock
from almanac.index.versions.store import discard_unfinished, next_version
from almanac.schemas.errors import AlmanacError, DamagedVersion, GateRefused, NoRecords, as_storage_error
from almanac.schemas.manifest import Manifest, Verdict
from almanac.schemas.reports import ChunkCounts, Outcome, RunReport

log = get_logger("almanac.refresh")


@dataclass(frozen=True)
class Conduct:
    """How a refresh is carried out.

    `do` calls a step and returns its result; `show` shows the progress of a step; `embedding` is a context manager that
    waits until the run may embed. `fan_out` has batches done by workers of a cluster; without it, this process does
    them. `interruptions` are the exceptions that mean that the operator cancelled the run. `when_surveyed(run, survey)`
    is called once, before anything is embedded.
    """

    do: Do = call_directly
    show: Show = silent
    embedding: Callable[[], AbstractContextManager[Any]] = nullcontext
    fan_out: FanOut | None = None
    interruptions: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
    when_surveyed: Callable[[Run, Survey], None] = lambda _run, _survey: None


@dataclass(frozen=True)
class _Conclusion:
    """The result of a refresh that raised no error; `survey` is None for `no_records` only."""

    outcome: Outcome
    exit_code: int
    survey: Survey | None = None
    error: dict[str, Any] | None = None


_Fate = Literal["live", "kept", "refused"]  # of a finished version
_PLAIN = Conduct()
_MOST_TASKS = 150  # of checkpoints in a run: Prefect keeps each, and its graph has to be read
_SOON = 1_000  # texts to embed, up to which the version is as good as begun: what builds it imports Chroma meanwhile


def carry_out(
    run: Run, conduct: Conduct = _PLAIN, *, go_live: bool = True, rejects_ok: bool = False, ledger: Ledger | None = None
) -> dict[str, Any]:
    """Refreshes a knowledge base, and returns the report of the run, which is also written.

    Args:
        run: what to refresh
        conduct: how steps are called and shown
        go_live: False keeps the new version without making it the live one
        rejects_ok: True reports quarantined items with exit code 0
        ledger: collects what the steps hand on; afterwards it has the report, also if an error is raised

    Returns the report, also for the outcomes `no_records` and `gate_refused`. Raises GateRefused where embedding would
    cost more than `embed.max_cost`, RunLocked where another process writes, and other AlmanacErrors that the operator
    has to fix. `error.report` is the report; None where the lock was not obtained. A run that ends with an error keeps
    raw pages and finished vectors, and gives back what else it took.
    """
    ledger = Ledger() if ledger is None else ledger
    with (
        as_storage_error(run.data.root),
        writing(run.data, run.kb, run.run_id),
        writer_lock(run.index_dir, run.run_id) as lease,
    ):
        try:
            with as_storage_error(run.data.root):
                concluded = _take_steps(run, lease, conduct, ledger, go_live=go_live, rejects_ok=rejects_ok)
        except NoRecords as nothing:
            nothing.about(run.declaration.handle)
            concluded = _Conclusion("no_records", nothing.exit_code, error=nothing.as_json()["error"])
        except AlmanacError as error:
            error.about(run.declaration.handle)
            outcome: Outcome = "gate_refused" if isinstance(error, GateRefused) else "failed"
            error.report = _fail(run, lease, ledger, outcome, error.exit_code, error.as_json()["error"]).model_dump(
                by_alias=True
            )
            raise
        except BaseException as error:
            interrupted = isinstance(error, conduct.interruptions)  # Ctrl-C, or cancelled in Prefect
            kind, message = ("interrupted", "interrupted") if interrupted else ("crash", repr(error))
            _fail(
                run,
                lease,
                ledger,
                "failed",
                130 if interrupted else 1,
                {"kind": kind, "message": message, "where": None, "hint": None},
            )
            raise
        with uninterrupted():
            report = ledger.close(run, concluded.outcome, concluded.exit_code, concluded.error)
        _look_back(run, concluded, report, lease)
    return report.model_dump(by_alias=True)


def _fail(run: Run, lease: Lease, ledger: Ledger, outcome: Outcome, exit_code: int, error: dict[str, Any]) -> RunReport:
    """Writes the report of a run that an error ends, and removes what only this run could have used."""
    with uninterrupted():
        try:
            if lease.is_held():  # else they are another run's
                discard_unfinished(run.index_dir)
        except OSError as left:
            log.warning("an unfinished version is left for the next run to remove", kb=run.kb, error=str(left))
        report = ledger.close(run, outcome, exit_code, error)
        try:
            if lease.is_held() and _has_too_many_crawls(run, run.declaration.retention.crawls):
                _apply_retention(run, lease)
        except (AlmanacError, OSError) as left:
            log.warning(
                "what is beyond the declared retention is left for the next run to remove", kb=run.kb, error=str(left)
            )
    return report


def _take_steps(
    run: Run, lease: Lease, conduct: Conduct, ledger: Ledger, *, go_live: bool, rejects_ok: bool
) -> _Conclusion:
    """The steps of a refresh in their order, and where it ends early.

    acquire, map pages, validate, compare, chunk (`survey`) → stage texts, embed (`_embed`) → build, verify, ask golden
    questions, publish (`_build_and_judge`).
    """
    log.info("run", kb=run.kb, run_id=run.run_id)
    discard_unfinished(run.index_dir)
    _sweep(run)
    complete_takedowns(run.data, run.declaration, lease=lease)
    surveyed = survey(run, conduct.do, ledger=ledger, show=conduct.show, fan_out=conduct.fan_out)
    conduct.when_surveyed(run, surveyed)
    has_lost_vectors = is_live(run, surveyed) and _has_lost_vectors(run, surveyed)
    if is_live(run, surveyed) and not has_lost_vectors:
        return _confirm(run, conduct, surveyed, ledger)
    # A refusal by counts ends the run only if such a version is kept already: a new one is built, to look at and to
    # publish by hand.
    if not surveyed.is_passed and (refused := refused_before(run, surveyed.tables.digest)):
        ledger.version = refused.version
        return _Conclusion("gate_refused", GateRefused.exit_code, surveyed)
    with vectors_in_use(run.data.vectors), Ahead() as ahead:
        fate: _Fate | None = None
        is_made_again = False
        if finished := finished_before(run, surveyed, ledger.previous):
            fate = _publish_finished(run, lease, conduct, surveyed, finished, ledger, go_live=go_live)
        while fate is None:
            surveyed, texts, embedded = _embed(run, conduct, surveyed, ledger, ahead)
            # without the items that the embedder refuses
            if is_live(run, surveyed) and not has_lost_vectors and not is_made_again:
                return _confirm(run, conduct, surveyed, ledger)
            try:
                fate = _build_and_judge(run, lease, conduct, surveyed, texts, embedded, ledger, ahead, go_live=go_live)
            except DamagedVersion as error:
                if is_made_again or not any(restore_lost(run, surveyed.tables, surveyed.live)):
                    raise
                is_made_again = True
                log.warning("vectors turned out to be damaged, and are made again", kb=run.kb, error=error.message)
                discard_unfinished(run.index_dir)
    if fate == "refused":
        return _Conclusion("gate_refused", GateRefused.exit_code, surveyed)
    if fate == "kept":
        return _Conclusion("kept", 0, surveyed)
    if not surveyed.validated.rejected:
        return _Conclusion("published", 0, surveyed)
    return _Conclusion("published_with_rejects", 0 if rejects_ok else 5, surveyed)


def _has_lost_vectors(run: Run, surveyed: Survey) -> bool:
    """Whether the vector store has lost vectors of the live version that this version does not have either, so that
    another one has to be made.
    """
    if vectors_as_confirmed(run):
        return False
    with vectors_in_use(run.data.vectors):
        return restore_lost(run, surveyed.tables, surveyed.live).missing > 0


def _confirm(run: Run, conduct: Conduct, surveyed: Survey, ledger: Ledger) -> _Conclusion:
    """The conclusion where the live version already holds the surveyed content: `unchanged`, or `gate_refused` if the
    gate refuses the counts.

    Golden questions that it was not asked yet are asked now. If it fails them, that is a refusal, too: it serves on,
    and no version is made.
    """
    if surveyed.live is not None and is_to_be_asked(run, surveyed.live):
        with ledger.stage("golden", run.kb):
            measured = ledger.note(conduct.do(measure_live, run, surveyed.live))
        verdict = ledger.note(judge_run(run, surveyed.pages, surveyed.validated, surveyed.comparison, measured))
        surveyed = replace(surveyed, verdict=verdict)
    ledger.version = ledger.previous if surveyed.is_passed else None
    _count_all_as_cached(ledger)
    return (
        _Conclusion("unchanged", 0, surveyed)
        if surveyed.is_passed
        else _Conclusion("gate_refused", GateRefused.exit_code, surveyed)
    )


def _count_all_as_cached(ledger: Ledger) -> None:
    counts = ledger.noted(ChunkCounts) or ChunkCounts()
    ledger.note(counts.model_copy(update={"cached": counts.total}))


def _sweep(run: Run) -> None:
    """Removes half-written files of killed runs; of the raw folders, which are large, only if a latest crawl was cut
    off.
    """
    for path in [*run.processed.glob(".staging"), *run.processed.glob(REMOVED)]:
        remove(path)
    latest = [crawls[-1] for source in run.declaration.sources if (crawls := run.raw(source.name).crawls())]
    is_cut_off = any(ending_of(run.data, run.kb, crawl) == "cut off" for crawl in latest)
    for folder in (run.processed, run.data.vectors, *([run.data.raw(run.kb, "")] if is_cut_off else [])):
        sweep(folder.rglob(TEMPORARY))


def _embed(
    run: Run, conduct: Conduct, surveyed: Survey, ledger: Ledger, ahead: Ahead
) -> tuple[Survey, Texts, tuple[Embedded, ...]]:
    """Embeds what has no vector yet. Where the embedder refuses texts, the survey that is returned is the one without
    their items.
    """
    do = conduct.do
    with ledger.stage("embed", run.kb), conduct.show("embed") as on_progress:
        texts: Texts = do(stage_texts, run, surveyed.tables, surveyed.live)
        _require_affordable(run, texts, surveyed, ledger)
        if texts.count <= _SOON:
            ahead.start(BUILDER, VERIFIER)
        with conduct.embedding() if texts.count else nullcontext():
            on_progress(0, texts.count)
            embedded = tuple(_embed_spans(run, conduct, texts, on_progress))
        ledger.note(embedded_counts(run, surveyed.tables, texts, embedded))
        if not any(part.refused for part in embedded):
            return surveyed, texts, embedded
        if (items := surveyed.items) is None:
            raise refused_again(run, embedded)
        validated = ledger.note(do(quarantine_refused, run, items, surveyed.validated, surveyed.tables, embedded))
        ledger.forget(Comparison)
        require_records(run, surveyed.pages, items, validated, hint="rejects.jsonl says why")
        comparison, tables = cut(run, do, items, validated, surveyed.live, ledger, conduct.fan_out)
        ledger.note(embedded_counts(run, tables, texts, embedded))
        verdict = ledger.note(judge_run(run, surveyed.pages, validated, comparison))
    return (
        replace(surveyed, validated=validated, comparison=comparison, tables=tables, verdict=verdict),
        texts,
        embedded,
    )


def _embed_spans(run: Run, conduct: Conduct, texts: Texts, on_progress: OnProgress) -> Iterator[Embedded]:
    """Embeds in this process or by workers."""
    if conduct.fan_out is not None and embeds_on_workers(run):
        done = do_all(embed_batch, run, texts, texts.checkpoints, texts.count, conduct.fan_out, on_progress)
        yield Embedded(done, None, None)
        return
    for first, last in spans_of(1, texts.checkpoints, _MOST_TASKS):
        yield conduct.do(embed_texts, run, texts, first, last, on_progress)


def _require_affordable(run: Run, texts: Texts, surveyed: Survey, ledger: Ledger) -> None:
    check = check_cost(run.embed, texts.tokens) if texts.count else None
    if check is None or check.ok:
        return
    ledger.note(Verdict(verdict="refused", checks=[*surveyed.verdict.checks, check]))
    raise GateRefused(
        f"embedding {texts.count:,} texts of about {texts.tokens:,} tokens costs about {check.value:,}, and "
        f"embed.max_cost is {check.limit:,}",
        where=str(run.declaration.path),
        hint=(
            "nothing was embedded, and what is published serves on; almanac plan KB tells the cost; raise "
            "embed.max_cost if it is right"
        ),
    )


def _build_and_judge(
    run: Run,
    lease: Lease,
    conduct: Conduct,
    surveyed: Survey,
    texts: Texts,
    embedded: tuple[Embedded, ...],
    ledger: Ledger,
    ahead: Ahead,
    *,
    go_live: bool,
) -> _Fate:
    """Builds, verifies, measures and judges a version, writes its manifest, and makes it live if it passed and
    `go_live`.

    A refused version with the same content as one that is kept is removed again.
    """
    do, live, pages, comparison, tables = (
        conduct.do,
        surveyed.live,
        surveyed.pages,
        surveyed.comparison,
        surveyed.tables,
    )
    version, verdict, measured = next_version(run.index_dir), surveyed.verdict, None
    with ledger.stage("build", run.kb), conduct.show("build") as on_progress:
        planned = (
            None
            if conduct.fan_out is None
            else _segments_by_workers(run, do, version, tables, live, conduct.fan_out, on_progress)
        )
        built = do(build, run, version, tables, texts, embedded, live, on_progress, planned, ahead)
    with ledger.stage("verify", run.kb):
        verified = do(verify, run, built, tables, live, ahead)
    if run.golden:
        with ledger.stage("golden", run.kb):
            manifest = manifest_of(run, pages, comparison, tables, verified, verdict, ledger.previous)
            measured = ledger.note(do(measure, run, verified, manifest, live))
        verdict = ledger.note(judge_run(run, pages, surveyed.validated, comparison, measured))
        if verdict.verdict == "refused" and (refused := refused_before(run, tables.digest)):
            remove(built.folder)
            ledger.version = refused.version
            return "refused"
    is_passed = verdict.verdict == "passed"
    with ledger.stage("publish", run.kb):
        manifest = manifest_of(run, pages, comparison, tables, verified, verdict, ledger.previous, measured)
        has_gone_live = do(publish, run, verified, measured, manifest, lease, go_live=is_passed and go_live)
    ledger.version = version
    return "live" if has_gone_live else "kept" if is_passed else "refused"


def _segments_by_workers(
    run: Run, do: Do, version: str, tables: Tables, live: Live | None, fan_out: FanOut, on_progress: OnProgress
) -> PlannedSegments | None:
    """Has workers make the new segments of a version; a single one is left to this process, which has nothing else to
    do.
    """
    planned: PlannedSegments | None = do(plan_segments, run, version, tables, live)
    if planned is not None and planned.count > 1:
        do_all(make_segment_of, run, planned, planned.count, planned.chunks, fan_out, on_progress)
    return planned


def _publish_finished(
    run: Run, lease: Lease, conduct: Conduct, surveyed: Survey, finished: Manifest, ledger: Ledger, *, go_live: bool
) -> _Fate:
    """Makes a version live that a killed run had built, verified and judged, but not published."""
    ledger.version = finished.version
    ledger.note(finished.gate)
    _count_all_as_cached(ledger)
    if not go_live:
        return "kept"
    with ledger.stage("publish", run.kb):
        has_gone_live = conduct.do(publish_finished, run, finished.version, ledger.previous, surveyed.tables, lease)
    return "live" if has_gone_live else "kept"


def _look_back(run: Run, concluded: _Conclusion, report: RunReport, lease: Lease) -> None:
    """Records the inputs for the next run, and applies retention. An error here is logged: it does not change the
    outcome.
    """
    try:
        if concluded.survey is not None and report.outcome in ("published", "published_with_rejects", "unchanged"):
            remember(run, report, concluded.survey.tables.digest)
        # Runs that make no version skip retention until a source has more than twice the crawls that it may keep.
        if report.outcome not in ("unchanged", "no_records") or _has_too_many_crawls(
            run, 2 * run.declaration.retention.crawls
        ):
            _apply_retention(run, lease)
    except (AlmanacError, OSError) as error:
        log.warning(
            "the run is complete, but recording its inputs or applying retention failed", kb=run.kb, error=str(error)
        )


def _has_too_many_crawls(run: Run, allowed: int) -> bool:
    return any(len(run.raw(source.name).crawls()) > allowed for source in run.declaration.sources)


def _apply_retention(run: Run, lease: Lease) -> None:
    keep_vectors = {question_key(golden.question, run.embedder.query_prompt) for golden in run.golden}
    apply_retention(run.data, run.declaration, crawls={run.run_id}, keep_vectors=keep_vectors, lease=lease)
