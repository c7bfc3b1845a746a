"""The query module behind the retrievers of LangChain and LlamaIndex."""

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.schema import MetadataMode

from almanac.query import PublishedIndex, open_index, open_indexes
from almanac.schemas.errors import UsageError
from almanac.serve.adapters import langchain, llamaindex, metadata_of
from tests.serve.conftest import Bases

QUESTION = "When does the garden close?"


@pytest.fixture(scope="module")
def index(bases: Bases) -> Iterator[PublishedIndex]:
    with open_index(bases.notes, data=bases.data) as index:
        yield index


def _expected(index: PublishedIndex, **options: Any) -> list[tuple[str, str, str, float | None]]:
    return [(hit.chunk_id, hit.readable, hit.url, hit.relevance) for hit in index.search(QUESTION, **options).hits]


@pytest.mark.parametrize("options", [{}, {"k": 1}, {"where": {"title": "Boats"}}, {"workspace": "blue"}])
def test_langchain_gets_the_hits_as_documents(index: PublishedIndex, options: dict[str, Any]) -> None:
    documents = langchain.AlmanacRetriever(index=index, **options).invoke(QUESTION)
    retrieved = [
        (document.id, document.page_content, document.metadata["url"], document.metadata["relevance"])
        for document in documents
    ]
    assert retrieved == _expected(index, **options) != []
    assert (
        documents[0].metadata.items()
        >= {"version": index.search(QUESTION).version, "kb": "notes", "chunk_id": documents[0].id}.items()
    )
    assert documents[0].metadata["team"] in ("red", "blue")


@pytest.mark.parametrize("options", [{}, {"k": 1}, {"where": {"title": "Boats"}}, {"workspace": "blue"}])
def test_llamaindex_gets_the_hits_as_nodes_scored_by_relevance(index: PublishedIndex, options: dict[str, Any]) -> None:
    nodes = llamaindex.AlmanacRetriever(index, **options).retrieve(QUESTION)
    retrieved = [(node.node.node_id, node.text, node.metadata["url"], node.score) for node in nodes]
    assert retrieved == _expected(index, **options) != []
    assert (
        nodes[0].metadata.items()
        >= {"version": index.search(QUESTION).version, "kb": "notes", "chunk_id": nodes[0].node.node_id}.items()
    )
    assert nodes[0].metadata["team"] in ("red", "blue")


def test_a_declared_field_hides_nothing_that_every_hit_has(index: PublishedIndex) -> None:
    search_result = index.search(QUESTION, k=1)
    hit = search_result.hits[0].model_copy(update={"metadata": {"score": "declared", "colour": "green"}})
    assert metadata_of(search_result, hit).items() >= {"score": hit.score, "colour": "green"}.items()


def test_a_model_is_shown_title_and_url_above_the_text(index: PublishedIndex) -> None:
    (node,) = llamaindex.AlmanacRetriever(index, k=1).retrieve(QUESTION)
    shown = node.node.get_content(MetadataMode.LLM)
    assert node.metadata["title"] in shown
    assert node.text in shown
    assert node.node.node_id not in shown


async def _both(index: PublishedIndex) -> tuple[list[Any], list[Any]]:
    documents = await langchain.AlmanacRetriever(index=index).ainvoke(QUESTION)
    nodes = await llamaindex.AlmanacRetriever(index).aretrieve(QUESTION)
    return [document.id for document in documents], [node.node.node_id for node in nodes]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_both_answer_asynchronously(index: PublishedIndex) -> None:
    documents, nodes = await _both(index)
    assert documents == nodes == [chunk_id for chunk_id, *_ in _expected(index)]


def test_errors_of_the_search_arrive_as_they_are(index: PublishedIndex) -> None:
    with pytest.raises(UsageError, match="empty"):
        langchain.AlmanacRetriever(index=index).invoke(" ")
    with pytest.raises(UsageError, match="colour"):
        llamaindex.AlmanacRetriever(index, where={"colour": 1}).retrieve(QUESTION)


def test_both_retrieve_from_several_bases(bases: Bases) -> None:
    with open_indexes([bases.notes, bases.guide], data=bases.data) as indexes:
        documents = langchain.AlmanacRetriever(index=indexes, k=3).invoke(QUESTION)
        nodes = llamaindex.AlmanacRetriever(indexes, k=3).retrieve(QUESTION)
        expected = [(hit.kb, hit.chunk_id) for hit in indexes.search(QUESTION, k=3).hits]
    assert [(document.metadata["kb"], document.id) for document in documents] == expected
    assert [(node.metadata["kb"], node.node.node_id) for node in nodes] == expected
    assert {document.metadata["version"] for document in documents} == {"v0001"}
