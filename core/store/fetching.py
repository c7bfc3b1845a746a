"""Fetching: single versions with their segments, for readers. What CURRENT no longer names is dropped, and what nobody
has open is bounded (`bounds.py`).
"""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from almanac.core.durable import write_file
from almanac.core.logs import get_logger
from almanac.core.store.bounds import READERS, make_room, mark_used
from almanac.core.store.head import Head
from almanac.core.store.layout import POINTER, SEALS, index_of, seal_of, segments_in
from almanac.core.store.sealed import drop_unneeded, fetch_sealed, files_below, hide, is_altered, is_there
from almanac.core.store.trees import Folder, object_key
from almanac.core.store.working_copy import WorkingCopy
from almanac.schemas.errors import NotFound, StorageError

_PUBLISHED = ".published.json"
_log = get_logger("almanac.store")


def fetch_versions(
    copy: WorkingCopy, head: Head, versions: Iterable[str | None], *, additive: bool, limit: int
) -> bool:
    """Fetches what readers need: these versions with their segments, the live one for None, and the small files of the
    index.

    Args:
        copy: The working copy, whose lock the caller has.
        head: CURRENT.
        versions: Names of versions; None is the live one, if there is one.
        additive: Whether a writer of this machine works here: then nothing of it is changed or removed.
        limit: Bytes that versions and segments of all working copies of readers may take.

    Returns whether something that CURRENT no longer names is still here, because a reader has it open: ask again later.
    Raises NotFound for an unknown version.
    """
    tree = copy.below(head.root, index_of(copy.kb))
    if tree is None:
        return False
    index, area = copy.folder(tree), copy.folder(head.root).folders["index"]
    is_readers = not additive and copy.notes.checked_out("index") != area
    if is_readers:
        copy.notes.note_checked_out("index", READERS)  # from here on incomplete: a writer that comes makes it whole
    wanted = _wanted(copy, head, index, versions)
    folders = [copy.root / path for path in wanted]
    if is_readers:
        missing = [path for path in wanted if not is_there(copy, path, wanted[path])]
        make_room(
            copy,
            sum(file.size for path in missing for file in files_below(copy, path, wanted[path]).values()),
            set(folders),
            limit,
        )
    for path, sealed in wanted.items():
        fetch_sealed(copy, path, sealed)
    mark_used(folders)
    is_left = False
    if is_readers:
        base = index_of(copy.kb)
        copy.fetch_missing({base / name: file for name, file in index.files.items() if name != POINTER})
        copy.fetch_missing({base / name: file for name, file in index.files.items() if name == POINTER})
        is_left = drop_unneeded(
            copy, {base / kind / name: inner for kind in SEALS for name, inner in _folders(copy, index, kind).items()}
        )
    if head.version and copy.root / index_of(copy.kb) / "versions" / head.version in folders:
        note_published(copy.root, head)
    return is_left


def set_aside_altered(copy: WorkingCopy, head: Head, versions: Iterable[str | None]) -> bool:
    """Takes their names from folders of versions and their segments that differ from what CURRENT has: who asks for
    them has them fetched anew.

    Returns whether there were any. Only in a working copy of readers, whose lock the caller has: in that of a writer,
    what differs may be work that is not pushed yet.
    """
    tree = copy.below(head.root, index_of(copy.kb))
    if tree is None or copy.notes.checked_out("index") != READERS:
        return False
    index = copy.folder(tree)
    own = index_of(copy.kb) / "versions"
    kept = {
        own / name: inner
        for name, inner in _folders(copy, index, "versions").items()
        if name in {version or head.version for version in versions}
    }
    is_any = _set_aside(copy, kept)  # first: of a damaged manifest nobody knows the segments
    return (
        _set_aside(
            copy, {path: inner for path, inner in _wanted(copy, head, index, versions).items() if path not in kept}
        )
        or is_any
    )


def _set_aside(copy: WorkingCopy, folders: dict[PurePosixPath, str]) -> bool:
    altered = [path for path, tree in folders.items() if (copy.root / path).exists() and is_altered(copy, path, tree)]
    for path in altered:
        hide(copy, path)
        _log.warning("damaged_in_cache", folder=str(copy.root / path), next="it is fetched anew")
    return bool(altered)


def note_published(root: Path, head: Head) -> None:
    """Notes that a working copy has the live version of `head`, for readers that begin while the store is away."""
    write_file(root / _PUBLISHED, head.model_dump_json())


def noted(root: Path) -> Head | None:
    """The head whose live version was fetched, or pushed, last; None before the first one."""
    try:
        return Head.model_validate_json((root / _PUBLISHED).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def note_reached(root: Path) -> None:
    """Notes that the store answered now."""
    mark_used([root / _PUBLISHED])


def reached_at(root: Path) -> float | None:
    """When the store answered a reader of this working copy last, in seconds since the epoch; None where that is not
    known.
    """
    try:
        return (root / _PUBLISHED).stat().st_mtime
    except FileNotFoundError:
        return None


def _wanted(copy: WorkingCopy, head: Head, index: Folder, versions: Iterable[str | None]) -> dict[PurePosixPath, str]:
    """Folders to fetch, with their trees: segments before the versions that name them, so that no reader finds a
    version without its segments.
    """
    base, kept, segments = index_of(copy.kb), _folders(copy, index, "versions"), _folders(copy, index, "segments")
    found: dict[PurePosixPath, str] = {}
    for version in dict.fromkeys(filter(None, (version or head.version for version in versions))):
        if version not in kept:
            hint = f"there are: {', '.join(sorted(kept)) or 'none yet'}"
            raise NotFound(f"no version '{version}' of '{copy.kb}'", where=copy.objects.url, hint=hint)
        path = base / "versions" / version
        manifest = copy.folder(kept[version]).files[seal_of(path)]
        content = (
            (copy.root / path / seal_of(path)).read_bytes()
            if is_there(copy, path, kept[version])
            else copy.objects.read_content(object_key(copy.kb, manifest.sha256), manifest.sha256)
        )
        for name in segments_in(content):
            if name not in segments:
                raise StorageError(
                    f"{version} needs segment {name}, and CURRENT has none",
                    where=copy.objects.url,
                    hint="almanac run KB builds a new version",
                )
            found[base / "segments" / name] = segments[name]
        found[path] = kept[version]
    return found


def _folders(copy: WorkingCopy, index: Folder, kind: str) -> dict[str, str]:
    return copy.folder(index.folders.get(kind)).folders
