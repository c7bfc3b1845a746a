"""Where things lie in a working copy: its areas, the folders that are sealed as a whole, and what of it belongs to the
knowledge base.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from almanac.core.stamps import STAMPS

AREAS = ("raw", "vectors", "processed", "index")  # what is named comes before what names it
SEALS = {"versions": "manifest.json", "segments": "segment.json"}
POINTER = "CURRENT"
_OWN = {"LOCK", "LOCK.holder", STAMPS}
_DERIVED = (".index", ".damaged")  # of the vector store, made again where they are missing


def index_of(kb: str) -> PurePosixPath:
    """The index folder of a knowledge base."""
    return PurePosixPath("index", kb)


def seal_of(path: PurePosixPath) -> str:
    """The file that seals a folder, empty for a path that is no version and no segment."""
    parts = path.parts
    return SEALS.get(parts[2], "") if len(parts) == 4 and parts[0] == "index" else ""


def entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """Name, and whether it is a folder, of what belongs to the knowledge base."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                if not (entry.name.startswith(".") or entry.name in _OWN or entry.name.endswith(_DERIVED)):
                    yield entry.name, entry.is_dir()
    except FileNotFoundError:
        return


def segments_in(manifest: bytes) -> list[str]:
    """The segments that a version's manifest names."""
    return [use["segment"] for use in json.loads(manifest).get("segments", [])]


def is_whole(root: Path, kb: str, version: str) -> bool:
    """Whether a working copy has a version with all its segments. One whose manifest cannot be read it has not."""
    index = root / index_of(kb)
    try:
        names = segments_in((index / "versions" / version / SEALS["versions"]).read_bytes())
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return False
    return all((index / "segments" / name / SEALS["segments"]).is_file() for name in names)


def folders_of(root: Path, kb: str, version: str) -> list[Path]:
    """The folders of a version that is whole: its own, and those of its segments."""
    own = root / index_of(kb) / "versions" / version
    return [
        own,
        *(root / index_of(kb) / "segments" / name for name in segments_in((own / SEALS["versions"]).read_bytes())),
    ]
