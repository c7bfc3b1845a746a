"""Public query API: search and answers over the published versions of one knowledge base, or of several.

Example:
    from almanac.query import open_index

    with open_index("voyago") as index:
        index.search("a boat trip with children")
        index.ask("Can I get a refund?")
    with open_indexes(["voyago", "handbook"]) as indexes:
        indexes.ask("Can I get a refund?")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from almanac.query.published import PublishedIndex, open_index
    from almanac.query.several import SeveralIndexes, open_indexes

__all__ = ["PublishedIndex", "SeveralIndexes", "open_index", "open_indexes"]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: a run needs modules of this package, and does not answer."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "several" if name in ("SeveralIndexes", "open_indexes") else "published"
    return getattr(import_module(f"almanac.query.{module}"), name)
