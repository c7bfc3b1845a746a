"""Takedowns: the list of forgotten URLs.

`<index_dir>/forgotten.jsonl` has one line per takedown. The line is written before anything is erased and marked as
done at the end, so that a takedown interrupted by a kill is completed by the next run or takedown. Listed URLs are
never fetched again, and no item is made from them.
"""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from almanac.core.durable import write_file
from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import checked, unchecked

_RECORD = "forgotten.jsonl"
_SHOWN = 200  # characters of an unreadable line


class Takedown(BaseModel):
    """One takedown, as recorded in `forgotten.jsonl`. Times are ISO 8601, in UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str  # as requested
    urls: list[str]  # all URLs by which the page is known
    at: str
    why: str | None = None
    keys: list[str] = []  # vector keys that may have to be removed; empty once the takedown is done
    done_at: str | None = None  # when everything was erased; None until then


def takedowns(index_dir: Path) -> list[Takedown]:
    """Returns all takedowns in file order. Raises StorageError for an unreadable line, since the URLs that it forbids
    are unknown.
    """
    path = index_dir / _RECORD
    if not path.is_file():
        return []
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), start=1):
        try:
            if line.strip():
                entries.append(Takedown.model_validate(unchecked(json.loads(line))))
        except ValueError as error:
            hint = (
                "bring the file back from a backup; or remove the line, and then almanac forget KB URL --anyway "
                f"for the URL that it names: {line[:_SHOWN]}"
            )
            raise StorageError(
                "a takedown cannot be read, and what it forbids is not known", where=f"{path}:{number}", hint=hint
            ) from error
    return entries


def _line_of(takedown: Takedown) -> str:
    """A takedown with a hash of itself: a bit that flips in a URL must not bring its page back."""
    values = json.loads(json.dumps(takedown.model_dump(), ensure_ascii=False).encode("utf-8", "replace"))
    return json.dumps(checked(values), ensure_ascii=False) + "\n"


def forgotten_urls(index_dir: Path) -> frozenset[str]:
    """Returns all URLs that were taken down; they must not be fetched, and no item may be made from them."""
    return frozenset(url for takedown in takedowns(index_dir) for url in takedown.urls)


def note_takedown(index_dir: Path, takedown: Takedown) -> None:
    """Records a takedown, replacing an earlier one of the same URL."""
    lines = {entry.url: entry for entry in takedowns(index_dir)} | {takedown.url: takedown}
    write_file(index_dir / _RECORD, "".join(map(_line_of, lines.values())))
