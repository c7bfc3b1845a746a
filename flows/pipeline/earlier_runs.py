"""Reads what earlier runs left: reports, endings, reusable crawls, and the live version."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from almanac.core.durable import append, create, make_folder, remove
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir
from almanac.core.stamps import altered_file
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.flows.pipeline.handles import Live
from almanac.flows.pipeline.run import Run
from almanac.index.chroma.noted import is_as_sealed
from almanac.index.segments.deleted import DELETED
from almanac.index.segments.segment_store import read_segment, segment_dir
from almanac.index.segments.version_tables import VersionTables
from almanac.index.verify.verifier import verify_folder
from almanac.index.versions.version_store import (
    current_version,
    read_manifest,
    read_outline,
    require_files,
    require_segments,
    usable_pointer,
    version_dir,
)
from almanac.schemas.errors import DamagedVersion, NotFound
from almanac.schemas.manifest import Manifest, Sealed, Segment, StoredFile
from almanac.schemas.reports import RunReport
from almanac.spiders.crawling.previous_crawls import Ending, PreviousCrawls, find_previous_crawls

log = get_logger("almanac.run")
_REPORTS = 100  # that are kept
_ORDER = "order.txt"  # in the folder of the reports: a run id a line, in the order in which the runs ended
_JUDGED = frozenset({"published", "published_with_rejects", "unchanged", "kept", "gate_refused", "no_records"})
_CONCLUDED = _JUDGED - {"gate_refused", "no_records"}


def last_run(data: DataDir, kb: str) -> RunReport | None:
    """The report of the newest run; None if there is none."""
    return next(newest_first(data, kb), None)


def newest_first(data: DataDir, kb: str) -> Iterator[RunReport]:
    """The reports of all runs, the one that ended last first; unreadable ones are skipped.

    The order is the one in which they were noted, whatever a clock wrote into ids and times. Reports that nobody noted
    come last, sorted by their ids.
    """
    folder = data.runs(kb)
    for run_id in reversed(in_order(data, kb, {path.stem for path in folder.glob("[0-9]*T*-??????.json")})):
        if (report := read_report(folder / f"{run_id}.json")) is not None:
            yield report


def note_run(run: Run) -> None:
    """Notes that the run is the newest. Call it before its report is written: an id without a report is skipped."""
    path = run.data.runs(run.kb) / _ORDER
    make_folder(path.parent)
    with create(path, appends=True) as file:
        append(file, f"\n{run.run_id}\n".encode())  # the first line feed ends a line that a kill has torn
        os.fsync(file.fileno())


def in_order(data: DataDir, kb: str, run_ids: Collection[str]) -> list[str]:
    """Run ids in the order in which the runs ended, as it was noted; those that nobody noted come first, sorted."""
    path = data.runs(kb) / _ORDER
    noted = path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else []
    place = {run_id: number for number, run_id in enumerate(noted)}
    return sorted(run_ids, key=lambda run_id: (place.get(run_id, -1), run_id))


def prune_reports(data: DataDir, kb: str, needed: Collection[str]) -> int:
    """Removes the reports of all runs but the newest hundred and those that are needed, which tell how a run ended;
    returns the bytes freed.
    """
    reports = {path.stem: path for path in data.runs(kb).glob("[0-9]*T*-??????.json")}
    gone = [reports[run_id] for run_id in in_order(data, kb, reports)[:-_REPORTS] if run_id not in needed]
    freed = sum(path.stat().st_size for path in gone)
    for path in gone:
        remove(path, synced=False)
    return freed


def read_report(path: Path) -> RunReport | None:
    """The report of a run; None if it is missing or unreadable."""
    try:
        return RunReport.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def ending_of(data: DataDir, kb: str, run_id: str) -> Ending:
    """How an earlier run ended.

    "concluded": it made or confirmed a version; "failed": the gate refused it, or it reported an error; "cut off": it
    was interrupted or killed.
    """
    run_end = _read_run_end(data.runs(kb) / f"{run_id}.json")
    if run_end is not None and run_end.outcome in _CONCLUDED:
        return "concluded"
    if run_end is not None and (run_end.error or {}).get("kind") == "interrupted":
        return "cut off"
    if run_id == _maker_of_live(data.index(kb)):
        return "concluded"
    return "cut off" if run_end is None else "failed"


class _RunEnd(BaseModel):
    """What a report of any release says of a run's end."""

    outcome: str
    error: dict[str, Any] | None = None


def _read_run_end(path: Path) -> _RunEnd | None:
    try:
        return _RunEnd.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def _maker_of_live(index_dir: Path) -> str | None:
    """The run that made the live version, whatever release that was; None where nobody says so."""
    version = usable_pointer(index_dir)
    try:
        return None if version is None else read_outline(index_dir, version).run_id
    except (DamagedVersion, NotFound):
        return None


def live_manifest(data: DataDir, kb: str) -> Manifest | None:
    """The manifest of the live version; None if there is none, or none that can be read."""
    index_dir = data.index(kb)
    try:
        version = current_version(index_dir)
        return None if version is None else read_manifest(index_dir, version)
    except DamagedVersion as error:
        # A new version is the way out of a damaged one, so a run must not end here.
        log.warning(
            "the live version cannot be read: nothing is taken from it but its items, to compare with",
            kb=kb,
            error=str(error),
        )
        return None


def find_live(run: Run) -> Live | None:
    """The live version, with its files checked and its tables hashed; None if there is none, or none that can be
    read.
    """
    manifest = live_manifest(run.data, run.kb)
    if manifest is None:
        return None
    folder = version_dir(run.index_dir, manifest.version)
    try:
        require_files(folder, manifest)
        require_segments(run.index_dir, manifest)
        _require_rows(run, manifest, folder)
        is_whole = all(altered_file(folder, of_version) is None for folder, of_version in _tables_of(run, manifest))
    except DamagedVersion as error:
        log.warning(
            "the live version is damaged: a new one takes its place, also where nothing has changed",
            kb=run.kb,
            error=str(error),
        )
        return Live(manifest, folder, is_whole=False)
    return Live(manifest, folder, is_whole=is_whole)


def _require_rows(run: Run, manifest: Manifest, folder: Path) -> None:
    """Raises DamagedVersion where another program has changed what Chroma holds: all rows of a database that was opened
    are compared.
    """
    for place, sealed in VersionTables.in_folder(folder, manifest).folders():
        assert isinstance(sealed, Manifest | Segment)
        if not is_as_sealed(place):
            problems = verify_folder(place, sealed, run.data.vectors)
            if damage := next((problem for problem in problems if problem.kind != "vector_missing"), None):
                raise DamagedVersion(f"{damage.kind} at {damage.where}", where=str(place))


def _tables_of(run: Run, manifest: Manifest) -> Iterator[tuple[Path, list[StoredFile]]]:
    """The folders of a version, its own and those of its segments, each with its tables and lists of deleted rows."""
    folders: list[tuple[Path, Sealed]] = [(version_dir(run.index_dir, manifest.version), manifest)]
    folders += [
        (segment_dir(run.index_dir, use.segment), read_segment(run.index_dir, use.segment)) for use in manifest.segments
    ]
    for folder, sealed in folders:
        yield (
            folder,
            [
                stored
                for stored in sealed.files
                if stored.path in (RECORDS, DOCUMENTS, CHUNKS) or stored.path.startswith(f"{DELETED}/")
            ],
        )


def previous_crawls(run: Run, source: str) -> PreviousCrawls:
    """The earlier crawls of a source from which this run can take pages or validators."""
    return find_previous_crawls(run.raw(source), run.run_id, lambda run_id: ending_of(run.data, run.kb, run_id))


def crawl_as_live(run: Run, source: str, live: Manifest | None, concluded: str | None) -> str | None:
    """The crawl that the live version's items of a source come from: the last one that confirmed them, else the one in
    the manifest.

    `concluded` is the last crawl of a concluded run; it is the answer if there is no live version.
    """
    if live is None:
        return concluded
    report = read_report(run.data.runs(run.kb) / f"{concluded}.json") if concluded else None
    if report is not None and report.version == live.version:
        return concluded
    crawl = live.lineage.get("crawls", {}).get(source)
    return crawl if crawl and run.raw(source).index(crawl).exists else concluded


def only_later_stages_changed(run: Run) -> bool:
    """Whether stages changed since the last run with a verdict, but not the stage that fetches pages."""
    last = next(
        (report.stages for report in newest_first(run.data, run.kb) if report.stages and report.outcome in _JUDGED),
        None,
    )
    return last is not None and last != run.stages and last.get("page") == run.stages["page"]
