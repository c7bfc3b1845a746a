"""Fetching: areas as CURRENT has them, for who writes or reads all of them; single versions with their segments, for
readers, whose cache is bounded.
"""

import errno
import json
import os
from collections.abc import Collection, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path, PurePosixPath

from almanac.core.durable import exchange, move, remove, write_file
from almanac.core.logs import get_logger
from almanac.core.pins import Pin, alone_with, hidden_folder, remove_unless_pinned
from almanac.core.settings import cache_bytes
from almanac.core.stamps import write_stamps
from almanac.core.store.pointer import Head
from almanac.core.store.working_copy import (
    LISTS,
    READERS,
    SEALS,
    File,
    WorkingCopy,
    folders_here,
    made_from,
    seal_of,
    segments_in,
)
from almanac.schemas.errors import NotFound, StorageError
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import StoredFile

PUBLISHED = ".published.json"  # CURRENT whose live version was fetched, or pushed, last
_log = get_logger("almanac.store")

# Areas


def check_out(copy: WorkingCopy, head: Head, areas: Iterable[str], *, mends: bool = False) -> None:
    """Makes areas what CURRENT says, but for local work on top of it. With `mends`, what is missing or altered of areas
    that are as CURRENT says is fetched, too.
    """
    for area in areas:
        is_other = made_from(copy.root).get(area, "") != head.areas.get(area, "")
        if not is_other and not mends:
            continue
        folders = copy.folders(head, area)
        for path in sorted(path for path in folders if seal_of(path)):  # segments before the versions that name them
            if not _is_there(copy, path, folders[path]):
                _fetch_sealed(copy, path, folders[path])
        plain = {path: copy.files(listed) for path, listed in folders.items() if not seal_of(path)}
        files = {path / name: file for path, names in plain.items() for name, file in names.items()}
        copy.fetch_missing(files, is_read=mends)
        if not is_other:
            continue
        for path, names in list(folders_here(copy.root, PurePosixPath(area))):
            if seal_of(path):
                if path not in folders:
                    _hide(copy, path)
                continue
            for name in names:
                if path / name not in files:
                    remove(copy.root / path / name, synced=False)
        copy.note_made_from({area: head.areas.get(area, "")})


def list_into(copy: WorkingCopy, head: Head, folder: Path) -> None:
    """Fetches into another folder, laid out as a data directory, what lists of versions and runs need: manifests, small
    files and reports.
    """
    index, files = copy.folders(head, "index"), dict[Path, File]()
    runs = PurePosixPath("processed", copy.kb, "runs")
    for path, listed in [*index.items(), (runs, copy.folders(head, "processed").get(runs))]:
        if path.parent.name != "segments":
            names = copy.files(listed)
            seal = seal_of(path)
            files |= {folder / path / name: file for name, file in names.items() if not seal or name == seal}
    copy.fetch(files)


# Versions and segments


def fetch_versions(
    copy: WorkingCopy,
    head: Head,
    versions: Iterable[str | None],
    *,
    has_writer: bool = False,
    is_read: bool = False,
) -> bool:
    """Fetches what readers need: these versions with their segments, the live one for None, and the small files of the
    index. What CURRENT no longer names is dropped.

    The caller has the lock of the copy. Where a writer works there, or this machine wrote last, nothing is changed or
    removed; else `is_read` has all that is here compared with the store. Returns whether something that CURRENT no
    longer names is still here, because a reader has it open: ask again later. Raises NotFound for an unknown version.
    """
    index = copy.folders(head, "index")
    if not index:
        return False
    is_readers = not has_writer and made_from(copy.root).get("index") != head.index
    if is_readers:  # from here on incomplete: a writer that comes makes it whole
        copy.note_made_from({"index": READERS})
    wanted = _wanted(copy, head, index, versions)
    folders = [copy.root / path for path in wanted]
    is_read = is_read and is_readers
    missing = [path for path in wanted if not _is_there(copy, path, wanted[path], is_read=is_read)]
    if is_readers:
        _make_room(copy.root, sum(file.size for path in missing for file in copy.files(wanted[path]).values()), folders)
    for path in missing:
        _fetch_sealed(copy, path, wanted[path])
    mark_used(folders)
    if head.version and copy.root / copy.index / "versions" / head.version in folders:
        note_published(copy.root, head)
    if not is_readers:
        return False
    files = copy.files(index.get(copy.index))
    copy.fetch_missing({copy.index / name: file for name, file in files.items()})
    copy.forget_lists({*head.areas.values(), *index.values()})
    return _drop_unneeded(copy, index)


def _wanted(
    copy: WorkingCopy, head: Head, index: dict[PurePosixPath, str], versions: Iterable[str | None]
) -> dict[PurePosixPath, str]:
    """Folders to fetch, with their lists: segments before the versions that name them, so that no reader finds a
    version without its segments.
    """
    base, folders = copy.index / "versions", dict[PurePosixPath, str]()
    for version in dict.fromkeys(filter(None, (version or head.version for version in versions))):
        path = base / version
        if path not in index:
            there = sorted(folder.name for folder in index if folder.parent == base)
            hint = f"there are: {', '.join(there) or 'none yet'}"
            raise NotFound(f"no version '{version}' of '{copy.kb}'", where=copy.objects.url, hint=hint)
        manifest = copy.read(copy.files(index[path])[seal_of(path)].sha256)
        for segment in (copy.index / "segments" / name for name in segments_in(manifest)):
            if segment not in index:
                finding = f"{version} needs segment {segment.name}, and CURRENT has none"
                raise StorageError(finding, where=copy.objects.url, hint="almanac run KB builds a new version")
            folders[segment] = index[segment]
        folders[path] = index[path]
    return folders


def _is_there(copy: WorkingCopy, path: PurePosixPath, listed: str, *, is_read: bool = False) -> bool:
    """Whether a sealed folder is here as a list has it: by its manifest, since what it seals was compared when it was
    fetched, or built. With `is_read`, all files are read, but for those in its folders that the seal does not list:
    whatever opens them writes into them (Chroma's database).
    """
    folder, files, seal = copy.root / path, copy.files(listed), seal_of(path)
    if copy.sha256(path / seal) != files[seal].sha256 or not is_read:
        return copy.sha256(path / seal) == files[seal].sha256
    sealed = {file["path"] for file in json.loads((folder / seal).read_bytes()).get("files", [])}
    read = {name for name in files if name in sealed or "/" not in name}
    try:
        return all((folder / name).is_file() for name in files) and all(
            file_sha256(folder / name) == files[name].sha256 for name in read
        )
    except OSError as error:
        if error.errno != errno.EIO:  # else the disk cannot read it
            raise
        return False


def _fetch_sealed(copy: WorkingCopy, path: PurePosixPath, listed: str) -> None:
    """Fetches a version's or segment's folder. Readers see the former one or the new one, and keep what they have open.

    Args:
        copy: The working copy, whose lock the caller has.
        path: The folder.
        listed: The list of its files.
    """
    place, seal = copy.root / path, seal_of(path)
    staged = hidden_folder(place)
    staged.mkdir(parents=True)
    with closing(Pin(staged)):  # a writer that begins meanwhile leaves it alone
        try:
            copy.fetch({staged / name: file for name, file in copy.files(listed).items()})
            if seal == SEALS["segments"]:  # its files were just compared with their hashes
                files = json.loads((staged / seal).read_bytes())["files"]
                write_stamps(staged, [StoredFile.model_validate(file) for file in files])
        except BaseException:
            remove(staged)
            raise
        (exchange if place.exists() else move)(staged, place)
    if staged.exists():
        _log.info("replaced", folder=str(place))
        remove_unless_pinned(staged)


def _hide(copy: WorkingCopy, path: PurePosixPath) -> None:
    """Takes a folder's name from it: who reads it keeps it, and it is removed once nobody does."""
    move(copy.root / path, hidden_folder(copy.root / path))


def _drop_unneeded(copy: WorkingCopy, index: dict[PurePosixPath, str]) -> bool:
    """Removes versions and segments that CURRENT does not name, and leftovers; returns whether a reader still has one
    of them open.

    One that is named with another content, as a takedown makes it, loses its name at once: it is fetched anew where it
    is asked for.
    """
    is_left = False
    for kind in SEALS:
        for folder in sorted(path for path in (copy.root / copy.index / kind).glob("*") if path.is_dir()):
            path = copy.index / kind / folder.name
            if path not in index:
                is_left |= not remove_unless_pinned(folder)
            elif not _is_there(copy, path, index[path]):
                _hide(copy, path)
                is_left = True  # under its hidden name, until the next time
    return is_left


# The bound of the cache


def _make_room(root: Path, incoming: int, wanted: Collection[Path]) -> None:
    """Removes what was used least recently of all working copies of readers until `incoming` more bytes fit below
    ALMANAC_CACHE_GB. Where what is open or `wanted` takes more, a warning says so.

    A copy in which somebody of this machine wrote last is its data, and stays whole.
    """
    limit = cache_bytes()
    with ExitStack() as held:
        roots = [
            copy_root
            for copy_root in root.parents[1].glob("*/*/")
            if copy_root == root or _is_of_readers_alone(copy_root, held)
        ]
        seals = [
            seal
            for copy_root in roots
            for kind, name in SEALS.items()
            for seal in copy_root.glob(f"index/*/{kind}/[!.]*/{name}")
        ]
        folders = sorted({seal.parent for seal in seals}, key=lambda folder: folder.stat().st_mtime)
        sizes = {folder: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) for folder in folders}
        total = incoming + sum(sizes.values())
        for folder in folders:
            if total <= limit:
                return
            if folder in wanted:
                continue
            if remove_unless_pinned(folder):
                total -= sizes[folder]
                _log.info("evicted", folder=str(folder), bytes=sizes[folder])
            else:
                mark_used([folder])
    if total > limit:
        hint = "what is open stays; ALMANAC_CACHE_GB raises the bound"
        _log.warning("cache_over_bound", needed_gb=round(total / 1e9, 3), bound_gb=round(limit / 1e9, 3), next=hint)


def _is_of_readers_alone(root: Path, held: ExitStack) -> bool:
    """Whether a working copy is one of readers, and nobody changes it; it is locked then. One whose notes are damaged
    is left alone: that is told to whoever works there.
    """
    with suppress(StorageError):
        return made_from(root).get("index") == READERS and all(
            held.enter_context(alone_with(folder)) for folder in (root / LISTS, root)
        )
    return False


def mark_used(folders: Iterable[Path]) -> None:
    """Marks versions and segments, or a file, as used now."""
    for folder in folders:
        with suppress(FileNotFoundError, PermissionError):  # removed meanwhile; a cache that is only read
            os.utime(folder)


def note_published(root: Path, head: Head) -> None:
    """Notes that a working copy has the live version of `head`, for readers that begin while the store is away."""
    write_file(root / PUBLISHED, head.model_dump_json())
