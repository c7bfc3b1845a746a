"""Sealed folders of a working copy, which are versions and segments: fetched as a whole beside their places, exchanged,
removed when unneeded.
"""

import errno
import json
from pathlib import Path, PurePosixPath

from almanac.core.durable import exchange, move
from almanac.core.pins import Pin, hidden_folder, remove_unless_pinned
from almanac.core.stamps import write_stamps
from almanac.core.store.layout import SEALS, index_of, seal_of
from almanac.core.store.trees import File
from almanac.core.store.working_copy import WorkingCopy
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import StoredFile


def is_there(copy: WorkingCopy, path: PurePosixPath, tree: str) -> bool:
    """Whether a sealed folder is in the working copy as a tree has it. By its manifest: what it seals was compared when
    it was fetched, or built.
    """
    seal = seal_of(path)
    wanted = copy.folder(tree).files[seal].sha256
    return copy.notes.sealed(path) == wanted and copy.sha256(path / seal) == wanted


def is_altered(copy: WorkingCopy, path: PurePosixPath, tree: str) -> bool:
    """Whether a file of a sealed folder is missing, or has another content than a tree has it.

    All of them are read, but for those in its folders that the seal does not list: whatever opens them writes into them
    (Chroma's database).
    """
    files, seal = files_below(copy, path, tree), path / seal_of(path)
    if _content_of(copy.root / seal) != files[seal].sha256:
        return True
    listed = {path / one["path"] for one in json.loads((copy.root / seal).read_bytes()).get("files", [])}
    compared = {inner for inner in files if inner in listed or inner.parent == path}
    return any(
        _content_of(copy.root / inner) != file.sha256 if inner in compared else not (copy.root / inner).is_file()
        for inner, file in files.items()
    )


def _content_of(path: Path) -> str | None:
    """The hash of a file; None where it is no file, or the disk cannot read it. Raises OSError where something else is
    in the way.
    """
    try:
        return file_sha256(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return None


def files_below(copy: WorkingCopy, path: PurePosixPath, tree: str) -> dict[PurePosixPath, File]:
    """All files of a tree, by their paths below `path`."""
    folder = copy.folder(tree)
    found = {path / name: file for name, file in folder.files.items()}
    for name, inner in folder.folders.items():
        found |= files_below(copy, path / name, inner)
    return found


def fetch_sealed(copy: WorkingCopy, path: PurePosixPath, tree: str) -> None:
    """Fetches a version's or segment's folder, unless it is there. Readers see the former one or the new one, and keep
    what they have open.
    """
    if is_there(copy, path, tree):
        return
    place, seal = copy.root / path, seal_of(path)
    staged = hidden_folder(place)
    staged.mkdir(parents=True)
    pin = Pin(staged)  # a writer that begins meanwhile leaves it alone
    try:
        copy.fetch({staged / inner: file for inner, file in files_below(copy, PurePosixPath(), tree).items()})
        if seal == SEALS["segments"]:  # its files were just compared with their hashes
            listed = json.loads((staged / seal).read_bytes())["files"]
            write_stamps(staged, [StoredFile.model_validate(one) for one in listed])
        if place.exists():
            exchange(staged, place)
        else:
            move(staged, place)
        copy.notes.note_sealed(path, copy.folder(tree).files[seal].sha256)
    finally:
        pin.close()
        if staged.exists():
            remove_unless_pinned(staged)


def hide(copy: WorkingCopy, path: PurePosixPath) -> None:
    """Takes a folder's name from it: who reads it keeps it, and it is removed once nobody does."""
    place = copy.root / path
    if place.exists():
        move(place, hidden_folder(place))


def drop_unneeded(copy: WorkingCopy, needed: dict[PurePosixPath, str]) -> bool:
    """Removes versions and segments that are not among `needed`, by path and tree, and leftovers; returns whether a
    reader still has one of them open.

    One that is needed with another content, as a takedown makes it, loses its name at once: it is fetched anew where it
    is asked for.
    """
    is_left = False
    for kind in SEALS:
        base = index_of(copy.kb) / kind
        for folder in sorted(path for path in (copy.root / base).glob("*") if path.is_dir()):
            path = base / folder.name
            if path in needed:
                if not is_there(copy, path, needed[path]):
                    hide(copy, path)
                    is_left = True  # under its hidden name, until the next time
            elif not remove_unless_pinned(folder):
                is_left = True
    return is_left
