"""Commands for whoever runs a knowledge base: run, plan, status."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from almanac.cli.options import KB, Data, Env, Json
from almanac.cli.output import print_json, print_table, say
from almanac.core.load import load_declaration
from almanac.core.namesakes import require_own_name
from almanac.core.settings import DataDir
from almanac.schemas.errors import AlmanacError, DamagedVersion, NoRecords, NotFound, StorageError, StoreAway

if TYPE_CHECKING:
    from almanac.schemas.reports import RunReport, StoreStatus

Sources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="S", help="only this source; may be given again", show_default=False),
]
Full = Annotated[bool, typer.Option("--full", help="ask for every page anew, map every page anew, build in full")]


def run(
    kb: KB,
    source: Sources = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            "--url", metavar="U", help="only this page of the one --source; may be given again", show_default=False
        ),
    ] = None,
    full: Full = False,
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="keep the new version without making it the live one")
    ] = False,
    rejects_ok: Annotated[bool, typer.Option("--rejects-ok", help="exit 0 although items were rejected")] = False,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Refresh: crawl, map, clean, validate, chunk, embed, build, verify, publish."""
    declaration = load_declaration(kb, env)
    require_own_name(declaration)
    from almanac.index.versions.lock import require_free
    from almanac.schemas.scope import Scope

    scope = Scope.from_options(declaration, source, url, full=full)
    folder = DataDir.locate(data)
    folder.require_writable()
    require_free(folder.index(declaration.name))
    from almanac.flows.server.prefect_api import start_api

    wait_until_ready = start_api(folder)
    if any(source.kind == "site" and scope.covers(source.name) for source in declaration.sources):
        from almanac.spiders.crawling.crawl_start import start_ahead as start_crawl_ahead

        start_crawl_ahead()
    from almanac.cli.run_report import say_what_next, show_report
    from almanac.flows.refresh import get_ready, refresh
    from almanac.flows.reporting.report_tables import summary_line

    get_ready(declaration)
    wait_until_ready()
    try:
        options = {
            "publish": not no_publish,
            "rejects_ok": rejects_ok,
            "sources": list(scope.sources),
            "urls": list(scope.urls),
            "full": full,
        }
        report = refresh(declaration, folder.place, **options)
    except KeyboardInterrupt:
        sys.stderr.write(f"almanac: to go on: almanac run {declaration.handle}\n")
        raise
    if as_json:
        print_json(report)
    else:
        # of a store, what is missing here is fetched
        can_be_compared = bool(folder.url) or is_comparable(folder.index(declaration.name), report.previous)
        show_report(report, declaration.handle, is_comparable=can_be_compared)
        say(summary_line(report))
        if report.outcome.startswith("published") and report.previous is None:
            say_what_next(declaration)
    raise typer.Exit(report.exit_code)


def plan(
    kb: KB,
    source: Sources = None,
    full: Full = False,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=0,
            help=(
                "where the embedder is another one than the live version's: ask the golden questions before and after "
                "on N chunks, which are embedded; default: 500 by a model on this machine, 0 by an API"
            ),
            show_default=False,
        ),
    ] = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say what a run would do now: pages, items, rejected ones with reasons, texts to embed, tokens, cost, the
    gate's verdict. Touches nothing.
    """
    from almanac.cli.run_report import show_plan, show_rejects
    from almanac.flows.pipeline.plan import plan as plan_run
    from almanac.schemas.scope import Scope

    declaration = load_declaration(kb, env)
    require_own_name(declaration)
    try:
        result = plan_run(declaration, DataDir.locate(data), Scope.from_options(declaration, source, full=full), sample)
    except NoRecords as nothing:
        if not as_json and nothing.report:
            show_rejects(nothing.report["rejects"])
        raise
    if as_json:
        print_json(result)
        return
    show_plan(result, declaration)


def status(kb: KB, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Say what is live, what ran last, what runs now and what comes next."""
    from almanac.core.store.objects import Objects
    from almanac.core.store.pointer import holder_of
    from almanac.core.store.readers import heard_of
    from almanac.core.store.session import listing
    from almanac.flows.pipeline.earlier_runs import last_run
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.lock import lock_holder
    from almanac.schemas.reports import Status, StoreStatus

    declaration = load_declaration(kb, env, to_read=True)
    folder, name = DataDir.locate(data), declaration.name
    store = None
    try:
        with listing(folder, name) as listed:
            last, current = last_run(listed, name), stored.current_version(listed.index(name))
        running = holder_of(Objects(folder.url), name) if folder.url else lock_holder(folder.index(name))
        if folder.url:
            store = StoreStatus(url=folder.url, away=False, cached=heard_of(folder, name).version)
    except StoreAway:
        current, away_since = heard_of(folder, name)
        if current is None:
            raise
        last = running = None
        store = StoreStatus(url=folder.url, away=True, away_since=away_since, cached=current)
    upcoming, stale = _schedule(declaration.schedule, last)
    if store is not None and store.away:
        stale = None
    result = Status(
        kb=name,
        env=declaration.env,
        current=current,
        last_run=last.model_dump(by_alias=True) if last else None,
        running=running,
        stale=stale,
        next_scheduled=upcoming,
        store=store,
        problem=None if folder.url or current is None else _problem(folder.index(name), current, declaration.handle),
    )
    if as_json:
        print_json(result)
        return
    rows = [
        ("environment", result.env),
        ("live", result.current),
        *([("problem", result.problem)] if result.problem else []),
        ("last run", f"{last.outcome.replace('_', ' ')}, {last.finished_at}" if last else None),
        (
            "running",
            f"{running['holder']}, pid {running['pid']} on {running['host']}, since {running['since']}"
            if running
            else None
            if store and store.away
            else "no",
        ),
        ("stale", {True: "yes", False: "no", None: None}[stale]),
        ("next scheduled", upcoming),
        *([("store", _say_store(store)), ("cached here", store.cached)] if store is not None else []),
    ]
    print_table(declaration.name, ("", "value"), rows)


def is_comparable(index_dir: Path, version: str | None) -> bool:
    """Whether `almanac diff` reads a version: not one that another release wrote, or that is damaged or gone."""
    from almanac.index.versions.version_store import read_manifest, require_files, require_segments, version_dir

    if version is None:
        return False
    try:
        manifest = read_manifest(index_dir, version)
        require_files(version_dir(index_dir, version), manifest)
        require_segments(index_dir, manifest)
    except AlmanacError:
        return False
    return True


def _problem(index_dir: Path, version: str, handle: str) -> str | None:
    """Why a version is not as it should be, with the way out, as far as a look of milliseconds tells; None where it
    finds nothing.
    """
    from almanac.index.versions.version_store import read_manifest, require_files, require_segments, version_dir

    try:
        manifest = read_manifest(index_dir, version)
        require_files(version_dir(index_dir, version), manifest)
        require_segments(index_dir, manifest)
    except (DamagedVersion, NotFound, StorageError) as error:
        error.about(handle)
        return str(error)
    return None


def _say_store(store: "StoreStatus") -> str:
    return (
        f"{store.url} is away, and answered last at {store.away_since}: this is what the cache has"
        if store.away
        else store.url
    )


def _schedule(cron: str | None, last: "RunReport | None") -> tuple[str | None, bool | None]:
    """The next start, and whether the knowledge base is stale: no last run, one that ended badly or at a time still to
    come, or a start since.

    Both None without a schedule.
    """
    from cronsim import CronSim

    from almanac.core.clock import age_of

    if cron is None:
        return None, None
    age = age_of(last.started_at) if last is not None else None
    # after the age, so that a start in the very second of the schedule does not seem to lie before it
    now = datetime.now(UTC)
    upcoming = next(CronSim(cron, now)).isoformat()
    if last is None or last.exit_code not in (0, 5) or age is None:
        return upcoming, True
    return upcoming, next(CronSim(cron, now - age)) < now
