"""What the HTTP API answers: chat, streams, searches, sources, versions, metrics."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from almanac.serve.server_settings import Settings
from tests.conftest import PATIENCE_S, ROOT
from tests.loopback.mistral import LoopbackMistral
from tests.serve.conftest import NOTES, Serving, events_of

pytestmark = pytest.mark.xdist_group("serve")
QUESTION = "When does the garden close in winter?"


def test_a_chat_is_answered_with_sources_and_version(api: httpx.Client) -> None:
    answer = api.post("/api/chat", json={"message": QUESTION}).json()
    assert answer.keys() >= {"reply", "sources", "pathway", "citation", "version", "kb", "answered"}
    assert (answer["kb"], answer["version"], answer["pathway"], answer["answered"]) == (
        "notes",
        "v0001",
        "kb-only",
        True,
    )
    assert "five in winter" in answer["reply"]
    assert answer["citation"] == "Source: The notes"
    assert (
        answer["sources"][0].items()
        >= {"marker": "[1]", "url": "https://garden.example/opening-hours", "title": "Opening hours"}.items()
    )


def test_what_is_not_there_is_said_to_be_unknown(api: httpx.Client) -> None:
    answer = api.post("/api/chat", json={"message": "Quantum chromodynamics"}).json()
    assert (answer["answered"], answer["sources"], answer["citation"]) == (False, [], None)


@pytest.mark.parametrize(("accept", "stream"), [("text/event-stream", False), ("application/json", True)])
def test_a_stream_is_the_answer_in_pieces(
    api: httpx.Client, mistral: LoopbackMistral, accept: str, stream: bool
) -> None:
    mistral.strike(None)
    body = {"message": QUESTION, "kb": "guide", "stream": stream}
    response = api.post("/api/chat", json=body, headers={"Accept": accept})
    *tokens, (name, answer) = events_of(response)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert name == "done"
    assert tokens
    assert {event for event, _ in tokens} == {"token"}
    assert "".join(data["text"] for _, data in tokens) == answer["reply"]
    assert answer["version"] == "v0001"


def test_what_is_wrong_with_a_question_is_a_status_before_the_stream_begins(api: httpx.Client) -> None:
    response = api.post("/api/chat", json={"message": QUESTION, "kb": "nonesuch", "stream": True})
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


def test_a_stream_that_breaks_ends_with_the_problem(api: httpx.Client, mistral: LoopbackMistral) -> None:
    """The model stops after words that were passed on already."""
    # its question's vector is not kept, the next one's neither
    api.post("/api/chat", json={"message": QUESTION, "kb": "guide"})
    mistral.strike(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.query.models.generators.ApiGenerator.stream", _broken)
        events = events_of(api.post("/api/chat", json={"message": QUESTION, "kb": "guide", "stream": True}))
    assert events[0][0] == "token"
    name, problem = events[-1]
    assert (name, problem["status"], problem["type"]) == ("error", 503, "urn:almanac:problem:unreachable")


def test_a_chat_may_use_the_names_of_other_clients(api: httpx.Client) -> None:
    body = {"message": QUESTION, "history": [], "kb": "guide"}
    for enabled, mode in ((True, "kb-llm"), (False, "kb-only")):
        named, ours = (
            api.post("/api/chat", json={**body, **more}).json()
            for more in ({"enableLLM": enabled}, {"options": {"mode": mode}})
        )
        assert named["answer"] == named["reply"] == ours["reply"] and named["pathway"] == ours["pathway"]
    streamed = events_of(api.post("/api/chat", json={**body, "enableLLM": False, "stream": True}))[-1][1]
    assert streamed["answer"] == streamed["reply"]
    refused = api.post("/api/chat", json={**body, "enableLLM": True, "options": {"mode": "kb-only"}})
    assert refused.status_code == 422 and "enableLLM and options.mode" in refused.text
    assert api.post("/api/chat", json={**body, "enableLLM": "true"}).status_code == 422


def test_who_leaves_a_stream_frees_its_place(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    is_closed = threading.Event()

    def endless(*_: Any, **__: Any) -> Iterator[str]:
        try:
            while True:
                time.sleep(0.01)
                yield "and so on "
        finally:
            is_closed.set()

    monkeypatch.setattr("almanac.query.published.PublishedIndex.stream", endless)
    with serving() as client:
        with client.stream("POST", "/api/chat", json={"message": QUESTION, "stream": True}) as response:
            assert next(response.iter_text()).startswith("event: token")
        assert is_closed.wait(5)
        assert "in_flight 0.0" in client.get("/metrics").text


def _broken(*_: Any, **__: Any) -> Any:
    from almanac.schemas.errors import Unreachable

    yield "The garden closes at five in winter. [1] "
    yield "And then, as far as one knows, it stays closed until the morning. "
    raise Unreachable("does not answer", where="http://model.invalid/v1?key=secret")


def test_options_reach_the_model_and_the_search(api: httpx.Client, mistral: LoopbackMistral) -> None:
    mistral.strike(None)
    history = [
        {"role": "user", "content": "Tell me about dogs."},
        {"role": "assistant", "content": "They stay outside."},
    ]
    options = {"temperature": 1.25, "retrievalK": 1, "mode": "kb-llm"}
    answer = api.post(
        "/api/chat", json={"message": QUESTION, "kb": "guide", "history": history, "options": options}
    ).json()
    *_, rewriting, model_request = (request for request in mistral.requests if "messages" in request)
    assert (rewriting["temperature"], "Next message of the user" in str(rewriting["messages"])) == (0, True)
    assert model_request["temperature"] == 1.25
    assert [message["content"] for message in model_request["messages"]].count("Tell me about dogs.") == 1
    assert "[2]" not in str(model_request["messages"])
    assert answer["pathway"] in ("kb-augmented", "llm-fallback")


def test_language_of_the_reply_may_be_asked_for(api: httpx.Client, mistral: LoopbackMistral) -> None:
    mistral.strike(None)
    body = {"message": QUESTION, "kb": "guide", "options": {"language": "he"}}
    assert api.post("/api/chat", json=body).status_code == 200
    assert "Write in Hebrew (he)." in mistral.requests[-1]["messages"][0]["content"]
    refused = api.post("/api/chat", json={**body, "options": {"language": "qq"}})
    assert (refused.status_code, refused.json()["where"]) == (422, "language")


@pytest.mark.parametrize("stream", [False, True])
def test_sentence_whose_figures_no_passage_has_is_left_out(
    api: httpx.Client, mistral: LoopbackMistral, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    mistral.strike(None)
    monkeypatch.setattr(mistral, "says", "In winter the garden closes at five [1]. A ticket costs 12 euros [1].")
    response = api.post("/api/chat", json={"message": QUESTION, "kb": "guide", "stream": stream})
    answer = events_of(response)[-1][1] if stream else response.json()
    assert (answer["reply"], answer["dropped_sentences"]) == ("In winter the garden closes at five [1].", 1)
    if stream:
        assert "".join(data["text"] for name, data in events_of(response) if name == "token") == answer["reply"]


def test_the_environment_sets_what_a_chat_leaves_out(
    serving: Serving, mistral: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "RETRIEVAL_K": "1",
        "TEMPERATURE": "0.7",
        "INDEX_NAME": "guide",
        "MAX_INPUT_CHARS": "40",
    }.items():
        monkeypatch.setenv(name, value)
    with serving(default=None) as client:
        mistral.strike(None)
        assert client.post("/api/chat", json={"message": QUESTION}).json()["kb"] == "guide"
        model_request = next(request for request in mistral.requests if "messages" in request)
        assert model_request["temperature"] == 0.7
        assert "[2]" not in str(model_request["messages"])
        assert client.post("/api/chat", json={"message": "x" * 41}).status_code == 422


def test_sources_come_page_by_page(api: httpx.Client) -> None:
    first = api.get("/api/sources", params={"limit": 3}).json()
    rest = api.get("/api/sources", params={"limit": 3, "offset": first["next"]}).json()
    assert first["items"][0] == {"source": "https://garden.example/boats", "title": "Boats", "chunks": 1}
    assert (first["total"], first["next"], rest["next"]) == (4, 3, None)
    assert [item["title"] for item in first["items"] + rest["items"]] == sorted(title for title, _, _ in NOTES)
    assert api.get("/api/sources", params={"workspace": "red"}).json()["total"] == 2


def test_search_kb_has_the_short_shape(api: httpx.Client) -> None:
    reply = api.post("/search_kb", json={"query": "dogs on a lead", "top_k": 2}).json()
    assert [chunk.keys() for chunk in reply["chunks"]] == [{"text", "metadata", "score"}] * 2
    assert (
        reply["chunks"][0]["metadata"].items()
        >= {"source": "https://garden.example/dogs", "chunk_index": 0, "language": "en", "team": "blue"}.items()
    )
    assert reply["chunks"][0]["score"] >= reply["chunks"][1]["score"]


def test_several_bases_are_asked_and_searched_at_once(api: httpx.Client, mistral: LoopbackMistral) -> None:
    mistral.strike(None)
    both, versions = ["notes", "guide"], {"notes": "v0001", "guide": "v0001"}
    answer = api.post("/api/chat", json={"message": QUESTION, "kb": both}).json()
    assert (answer["answered"], answer["kb"], answer["versions"]) == (True, "notes", versions)
    assert "five in winter" in answer["reply"]
    assert {source["kb"] for source in answer["sources"]} <= set(both)
    name, streamed = events_of(api.post("/api/chat", json={"message": QUESTION, "kb": both, "stream": True}))[-1]
    assert (name, streamed) == ("done", answer)
    search_result = api.post("/api/search", json={"query": QUESTION, "kb": both, "k": 3}).json()
    assert (len(search_result["hits"]), search_result["versions"]) == (3, versions)
    assert {hit["kb"] for hit in search_result["hits"]} <= set(both)
    short = api.post("/search_kb", json={"query": QUESTION, "kb": both, "top_k": 3}).json()
    assert [chunk["metadata"]["kb"] for chunk in short["chunks"]] == [hit["kb"] for hit in search_result["hits"]]
    alone = api.post("/api/search", json={"query": QUESTION, "kb": "notes"}).json()
    assert (alone["versions"], {hit["kb"] for hit in alone["hits"]}) == (None, {None})


def test_a_search_takes_filter_mode_floor_version_workspace_and_explains(api: httpx.Client) -> None:
    body = {
        "query": "the garden",
        "k": 10,
        "mode": "dense",
        "where": {"team": {"$in": ["blue"]}},
        "version": "v0001",
        "explain": True,
    }
    search_result = api.post("/api/search", json=body).json()
    assert search_result.keys() == {"kb", "version", "versions", "query", "hits", "explain", "note", "searched"}
    assert {hit["metadata"]["team"] for hit in search_result["hits"]} == {"blue"}
    assert [step["step"] for step in search_result["explain"]][:3] == ["query", "filter", "dense"]
    assert api.post("/api/search", json={**body, "floor": 1}).json()["hits"] == []
    assert (
        api.post("/api/search", json={"query": "garden", "workspace": "red", "where": {"team": "blue"}}).json()["hits"]
        == []
    )


def test_what_there_is_is_told(api: httpx.Client) -> None:
    bases = api.get("/api/kbs").json()
    assert bases["default"] == "notes"
    assert [base["size_mb"] for base in bases["items"]] == [
        api.get(f"/api/versions?kb={kb}").json()["versions"][0]["size_mb"] for kb in ("guide", "notes")
    ]
    assert [(base["kb"], base["version"], base["modes"]) for base in bases["items"]] == [
        ("guide", "v0001", ["kb-only", "kb-llm"]),
        ("notes", "v0001", ["kb-only"]),
    ]
    versions = api.get("/api/versions", params={"kb": "notes"}).json()
    assert (versions["current"], versions["versions"][-1]["version"]) == (versions["versions"][0]["version"], "v0001")


def test_health_readiness_and_metrics(serving: Serving) -> None:
    with serving() as client:
        assert client.get("/health").json() == {"status": "ok"}
        deadline = time.monotonic() + PATIENCE_S
        while (ready := client.get("/ready")).status_code == 503 and time.monotonic() < deadline:
            assert ready.headers["retry-after"] == "2"
            time.sleep(0.05)
        assert ready.json()["versions"].keys() == {"notes", "guide"}
        assert [client.head(path).status_code for path in ("/health", "/ready")] == [200, 200]
        client.post("/api/chat", json={"message": QUESTION})
        client.get("/no/such/path")
        metrics = client.get("/metrics").text
    for line in (
        'almanac_requests_total{method="POST",route="/api/chat",status="200"} 1.0',
        'almanac_requests_total{method="GET",route="none",status="404"} 1.0',
        'almanac_answers_total{answered="true",kb="notes",pathway="kb-only"} 1.0',
        'almanac_request_seconds_count{route="/api/chat"} 1.0',
        'almanac_live_version_info{kb="notes"',
        "almanac_requests_in_flight 0.0",
    ):
        assert line in metrics


def test_the_description_has_examples_and_limits_and_loads_nothing(api: httpx.Client) -> None:
    described = api.get("/openapi.json").json()
    assert described["components"]["schemas"]["ChatRequest"]["properties"]["message"]["maxLength"] == 12_000
    assert described["components"]["schemas"]["ChatRequest"]["examples"]
    assert "application/problem+json" in described["paths"]["/api/chat"]["post"]["responses"]["429"]["content"]
    assert api.get("/docs").status_code == 404


def test_every_setting_and_route_is_documented(api: httpx.Client) -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    for setting in Settings.model_fields.values():
        shown = "" if setting.default is None or isinstance(setting.default, SecretStr) else f"`{setting.default}`"
        assert f"| `{setting.validation_alias}` | {shown} | {setting.description} |" in page
    for path, methods in api.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"| `{method.upper()} {path}` |" in page


@pytest.mark.parametrize("path", ["/api/chat", "/health", "/nowhere"])
def test_every_answer_forbids_guessing(api: httpx.Client, path: str) -> None:
    headers = api.get(path).headers
    assert (headers["x-content-type-options"], headers["cache-control"], headers["referrer-policy"]) == (
        "nosniff",
        "no-store",
        "no-referrer",
    )
    assert "access-control-allow-origin" not in headers
