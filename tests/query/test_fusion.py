"""One score of two sides, and tags in it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.query.retrieval.fusion import UsualCosine, fuse
from almanac.query.retrieval.request import Candidate
from almanac.query.retrieval.retriever import mmr
from almanac.query.retrieval.tags import TagIndex

_SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 50))
_COSINES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 1))


_USUAL = st.builds(UsualCosine, st.floats(-0.5, 0.9), st.floats(0.01, 0.2))


@pytest.mark.filterwarnings("error")
def test_cosines_to_no_chunks_are_usual_around_zero() -> None:
    assert UsualCosine.from_cosines(np.empty(0, dtype=np.float32)).mean == 0.0


@given(_COSINES, _SCORES, st.floats(0, 1), _USUAL, st.floats(0, 100), st.floats(0, 1))
def test_a_fused_score_lies_between_nothing_and_everything(
    dense: dict[str, float],
    lexical: dict[str, float],
    weight: float,
    usual: UsualCosine,
    attainable: float,
    vote: float,
) -> None:
    fused = fuse(dense, lexical, weight, usual=usual, attainable=attainable, vote=vote)
    assert fused.keys() == dense.keys() | lexical.keys()
    assert all(0 <= score <= 1 for score in fused.values())


@given(_COSINES, _SCORES, _USUAL, st.floats(0, 100))
def test_with_all_the_weight_on_one_side_the_order_is_its_own(
    dense: dict[str, float], lexical: dict[str, float], usual: UsualCosine, attainable: float
) -> None:
    for side, weight in ((dense, 1.0), (lexical, 0.0)):
        fused = fuse(dense, lexical, weight, usual=usual, attainable=attainable)
        ordered = sorted(side, key=lambda chunk_id: side[chunk_id])
        assert all(fused[low] <= fused[high] for low, high in itertools.pairwise(ordered))


_UNRELATED = UsualCosine(0.1, 0.1)


def test_a_side_that_tells_nothing_apart_moves_nothing() -> None:
    fused = fuse({"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 2.0}, 0.8, usual=_UNRELATED, attainable=2.0)
    assert fused["b"] > fused["a"]
    assert fuse({"a": -1.0}, {}, 0.5, usual=_UNRELATED, attainable=0.0) == {"a": 0.0}
    assert fuse({}, {}, 0.5, usual=_UNRELATED, attainable=1.0) == {}


def test_what_stands_out_on_both_sides_scores_one() -> None:
    assert fuse({"a": 0.85, "b": 0.1}, {"a": 9.0, "c": 3.0}, 0.3, usual=_UNRELATED, attainable=8.0)["a"] == 1.0


@given(_COSINES, st.floats(0.1, 0.5), st.floats(-0.4, 0.4))
def test_the_band_of_an_embedders_cosines_makes_no_difference(
    dense: dict[str, float], narrower: float, higher: float
) -> None:
    """A narrow band of cosines (.75 to .93) fuses like a wide one."""
    lexical = {"a": 3.0, "b": 1.0}
    wide = fuse(dense, lexical, 0.5, usual=UsualCosine(0.0, 0.1), attainable=4.0)
    moved = {chunk_id: narrower * cosine + higher for chunk_id, cosine in dense.items()}
    narrow = fuse(moved, lexical, 0.5, usual=UsualCosine(higher, narrower * 0.1), attainable=4.0)
    assert narrow == pytest.approx(wide, abs=2e-6)


def test_words_that_hardly_match_the_question_have_hardly_a_vote() -> None:
    dense, lexical = {"near": 0.7, "far": 0.4}, {"far": 2.0}
    assert (
        fuse(dense, lexical, 0.5, usual=_UNRELATED, attainable=2.0)["far"]
        > fuse(dense, lexical, 0.5, usual=_UNRELATED, attainable=2.0)["near"]
    )
    assert (
        fuse(dense, lexical, 0.5, usual=_UNRELATED, attainable=20.0)["far"]
        < fuse(dense, lexical, 0.5, usual=_UNRELATED, attainable=20.0)["near"]
    )


def test_the_dense_score_gets_the_vote_that_words_lack_on_a_chunk() -> None:
    dense, lexical = {"foreign": 0.8, "own": 0.7}, {"own": 8.0, "foreign": 0.5}
    assert fuse(dense, lexical, 0.5, usual=_UNRELATED, attainable=10.0)["own"] > 0.7
    fused = fuse(dense, lexical, 0.5, usual=_UNRELATED, attainable=10.0, vote=0.05)
    assert fused["foreign"] > fused["own"]


PAGES = [["AI", "ethics"], ["AI", "ethics", "policy"], ["AI", "research"], ["travel", "policy"], ["travel"], []]


def test_a_question_names_tags_by_their_words_whatever_case_and_number() -> None:
    tags = TagIndex([*PAGES, ["machine learning", "café"]])
    assert tags.tags_of("What about ai ETHICS?", None, 0.5).named == ("AI", "ethics")
    assert tags.tags_of("the policies of a cafe", None, 0.5).named == ("café",)
    assert tags.tags_of("learning by machine", None, 0.5).named == ("machine learning",)
    assert tags.tags_of("aisle", None, 0.5).named == ()


def test_tags_that_stand_together_form_a_cluster() -> None:
    question_tags = TagIndex(PAGES).tags_of("ethics", None, 0.5)
    assert (question_tags.named, question_tags.related) == (("ethics",), ("AI", "policy"))
    assert question_tags.match(["ethics", "AI"]) == 1.0
    assert question_tags.match(["travel"]) == 0.0
    assert question_tags.alignment(["AI", "travel"]) == 0.5
    assert question_tags.alignment([]) == 0.0


def test_without_their_words_tags_are_named_by_meaning_from_the_floor_on() -> None:
    tags = TagIndex(PAGES)
    cosines = np.array([0.9 if name == "ethics" else 0.1 for name in tags.names])
    assert tags.tags_of("moral questions", lambda: cosines, 0.5).named == ("ethics",)
    assert tags.tags_of("moral questions", lambda: cosines, 0.95).named == ()
    assert tags.tags_of("moral questions", None, 0.0).match(["ethics"]) == 0.0


def _candidates(*scores: float) -> list[Candidate]:
    return [Candidate(f"c{number}", score) for number, score in enumerate(scores)]


def test_diversity_prefers_what_is_unlike_to_what_is_the_same_again() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    candidates = _candidates(0.9, 0.89, 0.6)
    assert [candidate.chunk_id for candidate in mmr(candidates, 2, 0.5, vectors)] == ["c0", "c2"]
    assert len(mmr(candidates, 9, 0.5, vectors)) == 3
    assert mmr([], 3, 0.5, np.zeros((0, 2), dtype=np.float32)) == []


def test_diversity_is_the_same_for_an_embedder_whose_cosines_are_all_high() -> None:
    def vectors(usual: float) -> np.ndarray:
        """Two alike, and one that is as near to them as any two texts are."""
        cosines = np.array([[1, 0.99, usual], [0.99, 1, usual], [usual, usual, 1]])
        return np.linalg.cholesky(cosines).astype(np.float32)

    candidates = _candidates(0.9, 0.85, 0.7)
    assert [candidate.chunk_id for candidate in mmr(candidates, 2, 0.2, vectors(0.0))] == ["c0", "c2"]
    assert [candidate.chunk_id for candidate in mmr(candidates, 2, 0.2, vectors(0.8))] == ["c0", "c1"]
    assert [candidate.chunk_id for candidate in mmr(candidates, 2, 0.2, vectors(0.8), 0.8)] == ["c0", "c2"]
