"""The record of publications: which version went live when, and why one did that the gate had refused.

`<index_dir>/published.jsonl` has one line per publication, oldest first. It also says which version was live when the
pointer is lost.
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
ALTERED = (
    "put published.jsonl back from a backup, or remove the line that was altered: what is live does not depend on it"
)
_log = get_logger("almanac.publish")


class Publication(BaseModel):
    """One publication. `at` is ISO 8601, in UTC. `why` is the reason for which the gate was overridden; None where it
    let the version pass.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    at: str
    previous: str | None
    why: str | None = None


def publications(index_dir: Path) -> list[Publication]:
    """Returns all publications, oldest first; a line that cannot be read is left out with a warning."""
    readable = []
    for number, _, publication in _lines(index_dir):
        if publication is None:
            _log.warning("publication_unreadable", where=f"{index_dir / PUBLISHED}:{number}", hint=ALTERED)
        else:
            readable.append(publication)
    return readable


def altered_publications(index_dir: Path) -> list[str]:
    """Returns the places of lines that differ from the hash of themselves, such as `published.jsonl:3`: nobody knows
    what they said.
    """
    return [f"{PUBLISHED}:{number}" for number, _, publication in _lines(index_dir) if publication is None]


def _lines(index_dir: Path) -> Iterator[tuple[int, bytes, Publication | None]]:
    """Yields the number of each line that is not blank, the line, and the publication, None where it was altered."""
    path = index_dir / PUBLISHED
    for number, line in enumerate(path.read_bytes().split(b"\n") if path.is_file() else [], start=1):
        if not line.strip():
            continue
        try:
            yield number, line, Publication.model_validate(unchecked(json.loads(line)))
        except ValueError:
            yield number, line, None


def note_publication(index_dir: Path, publication: Publication) -> None:
    """Adds a publication, durably. Lines that cannot be read stay as they are, for who mends them."""
    line = json.dumps(checked(publication.model_dump()), ensure_ascii=False).encode("utf-8", "replace")
    write_file(
        index_dir / PUBLISHED,
        b"".join(line + b"\n" for line in [*(before for _, before, _ in _lines(index_dir)), line]),
    )


def override_of(index_dir: Path, version: str) -> str | None:
    """Returns the reason for which a refused version was published; None where there is none."""
    reasons = [publication.why for publication in publications(index_dir) if publication.version == version]
    return next((reason for reason in reversed(reasons) if reason), None)


@contextmanager
def pointer_lock(index_dir: Path) -> Iterator[None]:
    """Lets one process at a time move the pointer or remove versions. It is held for moments only, and never while
    another lock is waited for.

    Apart from the writer's lock, so that one can roll back while a run is at work.
    """
    index_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(index_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
