"""Commands for whoever runs a knowledge base: run, status, versions, publish, rollback, verify, export."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.options import KB, BeforeArgument, Data, Json, VersionArgument
from cli.output import print_json, print_table, say
from index import versions as stored
from index.lock import lock_holder, require_free
from index.publish import publish as move_pointer
from index.publish import rollback as move_back
from schemas.load import load_declaration
from schemas.reports import RunReport, Status, VerifyResult, VersionRow, Versions
from schemas.settings import DataDir


def run(
    kb: KB,
    no_publish: Annotated[bool, typer.Option("--no-publish", help="keep the new version without making it the live one")] = False,
    rejects_ok: Annotated[bool, typer.Option("--rejects-ok", help="exit 0 although items were quarantined")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Refresh: crawl, map, clean, validate, chunk, embed, build, verify, publish."""
    declaration = load_declaration(kb)
    folder = DataDir.locate(data)
    folder.require_writable()
    require_free(folder.index(declaration.name))

    from flows.api import start_api

    wait_until_ready = start_api(folder)
    from flows.refresh import refresh, summary_line

    wait_until_ready()
    report = RunReport.model_validate(refresh(str(declaration.path), str(folder.root), publish=not no_publish, rejects_ok=rejects_ok))
    if as_json:
        print_json(report)
    else:
        _show_report(report)
        say(summary_line(report))
    raise typer.Exit(report.exit_code)


def _show_report(report: RunReport) -> None:
    if report.error:
        say(f"{report.error['where']}: {report.error['message']}\n  → {report.error['hint']}")
    if report.gate is not None and report.gate.verdict == "refused":
        rows = [(c.name, c.value, c.limit, "ok" if c.ok else "REFUSED") for c in report.gate.checks]
        print_table("Gate refused: the live version serves on", ("check", "value", "limit", ""), rows)
    if report.rejects_file:
        say(f"quarantined items with their reasons: {report.rejects_file}")


def status(kb: KB, data: Data = None, as_json: Json = False) -> None:
    """Say what is live, what ran last, what runs now and what comes next."""
    from flows.run import last_run

    declaration = load_declaration(kb)
    folder = DataDir.locate(data)
    last = last_run(folder, declaration.name)
    upcoming, stale = _schedule(declaration.schedule, last)
    result = Status(
        kb=declaration.name,
        current=stored.current_version(folder.index(declaration.name)),
        last_run=last.model_dump(by_alias=True) if last else None,
        running=lock_holder(folder.index(declaration.name)),
        stale=stale,
        next_scheduled=upcoming,
    )
    if as_json:
        print_json(result)
        return
    rows = [
        ("current", result.current),
        ("last run", f"{last.outcome.replace('_', ' ')}, {last.finished_at}" if last else None),
        ("running", f"{result.running}" if result.running else "no"),
        ("stale", {True: "yes", False: "no", None: None}[stale]),
        ("next scheduled", upcoming),
    ]
    print_table(declaration.name, ("", "value"), rows)


def _schedule(cron: str | None, last: RunReport | None) -> tuple[str | None, bool | None]:
    """The next start, and whether the knowledge base is stale: no last run, one that ended badly, or a start since. Both None without a schedule."""
    from cronsim import CronSim

    if cron is None:
        return None, None
    now = datetime.now(UTC)
    upcoming = next(CronSim(cron, now)).isoformat()
    if last is None or last.exit_code not in (0, 5):
        return upcoming, True
    return upcoming, next(CronSim(cron, datetime.fromisoformat(last.started_at))) < now


def versions(kb: KB, data: Data = None, as_json: Json = False) -> None:
    """List the versions that are kept, newest first."""
    name = load_declaration(kb).name
    folder = DataDir.locate(data).index(name)
    current = stored.current_version(folder)
    rows = [
        VersionRow(
            version=m.version,
            state="current" if m.version == current else "refused" if m.gate.verdict == "refused" else "kept",
            created_at=m.created_at,
            parent=m.parent,
            counts=m.counts,
            digest=m.digest,
            run_id=m.run_id,
        )
        for m in reversed(stored.list_versions(folder))
    ]
    result = Versions(kb=name, current=current, versions=rows)
    if as_json:
        print_json(result)
        return
    table = [(r.version, r.state, r.created_at[:16].replace("T", " "), r.counts.records, r.counts.documents, r.counts.chunks, r.digest[:8]) for r in rows]
    print_table(name, ("version", "state", "created", "records", "docs", "chunks", "digest"), table)


def publish(
    kb: KB,
    version: Annotated[str, typer.Argument(metavar="V", help="a kept version such as v0002")],
    override_gate: Annotated[
        str | None,
        typer.Option("--override-gate", metavar="WHY", help="publish although the gate refused it; the reason is kept under overrides/", show_default=False),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a kept version the live one."""
    name = load_declaration(kb).name
    folder = DataDir.locate(data).index(name)
    previous = stored.current_version(folder)
    move_pointer(folder, version, override=override_gate)
    _say_moved(name, version, previous, as_json=as_json)


def rollback(kb: KB, version: BeforeArgument = None, data: Data = None, as_json: Json = False) -> None:
    """Make an older version the live one; without V the newest older one that the gate let pass."""
    name = load_declaration(kb).name
    folder = DataDir.locate(data).index(name)
    previous = stored.current_version(folder)
    _say_moved(name, move_back(folder, version), previous, as_json=as_json)


def _say_moved(kb: str, current: str, previous: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"kb": kb, "current": current, "previous": previous})
    else:
        say(f"{kb}: {current} is live" + (f", after {previous}" if previous and previous != current else ""))


def verify(kb: KB, version: VersionArgument = None, data: Data = None, as_json: Json = False) -> None:
    """Compare a version with its manifest, its tables and the kept vectors, row by row."""
    from index.verify import verify_version

    name = load_declaration(kb).name
    folder = DataDir.locate(data)
    index_dir = folder.index(name)
    found = stored.resolve_version(index_dir, version)
    manifest = stored.read_manifest(index_dir, found)
    problems = verify_version(stored.version_dir(index_dir, found), manifest, folder.vectors, manifest.embedder)
    result = VerifyResult(kb=name, version=found, ok=not problems, problems=problems)
    if as_json:
        print_json(result)
    elif result.ok:
        say(f"{name} {found}: ok, {manifest.counts.chunks} chunks")
    else:
        print_table(f"{name} {found}: damaged", ("kind", "where", "found", "expected"), [(p.kind, p.where, p.found, p.expected) for p in problems])
        say(f"  → almanac rollback {name} publishes the version before; almanac run {name} builds a new one when there is none")
    raise typer.Exit(0 if result.ok else 7)


def export(
    kb: KB,
    what: Annotated[Literal["chunks", "documents", "records", "vectors"], typer.Argument(metavar="chunks|documents|records|vectors", help="which table")],
    file_format: Annotated[Literal["jsonl", "csv", "parquet"], typer.Option("--format", help="csv opens in a spreadsheet")] = "jsonl",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="default: stdout", show_default=False)] = None,
    version: Annotated[str | None, typer.Option("--version", metavar="V", help="default: the live one", show_default=False)] = None,
    data: Data = None,
) -> None:
    """Write a version's chunks, documents, records or vectors."""
    from cli.export import export_table

    declaration = load_declaration(kb)
    export_table(declaration, DataDir.locate(data), stored.resolve_version(DataDir.locate(data).index(declaration.name), version), what, file_format, out)
