"""Rate limits of `almanac serve`, which no spelling of the caller or of the path evades."""

import time
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from tests.hardening.tally import some, tallied
from tests.hardening.wire import exchanged
from tests.loopback.mistral import LoopbackMistral
from tests.serve.conftest import Bases, serve_bases

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-framing")]
_RATE = 3  # requests a minute
_KEY = "0123456789abcdef"
_SPELLINGS = (
    "Bearer {key}",
    "bearer {key}",
    "BEARER {key}",
    "Bearer  {key}",
    "Bearer {key} ",
    "Bearer {key}\t",
    "Bearer\t{key}",
    " Bearer {key}",
)
_ADDRESSES = (
    "1.2.3.4",
    "127.0.0.1",
    "::1",
    "::ffff:1.2.3.4",
    "unknown",
    "_hidden",
    "1.2.3.4, 5.6.7.8",
    '"[2001:db8::1]:4711"',
    "",
    "0x7f.1",
    "evil.example",
)
_FORWARDED = (
    *(
        "X-Forwarded-For: {}",
        "X-Real-IP: {}",
        "Forwarded: for={}",
        "True-Client-IP: {}",
        "CF-Connecting-IP: {}",
        "X-Client-IP: {}",
        "Client-IP: {}",
        "Via: {}",
    ),
    *(
        "X-Forwarded: {}",
        "X-Cluster-Client-IP: {}",
        "Fastly-Client-IP: {}",
        "X-Original-Forwarded-For: {}",
        "X-Forwarded-Host: {}",
        "X-Originating-IP: {}",
    ),
)
_PATHS = (
    *(
        "/api/kbs",
        "/api/kbs?",
        "/api/kbs?x=1",
        "/api/kbs/",
        "//api/kbs",
        "/api//kbs",
        "/%61pi/kbs",
        "/api/%6bbs",
        "/API/KBS",
        "/./api/kbs",
        "/x/../api/kbs",
    ),
    *(
        "/static/../api/kbs",
        "/static/%2e%2e/api/kbs",
        "/health/../api/kbs",
        "/api/kbs;x",
        "/api/kbs%00",
        "/api/kbs#x",
        "/health/",
        "//health",
        "/static",
    ),
)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    knowledge_bases = Bases(tmp_path_factory.mktemp("rates"), mistral)
    knowledge_bases.publish(knowledge_bases.notes)
    return knowledge_bases


def _tries(authorizations: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """(source address, path, headers) of one caller, in all spellings."""
    forwarded = [form.format(address) for form, address in product(_FORWARDED, _ADDRESSES)]
    for authorization in authorizations:
        of_key = [f"Authorization: {authorization}"] if authorization else []
        yield from (("127.0.0.1", path, of_key) for path in _PATHS)
        yield from (("127.0.0.1", "/api/kbs", [*of_key, header]) for header in forwarded)
        yield from ((f"127.0.0.{number}", "/api/kbs", of_key) for number in range(2, 40))
        yield from (
            ("127.0.0.1", "/api/kbs", [*of_key, f"User-Agent: {number}", f"Cookie: session={number}"])
            for number in range(20)
        )


def _tried(bases: Bases, what: str, authorizations: Sequence[str], least: int, api_keys: str = "") -> None:
    with (
        serve_bases(bases, names=[bases.notes], rate_per_minute=_RATE, api_keys=api_keys) as client,
        tallied(
            f"Rate limits of `almanac serve`: {what}",
            "429, 401 or 404 once the limit is reached, in every spelling",
            least,
        ) as tally,
    ):
        port = client.base_url.port or 0
        begun, answered = time.monotonic(), 0
        for source, path, headers in some(list(_tries(authorizations)), 150):
            lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "Connection: close", "", ""]
            (status,) = exchanged(port, "\r\n".join(lines).encode(), source=source).statuses
            answered += status == 200
            most = _RATE + 1 + int((time.monotonic() - begun) * _RATE / 60)
            tally.note(
                f"{path} from {source} with {headers}",
                f"answered with {status}, the {answered}. of {most}" if status == 200 and answered > most else None,
            )
            if status not in (200, 400, 401, 404, 429):
                tally.note(f"{path} with {headers}", f"answered with {status}")
        assert answered >= _RATE


def test_one_key_is_one_caller(bases: Bases) -> None:
    _tried(bases, "a key", [form.format(key=_KEY) for form in _SPELLINGS], 1_500, api_keys=f"{_KEY},another")


def test_without_keys_all_are_one_caller(bases: Bases) -> None:
    _tried(bases, "without keys", ["", f"Bearer {_KEY}", "Basic dXNlcjpwYXNz"], 500)


def test_keys_that_do_not_exist_are_never_let_in(bases: Bases) -> None:
    wrong = [
        _KEY[:-1],
        _KEY + "0",
        _KEY.upper(),
        "",
        " ",
        "*",
        "null",
        f"{_KEY},another",
        f"{_KEY}:red",
        f'"{_KEY}"',
        f"{_KEY}\\0",
        _KEY[::-1],
        "another,",
    ]
    schemes = ("Bearer", "Basic", "Token", "Digest", "", "Bearer Bearer", "bearer", "ApiKey")
    with (
        serve_bases(bases, names=[bases.notes], api_keys=f"{_KEY},another") as client,
        tallied("Keys of `almanac serve`: keys that do not exist", "401", 150) as tally,
    ):
        port = client.base_url.port or 0
        tried = [
            *(f"Authorization: {scheme} {key}" for scheme, key in product(schemes, wrong)),
            f"X-Api-Key: {_KEY}",
            f"Cookie: key={_KEY}",
            "X: y",
        ]
        tried += [
            f"{name}: Bearer {_KEY}"
            for name in ("Proxy-Authorization", "X-Authorization", "Authorization_", "Author-ization")
        ]
        tried += [f"Authorization: {scheme} {_KEY}" for scheme in schemes if scheme.lower() != "bearer"]
        for path, header in product(("/api/kbs", "/metrics"), tried):
            sent = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\nConnection: close\r\n\r\n"
            statuses = exchanged(port, sent.encode()).statuses
            tally.note(f"{path} {header}", None if statuses == (401,) else f"answered with {statuses}")
