"""Retrievers for other frameworks, over the query module: one module for each framework, which is an extra and not imported anywhere else."""

from typing import Any

from almanac.schemas.reports import Hit, SearchResult


def metadata_of(found: SearchResult, hit: Hit) -> dict[str, Any]:
    """A hit's declared metadata, and where it comes from; a declared field does not hide what every hit has."""
    own = {name: getattr(hit, name) for name in ("url", "title", "score", "chunk_id", "document_id", "source", "fetched_at")}
    return {**hit.metadata, **own, "kb": found.kb, "version": found.version}
