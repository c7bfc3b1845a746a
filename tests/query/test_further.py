"""Where no hit holds the kind of thing asked for, what does is looked for among the next hits and in the best hit's
document.
"""

from dataclasses import replace

import pytest

from almanac.query import PublishedIndex, open_index
from almanac.query.answering.further import further_hits
from almanac.query.retrieval.request import Request
from tests.query.small_base import SmallBase

_HEAD = (
    "Alpine Explorer tent, sold for 350 euros. Polyester, aluminium poles, two doors, a bag of cotton, twelve "
    "pegs, sewn in Porto by hand, green or orange, "
    "with a mat of cork, a lamp hook, four pockets, a groundsheet, a patch kit, guy lines and a booklet."
)
_PRAISE = "How much we like the Alpine Explorer tent! The Alpine Explorer is a tent for a family."
_SHEET = "\n\n".join(
    ["# Sheet 8", _HEAD, *(f"## Review {n}\n\n{_PRAISE} Guest {'abcdefgh'[n]} agrees." for n in range(8))]
)
_OTHER = (
    "# Sheet 9\n\nRidge Runner tent, sold for 120 euros.\n\n## Review\n\nThe Ridge Runner tent is light, and "
    "weighs 900 g."
)
_PRICE = "How much is the Alpine Explorer tent?"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PublishedIndex:
    base = SmallBase(tmp_path_factory.mktemp("sheets"))
    for name, text in (("8", _SHEET), ("9", _OTHER)):
        (base.folder / "notes" / f"{name}.md").write_text(text)
    source = {"name": "sheets", "kind": "files", "glob": "notes/*.md", "yields": "documents"}
    path = base.publish(
        sources=[source], chunk={"by": "paragraphs", "size": 300, "overlap": 0}, retrieve={"k": 2}, language="en"
    )
    return open_index(path, data=base.data)


def test_the_price_at_the_head_of_a_sheet_is_quoted_though_its_reviews_name_it_more(index: PublishedIndex) -> None:
    assert not any("350" in hit.readable for hit in index.search(_PRICE).hits)
    answer = index.ask(_PRICE)
    assert "350 euros" in answer.reply
    assert [source.quote for source in answer.sources if "350" in source.quote]
    assert all(0 <= (source.relevance or 0) <= 1 for source in answer.sources)


def test_what_holds_it_of_another_thing_is_not_taken(index: PublishedIndex) -> None:
    found = {}
    for question in (_PRICE, "How heavy is the Alpine Explorer tent?", "Is the Alpine Explorer tent heavy?"):
        with index.reading() as retriever:
            request = Request(question, index.embedder.embed_queries([question])[0], 10, "hybrid")
            reviews = [hit for hit in retriever.find(request).hits if "Guest" in hit.readable][:2]
            found[question] = [hit.readable for hit in further_hits(retriever, request, reviews, question)]
    [price], weight, rule = found.values()
    assert "350 euros" in price
    assert (weight, rule) == ([], [])


def test_a_filter_holds_for_what_is_looked_for_besides(index: PublishedIndex) -> None:
    [head] = [hit for hit in index.search("sold for 350 euros", k=10).hits if "350" in hit.readable]
    assert "350" not in index.ask(_PRICE, where={"title": {"$ne": head.title}}).reply


def test_a_floor_holds_for_what_is_looked_for_besides(index: PublishedIndex) -> None:
    with index.reading() as retriever:
        request = Request(_PRICE, index.embedder.embed_queries([_PRICE])[0], 10, "hybrid")
        hits = retriever.find(request).hits
        reviews = [hit for hit in hits if "Guest" in hit.readable][:2]
        [head] = [hit for hit in hits if "350" in hit.readable]
        cosine = head.scores["dense"] or 0.0
        found = [
            further_hits(retriever, replace(request, floor=floor), reviews, _PRICE)
            for floor in (cosine - 0.01, cosine + 0.01)
        ]
    assert [[hit.chunk_id for hit in some] for some in found] == [[head.chunk_id], []]
