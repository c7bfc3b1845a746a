"""Steps of a run whose new segments are made by workers: planned once, made one by one, and found in their places by
`build`.

A segment is named by a hash of its content, and one in its place is complete. So a worker that gets the work of
another, which may still be alive, builds in a folder of its own from the same staged tables, and the first one puts the
segment in its place.
"""

from almanac.core.durable import remove, write_file
from almanac.core.logs import get_logger
from almanac.flows.pipeline.batches import at_batch
from almanac.flows.pipeline.handles import Live, PlannedSegments, Tables
from almanac.flows.pipeline.run import Run
from almanac.index.build.job import SegmentSpec
from almanac.index.build.planner import Plan, PlanJob, plan_version
from almanac.index.build.policy import fits_one_segment
from almanac.index.build.staged_segments import StagedSegment, is_intact
from almanac.index.composing.made_segments import make_segment

log = get_logger("almanac.build")


def plan_job(run: Run, version: str, tables: Tables, parent: Live | None) -> PlanJob:
    """What a version of several segments is planned from."""
    return PlanJob(
        index_dir=run.index_dir,
        version_dir=run.version_dir(version),
        spec=spec_of(run),
        limit=run.declaration.index.segment,
        chunks=tables.chunks,
        records=tables.records,
        documents=tables.documents,
        parent=None if parent is None else parent.folder,
    )


def spec_of(run: Run) -> SegmentSpec:
    """What all segments of the run's knowledge base have in common."""
    declared = run.declaration
    return SegmentSpec(
        kb=run.kb,
        collection=declared.collection,
        language=declared.language,
        embedder=run.embedder,
        vectors_root=run.data.vectors,
    )


def plan_segments(run: Run, version: str, tables: Tables, live: Live | None) -> PlannedSegments | None:
    """Plans a version of several segments and stages the tables of the new ones; None for a version of one segment."""
    if fits_one_segment(tables.chunks, run.declaration.index.segment):
        return None
    plan, path = (
        plan_version(plan_job(run, version, tables, None if run.scope.full else live)),
        run.staging / "plan.json",
    )
    write_file(path, plan.model_dump_json(), synced=False)
    return PlannedSegments(
        path, len(_new_segments(plan)), sum(segment.counts.chunks for segment in _new_segments(plan))
    )


def make_segment_of(run: Run, planned: PlannedSegments, number: int) -> int:
    """Makes a new segment, unless it is in its place; returns the number of its chunks. Raises as `make_segment`."""
    plan = planned.read()
    segment = _new_segments(plan)[number - 1]
    chunks = segment.counts.chunks
    if not is_intact(run.index_dir, segment.name):
        with at_batch(run, f"segment {number} of {planned.count} to build, of {chunks:,} chunks"):
            make_segment(run.index_dir, spec_of(run), segment, known_from=plan.merged)
        log.info("segment", kb=run.kb, number=number, of=planned.count, chunks=chunks, segment=segment.name[:12])
    return chunks


def left_to_make(run: Run, planned: PlannedSegments) -> Plan:
    """The plan, in which segments that are in their places are not to be made; their staged tables are removed."""
    plan = planned.read()
    staged: list[StagedSegment] = []
    for segment in plan.staged:
        is_made = segment.folder is not None and is_intact(run.index_dir, segment.name)
        if is_made and segment.folder is not None:
            remove(segment.folder)
        staged.append(segment.model_copy(update={"folder": None}) if is_made else segment)
    return plan.model_copy(update={"staged": staged})


def _new_segments(plan: Plan) -> list[StagedSegment]:
    return [segment for segment in plan.staged if segment.is_new]
