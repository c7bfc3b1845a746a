"""What a command does with an object store: one that writes takes the lock, checks out, and pushes; one that reads
fetches what it needs at its start.

What stays open, and answers also while the store is away, reads through `readers.py`. For a data directory on local
disk all of it does nothing. boto3 is imported by `Objects`, when a store is opened.
"""

import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from almanac.core.logs import get_logger
from almanac.core.settings import DataDir
from almanac.core.store.fetching import check_out, fetch_versions, list_into, note_published
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import Writer, locked_by, read_head, taking_lock
from almanac.core.store.pushing import Swept, sweep_objects, upload
from almanac.core.store.working_copy import AREAS, READERS, WorkingCopy, folders_of, made_from
from almanac.schemas.errors import AlmanacError, NotFound, NothingPublished, RunLocked

_PUSH_EVERY_S = 30.0
_LOOK_S = 0.5  # between two looks whether there are new vectors
_DAY_S = 86_400.0
_CHECK = "check --data, ALMANAC_DATA and AWS_ENDPOINT_URL"
_log = get_logger("almanac.store")


class Session:
    """A writer's hold on a store: `push` publishes what the working copy has. `swept` is what was removed at its end,
    because of a takedown.
    """

    def __init__(self, copy: WorkingCopy, writer: Writer, areas: tuple[str, ...]) -> None:
        self._copy, self._writer, self._areas = copy, writer, areas
        self._one_at_a_time = threading.Lock()
        self.swept: Swept | None = None

    def push(self, areas: Iterable[str] | None = None) -> None:
        """Pushes areas, default: all that were checked out. What names something comes before it, so that what others
        write meanwhile is whole. Raises RunLocked where another writer took over, StoreAway and other StorageErrors.
        """
        with self._one_at_a_time:
            copy, areas = self._copy, tuple(areas or reversed(self._areas))
            if changes := upload(copy, self._writer.head, areas):
                self._writer.move(**changes)
            head = self._writer.head
            copy.note_made_from({area: head.areas[area] for area in areas if area in head.areas})
            if "index" in areas and head.version and folders_of(copy.root, copy.kb, head.version):
                note_published(copy.root, head)

    @contextmanager
    def pushing(self) -> Iterator[None]:
        """Pushes during the block, every 30 s and as soon as there are new vectors: what a lost machine had not
        pushed is embedded again. While the store is away, the block goes on: a later push has all of it.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._push_until, args=(ended,), name="push", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _push_until(self, ended: threading.Event) -> None:
        vectors, due_at = self._vectors(), time.monotonic() + _PUSH_EVERY_S
        while not ended.wait(_LOOK_S):
            vectors_now, is_due = self._vectors(), time.monotonic() > due_at
            if vectors_now == vectors and not is_due:
                continue
            vectors, begun = vectors_now, time.monotonic()
            try:
                self.push(None if is_due else ("vectors",))
            except RunLocked:  # which the last push meets, too
                return
            except AlmanacError as error:
                _log.warning("not_pushed", error=error.message, next="the next push has all of it")
            if is_due:  # a push that takes long is not all that this machine does
                due_at = time.monotonic() + max(_PUSH_EVERY_S, 10 * (time.monotonic() - begun))

    def _vectors(self) -> dict[str, int]:
        """When each folder of vectors got its last part, if they are pushed."""
        folders = self._copy.root.glob("vectors/*/") if "vectors" in self._areas else ()
        return {folder.name: folder.stat().st_mtime_ns for folder in folders}

    def end(self) -> None:
        """Pushes for the last time. After a takedown, also one of a writer before that was cut off, removes all objects
        that CURRENT does not need any more.
        """
        self.push()
        if self._writer.head.erases:
            # however young: a store tells the time of a reply in whole seconds
            self.swept = sweep_objects(self._copy, self._writer.head, self._writer.require_held)
            self._writer.move(erases=False)
        head = self._writer.head
        lists = {listed for area in head.areas for listed in self._copy.folders(head, area).values()}
        self._copy.forget_lists(lists.union(head.areas.values()))

    def remove_unneeded(self) -> None:
        """Removes objects that CURRENT does not need, if they are older than a day: whoever reads what was published a
        moment ago may be fetching them.
        """
        sweep_objects(self._copy, self._writer.head, self._writer.require_held, older_than_s=_DAY_S)


@contextmanager
def writing(
    data: DataDir, kb: str, holder: str, areas: tuple[str, ...] = AREAS, *, erases: bool = False
) -> Iterator[Session | None]:
    """Takes the lock of a knowledge base in a store, checks areas out, and pushes them during the block and at its end,
    also after an error.

    With `erases`, objects that nothing needs any more are removed at the end, however young. Gives None for a local
    directory. Raises RunLocked where another writer has the lock, or took over meanwhile. An AlmanacError of the block,
    or an interruption, goes before one of the push.
    """
    if not data.url:
        yield None
        return
    with _opened(data, kb) as (objects, copy), copy.for_writing() as is_alone:
        if not is_alone:
            raise locked_by(objects, kb)
        with taking_lock(objects, kb, holder, erases=erases) as writer:
            with copy.changing():
                check_out(copy, writer.head, areas)
            session = Session(copy, writer, areas)
            try:
                with session.pushing():
                    yield session
            except (AlmanacError, KeyboardInterrupt) as error:
                try:
                    session.end()
                except AlmanacError as left:
                    if not isinstance(error, RunLocked):
                        hint = "the next command of this machine pushes it"
                        _log.warning("not_pushed", kb=kb, error=left.message, next=hint)
                raise
            except BaseException:
                session.push()
                raise
            session.end()


def require_known(data: DataDir, kb: str | None) -> None:
    """For what changes a store and never begins one: raises NothingPublished where it has nothing of that knowledge
    base, or of any for None.
    """
    objects, hint = Objects(data.url), f"{_CHECK}; almanac run KB fills it"
    if kb is not None and read_head(objects, kb).etag is None:
        raise NothingPublished(f"nothing of '{kb}' is in this store", where=data.url, hint=hint)
    if kb is None and next(objects.listed("heads/"), None) is None:
        raise NotFound("nothing is in this store", where=data.url, hint=hint)


def fetch(
    data: DataDir,
    kb: str,
    versions: Iterable[str | None] = (None,),
    areas: Iterable[str] = (),
    *,
    are_compared: bool = False,
) -> None:
    """Fetches versions of a knowledge base with their segments, the live one for None, and whole areas, into the
    working copy; nothing for a local directory.

    With `are_compared`, versions and files of areas that readers have here are read and compared with the store, and
    fetched anew where they differ. Raises NotFound for a version that the store has not.
    """
    if not data.url:
        return
    with _opened(data, kb) as (objects, copy), copy.changing() as has_writer:
        head = read_head(objects, kb).head
        if not has_writer:
            mends = are_compared and made_from(copy.root).get("index") == READERS
            check_out(copy, head, areas, mends=mends)
        fetch_versions(copy, head, versions, has_writer=has_writer, is_read=are_compared)


@contextmanager
def listing(data: DataDir, kb: str) -> Iterator[DataDir]:
    """Gives a data directory with what lists of versions and runs are made of: of a store a temporary one, else the
    directory itself.
    """
    if not data.url:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="almanac-listing-") as folder:
        with _opened(data, kb) as (objects, copy):
            list_into(copy, read_head(objects, kb).head, Path(folder))
        yield DataDir(Path(folder))


@contextmanager
def _opened(data: DataDir, kb: str) -> Iterator[tuple[Objects, WorkingCopy]]:
    objects = Objects(data.url)
    if not data.for_kb(kb).root.exists():
        read_head(objects, kb)  # a mistyped bucket gets no working copy
    copy = WorkingCopy(objects, kb, data.for_kb(kb).root)
    try:
        yield objects, copy
    finally:
        copy.close()
