"""Hashes and keys as arrays of raw bytes: 16 or 32 bytes each instead of a Python object of 113, and found by binary
search.

A hash arrives as text, in hexadecimal digits, and is compared millions of times. NumPy sorts and searches a million of
these arrays' entries in 0.2 s.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# (n,) of the dtype S16 or S32; zero bytes at the end count, since all entries are of one length
Digests = npt.NDArray[np.bytes_]
RowNumbers = npt.NDArray[np.int64]
Texts: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray  # a column of texts

_STEP = 100_000  # texts converted at a time
_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_NO_DIGIT = 16
_VALUES = np.full(256, _NO_DIGIT, dtype=np.uint8)
_VALUES[_DIGITS] = np.arange(16)
_HASH = re.compile("[0-9a-f]*")
_OTHER = b"\0no hash\0"


def digests_of(texts: Texts, size: int = 32) -> Digests:
    """Returns each text of 2 x `size` lower-case hexadecimal digits as its `size` bytes, and any other text, or null,
    as a hash of it; in order.
    """
    out = np.empty(len(texts), dtype=f"S{size}")
    begin = 0
    for column in _in_steps(texts):
        out[begin : begin + len(column)] = _converted(column, size)
        begin += len(column)
    return out


def digests_in(columns: Iterable[Texts], size: int = 32) -> Digests:
    """Returns the digests of several columns, joined. See `digests_of`."""
    return np.concatenate([np.empty(0, dtype=f"S{size}"), *(digests_of(column, size) for column in columns)])


def digest_of(text: str, size: int = 32) -> bytes:
    """Returns a single text as `digests_of` does."""
    if len(text) == 2 * size and _HASH.fullmatch(text):
        return bytes.fromhex(text)
    return _hash_of(text, size)


def digest_of_parts(parts: Iterable[str], size: int = 16) -> bytes:
    """Returns a hash of several texts, such as source and id of an item; texts that are divided differently have
    another one.
    """
    encoded = (text.encode("utf-8", "surrogatepass") for text in parts)
    return hashlib.blake2b(b"".join(b"%d:%s" % (len(part), part) for part in encoded), digest_size=size).digest()


def as_digests(raw: bytes | bytearray | Sequence[bytes], size: int) -> Digests:
    """Returns digests, joined or one by one, as an array."""
    joined = bytes(raw) if isinstance(raw, bytes | bytearray) else b"".join(raw)
    return np.frombuffer(joined, dtype=f"S{size}")


def first_rows(digests: Digests) -> RowNumbers:
    """Returns the row of the first occurrence of each digest, in the order of the sorted digests."""
    order = np.argsort(digests, kind="stable")
    return order[_is_first(digests[order])]


class SortedDigests:
    """Digests in order, each with its row in the array that they were given in. 40 bytes for one of 32 bytes."""

    def __init__(self, digests: Digests) -> None:
        self.rows: RowNumbers = np.argsort(digests, kind="stable")
        self.digests = digests[self.rows]

    def __len__(self) -> int:
        return len(self.digests)

    def find(self, digests: Digests) -> RowNumbers:
        """Returns the row of the first occurrence of each given digest, -1 for one that is not there."""
        places, is_there = _placed(self.digests, digests)
        if not len(self):
            return np.full(len(digests), -1, dtype=np.int64)
        return np.where(is_there, self.rows[np.where(is_there, places, 0)], -1)

    def ranks(self) -> RowNumbers:
        """Returns the place of each given digest among the sorted ones, in the order in which they were given."""
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[self.rows] = np.arange(len(self))
        return ranks

    def span(self, digest: bytes) -> RowNumbers:
        """Returns all rows of one digest, ascending."""
        sought_digest = np.array(digest, dtype=self.digests.dtype)
        begin = int(np.searchsorted(self.digests, sought_digest))
        if begin == len(self) or self.digests[begin] != sought_digest:
            return self.rows[:0]
        return self.rows[begin : int(np.searchsorted(self.digests, sought_digest, side="right"))]


class DigestSet:
    """A set of digests that grows by whole arrays: as many bytes as its distinct entries have, and as much again while
    it grows.
    """

    def __init__(self, digests: Digests) -> None:
        self.digests = _distinct(digests)

    def __len__(self) -> int:
        return len(self.digests)

    def has(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """Whether each given digest is in the set."""
        return _placed(self.digests, digests)[1]

    def add(self, digests: Digests) -> None:
        """Adds digests; those that are there already cost nothing that lasts."""
        new = _distinct(digests[~self.has(digests)])
        if len(new):
            joined = np.concatenate([self.digests, new])
            joined.sort(kind="stable")  # two sorted runs: a merge
            self.digests = joined


def _distinct(digests: Digests) -> Digests:
    ordered = np.sort(digests, kind="stable")
    return ordered[_is_first(ordered)]


def _is_first(ordered: Digests) -> npt.NDArray[np.bool_]:
    is_first = np.ones(len(ordered), dtype=np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return is_first


def _placed(ordered: Digests, wanted: Digests) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
    """The first place of each wanted digest in `ordered`, and whether it is there. Searched in order, which is ten
    times as fast as at random.
    """
    if not len(ordered):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    order = np.argsort(wanted, kind="stable")
    places = np.empty(len(wanted), dtype=np.int64)
    places[order] = np.searchsorted(ordered, wanted[order], side="left")
    is_there = places < len(ordered)
    is_there[is_there] = ordered[places[is_there]] == wanted[is_there]
    return places, is_there


def _in_steps(texts: Texts) -> Iterator[pa.Array]:
    if isinstance(texts, pa.ChunkedArray):
        for chunk in texts.chunks:
            yield from _in_steps(chunk)
        return
    for begin in range(0, len(texts), _STEP):
        if isinstance(texts, pa.Array):
            yield texts.slice(begin, _STEP)
        else:
            yield pa.array(texts[begin : begin + _STEP], pa.string())


def _converted(column: pa.Array, size: int) -> Digests:
    column = column.cast(pa.large_string())
    bounds = (
        np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + len(column) + 1]
        if len(column)
        else np.zeros(1, dtype=np.int64)
    )
    is_long = np.diff(bounds) == 2 * size
    if column.null_count:
        is_long &= column.is_valid().to_numpy(zero_copy_only=False)
    chosen = column if is_long.all() else column.filter(pa.array(is_long))
    out = np.empty(len(column), dtype=f"S{size}")
    is_hash = is_long.copy()
    if len(chosen):
        first = int(np.frombuffer(chosen.buffers()[1], dtype=np.int64)[chosen.offset])
        digits = _VALUES[
            np.frombuffer(chosen.buffers()[2], dtype=np.uint8)[first : first + 2 * size * len(chosen)].reshape(
                len(chosen), 2 * size
            )
        ]
        is_hash[is_long] = (digits < _NO_DIGIT).all(axis=1)
        raw = (digits[:, 0::2] << 4) | (digits[:, 1::2] & 15)
        out[is_long] = np.ascontiguousarray(raw).view(f"S{size}").ravel()
    for row in np.flatnonzero(~is_hash):
        out[row] = _hash_of(column[int(row)].as_py(), size)
    return out


def _hash_of(text: Any, size: int) -> bytes:
    content = b"" if text is None else b"=" + text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(_OTHER + content).digest()[:size]
