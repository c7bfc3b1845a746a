"""Checking out: whole areas of a working copy are made what CURRENT says, for whoever writes or reads all of them."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from almanac.core.durable import remove
from almanac.core.store.bounds import READERS
from almanac.core.store.head import Head
from almanac.core.store.layout import AREAS, POINTER, SEALS, entries, index_of, seal_of
from almanac.core.store.sealed import fetch_sealed, hide
from almanac.core.store.trees import File
from almanac.core.store.working_copy import WorkingCopy


def check_out(copy: WorkingCopy, head: Head, areas: Iterable[str]) -> None:
    """Makes areas what CURRENT says, but for local work on top of it."""
    trees = copy.folder(head.root).folders
    for area in AREAS:
        if area in areas and copy.notes.checked_out(area) != trees.get(area, ""):
            _replace(copy, area, trees.get(area, ""))


def fetch_lost(copy: WorkingCopy, head: Head, areas: Iterable[str]) -> None:
    """Fetches the files of areas that are missing here, or have another content than CURRENT has. Files in addition to
    those stay.

    Only in a working copy of readers: in that of a writer, what is missing may have been removed by work that is not
    pushed yet.
    """
    if copy.notes.checked_out("index") != READERS:
        return
    trees, files = copy.folder(head.root).folders, dict[PurePosixPath, File]()
    for area in areas:
        _list(copy, PurePosixPath(area), trees.get(area, ""), files, {})
    copy.fetch_missing(files)


def list_into(copy: WorkingCopy, head: Head, folder: Path) -> None:
    """Fetches into another folder, laid out as a data directory, what lists of versions and runs need: manifests, small
    files and reports.
    """
    base, runs = index_of(copy.kb), PurePosixPath("processed", copy.kb, "runs")
    versions = copy.folder(copy.below(head.root, base / "versions")).folders
    files = {
        base / "versions" / name / SEALS["versions"]: copy.folder(inner).files[SEALS["versions"]]
        for name, inner in versions.items()
    }
    for path in (base, runs):
        files |= {path / name: file for name, file in copy.folder(copy.below(head.root, path)).files.items()}
    copy.fetch({folder / path: file for path, file in files.items()})


def _replace(copy: WorkingCopy, area: str, tree: str) -> None:
    """Makes an area exactly a tree."""
    files: dict[PurePosixPath, File] = {}
    sealed: dict[PurePosixPath, str] = {}
    _list(copy, PurePosixPath(area), tree, files, sealed)
    for path in sorted(sealed):  # segments before the versions that name them
        fetch_sealed(copy, path, sealed[path])
    pointers = {path for path in files if path.name == POINTER}
    copy.fetch_missing({path: file for path, file in files.items() if path not in pointers})
    copy.fetch_missing({path: files[path] for path in pointers})
    for path in [*_local(copy.root, PurePosixPath(area))]:
        if path in sealed:
            continue
        if seal_of(path):
            hide(copy, path)
        elif path not in files:
            remove(copy.root / path, synced=False)
    copy.notes.note_checked_out(area, tree)


def _list(
    copy: WorkingCopy,
    path: PurePosixPath,
    tree: str,
    files: dict[PurePosixPath, File],
    sealed: dict[PurePosixPath, str],
) -> None:
    folder = copy.folder(tree)
    files.update({path / name: file for name, file in folder.files.items()})
    for name, inner in folder.folders.items():
        if seal_of(path / name):
            sealed[path / name] = inner
        else:
            _list(copy, path / name, inner, files, sealed)


def _local(root: Path, folder: PurePosixPath) -> Iterator[PurePosixPath]:
    """The files below a folder, and of sealed ones the folders."""
    for name, is_folder in entries(root / folder):
        path = folder / name
        if not is_folder or ((seal := seal_of(path)) and (root / path / seal).is_file()):
            yield path
        elif not seal:
            yield from _local(root, path)
