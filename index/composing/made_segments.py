"""Makes segments: a child builds a staged one from its tables, another one verifies it, and the sealed folder gets its
name.

A segment that is in its place is complete. After a kill, those that were finished are found by their names.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from almanac.core.clock import utc_now
from almanac.core.durable import exchange, move, remove
from almanac.core.pins import remove_unless_pinned
from almanac.core.processors import processors
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, read_table
from almanac.index.build.builder import build_version
from almanac.index.build.child_process import ForkServer
from almanac.index.build.digest import DIGESTED, digest_of
from almanac.index.build.job import BuildJob, SegmentSpec
from almanac.index.build.staged_segments import StagedSegment, is_intact, unused_folder
from almanac.index.segments.segment_store import segment_dir
from almanac.index.verify.verifier import require_as_built, verify_version
from almanac.index.versions.lock import Lease
from almanac.index.versions.seal import seal
from almanac.schemas.manifest import Derived, Segment


def make_segments(
    index_dir: Path,
    spec: SegmentSpec,
    staged: Sequence[StagedSegment],
    *,
    known_from: Sequence[str] = (),
    lease: Lease | None = None,
    on_progress: OnProgress = ignore,
    fork_server: ForkServer | None = None,
) -> None:
    """Builds, verifies and seals the staged segments that are new, one on each core at a time, and puts them in their
    places.

    Args:
        index_dir: The knowledge base's index directory.
        spec: What the segments have in common.
        staged: The segments.
        known_from: Names of segments that have some of these rows: their texts need not be analyzed again.
        lease: The writer's lock, checked before a segment is sealed.
        on_progress: Called with (chunks done, chunks in total) over all segments.
        fork_server: Children that were started ahead, to be used.

    Raises DamagedVersion where a vector is missing or verification finds a problem, OperationalError where a child
    dies, StorageError where the disk fails, RunLocked where `lease` was lost.
    """
    new = [segment for segment in staged if segment.folder is not None]
    total = sum(segment.counts.chunks for segment in new)
    done: dict[str, int] = {}
    is_over = threading.Event()

    def make(segment: StagedSegment) -> None:
        def report(rows: int, _: int) -> None:
            if is_over.is_set():
                raise _StoppedError  # ends the child, which would go on for minutes
            done[segment.name] = rows
            on_progress(sum(done.values()), total)

        make_segment(
            index_dir,
            spec,
            segment,
            known_from=known_from,
            lease=lease,
            on_progress=report,
            fork_server=fork_server,
        )
        assert segment.folder is not None
        remove(segment.folder)

    with ThreadPoolExecutor(max(1, min(len(new), processors()))) as threads:
        try:
            largest_first = sorted(new, key=lambda segment: -segment.counts.chunks)
            for made in [threads.submit(make, segment) for segment in largest_first]:
                made.result()
        except BaseException:  # also where the run is interrupted
            is_over.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


class _StoppedError(Exception):
    """Another segment could not be made, or the run was interrupted."""


def make_segment(
    index_dir: Path,
    spec: SegmentSpec,
    staged: StagedSegment,
    *,
    known_from: Sequence[str] = (),
    lease: Lease | None = None,
    on_progress: OnProgress = ignore,
    fork_server: ForkServer | None = None,
) -> None:
    """Builds, verifies and seals a segment in a folder of its own, and puts it in its place unless it is there by then.

    The staged tables stay as they are: another process may make the same segment at the same time. `on_progress` is
    called with (chunks done, chunks in total) of this segment. Other arguments and errors as in `make_segments`.
    """
    assert staged.folder is not None
    folder = unused_folder(index_dir, "made")
    job = BuildJob(
        version_dir=folder,
        chunks=staged.folder / CHUNKS,
        records=staged.folder / RECORDS,
        documents=staged.folder / DOCUMENTS,
        known_from=[segment_dir(index_dir, name) for name in known_from],
        name=staged.name,
        **dict(spec),
    )
    facts = build_version(job, on_progress=on_progress, fork_server=fork_server)
    problems = verify_version(folder, None, spec.vectors_root, spec.embedder, fork_server=fork_server)
    require_as_built(problems, "a new segment", folder)
    segment = Segment(
        segment=staged.name,
        kb=spec.kb,
        digest=digest_of(read_table(folder / CHUNKS, DIGESTED), spec.embedder.fingerprint),
        counts=staged.counts,
        embedder=spec.embedder,
        derived=Derived(language_fit={}),
        collection=spec.collection,
        language=spec.language,
        lineage={"build": facts.model_dump(), "making": spec.making},
        created_at=utc_now(),
        files=[],
    )
    seal(folder, segment, lease=lease)
    if is_intact(index_dir, staged.name):
        remove(folder)
    else:
        put_in_place(index_dir, staged.name, folder)


def put_in_place(index_dir: Path, name: str, folder: Path) -> None:
    """Gives a sealed segment in a hidden folder its name; one that is there, since it was damaged, is exchanged in one
    step and removed.
    """
    place = segment_dir(index_dir, name)
    if place.exists():
        exchange(folder, place)
        remove_unless_pinned(folder)  # otherwise `discard_unfinished` removes it once no reader has it pinned
    else:
        move(folder, place)
