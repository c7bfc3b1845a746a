"""The trace of a query, on a real version: real Chroma, a real lexical index, vectors that follow from the texts
alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from almanac.core.tables import batches_of
from almanac.index.build.builder import build_version
from almanac.index.build.derived import derive
from almanac.index.embedding.score_thresholds import ScoreThresholds
from almanac.index.reader import OpenVersion
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import UsageError
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Verdict
from tests.index.conftest import Base, HashEmbedder

_PAGES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "ethics",
        "What we cannot explain, we do not ship.",
        {"tags": ["AI", "ethics"], "workspace": "research", "language": "en", "rank": 1},
    ),
    (
        "review",
        "A board reads every model card before release.",
        {"tags": ["AI", "governance"], "workspace": "research", "language": "en", "rank": 2},
    ),
    (
        "travel",
        "Trains are booked in second class, by the assistant.",
        {"tags": ["travel"], "workspace": "people", "language": "en", "rank": 3},
    ),
    (
        "boats",
        "Kayak tour TO1101 leaves at eight from the pier.",
        {"tags": [], "workspace": "people", "language": "en", "rank": 4},
    ),
    (
        "prix",
        "Les enfants de moins de dix-huit ans entrent gratuitement au château.",
        {"workspace": "people", "language": "fr", "rank": 5},
    ),
]


def _row(name: str, text: str, metadata: dict[str, Any], number: int = 0, start: int = 0) -> ChunkRow:
    place = (number, start, start + len(text))
    return ChunkRow(name, "pages", f"http://wiki/{name}", name, "document", *place, text, text, metadata, "2026-01-01")


def _rows() -> list[ChunkRow]:
    parts = ["The station opened in 1901.", "It has nine platforms today.", "Its clock was made in Besançon."]
    long = [_row("station", text, {"workspace": "people"}, n, n * 40) for n, text in enumerate(parts)]
    return [*(_row(*page) for page in _PAGES), *long]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenVersion]:
    base, rows = Base(tmp_path_factory.mktemp("retrieve")), _rows()
    base.embed(rows)
    build_version(base.job())
    manifest = base.manifest("v0001", rows, Verdict(verdict="passed", checks=[])).model_copy(
        update={"derived": derive(batches_of(base.chunks), Embed())}
    )
    with OpenVersion(base.index_dir, "v0001", manifest=manifest) as version:
        yield version


def _retriever(opened: OpenVersion, **retrieve: Any) -> Retriever:
    declared = {"name": "kb", "sources": [{"name": "pages", "kind": "files", "glob": "*"}], "retrieve": retrieve}
    return Retriever(Declaration.model_validate(declared), opened, HashEmbedder().embed_queries)


def _find_documents(retriever: Retriever, text: str, **request_fields: Any) -> list[str]:
    return [hit.document_id for hit in retriever.find(_request(text, **request_fields)).hits]


def _request(text: str, k: int = 3, mode: Any = "hybrid", **request_fields: Any) -> Request:
    return Request(text, HashEmbedder().embed_queries([text])[0], k, mode, **request_fields)


def test_words_find_what_vectors_do_not(opened: OpenVersion) -> None:
    retriever = _retriever(opened)
    assert _find_documents(retriever, "when does TO1101 leave?", mode="lexical")[0] == "boats"
    assert _find_documents(retriever, "when does TO1101 leave?")[0] == "boats"
    assert _find_documents(retriever, "Kayak tour TO1101 leaves at eight from the pier.", mode="dense")[0] == "boats"


@pytest.mark.parametrize("template", [None, "{product} {question}"])
def test_a_question_with_characters_that_nobody_sees_is_the_question_without_them(
    opened: OpenVersion, template: str | None
) -> None:
    question = "TO11\U000e0030\U000e006101 kay\u2062ak\ufe0f to\u3164ur\u061c"
    assert compose_query(template, question) == "TO1101 kayak tour"
    assert _find_documents(_retriever(opened), question, mode="lexical") == ["boats"]


def test_every_hit_has_both_parts_of_its_score(opened: OpenVersion) -> None:
    hits = _retriever(opened).find(_request("model card", k=8)).hits
    assert len(hits) == 8
    assert all(hit.scores["dense"] is not None for hit in hits)
    assert hits[0].scores["lexical"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_no_filter_lets_another_workspace_in(opened: OpenVersion) -> None:
    retriever = _retriever(opened, workspace="workspace")
    for where in (
        None,
        {"workspace": "research"},
        {"$or": [{"workspace": "research"}, {"rank": {"$gte": 0}}]},
        {"$not": {"workspace": "people"}},
    ):
        assert set(_find_documents(retriever, "model card ethics AI", k=9, workspace="people", where=where)) <= {
            "travel",
            "boats",
            "prix",
            "station",
        }
    for spelling in (
        "nowhere",
        "People",
        "people ",
        " people",
        "people\u200b",
        "ｐｅｏｐｌｅ",
        "pe\u0301ople",
        "['people']",
        "%",
        "*",
        "people,research",
        "0",
        "None",
    ):
        assert _find_documents(retriever, "anything", k=9, workspace=spelling) == []
    for blank in ("", " ", "\u2003"):
        with pytest.raises(UsageError, match="the workspace is blank"):
            _find_documents(retriever, "anything", workspace=blank)
    with pytest.raises(UsageError, match="no workspaces are declared"):
        _find_documents(_retriever(opened), "anything", workspace="people")


def test_a_filter_does_not_tell_with_whom_a_chunk_is_shared(tmp_path: Path) -> None:
    base, texts = Base(tmp_path), {"ours": "A shared kayak.", "mine": "A kayak of one team."}
    rows = [
        _row("ours", texts["ours"], {"team": ["people", "research"]}),
        _row("mine", texts["mine"], {"team": "people"}),
    ]
    base.embed(rows)
    build_version(base.job())
    manifest = base.manifest("v0001", rows, Verdict(verdict="passed", checks=[])).model_copy(
        update={"derived": derive(batches_of(base.chunks), Embed())}
    )
    with OpenVersion(base.index_dir, "v0001", manifest=manifest) as version:
        retriever = _retriever(version, workspace="team")
        foreign = (
            {"team": "research"},
            {"team": {"$contains": "res"}},
            {"team": {"$in": ["research"]}},
            {"$not": {"team": "people"}},
        )
        for where in foreign:
            assert _find_documents(retriever, "kayak", k=9, workspace="people", where=where) == []
        for where in ({"team": "people"}, {"team": {"$ne": "research"}}, {"$not": {"team": "research"}}):
            assert set(_find_documents(retriever, "kayak", k=9, workspace="people", where=where)) == {"ours", "mine"}
        assert _find_documents(retriever, "kayak", k=9, where={"team": "research"}) == ["ours"]
        for caller in ("people", "research", None):
            with pytest.raises(UsageError, match=r"no field 'team\.0'"):
                _find_documents(retriever, "kayak", workspace=caller, where={"team.0": "research"})


def test_a_filter_holds_on_both_sides(opened: OpenVersion) -> None:
    for mode in ("dense", "lexical", "hybrid"):
        document_ids = _find_documents(
            _retriever(opened), "kayak trains model explain", k=9, mode=mode, where={"rank": {"$lte": 2}}
        )
        assert set(document_ids) <= {"ethics", "review"} and document_ids


def test_tags_that_a_question_names_move_their_pages_up(opened: OpenVersion) -> None:
    tagged = _retriever(opened, tags={"field": "tags", "weight": 0.4, "cluster_weight": 0.2})
    hits = tagged.find(_request("AI ethics", k=2)).hits
    assert [hit.document_id for hit in hits] == ["ethics", "review"]
    assert (hits[0].scores["tag"], hits[1].scores["tag"]) == (1.0, 0.5)
    assert hits[0].tags == ["AI", "ethics"]
    untouched = tagged.find(_request("platforms", k=1)).hits[0]
    assert untouched.scores["tag"] is None


def test_a_workspace_is_told_nothing_of_the_tags_of_another(opened: OpenVersion) -> None:
    retriever = _retriever(opened, workspace="workspace", tags={"field": "tags", "floor": -1.0})
    steps = {
        step["step"]: step for step in retriever.find(_request("AI ethics governance", k=3, workspace="people")).trace
    }
    assert {*steps["tags"]["named"], *steps["tags"]["related"]} <= {"travel"}
    everywhere = {step["step"]: step for step in retriever.find(_request("AI ethics governance", k=3)).trace}
    assert everywhere["tags"]["named"] == ["AI", "ethics", "governance"]


def test_a_rare_code_goes_before_what_is_only_near(opened: OpenVersion) -> None:
    text = "What we cannot explain, we do not ship. TO1101"
    retrieved = _retriever(opened).find(_request(text, k=5))
    assert retrieved.hits[0].title == "boats"
    scores = [hit.score for hit in retrieved.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert [step["codes"] for step in retrieved.trace if step["step"] == "codes"] == [["TO1101"]]
    dense = _retriever(opened).find(_request(text, mode="dense"))
    assert [hit.score for hit in dense.hits] == [hit.scores["dense"] for hit in dense.hits], (
        "the score is the cosine there"
    )


def test_a_workspace_is_told_nothing_of_the_codes_of_another(opened: OpenVersion) -> None:
    retriever = _retriever(opened, workspace={"field": "workspace"})
    retrievals = [
        retriever.find(_request(f"What we cannot explain, we do not ship. {code}", workspace="research"))
        for code in ("TO1101", "TO9999")
    ]
    assert [[step["codes"] for step in retrieved.trace if step["step"] == "codes"] for retrieved in retrievals] == [
        [[]],
        [[]],
    ]
    assert retrievals[0].hits[0].title == "ethics"


def test_a_reranker_orders_what_it_reads_and_leaves_the_rest_behind(opened: OpenVersion) -> None:
    class Shortest:
        def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:  # noqa: ARG002  as the protocol has it
            return np.array([-len(text) for text in texts], dtype=np.float32)

        def count_cut(self, question: str, texts: Sequence[str]) -> int:  # noqa: ARG002
            return 0

    declared = {
        "name": "kb",
        "sources": [{"name": "pages", "kind": "files", "glob": "*"}],
        "retrieve": {"rerank": {"model": "./m", "candidates": 4}},
    }
    hits = (
        Retriever(Declaration.model_validate(declared), opened, HashEmbedder().embed_queries, Shortest())
        .find(_request("model card", k=8))
        .hits
    )
    lengths = [len(hit.text) for hit in hits]
    assert lengths[:4] == sorted(lengths[:4])
    assert [hit.scores["rerank"] is not None for hit in hits] == [True] * 4 + [False] * 4
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_one_chunk_of_a_document_and_those_beside_it(opened: OpenVersion) -> None:
    assert _find_documents(_retriever(opened), "station platforms clock", k=3, mode="lexical") == ["station"] * 3
    retriever = _retriever(opened, one_per_document=True, neighbours=1)
    hit = retriever.find(_request("nine platforms", k=3)).hits[0]
    assert hit.text == "It has nine platforms today."
    assert [near.text for near in hit.neighbours or ()] == [
        "The station opened in 1901.",
        "Its clock was made in Besançon.",
    ]
    assert _find_documents(retriever, "station platforms clock", k=3).count("station") == 1


def test_weak_hits_stay_out_where_a_share_is_declared(opened: OpenVersion) -> None:
    question = "Kayak tour TO1101 leaves at eight from the pier."
    assert len(_find_documents(_retriever(opened), question, k=5)) == 5
    assert _find_documents(_retriever(opened, share=0.9), question, k=5) == ["boats"]
    assert len(_find_documents(_retriever(opened, share=0.9, least_k=2), question, k=5)) == 2


def test_a_question_is_answered_from_words_where_the_embedder_does_not_know_the_language(opened: OpenVersion) -> None:
    retriever = _retriever(opened)
    near = {"k": 3, "thresholds": ScoreThresholds(0.99, 0.99)}  # which no random vector reaches
    assert _find_documents(retriever, "Les enfants entrent gratuitement ?", **near) == ["prix"]
    assert _find_documents(retriever, "Quel est le menu de la cantine pour les enfants malades ?", **near) == []
    # so many of the question's words are a reason in any language
    assert _find_documents(retriever, "TO1101", **near) == ["boats"]
    assert _find_documents(retriever, "who reads the newspapers of the town?", **near) == []


def test_the_road_names_every_step_and_what_it_did(opened: OpenVersion) -> None:
    trace = (
        _retriever(opened, tags={"field": "tags"})
        .find(_request("AI ethics", where={"language": "en"}, floor=-1.0))
        .trace
    )
    steps = {step["step"]: step for step in trace}
    assert {"filter", "dense", "lexical", "fuse", "tags", "floor", "select"} <= steps.keys()
    assert steps["filter"]["chunks"] == 4
    assert steps["tags"]["named"] == ["AI", "ethics"]
    assert 0 < steps["fuse"]["dense_weight"] < 1
    assert all(step["ms"] >= 0 for step in trace)


@pytest.fixture
def bilingual(opened: OpenVersion, monkeypatch: pytest.MonkeyPatch) -> OpenVersion:
    """The version as one whose embedder knows both of its languages."""
    known = opened.manifest.derived.model_copy(update={"language_fit": {"": 1.0, "en": 1.0, "fr": 1.0}})
    monkeypatch.setattr(opened, "manifest", opened.manifest.model_copy(update={"derived": known, "language": "auto"}))
    return opened


def _fused(opened: OpenVersion, text: str) -> dict[str, Any]:
    return next(step for step in _retriever(opened).find(_request(text)).trace if step["step"] == "fuse")


@pytest.mark.parametrize("text", ["TO1101", "kayak", "42", "Les enfants entrent gratuitement au château ?"])
def test_words_vote_as_far_as_they_match(bilingual: OpenVersion, text: str) -> None:
    facts = _fused(bilingual, text)
    assert facts["vote"] == facts["matched"]
    assert facts["matched"] > 0.5 or text == "42"


def test_words_leave_their_vote_to_the_embedder_where_the_question_has_other_ones(bilingual: OpenVersion) -> None:
    repeated = _fused(bilingual, "A board reads every model card")
    reworded = _fused(bilingual, "A committee examines all algorithm descriptions")
    assert repeated["vote"] > 0.8 > 0.3 > reworded["vote"]


def test_an_embedder_that_does_not_know_the_language_of_the_question_gets_no_vote_for_it(opened: OpenVersion) -> None:
    facts = _fused(opened, "כמה ילדים יכולים להיכנס לטירה בלי לשלם?")
    assert (facts["language"], facts["vote"]) == ("he", 1.0)


def test_vietnamese_without_diacritics_is_left_to_the_words(tmp_path: Path) -> None:
    texts = ["Khách tham quan được hoàn tiền trước bảy ngày.", "Trẻ em dưới sáu tuổi được miễn phí."]
    base, rows = Base(tmp_path), [_row(str(number), text, {}) for number, text in enumerate(texts)]
    base.embed(rows)
    build_version(base.job().model_copy(update={"language": "vi"}))
    manifest = base.manifest("v0001", rows, Verdict(verdict="passed", checks=[])).model_copy(update={"language": "vi"})
    derived = manifest.derived.model_copy(update={"language_fit": {"": 1.0}})
    with OpenVersion(base.index_dir, "v0001", manifest=manifest.model_copy(update={"derived": derived})) as version:
        assert _fused(version, "Trẻ em dưới sáu tuổi được miễn phí")["dense_weight"] == 0.5
        typed = _fused(version, "tre em duoi sau tuoi duoc mien phi")
    assert (typed["dense_weight"], typed["vote"]) == (0.2, 1.0)
