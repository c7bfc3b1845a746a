"""Vectors of sentences, kept in a file in the folder of the version whose sentences they are, eight bits a dimension:
made when a passage is first read for an answer, and found there by whoever asks next, also in another process.

The file is a cache, hidden, and goes with its version, as after a takedown. Where it cannot be written or read, vectors
are made anew.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np

from almanac.core.durable import remove
from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.schemas.hashing import sha256

_AT_ONCE = 500  # keys in one statement
_WAIT_S = 0.2  # for another process that writes; then vectors are made anew
_MOST_PAGES = 50_000  # of 4 KB: some 400,000 sentences


class KeptVectors:
    """The vectors of texts by one embedder, kept in a file. Safe to share among threads if the embedder is.

    Args:
        embedder: Makes vectors that are not there yet.
        folder: Folder of the version.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._file = folder / f".sentences-{sha256(embedder.info.fingerprint)[:16]}.sqlite"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 (n, dimension), alike whether they were kept or made: each is rounded to 127 steps of
        its largest value, which moves a cosine by some .0005.
        """
        keys = {text: bytes.fromhex(sha256(text))[:16] for text in texts}
        known = self._read(list(keys.values()))
        if missing := [text for text, key in keys.items() if key not in known]:
            made = self._embedder.embed_documents(missing)
            rounded = np.round(127 * made / np.abs(made).max(axis=1, keepdims=True)).astype(np.int8)
            new = {keys[text]: row.tobytes() for text, row in zip(missing, rounded, strict=True)}
            self._write(new)
            known |= new
        rows = [np.frombuffer(known[keys[text]], dtype=np.int8) for text in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(len(texts), self._embedder.info.dimension)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        vectors: dict[bytes, bytes] = {}
        with self._tolerated(), self._opened("ro") as opened:
            for begin in range(0, len(keys), _AT_ONCE):
                some = keys[begin : begin + _AT_ONCE]
                marks = ",".join("?" * len(some))
                vectors.update(opened.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some))
        return {key: vector for key, vector in vectors.items() if len(vector) == self._embedder.info.dimension}

    def _write(self, new: Mapping[bytes, bytes]) -> None:
        with self._tolerated(), self._opened("rwc") as opened, opened:
            opened.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            opened.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", new.items())

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(f"{self._file.as_uri()}?mode={mode}", uri=True, timeout=_WAIT_S)) as opened:
            opened.execute("PRAGMA synchronous=OFF")  # what a crash damages is made anew
            opened.execute(f"PRAGMA max_page_count={_MOST_PAGES}")
            yield opened

    @contextmanager
    def _tolerated(self) -> Iterator[None]:
        """What cannot be done with the file ends the block; a damaged one is removed."""
        try:
            yield
        except sqlite3.OperationalError:  # none yet, locked, full, or the folder is only read
            pass
        except sqlite3.DatabaseError:
            with suppress(OSError):
                remove(self._file, synced=False)
