"""Segments on disk: names, manifests, and removal of those that no version names.

`<index_dir>/segments/<name>/segment.json` makes a folder a segment. Its name is a hash of its content, so that equal
content is built once.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from almanac.core.durable import move, remove
from almanac.core.logs import get_logger
from almanac.core.pins import hidden_folder, remove_unless_pinned
from almanac.index.chroma.leftover import put_aside
from almanac.schemas.errors import DamagedVersion, OtherFormat
from almanac.schemas.manifest import FORMAT, Outline, Segment

SEGMENTS = "segments"
SEGMENT = "segment.json"
SEGMENT_HASH = "segment.sha256"  # in the format of `sha256sum`
_log = get_logger("almanac.segments")


def segment_dir(index_dir: Path, name: str) -> Path:
    return index_dir / SEGMENTS / name


def bytes_in(folder: Path) -> int:
    """How much the files of a folder and its subfolders take, without those that go meanwhile."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size if path.is_file() else 0
    return size


def is_sealed(folder: Path) -> bool:
    """Whether a folder is a finished segment."""
    return (folder / SEGMENT).is_file()


def read_segment(index_dir: Path, name: str) -> Segment:
    """Returns the manifest of a segment. Raises DamagedVersion where it is missing, cannot be read or has another
    format.
    """
    return segment_in(segment_dir(index_dir, name))


def segment_in(folder: Path, *, called: Path | None = None) -> Segment:
    """Returns the manifest of the segment in `folder`, such as a pinned one; `called` is its public path for messages.
    Raises as `read_segment`.
    """
    where, hint = (
        str((called or folder) / SEGMENT),
        "almanac verify KB says what is wrong; almanac run KB builds a new version",
    )
    try:
        stored = json.loads((folder / SEGMENT).read_text(encoding="utf-8"))
        if stored.get("format") != FORMAT:
            raise (OtherFormat if isinstance(stored.get("format"), int) else DamagedVersion)(
                f"a segment has format {stored.get('format')!r}, and this almanac reads format {FORMAT}",
                where=where,
                hint=hint,
            )
        return Segment.model_validate(stored)
    except FileNotFoundError as error:
        raise DamagedVersion("a segment is missing", where=where, hint=hint) from error
    except (ValueError, AttributeError, ValidationError) as error:
        raise DamagedVersion(f"the manifest of a segment cannot be read: {error}", where=where, hint=hint) from error


def discard_unfinished_segments(index_dir: Path) -> None:
    """Removes folders of segments that were not finished, and leftovers of exchanged ones. Only the holder of the
    writer lock may call it.

    A segment that a version names is damaged where it is not sealed, and stays: its tables may be all that is left of
    them.
    """
    for folder in _folders(index_dir):
        if folder.name.startswith("."):
            if is_sealed(folder) or not put_aside(index_dir, folder):
                remove_unless_pinned(folder)
        elif not is_sealed(folder) and (named := _named(index_dir, "*")) is not None and folder.name not in named:
            remove(folder)


def remove_unnamed_segments(index_dir: Path, *, at_once: bool = False) -> tuple[list[str], int]:
    """Removes the segments that no version names; returns their names and the bytes freed.

    Versions that were replaced while a reader has them pinned count, too, unless `at_once`: then what such a reader has
    pinned loses its name, and goes with `discard_unfinished_segments` as soon as it is released. Where a manifest
    cannot be read, nothing is removed. Only the holder of the writer lock may call it.
    """
    named = _named(index_dir, "v*" if at_once else "*")
    if named is None:
        return [], 0
    gone, freed = [], 0
    for folder in _folders(index_dir):
        if folder.name not in named and not folder.name.startswith("."):
            size = bytes_in(folder)
            if remove_unless_pinned(folder):
                gone.append(folder.name)
                freed += size
            elif at_once:
                move(folder, hidden_folder(folder))
    return gone, freed


def _named(index_dir: Path, versions: str) -> set[str] | None:
    """The segments that manifests of any format name, of versions whose names match a pattern; None where a manifest
    cannot be read.
    """
    names: set[str] = set()
    for path in (index_dir / "versions").glob(f"{versions}/manifest.json"):
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            names |= {use.segment for use in Outline.model_validate(stored, extra="ignore").segments}
        except FileNotFoundError:  # removed meanwhile
            continue
        except (OSError, ValueError) as error:
            _log.warning(
                "segments are left: a version does not say which it needs", manifest=str(path), error=str(error)
            )
            return None
    return names


def _folders(index_dir: Path) -> Iterator[Path]:
    yield from sorted(path for path in (index_dir / SEGMENTS).glob("*") if path.is_dir())
