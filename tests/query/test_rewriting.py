"""Follow-up questions that the declared model rewrites, asked of a real client against a server of ours; and a server
that fails.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from almanac.query import open_index
from almanac.query.retrieval.searching import rewrite
from almanac.schemas.results import Answer, SearchResult
from tests.index.small_models import save_embedder
from tests.loopback.mistral import LoopbackMistral
from tests.query.answering import Says
from tests.query.small_base import SmallBase

pytestmark = pytest.mark.slow  # a model is saved and loaded

_HISTORY = [
    {"role": "user", "content": "When does the garden close in summer?"},
    {"role": "assistant", "content": "At six. [1]"},
]
_QUESTION, _REWRITTEN, _TOGETHER = (
    "And in winter?",
    "When does the garden close in winter?",
    "When does the garden close in summer? And in winter?",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackMistral]:
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-loopback-1234567890")
    with LoopbackMistral(patience_s=0.6) as serving:
        serving.says = _REWRITTEN
        yield serving


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> SmallBase:
    base = SmallBase(tmp_path_factory.mktemp("rewritten"))
    save_embedder(base.folder / "model")
    base.publish(embed={"model": "./model"}, language="en")
    return base


def _declare(base: SmallBase, server: LoopbackMistral) -> str:
    written = {"provider": "mistral", "model": "mistral-small-latest", "server_url": server.url, "timeout_s": 0.4}
    return base.declare(embed={"model": "./model"}, language="en", generate=written)


def _search(base: SmallBase, server: LoopbackMistral, history: Any = _HISTORY) -> SearchResult:
    with open_index(_declare(base, server), data=base.data) as index:
        return index.search(_QUESTION, history=history, explain=True)


def _step(result: SearchResult) -> dict[str, Any]:
    (step,) = [step for step in result.explain or [] if step["step"] == "follow-up"]
    return step


def test_the_model_writes_the_question_that_is_searched_for(published: SmallBase, server: LoopbackMistral) -> None:
    search_result = _search(published, server)
    assert (search_result.query, search_result.searched, _step(search_result)["written"]) == (
        _QUESTION,
        _REWRITTEN,
        _REWRITTEN,
    )
    (request,) = server.requests
    prompt = request["messages"][0]["content"]
    assert (request["temperature"], request["max_tokens"], len(request["messages"])) == (0, 150, 1)
    assert all(
        text in prompt for text in (_QUESTION, "User: When does the garden close in summer?", "Assistant: At six.")
    )


def test_an_answer_says_what_was_searched_for_and_is_written_for_the_question_as_asked(
    published: SmallBase, server: LoopbackMistral
) -> None:
    with open_index(_declare(published, server), data=published.data) as index:
        answered = index.ask(_QUESTION, history=_HISTORY, floor=-1.0)
    assert isinstance(answered, Answer) and answered.searched == _REWRITTEN
    assert len(server.requests) == 2 and _QUESTION in server.requests[1]["messages"][-1]["content"]


def test_the_model_is_not_asked_where_nothing_came_before(published: SmallBase, server: LoopbackMistral) -> None:
    assert _search(published, server, history=[]).searched is None
    assert server.requests == []


@pytest.mark.parametrize("fault", ["500", "late", "402"])
def test_the_words_decide_where_the_model_does_not_answer(
    published: SmallBase, server: LoopbackMistral, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.strike(fault)
    search_result = _search(published, server)
    assert search_result.searched == _TOGETHER and _step(search_result)["failure"]
    assert len(server.requests) <= 2, "a user is waiting"
    assert "sk-loopback" not in str(search_result) + caplog.text


class _Writes(Says):
    def generate(self, *_: Any, **__: Any) -> str:
        return self.reply


@pytest.mark.parametrize("reply", ["The garden closes at six.\n\nIn winter it closes at five.", "x" * 601, "\n", '""'])
def test_what_is_no_single_question_is_not_searched_for(reply: str) -> None:
    assert rewrite(_Writes(reply), _QUESTION, _HISTORY).lines == []


def test_quotes_around_the_question_are_taken_off() -> None:
    assert rewrite(_Writes(f'\n"{_REWRITTEN}"\n'), _QUESTION, _HISTORY).lines == [_REWRITTEN]
