"""What a command does with an object store: one that writes takes the lock, checks out, and pushes; one that reads
fetches what it needs at its start.

What stays open, and answers also while the store is away, reads through `readers.py`.

For a data directory on local disk all of it does nothing. boto3 is imported by `Objects`, when a store is opened.
"""

import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from almanac.core.logs import get_logger
from almanac.core.settings import DataDir, cache_bytes
from almanac.core.store.checking_out import check_out, fetch_lost, list_into
from almanac.core.store.fetching import fetch_versions, note_published, set_aside_altered
from almanac.core.store.head import Writer, holder_of, locked_by, read_head
from almanac.core.store.head import writing as take_lock
from almanac.core.store.layout import AREAS, is_whole
from almanac.core.store.objects import Objects
from almanac.core.store.pushing import note_pushed, upload
from almanac.core.store.sweeping import Swept, sweep_objects
from almanac.core.store.working_copy import WorkingCopy
from almanac.schemas.errors import AlmanacError, NotFound, NothingPublished, RunLocked, StoreAway

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
        """Pushes areas, default: all that were checked out. Raises RunLocked where another writer took over, StoreAway
        and other StorageErrors.
        """
        areas = self._areas if areas is None else tuple(areas)
        with self._one_at_a_time:
            head = upload(self._copy, self._writer.seen.head, areas)
            if head is not self._writer.seen.head:
                self._writer.point_to(head)
            note_pushed(self._copy, head, areas)
            if "index" in areas and head.version and is_whole(self._copy.root, self._copy.kb, head.version):
                note_published(self._copy.root, head)

    @contextmanager
    def pushing(self, areas: tuple[str, ...]) -> Iterator[None]:
        """Pushes areas during the block, every 30 s and as soon as there are new vectors, and at its end.

        While the store is away, the block goes on: a later push has all of it.
        """
        ended = threading.Event()
        errors: list[AlmanacError] = []

        def push_again() -> None:
            vectors, pushed_at = self._vectors(areas), time.monotonic()
            while not ended.wait(_LOOK_S) and not errors:
                found = self._vectors(areas)
                if found != vectors or time.monotonic() - pushed_at > _PUSH_EVERY_S:
                    self._try(areas, errors)
                    vectors, pushed_at = found, time.monotonic()

        thread = threading.Thread(target=push_again, name="push", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if not errors:
            self._try(areas, errors)
        if errors:
            raise errors[0]

    def _vectors(self, areas: tuple[str, ...]) -> dict[str, int]:
        """When each folder of vectors got its last part, if they are pushed. Embedding is dear: what a lost machine had
        not pushed is embedded again.
        """
        return (
            {folder.name: folder.stat().st_mtime_ns for folder in self._copy.root.glob("vectors/*/")}
            if "vectors" in areas
            else {}
        )

    def _try(self, areas: tuple[str, ...], errors: list[AlmanacError]) -> None:
        try:
            self.push(areas)
        except StoreAway as error:
            _log.warning("not_pushed", error=error.message, next="the next push has all of it")
        except AlmanacError as error:
            errors.append(error)

    def pushing_after(
        self, do: Callable[..., Any], pushed: dict[Callable[..., Any], tuple[str, ...]]
    ) -> Callable[..., Any]:
        """Returns `do` with a push of those areas during and after each of these steps."""

        def carry_out(step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            if step not in pushed:
                return do(step, *arguments, **named)
            with self.pushing(pushed[step]):
                return do(step, *arguments, **named)

        return carry_out

    def pushing_during(
        self, fan_out: Callable[..., Iterator[Any]], pushed: dict[Callable[..., Any], tuple[str, ...]]
    ) -> Callable[..., Iterator[Any]]:
        """Returns `fan_out`, whose first argument is a step, with a push of those areas while workers do these
        steps.
        """

        def share_out(step: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
            with self.pushing(pushed[step]) if step in pushed else nullcontext():
                yield from fan_out(step, *arguments)

        return share_out

    def end(self) -> None:
        """Pushes for the last time. After a takedown, also one of a writer before that was cut off, removes all objects
        that CURRENT does not need any more.
        """
        self.push()
        if self._writer.seen.head.erases:
            # a store tells the time of a reply in whole seconds: what it has just got may seem to come from later
            self.swept = self._sweep(-math.inf)
            self._writer.point_to(self._writer.seen.head.model_copy(update={"erases": False}))

    def remove_unneeded(self) -> None:
        """Removes objects that CURRENT does not need, if they are older than a day: whoever reads what was published a
        moment ago may be fetching them.
        """
        self._sweep(_DAY_S)

    def _sweep(self, older_than_s: float) -> Swept:
        swept = sweep_objects(self._copy, self._writer.seen.head, self._writer.require_held, older_than_s=older_than_s)
        if swept.objects:
            _log.info("objects_removed", kb=self._copy.kb, objects=swept.objects, bytes=swept.bytes)
        return swept


@contextmanager
def writing(
    data: DataDir, kb: str, holder: str, areas: tuple[str, ...] = AREAS, *, erases: bool = False
) -> Iterator[Session | None]:
    """Takes the lock of a knowledge base in a store, checks areas out, and pushes them at the end of the block, also
    after an error.

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
        with take_lock(objects, kb, holder, erases=erases) as writer:
            with copy.checking_out():
                check_out(copy, writer.seen.head, areas)
            session = Session(copy, writer, areas)
            try:
                yield session
            except (AlmanacError, KeyboardInterrupt) as error:
                try:
                    session.end()
                except AlmanacError as left:
                    if not isinstance(error, RunLocked):
                        _log.warning(
                            "not_pushed", kb=kb, error=left.message, next="the next command of this machine pushes it"
                        )
                raise
            except BaseException:
                session.push()
                raise
            session.end()


def require_known(data: DataDir, kb: str | None) -> None:
    """For what changes a store and never begins one: raises NothingPublished where it has nothing of that knowledge
    base, or of any for None.
    """
    objects = Objects(data.url)
    if kb is not None and read_head(objects, kb).etag is None:
        raise NothingPublished(
            f"nothing of '{kb}' is in this store", where=data.url, hint=f"{_CHECK}; almanac run KB fills it"
        )
    if kb is None and next(objects.listed("heads/"), None) is None:
        raise NotFound("nothing is in this store", where=data.url, hint=f"{_CHECK}; almanac run KB fills it")


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

    With `are_compared`, versions that readers have here are read and compared with the store, and fetched anew where
    they differ; so are files of the areas.

    Raises NotFound for a version that the store has not.
    """
    if not data.url:
        return

    with _opened(data, kb) as (objects, copy), copy.checking_out() as has_writer:
        head = read_head(objects, kb).head
        if not has_writer:
            check_out(copy, head, areas)
            if are_compared:
                set_aside_altered(copy, head, versions)
                fetch_lost(copy, head, areas)
        fetch_versions(copy, head, versions, additive=has_writer, limit=cache_bytes())


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


def holder_in_store(data: DataDir, kb: str) -> dict[str, Any] | None:
    """Returns who writes a knowledge base in a store now, as {pid, holder, host, since}; None where nobody does."""

    with _opened(data, kb) as (objects, _):
        return holder_of(objects, kb)


@contextmanager
def _opened(data: DataDir, kb: str) -> Iterator[tuple[Objects, WorkingCopy]]:
    objects = Objects(data.url)
    if not data.of(kb).root.exists():
        read_head(objects, kb)  # a mistyped bucket gets no working copy
    copy = WorkingCopy(objects, kb, data.of(kb).root)
    try:
        yield objects, copy
    finally:
        copy.close()
