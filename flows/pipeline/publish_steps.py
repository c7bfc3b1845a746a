"""Steps: a version is built, verified, asked the golden questions, and published."""

import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq

from almanac.core.clock import utc_now
from almanac.core.durable import remove, write_file
from almanac.core.extras import installed_version
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import batches_of
from almanac.flows.pipeline.building import Building, build_job
from almanac.flows.pipeline.fingerprints import golden_of
from almanac.flows.pipeline.handles import (
    Built,
    Embedded,
    Live,
    Measured,
    PlannedSegments,
    Tables,
    Texts,
    Verified,
)
from almanac.flows.pipeline.question_vectors import UnknownQuestions, kept_questions, known_questions
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.segment_batches import left_to_make, plan_job
from almanac.flows.pipeline.survey import Survey
from almanac.index.build.builder import BUILDER, build_version
from almanac.index.build.child_process import ForkServer
from almanac.index.build.derived import derive
from almanac.index.build.policy import fits_one_segment
from almanac.index.chroma.leftover import remove_leftovers
from almanac.index.composing.version import build_segmented
from almanac.index.reader import OpenVersion
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import VERIFIER, require_as_built, verify_composition, verify_version
from almanac.index.versions.lock import Lease
from almanac.index.versions.publish import finish_version, publish_after
from almanac.index.versions.version_store import read_manifest
from almanac.query.evaluation.golden import measure_recall
from almanac.query.evaluation.golden_calibration import fit_calibration
from almanac.schemas.errors import DamagedVersion, NotFound, OtherFormat
from almanac.schemas.manifest import Counts, Manifest, SegmentUse
from almanac.schemas.reports import Problem, Recall

log = get_logger("almanac.publish")
_SOFTWARE = ("almanac", "chromadb", "sentence-transformers", "torch", "openvino", "scrapy", "trafilatura", "prefect")


def build(
    run: Run,
    version: str,
    tables: Tables,
    _texts: Texts | None,
    _embedded: Sequence[Embedded],
    live: Live | None,
    on_progress: OnProgress = ignore,
    planned: PlannedSegments | None = None,
    fork_server: ForkServer | None = None,
    building: Building | None = None,
    *,
    in_full: bool = False,
) -> Built:
    """A version directory, in a child process: of what there is of it, and the rest from kept vectors.

    What was embedded is taken for its order alone: by then, every text has its vector. A version that was built
    meanwhile is finished (`building`). Of segments that were `planned`, those that are not in their places are made.
    The `fork_server` is started if need be.
    """
    with ThreadPoolExecutor(1) as thread:
        derived = thread.submit(derive, batches_of(tables.chunks), run.embed)  # while children build
        segments: tuple[SegmentUse, ...] = ()
        if building is not None:
            facts = building.finish(on_progress)
        elif fits_one_segment(tables.chunks, run.declaration.index.segment):
            job = build_job(run, version, tables, live, in_full=in_full)
            remove_leftovers(run.index_dir, but=(job.name or "",))
            if fork_server is not None:
                fork_server.start(BUILDER, VERIFIER)
            facts = build_version(job, on_progress=on_progress, fork_server=fork_server)
        else:
            parent = None if live is None or run.scope.full or in_full else live
            plan = None if planned is None else left_to_make(run, planned)
            built = build_segmented(
                plan_job(run, version, tables, parent), plan, on_progress=on_progress, fork_server=fork_server
            )
            facts, segments = built.facts, built.segments
        return Built(version, run.version_dir(version), facts, derived.result(), segments)


def verify(
    run: Run, built: Built, tables: Tables, live: Live | None, fork_server: ForkServer | None = None
) -> Verified:
    """The finished directory, read by another process; of segments, what is new.

    A fault in what was there before is that of a damaged version, or of what a kill has left: the version is then built
    of nothing but tables and vectors. Raises DamagedVersion where that differs, too.
    """
    problems = _problems_of(run, built, tables, fork_server)
    if problems and (built.facts.found or built.facts.kind == "segments"):
        log.warning(
            "what the version was built on is damaged: built in full",
            kb=run.kb,
            **problems[0].model_dump(include={"where", "kind"}),
        )
        remove(built.folder)
        built = build(run, built.version, tables, None, (), live, fork_server=fork_server, in_full=True)
        problems = _problems_of(run, built, tables, fork_server)
    require_as_built(problems, f"the new version {built.version}", built.folder)
    return Verified(built.version, built.folder, built.facts, built.derived, built.segments)


def _problems_of(run: Run, built: Built, tables: Tables, fork_server: ForkServer | None) -> list[Problem]:
    if built.segments:
        return verify_composition(run.index_dir, built.folder, built.segments, tables.chunks, run.embedder)
    return verify_version(built.folder, None, run.data.vectors, run.embedder, fork_server=fork_server)


def manifest_of(
    run: Run, surveyed: Survey, verified: Verified, previous: str | None, measured: Measured | None = None
) -> Manifest:
    """The manifest of a version, without the list of files, which publication adds."""
    pages, tables = surveyed.pages, surveyed.tables
    records, documents, rows = (
        pq.read_metadata(path).num_rows for path in (tables.records, tables.documents, tables.chunks)
    )
    return Manifest(
        kb=run.kb,
        version=verified.version,
        parent=previous,
        created_at=utc_now(),
        run_id=run.run_id,
        digest=tables.digest,
        counts=Counts(records=records, documents=documents, chunks=rows),
        fingerprints=run.stages,
        embedder=run.embedder,
        derived=verified.derived,
        calibration=None if measured is None else measured.calibration,
        declaration_sha256=run.declaration.sha256,
        collection=run.declaration.collection,
        language=run.declaration.language,
        gate=surveyed.verdict,
        lineage={
            "sources": [source.name for source in run.declaration.sources],
            "crawls": {page.source: page.crawl for page in pages},
            "pages": sum((page.counts for page in pages[1:]), pages[0].counts).model_dump(),
            "items": surveyed.comparison.counts.model_dump(by_alias=True),
            "build": verified.facts.model_dump(),
            **(
                {"golden": golden_fingerprint}
                if (golden_fingerprint := golden_of(run.declaration, run.golden)) and measured is not None
                else {}
            ),
        },
        software={
            "python": platform.python_version(),
            **{name: installed for name in _SOFTWARE if (installed := installed_version(name)) is not None},
        },
        files=[],
        segments=list(verified.segments),
    )


def measure(run: Run, verified: Verified, manifest: Manifest, live: Live | None) -> Measured:
    """Measures the recall of the finished version on the golden questions, and that of the live one if a drop is
    limited.

    For an embedder that was not measured, relevance is fitted on the golden questions, if there are enough.
    """
    embed_questions = kept_questions(VectorStore(run.data.vectors, run.embedder), run.model, run.embedder.query_prompt)
    with OpenVersion(run.index_dir, verified.version, manifest=manifest) as candidate:
        recall = measure_recall(run.declaration, candidate, embed_questions, run.golden)
        calibration = (
            fit_calibration(run.declaration, candidate, embed_questions, run.golden) if run.fits_relevance else None
        )
    of_live, unasked = None, None
    if run.declaration.gate.max_recall_drop is not None and manifest.parent is not None:
        try:
            of_live = _live_recall(
                run, read_manifest(run.index_dir, manifest.parent) if live is None else live.manifest
            )
        except (OtherFormat, NotFound) as error:
            unasked = error.message
        except DamagedVersion as error:  # a new version is the way out of a damaged one
            log.warning(
                "the live version answers no golden question: it is damaged",
                kb=run.kb,
                version=manifest.parent,
                error=str(error),
            )
    path, live_path = run.staging / "recall.json", run.staging / "recall-live.json"
    write_file(path, recall.model_dump_json(), synced=False)
    if of_live is None:
        return Measured(path, None, calibration, unasked)
    write_file(live_path, of_live.model_dump_json(), synced=False)
    return Measured(path, live_path, calibration)


def measure_live(run: Run, live: Live) -> Measured:
    """Measures the recall of the live version, where it was not asked these golden questions yet. One that is damaged
    answers none.
    """
    path = run.staging / "recall.json"
    try:
        recall = _live_recall(run, live.manifest)
    except DamagedVersion as error:
        log.warning(
            "the live version answers no golden question: it is damaged",
            kb=run.kb,
            version=live.manifest.version,
            error=str(error),
        )
        recall = None
    write_file(path, (recall or Recall()).model_dump_json(), synced=False)
    return Measured(path, None)


def _live_recall(run: Run, live: Manifest) -> Recall | None:
    """What the live version answers. One of another embedder is asked by the vectors that are kept of its questions;
    None where there are none.

    Raises DamagedVersion.
    """
    store, is_other = (
        VectorStore(run.data.vectors, live.embedder),
        live.embedder.fingerprint != run.embedder.fingerprint,
    )
    # searches put the declared one before what they ask of the live version
    prompt = (live if is_other else run).embedder.query_prompt
    ask = known_questions(store, prompt) if is_other else kept_questions(store, run.model, prompt)
    try:
        with OpenVersion(run.index_dir, live.version) as opened:
            return measure_recall(run.declaration, opened, ask, run.golden)
    except UnknownQuestions:
        log.warning(
            "the live version has another embedder: its recall is not compared", kb=run.kb, version=live.version
        )
        return None


def publish(
    run: Run, verified: Verified, _measured: Measured | None, manifest: Manifest, lease: Lease, *, go_live: bool
) -> bool:
    """Syncs the directory, writes the manifest, whose verdict rests on what was measured, and moves the pointer if
    `go_live`. Returns whether it is live.

    Only for who still holds the lock.
    """
    finish_version(run.index_dir, manifest, lease=lease)
    return go_live and _move_pointer(run, verified.version, manifest.parent, lease)


def publish_finished(run: Run, version: str, previous: str | None, _tables: Tables, lease: Lease) -> bool:
    """Moves the pointer to a version that another run finished, of the same tables. Returns whether it is live. Only
    for who still holds the lock.
    """
    return _move_pointer(run, version, previous, lease)


def _move_pointer(run: Run, version: str, previous: str | None, lease: Lease) -> bool:
    """Makes a version live after `previous`, which was live when the run began. Whoever made another one live since
    then meant it: the version is kept.
    """
    if publish_after(run.index_dir, version, previous, lease=lease):
        return True
    log.warning(
        "another version was made live while this run was at work: the new one is kept",
        kb=run.kb,
        version=version,
        hint=f"almanac publish {run.kb} {version}",
    )
    return False
