"""Pushing: what a working copy has and the store lacks is uploaded, and trees are made that name it."""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import PurePosixPath

from almanac.core.logs import get_logger
from almanac.core.store.head import Head
from almanac.core.store.layout import AREAS, POINTER, SEALS, entries, index_of, seal_of, segments_in
from almanac.core.store.objects import Changed
from almanac.core.store.trees import File, Folder, object_key, write_folder
from almanac.core.store.working_copy import WorkingCopy
from almanac.schemas.errors import StorageError

_TRIES = 5  # whoever opens a version with Chroma changes a file of Chroma's
_log = get_logger("almanac.store")


def upload(copy: WorkingCopy, head: Head, areas: Iterable[str]) -> Head:
    """Uploads what areas have and the store lacks, and returns the head that names it; CURRENT is not moved. Other
    areas stay as they are in `head`.
    """
    for _ in range(_TRIES):
        try:
            return _Push(copy).upload(head, areas)
        except (Changed, FileNotFoundError) as error:
            _log.info("files changed during a push", kb=copy.kb, error=repr(error))
    raise StorageError(
        "files change faster than they can be pushed",
        where=str(copy.root),
        hint="does something else write there? run again",
    )


def note_pushed(copy: WorkingCopy, head: Head, areas: Iterable[str]) -> None:
    """Remembers that CURRENT has these areas as they are here."""
    for area, tree in copy.folder(head.root).folders.items():
        if area in areas:
            copy.notes.note_checked_out(area, tree)


class _Push:
    """One push: the requests that it takes are collected while trees are made, and carried out side by side."""

    def __init__(self, copy: WorkingCopy) -> None:
        self._copy, self._root = copy, copy.root
        self._uploads: list[Callable[[], None]] = []

    def upload(self, head: Head, areas: Iterable[str]) -> Head:
        copy = self._copy
        before = copy.folder(head.root).folders
        new = {
            area: self._tree_of(PurePosixPath(area), before.get(area, ""))
            for area in AREAS
            if area in areas and (self._root / area).is_dir()
        }
        root = write_folder(Folder(folders={**before, **new}), self._write_tree)
        copy.do_all(self._uploads)
        if root == head.root:
            return head
        return head.model_copy(update={"root": root, **(self._published(root) if "index" in new else {})})

    def _tree_of(self, path: PurePosixPath, before: str) -> str:
        copy, folder = self._copy, Folder()
        base = copy.folder(before)
        # Backwards: of a crawl at work, the journal before the bodies that it names.
        for name, is_folder in sorted(entries(self._root / path), reverse=True):
            inner = path / name
            if not is_folder:
                folder.files[name] = self._file(inner, base.files.get(name))
            elif (seal := seal_of(inner)) and not (self._root / inner / seal).is_file():
                continue  # not finished
            elif (
                seal
                and (there := base.folders.get(name))
                and copy.folder(there).files[seal].sha256 == copy.sha256(inner / seal)
            ):
                folder.folders[name] = there
            else:
                folder.folders[name] = self._tree_of(inner, base.folders.get(name, ""))
                if seal:
                    copy.notes.note_sealed(inner, copy.notes.sha256(self._root, inner / seal))
        return write_folder(folder, self._write_tree)

    def _file(self, path: PurePosixPath, before: File | None) -> File:
        local, notes = self._root / path, self._copy.notes
        # a journal that may be growing: what was read is what is pushed
        if path.parts[0] == "raw" and path.suffix == ".jsonl":
            size = local.stat().st_size
            if before is not None and before.size == size and notes.sha256(self._root, path) == before.sha256:
                return before
            content = local.read_bytes()
            file = File(hashlib.sha256(content).hexdigest(), len(content))
            self._uploads.append(partial(self._upload_content, file.sha256, content))
            return file
        file = File(notes.sha256(self._root, path), local.stat().st_size)
        if file != before:
            self._uploads.append(
                partial(self._copy.objects.upload, object_key(self._copy.kb, file.sha256), file.sha256, local)
            )
        return file

    def _write_tree(self, sha256: str, content: bytes) -> None:
        self._copy.notes.note_tree(sha256, content)
        if sha256 not in self._copy.there:
            self._uploads.append(partial(self._upload_content, sha256, content))

    def _upload_content(self, sha256: str, content: bytes) -> None:
        key = object_key(self._copy.kb, sha256)
        if self._copy.objects.write(key, content, replacing=None) is None:
            raise StorageError(
                "an object has another content than its name says", where=key, hint="somebody else writes to the bucket"
            )

    def _published(self, root: str) -> dict[str, object]:
        """What CURRENT says of the live version."""
        copy, base = self._copy, index_of(self._copy.kb)
        pointer = self._root / base / POINTER
        version = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else None
        tree = copy.below(root, base / "versions" / version) if version else None
        if version is None or tree is None:
            return {"version": None, "version_tree": None, "segments": {}}
        names = segments_in((self._root / base / "versions" / version / SEALS["versions"]).read_bytes())
        segments = {name: copy.below(root, base / "segments" / name) for name in names}
        return {
            "version": version,
            "version_tree": tree,
            "segments": {name: inner for name, inner in segments.items() if inner},
        }
