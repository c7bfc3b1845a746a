"""The working copy: a data directory on local disk that stands for what a store holds of one knowledge base, and has
work that is not pushed yet.

It has four areas: `raw/`, `vectors/`, `processed/` and `index/`. Hidden files, locks and stamps belong to this machine
alone. A version or a segment is *sealed* by its manifest: it never changes, and is pushed and fetched as a whole. What
a kill leaves here is a state that every command can go on from, so any state may be pushed.

In the store, content lies as `objects/<kb>/ab/<sha256>`. The list of a folder is such an object, JSON with names,
hashes and sizes; the list of an area has its folders, with the hashes of their lists.
"""

import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from almanac.core.durable import make_folder, remove, write_file
from almanac.core.pins import alone_with
from almanac.core.stamps import STAMPS
from almanac.core.store.objects import WORKERS, Objects
from almanac.core.store.pointer import Head
from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import file_sha256, sha256

AREAS = ("raw", "vectors", "processed", "index")
SEALS = {"versions": "manifest.json", "segments": "segment.json"}
POINTER = "CURRENT"
LISTS = ".lists"
READERS = "readers"  # noted in place of a list for an index of which readers fetch single versions
_NOTES = ".areas.json"
_OWN = {"LOCK", "LOCK.holder", STAMPS}
_DERIVED = (".index", ".damaged")  # of the vector store, made again where they are missing


class File(NamedTuple):
    sha256: str
    size: int


class Stopped(Exception):
    """The work on a copy was stopped by another thread."""


class WorkingCopy:
    """The working copy of a knowledge base in `root`, with its store. One thread at a time uses it.

    Setting `stopped` ends requests between two pieces, and whoever waits for them gets Stopped.
    """

    def __init__(self, objects: Objects, kb: str, root: Path, stopped: threading.Event | None = None) -> None:
        self._lists = root / LISTS
        make_folder(root, is_private=True)
        make_folder(self._lists)
        self.root, self.objects, self.kb = root, objects, kb
        self.index = PurePosixPath("index", kb)
        self._stopped = stopped or threading.Event()
        self._hashes: dict[PurePosixPath, tuple[int, int, str]] = {}  # of files: time of change, size, hash
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="store")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def note_made_from(self, areas: dict[str, str]) -> None:
        write_file(self.root / _NOTES, json.dumps({**made_from(self.root), **areas}))

    # Lists and files

    def key(self, sha256: str) -> str:
        """The key of an object. Each knowledge base has its own: whoever holds its lock knows who needs them."""
        return f"objects/{self.kb}/{sha256[:2]}/{sha256}"

    def _listed(self, name: str | None) -> dict[str, Any]:
        """A list by its hash, from this machine or the store; empty for none."""
        if not name:
            return {}
        with suppress(FileNotFoundError):
            if sha256(content := (self._lists / name).read_bytes()) == name:
                return dict(json.loads(content))
        content = self.read(name)
        self.keep_list(name, content)
        return dict(json.loads(content))

    def read(self, name: str) -> bytes:
        """An object of the store, by its hash."""
        self.require_going()
        return self.objects.read_content(self.key(name), name)

    def keep_list(self, name: str, content: bytes) -> None:
        write_file(self._lists / name, content, synced=False)

    def forget_lists(self, needed: Collection[str]) -> None:
        """Removes the lists that are kept here, but for those."""
        for list_path in (self._lists).glob("[!.]*"):
            if list_path.name not in needed:
                remove(list_path, synced=False)

    def folders(self, head: Head, area: str) -> dict[PurePosixPath, str]:
        """The folders of an area with their lists, as CURRENT has them."""
        return {PurePosixPath(path): listed for path, listed in self._listed(head.areas.get(area)).items()}

    def files(self, listed: str | None) -> dict[str, File]:
        """What a folder's list has, by names below it."""
        return {name: File(*file) for name, file in self._listed(listed).items()}

    def sha256(self, path: PurePosixPath) -> str:
        """The hash of a local file, read again if time of change or size are others; empty where it is missing."""
        try:
            status = (self.root / path).stat()
            stamp = status.st_mtime_ns, status.st_size
            known = self._hashes.get(path)
            if known is None or known[:2] != stamp:
                known = self._hashes[path] = (*stamp, file_sha256(self.root / path))
        except FileNotFoundError:
            return ""
        return known[2]

    def has(self, path: PurePosixPath, file: File, *, is_read: bool = False) -> bool:
        """Whether a file is here as a list has it. A page's body and a part of vectors, which nobody changes, are taken
        by name and size, unless all are to be read.
        """
        if is_read or not (path.suffix == ".gz" or path.parts[0] == "vectors"):
            return self.sha256(path) == file.sha256
        with suppress(FileNotFoundError):
            return (self.root / path).stat().st_size == file.size
        return False

    def fetch(self, files: dict[Path, File]) -> None:
        """Fetches files, by the places that they are written to."""

        def fetch_one(path: Path, sha256: str) -> None:
            self.objects.fetch(self.key(sha256), sha256, path, self.require_going)

        self.do_all([partial(fetch_one, path, file.sha256) for path, file in files.items()])

    def fetch_missing(self, files: dict[PurePosixPath, File], *, is_read: bool = False) -> None:
        """Fetches those files that are not here as they should be; pointers last."""
        missing = {path: file for path, file in files.items() if not self.has(path, file, is_read=is_read)}
        for are_pointers in (False, True):
            self.fetch({self.root / at: file for at, file in missing.items() if (at.name == POINTER) is are_pointers})

    def require_going(self) -> None:
        if self._stopped.is_set():
            raise Stopped

    def do_all(self, requests: Iterable[Callable[[], object]]) -> None:
        """Carries out requests side by side; raises the first error."""
        futures = [self._pool.submit(request) for request in requests]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()

    # Locks of this machine

    @contextmanager
    def changing(self) -> Iterator[bool]:
        """Lets one process at a time change the working copy; yields whether a writer of this machine works in it."""
        with alone_with(self._lists, waits=True), alone_with(self.root) as is_free:
            yield not is_free

    @contextmanager
    def for_writing(self) -> Iterator[bool]:
        """Makes this process the writer of the working copy; yields whether there is no other. A reader that is
        fetching is waited for.
        """
        with ExitStack() as held:
            with alone_with(self._lists, waits=True):
                is_free = held.enter_context(alone_with(self.root))
            yield is_free


def made_from(root: Path) -> dict[str, str]:
    """The list that each area of a working copy was made from, or pushed as, last.

    Without it nothing tells local work from what another machine removed, and areas are made what is in the store. So
    where it is damaged, that is a StorageError.
    """
    path = root / _NOTES
    try:
        return {str(area): str(listed) for area, listed in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as error:
        hint = (
            "mend the disk; the file may be removed while no command runs: what this machine has not pushed yet, such "
            "as pages and vectors of a run that ended without its store, is lost then"
        )
        finding = f"the notes of a working copy cannot be read: {error}"
        raise StorageError(finding, where=str(path), hint=hint) from error


# Where things lie


def seal_of(path: PurePosixPath) -> str:
    """The file that seals a folder, empty for a path that is no version and no segment."""
    parts = path.parts
    return SEALS.get(parts[2], "") if len(parts) == 4 and parts[0] == "index" else ""


def folders_here(root: Path, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, list[str]]]:
    """The folders at and below a path, each with the names of the files that belong to the knowledge base; a sealed one
    as a whole, none that is not finished.

    What names something comes before it: the pointer before versions, these before segments, journals before bodies. So
    whoever reads while others write has all that is named in what was read.
    """
    files, inner = list[str](), list[str]()
    with suppress(FileNotFoundError), os.scandir(root / path) as entries:
        for entry in entries:
            if not (entry.name.startswith(".") or entry.name in _OWN or entry.name.endswith(_DERIVED)):
                (inner if entry.is_dir() else files).append(entry.name)
    if files:
        yield path, files
    for below in (path / name for name in sorted(inner, reverse=True)):
        if not (seal := seal_of(below)):
            yield from folders_here(root, below)
        elif (root / below / seal).is_file():
            parts = list(folders_here(root, below))
            yield below, [str((folder / name).relative_to(below)) for folder, names in parts for name in names]


def segments_in(manifest: bytes) -> list[str]:
    """The segments that a version's manifest names."""
    return [use["segment"] for use in json.loads(manifest).get("segments", [])]


def folders_of(root: Path, kb: str, version: str) -> list[Path]:
    """The folders of a version that is here with all its segments: those, and its own. Empty where it is not whole, or
    its manifest cannot be read.
    """
    index = root / "index" / kb
    own = index / "versions" / version
    try:
        segments = [index / "segments" / name for name in segments_in((own / SEALS["versions"]).read_bytes())]
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return []
    return [*segments, own] if all((folder / SEALS["segments"]).is_file() for folder in segments) else []
