"""Folders that a kill has left in the making: their collections have rows that need not be sent again.

A folder that is built for content with a name has a note of it. Where it is not finished, the next writer puts it
aside, in `.staged/<name>` of the knowledge base's index. Who builds the same content goes on from the collection in it,
of which nothing is taken on trust: each row is compared as it is read.
"""

from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel

from almanac.core.durable import move, remove, write_file

STAGED = ".staged"
_NOTE = ".making.json"


class Making(BaseModel):
    """What a folder will be."""

    name: str  # of its content
    slots: int = 0  # rows that its vector index has room for, at least
    is_delta: bool = False  # whether it was begun with a copy of another collection


def note_making(folder: Path, making: Making) -> None:
    write_file(folder / _NOTE, making.model_dump_json(), synced=False)


def forget_making(folder: Path) -> None:
    """Removes the note, of a folder that is finished."""
    if (folder / _NOTE).is_file():
        remove(folder / _NOTE)


def read_making(folder: Path) -> Making | None:
    """What a folder in the making will be; None where nothing readable says so."""
    try:
        return Making.model_validate_json((folder / _NOTE).read_bytes())
    except (OSError, ValueError):
        return None


def leftover_of(index_dir: Path, name: str) -> Path:
    """Where a folder of this content lies, if a kill has left one."""
    return index_dir / STAGED / name


def put_aside(index_dir: Path, folder: Path) -> bool:
    """Puts an unfinished folder aside, if its content has a name; returns whether it has."""
    making = read_making(folder)
    if making is None:
        return False
    place = leftover_of(index_dir, making.name)
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        remove(place)
    move(folder, place)
    return True


def remove_leftovers(index_dir: Path, *, but: Collection[str] = ()) -> None:
    """Removes what kills have left, but for content of these names."""
    staged = index_dir / STAGED
    for folder in sorted(staged.glob("*")):
        if folder.name not in but:
            remove(folder)
    if not but and staged.is_dir():
        remove(staged)
