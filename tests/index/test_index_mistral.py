"""Embedding by API, with the real client against a server of ours on loopback that fails in every way that we know
of.
"""

import json
import logging
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.load import load_declaration
from almanac.core.tables import chunks_table, write_table
from almanac.index.api.retry import Retry
from almanac.index.embedding.api_embedder import ApiEmbedder
from almanac.index.embedding.embedder import RemoteEmbedder, describe_embedder
from almanac.index.embedding.score_thresholds import ScoreThresholds, score_thresholds
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import (
    AlmanacError,
    CredentialRefused,
    DeclarationError,
    OperationalError,
    RateLimited,
    Retriable,
    Unreachable,
)
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo
from tests.index.embedding import embed_missing
from tests.loopback.faults import COMMON, EMBEDDING, FAULTS, POISON, Exchange
from tests.loopback.mistral import LoopbackMistral, address_of, embed_text

KEY = "sk-loopback-1234567890"
DIMENSION = 16
QUICK = Retry(attempts=3, malformed_attempts=2, base_s=0.001, cap_s=0.002, retry_after_cap_s=0.01)
TEXTS = ["Les enfants entrent gratuitement.", "The garden closes at six.", "", "Phố cổ Hội An 🏮", "כלב", "A " * 300]


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackMistral]:
    with LoopbackMistral(dimension=DIMENSION, patience_s=0.6) as serving:
        yield serving


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    monkeypatch.setenv("ALMANAC_DATA", str(tmp_path))


def embedder_of(server: LoopbackMistral, provider: str = "mistral", **declared: Any) -> ApiEmbedder:
    embed = {"provider": provider, **address_of(server, provider), "dimension": DIMENSION, "timeout_s": 0.3, **declared}
    return ApiEmbedder(Embed.model_validate(embed), retry=QUICK)


def expected(texts: list[str]) -> np.ndarray[Any, Any]:
    return np.asarray([embed_text(text, DIMENSION) for text in texts], dtype=np.float32)


# What each fault comes to where it strikes every request. None: it is no fault, the vectors are right.
_ALWAYS: dict[str, type[AlmanacError] | None] = {
    **{name: Retriable for name in COMMON if name[:3] in ("408", "425", "500", "502", "503", "504")},
    **{name: RateLimited for name in COMMON if name.startswith("429")},
    **dict.fromkeys(("reset", "closed", "closed_mid_body", "no_http", "late", "slow_body"), Unreachable),
    **dict.fromkeys(("401", "401_echo", "403"), CredentialRefused),
    **dict.fromkeys(("404", "redirect", "redirect_same", "other_dimension", "short_vector"), DeclarationError),
    **dict.fromkeys(("400_model", "402", "422", "422_odd"), OperationalError),
    **dict.fromkeys(
        (
            "shuffled",
            "no_index",
            "no_id",
            "no_usage",
            "not_unit",
            "400_too_many_tokens",
            "413",
            "400_poison",
            "500_poison",
        ),
        None,
    ),
    # text by text they are right
    **dict.fromkeys(("nan_poison", "left_out_poison", "index_twice", "index_missing"), None),
}
# The answer says no to the request as it is: asking again says no again.
_FINAL = (
    "401",
    "401_echo",
    "402",
    "403",
    "404",
    "redirect",
    "redirect_same",
    "other_dimension",
    "400_model",
    "422",
    "422_odd",
)


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["mistral", "openai"])
@pytest.mark.parametrize("fault", [*COMMON, *EMBEDDING])
def test_fault_that_lasts_ends_in_an_error_that_says_what_to_do(
    server: LoopbackMistral, fault: str, provider: str
) -> None:
    """Never a wrong vector, and never the key."""
    server.strike(fault)
    embedder = embedder_of(server, provider)
    kind = _ALWAYS.get(fault, OperationalError)
    if kind is None or (fault, provider) == ("wrong_content_type", "openai"):
        assert np.allclose(embedder.embed_documents(TEXTS), expected(TEXTS), atol=1e-5)
        return
    with pytest.raises(OperationalError if kind is not DeclarationError else DeclarationError) as raised:
        embedder.embed_documents(TEXTS)
    assert type(raised.value) is kind, raised.value
    assert raised.value.where == next(iter(address_of(server, provider).values()))
    assert raised.value.hint
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert len(server.requests) <= 2 * QUICK.attempts, "asked more often than its kind is worth"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*COMMON, *EMBEDDING])
def test_fault_that_passes_costs_no_vector(server: LoopbackMistral, fault: str) -> None:
    server.strike(fault, times=1)
    embedder = embedder_of(server)
    if fault in _FINAL and fault not in ("400_model", "422", "422_odd"):
        with pytest.raises(AlmanacError):
            embedder.embed_documents(TEXTS)
        assert len(server.requests) == 1, "a final answer is asked for again"
    else:
        assert np.allclose(embedder.embed_documents(TEXTS), expected(TEXTS), atol=1e-5)


def test_there_are_forty_kinds_of_fault() -> None:
    assert len({*COMMON, *EMBEDDING}) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["400_poison", "500_poison", "nan_poison", "left_out_poison"])
@pytest.mark.parametrize("places", [[0], [37], [99], [3, 4, 60], [0, 99]])
def test_text_that_fails_alone_keeps_no_other_back(server: LoopbackMistral, fault: str, places: list[int]) -> None:
    server.strike(fault)
    texts = [f"text {number} {POISON}" if number in places else f"text {number}" for number in range(100)]
    vectors, refused = embedder_of(server).embed_each(texts)
    assert sorted(refused) == places
    assert all(refused.values())
    assert np.allclose(vectors, expected([text for text in texts if POISON not in text]), atol=1e-5)


def test_question_that_is_refused_is_an_error_with_the_servers_reason(server: LoopbackMistral) -> None:
    server.strike("400_poison")
    with pytest.raises(OperationalError, match="input cannot be read") as raised:
        embedder_of(server).embed_queries([POISON])
    assert sha256(POISON) in raised.value.message


def test_server_that_refuses_everything_blames_no_text(server: LoopbackMistral) -> None:
    server.strike("400_model")
    with pytest.raises(OperationalError, match="Invalid model: nonesuch"):
        embedder_of(server).embed_each(["a", "b"])
    assert len(server.requests) == 2  # the request, and a probe


def test_requests_are_packed_and_too_many_tokens_halve_them(server: LoopbackMistral) -> None:
    server.strike(None)
    embedder = embedder_of(server)
    texts = [f"{number} " + "word " * 200 for number in range(40)]
    embedder.embed_documents(texts)
    packed = [len(request["input"]) for request in server.requests]
    assert sum(packed) == 40
    assert len(packed) <= 2
    server.strike("400_too_many_tokens")
    assert np.allclose(embedder.embed_documents(texts), expected(texts), atol=1e-5)
    assert max(len(request["input"]) for request in server.requests[2:]) < 40


def test_tokens_are_those_that_the_server_bills_or_else_estimated(server: LoopbackMistral) -> None:
    server.strike(None)
    embedder = embedder_of(server)
    embedder.embed_documents(["word " * 20])
    assert embedder.tokens == 26
    server.strike("no_usage")
    embedder.embed_documents(["word " * 20])
    assert 26 + 20 < embedder.tokens < 26 + 60
    assert isinstance(embedder, RemoteEmbedder)


def test_nothing_asked_for_asks_nothing(server: LoopbackMistral) -> None:
    server.strike(None)
    assert embedder_of(server).embed_documents([]).shape == (0, DIMENSION)
    assert server.requests == []


@pytest.mark.parametrize(
    ("key", "finding"),
    [(None, "there is no key"), ("  ", "there is no key"), ("sk-x\ny", "not a valid key"), ("clé", "not a valid key")],
)
def test_missing_or_broken_key_is_told_by_its_variable_and_never_shown(
    server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch, key: str | None, finding: str
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY") if key is None else monkeypatch.setenv("MISTRAL_API_KEY", key)
    with pytest.raises(CredentialRefused, match=finding) as raised:
        embedder_of(server)
    assert raised.value.where == "MISTRAL_API_KEY"
    assert raised.value.exit_code == 7
    assert key is None or key.strip() == "" or key not in str(raised.value)


@pytest.mark.parametrize("provider", ["mistral", "openai"])
@pytest.mark.parametrize("fault", [None, "401", "401_echo", "500", "reset", "html", "redirect"])
def test_key_is_in_no_log_and_no_representation(
    server: LoopbackMistral,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    fault: str | None,
    provider: str,
) -> None:
    """Also where somebody asks the client to log everything."""
    monkeypatch.setenv("OPENAI_LOG", "debug")
    monkeypatch.setenv("MISTRAL_DEBUG", "1")
    monkeypatch.setenv("MISTRAL_SDK_TELEMETRY", "dedicated")
    caplog.set_level(logging.DEBUG)
    server.strike(fault)
    embedder = embedder_of(server, provider)
    try:
        embedder.embed_documents(["a"])
    except AlmanacError as error:
        shown = (
            "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
            + json.dumps(error.as_json())
            + repr(error)
        )
        assert KEY not in shown
    captured = capfd.readouterr()
    shown_texts = [
        caplog.text,
        captured.out,
        captured.err,
        repr(embedder),
        repr(vars(embedder)),
        repr(vars(embedder._api)),
        repr(embedder._api._client),
    ]
    assert not [text for text in shown_texts if KEY in text]


def test_redirect_takes_the_key_nowhere(server: LoopbackMistral) -> None:
    with LoopbackMistral(dimension=DIMENSION) as elsewhere:
        FAULTS["redirect_elsewhere"] = lambda exchange: exchange.send(
            307, b"", {"Location": f"{elsewhere.url}/v1/embeddings"}
        )
        try:
            server.strike("redirect_elsewhere")
            with pytest.raises(DeclarationError, match="redirects to"):
                embedder_of(server).embed_documents(["a"])
        finally:
            del FAULTS["redirect_elsewhere"]
        assert elsewhere.requests == []


def test_fingerprint_is_of_model_dimension_and_server() -> None:
    def described(**declared: Any) -> EmbedderInfo:
        return describe_embedder(Embed(provider="mistral", **declared))

    plain = described()
    assert (plain.provider, plain.model, plain.dimension, plain.metric) == ("mistral", "mistral-embed", 1024, "cosine")
    others = [described(server_url="http://127.0.0.1:9"), described(model="codestral-embed"), described(dimension=512)]
    assert len({plain.fingerprint, *(info.fingerprint for info in others)}) == 4
    assert described(server_url="http://127.0.0.1:9", same_as="https://api.mistral.ai/v1/") == plain
    assert described(price_per_million=0.1, max_cost=1, requests_per_second=2, timeout_s=5) == plain


def test_model_with_a_slash_is_a_name_and_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        "name: small\nsources: [{name: notes, kind: files, glob: '*.txt'}]\n"
        "embed: {provider: mistral, model: intfloat/e5-mistral-7b-instruct, server_url: 'http://127.0.0.1:9', "
        "dimension: 4096}\n"
    )
    assert load_declaration(str(path)).embed.model == "intfloat/e5-mistral-7b-instruct"


def test_who_waits_for_an_answer_is_told_sooner(server: LoopbackMistral) -> None:
    embedder = ApiEmbedder(
        Embed(provider="mistral", server_url=server.url, dimension=DIMENSION), retry=Retry(base_s=0.001, cap_s=0.002)
    )
    request_counts = []
    for embed in (embedder.embed_queries, embedder.embed_documents):
        server.strike("503")
        with pytest.raises(Retriable):
            embed(["a"])
        request_counts.append(len(server.requests))
    assert request_counts == [3, 6]


def test_floors_belong_to_the_model() -> None:
    def floors(**declared: Any) -> ScoreThresholds:
        return score_thresholds(describe_embedder(Embed(provider="mistral", **declared)))

    assert floors() == ScoreThresholds(0.70, 0.80)
    assert floors(model="somebody/else", dimension=8) == ScoreThresholds(0.0, 0.5)


@pytest.mark.parametrize("at", ["http://127.0.0.1:9/v1", "http://127.0.0.1:9/", "http://127.0.0.1:9/v1/"])
def test_server_url_may_be_written_with_its_path(at: str) -> None:
    assert Embed(provider="mistral", server_url=at).server_url == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("declared", "finding"),
    [
        ({"provider": "mistral", "model": "other"}, "dimension is required"),
        ({"provider": "mistral", "max_cost": 5}, "needs price_per_million"),
        ({"provider": "mistral", "server_url": "api.mistral.ai"}, "must be an address"),
        ({"provider": "mistral", "server_url": "http://127.0.0.1:99999"}, "is no address"),
        ({"provider": "mistral", "server_url": "http://u:secret@host"}, "must not hold a user"),
        ({"provider": "mistral", "precision": "bfloat16"}, "belongs to provider: local"),
        ({"server_url": "http://127.0.0.1:9"}, "belongs to provider: mistral"),
        ({"provider": "mistral", "price_per_million": "nan"}, "finite"),
    ],
)
def test_declaration_that_cannot_be_meant_is_refused(declared: dict[str, Any], finding: str) -> None:
    with pytest.raises(ValueError, match=finding) as raised:
        Embed.model_validate(declared)
    assert "secret" not in str(raised.value).replace("secret,", "").replace("type=secret", "")


def test_vectors_of_a_faulty_server_are_right_and_a_poison_text_gets_none(
    server: LoopbackMistral, tmp_path: Path, chunk_rows: Any
) -> None:
    rows = chunk_rows(40)
    poisoned = rows[7].embedded_text
    embedder = embedder_of(server)
    server.strike("400_poison")
    embedder_texts = {row.embedded_text for row in rows}
    path = tmp_path / "chunks.parquet"
    rows = [
        replace(row, embedded_text=f"{row.embedded_text} {POISON}") if row.embedded_text == poisoned else row
        for row in rows
    ]
    write_table(path, chunks_table(rows))
    store = VectorStore(tmp_path / "vectors", embedder.info)
    _, parts = embed_missing(path, store, lambda: embedder, checkpoint=10)
    refused = {key: reason for part in parts for key, reason in part.refused.items()}
    assert set(refused) == {sha256(f"{poisoned} {POISON}")}
    assert sum(part.embedded for part in parts) == len(embedder_texts) - 1
    assert sum(part.billed or 0 for part in parts) == embedder.tokens > 0
    taken = [text for text in embedder_texts if text != poisoned]
    assert np.allclose(store.read([sha256(text) for text in taken]), expected(taken), atol=1e-5)
    assert store.missing(row.text_sha256 for row in rows) == list(refused)
    with pytest.raises(OperationalError, match="input cannot be read"):
        embedder.embed_documents([f"{poisoned} {POISON}"])


def test_server_that_goes_down_while_a_request_is_divided_blames_no_text(
    server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is refused, the probe passes, and from then on nothing does."""
    seen = []

    def down(exchange: Exchange) -> None:
        seen.append(exchange)
        FAULTS["400_poison" if len(seen) <= 2 else "500"](exchange)

    monkeypatch.setitem(FAULTS, "down", down)
    server.strike("down")
    with pytest.raises(Retriable):
        embedder_of(server).embed_each(["a", POISON, "c", "d"])


@pytest.mark.parametrize("key", [r'sk-"quoted"\and\more', "sk-'plain'/+=", KEY])
def test_key_that_a_server_repeats_in_any_form_is_masked(
    server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", key)
    answers: list[tuple[int, bytes, str]] = [
        (400, json.dumps({"message": {"odd": [f"Bearer {key}"]}}).encode(), "application/json"),
        (400, f"refused: {key}".encode(), "text/plain"),
        (200, b"{}", f"text/{key}"),
        (418, json.dumps([key]).encode(), "application/json"),
    ]
    sent_answers: list[tuple[int, bytes, str]] = []

    def echo(exchange: Exchange) -> None:
        status, body, kind = sent_answers[-1]
        exchange.send(status, body, kind=kind)

    monkeypatch.setitem(FAULTS, "echo", echo)
    for answer in answers:
        sent_answers.append(answer)
        server.strike("echo")
        with pytest.raises(AlmanacError) as raised:
            embedder_of(server).embed_documents(["a"])
        shown = "".join(traceback.format_exception(raised.value)) + json.dumps(raised.value.as_json())
        assert key not in shown and json.dumps(key)[1:-1] not in shown and repr(key)[1:-1] not in shown


def test_what_a_server_says_gives_a_terminal_no_orders(
    server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        FAULTS, "escape", lambda exchange: exchange.send_json({"message": "\x1b[2Jno\x07 such\u202e model\u0000"}, 404)
    )
    server.strike("escape")
    with pytest.raises(DeclarationError, match="no such model") as raised:
        embedder_of(server).embed_documents(["a"])
    assert raised.value.message.isprintable()
