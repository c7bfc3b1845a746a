"""A server without keys: on every route that there is, only this machine is answered, and no website through its
browser.
"""

import socket
from itertools import product
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from almanac.core.settings import DataDir
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.mcp_server import KnowledgeServer
from almanac.serve.server_settings import Settings
from tests.hardening.tally import some, tallied
from tests.loopback.mistral import LoopbackMistral
from tests.serve.conftest import Bases, serve_bases
from tests.serve.test_mcp import listening

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-keyless")]
_FOREIGN_HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example:80",
    "evil.example#localhost",
    "evil.example/localhost",
    "localhost@evil.example",
    "evil.example\\localhost",
    "127.0.0.1@evil.example:80",
    "[::1].evil.example",
    "[::1]evil.example",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "",
    "localhost.",
    "localhost evil.example",
    "localhost,evil.example",
    "lоcalhost",
    "127.0.0.2",
    "[evil]:80",
    "metadata.google.internal",
    "10.0.0.1",
    "%6cocalhost",
]
_FOREIGN_ORIGINS = [
    "http://evil.example",
    "https://evil.example",
    "null",
    "",
    "http://localhost.evil.example",
    "http://evil.example:HOST",
    "http://HOST.evil.example",
    "http://HOST@evil.example",
    "http://evil.example/http://HOST",
    "file://",
    "chrome-extension://abc",
    "http://HOST, http://evil.example",
    "http://127.0.0.1:1",
    "http://[::1",
    "HTTP://EVIL.EXAMPLE",
    "data:text/html,x",
    "http://HOST\\evil.example",
    "http://xHOST",
]


def _routes(app: Any) -> list[tuple[str, str]]:
    """(method, path) of every route, as the application has and documents them."""
    routes = [
        (method, str(getattr(route, "path", "/")))
        for route in app.routes
        for method in sorted(getattr(route, "methods", None) or ["GET"])
    ]
    documented = app.openapi()["paths"] if isinstance(app, FastAPI) else {}
    return list(
        dict.fromkeys(
            [*routes, *((method.upper(), path) for path, methods in documented.items() for method in methods)]
        )
    )


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    knowledge_bases = Bases(tmp_path_factory.mktemp("keyless"), mistral)
    knowledge_bases.publish(knowledge_bases.notes)
    return knowledge_bases


def _status(port: int, method: str, path: str, *headers: tuple[str, str]) -> int:
    """The status of a request that is written by hand: clients would correct its headers."""
    body = b'{"message": "garden", "query": "garden"}' if method in ("POST", "PUT", "PATCH") else b""
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers),
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("utf-8") + body)
        answer = connection.makefile("rb").readline()
    return int(answer.split()[1])


def _tries(port: int) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    own = f"127.0.0.1:{port}"
    tries: list[tuple[str, tuple[tuple[str, str], ...]]] = [
        (f"Host {host!r}", (("Host", host),)) for host in _FOREIGN_HOSTS
    ]
    tries += [
        (f"Host {host!r} of an own origin", (("Host", host), ("Origin", f"http://{host}")))
        for host in _FOREIGN_HOSTS
        if host
    ]
    tries += [
        (f"Origin {origin!r}", (("Host", own), ("Origin", origin.replace("HOST", own)))) for origin in _FOREIGN_ORIGINS
    ]
    tries += [
        ("two hosts", (("Host", own), ("Host", "evil.example"))),
        ("two hosts, the foreign one first", (("Host", "evil.example"), ("Host", own))),
    ]
    tries += [
        ("two origins", (("Host", own), ("Origin", f"http://{own}"), ("Origin", "http://evil.example"))),
        ("no host", ()),
    ]
    tries += [("a forwarded host", (("Host", "evil.example"), ("X-Forwarded-Host", own), ("Forwarded", f"host={own}")))]
    return tries


def _own(method: str, path: str, port: int) -> int:
    return _status(port, method, path, ("Host", f"127.0.0.1:{port}"))


def test_no_route_of_the_server_answers_another(bases: Bases) -> None:
    app: FastAPI = create_app(Catalog(DataDir(bases.data), [bases.notes]), Settings.read())
    routes = [*_routes(app), ("GET", "/nowhere"), ("OPTIONS", "/api/chat"), ("DELETE", "/api/kbs")]
    assert ("POST", "/api/chat") in routes
    assert ("GET", "/") in routes
    with (
        serve_bases(bases, names=[bases.notes]) as client,
        tallied("Keyless `almanac serve`: foreign Host and Origin, on every route", "421, 403 or 400", 600) as tally,
    ):
        port = client.base_url.port or 0
        for (method, path), (what, headers) in some(list(product(routes, _tries(port))), 300):
            status = _status(port, method, path.replace("{path:path}", "app.js"), *headers)
            tally.note(f"{method} {path}: {what}", None if status in (400, 403, 421) else f"answered with {status}")
        assert {_own(method, path, port) for method, path in routes if method == "GET"} <= {200, 404, 503}


def test_no_route_of_the_mcp_server_answers_another(bases: Bases) -> None:
    catalog = Catalog(DataDir(bases.data), [bases.notes])
    server = KnowledgeServer(catalog, Settings())
    with (
        listening(server) as address,
        tallied("Keyless MCP over HTTP: foreign Host and Origin", "421, 403 or 400", 500) as tally,
    ):
        port = httpx.URL(address).port or 0
        routes = [(method, path) for path in ("/mcp", "/", "/nowhere") for method in ("GET", "POST", "DELETE")]
        for (method, path), (what, headers) in some(list(product(routes, _tries(port))), 60):
            status = _status(port, method, path, *headers)
            tally.note(f"{method} {path}: {what}", None if status in (400, 403, 421) else f"answered with {status}")
    catalog.close()


def test_what_a_page_elsewhere_can_send_without_asking_is_no_question(bases: Bases) -> None:
    """Forms and scripts of other websites send these types without a preflight; even where a browser names no origin,
    no body of theirs is read.
    """
    kinds = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "text/plain; application/json",
        "application/json, text/plain",
        "application/csp-report",
    ]
    with (
        serve_bases(bases, names=[bases.notes]) as client,
        tallied("Keyless `almanac serve`: bodies that need no preflight", "415", 18) as tally,
    ):
        for path, kind in product(("/api/chat", "/api/search", "/search_kb"), kinds):
            response = client.post(
                path, content=b'{"message": "garden", "query": "garden"}', headers={"Content-Type": kind}
            )
            tally.note(f"{path} {kind!r}", None if response.status_code == 415 else f"{response.status_code}")
