"""Erases what Chroma's index files hold of its process's memory: an index has room for 100 rows at least, and Chroma
writes unused room to disk as it finds it.

There may be anything in it that the process had read before: texts that a takedown erases, or keys.
(chroma-core/chroma, issue 7688; Chroma 1.5.9.)
"""

import struct
from os import SEEK_END
from pathlib import Path

from almanac.index.chroma.rows import CHROMA
from almanac.schemas.errors import OperationalError

_HEADER, _ROWS, _LENGTHS, _FLUSHED = "header.bin", "data_level0.bin", "length.bin", "index_metadata.pickle"
# the first ones of the header: format, place of the links in a row, rows there is room for, rows, bytes of a row
_FIELDS = struct.Struct("<iQQQQ")
_LENGTH = 4  # bytes of a vector's length


def erase_unused(version_dir: Path) -> None:
    """Overwrites unused room in the index files of a version that is being built and that no client has open.

    Raises OperationalError where the files are not laid out as those of Chroma 1.5.9.
    """
    for folder in _indexes(version_dir):
        rows, size = _rows_in(folder)
        _erase_from(folder / _ROWS, rows * size)
        _erase_from(folder / _LENGTHS, rows * _LENGTH)


def erase_unflushed(version_dir: Path) -> None:
    """As `erase_unused`, but only in indexes that Chroma has never flushed, those of a single row: it writes their
    files anew whenever it opens them.
    """
    for folder in _indexes(version_dir):
        if not (folder / _FLUSHED).exists() and _rows_in(folder)[0] == 0:
            _erase_from(folder / _ROWS, 0)
            _erase_from(folder / _LENGTHS, 0)


def _indexes(version_dir: Path) -> list[Path]:
    return [header.parent for header in (version_dir / CHROMA).glob(f"*/{_HEADER}")]


def _rows_in(folder: Path) -> tuple[int, int]:
    """The number of rows, deleted ones included, and the bytes of each."""
    content = (folder / _HEADER).read_bytes()
    if len(content) < _FIELDS.size:
        raise _unknown_layout(folder / _HEADER)
    _, _, _, rows, size = _FIELDS.unpack_from(content)
    return rows, size


def _erase_from(path: Path, begin: int) -> None:
    with path.open("rb") as file:
        if file.seek(0, SEEK_END) < begin:
            raise _unknown_layout(path)
        file.seek(begin)
        rest = file.read()
    if rest.strip(b"\0"):
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(bytes(len(rest)))


def _unknown_layout(path: Path) -> OperationalError:
    return OperationalError(
        "Chroma's index file is not laid out as one of Chroma 1.5.9", where=str(path), hint="a defect: please report it"
    )
