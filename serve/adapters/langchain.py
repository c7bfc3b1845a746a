"""A LangChain retriever: `AlmanacRetriever(index=open_index("voyago"), k=4).invoke("a boat trip with children")`. Needs
the extra `langchain`.
"""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from almanac.query import PublishedIndex, SeveralIndexes
from almanac.query.retrieval.request import SearchMode
from almanac.serve.adapters import metadata_of


class AlmanacRetriever(BaseRetriever):
    """Retriever over an open index, or over several. Documents are hits, best first, with url, title, score, relevance,
    chunk_id, version and more in their metadata.

    Each request reads the version that is live when it starts, or the index's pinned version. The options are those of
    `PublishedIndex.search`, with its defaults and its errors. The caller closes the index.
    """

    index: PublishedIndex | SeveralIndexes
    k: int | None = None
    mode: SearchMode | None = None
    where: dict[str, Any] | None = None
    floor: float | None = None
    workspace: str | None = None

    # LangChain's signature
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:  # noqa: ARG002
        search_result = self.index.search(
            query, k=self.k, mode=self.mode, where=self.where, floor=self.floor, workspace=self.workspace
        )
        return [
            Document(id=hit.chunk_id, page_content=hit.readable, metadata=metadata_of(search_result, hit))
            for hit in search_result.hits
        ]
