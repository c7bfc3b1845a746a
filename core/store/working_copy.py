"""The working copy: a data directory on local disk that stands for what a store holds of one knowledge base, and has
work that is not pushed yet.

It has four areas: `raw/`, `vectors/`, `processed/` and `index/`. Hidden files, locks and stamps belong to this machine
alone. A version or a segment is *sealed* by its manifest: it never changes, and is pushed and fetched as a whole. What
a kill leaves here is a state that every command can go on from, so any state may be pushed.

While the tree that an area was checked out from is the one of CURRENT, local work on top of it is kept
(`checking_out.py`, `pushing.py`); where another machine moved it, the area is made exactly what was pushed. Readers
fetch single versions (`fetching.py`) into the same place.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from almanac.core.durable import make_folder
from almanac.core.store.notes import NOTES, Notes
from almanac.core.store.objects import WORKERS, Objects
from almanac.core.store.trees import File, Folder, object_key, read_folder


class Stopped(Exception):
    """The working copy was stopped by another thread."""


class WorkingCopy:
    """The working copy of a knowledge base in `root`, with its store. One thread at a time uses it.

    `there` has hashes of tree objects that are in the store: they need no upload.
    """

    def __init__(self, objects: Objects, kb: str, root: Path) -> None:
        make_folder(root, is_private=True)
        self.root, self.objects, self.kb = root, objects, kb
        self.notes = Notes(root / NOTES)
        self.there: set[str] = set()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="store")
        self._is_stopped = False

    def stop(self) -> None:
        """Ends requests between two pieces, and begins no other; whoever waits for them gets Stopped. May be called by
        another thread.
        """
        self._is_stopped = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _require_going(self) -> None:
        if self._is_stopped:
            raise Stopped

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self.notes.close()

    # Trees

    def folder(self, tree: str | None) -> Folder:
        """Reads a folder, empty for no tree."""
        return read_folder(tree, self.read_tree) if tree else Folder()

    def below(self, root: str, path: PurePosixPath) -> str | None:
        """The tree of the folder at `path` below a tree; None where there is none."""
        tree: str | None = root
        for name in path.parts:
            tree = self.folder(tree).folders.get(name) if tree else None
        return tree

    def read_tree(self, sha256: str) -> bytes:
        """Returns an object of a tree: the one remembered, else from the store."""
        content = self.notes.tree(sha256)
        if content is None:
            self._require_going()
            content = self.objects.read_content(object_key(self.kb, sha256), sha256)
            self.notes.note_tree(sha256, content)
        self.there.add(sha256)
        return content

    # Files

    def sha256(self, path: PurePosixPath) -> str | None:
        """The hash of a local file; None where it is missing."""
        try:
            return self.notes.sha256(self.root, path)
        except FileNotFoundError:
            return None

    def fetch(self, files: dict[Path, File]) -> None:
        """Fetches files, by the places that they are written to."""

        def fetching(path: Path, file: File) -> Callable[[], None]:
            return lambda: self.objects.fetch(object_key(self.kb, file.sha256), file.sha256, path, self._require_going)

        self.do_all([fetching(path, file) for path, file in files.items()])

    def fetch_missing(self, files: dict[PurePosixPath, File]) -> None:
        """Fetches those files that are not in the working copy with the same content."""
        missing = {path: file for path, file in files.items() if self.sha256(path) != file.sha256}
        self.fetch({self.root / path: file for path, file in missing.items()})
        for path, file in missing.items():
            self.notes.note_file(self.root, path, file.sha256)

    def do_all(self, requests: list[Callable[[], None]]) -> None:
        """Carries out requests side by side; raises the first error, or Stopped."""
        futures: list[Future[None]] = []
        try:
            for request in requests:
                self._require_going()
                futures.append(self._pool.submit(request))
            for future in futures:
                future.result()
        except (CancelledError, RuntimeError) as error:  # RuntimeError: of a pool that takes no more
            if not self._is_stopped:
                raise
            raise Stopped from error
        finally:
            for future in futures:
                future.cancel()

    # Locks of this machine

    @contextmanager
    def checking_out(self) -> Iterator[bool]:
        """Lets one process at a time change the working copy; yields whether a writer of this machine works in it."""
        with locked(self.root / ".checkout", wait=True), locked(self.root / ".writer", wait=False) as is_free:
            yield not is_free

    @contextmanager
    def for_writing(self) -> Iterator[bool]:
        """Makes this process the writer of the working copy; yields whether there is no other. A reader that is
        fetching is waited for.
        """
        with locked(self.root / ".checkout", wait=True):
            held = locked(self.root / ".writer", wait=False)
            is_free = held.__enter__()
        try:
            yield is_free
        finally:
            held.__exit__(None, None, None)


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Holds the lock of a file, which is made where it is missing; yields False, without `wait`, where another process
    has it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except BlockingIOError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(descriptor)
