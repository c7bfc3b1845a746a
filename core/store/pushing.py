"""Pushing: what a working copy has and the store lacks is uploaded, and lists are made that name it. Sweeping: what no
list of CURRENT names is removed.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from almanac.core.logs import get_logger
from almanac.core.store.objects import Changed
from almanac.core.store.pointer import Head
from almanac.core.store.working_copy import POINTER, File, WorkingCopy, folders_here, seal_of
from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import canonical_json, sha256

_TRIES = 5  # whoever opens a version with Chroma changes a file of Chroma's
_BATCH = 200  # objects between two looks at the lock
_log = get_logger("almanac.store")


class Swept(NamedTuple):
    """What was removed: the number of objects, and their bytes."""

    objects: int
    bytes: int


def upload(copy: WorkingCopy, head: Head, areas: Iterable[str]) -> dict[str, Any]:
    """Uploads what areas have and the store lacks, and returns what changes in CURRENT by it, which is not moved here;
    empty for nothing.
    """
    for _ in range(_TRIES):
        try:
            return _upload(copy, head, areas)
        except (Changed, FileNotFoundError) as error:
            _log.info("files changed during a push", kb=copy.kb, error=repr(error))
    hint = "does something else write there? run again"
    raise StorageError("files change faster than they can be pushed", where=str(copy.root), hint=hint)


def _upload(copy: WorkingCopy, head: Head, areas: Iterable[str]) -> dict[str, Any]:
    requests: list[Callable[[], object]] = []
    changed: dict[str, str] = {}
    live: dict[str, Any] = {}

    def write_list(content: object, known: Iterable[str]) -> str:
        encoded = canonical_json(content).encode()
        name = sha256(encoded)
        if name not in known:
            copy.keep_list(name, encoded)
            requests.append(partial(copy.objects.write_content, copy.key(name), encoded))
        return name

    for area in areas:
        before, now = copy.folders(head, area), dict[PurePosixPath, str]()
        pointer = copy.root / copy.index / POINTER  # read before the versions, of which it may name the newest
        version = pointer.read_text(encoding="utf-8").strip() if area == "index" and pointer.is_file() else None
        for path, names in folders_here(copy.root, PurePosixPath(area)):
            files, seal = copy.files(before.get(path)), seal_of(path)
            if seal in files and copy.sha256(path / seal) == files[seal].sha256:
                now[path] = before[path]  # what it seals is not read again
            else:
                now[path] = write_list(
                    {name: _listed(copy, path / name, files.get(name), requests) for name in names}, before.values()
                )
        if now or before:
            changed[area] = write_list({str(path): listed for path, listed in now.items()}, head.areas.values())
        if area == "index":
            version_list = now.get(copy.index / "versions" / version) if version else None
            live = {"version": version if version_list else None, "version_list": version_list}
    copy.do_all(requests)
    if all(head.areas.get(area) == listed for area, listed in changed.items()):
        return {}
    return {"areas": {**head.areas, **changed}, **live}


def _listed(copy: WorkingCopy, path: PurePosixPath, before: File | None, requests: list[Callable[[], object]]) -> File:
    """A file as a list has it, with the request that uploads it where the store lacks it."""
    if before is not None and copy.has(path, before):
        return before
    local = copy.root / path
    if path.parts[0] == "raw" and path.suffix == ".jsonl":  # a journal that may be growing: what was read is pushed
        content = local.read_bytes()
        file = File(sha256(content), len(content))
        requests.append(partial(copy.objects.write_content, copy.key(file.sha256), content))
    else:
        file = File(copy.sha256(path), local.stat().st_size)
        requests.append(partial(copy.objects.upload, copy.key(file.sha256), file.sha256, local))
    return file


def sweep_objects(
    copy: WorkingCopy, head: Head, require_held: Callable[[], None], *, older_than_s: float = -math.inf
) -> Swept:
    """Removes the objects that CURRENT does not need and that are older than that, by the clock of the store; returns
    what was removed. Only the holder of the lock may do it.

    `require_held` raises where the lock was lost: whoever has it now may need what this process takes for unneeded.
    """
    needed = needed_by(copy, head)
    listed = copy.objects.listed(f"objects/{copy.kb}/")
    gone = [
        (entry.key, entry.size) for entry in listed if entry.key[-64:] not in needed and entry.age_s >= older_than_s
    ]
    for first in range(0, len(gone), _BATCH):
        require_held()
        copy.do_all([partial(copy.objects.delete, key) for key, _ in gone[first : first + _BATCH]])
    swept = Swept(len(gone), sum(size for _, size in gone))
    if gone:
        _log.info("objects_removed", kb=copy.kb, objects=swept.objects, bytes=swept.bytes)
    return swept


def needed_by(copy: WorkingCopy, head: Head) -> set[str]:
    """The hashes of all objects that CURRENT needs."""
    needed = set(head.areas.values())
    for area in head.areas:
        for listed in copy.folders(head, area).values():
            needed |= {listed, *(file.sha256 for file in copy.files(listed).values())}
    return needed
