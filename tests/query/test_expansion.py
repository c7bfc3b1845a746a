"""Other wordings of a question, asked of a real client against a server of ours: what a search makes of them, and of a
server that fails.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from almanac.cli.questions import search
from almanac.core.settings import installation
from almanac.query import open_index
from almanac.schemas.errors import CredentialRefused, DeclarationError
from almanac.schemas.results import SearchResult
from tests.index.small_models import save_embedder
from tests.loopback.faults import FAULTS, Exchange
from tests.loopback.mistral import LoopbackMistral
from tests.query.small_base import SmallBase

pytestmark = pytest.mark.slow  # a model is saved and loaded

_QUESTION = "When does it shut?"
_WORDINGS = ["Closing time of the garden", "When do the boats leave?"]


def _writes(exchange: Exchange) -> None:
    choice = {
        **exchange.answer["choices"][0],
        "message": {"role": "assistant", "content": "\n".join(f"- {wording}" for wording in _WORDINGS)},
    }
    exchange.send_json({**exchange.answer, "choices": [choice]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackMistral]:
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-loopback-1234567890")
    monkeypatch.setitem(FAULTS, "wordings", _writes)
    with LoopbackMistral(patience_s=0.6) as serving:
        serving.strike("wordings")
        yield serving


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> SmallBase:
    folder = tmp_path_factory.mktemp("kb")
    base = SmallBase(folder)
    save_embedder(folder / "model")
    base.publish(embed={"model": "./model"})
    return base


def _declare(published: SmallBase, server: LoopbackMistral, expand: int = 2, **generate: Any) -> str:
    written = {"provider": "mistral", "server_url": server.url, "timeout_s": 0.4, **generate}
    return published.declare(embed={"model": "./model"}, retrieve={"expand": expand}, generate=written)


def _search(path: str, base: SmallBase, question: str = _QUESTION, **how: Any) -> SearchResult:
    with open_index(path, data=base.data) as index:
        return index.search(question, explain=True, **how)


def _step(result: SearchResult, name: str) -> dict[str, Any]:
    (step,) = [step for step in result.explain or [] if step["step"] == name]
    return step


def test_each_wording_is_searched_for_and_shown(
    published: SmallBase, server: LoopbackMistral, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _declare(published, server)
    result = _search(path, published, k=4)
    assert _step(result, "other wordings")["wordings"] == _WORDINGS
    assert [step["step"] for step in result.explain or []].count("lexical") == 3
    singles = [_search(_declare(published, server, expand=0), published, text, k=4) for text in (_QUESTION, *_WORDINGS)]
    best = {
        hit.chunk_id: max(other.score for single in singles for other in single.hits if other.chunk_id == hit.chunk_id)
        for hit in result.hits
    }
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([best[hit.chunk_id] for hit in result.hits], abs=2e-6), (
        "vectors of a batch are rounded differently"
    )
    requests = [request for request in server.requests if _QUESTION in request["messages"][-1]["content"]]
    assert len(requests) == 1 == len(server.requests), "asked once, and not at all where nothing is declared"

    search(_declare(published, server), _QUESTION, explain=True, data=str(published.data))
    assert _WORDINGS[0] in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_words_alone_need_no_vector_of_a_wording(
    published: SmallBase, server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "almanac.query.published.load_embedder", lambda *_, **__: pytest.fail("a model was loaded for words")
    )
    result = _search(_declare(published, server), published, mode="lexical", k=4)
    assert {hit.title for hit in result.hits} >= {"boats"}


@pytest.mark.parametrize("fault", ["429", "reset", "html", "null_content", "400_model"])
def test_a_question_is_searched_for_alone_where_the_model_does_not_answer(
    published: SmallBase, server: LoopbackMistral, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.strike(fault)
    result = _search(_declare(published, server), published)
    alone = _search(_declare(published, server, expand=0), published)
    step = _step(result, "other wordings")
    assert step["wordings"] == [] and step["failure"], "the trace hides why"
    assert [(hit.chunk_id, hit.score) for hit in result.hits] == [(hit.chunk_id, hit.score) for hit in alone.hits] != []
    assert len(server.requests) <= 2, "whoever waits for hits waits for a model"
    assert "sk-loopback" not in str(result) + caplog.text


def test_a_failure_is_told_on_stderr_without_explain(published: SmallBase, server: LoopbackMistral) -> None:
    server.strike("500")
    arguments = ["search", _declare(published, server), _QUESTION]
    command = [*arguments, "--mode", "lexical", "--data", str(published.data), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "almanac.cli.main", *command],
        cwd=installation(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)["explain"]) == (0, None)
    assert "the model wrote no other wordings" in done.stderr and "500" in done.stderr


@pytest.mark.parametrize(
    ("fault", "kind"), [("401", CredentialRefused), ("404", DeclarationError), ("redirect", DeclarationError)]
)
def test_what_the_operator_has_to_mend_is_raised(
    published: SmallBase, server: LoopbackMistral, fault: str, kind: type[Exception]
) -> None:
    server.strike(fault)
    with pytest.raises(kind):
        _search(_declare(published, server), published)


def test_a_missing_key_is_raised(
    published: SmallBase, server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY")
    with pytest.raises(CredentialRefused):
        _search(_declare(published, server), published)
    assert _search(_declare(published, server, expand=0), published).hits
