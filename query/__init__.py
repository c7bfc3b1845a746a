"""Public query API: search and answers over the published versions of one knowledge base, or of several.

Example:
    from almanac.query import open_index

    with open_index("voyago") as index:
        index.search("a boat trip with children")
        index.ask("Can I get a refund?")
    with open_indexes(["voyago", "handbook"]) as indexes:
        indexes.ask("Can I get a refund?")
"""

from almanac.query.published import PublishedIndex, open_index
from almanac.query.several import SeveralIndexes, open_indexes

__all__ = ["PublishedIndex", "SeveralIndexes", "open_index", "open_indexes"]
