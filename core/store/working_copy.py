"""The working copy: a data directory on local disk that stands for what a store holds of one knowledge base, and has work that is not pushed yet.

It has four areas: `raw/`, `vectors/`, `processed/` and `index/`. Hidden files, locks and stamps belong to this machine alone. A version or a segment is
*sealed* by its manifest: it never changes, and is pushed and fetched as a whole. What a kill leaves here is a state that every command can go on from, so any
state may be pushed.

`.copy.sqlite` remembers hashes of files by size and time, objects of trees, and which tree each area was checked out from. While an area's tree is the one of
CURRENT, local work on top of it is kept; where another machine moved it, the area is made exactly what was pushed.
"""

import fcntl
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import structlog

from almanac.core.durable import move, remove
from almanac.core.stamps import STAMPS, write_stamps
from almanac.core.store.head import Head
from almanac.core.store.objects import WORKERS, Changed, Objects
from almanac.core.store.trees import File, Folder, object_key, objects_below, read_folder, write_folder
from almanac.schemas.errors import NotFound, StorageError
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import StoredFile

AREAS = ("raw", "vectors", "processed", "index")  # what is named comes before what names it
_SEALS = {"versions": "manifest.json", "segments": "segment.json"}
_POINTER = "CURRENT"
_OWN = {"LOCK", "LOCK.holder", STAMPS}
_DERIVED = (".index", ".damaged")  # of the vector store, made again where they are missing
_TRIES = 5  # a reader's opening of a version changes a file of Chroma's
_DAY_S = 86_400
_log = structlog.get_logger("almanac.store")


class WorkingCopy:
    """The working copy of a knowledge base in `root`. One thread at a time uses it."""

    def __init__(self, objects: Objects, kb: str, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self._objects, self._kb = root, objects, kb
        self._notes = _Notes(root / ".copy.sqlite")
        self._there: set[str] = set()  # hashes of tree objects that CURRENT needs: they need no upload
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="store")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._notes.close()

    # Checking out

    def check_out(self, head: Head, areas: Iterable[str]) -> None:
        """Makes areas what CURRENT says, but for local work on top of it."""
        trees = self._folder(head.root).folders
        for area in AREAS:
            if area in areas and self._notes.checked_out(area) != trees.get(area, ""):
                self._replace(area, trees.get(area, ""))

    def fetch_versions(self, head: Head, versions: Iterable[str | None], *, additive: bool) -> None:
        """Fetches what readers need: the small files of the index, and these versions with their segments, the live one for None.

        `additive`: a writer of this machine works here, and the small files are its own. Raises NotFound for an unknown version.
        """
        base = PurePosixPath("index", self._kb)
        tree = self._below(head.root, base)
        if tree is None:
            return
        index, is_moved = self._folder(tree), self._notes.checked_out("index") != self._folder(head.root).folders["index"]
        kept = self._folder(index.folders["versions"]).folders if "versions" in index.folders else {}
        for wanted in filter(None, {version or head.version for version in versions}):
            if wanted not in kept:
                hint = f"there are: {', '.join(sorted(kept)) or 'none yet'}"
                raise NotFound(f"no version '{wanted}' of '{self._kb}'", where=self._objects.url, hint=hint)
            self._fetch_sealed(base / "versions" / wanted, kept[wanted])
            for name in _segments_of(self.root / base / "versions" / wanted):
                self._fetch_sealed(base / "segments" / name, self._folder(index.folders["segments"]).folders[name])
        if is_moved and not additive:
            self._fetch({base / name: file for name, file in index.files.items() if name != _POINTER})
            self._fetch({base / name: file for name, file in index.files.items() if name == _POINTER})

    def list_into(self, head: Head, folder: Path) -> None:
        """Fetches into another folder, laid out as a data directory, what lists of versions and runs need: manifests, small files and reports."""
        base, runs = PurePosixPath("index", self._kb), PurePosixPath("processed", self._kb, "runs")
        versions = self._folder(self._below(head.root, base / "versions")).folders
        files = {base / "versions" / name / _SEALS["versions"]: self._folder(inner).files[_SEALS["versions"]] for name, inner in versions.items()}
        for path in (base, runs):
            files |= {path / name: file for name, file in self._folder(self._below(head.root, path)).files.items()}
        self._all([partial(self._fetch_file, file.sha256, folder / path) for path, file in files.items()])

    def _below(self, root: str, path: PurePosixPath) -> str | None:
        tree: str | None = root
        for name in path.parts:
            tree = self._folder(tree).folders.get(name) if tree else None
        return tree

    def _replace(self, area: str, tree: str) -> None:
        """Makes an area exactly a tree."""
        files: dict[PurePosixPath, File] = {}
        sealed: dict[PurePosixPath, str] = {}
        self._list(PurePosixPath(area), tree, files, sealed)
        for path, inner in sealed.items():
            self._fetch_sealed(path, inner)
        pointers = {path for path in files if path.name == _POINTER}
        self._fetch({path: file for path, file in files.items() if path not in pointers})
        self._fetch({path: files[path] for path in pointers})
        for path in [*self._local(PurePosixPath(area))]:
            if path in sealed:
                continue
            if _seal_of(path):
                self._put_aside(path)
            elif path not in files:
                remove(self.root / path, synced=False)
        self._notes.note_checked_out(area, tree)

    def _list(self, path: PurePosixPath, tree: str, files: dict[PurePosixPath, File], sealed: dict[PurePosixPath, str]) -> None:
        folder = self._folder(tree)
        files.update({path / name: file for name, file in folder.files.items()})
        for name, inner in folder.folders.items():
            if _seal_of(path / name):
                sealed[path / name] = inner
            else:
                self._list(path / name, inner, files, sealed)

    def _local(self, folder: PurePosixPath) -> Iterator[PurePosixPath]:
        """The files below a folder, and of sealed ones the folders."""
        for name, is_folder in _entries(self.root / folder):
            path = folder / name
            if not is_folder or ((seal := _seal_of(path)) and (self.root / path / seal).is_file()):
                yield path
            elif not seal:
                yield from self._local(path)

    def _fetch(self, files: dict[PurePosixPath, File]) -> None:
        """Fetches those files that are not there with the same content."""
        missing = {path: file for path, file in files.items() if self._local_sha256(path) != file.sha256}
        self._all([partial(self._fetch_file, file.sha256, self.root / path) for path, file in missing.items()])
        for path, file in missing.items():
            self._notes.note_file(self.root, path, file.sha256)

    def _local_sha256(self, path: PurePosixPath) -> str | None:
        try:
            return self._notes.sha256(self.root, path)
        except FileNotFoundError:
            return None

    def _fetch_file(self, sha256: str, path: Path) -> None:
        self._objects.fetch(object_key(self._kb, sha256), sha256, path)

    def _fetch_sealed(self, path: PurePosixPath, tree: str) -> None:
        """Fetches a version's or segment's folder as a whole, unless it is there: beside its place first, so that nobody sees half of it."""
        seal = _seal_of(path)
        manifest = self._folder(tree).files[seal]
        if self._notes.sealed(path) == manifest.sha256 and self._local_sha256(path / seal) == manifest.sha256:
            return
        staged = self.root / ".incoming"  # one at a time: `checking_out`
        if staged.exists():
            remove(staged)
        files: dict[PurePosixPath, File] = {}
        self._list(PurePosixPath(), tree, files, {})
        self._all([partial(self._fetch_file, file.sha256, staged / inner) for inner, file in files.items()])
        if seal == _SEALS["segments"]:  # its files were just compared with their hashes
            listed = json.loads((staged / seal).read_bytes())["files"]
            write_stamps(staged, [StoredFile.model_validate(one) for one in listed])
        self._put_aside(path)
        move(staged, self.root / path)
        self._notes.note_sealed(path, manifest.sha256)

    def _put_aside(self, path: PurePosixPath) -> None:
        """Hides a folder that is replaced: who reads it keeps it, and the next writer removes it."""
        number = 1
        while (hidden := (self.root / path).with_name(f".{path.name}.{number}")).exists():
            number += 1
        if (self.root / path).exists():
            move(self.root / path, hidden)

    # Pushing

    def write(self, head: Head, areas: Iterable[str]) -> Head:
        """Uploads what areas have and the store lacks, and returns the head that names it; CURRENT is not moved. Other areas stay as they are in `head`."""
        for _ in range(_TRIES):
            try:
                return self._write(head, areas)
            except (Changed, FileNotFoundError) as error:
                _log.info("files changed during a push", kb=self._kb, error=repr(error))
        raise StorageError("files change faster than they can be pushed", where=str(self.root), hint="does something else write there? run again")

    def _write(self, head: Head, areas: Iterable[str]) -> Head:
        before = self._folder(head.root).folders
        uploads: list[Callable[[], None]] = []
        new = {area: self._write_tree(PurePosixPath(area), before.get(area, ""), uploads) for area in AREAS if area in areas and (self.root / area).is_dir()}
        root = write_folder(Folder(folders={**before, **new}), self._uploader(uploads))
        self._all(uploads)
        if root == head.root:
            return head
        return head.model_copy(update={"root": root, **(self._published(root) if "index" in new else {})})

    def note_pushed(self, head: Head, areas: Iterable[str]) -> None:
        """Remembers that CURRENT has these areas as they are here."""
        for area, tree in self._folder(head.root).folders.items():
            if area in areas:
                self._notes.note_checked_out(area, tree)

    def _write_tree(self, path: PurePosixPath, before: str, uploads: list[Callable[[], None]]) -> str:
        base, folder = self._folder(before), Folder()
        # Backwards: of a crawl at work, the journal before the bodies that it names.
        for name, is_folder in sorted(_entries(self.root / path), reverse=True):
            inner = path / name
            if not is_folder:
                folder.files[name] = self._write_file(inner, base.files.get(name), uploads)
            elif (seal := _seal_of(inner)) and not (self.root / inner / seal).is_file():
                continue  # not finished
            elif seal and (there := base.folders.get(name)) and self._folder(there).files[seal].sha256 == self._local_sha256(inner / seal):
                folder.folders[name] = there
            else:
                folder.folders[name] = self._write_tree(inner, base.folders.get(name, ""), uploads)
                if seal:
                    self._notes.note_sealed(inner, self._notes.sha256(self.root, inner / seal))
        return write_folder(folder, self._uploader(uploads))

    def _write_file(self, path: PurePosixPath, before: File | None, uploads: list[Callable[[], None]]) -> File:
        local = self.root / path
        if path.parts[0] == "raw" and path.suffix == ".jsonl":  # a journal that may be growing: what was read is what is pushed
            size = local.stat().st_size
            if before is not None and before.size == size and self._notes.sha256(self.root, path) == before.sha256:
                return before
            content = local.read_bytes()
            file = File(hashlib.sha256(content).hexdigest(), len(content))
            uploads.append(partial(self._upload_content, file.sha256, content))
            return file
        file = File(self._notes.sha256(self.root, path), local.stat().st_size)
        if file != before:
            uploads.append(partial(self._objects.upload, object_key(self._kb, file.sha256), file.sha256, local))
        return file

    def _uploader(self, uploads: list[Callable[[], None]]) -> Callable[[str, bytes], None]:
        def write(sha256: str, content: bytes) -> None:
            self._notes.note_tree(sha256, content)
            if sha256 not in self._there:
                uploads.append(partial(self._upload_content, sha256, content))

        return write

    def _upload_content(self, sha256: str, content: bytes) -> None:
        if self._objects.write(object_key(self._kb, sha256), content, replacing=None) is None:
            raise StorageError(
                "an object has another content than its name says", where=object_key(self._kb, sha256), hint="somebody else writes to the bucket"
            )

    def _published(self, root: str) -> dict[str, object]:
        """What CURRENT says of the live version."""
        base = PurePosixPath("index", self._kb)
        pointer = self.root / base / _POINTER
        version = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else None
        tree = self._below(root, base / "versions" / version) if version else None
        if version is None or tree is None:
            return {"version": None, "version_tree": None, "segments": {}}
        segments = {name: self._below(root, base / "segments" / name) for name in _segments_of(self.root / base / "versions" / version)}
        return {"version": version, "version_tree": tree, "segments": {name: inner for name, inner in segments.items() if inner}}

    def remove_unneeded(self, head: Head) -> tuple[int, int]:
        """Removes the objects that no tree of CURRENT needs, older than a day; returns their number and bytes. Only the holder of the lock may call it."""
        needed: set[str] = set()
        if head.root:
            objects_below(head.root, self._read, needed)
        self._notes.keep_trees(needed)
        gone = [
            (key, size) for key, size, age_s in self._objects.listed(f"objects/{self._kb}/") if key.rpartition("/")[2] not in needed and age_s > _DAY_S
        ]  # fmt: skip
        self._all([partial(self._objects.delete, key) for key, _ in gone])
        return len(gone), sum(size for _, size in gone)

    def _folder(self, tree: str | None) -> Folder:
        """Reads a folder of CURRENT, empty for no tree."""
        return read_folder(tree, self._read) if tree else Folder()

    def _read(self, sha256: str) -> bytes:
        content = self._notes.tree(sha256)
        if content is None:
            content = self._objects.read_content(object_key(self._kb, sha256), sha256)
            self._notes.note_tree(sha256, content)
        self._there.add(sha256)
        return content

    def _all(self, requests: list[Callable[[], None]]) -> None:
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
    def checking_out(self) -> Iterator[bool]:
        """Lets one process at a time change the working copy; yields whether a writer of this machine works in it."""
        with _locked(self.root / ".checkout", wait=True), _locked(self.root / ".writer", wait=False) as is_free:
            yield not is_free

    @contextmanager
    def for_writing(self) -> Iterator[bool]:
        """Makes this process the writer of the working copy; yields whether there is no other."""
        with _locked(self.root / ".writer", wait=False) as is_free:
            yield is_free


@contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[bool]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """Name, and whether it is a folder, of what belongs to the knowledge base."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                if not (entry.name.startswith(".") or entry.name in _OWN or entry.name.endswith(_DERIVED)):
                    yield entry.name, entry.is_dir()
    except FileNotFoundError:
        return


def _seal_of(path: PurePosixPath) -> str:
    """The file that seals a folder, empty for a path that is no version and no segment."""
    parts = path.parts
    return _SEALS.get(parts[2], "") if len(parts) == 4 and parts[0] == "index" else ""


def _segments_of(version: Path) -> list[str]:
    return [use["segment"] for use in json.loads((version / _SEALS["versions"]).read_bytes()).get("segments", [])]


class _Notes:
    """What is known of local files and of trees. It may be lost: then files are hashed again."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            "CREATE TABLE IF NOT EXISTS files(path TEXT PRIMARY KEY, size INTEGER, changed INTEGER, sha256 TEXT) WITHOUT ROWID;"
            "CREATE TABLE IF NOT EXISTS trees(sha256 TEXT PRIMARY KEY, content BLOB) WITHOUT ROWID;"
            "CREATE TABLE IF NOT EXISTS sealed(path TEXT PRIMARY KEY, sha256 TEXT) WITHOUT ROWID;"
            "CREATE TABLE IF NOT EXISTS areas(name TEXT PRIMARY KEY, tree TEXT) WITHOUT ROWID;"
        )

    def close(self) -> None:
        self._database.close()

    def sha256(self, root: Path, path: PurePosixPath) -> str:
        """The hash of a file, read again if size or time of change are others. Raises FileNotFoundError."""
        found = (root / path).stat()
        row = self._get("SELECT sha256 FROM files WHERE path = ? AND size = ? AND changed = ?", str(path), found.st_size, found.st_mtime_ns)
        if row is not None:
            return str(row)
        sha256 = file_sha256(root / path)
        self._put("files", str(path), found.st_size, found.st_mtime_ns, sha256)
        return sha256

    def note_file(self, root: Path, path: PurePosixPath, sha256: str) -> None:
        found = (root / path).stat()
        self._put("files", str(path), found.st_size, found.st_mtime_ns, sha256)

    def tree(self, sha256: str) -> bytes | None:
        content: bytes | None = self._get("SELECT content FROM trees WHERE sha256 = ?", sha256)
        return content

    def note_tree(self, sha256: str, content: bytes) -> None:
        self._put("trees", sha256, content)

    def keep_trees(self, needed: set[str]) -> None:
        """Forgets the objects of all other trees."""
        with self._lock:
            known = [sha256 for (sha256,) in self._database.execute("SELECT sha256 FROM trees")]
            self._database.executemany("DELETE FROM trees WHERE sha256 = ?", [(sha256,) for sha256 in known if sha256 not in needed])

    def sealed(self, path: PurePosixPath) -> str | None:
        sha256: str | None = self._get("SELECT sha256 FROM sealed WHERE path = ?", str(path))
        return sha256

    def note_sealed(self, path: PurePosixPath, sha256: str) -> None:
        self._put("sealed", str(path), sha256)

    def checked_out(self, area: str) -> str:
        """The tree that an area was made from last, empty before the first time."""
        return str(self._get("SELECT tree FROM areas WHERE name = ?", area) or "")

    def note_checked_out(self, area: str, tree: str) -> None:
        self._put("areas", area, tree)

    def _get(self, query: str, *values: object) -> Any:
        with self._lock:
            row = self._database.execute(query, values).fetchone()
        return row[0] if row else None

    def _put(self, table: str, *values: object) -> None:
        with self._lock:
            self._database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(values))})", values)
