"""A version of one segment is built while its texts are embedded: its rows go into the staged collection checkpoint by
checkpoint, and a run that is killed leaves them to the next one.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Self

from almanac.core.progress import OnProgress, ignore
from almanac.flows.pipeline.embed import embeds_on_workers
from almanac.flows.pipeline.handles import Live, Tables, Texts
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.segment_batches import spec_of
from almanac.index.build.builder import BUILDER, build_version
from almanac.index.build.child_process import ForkServer
from almanac.index.build.job import BuildFacts, BuildJob, content_name
from almanac.index.build.policy import fits_one_segment
from almanac.index.chroma.leftover import remove_leftovers
from almanac.index.verify.verifier import VERIFIER
from almanac.index.versions.version_store import discard_unfinished


def is_built_meanwhile(run: Run, texts: Texts, tables: Tables) -> bool:
    """Whether the version is built while its texts are embedded, which is worth it from the second checkpoint on. Of
    several new segments, each is a checkpoint itself.
    """
    is_single = fits_one_segment(tables.chunks, run.declaration.index.segment)
    return texts.count > 1 and is_single and not embeds_on_workers(run)


def build_job(run: Run, version: str, tables: Tables, live: Live | None, *, in_full: bool = False) -> BuildJob:
    """What a version of one segment is built from. `in_full`: from nothing but tables and vectors."""
    in_full = in_full or run.scope.full
    spec = spec_of(run)
    return BuildJob(
        version_dir=run.version_dir(version),
        parent=None if live is None or live.manifest.segments or in_full else live.folder,
        name=None if in_full else content_name(spec, tables.digest),
        chunks=tables.chunks,
        records=tables.records,
        documents=tables.documents,
        **dict(spec),
    )


class Building:
    """Context manager of a build that `finish` ends. Unfinished, it ends with the block, and leaves its rows to the
    next build of the same content.
    """

    def __init__(self, run: Run, job: BuildJob, fork_server: ForkServer) -> None:
        remove_leftovers(run.index_dir, but=(job.name or "",))
        self._run, self._fork_server = run, fork_server
        self._is_embedded = Event()
        self._show: OnProgress = ignore
        fork_server.start(BUILDER, VERIFIER)  # by this thread, with which it ends
        self._thread = ThreadPoolExecutor(1)
        self._built = self._thread.submit(
            build_version,
            job,
            on_progress=self._shown,
            until=self._is_embedded,
            fork_server=fork_server,
        )

    def finish(self, on_progress: OnProgress = ignore) -> BuildFacts:
        """Waits until the version is built: all texts have their vectors. Raises as `build_version`."""
        self._show = on_progress
        self._is_embedded.set()
        return self._built.result()

    def _shown(self, done: int, total: int) -> None:
        self._show(done, total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if not self._built.done():
            self._fork_server.stop()
        self._is_embedded.set()
        with suppress(Exception):
            self._built.result()
        self._thread.shutdown()

    def abandon(self) -> None:
        """Ends the build: another version will be made."""
        self.__exit__()
        discard_unfinished(self._run.index_dir)
