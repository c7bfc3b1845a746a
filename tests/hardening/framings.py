"""Requests over which a proxy and a server could differ, and odd ones of one meaning. Each is followed by another
request, as a smuggler would.
"""

from collections.abc import Iterator
from itertools import product

BODY = b'{"query": "garden", "mode": "lexical"}'
ROUTES = (b"POST /api/search", b"POST /api/chat", b"GET /api/kbs", b"POST /nowhere")
# What stands for a length, or for a coding, beside what is sent; each is read otherwise by some program.
_LENGTHS = (
    "{n}",
    "{n}\r\nContent-Length: 0",
    "+{n}",
    "-{n}",
    "0x{n}",
    "{n}.0",
    "{n};",
    "",
    "{n} 0",
    "9" * 30,
    "{n}\x0b",
)
_CODINGS = (
    "chunked",
    "Chunked",
    "xchunked",
    "chunked, identity",
    "identity, chunked",
    "identity",
    "chunked, chunked",
    "gzip, chunked",
    "chunked;q=1",
    '"chunked"',
    "\x0bchunked",
    "\0chunked",
    "chunked\x7f",
    "",
    ",chunked",
    "chunked\r\nTransfer-Encoding: identity",
    "chunked\r\nTransfer-Encoding: chunked",
)
_NAMES = (
    "Transfer-Encoding:",
    "Transfer-Encoding :",
    "Transfer-Encoding\t:",
    "X: y\rTransfer-Encoding:",
)
_CHUNKS = (
    "{x}\n{body}\r\n0\r\n\r\n",
    "{x}\r\n{body}0\r\n\r\n",
    "{x}\r\n{body}\n0\r\n\r\n",
    "{x}\r\n{body}XX0\r\n\r\n",
    "0x{x}\r\n{body}\r\n0\r\n\r\n",
    "-{x}\r\n{body}\r\n0\r\n\r\n",
    "+{x}\r\n{body}\r\n0\r\n\r\n",
    " {x}\r\n{body}\r\n0\r\n\r\n",
    "{x};\n{body}\r\n0\r\n\r\n",
    "{x};a=\r{body}\r\n0\r\n\r\n",
    *(
        "ffffffffffffffff{x}\r\n{body}\r\n0\r\n\r\n",
        "1{zeros}{x}\r\n{body}\r\n0\r\n\r\n",
        "{x}_\r\n{body}\r\n0\r\n\r\n",
        "{x}\0\r\n{body}\r\n0\r\n\r\n",
        "\r\n\r\n",
    ),
    "{x}\r\n{body}\r\n0\n\n",
    "{x}\r\n{body}\r\n0\r\nBad header\r\n\r\n",
    "{x}\r\n{body}\r\n0\r\n X: y\r\n\r\n",
)
_HEADS = (
    b"GET / HTTP/1.1\r\nHost: HOST\rX: y\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: HOST\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nX: a\0b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nX\0: a\r\n\r\n",
    b"GET /\0 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : HOST\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nno colon\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/0.9\r\n\r\n",
    b"GET / HTTP/11\r\nHost: HOST\r\n\r\n",
    b"GET / http/1.1\r\nHost: HOST\r\n\r\n",
    b"GET / ICY/1.1\r\nHost: HOST\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: HOST\r\n\r\n",
    b"\0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"{}\r\n\r\n",
    b"GET\r\n\r\n",
    b" GET / HTTP/1.1\r\nHost: HOST\r\n\r\n",
)


def following(port: int) -> bytes:
    """The request that a smuggler wants answered as somebody else's, or that another client of the proxy sent."""
    return f"GET /api/kbs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()


def request(route: bytes, port: int, framing: str, content: bytes) -> bytes:
    head = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
    return route + head.encode("latin-1") + content


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def ambiguous(port: int) -> Iterator[tuple[str, bytes]]:
    behind = following(port)
    whole = len(chunked(BODY) + behind)
    for route in ROUTES:
        # by its length all is one body, by its chunks there is a second request
        for length, name, coding in product(_LENGTHS, _NAMES, _CODINGS):
            framing = f"Content-Length: {length.format(n=whole)}\r\n{name} {coding}"
            yield (
                f"{route!r} {length!r} beside {name!r} {coding!r}",
                request(route, port, framing, chunked(BODY) + behind),
            )
        for length in _LENGTHS[1:]:
            yield (
                f"{route!r} length {length!r}",
                request(route, port, f"Content-Length: {length.format(n=len(BODY))}", BODY + behind),
            )
        for name, coding in product(_NAMES, _CODINGS):
            if coding.lower() != "chunked" or name != _NAMES[0]:
                yield f"{route!r} {name!r} {coding!r}", request(route, port, f"{name} {coding}", chunked(BODY) + behind)
        for chunks in _CHUNKS:
            written = chunks.format(x=f"{len(BODY):x}", body=BODY.decode(), zeros="0" * 16).encode()
            yield f"{route!r} chunks {chunks!r}", request(route, port, "Transfer-Encoding: chunked", written + behind)
        old = request(route, port, "Transfer-Encoding: chunked", chunked(BODY)).replace(b"HTTP/1.1", b"HTTP/1.0")
        yield f"{route!r} chunks of HTTP/1.0", old + behind
    for head in _HEADS:
        yield f"{head!r}", head.replace(b"HOST", f"127.0.0.1:{port}".encode()) + behind


def odd(port: int) -> Iterator[tuple[str, bytes, tuple[int, ...]]]:
    """(what, bytes, statuses): unusual, and of one meaning; each is followed by a request that is answered, too."""
    behind, host = following(port), f"127.0.0.1:{port}"
    search = ROUTES[0]
    of_length = f"Content-Length: {len(BODY)}"
    x = f"{len(BODY):x}".encode()
    for name, coding in product(
        ("Transfer-Encoding:", "transfer-encoding:", "TRANSFER-ENCODING: ", "Transfer-Encoding:\t"),
        ("chunked", "CHUNKED", "chunked  "),
    ):
        yield f"{name!r} {coding!r}", request(search, port, f"{name} {coding}", chunked(BODY) + behind), (200, 200)
    for extension in (b";a", b";a=b", b';a="b"', b";a;b;c", b";a=" + b"b" * 1000):
        written = x + extension + b"\r\n" + BODY + b"\r\n0" + extension + b"\r\n\r\n"
        yield (
            f"chunk extension {extension[:20]!r}",
            request(search, port, "Transfer-Encoding: chunked", written + behind),
            (200, 200),
        )
    for size in (b"0" * 5 + x, x.upper()):
        yield (
            f"chunk size {size!r}",
            request(search, port, "Transfer-Encoding: chunked", size + b"\r\n" + BODY + b"\r\n0\r\n\r\n" + behind),
            (200, 200),
        )
    single = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    yield "chunks of one byte", request(search, port, "Transfer-Encoding: chunked", single + behind), (200, 200)
    for trailer in (
        b"X-Checksum: 1",
        b"Content-Type: text/plain",
        b"Authorization: Bearer x",
        b"Host: evil.example",
        b"Origin: http://evil.example",
    ):
        written = chunked(BODY)[:-2] + trailer + b"\r\n\r\n"
        yield f"trailer {trailer!r}", request(search, port, "Transfer-Encoding: chunked", written + behind), (200, 200)
        without = request(search, port, "Transfer-Encoding: chunked", written + behind).replace(
            b"Content-Type: application/json\r\n", b"", 1
        )
        yield f"a trailer instead of a header: {trailer!r}", without, (415, 200)
    for protocol, also in product(
        ("websocket", "h2c", "TLS/1.0", "x"),
        ("", "\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13", "\r\nHTTP2-Settings: AAMA"),
    ):
        upgrade = f"Connection: Upgrade\r\nUpgrade: {protocol}{also}"
        yield f"upgrade to {protocol} {also!r}", request(b"GET /api/kbs", port, upgrade, behind), (200, 200)
        yield (
            f"upgrade to {protocol} {also!r}, with a body",
            request(search, port, f"{upgrade}\r\n{of_length}", BODY + behind),
            (200, 200),
        )
        yield (
            f"upgrade to {protocol} {also!r}, in chunks",
            request(search, port, f"{upgrade}\r\nTransfer-Encoding: chunked", chunked(BODY) + behind),
            (200, 200),
        )
    for name in (
        "Transfer_Encoding",
        "Content_Length",
        "X-Transfer-Encoding",
        "TE",
        "Transfer-Encodin",
        "Content-Lengthh",
    ):
        yield f"{name}: chunked", request(search, port, f"{name}: chunked\r\n{of_length}", BODY + behind), (200, 200)
    yield "absolute form", request(f"GET http://{host}/api/kbs".encode(), port, "X: y", behind), (404, 200)
    for twice in (f"{of_length}\r\n{of_length}", f"{of_length}, {len(BODY)}"):
        yield f"one length {twice!r}", request(search, port, twice, BODY + behind), (200, 200)
    yield "a body of GET", request(b"GET /api/kbs", port, of_length, BODY + behind), (200, 200)
    yield (
        "a body in chunks of GET",
        request(b"GET /api/kbs", port, "Transfer-Encoding: chunked", chunked(BODY) + behind),
        (200, 200),
    )
    yield "a body of a request that is refused", request(b"POST /nowhere", port, of_length, BODY + behind), (404, 200)
    yield "expects 100", request(search, port, f"{of_length}\r\nExpect: 100-continue", BODY + behind), (200, 200)
    yield "TRACE", request(b"TRACE /api/kbs", port, "Cookie: secret", behind), (405, 200)
    yield "OPTIONS *", request(b"OPTIONS *", port, "X: y", behind), (404, 200)
    for count in (2, 20, 60):
        search_request = request(search, port, of_length, BODY)
        yield f"{count} requests at once", search_request * (count - 1) + behind, (200,) * count
