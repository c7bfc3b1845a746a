"""Public query API: search and answers over the published versions of one knowledge base.

Example:
    from almanac.query import open_index

    with open_index("voyago") as index:
        index.search("a boat trip with children")
        index.ask("Can I get a refund?")
"""

from almanac.query.published import PublishedIndex, open_index

__all__ = ["PublishedIndex", "open_index"]
