"""The refresh of a knowledge base as a flow of Prefect: its tasks, their order, and what Prefect shows of them.

The steps themselves are functions in `flows/pipeline/`, which knows nothing of Prefect.
"""

import os
from contextlib import ExitStack, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

from prefect import Flow, flow, tags
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TagsContext
from prefect.exceptions import TerminationSignal
from prefect.runtime import deployment, flow_run

from almanac.core.durable import remove
from almanac.core.lifetime import die_with_parent
from almanac.core.load import load_declaration
from almanac.core.logs import log_through_stdlib
from almanac.core.namesakes import require_own_name
from almanac.core.progress import OnProgress, ignore
from almanac.core.settings import DataDir
from almanac.flows.artifacts import show_run, show_summary, show_survey
from almanac.flows.availability import note_absence, tell_prefect
from almanac.flows.begun_runs import TAG, note_process
from almanac.flows.cluster import fan_out_of
from almanac.flows.limits import embedding_slot, take_key_from_prefect
from almanac.flows.outcome import VerdictFailure, announce, state_of, state_of_error
from almanac.flows.pipeline import acquire as acquiring
from almanac.flows.pipeline import chunk as chunking
from almanac.flows.pipeline import compare as comparing
from almanac.flows.pipeline import embed as embedding
from almanac.flows.pipeline import item_batches, page_batches
from almanac.flows.pipeline import map as mapping
from almanac.flows.pipeline import publish_steps as publishing
from almanac.flows.pipeline import segment_batches as segments
from almanac.flows.pipeline import validate as validating
from almanac.flows.pipeline.batches import FanOut, do_all, span_name, spans_of
from almanac.flows.pipeline.building import Building, build_job, is_built_meanwhile
from almanac.flows.pipeline.crawls_ahead import crawls_ahead
from almanac.flows.pipeline.earlier_runs import find_live
from almanac.flows.pipeline.fingerprints import read_code
from almanac.flows.pipeline.handles import Comparison, Embedded, Items, Live, Pages, Texts, Validated
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.run_frame import refreshing
from almanac.flows.pipeline.state import is_to_be_asked
from almanac.flows.pipeline.survey import (
    Mending,
    Survey,
    begin_survey,
    confirmed,
    finished_before,
    has_lost_vectors,
    is_live,
    judged,
    judged_again,
    refused_before,
)
from almanac.flows.progress_bars import show_progress
from almanac.flows.steps import StepTask, in_flow_run
from almanac.index.build.builder import BUILDER
from almanac.index.build.child_process import ForkServer
from almanac.index.embedding.embedder import describe_embedder
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.verify.verifier import VERIFIER
from almanac.index.versions.lock import Lease
from almanac.index.versions.version_store import next_version
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, PrefectGone, Retriable
from almanac.schemas.manifest import Manifest
from almanac.schemas.reports import Outcome, RunReport
from almanac.schemas.scope import Scope

# What Prefect imports when a flow begins: its engines, and that with which it writes down the parameters of a run.
_IMPORTED_LATE = ("fastapi.encoders", "prefect.flow_engine", "prefect.task_engine")
_MOST_TASKS = 150  # of checkpoints in a run: Prefect keeps each, and its graph has to be read
_SOON = 1_000  # texts to embed, up to which the version is as good as begun: what builds it imports Chroma meanwhile


async def _is_retriable(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Whether the failure may go away by itself, and there is time left: only `Retriable` errors do
    (schemas/errors.py).
    """
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, Retriable) and not error.is_final


def _checkpoint_name(parameters: dict[str, Any]) -> str:
    return span_name("embed checkpoint", (parameters["first"], parameters["last"]))


# Prefect retries acquisition only: requests for embeddings are retried by the API client (index/api).
acquire = StepTask(
    acquiring.acquire,
    task_run_name="acquire {source.name}",
    retries=2,
    retry_delay_seconds=[1, 4],
    retry_condition_fn=_is_retriable,
)
stage_pages = StepTask(page_batches.stage_pages)
map_pages = StepTask(mapping.map_pages)
validate = StepTask(validating.validate)
compare = StepTask(comparing.compare)
stage_items = StepTask(item_batches.stage_items)
chunk = StepTask(chunking.chunk)
stage_texts = StepTask(embedding.stage_texts)
embed_texts = StepTask(embedding.embed_texts, task_run_name=_checkpoint_name)
quarantine_refused = StepTask(embedding.quarantine_refused)
plan_segments = StepTask(segments.plan_segments)
build = StepTask(publishing.build)
verify = StepTask(publishing.verify)
ask_golden_questions = StepTask(publishing.measure, name="ask golden questions")
ask_live = StepTask(publishing.measure_live, name="ask golden questions")
publish_version = StepTask(publishing.publish, name="publish")
publish_finished = StepTask(publishing.publish_finished, name="publish")


def _run_name() -> str:
    """The name of a flow run: `voyago · 2026-11-21 03:00` (UTC, as schedules are), then options that differ from a
    plain refresh.
    """
    given = flow_run.parameters
    only = [*(given.get("sources") or ()), *(given.get("urls") or ())]
    particular = ["full"] if given.get("full") else []
    particular += [f"only {' '.join(only)}"] if only else []
    particular += ["kept back"] if given.get("publish") is False else []
    return " · ".join([flow_run.flow_name, f"{flow_run.scheduled_start_time:%Y-%m-%d %H:%M}", *particular])[:200]


@dataclass
class _Own:
    """A run of this process: the declaration that its command has read, its ledger once it has begun, and the error
    that ended it. All that is noted by the run itself: what Prefect makes of it does not count.
    """

    declaration: Declaration | None = None
    ledger: Ledger | None = None
    error: BaseException | None = None

    @property
    def report(self) -> RunReport | None:
        """None of a run that has not ended, or could not lock the knowledge base."""
        return None if self.ledger is None else self.ledger.report


_own: ContextVar[_Own] = ContextVar("own")


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
        data: the data directory, a path or s3://bucket/prefix; empty for the worker's own
        publish: off keeps the new version without making it the live one
        rejects_ok: items that were quarantined are nothing to report
        sources: only these sources; what is not looked at stays as it is
        urls: only these pages, of the one source named
        full: ask for every page anew, map every page anew, build in full
        env: the overlay, as in knowledge/KB.ENV.yaml; empty for what ALMANAC_ENV of the worker says
    """
    log_through_stdlib()
    own = _own.get(None) or _Own()
    if deployment.id is not None:
        die_with_parent()  # with its worker: nobody else would end it, or tell how it ended
    if own.declaration is not None:
        tell_prefect("the process of the run", note_process, UUID(flow_run.id))
    try:
        if (declaration := own.declaration) is None:
            declaration = load_declaration(kb, env)
            require_own_name(declaration)
        take_key_from_prefect(declaration)
        scope = Scope.from_options(declaration, sources, urls, full=full)
        own.ledger = Ledger(Run(declaration, DataDir.locate(data).for_kb(declaration.name), scope))
        with TagsContext(current_tags=set()):  # a task with a tag asks the server for a slot before and after
            report = carry_out(own.ledger, go_live=publish, rejects_ok=rejects_ok)
    except BaseException as error:
        own.error = error
        if own.report is not None:
            if isinstance(error, AlmanacError):
                show_summary(own.report)
            announce(own.report)
        if isinstance(error, AlmanacError):
            return state_of_error(error)
        raise  # a defect, or cancelled
    show_run(own.ledger, report)
    announce(report)
    return state_of(report)


def carry_out(ledger: Ledger, *, go_live: bool = True, rejects_ok: bool = False) -> RunReport:
    """Takes the steps of a refresh with all that surrounds them (`refreshing`), and returns the report, also for the
    outcomes `no_records` and `gate_refused`. Without `go_live`, the new version is kept.
    """
    with fan_out_of(ledger.run.declaration) as workers, refreshing(ledger, rejects_ok=rejects_ok) as lease:
        ledger.outcome = _take_steps(ledger, lease, workers, go_live=go_live)
    assert ledger.report is not None
    return ledger.report


def _take_steps(ledger: Ledger, lease: Lease, workers: FanOut | None, *, go_live: bool) -> Outcome:
    """The tasks in their order, and where a run ends early."""
    run, stage, show = ledger.run, ledger.stage, partial(show_progress, ledger.run.kb)
    known, pages = begin_survey(ledger), tuple[Pages, ...]()
    with stage("crawl"), crawls_ahead(run, known) as crawls:
        for source in run.declaration.sources:
            with show(f"crawl {source.name}") as on_page:
                pages += (acquire(run, source, known, crawls.on_progress_of(source, on_page), crawls.take),)
    live = find_live(run)  # after the crawl, which may have taken hours
    surveyed = confirmed(ledger, pages, live)
    if surveyed is None:
        with stage("map"), show("map") as on_page:
            batches = stage_pages(run, pages) if workers or page_batches.is_worth_sharing(run, pages) else None
            do_all(page_batches.map_batch, run, batches, workers, on_page)
            items = ledger.note(map_pages(run, pages, on_page, batches))
        with stage("validate"):
            validated = ledger.note(validate(run, items))
            validating.require_records(run, pages, items, validated)
        with stage("chunk"), show("chunk") as on_item:
            surveyed = _compare_and_chunk(ledger, workers, live, pages, items, validated, on_item)
    if in_flow_run():
        show_survey(run, surveyed)
    has_lost = is_live(run, surveyed) and has_lost_vectors(run, surveyed)
    if is_live(run, surveyed) and not has_lost:
        return _confirm(ledger, surveyed)
    # Refused by counts, a new version is built all the same, to look at and to publish by hand, unless one is kept.
    if not surveyed.is_passed and (refused := refused_before(run, surveyed.tables.digest)):
        ledger.version = refused.version
        return "gate_refused"
    with vectors_in_use(run.data.vectors), ForkServer() as fork_server:
        if finished := finished_before(run, surveyed, ledger.previous):
            return _publish_finished(ledger, lease, surveyed, finished, go_live=go_live)
        mending = Mending(run, surveyed)
        while True:
            with mending, ExitStack() as ending:
                version, building = next_version(run.index_dir), None
                with stage("embed"), show("embed") as on_text:
                    texts = stage_texts(run, surveyed.tables, live)
                    embedding.require_affordable(ledger, texts, surveyed.verdict)
                    if is_built_meanwhile(run, texts, surveyed.tables):
                        job = build_job(run, version, surveyed.tables, live)
                        building = ending.enter_context(Building(run, job, fork_server))
                    elif texts.size <= _SOON:
                        fork_server.start(BUILDER, VERIFIER)
                    embedded = _embed(run, texts, workers, on_text)
                    ledger.note(embedding.embedded_counts(run, surveyed.tables, texts, embedded))
                    if any(part.refused for part in embedded):
                        if building is not None:
                            building.abandon()
                            building = None
                        surveyed = _without_refused(ledger, workers, surveyed, texts, embedded)
                if is_live(run, surveyed) and not has_lost and not mending.is_done:
                    return _confirm(ledger, surveyed)
                measured = None
                with stage("build"), show("build") as on_row:
                    planned = plan_segments(run, version, surveyed.tables, live) if workers else None
                    if planned is not None and planned.count > 1:  # a single one is left to this process
                        do_all(segments.make_segment_of, run, planned, workers, on_row)
                    tables = surveyed.tables
                    built = build(run, version, tables, texts, embedded, live, on_row, planned, fork_server, building)
                with stage("verify"):
                    verified = verify(run, built, surveyed.tables, live, fork_server)
                if run.golden:
                    with stage("golden"):
                        manifest = publishing.manifest_of(run, surveyed, verified, ledger.previous)
                        measured = ledger.note(ask_golden_questions(run, verified, manifest, live))
                    surveyed = judged_again(ledger, surveyed, measured)
                    if not surveyed.is_passed and (refused := refused_before(run, surveyed.tables.digest)):
                        remove(built.folder)
                        ledger.version = refused.version
                        return "gate_refused"
                with stage("publish"):
                    manifest = publishing.manifest_of(run, surveyed, verified, ledger.previous, measured)
                    go_live = go_live and surveyed.is_passed
                    has_gone_live = publish_version(run, verified, measured, manifest, lease, go_live=go_live)
                ledger.version = version
                return surveyed.outcome(is_live=has_gone_live)


def _compare_and_chunk(
    ledger: Ledger,
    workers: FanOut | None,
    live: Live | None,
    pages: tuple[Pages, ...],
    items: Items,
    validated: Validated,
    on_item: OnProgress = ignore,
) -> Survey:
    run = ledger.run
    comparison = ledger.note(compare(run, items, validated, live))
    is_much = item_batches.is_much_to_cut(run, comparison, live, by_workers=workers is not None)
    batches = stage_items(run, comparison, live) if is_much else None
    do_all(item_batches.cut_batch, run, batches, workers, on_item)
    tables = ledger.note(chunk(run, comparison, live, on_item, batches))
    return judged(ledger, live, pages, items, validated, comparison, tables)


def _embed(run: Run, texts: Texts, workers: FanOut | None, on_text: OnProgress) -> tuple[Embedded, ...]:
    """Embeds by workers, or here: a task for each checkpoint, or for several where there are many."""
    with embedding_slot(run.declaration) if texts.size and in_flow_run() else nullcontext():
        on_text(0, texts.size)
        if embedding.embeds_on_workers(run):
            return (Embedded(do_all(embedding.embed_batch, run, texts, workers, on_text), None, None),)
        spans = spans_of(1, texts.count, _MOST_TASKS)
        return tuple(embed_texts(run, texts, first, last, on_text) for first, last in spans)


def _without_refused(
    ledger: Ledger, workers: FanOut | None, surveyed: Survey, texts: Texts, embedded: tuple[Embedded, ...]
) -> Survey:
    """The survey without the items of which the embedder has refused a text."""
    run, live, pages, items = ledger.run, surveyed.live, surveyed.pages, surveyed.items
    validated = ledger.note(quarantine_refused(run, items, surveyed.validated, surveyed.tables, embedded))
    assert items is not None
    ledger.forget(Comparison)
    validating.require_records(run, pages, items, validated, hint="rejects.jsonl says why")
    surveyed = _compare_and_chunk(ledger, workers, live, pages, items, validated)
    ledger.note(embedding.embedded_counts(run, surveyed.tables, texts, embedded))
    return surveyed


def _confirm(ledger: Ledger, surveyed: Survey) -> Outcome:
    """The outcome where the live version already holds the surveyed content.

    Golden questions that it was not asked yet are asked now. If it fails them, that is a refusal, too: it serves on,
    and no version is made.
    """
    run, live = ledger.run, surveyed.live
    if live is not None and is_to_be_asked(run, live):
        with ledger.stage("golden"):
            measured = ledger.note(ask_live(run, live))
        surveyed = judged_again(ledger, surveyed, measured)
    ledger.count_all_as_cached()
    if not surveyed.is_passed:
        return "gate_refused"
    ledger.version = ledger.previous
    return "unchanged"


def _publish_finished(ledger: Ledger, lease: Lease, surveyed: Survey, finished: Manifest, *, go_live: bool) -> Outcome:
    """Makes a version live that a killed run had built, verified and judged, but not published."""
    ledger.version = finished.version
    ledger.note(finished.gate)
    ledger.count_all_as_cached()
    if not go_live:
        return "kept"
    with ledger.stage("publish"):
        tables = surveyed.tables
        has_gone_live = publish_finished(ledger.run, finished.version, ledger.previous, tables, lease)
    return surveyed.outcome(is_live=has_gone_live)


def flow_of(kb: str) -> "Flow[..., Any]":
    """The refresh flow, named for a knowledge base, so that its deployment is called `voyago/refresh`."""
    return refresh_flow.with_options(name=kb)


def get_ready(*declarations: Declaration) -> None:
    """Does what runs begin with and what needs no server: for while Prefect's API starts."""
    for name in _IMPORTED_LATE:
        import_module(name)
    read_code()
    for declaration in declarations:
        with suppress(AlmanacError, OSError):  # which the run will raise again
            describe_embedder(declaration.embed)  # hashes the model's files


def refresh(declaration: Declaration, data: str | None = None, **options: Any) -> RunReport:
    """Runs the flow in this process and returns the run's report. `options` are those of `refresh_flow`, without `env`.

    Verdicts (unchanged, gate refused, no records) are returned as well; errors that the operator has to fix are raised
    as AlmanacError. A run that Prefect takes goes on without it, and is over though Prefect does not take its end.
    Raises PrefectGone for one that it does not take.
    """
    own = _Own(declaration)
    token = _own.set(own)
    try:
        with tags("almanac", declaration.name, TAG):
            # The overlay that was read, whatever the variable says: an empty one asks for none.
            flow_of(declaration.name)(str(declaration.path), data, env=declaration.env or "", **options)
    except Exception as error:
        if _is_interruption(error):  # of which Prefect could not be told
            raise KeyboardInterrupt from error
        if not isinstance(error, VerdictFailure) and error is not own.error:
            note_absence(error)
            if own.report is None and own.error is None:
                raise PrefectGone(
                    f"Prefect takes no run: {type(error).__name__}: {error}",
                    where=os.environ.get("PREFECT_API_URL"),
                    hint="see to that server, or unset PREFECT_API_URL: the run then starts one of its own",
                ) from error
    finally:
        _own.reset(token)
    if isinstance(own.error, TerminationSignal):
        raise KeyboardInterrupt from own.error
    if own.error is not None:
        raise own.error
    assert own.report is not None
    return own.report


def _is_interruption(error: BaseException | None) -> bool:
    """Whether an error, or one that it came up over, is that the operator cancelled the run."""
    while error is not None and not isinstance(error, KeyboardInterrupt | TerminationSignal):
        error = error.__context__
    return error is not None
