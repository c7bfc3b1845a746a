"""A LlamaIndex retriever: `AlmanacRetriever(open_index("voyago"), k=4).retrieve("a boat trip with children")`. Needs
the extra `llamaindex`.
"""

import asyncio
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from almanac.query import PublishedIndex, SeveralIndexes
from almanac.query.retrieval.request import SearchMode
from almanac.schemas.results import Hit, SearchResult
from almanac.serve.adapters import metadata_of

_FOR_THE_MODEL = {"title", "url"}  # metadata that a prompt shows above a passage; the rest is for programs


class AlmanacRetriever(BaseRetriever):
    """Retriever over an open index, or over several. Nodes are hits, best first, with url, title, score, relevance,
    chunk_id, version and more in their metadata.

    A node's own score is the relevance of its hit, which other parts of LlamaIndex compare with cut-offs; None where it
    is unknown. It may not be descending. Each request reads the version that is live when it starts, or the index's
    pinned version. The options are those of `PublishedIndex.search`, with its defaults and its errors. The caller
    closes the index.
    """

    def __init__(
        self,
        index: PublishedIndex | SeveralIndexes,
        *,
        k: int | None = None,
        mode: SearchMode | None = None,
        where: dict[str, Any] | None = None,
        floor: float | None = None,
        workspace: str | None = None,
    ) -> None:
        super().__init__()
        self._index, self._k, self._mode, self._where, self._floor, self._workspace = (
            index,
            k,
            mode,
            where,
            floor,
            workspace,
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        search_result = self._index.search(
            query_bundle.query_str, k=self._k, mode=self._mode, where=self._where, floor=self._floor,
            workspace=self._workspace
        )  # fmt: skip
        return [NodeWithScore(node=_node(search_result, hit), score=hit.relevance) for hit in search_result.hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(search_result: SearchResult, hit: Hit) -> TextNode:
    metadata = metadata_of(search_result, hit)
    return TextNode(
        id_=hit.chunk_id, text=hit.readable, metadata=metadata, start_char_idx=hit.start, end_char_idx=hit.end,
        excluded_llm_metadata_keys=[name for name in metadata if name not in _FOR_THE_MODEL],
    )  # fmt: skip
