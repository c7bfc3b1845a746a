"""Builds a version of several segments: plans it, and makes the segments that are new."""

from contextlib import nullcontext
from typing import NamedTuple

from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.index.build.builder import BUILDER
from almanac.index.build.child_process import ForkServer
from almanac.index.build.job import BuildFacts, row_layout
from almanac.index.build.planner import Plan, PlanJob, plan_version
from almanac.index.chroma.leftover import remove_leftovers
from almanac.index.composing.made_segments import make_segments
from almanac.index.verify.verifier import VERIFIER
from almanac.index.versions.lock import Lease
from almanac.schemas.manifest import SegmentUse

_log = get_logger("almanac.build")


class SegmentedBuild(NamedTuple):
    """How a version of several segments was built, and the segments that it consists of."""

    facts: BuildFacts
    segments: tuple[SegmentUse, ...]


def build_segmented(
    job: PlanJob,
    plan: Plan | None = None,
    *,
    lease: Lease | None = None,
    on_progress: OnProgress = ignore,
    fork_server: ForkServer | None = None,
) -> SegmentedBuild:
    """Builds the version's folder, without a manifest, and puts its new segments in their places, sealed.

    A kill leaves finished segments, which the next build of the same content finds. A `plan` of this job may have been
    made before, and a `fork_server` be started. Raises as `make_segments`.
    """
    with nullcontext(fork_server) if fork_server else ForkServer() as fork_server:
        fork_server.start(BUILDER, VERIFIER)  # it imports Chroma while the version is planned
        if plan is None:
            plan = plan_version(job)
        if plan.why_full:
            _log.info("all segments are built", kb=job.spec.kb, why=plan.why_full)
        if plan.merged:
            _log.info(
                "segments are merged",
                kb=job.spec.kb,
                segments=len(plan.merged),
                chunks=sum(segment.counts.chunks for segment in plan.staged),
            )
        remove_leftovers(job.index_dir, but=[segment.name for segment in plan.staged])
        make_segments(
            job.index_dir,
            job.spec,
            plan.staged,
            known_from=plan.merged,
            lease=lease,
            on_progress=on_progress,
            fork_server=fork_server,
        )
    written = sum(segment.counts.chunks for segment in plan.staged)
    kind = "full" if written == sum(use.live for use in plan.segments) else "segments"
    facts = BuildFacts(
        kind=kind,
        added=written,
        removed=plan.removed,
        layout=row_layout(),
        why_full=plan.why_full,
        merged=len(plan.merged),
    )
    return SegmentedBuild(facts=facts, segments=tuple(plan.segments))
