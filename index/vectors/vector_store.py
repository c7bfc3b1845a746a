"""Vector store: content-addressed Parquet parts, written once and shared by all knowledge bases.

`<root>/<embedder fingerprint>/<sha256 of the file>.parquet` has the columns `text_sha256` and `vector`. A part that
exists is complete: it is the checkpoint of embedding, and every version can be rebuilt from the parts. The file's name
verifies its content.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.digests import Digests, Texts, digests_of, first_rows
from almanac.core.durable import move, reserve, write_file
from almanac.core.logs import get_logger
from almanac.core.tables import open_table
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.keys import RowNumbers, VectorKeys
from almanac.schemas.errors import DamagedVersion, StorageError
from almanac.schemas.manifest import EmbedderInfo

_log = get_logger("almanac.vectors")


class VectorStore:
    """Vectors of one embedder, keyed by the SHA-256 of the embedded text. Only the keys are kept in memory, 40 bytes
    each.

    Keys are given as a list, or as a column of a table, of which no Python object is made for each.
    A part found to be damaged is renamed to `*.damaged`, with a warning, and its keys count as missing from then on. A
    read error of the disk raises StorageError.
    """

    def __init__(self, root: Path, info: EmbedderInfo) -> None:
        self.folder = root / info.fingerprint
        self.fingerprint = info.fingerprint
        self.dimension = info.dimension
        self._schema = pa.schema([("text_sha256", pa.string()), ("vector", pa.list_(pa.float32(), info.dimension))])
        self._keys = VectorKeys(self.folder, self._read_digests)

    def keys(self) -> Iterator[str]:
        """Iterates over the distinct keys that have a vector, without reading vectors."""
        paths = [self.folder / name for name in self.parts()]
        columns = (column for path in paths if (column := self._read_keys(path)) is not None)
        return iter(dict.fromkeys(key for column in columns for key in column.to_pylist()))

    def parts(self) -> list[str]:
        """Returns the file names of all parts, sorted. No file is opened."""
        return sorted(path.name for path in self.folder.glob("*.parquet"))

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Returns the keys without a vector, each once, in the order of first occurrence. For many keys, see
        `absent`.
        """
        wanted = list(keys)
        return [wanted[row] for row in self.absent(wanted)]

    def absent(self, keys: Texts) -> RowNumbers:
        """Returns the row numbers of the keys without a vector, each key's first one, ascending."""
        digests = digests_of(keys)
        firsts = first_rows(digests)
        _, parts, _ = self._keys.find(digests[firsts])
        return np.sort(firsts[parts < 0])

    def write_part(self, keys: Sequence[str], vectors: Vectors) -> Path:
        """Writes a part atomically and returns its path. `keys` are unique, one for each row of `vectors`, float32 (n,
        dimension); else ValueError.
        """
        if len(set(keys)) != len(keys) or vectors.shape != (len(keys), self.dimension):
            raise ValueError(
                f"{len(keys)} keys, {len(set(keys))} of them different, for vectors of the shape {vectors.shape}"
            )
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        table = pa.Table.from_arrays(
            [pa.array(list(keys), pa.string()), pa.FixedSizeListArray.from_arrays(flat, self.dimension)],
            schema=self._schema,
        )
        sink = pa.BufferOutputStream()
        # reading only the keys does not verify the file's hash
        pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_page_checksum=True)
        content = memoryview(sink.getvalue())
        path = self.folder / f"{hashlib.sha256(content).hexdigest()}.parquet"
        write_file(path, lambda file: file.write(content))
        return path

    def read(self, keys: Texts) -> Vectors:
        """Returns the vectors in the order of `keys`, float32 (n, dimension). Raises DamagedVersion with the first key
        that has no vector.
        """
        out = np.empty((len(keys), self.dimension), dtype=np.float32)
        self.read_into(keys, out)
        return out

    def read_to_disk(self, keys: Texts) -> Vectors:
        """Like `read`, but the result is backed by an unlinked temporary file, so it may be larger than memory."""
        if not len(keys):
            return np.empty((0, self.dimension), dtype=np.float32)
        # A snapshot that may only be read is verified as well: what is laid out here is gone with this process.
        with tempfile.TemporaryFile(dir=self.folder if os.access(self.folder, os.W_OK) else None) as file:
            reserve(file, 4 * len(keys) * self.dimension)
            out: Vectors = np.memmap(file, dtype=np.float32, mode="w+", shape=(len(keys), self.dimension))
        self.read_into(keys, out)
        return out

    def read_into(self, keys: Texts, out: Vectors, at: RowNumbers | None = None) -> None:
        """Fills `out`, float32 (n, dimension), with the vectors of `keys`, in their order; each part is read once.
        Raises as `read`.

        `at`: the row of `out` for each key; None is the key's own place.
        """
        paths, parts, rows = self._keys.find(digests_of(keys))
        absent = np.flatnonzero(parts < 0)
        if len(absent):
            raise self._no_vector(_text_of(keys, absent[0]))
        order, lost = np.argsort(parts, kind="stable"), None
        for group in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1) if len(order) else []:
            part = self._read_vectors(paths[parts[group[0]]])
            if part is None:  # the others are read, too: all that is damaged is put aside, and can be restored at once
                lost = group[0] if lost is None else lost
            else:
                out[group if at is None else at[group]] = part[rows[group]]
        if lost is not None:
            raise self._no_vector(_text_of(keys, lost))

    def _no_vector(self, key: str) -> DamagedVersion:
        return DamagedVersion(
            f"no vector for the text with sha256 {key}",
            where=str(self.folder),
            hint="almanac run KB embeds what is missing",
        )

    def _read_digests(self, path: Path) -> Digests | None:
        keys = self._read_keys(path)
        return None if keys is None else digests_of(keys)

    def _read_keys(self, path: Path) -> pa.ChunkedArray | None:
        """Reads only the key column of a part; None where it is gone, and where it is damaged, in which case it is
        moved aside.
        """
        try:
            with open_table(path) as file:
                self._require_schema(file)
                return file.read(columns=["text_sha256"]).column(0)
        except FileNotFoundError:  # removed by retention since it was listed
            return None
        except (pa.ArrowException, OSError) as error:
            self._put_aside(path, error)
            return None

    def _read_vectors(self, path: Path) -> Vectors | None:
        """Reads the vectors of a part after comparing its SHA-256 with its name; None, and the part is moved aside,
        where it is damaged.
        """
        try:
            content = path.read_bytes()
            if (digest := hashlib.sha256(content).hexdigest()) != path.stem:
                raise pa.ArrowInvalid(f"its content has the SHA-256 {digest}")
            with pq.ParquetFile(pa.BufferReader(content)) as file:
                self._require_schema(file)
                column = file.read(columns=["vector"]).column(0).combine_chunks()
        except (pa.ArrowException, OSError) as error:
            self._put_aside(path, error)
            return None
        vectors: Vectors = column.flatten().to_numpy().reshape(-1, self.dimension)
        return vectors

    def _require_schema(self, file: pq.ParquetFile) -> None:
        if not file.schema_arrow.equals(self._schema):
            raise pa.ArrowInvalid(f"columns are {file.schema_arrow.names} of {file.schema_arrow.types}")

    def _put_aside(self, path: Path, error: Exception) -> None:
        """Renames a damaged part: its keys have no vector from then on. Raises StorageError where the disk failed, not
        the file.
        """
        # pyarrow's own OSErrors, for damaged content, have no errno
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(
                f"a vector part cannot be read: {error.strerror}", where=str(path), hint="check permissions and disk"
            ) from error
        aside = path.with_name(f"{path.name}.damaged")
        move(path, aside)
        self._keys.drop(path)
        _log.warning("vector_part_damaged", part=str(path), moved_to=str(aside), error=str(error))


def _text_of(keys: Texts, row: int) -> str:
    key = keys[int(row)]
    return key if isinstance(key, str) else str(key.as_py())
