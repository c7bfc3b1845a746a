"""The files of a segment's lexical index: for each term the rows that have it, mapped into memory.

| file | type, shape | |
|---|---|---|
| `terms.npy` | uint64 (t,) | hashes of the terms, ascending |
| `starts.npy` | int64 (t + 1,) | where the postings of each term begin, and where the last ones end |
| `rows.npy` | int32 (p,) | of each posting the row of chunks.parquet, ascending within a term |
| `counts.npy` | uint16 (p,) | and how often the term stands there |
| `lengths.npy` | int32 (2, n) | number of terms of each row: its own, and without diacritics |
| `languages.npy` | uint16 (n,) | language of each row, as its place in `lexical.json` |

Terms without diacritics (of Vietnamese) begin with a space, which no other term does. Two terms in some 10^10 have the
same hash, in every segment alike; they are then one.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.core.digests import RowNumbers
from almanac.core.durable import write_file
from almanac.core.mapped import load_array
from almanac.core.verified import as_damaged
from almanac.index.lexical.lexical_facts import CALLED, FACTS, LexicalFacts, lexical_facts
from almanac.schemas.hashing import sha256

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int32]
Counts = npt.NDArray[np.uint16]
FOLDED = " "  # what a term without diacritics begins with
MOST_COUNTED = np.iinfo(np.uint16).max  # times that a term is counted in a row

ARRAYS = {"terms": "<u8", "starts": "<i8", "rows": "<i4", "counts": "<u2", "lengths": "<i4", "languages": "<u2"}
_NO_ROWS, _NO_COUNTS = np.zeros(0, np.int32), np.zeros(0, np.uint16)


@lru_cache(1 << 17)
def term_hash(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hash_of_ids(ids: pa.ChunkedArray) -> str:
    """Hash of the chunk ids of rows, in their order: says which rows an index is of."""
    return sha256("".join(ids.to_pylist()))


def write_postings(
    folder: Path,
    facts: LexicalFacts,
    parts: Sequence[tuple[Hashes, Rows, Counts]],
    lengths: npt.NDArray[np.int32],
    languages: npt.NDArray[np.uint16],
) -> None:
    """Makes the folder and writes its files. `parts` are hashes, rows and counts of postings, (p,) each, in any order;
    there is at least one.
    """
    hashes, rows, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((rows, hashes))
    hashes = hashes[order]
    starts = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]))  # `np.unique` would sort them once more
    arrays: dict[str, Any] = {
        "terms": hashes[starts],
        "starts": np.append(starts, len(hashes)),
        "rows": rows[order],
        "counts": counts[order],
        "lengths": lengths,
        "languages": languages,
    }
    folder.mkdir()
    for name, kind in ARRAYS.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(arrays[name], dtype=kind))
    write_file(folder / FACTS, facts.model_dump_json() + "\n")


class Postings:
    """A lexical index, opened: nothing is loaded, and a term is read where it stands. Safe to share among threads.

    Raises DamagedVersion where a file is missing, cannot be read, or does not fit the others.
    """

    def __init__(self, folder: Path) -> None:
        self.facts = lexical_facts(folder)
        with as_damaged(CALLED, folder):
            self._arrays = {name: load_array(folder / f"{name}.npy", mapped=True).view(np.ndarray) for name in ARRAYS}
            self.terms, self.starts, self.rows, self.counts, self.lengths, self.languages = self._arrays.values()
            n = len(self.languages)
            shapes = [(len(self.terms),), (len(self.terms) + 1,), *[(len(self.rows),)] * 2, (2, n), (n,)]
            for (name, array), shape in zip(self._arrays.items(), shapes, strict=True):
                if array.shape != shape or array.dtype != ARRAYS[name]:
                    raise ValueError(f"{name}.npy is {array.dtype} {array.shape} instead of {ARRAYS[name]} {shape}")

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.languages)

    def find(self, hashes: Hashes) -> list[tuple[Rows, Counts]]:
        """Returns for each of some terms the rows that have it, ascending, and how often each has it."""
        places = np.searchsorted(self.terms, hashes).clip(max=max(len(self.terms) - 1, 0))
        if not len(self.terms):
            return [(_NO_ROWS, _NO_COUNTS)] * len(hashes)
        known, begins, ends = self.terms[places] == hashes, self.starts[places], self.starts[places + 1]
        return [
            (self.rows[begin:end], self.counts[begin:end]) if is_known else (_NO_ROWS, _NO_COUNTS)
            for is_known, begin, end in zip(known.tolist(), begins.tolist(), ends.tolist(), strict=True)
        ]

    def taken(self, places: RowNumbers, numbers: RowNumbers) -> tuple[Hashes, Rows, Counts]:
        """Returns the postings of some rows as those of rows of other numbers: hashes, rows and counts, (p,) each."""
        number_of = np.full(len(self), -1, np.int32)
        number_of[places] = numbers
        rows = number_of[self.rows]
        chosen = np.flatnonzero(rows >= 0)
        terms = np.searchsorted(self.starts, chosen, side="right") - 1
        return self.terms[terms], rows[chosen], self.counts[chosen]

    def misfit(self) -> str | None:
        """What in the files contradicts itself; None where nothing does. Reads all of them."""
        rises = np.diff(self.rows) > 0
        rises[self.starts[1:-1] - 1] = True  # from the last row of a term to the first one of the next
        if not (rises.all() and (np.diff(self.starts) > 0).all() and (self.terms[1:] > self.terms[:-1]).all()):
            return "terms, or the rows of one, are out of order"
        if [self.starts[0], self.starts[-1]] != [0, len(self.rows)] or (self.rows >= len(self)).any():
            return "a term has other rows than there are"
        if (self.languages >= len(self.facts.languages)).any():
            return "a row has another language than there are"
        lengths = self.lengths.sum(axis=0)
        counted = np.bincount(self.rows, self.counts, minlength=len(self))
        return "rows have other terms" if ((counted != lengths) & (lengths <= MOST_COUNTED)).any() else None
