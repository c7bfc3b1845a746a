"""Commands for whoever keeps versions: versions, diff, publish, rollback, verify, rebuild, compact, prune, forget,
promote, export.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from almanac.cli.options import KB, BeforeArgument, Data, Env, Json, VersionArgument
from almanac.cli.output import print_json, print_table, say
from almanac.core.load import load_declaration
from almanac.core.pins import alone_with
from almanac.core.settings import DataDir
from almanac.schemas.errors import DamagedVersion, UsageError

if TYPE_CHECKING:
    from almanac.schemas.declaration import Declaration
    from almanac.schemas.reports import ItemChange, VersionRow

_SHOWN = 50  # changed items in a table; --json has all


class _Place(NamedTuple):
    """What every command here is about: a knowledge base, its data directory, and where its versions lie."""

    declaration: "Declaration"
    data: DataDir

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def index_dir(self) -> Path:
        return self.data.index(self.name)


def _locate(kb: str, env: str | None, data: str | None) -> _Place:
    return _Place(load_declaration(kb, env, to_read=True), DataDir.locate(data))


def versions(kb: KB, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """List the versions that are kept, newest first."""
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.publications import ALTERED, altered_publications

    place = _locate(kb, env, data)
    name, index_dir = place.name, place.index_dir
    report = stored.report_versions(index_dir)
    if as_json:
        print_json(report)
        return
    table: list[tuple[object, ...]] = [
        (
            r.version,
            "live" if r.state == "current" else r.state,
            _minute(r.created_at),
            _publication(r),
            r.counts.records,
            r.counts.documents,
            _chunks(r),
            r.size_mb,
            r.digest[:8],
        )
        for r in report.versions
    ]
    columns = ["version", "state", "created", "last live", "records", "docs", "chunks", "MB", "digest"]
    read = [_readers(index_dir, r.version) for r in report.versions]
    if any(read):
        columns.append("read now")
        table = [(*row, readers) for row, readers in zip(table, read, strict=True)]
    print_table(name, columns, table)
    if altered := altered_publications(index_dir):
        say(f"{', '.join(altered)}: a publication that cannot be read\n  → {ALTERED}")
    try:
        stored.current_version(index_dir)
    except DamagedVersion as error:
        error.about(place.declaration.handle)
        say(f"{error.message}\n  → {error.hint}")


def _chunks(row: "VersionRow") -> str:
    return f"{row.counts.chunks}" if row.segments == 1 else f"{row.counts.chunks} in {row.segments} segments"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _publication(row: "VersionRow") -> str:
    """When the version last went live, and why it did although the gate had refused it."""
    if row.published_at is None:
        return "never"
    return _minute(row.published_at) + (f", overriding the gate: {row.override}" if row.override else "")


def _readers(folder: Path, version: str) -> str:
    from almanac.index.versions import version_store as stored

    try:
        with alone_with(stored.version_dir(folder, version)) as alone:
            return "" if alone else "yes"
    except FileNotFoundError:
        return "pruned"


def diff(
    kb: KB,
    since: Annotated[str, typer.Argument(metavar="A", help="a version such as v0001")],
    to: Annotated[str, typer.Argument(metavar="B", help="the version to compare it with")],
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say what version B has that A has not: items, chunks, and the rules that changed."""
    from almanac.flows.reporting.diff import compare_versions

    place = _locate(kb, env, data)
    result = compare_versions(place.index_dir, since, to)
    if as_json:
        print_json(result)
        return
    rows = [
        (change, result.items.get(change), result.chunks.get(change))
        for change in ("added", "changed", "moved", "removed", "unchanged")
    ]
    rows[-1] = ("unchanged", result.items["unchanged"], result.chunks["kept"])
    print_table(f"{place.name}: {since} → {to}", ("", "items", "chunks"), rows)
    say(f"rules changed for: {', '.join(result.stages)}" if result.stages else "no rules changed")
    _show_changes(result.changes)


def _show_changes(changes: "Sequence[ItemChange]") -> None:
    if changes:
        rows = [
            (c.change, c.source, c.title or c.document_id, f"{c.was} → {c.url}" if c.was else c.url)
            for c in changes[:_SHOWN]
        ]
        print_table("Items", ("change", "source", "title", "url"), rows)
    if len(changes) > _SHOWN:
        say(f"… and {len(changes) - _SHOWN} more; --json lists all")


def publish(
    kb: KB,
    version: Annotated[str, typer.Argument(metavar="V", help="a kept version such as v0002")],
    override_gate: Annotated[
        str | None,
        typer.Option(
            "--override-gate",
            metavar="WHY",
            help="publish although the gate refused it; the reason is kept in published.jsonl",
            show_default=False,
        ),
    ] = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a kept version the live one."""
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.publish import publish as move_pointer

    place = _locate(kb, env, data)
    name, index_dir = place.name, place.index_dir
    stored.require_version(index_dir, version)  # so that a mistake leaves no index_dir behind
    previous = stored.usable_pointer(index_dir)
    move_pointer(index_dir, version, override=override_gate)
    _say_moved(name, version, previous, as_json=as_json)


def rollback(kb: KB, version: BeforeArgument = None, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Make an older version the live one; without V the newest older one that the gate let pass."""
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.publish import rollback as move_back

    place = _locate(kb, env, data)
    name, index_dir = place.name, place.index_dir
    if version is None:
        stored.require_published(index_dir)
    else:
        stored.require_version(index_dir, version)
    previous = stored.usable_pointer(index_dir)
    current = move_back(index_dir, version)
    _say_moved(name, current, previous, as_json=as_json)


def _say_moved(kb: str, current: str, previous: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"kb": kb, "current": current, "previous": previous})
    else:
        say(f"{kb}: {current} is live" + (f", after {previous}" if previous and previous != current else ""))


def verify(kb: KB, version: VersionArgument = None, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Compare a version with its manifest, its tables and the kept vectors, row by row."""
    from almanac.index.vectors.retention import vectors_in_use
    from almanac.index.verify.verifier import verify_version
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.publications import ALTERED, altered_publications
    from almanac.schemas.reports import Problem, VerifyResult

    place = _locate(kb, env, data)
    name, index_dir, vectors = place.name, place.index_dir, place.data.vectors
    resolved = stored.resolve_version(index_dir, version)
    while True:
        pin = stored.pin_version(index_dir, resolved)
        with vectors_in_use(vectors):
            manifest = stored.read_manifest(index_dir, resolved)
            problems = verify_version(stored.version_dir(index_dir, resolved), manifest, vectors, manifest.embedder)
        same = pin.is_in_place()
        pin.close()
        if same:  # else it was rebuilt meanwhile, and half of either was seen
            break
    altered = altered_publications(index_dir)
    problems += [
        Problem(kind="file_altered", where=where, found="a line that does not match its hash") for where in altered
    ]
    result = VerifyResult(kb=name, version=resolved, ok=not problems, problems=problems)
    if as_json:
        print_json(result)
    elif result.ok:
        say(f"{name} {resolved}: ok, {manifest.counts.chunks} chunks")
    else:
        print_table(
            f"{name} {resolved}: damaged",
            ("kind", "where", "found", "expected"),
            [(p.kind, p.where, p.found, p.expected) for p in problems],
        )
        if len(problems) > len(altered):
            say(
                f"  → almanac rebuild {name} {resolved} mends all but its tables; almanac rollback {name} publishes "
                "the version before;"
            )
            say(f"    almanac run {name} builds a new one")
        if altered:
            say(f"  → {ALTERED}")
    raise typer.Exit(0 if result.ok else 7)


def rebuild(kb: KB, version: VersionArgument = None, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Make a version anew from its tables and the kept vectors; nothing is embedded, and its digest stays."""
    from almanac.index.upkeep.rebuild import rebuild_version
    from almanac.index.vectors.retention import vectors_in_use
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.lock import writer_lock

    place = _locate(kb, env, data)
    name, index_dir, vectors = place.name, place.index_dir, place.data.vectors
    resolved = stored.resolve_version(index_dir, version)
    with writer_lock(index_dir, "rebuild") as lease, vectors_in_use(vectors):
        stored.discard_unfinished(index_dir)
        result = rebuild_version(index_dir, resolved, vectors, lease=lease)
    if as_json:
        print_json(result)
    else:
        say(
            f"{name} {resolved}: rebuilt, {result.chunks} chunks, none embedded, {result.seconds:.1f} s; digest "
            f"{result.digest[:8]} as before"
        )


def compact(kb: KB, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Merge the live version's segments into few without deleted rows, as a new version of the same content; nothing is
    embedded.
    """
    from almanac.index.upkeep.compact import compact_version
    from almanac.index.vectors.retention import vectors_in_use
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.lock import writer_lock

    place = _locate(kb, env, data)
    name, index_dir, vectors = place.name, place.index_dir, place.data.vectors
    stored.require_published(index_dir)
    place.data.require_writable()
    with writer_lock(index_dir, "compact") as lease, vectors_in_use(vectors):
        stored.discard_unfinished(index_dir)
        result = compact_version(index_dir, place.declaration.index.segment, vectors, lease=lease)
    if as_json:
        print_json(result)
    elif result.version == result.previous:
        say(f"{name} {result.version}: nothing to merge")
    else:
        state = "live" if result.published else "kept, since another version went live meanwhile"
        say(f"{name}: {result.version} is {state}, after {result.previous}")
        say(
            f"{result.segments.before} segments merged into {result.segments.after}, {result.deleted} deleted "
            f"chunks left out, {result.seconds:.1f} s"
        )


def prune(kb: KB, env: Env = None, data: Data = None, as_json: Json = False) -> None:
    """Remove what is beyond the declared retention: versions, raw crawls and their pages, vectors that nothing kept
    needs.
    """
    from almanac.flows.pipeline.apply_retention import apply_retention
    from almanac.index.versions.lock import writer_lock

    place = _locate(kb, env, data)
    place.data.require_there(place.name)
    place.data.require_writable()
    with writer_lock(place.index_dir, "prune") as lease:
        result = apply_retention(place.data, place.declaration, lease=lease)
    if as_json:
        print_json(result)
        return
    rows = [
        ("versions", len(result.versions)),
        ("raw crawls", result.crawls),
        ("raw pages", result.pages),
        ("vectors", result.vectors),
    ]
    print_table(f"{place.name}: removed, {result.bytes / 1e6:.1f} MB", ("", "removed"), rows)
    if result.held:
        say(f"left, because somebody reads them now: {', '.join(result.held)}")


def forget(
    kb: KB,
    url: Annotated[str, typer.Argument(metavar="URL", help="of the page or item, as hits and exports show it")],
    why: Annotated[
        str | None, typer.Option("--why", metavar="TEXT", help="kept in forgotten.jsonl", show_default=False)
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="deny a URL of which nothing is known, too")] = False,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take a page or item down: out of raw pages, caches and every kept version, never to be fetched again."""
    from almanac.flows.pipeline.forget_url import forget_url
    from almanac.index.versions import version_store as stored
    from almanac.index.versions.lock import writer_lock

    if not url.strip():
        raise UsageError(
            "the URL is empty", where="URL", hint="copy it from a hit, or from almanac export KB documents"
        )
    place = _locate(kb, env, data)
    place.data.require_there(None if anyway else place.name)
    place.data.require_writable()
    with writer_lock(place.index_dir, "forget") as lease:
        stored.discard_unfinished(place.index_dir)
        result = forget_url(place.data, place.declaration, url, why, anyway=anyway, lease=lease)
    if as_json:
        print_json(result)
        return
    rows = [
        ("items", result.items),
        ("chunks", result.chunks),
        ("vectors", result.vectors),
        ("raw pages", result.pages),
    ]
    print_table(f"{place.name}: forgotten: {url}", ("", "erased"), rows)
    say(f"versions made anew without it: {', '.join(result.versions) or 'none held it'}")


def promote(
    kb: KB,
    version: Annotated[str, typer.Argument(metavar="V", help="a version that the gate let pass, such as v0002")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="DIR", help="another data directory, such as production's", show_default=False),
    ],
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="copy it there without making it the live one")
    ] = False,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Copy a verified version into another data directory, verify it there, and publish it."""
    from almanac.index.upkeep.promote import promote_version
    from almanac.index.versions import version_store as stored

    place = _locate(kb, env, data)
    name, target = place.name, DataDir.locate(to)
    before = stored.read_pointer(target.index(name))
    result = promote_version(place.data, target, name, version, go_live=not no_publish)
    if as_json:
        print_json(result)
    elif before == result.promoted:
        say(f"{name} {version}: unchanged, {result.promoted} in {result.to} is live and holds the same")
    else:
        say(
            f"{name} {version}: verified, and {'live' if result.published else 'kept'} as {result.promoted} in "
            f"{result.to}"
        )


def export(
    kb: KB,
    what: Annotated[
        Literal["chunks", "documents", "records", "vectors", "chroma"],
        typer.Argument(
            metavar="chunks|documents|records|vectors|chroma",
            help="which table; or all chunks as one stock Chroma directory",
        ),
    ],
    file_format: Annotated[
        Literal["jsonl", "csv", "parquet"], typer.Option("--format", help="of a table; csv opens in a spreadsheet")
    ] = "jsonl",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="a file, default: stdout; for chroma a directory that is new or empty",
            show_default=False,
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help=(
                "for csv: put ' before texts that a spreadsheet would run as a formula (=, +, -, @, tab, line "
                "break); default: exact texts"
            ),
        ),
    ] = False,
    version: Annotated[
        str | None, typer.Option("--version", metavar="V", help="default: the live one", show_default=False)
    ] = None,
    env: Env = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="for chroma: say as JSON where and how many")] = False,
) -> None:
    """Write a version's chunks, documents, records or vectors, or all of it as one Chroma directory."""
    from almanac.cli.export import export_table
    from almanac.index.versions import version_store as stored

    place = _locate(kb, env, data)
    if what == "chroma" and out is None:
        raise UsageError(
            "a Chroma directory needs a place",
            where="export chroma",
            hint=f"almanac export {place.declaration.handle} chroma --out DIR",
        )
    if what != "chroma" and as_json:
        raise UsageError(
            "a table is written, and nothing said",
            where="--json",
            hint="--format jsonl writes the table as JSON; --json goes with chroma",
        )
    if spreadsheet_safe and (what == "chroma" or file_format != "csv"):
        raise UsageError(
            "only a CSV is opened as a spreadsheet",
            where="--spreadsheet-safe",
            hint=f"almanac export {place.declaration.handle} records --format csv",
        )
    resolved = stored.resolve_version(place.index_dir, version)
    pin = stored.pin_version(place.index_dir, resolved)
    if what == "chroma" and out is not None:
        _export_chroma(place, resolved, out, as_json=as_json)
    elif what != "chroma":
        export_table(place.declaration, place.data, resolved, what, file_format, out, spreadsheet_safe=spreadsheet_safe)
    pin.close()


def _export_chroma(place: _Place, version: str, out: Path, *, as_json: bool) -> None:
    from almanac.index.upkeep.export_chroma import export_chroma

    result = export_chroma(place.index_dir, version, out)
    if as_json:
        print_json(result)
    else:
        say(f"{place.name} {version}: {result.chunks} chunks in {result.out}, collection {result.collection}")
