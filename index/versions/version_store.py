"""Versions on disk: listing, manifests, the pointer to the current version, and the next name. Nothing here opens
Chroma.

`<index_dir>/versions/v0001/manifest.json` makes a directory a version; `<index_dir>/CURRENT` contains the name of the
published one.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from almanac.core.durable import remove, write_file
from almanac.core.logs import get_logger
from almanac.core.pins import Pin, remove_unless_pinned
from almanac.core.stamps import altered_file
from almanac.index.chroma.chroma_rows import CHROMA, DATABASE
from almanac.index.chroma.leftover import put_aside
from almanac.index.segments.segment_store import bytes_in, discard_unfinished_segments, read_segment, segment_dir
from almanac.index.versions.publications import altered_publications, publications
from almanac.schemas.errors import DamagedVersion, NotFound, NothingPublished, OtherFormat, storage_error
from almanac.schemas.manifest import FORMAT, Manifest, Outline, Sealed

if TYPE_CHECKING:
    from almanac.schemas.reports import Versions

MANIFEST = "manifest.json"
MANIFEST_HASH = "manifest.sha256"  # in the format of `sha256sum`, so that it can also be checked by hand
POINTER = "CURRENT"
_LONGEST_POINTER = 100  # bytes
_NAME = re.compile(r"v\d{4,}")
_log = get_logger("almanac.versions")


def version_dir(index_dir: Path, version: str) -> Path:
    return index_dir / "versions" / version


def version_number(version: str) -> int:
    return int(version[1:])


def version_names(index_dir: Path) -> list[str]:
    """Returns the names of the complete versions, oldest first. Raises StorageError for a folder that may not be
    entered.
    """
    try:
        # `iterdir`, since a glob passes over what may not be read
        names = [path.name for path in (index_dir / "versions").iterdir() if _is_complete(index_dir, path.name)]
    except FileNotFoundError:
        return []
    except PermissionError as error:
        raise storage_error(error, index_dir / "versions") from error
    return sorted(names, key=version_number)


def _is_complete(index_dir: Path, version: str) -> bool:
    """Whether there is a complete version of a name, without a look at the others. Raises StorageError for a folder
    that may not be entered.
    """
    if _NAME.fullmatch(version) is None:
        return False
    try:
        (version_dir(index_dir, version) / MANIFEST).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise storage_error(error, version_dir(index_dir, version)) from error
    return True


def list_versions(index_dir: Path) -> list[Manifest]:
    """Returns the manifests of all complete versions, oldest first. Unreadable ones and those of another format are
    left out with a warning.
    """
    manifests = []
    for version in version_names(index_dir):
        try:
            manifests.append(read_manifest(index_dir, version))
        except DamagedVersion as error:
            _log.warning("version_skipped", kb=index_dir.name, version=version, error=error.message)
        except NotFound:  # pruned meanwhile
            continue
    return manifests


def report_versions(index_dir: Path) -> "Versions":
    """Returns the report of `almanac versions`: the versions with a readable manifest, newest first, and the current
    one.
    """
    from almanac.schemas.reports import VersionRow, Versions

    pointer = usable_pointer(index_dir)
    last = {publication.version: publication for publication in publications(index_dir)}
    rows = [
        VersionRow(
            version=m.version,
            state="current" if m.version == pointer else "refused" if m.gate.verdict == "refused" else "kept",
            created_at=m.created_at,
            parent=m.parent,
            counts=m.counts,
            segments=len(m.segments) or 1,
            digest=m.digest,
            size_mb=_megabytes(index_dir, m),
            run_id=m.run_id,
            published_at=last[m.version].at if m.version in last else None,
            override=last[m.version].why if m.version in last else None,
        )
        for m in reversed(list_versions(index_dir))
    ]
    return Versions(kb=index_dir.name, current=pointer, versions=rows)


def size_mb(index_dir: Path, version: str) -> float:
    """Returns the size of a version on disk, in megabytes of 1,000,000 bytes. Raises as `read_manifest`."""
    return _megabytes(index_dir, read_manifest(index_dir, version))


def _megabytes(index_dir: Path, manifest: Manifest) -> float:
    segments = [segment_dir(index_dir, use.segment) for use in manifest.segments]
    return round(sum(map(bytes_in, [version_dir(index_dir, manifest.version), *segments])) / 1_000_000, 2)


def require_version(index_dir: Path, version: str) -> None:
    """Raises NotFound, with the names of the existing versions, unless `version` is complete."""
    known = version_names(index_dir)
    if version not in known:
        raise NotFound(
            f"no version '{version}' of '{index_dir.name}'", where=str(index_dir), hint=existing_versions(index_dir)
        )


def read_manifest(index_dir: Path, version: str) -> Manifest:
    """Returns the manifest of a version. Raises NotFound for an unknown version, DamagedVersion where it cannot be read
    or has another format.
    """
    require_version(index_dir, version)
    return manifest_in(version_dir(index_dir, version), index_dir, version)


def read_outline(index_dir: Path, version: str) -> Outline:
    """Returns what the manifest of a version says in any format. Raises NotFound for an unknown version, DamagedVersion
    where it does not say that.
    """
    require_version(index_dir, version)
    stored = _stored(version_dir(index_dir, version), index_dir, version)
    try:
        return Outline.model_validate(stored, extra="ignore")
    except ValidationError as error:
        raise _unreadable(index_dir, version, error) from error


def manifest_in(folder: Path, index_dir: Path, version: str) -> Manifest:
    """Returns the manifest in `folder`, such as a pinned one; `index_dir` and `version` are for messages. Raises as
    `read_manifest`.
    """
    stored = _stored(folder, index_dir, version)
    format_number = stored.get("format") if isinstance(stored, dict) else None
    if format_number != FORMAT:
        raise (OtherFormat if isinstance(format_number, int) else DamagedVersion)(
            f"{version} of '{index_dir.name}' has format {format_number!r}, and this almanac reads format {FORMAT}",
            where=str(version_dir(index_dir, version) / MANIFEST),
            hint=_way_up(version, is_newer=isinstance(format_number, int) and format_number > FORMAT),
        )
    try:
        return Manifest.model_validate(stored)
    except ValidationError as error:
        raise _unreadable(index_dir, version, error) from error


def _stored(folder: Path, index_dir: Path, version: str) -> Any:
    """The JSON of the manifest in a folder."""
    where = version_dir(index_dir, version) / MANIFEST
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "almanac versions KB lists what there is"
        raise NotFound(f"no version '{version}' of '{index_dir.name}' any more", where=str(where), hint=hint) from error
    except PermissionError as error:
        raise storage_error(error, where) from error
    except ValueError as error:
        raise _unreadable(index_dir, version, error) from error


def _unreadable(index_dir: Path, version: str, error: Exception) -> DamagedVersion:
    return DamagedVersion(
        f"the manifest of {version} of '{index_dir.name}' cannot be read: {error}",
        where=str(version_dir(index_dir, version) / MANIFEST),
        hint="almanac rollback KB serves an older version; almanac run KB builds a new one",
    )


def _way_up(version: str, *, is_newer: bool) -> str:
    build = "almanac run KB builds a version of this format from what is kept"
    return (
        f"install the newer almanac that wrote {version}; or {build}"
        if is_newer
        else f"{build}; the almanac that wrote {version} reads it still"
    )


def pin_version(index_dir: Path, version: str) -> Pin:
    """Pins a version for reading; close the pin when done. Raises NotFound for an unknown or removed version."""
    while True:
        require_version(index_dir, version)
        try:
            pin = Pin(version_dir(index_dir, version))
        except FileNotFoundError:
            continue
        if pin.is_in_place():
            return pin
        pin.close()


def read_pointer(index_dir: Path) -> str | None:
    """Returns the content of CURRENT, whether or not that version exists, bytes that are no text replaced; None where
    there is no such file.
    """
    try:
        return (index_dir / POINTER).read_bytes()[:_LONGEST_POINTER].decode(errors="replace").strip()
    except FileNotFoundError:
        return None


def usable_pointer(index_dir: Path) -> str | None:
    """Returns the published version; None where the pointer is lost or names no complete version."""
    version = read_pointer(index_dir)
    return version if version is not None and _is_complete(index_dir, version) else None


def current_version(index_dir: Path) -> str | None:
    """Returns the published version, or None before the first publication. Raises DamagedVersion where the pointer is
    lost or names no complete version.
    """
    version = read_pointer(index_dir)
    if version is not None and _is_complete(index_dir, version):
        return version
    before = publications(index_dir)
    if version is None and not before and not altered_publications(index_dir):
        return None
    finding = (
        "CURRENT is missing"
        if version is None
        else f"CURRENT says {version!r}, and there is no complete version of that name"
    )
    way_out = (
        "almanac rollback KB makes the last one that is whole live again, almanac publish KB VERSION any other; "
        f"{existing_versions(index_dir)}"
    )
    raise DamagedVersion(
        f"{finding}; {before[-1].version} was published last" if before else finding,
        where=str(index_dir / POINTER),
        hint=way_out
        if version_names(index_dir)
        else "no complete version is left: almanac run KB builds one from the pages and vectors that are kept",
    )


def published_last(index_dir: Path) -> str | None:
    """Returns the version that CURRENT names, else the one that was published last, whether or not it still exists;
    None before the first publication.
    """
    before = publications(index_dir)
    return read_pointer(index_dir) or (before[-1].version if before else None)


def existing_versions(index_dir: Path) -> str:
    """Returns the names of the complete versions, for messages."""
    return f"there are: {', '.join(version_names(index_dir)) or 'none yet'}"


def resolve_version(index_dir: Path, version: str | None = None) -> str:
    """Returns the given version after checking its manifest, or the current one for None.

    Raises NotFound for an unknown version, NothingPublished before the first publication, DamagedVersion where manifest
    or pointer are damaged.
    """
    if version is not None:
        return read_manifest(index_dir, version).version
    if (current := current_version(index_dir)) is None:
        raise _nothing_published(index_dir)
    return current


def require_published(index_dir: Path) -> None:
    """Raises NothingPublished before the first publication, with the names of versions that are kept. Does not check
    that the current version exists.
    """
    if read_pointer(index_dir) is None and not publications(index_dir):
        raise _nothing_published(index_dir)


def _nothing_published(index_dir: Path) -> NothingPublished:
    names = version_names(index_dir)
    hint = (
        f"almanac publish KB {names[-1]} makes a kept version live; {existing_versions(index_dir)}"
        if names
        else "almanac run KB"
    )
    return NothingPublished(f"nothing is published for '{index_dir.name}' yet", where=str(index_dir), hint=hint)


def next_version(index_dir: Path) -> str:
    """Returns the next version's name: one more than the highest of all complete or once published versions, or
    `v0001`. Unfinished ones do not count.
    """
    published = [publication.version for publication in publications(index_dir)]
    known = [*version_names(index_dir), *published, str(read_pointer(index_dir))]
    return f"v{max((version_number(name) for name in known if _NAME.fullmatch(name)), default=0) + 1:04d}"


def point_to(index_dir: Path, version: str) -> None:
    """Makes `version` the current one, atomically and durably, without any check: use `publish`."""
    write_file(index_dir / POINTER, f"{version}\n")


def discard_unfinished(index_dir: Path) -> list[str]:
    """Removes version directories without a manifest and leftovers of `rebuild`, `forget` and `prune`; returns the
    names of the unfinished versions removed. What a killed build of named content has made is put aside
    (`index.chroma.leftover`).

    Unfinished segments go, too. Only the holder of the writer lock may call it. Leftovers that a reader has pinned stay
    until the next call.
    """
    discard_unfinished_segments(index_dir)
    unfinished = []
    for path in sorted(path for path in (index_dir / "versions").glob("*") if path.is_dir()):
        if path.name.startswith("."):
            remove_unless_pinned(path)
        elif not (path / MANIFEST).is_file():
            if not put_aside(index_dir, path):
                remove(path)
            unfinished.append(path.name)
    return unfinished


def require_files(folder: Path, manifest: Sealed, *, called: Path | None = None) -> None:
    """Raises DamagedVersion for a file of the manifest that is missing or has another size, without reading any
    content.

    Segments of a version are not looked at (`require_segments`). `called` is the folder's public path for the message,
    where `folder` is a pinned one.
    """
    database = folder / CHROMA / DATABASE
    wanted = {folder / stored.path: stored.bytes for stored in manifest.files}
    sizes = {path: path.stat().st_size if path.is_file() else None for path in wanted}
    wrong = next((path for path, size in sizes.items() if size != wanted[path]), None)
    has_chroma = not (isinstance(manifest, Manifest) and manifest.segments)
    if wrong is None and manifest.counts.chunks and has_chroma and not database.is_file():
        wrong, sizes[database], wanted[database] = database, None, 1
    if wrong is not None:
        size = "is missing" if sizes[wrong] is None else f"has {sizes[wrong]} bytes instead of {wanted[wrong]}"
        raise _damaged(manifest, f"{wrong.relative_to(folder)} {size}", called or folder)


def require_segments(index_dir: Path, manifest: Manifest) -> None:
    """Raises DamagedVersion where a segment of a version is missing, or lacks a file, or has one of another size."""
    for use in manifest.segments:
        require_files(segment_dir(index_dir, use.segment), read_segment(index_dir, use.segment))


def require_unaltered(folder: Path, manifest: Sealed, part: str | None = None, *, called: Path | None = None) -> None:
    """Raises DamagedVersion for a file of a version or segment that is missing, or differs from its hash in the
    manifest.

    Engines do not look: a flipped bit changes scores without a word, and one in Chroma's index files crashes who opens
    them. Reads 1 GB a second; of a segment, whose files were stamped when they were hashed, only what was touched
    since.

    Args:
        folder: Directory of the version or segment.
        manifest: Its manifest.
        part: Path of the file, or of the folder whose files are compared, relative to `folder`. None compares all
            files.
        called: The folder's public path for the message, where `folder` is a pinned one.
    """
    require_files(folder, manifest, called=called)
    compared = [stored for stored in manifest.files if part is None or f"{stored.path}/".startswith(f"{part}/")]
    try:
        wrong = altered_file(folder, compared)
    except PermissionError as error:
        place = Path(error.filename or folder)
        if called and place.is_relative_to(folder):
            place = called / place.relative_to(folder)
        raise storage_error(error, place) from error
    if wrong is not None:
        raise _damaged(manifest, f"{wrong} was altered", called or folder)


def _damaged(manifest: Sealed, finding: str, where: Path) -> DamagedVersion:
    version = manifest.version if isinstance(manifest, Manifest) else "VERSION"
    return DamagedVersion(
        f"{manifest.called} is damaged: {finding}",
        where=str(where),
        hint=(
            f"almanac verify KB {version} says what is wrong; almanac rebuild KB {version} mends what can be made "
            "again; almanac rollback KB serves an older version"
        ),
    )
