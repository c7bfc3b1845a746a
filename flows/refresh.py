"""The refresh flow: runs the steps of the pipeline as Prefect tasks, and shows their results as artifacts.

`flows/pipeline/refresh.py` has the order of the steps, which is the same without Prefect.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any
from uuid import UUID

from prefect import Flow, Task, flow, tags, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TagsContext
from prefect.exceptions import TerminationSignal
from prefect.runtime import deployment, flow_run
from prefect.utilities.annotations import opaque, quote

from almanac.core.lifetime import die_with_parent
from almanac.core.load import load_declaration
from almanac.core.logs import log_through_stdlib
from almanac.core.namesakes import require_own_name
from almanac.core.settings import DataDir
from almanac.flows.artifacts import show_run, show_summary, show_survey
from almanac.flows.availability import note_absence, tell_prefect
from almanac.flows.begun_runs import TAG, note_process
from almanac.flows.cluster import fan_out_of
from almanac.flows.limits import embedding_slot
from almanac.flows.outcome import VerdictFailure, announce, state_of, state_of_error
from almanac.flows.pipeline.acquire import acquire
from almanac.flows.pipeline.batches import span_name
from almanac.flows.pipeline.embed import embed_texts
from almanac.flows.pipeline.fingerprints import read_code
from almanac.flows.pipeline.handles import HANDLES
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.publish import measure, measure_live, publish_finished
from almanac.flows.pipeline.refresh import Conduct, carry_out
from almanac.flows.pipeline.run import Run
from almanac.flows.progress import show_progress
from almanac.flows.secrets import take_key_from_prefect
from almanac.index.embedding.embedder import describe_embedder
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, PrefectGone, Retriable
from almanac.schemas.reports import RunReport
from almanac.schemas.scope import Scope

# What Prefect imports when a flow begins: its engines, and that with which it writes down the parameters of a run.
_IMPORTED_LATE = ("fastapi.encoders", "prefect.flow_engine", "prefect.task_engine")


async def _is_retriable(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Whether the failure may go away by itself, and there is time left: only `Retriable` errors do
    (schemas/errors.py).
    """
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, Retriable) and not error.is_final


def _checkpoint_name(parameters: dict[str, Any]) -> str:
    return span_name("embed checkpoint", (parameters["first"], parameters["last"]))


# What tasks have beside the name of their step. Prefect retries acquisition only: requests for embeddings are retried
# by the API client (index/mistral).
_PARTICULAR: dict[Callable[..., Any], dict[str, Any]] = {
    acquire: {
        "task_run_name": "acquire {source.name}",
        "retries": 2,
        "retry_delay_seconds": [1, 4],
        "retry_condition_fn": _is_retriable,
    },
    embed_texts: {"task_run_name": _checkpoint_name},
    measure: {"name": "ask golden questions"},
    measure_live: {"name": "ask golden questions"},
    publish_finished: {"name": "publish"},
}


@cache
def _task(step: Callable[..., Any]) -> Task[..., Any]:
    """A step as a Prefect task, without stored results: steps return handles to files."""
    options = {"name": step.__name__.replace("_", " "), **_PARTICULAR.get(step, {})}
    return task(cache_policy=NO_CACHE, persist_result=False, **{"task_run_name": options["name"], **options})(step)


def _do(step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Runs a step as a task.

    Prefect searches all arguments for results of other tasks, which become the edges of the graph, and mistakes equal
    texts and numbers for such results. Therefore it sees the handles but not their contents, and no other argument.
    """
    return _task(step)(*map(_shown, arguments), **named)


def _shown(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(_shown(one) for one in argument)
    return opaque(argument) if isinstance(argument, HANDLES) else quote(argument)


@dataclass
class _Own:
    """A run: the declaration that its command has read, and how it ended, noted by itself: what Prefect makes of that
    does not count.

    Neither report nor error is set of a run that never began.
    """

    declaration: Declaration | None = None
    report: dict[str, Any] | None = None
    error: BaseException | None = None


_own: ContextVar[_Own] = ContextVar("own")


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
    own, ledger = _own.get(None) or _Own(), Ledger()
    if deployment.id is not None:
        die_with_parent()  # with its worker: nobody else would end it, or tell how it ended
    if own.declaration is not None:
        tell_prefect("the process of the run", note_process, UUID(flow_run.id))
    try:
        if (declaration := own.declaration) is None:
            declaration = load_declaration(kb, env)
            require_own_name(declaration)
        take_key_from_prefect(declaration)
        scope = Scope.of(declaration, sources, urls, full=full)
        run = Run(declaration, DataDir.locate(data).of(declaration.name), scope)
        # A task with a tag asks the server for a slot before and after; the run has them.
        with fan_out_of(declaration) as fan_out, TagsContext(current_tags=set()):
            conduct = Conduct(
                do=_do,
                show=partial(show_progress, run.kb),
                embedding=partial(embedding_slot, declaration),
                fan_out=fan_out,
                interruptions=(KeyboardInterrupt, TerminationSignal),
                when_surveyed=show_survey,
            )
            own.report = carry_out(run, conduct, go_live=publish, rejects_ok=rejects_ok, ledger=ledger)
    except AlmanacError as error:
        own.error = error
        if ledger.report is not None:  # not where another run holds the knowledge base
            show_summary(ledger.report)
            announce(ledger.report)
        return state_of_error(error)
    except BaseException as error:  # a defect, or cancelled
        own.error = error
        if ledger.report is not None:
            announce(ledger.report)
        raise
    report = RunReport.model_validate(own.report)
    show_run(run, report, ledger)
    announce(report)
    return state_of(report)


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


def refresh(declaration: Declaration, data: str | None = None, **options: Any) -> dict[str, Any]:
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
