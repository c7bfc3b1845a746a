"""The refresh flow: from a crawl to a published version, or to the reason why not."""

import platform
from importlib.metadata import version as installed
from typing import Any

import pyarrow.parquet as pq
import structlog
from prefect import flow

from flows.artifacts import show_rejects, show_summary
from flows.run import Run, utc_now
from flows.steps import acquire, build, compare_and_chunk, embed, map_and_clean, seal_and_publish, validate, verify
from index.digest import digest_of
from index.embedder import describe_embedder
from index.lock import writer_lock
from index.versions import current_version, discard_unfinished, list_versions, next_version, read_manifest
from schemas.declaration import Declaration
from schemas.errors import AlmanacError, GateRefused, NoRecords, as_storage_error
from schemas.items import canonical_json, sha256
from schemas.load import load_declaration
from schemas.logs import log_through_stdlib
from schemas.manifest import Counts, EmbedderInfo, Manifest
from schemas.reports import Outcome, RunReport
from schemas.settings import DataDir
from schemas.tables import CHUNKS, DOCUMENTS, RECORDS
from transforms.gate import judge

log = structlog.get_logger("almanac.refresh")
_SOFTWARE = ("almanac", "chromadb", "sentence-transformers", "torch", "scrapy", "unstructured", "trafilatura", "prefect")


@flow(name="refresh", flow_run_name="{kb}", validate_parameters=False, persist_result=False)
def refresh(kb: str, data: str | None = None, publish: bool = True, rejects_ok: bool = False) -> dict[str, Any]:
    """Refreshes one knowledge base and returns the run's report.

    `kb` is a name under `knowledge/` or a path to a declaration; `data` the data directory. With `publish` false the new version is kept and the live one
    serves on. An outcome that is a verdict (unchanged, gate refused, no records) is returned; what the operator has to mend is raised.
    """
    log_through_stdlib()
    declaration = load_declaration(kb)
    run = Run(declaration, DataDir.locate(data))
    with as_storage_error(run.data.root), writer_lock(run.index_dir, run.run_id):
        try:
            with as_storage_error(run.data.root):
                _refresh(run, go_live=publish, rejects_ok=rejects_ok)
        except NoRecords as nothing:
            nothing.about(declaration.handle)
            _conclude(run, "no_records", nothing.exit_code, nothing.as_json()["error"])
        except AlmanacError as error:
            error.about(declaration.handle)
            _conclude(run, "failed", error.exit_code, error.as_json()["error"])
            error.report = run.finish()
            raise
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            kind, message = ("interrupted", "interrupted") if interrupted else ("crash", repr(error))
            _conclude(run, "failed", 130 if interrupted else 1, {"kind": kind, "message": message, "where": None, "hint": None})
            run.finish()
            raise
        report = run.finish()
    show_summary(run.report)
    return report


def _refresh(run: Run, *, go_live: bool, rejects_ok: bool) -> None:
    report = run.report
    log.info("run", kb=run.kb, run_id=run.run_id)
    discard_unfinished(run.index_dir)
    report.previous = current_version(run.index_dir)
    info = describe_embedder(run.declaration.embed)  # before the first request: a model that is not there ends the run here
    with run.stage("crawl"):
        for source in run.declaration.sources:
            acquire(run, source)
    with run.stage("map"):
        map_and_clean(run)
    with run.stage("validate"):
        validate(run)
    with run.stage("chunk"):
        compare_and_chunk(run)
    show_rejects(run.kb, run.rejects)
    with run.stage("embed"):
        embed(run, info)
    report.gate = judge(run.declaration, report.pages, report.items, run.live_items)
    passed = report.gate.verdict == "passed"
    manifest = _manifest(run, info)
    if _is_live(run, manifest):
        report.version = report.previous if passed else None
        _conclude(run, "unchanged" if passed else "gate_refused", 0 if passed else GateRefused.exit_code)
        return
    if not passed and (refused := _refused_before(run, manifest)):
        report.version = refused
        _conclude(run, "gate_refused", GateRefused.exit_code)
        return
    with run.stage("build"):
        build(run, manifest.version, info)
    with run.stage("verify"):
        verify(run, manifest.version, info)
    with run.stage("publish"):
        seal_and_publish(run, manifest, go_live=passed and go_live)
    report.version = manifest.version
    if not passed:
        _conclude(run, "gate_refused", GateRefused.exit_code)
    elif not go_live:
        _conclude(run, "kept", 0)
    else:
        with_rejects = bool(run.rejects)
        _conclude(run, "published_with_rejects" if with_rejects else "published", 5 if with_rejects and not rejects_ok else 0)


def _conclude(run: Run, outcome: Outcome, exit_code: int, error: dict[str, Any] | None = None) -> None:
    run.report.outcome, run.report.exit_code, run.report.error = outcome, exit_code, error
    run.report.items.quarantined = len(run.rejects)


def _is_live(run: Run, manifest: Manifest) -> bool:
    """Whether the live version holds exactly this: the same items to the last field, the same chunks, the same collection name."""
    if run.report.previous is None or run.live_items is None:
        return False
    live, items = read_manifest(run.index_dir, run.report.previous), run.report.items
    same_items = not (items.added or items.changed or items.moved or items.removed)
    return same_items and live.digest == manifest.digest and live.collection == manifest.collection


def _refused_before(run: Run, manifest: Manifest) -> str | None:
    """A version with this content that the gate refused already: a nightly refusal need not fill the disk."""
    for kept in reversed(list_versions(run.index_dir)):
        if kept.digest == manifest.digest and kept.gate.verdict == "refused" and kept.declaration_sha256 == manifest.declaration_sha256:
            return kept.version
    return None


def _manifest(run: Run, info: EmbedderInfo) -> Manifest:
    """Everything the manifest says but the files, which are not there yet."""
    assert run.report.gate is not None
    chunks = pq.read_table(run.processed / CHUNKS)
    records, documents = (pq.read_metadata(run.processed / name).num_rows for name in (RECORDS, DOCUMENTS))
    counts = Counts(records=records, documents=documents, chunks=chunks.num_rows)
    return Manifest(
        kb=run.kb,
        version=next_version(run.index_dir),
        parent=run.report.previous,
        created_at=utc_now(),
        run_id=run.run_id,
        digest=digest_of(chunks, info.fingerprint),
        counts=counts,
        fingerprints=_fingerprints(run.declaration, info),
        embedder=info,
        declaration_sha256=run.declaration.sha256,
        collection=run.declaration.collection,
        gate=run.report.gate,
        lineage={"sources": [source.name for source in run.declaration.sources], "pages": run.report.pages.model_dump()},
        software={"python": platform.python_version(), **{name: installed(name) for name in _SOFTWARE}},
        files=[],
    )


def _fingerprints(declaration: Declaration, info: EmbedderInfo) -> dict[str, str]:
    """One short hash a stage: what was declared for it when this version was made."""
    dumped = declaration.model_dump(by_alias=True, mode="json")
    parts = {"mapping": dumped["sources"], "cleaning": dumped["clean"], "chunker": dumped["chunk"], "index": dumped["index"]}
    return {**{name: sha256(canonical_json(part))[:16] for name, part in parts.items()}, "embedder": info.fingerprint}


def summary_line(report: RunReport) -> str:
    """The run in one line: `voyago v0002 published: 24 added, …`."""
    counts = report.items.model_dump(by_alias=True)
    items = ", ".join(f"{counts[name]} {name}" for name in ("added", "changed", "moved", "unchanged", "removed", "deduplicated", "quarantined"))
    pages = f"{report.pages.present} pages, {report.pages.failed} failed"
    chunks = f"{report.chunks.total} chunks, {report.chunks.embedded} embedded"
    name = f"{report.kb} {report.version}" if report.version else report.kb
    return f"{name} {report.outcome.replace('_', ' ')}: {items}; {pages}; {chunks}; {sum(report.seconds.values()):.1f} s"
