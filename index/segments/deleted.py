"""The rows of its segments that a version has deleted, by table: sorted row numbers in `deleted/<segment>.<table>.npy`
of the version's folder. Without deletions, there is no file.
"""

from pathlib import Path

import numpy as np

from almanac.core.mapped import load_array
from almanac.core.verified import as_damaged
from almanac.index.vectors.keys import RowNumbers

DELETED = "deleted"
_HINT = "almanac rollback KB serves an older version; almanac run KB builds a new one"
_NONE: RowNumbers = np.zeros(0, dtype=np.int64)


def deleted_file(segment: str, table: str) -> str:
    """Path of the row numbers of a table, such as `chunks.parquet`, relative to the version's folder."""
    return f"{DELETED}/{segment}.{table.removesuffix('.parquet')}.npy"


def deleted_rows(folder: Path, segment: str, table: str) -> RowNumbers:
    """Returns the row numbers of a segment's table that the version in `folder` has deleted, int64, ascending. Raises
    DamagedVersion if unreadable.
    """
    path = folder / deleted_file(segment, table)
    with as_damaged("the list of deleted rows", path, _HINT):
        if not path.exists():
            return _NONE
        rows: RowNumbers = load_array(path)
        if rows.ndim != 1 or rows.dtype != np.int64:
            raise ValueError("these are no row numbers")
    return rows


def write_deleted_rows(folder: Path, segment: str, table: str, rows: RowNumbers) -> None:
    """Writes the deleted row numbers of a segment's table; without any, nothing. The version's folder is synced as a
    whole when it is sealed.
    """
    if len(rows):
        (folder / DELETED).mkdir(parents=True, exist_ok=True)
        np.save(folder / deleted_file(segment, table), np.sort(rows).astype(np.int64))
