"""Every example knowledge base answers with Mistral under `--env mistral`: the real client, a server of ours on
loopback, whole replies and streams.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.query.published import PublishedIndex
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import CredentialRefused
from almanac.schemas.results import Answer
from tests.conftest import Example
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.loopback.mistral import LoopbackMistral

_QUESTIONS = {
    "handbook": "How many days of annual leave do I have?",
    "products": "מה האחריות על המחשב הנייד?",
    "versailles": "Quel est le tarif pour un enfant de 10 ans ?",
    "workspace": "Who approves a pull request?",
}


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackMistral]:
    with LoopbackMistral() as serving:
        yield serving


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)


@pytest.mark.parametrize("kb", ["handbook", "products", "versailles", "voyago", "workspace"])
def test_overlay_generates_and_embeds_where_the_base_says_so(kb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_SERVER_URL", "http://127.0.0.1:9")
    base, over = load_declaration(kb, ""), load_declaration(kb, "mistral")
    assert (over.generate.provider, over.generate.model, over.generate.server_url) == (
        "mistral",
        "mistral-small-latest",
        "http://127.0.0.1:9",
    )
    if kb == "versailles":  # embedded by the API as well: an index of its own
        assert (over.name, over.embed.model, over.embed.same_as) == (
            "versailles-mistral",
            "mistral-embed",
            "https://api.mistral.ai",
        )
    else:  # the same index, answered from by a model
        assert over.model_dump(exclude={"generate"}) == base.model_dump(exclude={"generate"})


def test_temperature_and_length_are_those_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_SERVER_URL", raising=False)
    declared = {kb: load_declaration(kb, "mistral").generate for kb in ("voyago", "products")}
    assert (declared["voyago"].temperature, declared["products"].temperature, declared["products"].max_tokens) == (
        0.2,
        0.3,
        500,
    )
    assert declared["voyago"].server_url == "https://api.mistral.ai"


@pytest.mark.slow
@pytest.mark.parametrize("kb", _QUESTIONS)
def test_example_is_answered_by_the_model_of_its_overlay(
    kb: str, server: LoopbackMistral, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_SERVER_URL", server.url)
    server.strike(None)
    declaration, question = _embedded_on_loopback(load_declaration(kb, "mistral"), server), _QUESTIONS[kb]
    with without_children(), monkeypatch.context() as patch:
        patch.setenv("MISTRAL_API_KEY", "any")
        report = carry_out(Run(declaration, DataDir(tmp_path)))
    assert report["outcome"] == "published", report
    with PublishedIndex(declaration, DataDir(tmp_path)) as index:
        with pytest.raises(CredentialRefused) as refused:
            index.ask(question)
        assert (refused.value.where, bool(refused.value.hint)) == ("MISTRAL_API_KEY", True)
        monkeypatch.setenv("MISTRAL_API_KEY", "any")
        whole = index.ask(question, floor=-1)
        *pieces, streamed = index.stream(question, floor=-1)
    assert isinstance(streamed, Answer)
    assert whole.answered
    assert (whole.reply, whole.sources[0].marker, whole.pathway) == (streamed.reply, "[1]", "kb-only")
    assert "".join(map(str, pieces)) == streamed.reply
    requests = [request for request in server.requests if "messages" in request]
    assert [
        (request["model"], request["temperature"], request["max_tokens"], request["stream"]) for request in requests
    ] == [
        ("mistral-small-latest", declaration.generate.temperature, declaration.generate.max_tokens, is_stream)
        for is_stream in (False, True)
    ]
    assert question in requests[0]["messages"][-1]["content"]


@pytest.mark.slow
@pytest.mark.xdist_group("voyago")
def test_overlay_answers_from_the_index_of_the_base(voyago: Example, server: LoopbackMistral) -> None:
    """Nothing is embedded by the overlay, so the version that is live answers, and only an answer needs the key."""
    server.strike(None)
    question = ("ask", "voyago", "Which tours go to Ha Long?", "--env", "mistral", "--json")
    refused = voyago.almanac(*question, MISTRAL_SERVER_URL=server.url, MISTRAL_API_KEY="")
    assert refused.code == 7
    assert refused.json["error"]["where"] == "MISTRAL_API_KEY"
    answered = voyago.almanac(*question, MISTRAL_SERVER_URL=server.url, MISTRAL_API_KEY="any")
    assert answered.code == 0, answered.stderr
    assert answered.json["version"] == "v0001"
    assert server.requests[-1]["model"] == "mistral-small-latest"


def _embedded_on_loopback(declaration: Declaration, server: LoopbackMistral) -> Declaration:
    """The declaration with an embedder that needs no model in memory, and no gate on what it finds."""
    embed = Embed.model_validate({"provider": "mistral", "model": "mistral-embed", "server_url": server.url})
    return declaration.model_copy(
        update={"embed": embed, "gate": declaration.gate.model_copy(update={"min_recall": None})}
    )
