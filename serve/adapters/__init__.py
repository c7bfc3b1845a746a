"""Retrievers for other frameworks on top of `query`. Each framework has a module and an extra, and is imported nowhere
else.
"""

from typing import Any

from almanac.schemas.results import Hit, SearchResult


def metadata_of(search_result: SearchResult, hit: Hit) -> dict[str, Any]:
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
    kb = hit.kb or search_result.kb
    return {**hit.metadata, **own, "kb": kb, "version": (search_result.versions or {}).get(kb, search_result.version)}
