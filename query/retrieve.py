"""Retrieval from one open version: what a search, an answer, an evaluation and the gate's golden questions share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from index.read import OpenVersion
from query.filters import matching_rows
from schemas.declaration import Declaration
from schemas.reports import Hit

_ROW_FIELDS = ("source", "document_id", "url", "title", "kind")
_HIT_FIELDS = ("chunk_id", "document_id", "source", "url", "title", "text", "start", "end", "metadata", "fetched_at")


def retrieve(
    declaration: Declaration, opened: OpenVersion, vector: np.ndarray, k: int, *, where: dict[str, Any] | None = None, floor: float | None = None
) -> list[Hit]:
    """The `k` nearest chunks to a question's unit vector, best first; those below `floor` (dense cosine) are left out."""
    ids = _filter(declaration, opened, where) if where is not None else None
    if ids is not None and not ids:
        return []
    found = [(chunk_id, cosine) for chunk_id, cosine in opened.query(vector, k, ids) if floor is None or cosine >= floor]
    rows = opened.rows([chunk_id for chunk_id, _ in found])
    return [_hit(rank, row, cosine) for rank, (row, (_, cosine)) in enumerate(zip(rows, found, strict=True), start=1)]


def _filter(declaration: Declaration, opened: OpenVersion, where: dict[str, Any]) -> list[str]:
    declared = {name for source in declaration.sources for name in source.metadata or source.declared_fields()}
    names = sorted({*_ROW_FIELDS, *opened.metadata_keys, *declared})

    def column(name: str) -> Sequence[Any]:
        is_own = name in _ROW_FIELDS and name not in opened.metadata_keys  # a declared field goes before a column of its name
        return opened.column(name) if is_own else opened.metadata_column(name)

    mask = matching_rows(where, column, len(opened.chunk_ids), names)
    return [chunk_id for chunk_id, matches in zip(opened.chunk_ids, mask, strict=True) if matches]


def _hit(rank: int, row: dict[str, Any], cosine: float) -> Hit:
    return Hit(rank=rank, score=cosine, scores={"dense": cosine, "lexical": None, "tag": None, "rerank": None}, **{n: row[n] for n in _HIT_FIELDS})
