"""Answers by API, with the real client against a server of ours on loopback, whole and in parts."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.index.api.retry import Retry
from almanac.query.models.generators import ApiGenerator, load_generator
from almanac.schemas.declaration.generate import Generate
from almanac.schemas.errors import (
    AlmanacError,
    CredentialRefused,
    DeclarationError,
    OperationalError,
    RateLimited,
    Retriable,
    Unreachable,
)
from almanac.serve.problem_details import problem_of
from tests.loopback.faults import CHAT, COMMON, STREAM
from tests.loopback.mistral import LoopbackMistral, address_of

KEY = "sk-loopback-1234567890"
QUICK = Retry(attempts=3, malformed_attempts=2, base_s=0.001, cap_s=0.002, retry_after_cap_s=0.01)
MESSAGES = [
    {"role": "system", "content": "Answer from the passages."},
    {"role": "user", "content": "[1] Les enfants entrent gratuitement. Le reste paie."},
]
REPLY = "Les enfants entrent gratuitement. [1]"

_ERRORS: dict[str, type[AlmanacError]] = {
    **{name: Retriable for name in COMMON if name[:3] in ("408", "425", "500", "502", "503", "504")},
    **{name: RateLimited for name in COMMON if name.startswith("429")},
    **dict.fromkeys(("reset", "closed", "closed_mid_body", "no_http", "late", "slow_body"), Unreachable),
    **dict.fromkeys(("401", "401_echo", "403"), CredentialRefused),
    **dict.fromkeys(("404", "redirect", "redirect_same"), DeclarationError),
}
_HARMLESS = ("parts", "thinking", "cut_at_length", "stream_comments")


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackMistral]:
    with LoopbackMistral(patience_s=0.6) as serving:
        yield serving


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    monkeypatch.setenv("ALMANAC_DATA", str(tmp_path))


PROVIDERS = pytest.mark.parametrize("provider", ["mistral", "openai"])


def generator_of(server: LoopbackMistral, provider: str = "mistral", **declared: Any) -> ApiGenerator:
    section = {"provider": provider, **address_of(server, provider), "model": "small", "timeout_s": 0.3, **declared}
    return ApiGenerator(Generate.model_validate(section), retry=QUICK)


def ask(generator: ApiGenerator, *, streamed: bool) -> str:
    how = {"temperature": 0.2, "max_tokens": 500}
    return "".join(generator.stream(MESSAGES, **how)) if streamed else generator.generate(MESSAGES, **how)  # type: ignore[arg-type]


def test_reply_is_asked_for_as_declared(server: LoopbackMistral) -> None:
    server.strike(None)
    generator = generator_of(server, model="mistral-large-latest")
    assert ask(generator, streamed=False) == REPLY
    parts = list(generator.stream(MESSAGES, temperature=0.7, max_tokens=9))
    assert "".join(parts) == REPLY
    assert len(parts) == 5
    whole, streamed = server.requests
    assert whole["messages"] == MESSAGES
    assert (whole["model"], whole["temperature"], whole["max_tokens"]) == ("mistral-large-latest", 0.2, 500)
    assert (streamed["temperature"], streamed["max_tokens"], streamed["stream"]) == (0.7, 9, True)


def test_a_rate_limit_is_told_as_one_with_how_long_and_what_to_declare(server: LoopbackMistral) -> None:
    server.strike("429_seconds")
    with pytest.raises(RateLimited, match="its rate limit is reached: the server answers 429") as limited:
        ask(generator_of(server), streamed=False)
    assert limited.value.hint == "ask again in 1 s, as it says. generate.requests_per_second keeps below a limit"
    problem = problem_of(limited.value)
    assert (problem.status, problem.headers, "rate limit" in problem.detail) == (503, {"Retry-After": "1"}, True)
    server.strike("429_infinite")
    with pytest.raises(RateLimited) as endless:
        ask(generator_of(server), streamed=False)
    assert (endless.value.hint or "").startswith("ask again later.") and problem_of(endless.value).headers == {
        "Retry-After": "3600"
    }
    server.strike("503")
    with pytest.raises(Retriable) as failing:
        ask(generator_of(server), streamed=False)
    assert (
        "embed" not in f"{failing.value.hint}{problem_of(failing.value).detail}"
        and "rate limit" not in problem_of(failing.value).detail
    )


_LASTING = [*((name, False) for name in {**COMMON, **CHAT}), *((name, True) for name in {**COMMON, **STREAM})]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "streamed", "provider"),
    [
        (fault, streamed, provider)
        for fault, streamed in _LASTING
        for provider in ("mistral", "openai")
        if fault not in _HARMLESS and (fault, streamed, provider) != ("wrong_content_type", False, "openai")
    ],
)
def test_fault_that_lasts_ends_in_an_error_that_says_what_to_do(
    server: LoopbackMistral, fault: str, streamed: bool, provider: str
) -> None:
    server.strike(fault)
    generator = generator_of(server, provider)
    with pytest.raises(AlmanacError) as raised:
        ask(generator, streamed=streamed)
    assert type(raised.value) is _ERRORS.get(fault, OperationalError) or (
        streamed and isinstance(raised.value, OperationalError)
    ), raised.value
    assert raised.value.where == next(iter(address_of(server, provider).values()))
    assert raised.value.hint
    assert KEY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*COMMON, *CHAT])
def test_fault_that_passes_costs_no_reply(server: LoopbackMistral, fault: str) -> None:
    server.strike(fault, times=1)
    generator = generator_of(server)
    if _ERRORS.get(fault) in (CredentialRefused, DeclarationError) or fault in ("400_model", "402", "422", "422_odd"):
        with pytest.raises(AlmanacError):
            ask(generator, streamed=False)
        assert len(server.requests) == 1
    else:
        assert ask(generator, streamed=False) == REPLY


@PROVIDERS
@pytest.mark.parametrize("fault", ["stream_empty", "stream_nothing_said", "503", "reset", "html"])
def test_stream_is_begun_again_while_nothing_was_handed_out(server: LoopbackMistral, fault: str, provider: str) -> None:
    server.strike(fault, times=1)
    assert ask(generator_of(server, provider), streamed=True) == REPLY
    assert len(server.requests) == 2


@PROVIDERS
@pytest.mark.parametrize(
    "fault", ["stream_broken", "stream_without_end", "stream_garbage", "stream_not_utf8", "stream_error"]
)
def test_stream_that_breaks_off_is_an_error_and_not_a_short_answer(
    server: LoopbackMistral, fault: str, provider: str
) -> None:
    server.strike(fault, times=1)
    parts = []
    with pytest.raises(OperationalError):
        for part in generator_of(server, provider).stream(MESSAGES, temperature=0, max_tokens=9):
            parts.append(part)  # noqa: PERF402  what came before the break counts
    assert "".join(parts) == "Les "
    assert len(server.requests) == 1


@PROVIDERS
@pytest.mark.parametrize(
    ("fault", "streamed"), [("parts", False), ("thinking", False), ("cut_at_length", False), ("stream_comments", True)]
)
def test_other_forms_of_an_answer_are_read(server: LoopbackMistral, fault: str, streamed: bool, provider: str) -> None:
    server.strike(fault)
    assert ask(generator_of(server, provider), streamed=streamed) == REPLY


def test_there_is_a_generator_only_where_one_is_declared(
    server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_generator(Generate()) is None
    assert isinstance(load_generator(Generate(provider="mistral", server_url=server.url)), ApiGenerator)
    monkeypatch.delenv("MISTRAL_API_KEY")
    with pytest.raises(CredentialRefused) as raised:
        load_generator(Generate(provider="mistral"))
    assert raised.value.where == "MISTRAL_API_KEY"


def test_model_without_its_provider_is_refused() -> None:
    with pytest.raises(ValueError, match="belongs to an API, and the provider is extractive"):
        Generate.model_validate({"model": "mistral-small-latest"})


@pytest.mark.parametrize("streamed", [False, True])
def test_what_a_model_does_not_take_is_found_out_once_and_kept(server: LoopbackMistral, streamed: bool) -> None:
    server.strike("reasoning")
    assert ask(generator_of(server, "openai", model="thinker"), streamed=streamed) == REPLY
    assert [sorted({*body} & {"max_tokens", "max_completion_tokens", "temperature"}) for body in server.requests] == [
        ["max_tokens", "temperature"], ["max_completion_tokens", "temperature"], ["max_completion_tokens"],
    ]  # fmt: skip
    assert ask(generator_of(server, "openai", model="thinker"), streamed=streamed) == REPLY
    assert len(server.requests) == 4 and server.requests[3]["max_completion_tokens"] == 500
    server.strike("temperature_unsupported")
    assert ask(generator_of(server, "openai", model="another"), streamed=streamed) == REPLY
    assert len(server.requests) == 2 and server.requests[1]["max_tokens"] == 500


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_of_mistrals_protocol_that_refuses_an_option_says_so(server: LoopbackMistral, streamed: bool) -> None:
    server.strike("reasoning")
    with pytest.raises(OperationalError, match="'max_tokens' is not supported") as raised:
        ask(generator_of(server, "mistral", model="thinker"), streamed=streamed)
    assert raised.value.hint and len(server.requests) == 1


def test_a_key_is_sent_to_its_server_alone(server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-openai")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-openai")
    server.strike(None)
    with LoopbackMistral(needs_key=False) as other:
        ask(generator_of(server, "openai"), streamed=False)
        ask(ApiGenerator(Generate(provider="openai", base_url=f"{other.url}/v1", model="small")), streamed=False)
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
        sent = "".join(other.headers[-1].values())
        assert not any(key in sent for key in (KEY, "of-openai")) and "authorization" not in other.headers[-1]


def test_a_key_is_named_and_never_written() -> None:
    with pytest.raises(ValueError, match="must name a variable of the environment") as raised:
        Generate.model_validate({"provider": "openai", "model": "small", "key": KEY})
    assert KEY not in str(raised.value)
    assert Generate(provider="openai", model="small", key="${OWN_KEY}").key_variable == "OWN_KEY"
    assert Generate(provider="openai", model="small").key_variable == "OPENAI_API_KEY"
    assert Generate(provider="openai", model="small", base_url="http://127.0.0.1:1/v1").key_variable is None
