"""Questions that continue others, asked of a real version; what is embedded for them, and when."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from almanac.cli.questions import ask, search
from almanac.index.embedding.embedder import BUNDLED, LocalEmbedder, Vectors
from almanac.query import open_index, published
from almanac.query.published import PublishedIndex
from almanac.schemas.errors import OperationalError, UsageError
from almanac.schemas.results import Answer, SearchResult
from tests.query.small_base import SmallBase

_ENGLISH, _MULTILINGUAL = BUNDLED
_MORE_NOTES = {
    "bangkok": "The tour to Bangkok costs 90 euros for an adult and 45 euros for a child.",
    "hanoi": "The tour to Hanoi costs 80 euros for an adult and 30 euros for a child.",
    "extensions": "Browser extensions that read page content are blocked.",
    "kitchen": "The kitchen cooks vegetarian dishes every evening. Soup is served until ten.",
}
_HANOI = [
    {"role": "user", "content": "How much is the tour to Hanoi for an adult?"},
    {"role": "assistant", "content": "The tour to Hanoi costs 80 euros. [1]"},
]

pytestmark = pytest.mark.slow  # the real model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SmallBase:
    base = SmallBase(tmp_path_factory.mktemp("searched"))
    for name, text in _MORE_NOTES.items():
        (base.folder / "notes" / f"{name}.txt").write_text(text)
    base.publish(language="en")
    return base


@pytest.fixture(scope="module")
def index(base: SmallBase) -> Iterator[PublishedIndex]:
    with open_index(base.path, data=base.data) as opened:
        yield opened


def _step(result: SearchResult, name: str) -> dict[str, object]:
    (step,) = [step for step in result.explain or [] if step["step"] == name]
    return step


@pytest.mark.parametrize("question", ["And for a child?", "How much for a child?", "what does it cost for children?"])
def test_a_follow_up_is_searched_for_behind_the_last_question(index: PublishedIndex, question: str) -> None:
    answered = index.ask(question, history=_HANOI)
    *_, streamed = index.stream(question, history=_HANOI)
    assert isinstance(streamed, Answer)
    assert answered.searched == streamed.searched == f"{_HANOI[0]['content']} {question}"
    assert answered.sources[0].title == "hanoi"
    assert "30 euros for a child" in answered.reply
    search_result = index.search(question, history=_HANOI, explain=True)
    assert (search_result.hits[0].title, search_result.searched) == ("hanoi", answered.searched)
    assert _step(search_result, "follow-up")["continued"] == answered.searched


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Do dogs stay outside the garden?", "dogs"),
        ("Are browser extensions blocked?", "extensions"),
        ("and when does the garden close in winter?", "garden"),
    ],
)
def test_a_short_question_that_continues_nothing_is_searched_for_by_itself_too(
    index: PublishedIndex, question: str, title: str
) -> None:
    answered = index.ask(question, history=_HANOI)
    assert answered.answered and title in {source.title for source in answered.sources}
    assert title in {hit.title for hit in index.search(question, k=2, history=_HANOI).hits}


def test_a_long_question_stands_alone(index: PublishedIndex) -> None:
    question = "Which vegetarian dishes does the kitchen cook in the evening, and until when is soup served?"
    answered, alone = index.ask(question, history=_HANOI), index.ask(question)
    assert answered.model_dump() == alone.model_dump()
    assert answered.answered and answered.searched is None
    assert _step(index.search(question, history=_HANOI, explain=True), "follow-up")["continued"] is None


def test_only_what_the_user_asked_is_continued(index: PublishedIndex) -> None:
    history = [{"role": "assistant", "content": "Hello! What can I do for you?"}, {"role": "user", "content": " "}]
    assert index.search("And for a child?", history=history).searched is None
    assert index.search("And for a child?", history=[*_HANOI, *history]).searched == (
        f"{_HANOI[0]['content']} And for a child?"
    )


def test_the_command_line_takes_what_was_asked_before(
    index: PublishedIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = str(index.declaration.path), str(index.folder.parents[1])
    ask(path, "And for a child?", after=[_HANOI[0]["content"]], data=data, as_json=True)
    assert json.loads(capsys.readouterr().out)["searched"] == f"{_HANOI[0]['content']} And for a child?"
    search(path, "And for a child?", after=[_HANOI[0]["content"]], explain=True, data=data)
    assert "follow-up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ask", "texts"),
    [
        (lambda index: index.search("When does the pier open?"), ["When does the pier open?"]),
        (
            lambda index: index.search("And for a parrot?", history=_HANOI),
            [f"{_HANOI[0]['content']} And for a parrot?", "And for a parrot?"],
        ),
        (lambda index: index.ask("When do boats leave the pier?"), ["When do boats leave the pier?"]),
        (
            lambda index: index.ask("And for a monkey?", history=_HANOI),
            [f"{_HANOI[0]['content']} And for a monkey?", "And for a monkey?"],
        ),
    ],
    ids=["search", "follow-up", "ask", "follow-up asked"],
)
def test_search_and_reader_embed_a_question_once(
    index: PublishedIndex, ask: Callable[[PublishedIndex], object], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declared embedder is that which reads English, too."""
    embed, calls = LocalEmbedder.embed_queries, list[list[str]]()

    def noted(self: LocalEmbedder, texts: Sequence[str]) -> Vectors:
        if self.info.model == _ENGLISH:
            calls.append(list(texts))
        return embed(self, texts)

    monkeypatch.setattr(LocalEmbedder, "embed_queries", noted)
    ask(index)
    ask(index)
    assert calls == [texts]


def test_a_search_without_vectors_embeds_nothing(index: PublishedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalEmbedder, "embed_queries", None)
    assert index.search("Does the kitchen cook?", mode="lexical").hits[0].title == "kitchen"


def test_an_unknown_language_is_refused_before_anything_is_embedded(
    index: PublishedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalEmbedder, "embed_queries", None)
    for refused in (index.ask, index.stream):
        with pytest.raises(UsageError, match="no language 'klingon'"):
            refused("When does the garden close?", language="klingon")


def test_models_are_loaded_once_and_not_for_what_needs_none(base: SmallBase, monkeypatch: pytest.MonkeyPatch) -> None:
    load, loaded = LocalEmbedder.__init__, list[str]()
    published._bundled.cache_clear()

    def noted(self: LocalEmbedder, *given: Any, **named: Any) -> None:
        load(self, *given, **named)
        loaded.append(self.info.model)

    monkeypatch.setattr(LocalEmbedder, "__init__", noted)
    with open_index(str(base.path), data=base.data) as index:
        index.search("When does the garden close?", mode="lexical")
        with pytest.raises(UsageError):
            index.search("", k=0)
        assert not loaded
        index.search("When does the garden close?")
        assert loaded == [_ENGLISH]
        index.ask("When does the garden close?")
    assert loaded == [_ENGLISH, _MULTILINGUAL]


def test_an_embedder_that_cannot_be_loaded_is_told_by_each_question(
    base: SmallBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("the model is gone")

    monkeypatch.setattr(LocalEmbedder, "__init__", fail)
    with open_index(str(base.path), data=base.data) as index:
        for ask in (index.search, index.ask):
            with pytest.raises(OperationalError, match="the model is gone"):
                ask("When does the garden close?")
