"""Public query API: search and answers over the published versions of one knowledge base, or of several.

Example:
    from almanac.query import open_index

    with open_index("voyago") as index:
        index.search("a boat trip with children")
        index.ask("Can I get a refund?")
    with open_indexes(["voyago", "handbook"]) as indexes:
        indexes.ask("Can I get a refund?")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from almanac.query.published import PublishedIndex, open_index
    from almanac.query.several import SeveralIndexes, open_indexes

__all__ = ["PublishedIndex", "SeveralIndexes", "open_index", "open_indexes"]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: a run needs modules of this package, and does not answer."""
    if name in ("PublishedIndex", "open_index"):
        from almanac.query import published

        return getattr(published, name)
    if name in ("SeveralIndexes", "open_indexes"):
        from almanac.query import several

        return getattr(several, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
