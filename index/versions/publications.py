"""The record of publications: which version went live when, and why one did that the gate had refused.

`<index_dir>/published.jsonl` has one line per publication, oldest first. It also says which version was live when the pointer is lost.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from almanac.core.durable import write_file
from almanac.core.logs import get_logger
from almanac.schemas.hashing import checked, unchecked

PUBLISHED = "published.jsonl"
_log = get_logger("almanac.publish")


class Publication(BaseModel):
    """One publication. `at` is ISO 8601, in UTC. `why` is the reason for which the gate was overridden; None where it let the version pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    at: str
    previous: str | None
    why: str | None = None


def publications(index_dir: Path) -> list[Publication]:
    """Returns all publications, oldest first; a line that cannot be read is left out with a warning."""
    path, found = index_dir / PUBLISHED, []
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            found += [Publication.model_validate(unchecked(json.loads(line)))] if line.strip() else []
        except ValueError:
            _log.warning("publication_unreadable", where=f"{path}:{number}")
    return found


def note_publication(index_dir: Path, publication: Publication) -> None:
    """Adds a publication, durably. Lines that cannot be read are dropped."""
    lines = [json.dumps(checked(one.model_dump()), ensure_ascii=False) for one in [*publications(index_dir), publication]]
    write_file(index_dir / PUBLISHED, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def override_of(index_dir: Path, version: str) -> str | None:
    """Returns the reason for which a refused version was published; None where there is none."""
    return next((one.why for one in reversed(publications(index_dir)) if one.version == version and one.why), None)


@contextmanager
def pointer_lock(index_dir: Path) -> Iterator[None]:
    """Lets one process at a time move the pointer or remove versions. It is held for moments only, and never while another lock is waited for.

    Apart from the writer's lock, so that one can roll back while a run is at work.
    """
    index_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(index_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
