"""A real model on this machine writes the answers: llama.cpp's server, asked by OpenAI's protocol."""

import time
from collections.abc import Iterator

import httpx
import pytest

from almanac.query.models.generators import ApiGenerator
from almanac.schemas.declaration.generate import Generate
from almanac.schemas.errors import OperationalError
from tests.loopback.llama import CONTEXT, lacking, serving_model
from tests.loopback.mistral import LoopbackMistral
from tests.serve.conftest import Bases, events_of, serve_bases

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("serve"),
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
]
QUESTION = "When does the garden close in winter?"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serving_model() as address:
        yield address


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral, model: str) -> Iterator[httpx.Client]:
    """A server over a knowledge base whose answers the model writes."""
    bases = Bases(tmp_path_factory.mktemp("local"), mistral)
    generate = {"provider": "openai", "base_url": model, "model": "smollm2", "max_tokens": 24, "temperature": 0}
    local = bases.declare("local", retrieve={"floor": 0.15, "confident": 0.4}, generate=generate)
    bases.publish(local)
    with serve_bases(bases, names=[local], default="local") as client:
        client.timeout = 120
        yield client


def test_it_writes_from_the_documents_whole_and_in_parts(api: httpx.Client) -> None:
    whole = api.post("/api/chat", json={"message": QUESTION})
    assert whole.status_code == 200
    answer = whole.json()
    assert answer["reply"] and answer["version"] == "v0001" and answer["pathway"] == "kb-only"
    events = events_of(api.post("/api/chat", json={"message": QUESTION, "stream": True}))
    assert events[-1][0] == "done"
    assert "".join(data["text"] for name, data in events if name == "token") == events[-1][1]["reply"]


def test_with_what_it_knows_itself_and_a_history_it_answers_too(api: httpx.Client) -> None:
    history = [{"role": "user", "content": "Is the garden open?"}, {"role": "assistant", "content": "It is."}]
    body = {"message": "And in winter?", "history": history, "options": {"mode": "kb-llm"}}
    answer = api.post("/api/chat", json=body).json()
    assert answer["reply"] and answer["pathway"] in ("kb-augmented", "llm-fallback")


def test_who_leaves_its_stream_frees_it(model: str) -> None:
    generator = ApiGenerator(Generate(provider="openai", base_url=model, model="smollm2"))
    endless = generator.stream([{"role": "user", "content": "Count to a thousand."}], temperature=0, max_tokens=1500)
    assert next(iter(endless))
    endless.close()  # type: ignore[attr-defined]  # it is a generator
    begun = time.monotonic()
    assert generator.generate([{"role": "user", "content": "Say yes."}], temperature=0, max_tokens=4)
    assert time.monotonic() - begun < 60, "it went on writing what nobody reads"


@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_too_long_for_it_is_an_error_in_its_words(model: str, streamed: bool) -> None:
    generator = ApiGenerator(Generate(provider="openai", base_url=model, model="smollm2"))
    long = [{"role": "user", "content": "word " * 2 * CONTEXT}]
    with pytest.raises(OperationalError, match="exceeds the available context size") as raised:
        if streamed:
            list(generator.stream(long, temperature=0, max_tokens=4))
        else:
            generator.generate(long, temperature=0, max_tokens=4)
    assert raised.value.where == model and "generate.passage_tokens" in str(raised.value.hint)
