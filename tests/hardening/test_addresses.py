"""Private addresses, in every spelling and by every road: a listener that counts connections is never reached."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from twisted.internet import _resolver
from w3lib.url import safe_url_string

from almanac.core.settings import installation
from almanac.schemas.declaration.private_hosts import private_kind
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.declaration.url_types import domain_of
from almanac.spiders.crawling import addresses
from almanac.spiders.crawling.crawl import fetch_site
from almanac.spiders.selecting.urls import canonical_url
from almanac.spiders.store.raw import RawStore
from tests.conftest import watching
from tests.forked import forked_crawls
from tests.hardening.spellings import (
    addresses_v4,
    addresses_v6,
    hosts_of_names,
    hosts_v4,
    hosts_v6,
    is_private,
    references,
)
from tests.hardening.tally import some, tallied
from tests.proof.base import TORTURE

pytestmark = pytest.mark.slow
_PUBLIC = "127.0.0.1"  # taken for a public address; the other 16 million of loopback are private


def _spelled(each: int) -> list[str]:
    hosts = [host for address in addresses_v4(each) for host in hosts_v4(address)] + [
        host for address in addresses_v6(each) for host in hosts_v6(address)
    ]
    return list(dict.fromkeys([*hosts, *hosts_of_names()]))


def _looked_up(host: str) -> list[str]:
    """Addresses that the system reads in a host; no name server is asked."""
    flags = 0 if host.rstrip(".").endswith("localhost") else socket.AI_NUMERICHOST
    try:
        resolved = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        return []
    return [str(address[0]) for *_, address in resolved]


def _is_read(host: str) -> bool:
    """Whether the system reads an address in a host."""
    try:
        return bool(_looked_up(urlsplit(canonical_url(f"http://{host}/")).hostname or ""))
    except ValueError:
        return False


def test_every_spelling_of_a_private_address_is_told() -> None:
    """What the system reads in a host, and what the host says by itself, is private."""
    with tallied(
        "Private addresses: spellings, by function", "each address that the system reads in it is refused", 7_000
    ) as tally:
        for host in some(_spelled(8), 4_000):
            try:
                name = urlsplit(canonical_url(f"http://{host}/")).hostname or ""
            except ValueError:
                tally.note(host, held=True)
                continue
            taken_for_public = [
                address for address in _looked_up(name) if is_private(address) and private_kind(address) is None
            ]
            tally.note(host, f"{taken_for_public} is taken for public" if taken_for_public else None)


def test_no_spelling_is_connected_to(tmp_path: Path) -> None:
    """The crawl's own downloader is asked for each: not a connect of any kind, to any address."""
    urls = list(dict.fromkeys(canonical_url(f"http://{host}:9/") for host in some(_spelled(3), 250) if _is_read(host)))
    connects, job = tmp_path / "connects", tmp_path / "job.json"
    source = {
        "name": "s",
        "kind": "site",
        "start_urls": ["http://127.0.0.2/"],
        "politeness": {"allow_private": False, "robots": False, "delay_s": 0},
    }
    job.write_text(
        json.dumps(
            {
                "source": source,
                "urls": urls,
                "public": [],
                "settings": {"CONCURRENT_REQUESTS": 100, "RETRY_ENABLED": False},
            }
        )
    )
    command = [sys.executable, "-m", "tests.spiders.probe", str(job)]
    done = subprocess.run(
        command,
        cwd=installation(),
        env={**os.environ, **watching(connects)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    facts_by_url = {line["url"]: line for line in map(json.loads, done.stdout.splitlines())}
    connected = [line for line in connects.read_text().splitlines() if line.startswith("socket.connect")]
    with tallied("Private addresses: spellings, by the crawl's downloader", "nothing is connected to", 2_000) as tally:
        for url in urls:
            tally.note(
                url,
                None if facts_by_url.get(url, {}).get("reason") == "private_address" else f"{facts_by_url.get(url)}",
            )
        tally.fallen += connected


# Roads

_MARK = "/mark"
_AT_ONCE = 250  # sites of one crawl
_PAGE = "<html><head>{head}</head><body><p>A page of the shop, number {number}.</p>{body}</body></html>"
_RSS = '<rss version="2.0"><channel><title>t</title><item><link>{}</link></item></channel></rss>'
_ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{}"/></entry></feed>'
_URLSET = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{}</loc></url></urlset>'
_INDEX = (
    '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>{}</loc></sitemap></sitemapindex>'
)
_HTML, _XML = {"Content-Type": "text/html; charset=utf-8"}, {"Content-Type": "application/xml"}
# road → (path, what a site answers there: status, headers, body), of a target
_ROADS: dict[str, tuple[str, Any]] = {
    "link": ("/", lambda to: (200, _HTML, _PAGE.format(head="", number=to, body=f'<a href="{to}">x</a>'))),
    "area": ("/", lambda to: (200, _HTML, _PAGE.format(head="", number=to, body=f'<map><area href="{to}"></map>'))),
    "next": ("/", lambda to: (200, _HTML, _PAGE.format(head=f'<link rel="next" href="{to}">', number=to, body=""))),
    "pagination": (
        "/list",
        lambda to: (200, _HTML, _PAGE.format(head="", number=to, body=f'<a class="on" href="{to}">x</a>')),
    ),
    "card": (
        "/list",
        lambda to: (200, _HTML, _PAGE.format(head="", number=to, body=f'<div class="card"><a href="{to}">x</a></div>')),
    ),
    "base": (
        "/",
        lambda to: (
            200,
            _HTML,
            _PAGE.format(head=f'<base href="{to}">', number=to, body=f'<a href="{_MARK}/base">x</a>'),
        ),
    ),
    "refresh": (
        "/",
        lambda to: (
            200,
            _HTML,
            _PAGE.format(head=f'<meta http-equiv="refresh" content="0;url={to}">', number=to, body=""),
        ),
    ),
    "canonical": (
        "/",
        lambda to: (200, _HTML, _PAGE.format(head=f'<link rel="canonical" href="{to}">', number=to, body="")),
    ),
    "linked": (
        "/",
        lambda to: (200, {**_HTML, "Link": f'<{to}>; rel="canonical"'}, _PAGE.format(head="", number=to, body="")),
    ),
    **{
        str(status): ("/", lambda to, status=status: (status, {"Location": to}, ""))
        for status in (301, 302, 303, 307, 308)
    },
    "robots": ("/robots.txt", lambda to: (302, {"Location": to}, "")),
    "rss": ("/", lambda to: (200, {"Content-Type": "application/rss+xml"}, _RSS.format(to))),
    "atom": ("/", lambda to: (200, {"Content-Type": "application/atom+xml"}, _ATOM.format(to))),
    "sitemap": ("/sitemap.xml", lambda to: (200, _XML, _URLSET.format(to))),
    "sitemap-lines": ("/sitemap.xml", lambda to: (200, {"Content-Type": "text/plain"}, f"{to}\n")),
    "sitemap-index": ("/sitemap.xml", lambda to: (200, _XML, _INDEX.format(to))),
    "sitemap-redirect": ("/sitemap.xml", lambda to: (302, {"Location": to}, "")),
}


class _Roads:
    """A server on all addresses of loopback at once. At `_PUBLIC` it is a site with a host for each (road, target); at
    any other it counts what comes.
    """

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, tuple[int, dict[str, str], str]]] = {}
        self.reached: Counter[str] = Counter()
        roads = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def setup(self) -> None:
                super().setup()
                if self.connection.getsockname()[0] != _PUBLIC:
                    roads.reached["a connection"] += 1

            def do_GET(self) -> None:
                if self.connection.getsockname()[0] != _PUBLIC:
                    roads.reached[self.path] += 1
                path, answer = roads.pages.get(self.headers.get("Host", "").partition(":")[0], ("", (404, {}, "")))
                status, headers, body = answer if path == self.path else (404, {}, "")
                content = body.encode("utf-8", "replace")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value.encode("utf-8").decode("latin-1").replace("\n", "").replace("\r", ""))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def add(self, road: str, target: str) -> str:
        """A host whose site leads down a road to a target; the URL to begin with."""
        path, answer = _ROADS[road]
        host = f"s{len(self.pages)}.test"
        self.pages[host] = (path, answer(target))
        return f"http://{host}:{self.port}{'/' if path == '/robots.txt' else path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def roads() -> Iterator[_Roads]:
    made = _Roads()
    yield made
    made.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What a name server tells of names below `.test`: what stands here in turn, the last for ever, else the public
    address.
    """
    turns_by_name: dict[str, list[str]] = {}

    def look_up(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        name = host if isinstance(host, str) else host.decode()
        if not name.endswith(".test"):
            return socket.getaddrinfo(host, port, *more, **named) if _looked_up(name) else []
        turns = turns_by_name.get(name, [_PUBLIC])
        answer = (turns.pop(0) if len(turns) > 1 else turns[0]).split()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]

    monkeypatch.setattr(
        _resolver.GAIResolver.__init__,
        "__defaults__",
        tuple(look_up if default is socket.getaddrinfo else default for default in _defaults()),
    )
    monkeypatch.setattr(
        addresses, "private_kind", lambda address: None if address == _PUBLIC else private_kind(address)
    )
    return turns_by_name


def _defaults() -> tuple[Any, ...]:
    defaults: tuple[Any, ...] = _resolver.GAIResolver.__init__.__defaults__ or ()
    assert socket.getaddrinfo in defaults
    return defaults


def _source(starts: list[str], targets: list[str], *, allow_private: bool) -> SiteSource:
    domains = set()
    for url in (*starts, *targets):
        try:
            domains.add(
                domain_of(
                    urlsplit(canonical_url(safe_url_string(urljoin("http://s0.test/", url.strip())))).hostname or ""
                )
            )
        except ValueError:
            continue
    listing = {"match": "/list$", "each": {"css": ".card"}, "link": {"css": "a"}}
    sitemaps = [url for url in starts if url.endswith("/sitemap.xml")]
    return SiteSource.model_validate(
        {
            "name": "s",
            "kind": "site",
            "start_urls": [url for url in starts if url not in sitemaps],
            "sitemaps": sitemaps,
            "allowed_domains": sorted(domains),
            "follow": {"allow": ["."]},
            "listing": listing,
            "pagination": {"next": {"css": "a.on"}},
            "limits": {"seconds": 500},
            "politeness": {"allow_private": allow_private, "delay_s": 0, "per_domain": 16},
        }
    )


@contextmanager
def _no_proxy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)
        yield


def _crawl(source: SiteSource, folder: Path) -> None:
    with forked_crawls():
        assert fetch_site(source, RawStore(folder), "r1").finish == "finished"


def test_no_road_leads_to_a_private_address(
    roads: _Roads, names: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names == {}
    own = ("127.0.0.2", "127.9.8.7", "127.255.255.254", "10.0.0.1", "169.254.169.254", "0.0.0.0")
    hosts = list(dict.fromkeys(host for address in own for host in hosts_v4(address) if _is_read(host)))
    plain = [f"http://{host}:{roads.port}{_MARK}" for host in hosts]
    odd = [
        reference
        for address in ("127.0.0.2", "2130706434", "0x7f.2")
        for reference in references(address, roads.port, _MARK)
    ]
    targets = [*plain, *odd]
    tried = [
        (road, f"{target}/{road}")
        for road in _ROADS
        for target in (Random(road).sample(targets, 110) if TORTURE else some(targets, 10))
    ]
    proxy = f"http://127.0.0.3:{roads.port}"
    with _no_proxy():
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.setenv("no_proxy", "")
        for begin in range(0, len(tried), _AT_ONCE):
            part = tried[begin : begin + _AT_ONCE]
            _crawl(
                _source(
                    [roads.add(road, target) for road, target in part],
                    [target for _, target in part],
                    allow_private=False,
                ),
                tmp_path / f"kept{begin}",
            )
    reached = dict(roads.reached)
    with tallied(
        "Private addresses: roads",
        f"a listener on loopback counts no connection ({', '.join(_ROADS)}; proxies in the environment)",
        2_000,
    ) as tally:
        for road, target in tried:
            tally.note(f"{road}: {target}", None if not reached else f"reached: {reached}")


def test_each_road_is_one(roads: _Roads, names: dict[str, list[str]], tmp_path: Path) -> None:
    """Where the declaration allows private addresses, each leads there: a road that led nowhere would prove nothing."""
    assert names == {}
    tried = [(road, f"http://127.0.0.2:{roads.port}{_MARK}/{road}") for road in _ROADS]
    with _no_proxy():
        _crawl(
            _source(
                [roads.add(road, target) for road, target in tried], [target for _, target in tried], allow_private=True
            ),
            tmp_path / "allowed",
        )
    assert {path for path in roads.reached if path.startswith(_MARK)} == {f"{_MARK}/{road}" for road in _ROADS}


def test_a_name_server_that_changes_its_answer_leads_nowhere(
    roads: _Roads, names: dict[str, list[str]], tmp_path: Path
) -> None:
    """By turns, both at once, and in each order: only what was checked is connected to."""
    inside = ("127.0.0.2", "10.0.0.1", "169.254.169.254")
    turns = (
        [[_PUBLIC, address] for address in inside]
        + [[address, _PUBLIC] for address in inside]
        + [[f"{_PUBLIC} {address}"] for address in inside]
        + [[f"{address} {_PUBLIC}"] for address in inside]
    )
    turns += [[_PUBLIC, f"{address} {_PUBLIC}", address] for address in inside] + [[address] for address in inside]
    tried = some(turns * 15, len(turns))
    starts = []
    for number, answers in enumerate(tried):
        host = f"s{number}.test"
        links = "".join(f'<a href="/{page}">x</a>' for page in range(3))
        roads.pages[host] = ("/", (200, _HTML, _PAGE.format(head="", number=number, body=links)))
        names[host] = list(answers)
        starts.append(f"http://{host}:{roads.port}/")
    with _no_proxy():
        _crawl(_source(starts, [], allow_private=False), tmp_path / "kept")
    with tallied(
        "Private addresses: rebinding",
        "a name that points inside, now or later, alone or among others, is connected to at its public address only",
        250,
    ) as tally:
        for answers in tried:
            tally.note(answers, None if not roads.reached else f"reached: {dict(roads.reached)}")
