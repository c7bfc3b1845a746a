"""Trees: folders as objects that are named by their content, as git has them.

A file is the object `objects/<kb>/ab/<sha256 of its content>`. A folder is an object in the same place: JSON with its
files (name → hash, size) and its folders (name → hash). A folder of many entries is divided by hashes of their names,
so that a change rewrites little. Equal folders are one object.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import canonical_json

_MOST = 1000  # entries in one object: some 100 KB
Read = Callable[[str], bytes]
Write = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class File:
    sha256: str
    size: int


@dataclass(slots=True)
class Folder:
    """What a folder holds, by name: files, and the hashes of folders."""

    files: dict[str, File] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)


def object_key(kb: str, sha256: str) -> str:
    """The key of an object. Each knowledge base has its own: whoever holds its lock knows all that may be needed of
    them.
    """
    return f"objects/{kb}/{sha256[:2]}/{sha256}"


def write_folder(folder: Folder, write: Write) -> str:
    """Passes the objects of a folder to `write`, with their hashes, and returns the hash that names it. Folders inside
    it are not looked at.
    """
    return _write(
        {name: [file.sha256, file.size] for name, file in folder.files.items()}, folder.folders, write, depth=0
    )


def _write(files: dict[str, list[str | int]], folders: dict[str, str], write: Write, depth: int) -> str:
    if len(files) + len(folders) <= _MOST:
        content = canonical_json({"files": files, "folders": folders}).encode()
    else:
        parts: dict[str, tuple[dict[str, list[str | int]], dict[str, str]]] = {}
        for name, file in files.items():
            parts.setdefault(_part_of(name, depth), ({}, {}))[0][name] = file
        for name, inner in folders.items():
            parts.setdefault(_part_of(name, depth), ({}, {}))[1][name] = inner
        content = canonical_json(
            {"parts": {part: _write(*held, write, depth + 1) for part, held in parts.items()}}
        ).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    write(sha256, content)
    return sha256


def _part_of(name: str, depth: int) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[2 * depth : 2 * depth + 2]


def read_folder(sha256: str, read: Read) -> Folder:
    """Returns what a folder holds. `read` gives the object of a hash. Raises StorageError for an object that is no
    folder.
    """
    folder = Folder()
    for _, content in _objects_of(sha256, read):
        folder.files |= {name: File(*file) for name, file in content.get("files", {}).items()}
        folder.folders |= content.get("folders", {})
    return folder


def _objects_of(sha256: str, read: Read) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    try:
        content = json.loads(read(sha256))
        parts = content.get("parts", {})
    except (ValueError, AttributeError) as error:
        raise StorageError(
            "an object that should be a folder is none", where=sha256, hint="docs/object-stores.md says what lies where"
        ) from error
    yield sha256, content
    for part in parts.values():
        yield from _objects_of(part, read)


def objects_below(sha256: str, read: Read, known: set[str]) -> None:
    """Adds the hashes of a folder's objects, of its files, and of all that is below it to `known`. A folder that is
    known is not read again.
    """
    if sha256 in known:
        return
    for named, content in _objects_of(sha256, read):
        known.add(named)
        known |= {str(file[0]) for file in content.get("files", {}).values()}
        for inner in content.get("folders", {}).values():
            objects_below(inner, read, known)
