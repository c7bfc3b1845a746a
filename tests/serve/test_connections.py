"""Connections of a server: heads are limited, and what surrounds a request changes nothing of it."""

import pytest

from almanac.serve.http_server import MAX_HEAD_BYTES
from tests.hardening.wire import exchanged
from tests.serve.conftest import Serving

pytestmark = pytest.mark.xdist_group("serve")
_LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_POST = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\n"
_BODY = b'{"query": "dogs", "mode": "lexical"}'
_CHUNKED = b"%x\r\n%s\r\n0\r\n" % (len(_BODY), _BODY)


@pytest.fixture(scope="module")
def port(serving: Serving) -> object:
    with serving() as client:
        yield client.base_url.port


def test_trailers_are_no_headers(port: int) -> None:
    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + _CHUNKED + b"Content-Type: application/json\r\n\r\n"
    assert exchanged(port, _POST + chunks + _LAST).statuses == (415, 200)
    assert exchanged(port, _POST + b"Content-Type: application/json\r\n" + chunks + _LAST).statuses == (200, 200)


def test_an_upgrade_that_is_asked_for_loses_neither_the_body_nor_the_next_request(port: int) -> None:
    """As clients for HTTP/2 ask with every request."""
    headers = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\nContent-Type: "
        b"application/json\r\n"
    )
    request = _POST + headers + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY
    assert exchanged(port, request + request + _LAST).statuses == (200, 200, 200)


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * 16 * MAX_HEAD_BYTES,
        b"X: y\r\n" * 4 * MAX_HEAD_BYTES,
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n" + b"X: y\r\n" * 4 * MAX_HEAD_BYTES,
    ],
    ids=["value", "many", "trailers"],
)
def test_a_head_is_limited(port: int, head: bytes) -> None:
    assert exchanged(port, _POST + head + b"\r\n\r\n" + _LAST).is_last


def test_a_head_that_just_fits_is_read(port: int) -> None:
    head = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 300) for number in range(190))
    assert exchanged(port, _LAST[:-2] + head + b"\r\n").statuses == (200,)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + _CHUNKED + b"\r\n",
        _POST + b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _CHUNKED + b"\r\n",
        b"GET /\r\n\r\n",
    ],
)
def test_what_has_two_meanings_is_refused(port: int, sent: bytes) -> None:
    replies = exchanged(port, sent + _LAST)
    assert replies.is_last
    assert b"Traceback" not in replies.text


def test_requests_before_a_broken_one_get_their_replies_and_no_other(port: int) -> None:
    good = _POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
    for broken in (b"nonsense\r\n\r\n", _POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"):
        replies = exchanged(port, good + good + broken + _LAST)
        assert (replies.statuses[:2], replies.is_closed) == ((200, 200), True)
        assert len(replies.statuses) <= 3
