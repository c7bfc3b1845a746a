"""Compares rows of a collection with what it should hold, as any client of Chroma reads them: ids, documents, metadata
and vectors.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.index.chroma.chroma_rows import document_of, metadata_of
from almanac.index.embedding.embedder import Vectors

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection


# of a cosine: Chroma normalises vectors again, and a text embedded in another batch differs in its last bits
TOLERANCE = 1e-5


class Difference(NamedTuple):
    """A row that differs: `kind` is row_missing, row_altered or vector_altered; `where` says what of it."""

    chunk_id: str
    kind: str
    where: str
    found: Any = None
    expected: Any = None


def differences(collection: "Collection", rows: Sequence[dict[str, Any]], vectors: Vectors) -> Iterator[Difference]:
    """Yields what in a collection differs from rows of a chunks table, of which `STORED_COLUMNS` are needed.

    `vectors` are those of the rows, float32 (n, dimension); one of NaN is not known, and not compared.
    """
    if not rows:
        return
    got = collection.get(ids=[row["chunk_id"] for row in rows], include=["documents", "metadatas", "embeddings"])
    place = {chunk_id: number for number, chunk_id in enumerate(got["ids"])}
    documents, metadatas = got["documents"] or [], got["metadatas"] or []
    for row in rows:
        chunk_id, item = row["chunk_id"], f"of source {row['source']}, item {row['document_id']}"
        if (number := place.get(chunk_id)) is None:
            yield Difference(chunk_id, "row_missing", chunk_id)
            continue
        if documents[number] != document_of(row):
            where = f"{chunk_id}: document {item}"
            yield Difference(chunk_id, "row_altered", where, documents[number], document_of(row))
        stored, expected = dict(metadatas[number] or {}), metadata_of(row)
        for key in sorted(stored.keys() | expected.keys()):
            value, due = stored.get(key), expected.get(key)
            if value != due or type(value) is not type(due):
                yield Difference(chunk_id, "row_altered", f"{chunk_id}: metadata.{key} {item}", value, due)
    there = [number for number, row in enumerate(rows) if row["chunk_id"] in place]
    ids = [rows[number]["chunk_id"] for number in there]
    held = np.asarray(got["embeddings"], dtype=np.float64)
    if ids and (held.ndim != 2 or held.shape[1] != vectors.shape[1]):
        yield Difference(ids[0], "vector_altered", "chroma: dimension", held.shape[-1], vectors.shape[1])
    elif ids:
        for number, cosine in unlike(vectors[there], held[[place[chunk_id] for chunk_id in ids]]):
            yield Difference(ids[number], "vector_altered", ids[number], cosine, 1.0)


def unlike(ours: Vectors, theirs: npt.NDArray[np.floating]) -> Iterator[tuple[int, float]]:
    """Yields the rows in which vectors point elsewhere, or are zero or not finite, each with the cosine. Those of which
    ours is NaN are passed over.
    """
    known = np.flatnonzero(~np.isnan(ours[:, 0]))
    ours, theirs = ours[known].astype(np.float64), theirs[known].astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.einsum("ij,ij->i", ours, theirs) / (np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1))
    for number in np.flatnonzero(~(cosines >= 1 - TOLERANCE)).tolist():
        yield int(known[number]), round(float(cosines[number]), 6)
