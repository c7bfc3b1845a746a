"""The note that the embedder hardly knows the language of a question."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.index.embedding import four_bits
from almanac.query import open_index
from almanac.query.answering.wording import MULTILINGUAL, note_on_language
from almanac.query.published import PublishedIndex
from almanac.query.retrieval.question_language import QuestionLanguage, language_of_question, question_language
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.results import Answer
from tests.growth import assert_linear
from tests.query.small_base import SmallBase


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedIndex]:
    base = SmallBase(tmp_path_factory.mktemp("notes"))
    base.publish()
    with open_index(str(base.path), data=base.data) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("Quand est-ce que le jardin ferme en hiver ?", "Le modèle de plongement"),
        ("Trẻ em vào cổng có phải mua vé không?", "Mô hình nhúng"),
        ("מתי הגן נסגר בחורף?", "מודל ההטמעה"),
        ("Kiedy zamykany jest ogród w zimie i ile kosztuje bilet?", "The embedder"),
    ],
)
def test_a_question_in_a_language_that_the_embedder_does_not_know_gets_a_note_in_it(
    index: PublishedIndex, question: str, begins: str
) -> None:
    searched, answered = index.search(question), index.ask(question)
    *_, streamed = index.stream(question)
    assert isinstance(streamed, Answer)
    assert searched.note is not None and searched.note.startswith(begins)
    assert "all-MiniLM-L6-v2" in searched.note and four_bits.MODEL == MULTILINGUAL in searched.note
    assert answered.note == streamed.note == searched.note


@pytest.mark.parametrize(
    "question",
    [
        "When does the garden close in winter?",
        "TO1101",
        "ISO 9001",
        "42",
        "jardin",
        "garden",
        "https://example.org/fr/jardin",
    ],
)
def test_nothing_is_noted_for_a_language_that_it_knows_or_that_cannot_be_told(
    index: PublishedIndex, question: str
) -> None:
    assert index.search(question).note is None
    assert index.ask(question).note is None


def test_nothing_is_noted_where_the_embedder_was_not_asked(index: PublishedIndex) -> None:
    assert index.search("Quand est-ce que le jardin ferme en hiver ?", mode="lexical").note is None


def test_words_are_no_consolation_where_only_vectors_were_searched(index: PublishedIndex) -> None:
    question = "Quand est-ce que le jardin ferme en hiver ?"
    both, dense = index.search(question).note, index.search(question, mode="dense").note
    assert both is not None and dense is not None and len(dense) < len(both)


def test_a_language_of_the_content_is_known_as_well_as_in_the_content() -> None:
    question = "Quand est-ce que le jardin ferme en hiver ?"
    assert language_of_question(question, Embed(), {"en": 1.0, "fr-CA": 0.7}) == ("fr", 0.7)
    assert language_of_question(question, Embed(), {"en": 1.0}) == ("fr", 0.0)


def test_rare_words_in_a_question_do_not_make_its_language_unknown() -> None:
    assert (
        language_of_question(
            "Who were the quarterbacks of Kaiserslautern's Schwarzwaldpioniere?", Embed(), {"": 0.0}
        ).known
        == 1.0
    )


def test_the_multilingual_embedder_is_not_recommended_to_itself(tmp_path: Path) -> None:
    note = note_on_language(QuestionLanguage("zu", 0.1), str(tmp_path / MULTILINGUAL), "hybrid")
    assert note is not None and note.count(MULTILINGUAL) == 1
    assert str(tmp_path) not in note


def test_addresses_have_no_language_and_a_long_word_costs_no_more() -> None:
    assert question_language("(x.y@example.org, @user@example.org) 12 https://example.org/quand-ouvre-le-musee") is None
    assert question_language("an anna.schmidt@example.org: Wann öffnet das Museum am Sonntag?") == "de"
    assert_linear(question_language, lambda pieces: "x" * pieces, 20_000)
