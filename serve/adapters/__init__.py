"""Retrievers for other frameworks on top of `query`. Each framework has a module and an extra, and is imported nowhere
else.
"""

from typing import Any

from almanac.schemas.results import Hit, SearchResult


def metadata_of(found: SearchResult, hit: Hit) -> dict[str, Any]:
    """Metadata of a framework's document: the declared fields of a hit, its own attributes, `kb` and `version`.
    Attributes take precedence over fields.
    """
    own = {
        name: getattr(hit, name)
        for name in (
            "url",
            "title",
            "score",
            "relevance",
            "confidence",
            "chunk_id",
            "document_id",
            "source",
            "fetched_at",
        )
    }
    kb = hit.kb or found.kb
    return {**hit.metadata, **own, "kb": kb, "version": (found.versions or {}).get(kb, found.version)}
