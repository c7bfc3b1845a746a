"""Commands for whoever runs a knowledge base: run, plan, status."""

import sys
import threading
from datetime import UTC, datetime
from importlib import import_module
from typing import Annotated, Any

import typer

from almanac.cli.options import KB, Data, Env, Json
from almanac.cli.output import print_json, print_table, say
from almanac.core.clock import age_of
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, quiet_engines
from almanac.core.store.readers import last_reached, version_here
from almanac.core.store.session import holder_in_store, listing
from almanac.flows.reporting.tables import (
    DUPLICATE_COLUMNS,
    EXPECTATION_COLUMNS,
    GATE_COLUMNS,
    LOST_COLUMNS,
    REJECT_COLUMNS,
    TEXT_COLUMNS,
    duplicate_rows,
    expectation_rows,
    expectations_line,
    gate_rows,
    gate_title,
    lost_pages,
    lost_rows,
    plan_rows,
    reject_rows,
    rules_note,
    text_rows,
)
from almanac.index.versions import store as stored
from almanac.index.versions.lock import lock_holder, require_free
from almanac.schemas.errors import NoRecords, StoreAway
from almanac.schemas.reports import DECLARE_BODY, CrawlOutcome, RunReport, Status, StoreStatus
from almanac.schemas.scope import Scope

_SHOWN = 50
_SHOWN_REJECTS = 20
_DUPLICATES_SHOWN = 10
_SHOWN_TEXTS = 10
Sources = Annotated[list[str] | None, typer.Option("--source", metavar="S", help="only this source; may be given again", show_default=False)]
Full = Annotated[bool, typer.Option("--full", help="ask for every page anew, map every page anew, build in full")]


def run(
    kb: KB,
    source: Sources = None,
    url: Annotated[
        list[str] | None, typer.Option("--url", metavar="U", help="only this page of the one --source; may be given again", show_default=False)
    ] = None,
    full: Full = False,
    no_publish: Annotated[bool, typer.Option("--no-publish", help="keep the new version without making it the live one")] = False,
    rejects_ok: Annotated[bool, typer.Option("--rejects-ok", help="exit 0 although items were quarantined")] = False,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Refresh: crawl, map, clean, validate, chunk, embed, build, verify, publish."""
    declaration = load_declaration(kb, env)
    scope = Scope.of(declaration, source, url, full=full)
    folder = DataDir.locate(data)
    folder.require_writable()
    require_free(folder.index(declaration.name))

    from almanac.flows.server.api import start_api

    wait_until_ready = start_api(folder)
    from almanac.flows.refresh import refresh, summary_line

    if stored.read_pointer(folder.index(declaration.name)) is None and declaration.embed.provider == "local":
        importing = _import_model_meanwhile()
        wait_until_ready()
        importing.join()  # two threads that import the same library, of which one is interrupted, may wait for each other for ever
    else:
        wait_until_ready()
    try:
        # The overlay that was read above, whatever the variable says: an empty one asks for none.
        done = refresh(
            str(declaration.path), folder.place, publish=not no_publish, rejects_ok=rejects_ok,
            sources=list(scope.sources), urls=list(scope.urls), full=full, env=declaration.env or "",
        )  # fmt: skip
    except KeyboardInterrupt:
        sys.stderr.write(f"almanac: to go on: almanac run {declaration.handle}\n")
        raise
    report = RunReport.model_validate(done)
    if as_json:
        print_json(report)
    else:
        _show_report(report, declaration.handle)
        say(summary_line(report))
    raise typer.Exit(report.exit_code)


def _import_model_meanwhile() -> threading.Thread:
    """A first run embeds for sure, and Prefect's API makes its database first, some ten seconds on a fresh machine: time for a model's four of importing."""
    quiet_engines()
    thread = threading.Thread(target=import_module, args=("sentence_transformers",), daemon=True, name="import-model")
    thread.start()
    return thread


def _show_report(report: RunReport, handle: str) -> None:
    if report.error:
        say(f"{report.error['where']}: {report.error['message']}\n  → {report.error['hint']}")
    if lost := lost_rows(report.sources):
        print_table("Pages that did not arrive, are gone or are left out", LOST_COLUMNS, lost)
    _show_texts(report.sources, handle)
    if report.gate is not None and report.gate.verdict == "refused":
        print_table(gate_title(report.gate, report.previous), GATE_COLUMNS, gate_rows(report.gate))
        _show_missed(report)
        _say_what_to_do(report, handle)
    if report.duplicates:
        print_table("Items dropped because they equal another one", DUPLICATE_COLUMNS, duplicate_rows(report)[:_DUPLICATES_SHOWN])
        if (more := report.items.deduplicated - _DUPLICATES_SHOWN) > 0:
            say(f"and {more:,} more: {report.duplicates_file}")
    _show_expectations(report)
    if report.rejects_file:
        say(f"quarantined items with their reasons: {report.rejects_file}")


def _show_texts(sources: list[CrawlOutcome], handle: str) -> None:
    if rows := text_rows(sources):
        print_table("Pages whose main text may not be found", TEXT_COLUMNS, rows[:_SHOWN_TEXTS])
        say(f"  → {DECLARE_BODY.replace('KB', handle)}")


def _show_expectations(report: RunReport) -> None:
    if not report.expectations:
        return
    if broken := [one for one in report.expectations if not one.ok]:
        print_table("Expectations that do not hold", EXPECTATION_COLUMNS, expectation_rows(broken))
    say(f"expectations: {expectations_line(report.expectations)}; {report.validation_page}")


def _show_missed(report: RunReport) -> None:
    missed = report.recall.missed if report.recall is not None else []
    if missed and report.recall is not None:
        say(f"golden questions without their answer, {len(missed)} of {report.recall.questions}:")
        for question in missed[:_SHOWN]:
            say(f"  {question}")


def _say_what_to_do(report: RunReport, handle: str) -> None:
    if note := rules_note(report):
        say(f"  → {note}")
    if report.version is None:
        say(f"  → nothing new was kept; mend the cause, or the limit under gate: in the declaration, then: almanac run {handle}")
        return
    if report.previous and report.previous != report.version:
        say(f"  → what differs:      almanac diff {handle} {report.previous} {report.version}")
    say(f'  → if that is right:  almanac publish {handle} {report.version} --override-gate "why"')


def plan(kb: KB, source: Sources = None, full: Full = False, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Say what a run would do now: pages, items, quarantined ones with reasons, texts to embed, tokens, cost, the gate's verdict. Touches nothing."""
    from almanac.flows.pipeline.plan import plan as plan_run

    declaration = load_declaration(kb, env)
    try:
        result = plan_run(declaration, DataDir.locate(data), Scope.of(declaration, source, full=full))
    except NoRecords as nothing:
        if not as_json and nothing.report:
            _show_rejects(nothing.report["rejects"])
        raise
    if as_json:
        print_json(result)
        return
    print_table(f"{result.kb}: what a run would do now", ("", "value"), plan_rows(result))
    print_table("Gate: would refuse" if result.gate["would_refuse"] else "Gate: would let it pass", GATE_COLUMNS, gate_rows(result.gate))
    if lost := lost_pages(result.sources):
        more = f", the first {_SHOWN} of {len(lost)}" if len(lost) > _SHOWN else ""
        print_table(f"Pages that do not arrive, are gone or are left out{more}", ("page", "reason"), lost[:_SHOWN])
    _show_texts(result.sources, declaration.handle)
    _show_rejects(result.rejects)


def _show_rejects(rejects: list[dict[str, Any]]) -> None:
    if not rejects:
        return
    print_table(f"Would be quarantined: {len(rejects)}", REJECT_COLUMNS, reject_rows(rejects[:_SHOWN_REJECTS]))
    if len(rejects) > _SHOWN_REJECTS:
        say(f"and {len(rejects) - _SHOWN_REJECTS} more; --json lists all of them")


def status(kb: KB, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Say what is live, what ran last, what runs now and what comes next."""
    from almanac.flows.pipeline.earlier_runs import last_run

    declaration = load_declaration(kb, env)
    folder, name = DataDir.locate(data), declaration.name
    store = None
    try:
        with listing(folder, name) as listed:
            last, current = last_run(listed, name), stored.current_version(listed.index(name))
        running = holder_in_store(folder, name) if folder.url else lock_holder(folder.index(name))
        if folder.url:
            store = StoreStatus(url=folder.url, away=False, cached=version_here(folder, name))
    except StoreAway:
        current = version_here(folder, name)
        if current is None:
            raise
        last = running = None
        store = StoreStatus(url=folder.url, away=True, away_since=last_reached(folder, name), cached=current)
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
    )
    if as_json:
        print_json(result)
        return
    rows = [
        ("environment", result.env),
        ("current", result.current),
        ("last run", f"{last.outcome.replace('_', ' ')}, {last.finished_at}" if last else None),
        (
            "running",
            f"{running['holder']}, pid {running['pid']} on {running['host']}, since {running['since']}" if running else None if store and store.away else "no",
        ),
        ("stale", {True: "yes", False: "no", None: None}[stale]),
        ("next scheduled", upcoming),
        *([("store", _say_store(store)), ("cached here", store.cached)] if store is not None else []),
    ]
    print_table(declaration.name, ("", "value"), rows)


def _say_store(store: StoreStatus) -> str:
    return f"{store.url} is away, and answered last at {store.away_since}: this is what the cache has" if store.away else store.url


def _schedule(cron: str | None, last: RunReport | None) -> tuple[str | None, bool | None]:
    """The next start, and whether the knowledge base is stale: no last run, one that ended badly or at a time still to come, or a start since.

    Both None without a schedule.
    """
    from cronsim import CronSim

    if cron is None:
        return None, None
    now = datetime.now(UTC)
    upcoming = next(CronSim(cron, now)).isoformat()
    if last is None or last.exit_code not in (0, 5) or (age := age_of(last.started_at)) is None:
        return upcoming, True
    return upcoming, next(CronSim(cron, now - age)) < now
