"""The thin query module: retrieve and answer from one published version.

from almanac.query import open_index
index = open_index("voyago")
index.search("a boat trip with children")
index.ask("Can I get a refund?")
"""

from almanac.query.published import PublishedIndex, open_index

__all__ = ["PublishedIndex", "open_index"]
