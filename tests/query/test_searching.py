"""Questions that continue others or are misspelt, asked of a real version."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from almanac.cli.questions import ask, search
from almanac.index.embedding.embedder import LocalEmbedder, Vectors
from almanac.query import open_index
from almanac.query.published import PublishedIndex
from almanac.query.retrieval.searching import Search
from almanac.query.retrieval.spelling import Respelt
from almanac.schemas.errors import OperationalError, UsageError
from almanac.schemas.results import Answer, SearchResult
from tests.query.small_base import SmallBase

_MORE_NOTES = {
    "bangkok": "The tour to Bangkok costs 90 euros for an adult and 45 euros for a child.",
    "hanoi": "The tour to Hanoi costs 80 euros for an adult and 30 euros for a child.",
    "extensions": "Browser extensions that read page content are blocked.",
    "kitchen": (
        "The kitchen cooks vegetarian dishes every evening. Whoever has an allergy tells the waiter. Soup is "
        "served until ten."
    ),
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
def test_a_follow_up_is_searched_for_with_what_it_continues(index: PublishedIndex, question: str) -> None:
    answered = index.ask(question, history=_HANOI)
    *_, streamed = index.stream(question, history=_HANOI)
    assert isinstance(streamed, Answer)
    assert answered.searched == streamed.searched == f"{_HANOI[0]['content']} {question}"
    assert "Hanoi" in answered.reply and "Bangkok" not in answered.reply
    found = index.search(question, history=_HANOI, explain=True)
    assert (found.hits[0].title, found.searched) == ("hanoi", answered.searched)
    assert _step(found, "follow-up")["continued"] == answered.searched


@pytest.mark.parametrize(
    "question",
    [
        "Do dogs stay outside the garden?",
        "Are browser extensions blocked?",
        "and when does the garden close in winter?",
    ],
)
def test_a_new_subject_is_not_dragged_along(index: PublishedIndex, question: str) -> None:
    answered, alone = index.ask(question, history=_HANOI), index.ask(question)
    assert answered.model_dump() == alone.model_dump()
    assert answered.answered and answered.searched is None
    found = index.search(question, history=_HANOI, explain=True)
    assert _step(found, "follow-up")["continued"] is None


def test_a_question_without_history_takes_no_step_for_it(index: PublishedIndex) -> None:
    assert "follow-up" not in [step["step"] for step in index.search("And for a child?", explain=True).explain or []]


def test_more_of_the_same_is_not_the_same_again(index: PublishedIndex) -> None:
    first = index.ask("What does the kitchen cook?")
    assert "vegetarian" in first.reply
    more = index.ask(
        "Tell me more",
        history=[
            {"role": "user", "content": "What does the kitchen cook?"},
            {"role": "assistant", "content": first.reply},
        ],
    )
    assert more.answered and more.searched == "What does the kitchen cook?"
    assert more.sources[0].title == "kitchen"
    assert not {source.quote for source in first.sources} & {source.quote for source in more.sources}


def test_a_follow_up_in_words_alone_goes_by_its_form(index: PublishedIndex) -> None:
    found = index.search("And for a child?", mode="lexical", history=_HANOI)
    assert (found.hits[0].title, found.searched) == ("hanoi", f"{_HANOI[0]['content']} And for a child?")


@pytest.mark.parametrize(
    ("question", "meant", "title"),
    [
        ("are browser extentions blocked?", "are browser extensions blocked?", "extensions"),
        ("vegeterian dishes in the evening", "vegetarian dishes in the evening", "kitchen"),
        ("how much is the tour to banglok", "how much is the tour to bangkok", "bangkok"),
    ],
)
def test_a_misspelt_word_is_searched_for_as_its_nearest(
    index: PublishedIndex, question: str, meant: str, title: str
) -> None:
    found = index.search(question, explain=True)
    assert (found.query, found.searched, found.hits[0].title) == (question, meant, title)
    assert _step(found, "spelling")["replaced"]


def test_a_reply_says_what_was_searched_for(index: PublishedIndex) -> None:
    answered = index.ask("which browser extentions that read page content are blocked?")
    assert answered.answered and answered.searched == "which browser extensions that read page content are blocked?"
    assert index.ask("are browser extensions blocked?").searched is None


@pytest.mark.parametrize(
    ("right", "typed"),
    [("bangkok", "banglok"), ("vegetarian", "vegeterian"), ("allergy", "alergy"), ("kitchen", "kitchin")],
)
def test_a_replaced_word_alone_turns_no_refusal_into_an_answer(index: PublishedIndex, right: str, typed: str) -> None:
    found = index.search(typed)
    assert found.searched == right
    with index.reading() as retriever:
        vectors = index.embedder.embed_queries([typed, right])
        as_typed, as_meant = (
            retriever.opened.cosines(vector, [found.hits[0].chunk_id])[found.hits[0].chunk_id] for vector in vectors
        )
    assert as_typed < as_meant
    between = (as_typed + as_meant) / 2
    assert index.ask(right, floor=between).answered
    refused = index.ask(typed, floor=between)
    assert (refused.answered, refused.searched, refused.sources) == (False, None, [])


def test_a_made_up_name_near_a_known_one_is_answered_no_more_than_it_was(
    index: PublishedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        f"{word} {typed}"
        for typed in ("banglok", "hanoy", "extentions", "vegeterian")
        for word in ("", "price of a flight to", "who invented")
    ]
    now = {one: index.ask(one).answered for one in asked}
    monkeypatch.setattr("almanac.query.retrieval.searching.respell", lambda question, *_: Respelt(question, {}))
    before = {one: index.ask(one).answered for one in asked}
    assert not [one for one in asked if now[one] and not before[one]]
    assert not all(before.values()), "none of them shows anything"


def test_a_hit_of_a_replaced_word_is_judged_by_the_question_as_it_was_typed(index: PublishedIndex) -> None:
    typed, right = index.search("browser extentions"), index.search("browser extensions")
    assert [typed.hits[0].chunk_id, typed.hits[0].rank] == [right.hits[0].chunk_id, 1]
    assert (typed.hits[0].relevance or 0) < (right.hits[0].relevance or 0)


def test_a_misspelt_follow_up_is_both_continued_and_respelt(index: PublishedIndex) -> None:
    history = [{"role": "user", "content": "Which browser extentions are blocked?"}]
    found = index.search("why are they blocked?", history=history)
    assert found.searched == "Which browser extensions are blocked? why are they blocked?"


def test_what_is_searched_for_shows_no_word_of_another_workspace(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = SmallBase(tmp_path_factory.mktemp("apart"))
    texts = {"legal": "The confidential takeover of Bangkok Ferries", "sales": "Boats leave the pier every hour"}
    (base.folder / "rows.jsonl").write_text(
        "".join(json.dumps({"id": team, "text": text, "team": team}) + "\n" for team, text in texts.items())
    )
    rows = {"name": "rows", "kind": "files", "glob": "rows.jsonl", "yields": "records", "id": "{id}", "text": "{text}"}
    fields = {name: {"json": name, "required": True} for name in ("id", "text", "team")}
    path = base.publish(sources=[{**rows, "fields": fields}], retrieve={"workspace": "team"}, language="en")
    with open_index(path, data=base.data) as index:
        assert index.search("confidental takovers", workspace="sales").searched is None
        assert index.search("confidental takeover", workspace="legal").searched == "confidential takeover"


def test_the_command_line_takes_what_was_asked_before(
    index: PublishedIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, data = str(index.declaration.path), str(index.folder.parents[1])
    ask(asked, "And for a child?", after=[_HANOI[0]["content"]], data=data, as_json=True)
    assert json.loads(capsys.readouterr().out)["searched"] == f"{_HANOI[0]['content']} And for a child?"
    search(asked, "And for a child?", after=[_HANOI[0]["content"]], explain=True, data=data)
    assert "follow-up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ask", "texts"),
    [
        (
            lambda index: index.search("Does the ktichen cook for allergies?"),
            ["Does the ktichen cook for allergies?", "Does the kitchen cook for allergies?"],
        ),
        (
            lambda index: index.ask("How much is the tour to Hanoi and when does the garden close?"),
            [
                "How much is the tour to Hanoi and when does the garden close?",
                "How much is the tour to Hanoi",
                "when does the garden close",
            ],
        ),
        (
            lambda index: index.ask("Does the ktichen cook and when does the garden close?"),
            [
                f"{one}?"
                for one in (
                    "Does the ktichen cook and when does the garden close",
                    "Does the kitchen cook and when does the garden close",
                )
            ]
            + ["Does the kitchen cook", "when does the garden close"],
        ),
        (
            lambda index: index.ask("And for a child?", history=_HANOI),
            ["And for a child?", f"{_HANOI[0]['content']} And for a child?"],
        ),
        (lambda index: index.search("When does the garden close?"), ["When does the garden close?"]),
    ],
    ids=["misspelt", "two parts", "both", "follow-up", "plain"],
)
def test_all_that_a_question_has_to_be_compared_by_is_embedded_at_once(
    index: PublishedIndex, ask: Callable[[PublishedIndex], object], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    embed, calls = LocalEmbedder.embed_queries, list[list[str]]()

    def noted(self: LocalEmbedder, texts: Sequence[str]) -> Vectors:
        calls.append(list(texts))
        return embed(self, texts)

    monkeypatch.setattr(LocalEmbedder, "embed_queries", noted)
    ask(index)
    assert calls == [texts]


def test_a_search_without_vectors_embeds_nothing(index: PublishedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalEmbedder, "embed_queries", None)
    assert index.search("Does the ktichen cook?", mode="lexical").hits[0].title == "kitchen"


def test_an_unknown_language_is_refused_before_anything_is_embedded(
    index: PublishedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalEmbedder, "embed_queries", None)
    for refused in (index.ask, index.stream):
        with pytest.raises(UsageError, match="no language 'klingon'"):
            refused("When does the garden close?", language="klingon")


def test_the_embedder_is_loaded_once_in_another_thread(base: SmallBase, monkeypatch: pytest.MonkeyPatch) -> None:
    load, threads = LocalEmbedder.__init__, list[str]()

    def noted(self: LocalEmbedder, *given: Any, **named: Any) -> None:
        threads.append(threading.current_thread().name)
        load(self, *given, **named)

    monkeypatch.setattr(LocalEmbedder, "__init__", noted)
    with open_index(str(base.path), data=base.data) as index:
        index.search("When does the garden close?", mode="lexical")
        with pytest.raises(UsageError):
            index.search("", k=0)
        assert not threads
        index.search("When does the garden close?")
        index.ask("When does the garden close?")
    assert threads == ["embedder"]


def test_a_first_question_goes_on_while_the_embedder_is_loaded(
    base: SmallBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, respell, may_load = LocalEmbedder.__init__, Search._respelt, threading.Event()

    def loaded_late(self: LocalEmbedder, *given: Any, **named: Any) -> None:
        assert may_load.wait(20)
        load(self, *given, **named)

    def respelt(self: Search, *given: Any) -> Respelt:
        found = respell(self, *given)
        may_load.set()
        return found

    monkeypatch.setattr(LocalEmbedder, "__init__", loaded_late)
    monkeypatch.setattr(Search, "_respelt", respelt)
    for asking in (PublishedIndex.search, PublishedIndex.ask):
        may_load.clear()
        with open_index(str(base.path), data=base.data) as index:
            asking(index, "When does the garden close?")


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
