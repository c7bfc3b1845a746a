"""The refresh flow: from a crawl to a published version, or to the reason why not."""

import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import structlog
from prefect import Flow, Task, flow, tags, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run

from almanac.core.durable import REMOVED, TEMPORARY, remove, sweep
from almanac.core.load import load_declaration
from almanac.core.logs import log_through_stdlib
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.flows.artifacts import show_diff, show_history, show_plan, show_rejects, show_retrieval, show_summary, show_validation, show_version
from almanac.flows.limits import embedding_slot
from almanac.flows.outcome import NotFine, announce, state_of, state_of_error
from almanac.flows.pipeline import steps
from almanac.flows.pipeline.plan import foresee
from almanac.flows.pipeline.question_vectors import question_key
from almanac.flows.pipeline.retention import apply_retention
from almanac.flows.pipeline.run import Run, utc_now
from almanac.flows.pipeline.state import remember
from almanac.flows.pipeline.survey import Do, finished_before, is_live, judge_run, passed, plainly, refused_before, survey
from almanac.flows.pipeline.takedown import complete_takedowns
from almanac.flows.progress import show_progress
from almanac.flows.reporting.diff import compare_versions
from almanac.flows.reporting.history import history_of
from almanac.flows.secrets import take_key_from_prefect
from almanac.index.build.delta import BuildFacts
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.versions.lock import Lease, writer_lock
from almanac.index.versions.store import discard_unfinished, next_version, version_dir
from almanac.schemas.errors import AlmanacError, GateRefused, NoRecords, Retriable, as_storage_error
from almanac.schemas.manifest import Counts, Manifest
from almanac.schemas.reports import Outcome, RunReport
from almanac.schemas.scope import Scope

log = structlog.get_logger("almanac.refresh")
_SOFTWARE = ("almanac", "chromadb", "sentence-transformers", "torch", "scrapy", "unstructured", "trafilatura", "prefect")
_TASK_NAMES: dict[Callable[..., Any], str] = {steps.measure_golden: "ask golden questions", steps.publish_finished: "publish"}
_RETRIED = frozenset({steps.acquire, steps.embed})


async def _is_retriable(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Only what trying again may mend is tried again: see schemas/errors.py."""
    return isinstance(await state.aresult(raise_on_failure=False), Retriable)


@cache
def _task(step: Callable[..., Any]) -> Task[..., Any]:
    """A step as a task of which Prefect keeps no result: what a step leaves are files, and the run."""
    name = _TASK_NAMES.get(step) or step.__name__.replace("_", " ")
    retried = step in _RETRIED
    return task(
        name=name,
        task_run_name="acquire {source.name}" if step is steps.acquire else name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=2 if retried else 0,
        retry_delay_seconds=[1, 4] if retried else 0,
        retry_condition_fn=_is_retriable,
    )(step)


def _do(step: Callable[..., Any], run: Run, *arguments: Any, **named: Any) -> Any:
    if step is not steps.embed:
        return _task(step)(run, *arguments, **named)
    with embedding_slot(run.declaration):
        return _task(step)(run, *arguments, **named)


def _run_name() -> str:
    """`voyago · 2026-11-21 03:00`, in UTC as schedules are, and what is particular about the run."""
    given = flow_run.parameters
    only = [*(given.get("sources") or ()), *(given.get("urls") or ())]
    particular = ["full"] if given.get("full") else []
    particular += [f"only {' '.join(only)}"] if only else []
    particular += ["kept back"] if given.get("publish") is False else []
    return " · ".join([flow_run.flow_name, f"{flow_run.scheduled_start_time:%Y-%m-%d %H:%M}", *particular])[:200]


@flow(name="refresh", flow_run_name=_run_name, validate_parameters=False, persist_result=False)
def refresh_flow(
    kb: str,
    data: str | None = None,
    publish: bool = True,
    rejects_ok: bool = False,
    sources: list[str] | None = None,
    urls: list[str] | None = None,
    full: bool = False,
    env: str | None = None,
) -> State[Any]:
    """Refreshes one knowledge base: crawl, map, clean, validate, chunk, embed, build, verify, judge, publish.

    Args:
        kb: a name under knowledge/, or a path to a declaration
        data: the data directory; empty for the worker's own
        publish: off keeps the new version without making it the live one
        rejects_ok: items that were quarantined are nothing to report
        sources: only these sources; what is not looked at stays as it is
        urls: only these pages, of the one source named
        full: ask for every page anew, map every page anew, build in full
        env: the overlay, as in knowledge/KB.ENV.yaml; empty for what ALMANAC_ENV of the worker says
    """
    log_through_stdlib()
    try:
        declaration = load_declaration(kb, env)
        take_key_from_prefect(declaration)
        run = Run(declaration, DataDir.locate(data), Scope.of(declaration, sources, urls, full=full), show=lambda step: show_progress(declaration.name, step))
    except AlmanacError as error:
        return state_of_error(error)
    try:
        carry_out(run, _do, go_live=publish, rejects_ok=rejects_ok, when_surveyed=_show_survey)
    except AlmanacError as error:
        if error.report is not None:  # not where another run holds the knowledge base
            show_summary(run.report)
            announce(run.report)
        return state_of_error(error)
    except BaseException:  # a defect, or cancelled
        announce(run.report)
        raise
    _show_run(run)
    announce(run.report)
    return state_of(run.report)


def flow_of(kb: str) -> "Flow[..., Any]":
    """The refresh flow under a knowledge base's name: Prefect then has a flow for each of them, and a deployment is called `voyago/refresh`."""
    return refresh_flow.with_options(name=kb)


def refresh(kb: str, data: str | None = None, *, env: str | None = None, **options: Any) -> dict[str, Any]:
    """Runs the flow in this process and returns the run's report. `options` are those of `refresh_flow`.

    An outcome that is a verdict (unchanged, gate refused, no records) is returned; what the operator has to mend is raised.
    """
    name = load_declaration(kb, env).name
    with tags("almanac", name, "command line"):
        try:
            report: dict[str, Any] = flow_of(name)(kb, data, env=env, **options)
        except NotFine as verdict:
            return verdict.report
    return report


def _show_survey(run: Run) -> None:
    show_plan(foresee(run))
    show_validation(run.kb, run.validation)
    show_rejects(run.kb, run.rejects)


def _show_run(run: Run) -> None:
    """What a run leaves to look at, once it has come to a verdict."""
    report = run.report
    show_summary(report)
    if report.recall is not None and report.version is not None:
        show_retrieval(run.kb, report.version, report.recall, run.live_recall, run.declaration.retrieve.k)
    if report.version is not None:
        folder = version_dir(run.index_dir, report.version)
        places = {"manifest": folder / "manifest.json", "report": run.data.runs(run.kb) / f"{run.run_id}.json"}
        show_version(run.kb, report.version, run.digest, {**places, **({"rejects": Path(report.rejects_file)} if report.rejects_file else {})})
    if report.version is not None and report.outcome != "unchanged":
        show_history(run.kb, history_of(run.data, run.kb))
        if report.previous and report.previous != report.version and run.live_items is not None:
            show_diff(compare_versions(run.index_dir, report.previous, report.version))


def carry_out(
    run: Run, do: Do = plainly, *, go_live: bool = True, rejects_ok: bool = False, when_surveyed: Callable[[Run], None] = lambda _: None
) -> dict[str, Any]:
    """The whole refresh, from taking the lock to letting go of what retention no longer wants. Nothing of it needs Prefect: `do` carries out a step."""
    with as_storage_error(run.data.root), writer_lock(run.index_dir, run.run_id) as lease:
        try:
            with as_storage_error(run.data.root):
                _refresh(run, lease, do, go_live=go_live, rejects_ok=rejects_ok, when_surveyed=when_surveyed)
        except NoRecords as nothing:
            nothing.about(run.declaration.handle)
            _conclude(run, "no_records", nothing.exit_code, nothing.as_json()["error"])
        except AlmanacError as error:
            error.about(run.declaration.handle)
            _conclude(run, "gate_refused" if isinstance(error, GateRefused) else "failed", error.exit_code, error.as_json()["error"])
            error.report = run.finish()
            raise
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt | TerminationSignal)  # Ctrl-C, or cancelled in Prefect
            kind, message = ("interrupted", "interrupted") if interrupted else ("crash", repr(error))
            _conclude(run, "failed", 130 if interrupted else 1, {"kind": kind, "message": message, "where": None, "hint": None})
            run.finish()
            raise
        report = run.finish()
        _look_back(run, lease)
    return report


def _look_back(run: Run, lease: Lease) -> None:
    """What follows a verdict and changes nothing of it: the next run looks for changes since this one, and what is too old goes."""
    outcome = run.report.outcome
    try:
        if outcome in ("published", "published_with_rejects", "unchanged"):
            remember(run, run.digest)
        # An unchanged run leaves a journal, too: once there are twice as many as are kept, they go.
        crawls = max(len(run.raw(source.name).crawls()) for source in run.declaration.sources)
        if outcome not in ("unchanged", "no_records") or crawls > 2 * run.declaration.retention.crawls:
            keep_vectors = {question_key(golden.question, run.embedder.query_prompt) for golden in run.golden}
            apply_retention(run.data, run.declaration, crawls={run.run_id}, keep_vectors=keep_vectors, lease=lease)
    except (AlmanacError, OSError) as error:
        log.warning("the run stands, but what is too old could not be taken away", kb=run.kb, error=str(error))


def _refresh(run: Run, lease: Lease, do: Do, *, go_live: bool, rejects_ok: bool, when_surveyed: Callable[[Run], None]) -> None:
    log.info("run", kb=run.kb, run_id=run.run_id)
    discard_unfinished(run.index_dir)
    _sweep(run)
    complete_takedowns(run.data, run.declaration, lease=lease)
    survey(run, do)
    when_surveyed(run)
    if is_live(run):
        _conclude_without_version(run)
        return
    if not passed(run) and (refused := refused_before(run)):
        run.report.version = refused.version
        _conclude(run, "gate_refused", GateRefused.exit_code)
        return
    with vectors_in_use(run.data.vectors):
        if finished := finished_before(run):
            _publish_finished(run, lease, do, finished, go_live=go_live)
        else:
            with run.stage("embed"):
                taken_out = do(steps.embed, run)
            if taken_out:
                judge_run(run)
                if is_live(run):
                    _conclude_without_version(run)
                    return
            _publish(run, lease, do, go_live=go_live)
    if not passed(run):
        _conclude(run, "gate_refused", GateRefused.exit_code)
    elif not go_live:
        _conclude(run, "kept", 0)
    else:
        with_rejects = bool(run.rejects)
        _conclude(run, "published_with_rejects" if with_rejects else "published", 5 if with_rejects and not rejects_ok else 0)


def _conclude_without_version(run: Run) -> None:
    """The live version holds exactly this."""
    run.report.version = run.report.previous if passed(run) else None
    run.report.chunks.cached = run.report.chunks.total
    _conclude(run, *(("unchanged", 0) if passed(run) else ("gate_refused", GateRefused.exit_code)))


def _sweep(run: Run) -> None:
    """Takes away what runs that were killed left half written."""
    for path in [*run.processed.glob(".staging"), *run.processed.glob(REMOVED)]:
        remove(path)
    cut_off = any(run.ending_of(crawls[-1]) == "cut off" for source in run.declaration.sources if (crawls := run.raw(source.name).crawls()))
    for folder in (run.processed, run.data.vectors, *([run.data.raw(run.kb, "")] if cut_off else [])):
        sweep(folder.rglob(TEMPORARY))


def _publish(run: Run, lease: Lease, do: Do, *, go_live: bool) -> None:
    """Builds and verifies the version, asks it the golden questions, and lets the gate say what becomes of it."""
    version = next_version(run.index_dir)
    with run.stage("build"):
        facts = do(steps.build, run, version)
    with run.stage("verify"):
        facts = do(steps.verify, run, version, facts)
    if run.golden:
        with run.stage("golden"):
            do(steps.measure_golden, run, _manifest(run, version, facts))
        judge_run(run)
        if not passed(run) and (refused := refused_before(run)):
            remove(version_dir(run.index_dir, version))
            run.report.version = refused.version
            return
    with run.stage("publish"):
        do(steps.seal_and_publish, run, _manifest(run, version, facts), lease, go_live=passed(run) and go_live)
    run.report.version = version


def _publish_finished(run: Run, lease: Lease, do: Do, finished: Manifest, *, go_live: bool) -> None:
    """What a run that was cut off left to do: it had built, verified and judged this version."""
    run.report.version, run.report.gate = finished.version, finished.gate
    run.report.chunks.cached = run.report.chunks.total
    if go_live:
        with run.stage("publish"):
            do(steps.publish_finished, run, finished.version, lease)


def _conclude(run: Run, outcome: Outcome, exit_code: int, error: dict[str, Any] | None = None) -> None:
    run.report.outcome, run.report.exit_code, run.report.error = outcome, exit_code, error
    run.report.items.quarantined = len(run.rejects)


def _manifest(run: Run, version: str, facts: BuildFacts) -> Manifest:
    """Everything the manifest says but the files, which are not there yet."""
    assert run.report.gate is not None
    records, documents, chunks = (pq.read_metadata(run.processed / name).num_rows for name in (RECORDS, DOCUMENTS, CHUNKS))
    return Manifest(
        kb=run.kb,
        version=version,
        parent=run.report.previous,
        created_at=utc_now(),
        run_id=run.run_id,
        digest=run.digest,
        counts=Counts(records=records, documents=documents, chunks=chunks),
        fingerprints=run.stages,
        embedder=run.embedder,
        declaration_sha256=run.declaration.sha256,
        collection=run.declaration.collection,
        language=run.declaration.language,
        gate=run.report.gate,
        lineage={
            "sources": [source.name for source in run.declaration.sources],
            "crawls": {outcome.source: outcome.crawl for outcome in run.report.sources},
            "pages": run.report.pages.model_dump(),
            "items": run.report.items.model_dump(by_alias=True),
            "build": facts.model_dump(),
        },
        software={"python": platform.python_version(), **{name: installed(name) for name in _SOFTWARE}},
        files=[],
    )


def summary_line(report: RunReport) -> str:
    """The run in one line: `voyago v0002 published: 24 added, …`."""
    counts = report.items.model_dump(by_alias=True)
    items = ", ".join(f"{counts[name]} {name}" for name in ("added", "changed", "moved", "unchanged", "removed", "deduplicated", "quarantined"))
    pages = f"{report.pages.present} pages, {report.pages.failed} failed"
    chunks = f"{report.chunks.total} chunks, {report.chunks.embedded} embedded"
    name = f"{report.kb} {report.version}" if report.version else report.kb
    return f"{name} {report.outcome.replace('_', ' ')}: {items}; {pages}; {chunks}; {sum(report.seconds.values()):.1f} s"
