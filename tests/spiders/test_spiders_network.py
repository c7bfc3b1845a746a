"""What leaves this machine and what does not: addresses, credentials, pace and second attempts, against real servers on
loopback.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response
from scrapy.settings import Settings

from almanac.core.load import load_declaration
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.private_hosts import private_host, private_kind
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DeclarationError, NoRecords
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.crawl_settings import settings_for
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.middlewares import may_see_credentials
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.throttle import RETRY_AFTER_MAX_S, retry_after_s
from almanac.spiders.store.raw import RawStore
from tests.forked import Forked


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: dict[str, str]
    at: float


@dataclass
class Host:
    """A server. `answers` maps a path to what it gives in turn, the last one for ever: (status, headers, body); status
    0 is none.
    """

    base: str
    answers: dict[str, list[tuple[int, dict[str, str], bytes]]] = field(default_factory=dict)
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0

    def gives(self, path: str, *statuses: int, body: bytes = b"<p>page</p>", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = [
            (status, named if status != 200 or "Connection" in headers else {}, body) for status in statuses or (200,)
        ]

    def times(self, path: str) -> list[float]:
        return [request.at for request in self.requests if request.path == path]

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


Serve = Callable[..., Host]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers on addresses of loopback, with TLS where `tls` is a certificate's file."""
    running: list[ThreadingHTTPServer] = []

    def start(address: str = "127.0.0.1", tls: Path | None = None) -> Host:
        server = _server(address, tls)
        running.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server.host  # type: ignore[attr-defined, no-any-return]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def _server(address: str, tls: Path | None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002
            return

        def setup(self) -> None:
            super().setup()
            host.connections += 1

        def do_GET(self) -> None:
            host.requests.append(
                ReceivedRequest(
                    self.path, {name.lower(): value for name, value in self.headers.items()}, time.monotonic()
                )
            )
            left = host.answers.get(self.path, [(404, {}, b"")])
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            length = {} if "Connection" in headers else {"Content-Length": str(len(body))}
            for name, value in ({"Content-Type": "text/html"} | headers | length).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
            return

    server = Quiet((address, 0), Handler)
    scheme = "http"
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    host = server.host = Host(f"{scheme}://{address}:{server.server_address[1]}")  # type: ignore[attr-defined]
    return server


@dataclass
class Probed:
    pages: dict[str, dict[str, Any]]
    seconds: float
    stderr: str


def probe(
    folder: Path,
    *urls: str,
    public: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    **keys: Any,
) -> Probed:
    """What became of each URL; `keys` are those of the source."""
    source = {"name": "s", "kind": "site", "start_urls": [urls[0]], **keys}
    job = folder / "job.json"
    job.write_text(json.dumps({"source": source, "urls": urls, "public": public, "settings": settings or {}}))
    began = time.monotonic()
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Forked(
        [sys.executable, "-m", "tests.spiders.probe", str(job)], env={**os.environ, **(env or {})}, text=True, **pipes
    ) as process:
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    lines = [json.loads(line) for line in stdout.splitlines()]
    return Probed({line.pop("url"): line for line in lines}, time.monotonic() - began, stderr)


# Addresses


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.1.2", "loopback"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "private"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("198.18.0.1", "private"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "private"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("::127.0.0.1", "reserved"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::1", "reserved"),
        ("2002:7f00:1::", "loopback"),
        ("2002:c0a8:101::1", "private"),
        ("2001:db8::1", "private"),
        ("3fff::", "private"),
        ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "private"),
        ("3fff:1000::1", None),
        ("93.184.216.34", None),
        ("100.63.255.255", None),
        ("172.32.0.1", None),
        ("2606:4700::1111", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::808:808", None),
        ("2002:808:808::1", None),
    ],
)
def test_every_form_of_address_is_told(address: str, kind: str | None) -> None:
    assert private_kind(address) == kind


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "shop.localhost",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "10.0.0.1",
    ],
)
def test_odd_spellings_of_private_hosts_are_read(host: str) -> None:
    assert private_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "localhost.example.org",
        "mylocalhost",
        "8.8.8.8",
        "[2606:4700::1111]",
        "10.example.org",
        "1e100.net",
        "",
    ],
)
def test_public_hosts_are_left_to_the_resolver(host: str) -> None:
    assert private_host(host) is None


@pytest.mark.parametrize("key", ["start_urls", "sitemaps"])
def test_declared_private_host_ends_a_run_before_its_first_request_and_says_the_way_out(
    tmp_path: Path, key: str
) -> None:
    source = {"name": "s", "kind": "site", key: ["https://example.org/", "http://127.1:8000/"]}
    with pytest.raises(DeclarationError) as caught:
        crawl_site(SiteSource.model_validate(source), RawStore(tmp_path), "r1")
    assert caught.value.message == (
        f"{key}[1]: 127.1 is 127.0.0.1, a loopback address; declare politeness: {{allow_private: true}} to "
        "fetch from it"
    )
    assert SiteSource.model_validate({**source, "politeness": {"allow_private": True}}).private_start is None


@pytest.mark.slow
def test_what_is_connected_to_is_what_was_checked(serve: Serve, tmp_path: Path) -> None:
    """A name that resolves to this machine, and every spelling of its addresses: not one connection is opened, nothing
    is retried.
    """
    host = serve()
    port = host.base.rpartition(":")[2]
    names = [
        socket.gethostname(),
        "localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ]
    urls = [f"http://{name}:{port}/" for name in names]
    done = probe(tmp_path, *urls, politeness={"allow_private": False})
    assert {url: page["reason"] for url, page in done.pages.items()} == dict.fromkeys(urls, "private_address")
    assert done.pages[urls[0]]["detail"].endswith(
        ", a loopback address; declare politeness: {allow_private: true} to fetch from it"
    )
    assert host.connections == 0


@pytest.mark.slow
def test_a_name_that_leads_inside_ends_as_refused_in_the_books(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    url = host.base.replace("127.0.0.1", socket.gethostname())
    source = SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": [f"{url}/"]})
    with pytest.raises(NoRecords, match=r"private_address.*allow_private: true"):
        crawl_site(source, RawStore(tmp_path), "r1")
    assert host.connections == 0


@pytest.mark.slow
def test_redirects_and_robots_txt_lead_to_no_private_address(serve: Serve, tmp_path: Path) -> None:
    inside, outside = serve("127.0.0.2"), serve("127.0.0.1")
    port = inside.base.rpartition(":")[2]
    outside.gives("/robots.txt", 302, Location=f"http://127.0.0.2:{port}/robots.txt")
    targets = {
        f"/{n}": f"http://{name}:{port}/x"
        for n, name in enumerate(["127.0.0.2", "127.2", "0x7f000002", "2130706434", "[::ffff:127.0.0.2]"])
    }
    for path, target in targets.items():
        outside.gives(path, 302, Location=target)
    domains = ["127.0.0.1", "127.0.0.2", "127.2", "0x7f000002", "2130706434", "::ffff:127.0.0.2"]
    done = probe(
        tmp_path,
        *(outside.base + path for path in targets),
        public=("127.0.0.1",),
        allowed_domains=domains,
        politeness={"allow_private": False, "delay_s": 0},
    )
    assert {page["reason"] for page in done.pages.values()} == {"private_address"}
    assert inside.connections == 0
    assert outside.paths().count("/robots.txt") == 1


@pytest.mark.slow
def test_a_proxy_of_the_environment_is_no_way_around(serve: Serve, tmp_path: Path) -> None:
    """A proxy looks names up and connects by itself, so that nothing could be checked: it is not asked."""
    site, proxy = serve("127.0.0.2"), serve()
    site.gives("/x")
    manners = {"allow_private": False, "delay_s": 0}
    done = probe(
        tmp_path,
        f"{site.base}/x",
        public=("127.0.0.2",),
        politeness=manners,
        env={"http_proxy": proxy.base, "no_proxy": ""},
    )
    assert done.pages[f"{site.base}/x"]["status"] == 200
    assert proxy.connections == 0


# Language


@pytest.mark.parametrize(
    ("language", "headers", "sent"),
    [
        ("en", {}, "en"),
        ("fr-CA", {}, "fr-CA,fr;q=0.9"),
        ("zh-Hant-TW", {}, "zh-Hant-TW,zh-Hant;q=0.9,zh;q=0.8"),
        ("auto", {}, ""),
        ("de", {"accept-language": "de-AT"}, ""),
    ],
)
def test_the_language_that_sites_are_asked_for_is_the_declared_one(
    language: str, headers: dict[str, str], sent: str
) -> None:
    site = {"name": "s", "kind": "site", "start_urls": ["https://a.test/"], "politeness": {"headers": headers}}
    source = Declaration.model_validate({"name": "kb", "language": language, "sources": [site]}).sources[0]
    other = SiteSource.model_validate(site)
    assert isinstance(source, SiteSource) and source.accept_language == sent
    is_same = sent == other.accept_language
    assert (
        (fetching_of(source) == fetching_of(other))
        is is_same
        is (requester_fingerprint(source) == requester_fingerprint(other))
    )


def test_the_language_goes_with_all_that_a_crawl_asks_for(serve: Serve, tmp_path: Path) -> None:
    """Robots.txt, sitemaps, pages, what is made up, and what was asked before; a page of another language is not taken
    for the same.
    """
    host = serve()
    host.gives("/map.xml", 200, body=f"<urlset><url><loc>{host.base}/a</loc></url></urlset>".encode())
    for path in ("/", "/a"):
        host.answers[path] = [(200, {"ETag": '"1"'}, b"<p>un texte</p>")]
    raw, previous = RawStore(tmp_path), PreviousCrawls()
    for run_id, language in (("r1", "fr-CA"), ("r2", "auto"), ("r3", "de")):
        headers = {"Accept-Language": "de-AT"} if language == "de" else {}
        manners = {"allow_private": True, "headers": headers}
        site = {
            "name": "s",
            "kind": "site",
            "start_urls": [f"{host.base}/"],
            "sitemaps": [f"{host.base}/map.xml"],
            "politeness": manners,
        }
        source = Declaration.model_validate({"name": "kb", "language": language, "sources": [site]}).sources[0]
        assert isinstance(source, SiteSource)
        host.requests.clear()
        assert crawl_site(source, raw, run_id, previous=previous).pages.fetched == 2
        assert {"/robots.txt", "/map.xml", "/", "/a"} < set(host.paths())
        assert {request.headers.get("accept-language") for request in host.requests} == {
            {"fr-CA": "fr-CA,fr;q=0.9", "auto": None, "de": "de-AT"}[language]
        }
        assert not any("if-none-match" in request.headers for request in host.requests)
        previous = PreviousCrawls(concluded=run_id)


# Credentials

_SECRETS = {
    "headers": {"X-Api-Key": "key-3141"},
    "cookies": {"session": "cookie-5926", "lang": "vi"},
    "auth": {"user": "ann", "password": "pass-5358"},
}


def _has_all_credentials(request: ReceivedRequest) -> bool:
    return (
        request.headers.get("x-api-key") == "key-3141"
        and request.headers.get("cookie") == "session=cookie-5926; lang=vi"
        and "authorization" in request.headers
    )


def _has_any_credential(request: ReceivedRequest) -> bool:
    return bool({"x-api-key", "cookie", "authorization"} & request.headers.keys())


@pytest.mark.slow
def test_credentials_go_to_the_declared_hosts_and_nowhere_else(serve: Serve, tmp_path: Path) -> None:
    """Neither with a redirect of a page or of robots.txt, nor to another port of the host; a retry and a redirect at
    home keep them.
    """
    own, other, port = serve("127.0.0.1"), serve("127.0.0.2"), serve("127.0.0.1")
    own.gives("/robots.txt", 302, Location=f"{other.base}/robots.txt")
    own.gives("/page", 500, 200)
    own.gives("/moved", 301, Location="/page")
    own.gives("/port", 302, Location=f"{port.base}/x")
    port.gives("/x")
    done = probe(
        tmp_path,
        f"{own.base}/page",
        f"{own.base}/moved",
        f"{own.base}/port",
        f"{other.base}/direct",
        politeness=_SECRETS,
        settings={"LOG_LEVEL": "DEBUG"},
    )
    assert own.requests and all(_has_all_credentials(request) for request in own.requests)
    assert other.paths() and port.paths() == ["/robots.txt", "/x"]
    assert not any(_has_any_credential(request) for request in [*other.requests, *port.requests])
    assert done.pages[f"{own.base}/port"]["status"] == 200
    assert "/page" in done.stderr and not any(
        secret in done.stderr for secret in ("key-3141", "cookie-5926", "pass-5358", "YW5uOnBhc3M")
    )
    assert own.requests[0].headers["authorization"] == "Basic YW5uOnBhc3MtNTM1OA=="


@pytest.mark.slow
def test_a_crawl_behind_a_password_leaves_no_trace_of_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while it goes on, should it be killed."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(jobs))
    host = serve()
    host.gives("/")
    source = SiteSource.model_validate(
        {
            "name": "s",
            "kind": "site",
            "start_urls": [f"{host.base}/"],
            "politeness": {**_SECRETS, "allow_private": True},
        }
    )
    left: list[Path] = []
    outcome = crawl_site(source, RawStore(tmp_path), "r1", on_page=lambda *_: left.extend(jobs.iterdir()))
    assert left == [] and outcome.pages.fetched == 1 and all(_has_all_credentials(request) for request in host.requests)
    written = (
        b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        + outcome.model_dump_json().encode()
    )
    assert written and not any(
        secret in written for secret in (b"key-3141", b"cookie-5926", b"pass-5358", b"YW5uOnBhc3M")
    )


@pytest.mark.parametrize(
    ("start", "url", "may"),
    [
        ("https://a.test/", "https://a.test/x", True),
        ("https://a.test/", "http://a.test/x", False),
        ("http://a.test/", "http://a.test/x", True),
        ("http://a.test/", "https://a.test/x", True),
        ("https://a.test:8443/", "https://a.test:8443/x", True),
        ("https://a.test/", "https://a.test:8443/x", False),
        ("https://a.test/", "https://b.test/x", True),
        ("https://a.test/", "http://b.test/x", False),
        ("https://a.test/", "https://c.test/x", False),
        ("https://a.test/", "https://a.test.evil.test/", False),
    ],
)
def test_who_may_see_credentials(start: str, url: str, *, may: bool) -> None:
    source = SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": [start], "allowed_domains": ["a.test", "b.test"]}
    )
    assert may_see_credentials(source, url) is may


def test_secrets_are_masked_wherever_a_declaration_is_written() -> None:
    first, second = (_with_password(password) for password in ("pass-5358", "another"))
    for written in (
        repr(first),
        str(first.model_dump()),
        first.model_dump_json(),
        first.model_dump_json(by_alias=True, exclude_defaults=True),
    ):
        assert not any(secret in written for secret in ("key-3141", "cookie-5926", "pass-5358", "ann"))
    assert first.model_dump_json() == second.model_dump_json()
    revealed = first.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED)
    assert SiteSource.model_validate(revealed) == first != second


def _with_password(password: str) -> SiteSource:
    manners = {**_SECRETS, "auth": {"user": "ann", "password": password}}
    return SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": ["https://shop.test/"], "politeness": manners}
    )


@pytest.mark.parametrize(
    ("manners", "message"),
    [
        ('headers: {X-Key: "s3cret\\r\\nHost: evil"}', "line break"),
        ("headers: {X-Key: [s3cret]}", "must be a text"),
        ("headers: {X-Key: 5.3cret, host: s3cret}", "host is set by the crawl itself"),
        ("headers: {'X Key': s3cret}", "pattern"),
        ("headers: {Cookie: s3cret}", "politeness.cookies"),
        ("headers: {Authorization: s3cret}, auth: {user: u, password: s3cret}", "keep one"),
        ("headers: {X-A: s3cret, x-a: s3cret}", "twice"),
        ("cookies: {a: 's3cret; b=c'}", "semicolon"),
        ("cookies: {'a=b': s3cret}", "pattern"),
        ("auth: {user: 's3cret:x', password: s3cret}", "colon"),
        ("auth: {user: u, password: 3.1415}", "must be a text"),
        ("auth: {user: u, passwort: s3cret}", "unknown key"),
    ],
)
def test_credentials_that_cannot_be_sent_are_errors_that_show_no_value(
    tmp_path: Path, manners: str, message: str
) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        f"name: kb\nsources:\n  - {{name: s, kind: site, start_urls: ['https://shop.test/'], politeness: "
        f"{{{manners}}}}}\n"
    )
    with pytest.raises(DeclarationError) as caught:
        load_declaration(str(declared))
    assert message in caught.value.message
    written = f"{caught.value} {caught.value.__cause__} {caught.value.__cause__!r}"
    assert "s3cret" not in written and "3.1415" not in written


def test_a_url_with_a_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        "name: kb\nsources:\n  - {name: s, kind: site, start_urls: ['https://ann:s3cret@shop.test/']}\n"
    )
    with pytest.raises(DeclarationError, match=r"politeness: \{auth:") as caught:
        load_declaration(str(declared))
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__}"


# Manners


@pytest.mark.slow
def test_crawl_delay_of_our_group_is_kept_on_loopback_too(serve: Serve, tmp_path: Path) -> None:
    slow, quick = serve("127.0.0.1"), serve("127.0.0.2")
    rules = b"\xef\xbb\xbfUser-agent: other\nCrawl-delay: 20\n\nUser-agent: almanac\nCrawl-delay: 0.4\n"
    slow.gives("/robots.txt", body=rules)
    for host in (slow, quick):
        for n in range(4):
            host.gives(f"/{n}")
    urls = [f"{host.base}/{n}" for n in range(4) for host in (slow, quick)]
    # as beyond loopback; it must not quicken the pace
    throttle = {"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 0.01, "AUTOTHROTTLE_START_DELAY": 0.01}
    probe(tmp_path, *urls, politeness={"user_agent": "almanac (+mailto:a@b.test)"}, settings=throttle)
    times = [request.at for request in slow.requests]
    # The first request may be late, for it has to connect; on a busy machine any other may, too, and then the next one
    # seems to follow it closely.
    assert (
        len(times) == 5
        and times[1] - times[0] >= 0.3
        and all(at - times[1] >= 0.37 * number for number, at in enumerate(times[1:]))
    )
    pages = [request.at for request in quick.requests]
    assert max(pages) - min(pages) < times[-1] - times[0]


@pytest.mark.slow
def test_retry_after_rests_the_host_and_no_other(serve: Serve, tmp_path: Path) -> None:
    busy, other = serve("127.0.0.1"), serve("127.0.0.2")
    busy.gives("/0", 429, 200, Retry_After="2")
    for n in range(1, 30):
        busy.gives(f"/{n}")
    for n in range(20):
        other.gives(f"/{n}")
    urls = [f"{busy.base}/0", *(f"{host.base}/{n}" for n in range(1, 20) for host in (busy, other))]
    done = probe(tmp_path, *urls, politeness={"robots": False, "per_domain": 2})
    assert all(page["status"] == 200 for page in done.pages.values())
    refused, again = busy.times("/0")
    assert again - refused >= 2.0
    during = [request for request in busy.requests if refused + 0.2 < request.at < refused + 1.9]
    assert during == [], "nothing else may be asked of a host that rests"
    assert max(request.at for request in other.requests) < refused + 1.5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("5", 5), (" 7 ", 7), ("0", 0), ("1.5", 1.5), ("100000", RETRY_AFTER_MAX_S), ("9" * 5000, RETRY_AFTER_MAX_S)],
        *[
            ("-3", 0),
            ("inf", RETRY_AFTER_MAX_S),
            ("nan", 0),
            ("soon", 0),
            ("", 0),
            ("1e9", RETRY_AFTER_MAX_S),
            ("٣", 0),
        ],
        *[("Wed, 99 Foo 2026 99:99:99 GMT", 0), ("Fri, 31 Dec 99999 23:59:59 GMT", 0)],
    ],
)
def test_retry_after_is_read_whatever_it_says(value: str, seconds: float) -> None:
    assert retry_after_s(Response("http://x.test/", headers={"Retry-After": value.encode()})) == seconds


def test_retry_after_as_a_date() -> None:
    now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    for ahead_s, waited_s in ((30, 30), (-30, 0), (3 * 3600, RETRY_AFTER_MAX_S)):
        moment = format_datetime(now + timedelta(seconds=ahead_s), usegmt=True)
        assert retry_after_s(Response("http://x.test/", headers={"Retry-After": moment}), now) == waited_s


@pytest.mark.slow
def test_only_what_may_go_better_is_tried_again(serve: Serve, tmp_path: Path) -> None:
    busy, broken = serve("127.0.0.1"), serve("127.0.0.2")
    again, final = (408, 500, 502, 504, 522, 524), (400, 401, 403, 404, 410, 501)
    for host, statuses in ((busy, (429, 503)), (broken, (*again, *final))):
        for status in statuses:
            host.gives(f"/{status}", status)
    urls = [host.base + path for host in (busy, broken) for path in host.answers]
    done = probe(tmp_path, *urls, politeness={"robots": False, "per_domain": 16})
    assert {page["status"] for page in done.pages.values()} == {429, 503, *again, *final}
    for times in [busy.times("/429"), busy.times("/503"), *(broken.times(f"/{status}") for status in again)]:
        assert len(times) == 3 and all(after - before >= 0.24 for before, after in pairwise(times))
    assert all(len(broken.times(f"/{status}")) == 1 for status in final)


@pytest.mark.slow
def test_lost_connections_are_tried_again(serve: Serve, tmp_path: Path) -> None:
    """Closed without an answer, and refused."""
    closing = serve()
    closing.answers["/x"] = [(0, {}, b""), (0, {}, b""), (200, {}, b"<p>page</p>")]
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    done = probe(tmp_path, f"{closing.base}/x", refused, politeness={"robots": False})
    assert done.pages[f"{closing.base}/x"]["status"] == 200
    assert all(after - before >= 0.24 for before, after in pairwise(closing.times("/x")))
    assert done.pages[refused]["reason"] == "DownloadConnectionRefusedError"


@pytest.mark.slow
def test_time_is_up_for_those_that_wait(serve: Serve, tmp_path: Path) -> None:
    """Neither a Crawl-delay nor a host that wants a long rest holds a crawl beyond its time."""
    slow, busy = serve("127.0.0.1"), serve("127.0.0.2")
    slow.gives("/robots.txt", body=b"User-agent: *\nCrawl-delay: 1e6")
    busy.gives("/robots.txt", 200, body=b"")
    busy.gives("/x", 503, Retry_After="86400")
    urls = [f"{slow.base}/{n}" for n in range(20)]
    done = probe(tmp_path, f"{busy.base}/x", *urls, limits={"seconds": 3})
    assert done.seconds < 60  # a hang, not a speed, is what this is about
    assert done.pages[f"{busy.base}/x"]["status"] == 503
    assert slow.paths() == ["/robots.txt"]
    assert all(page["reason"] is None for url, page in done.pages.items() if url.startswith(slow.base))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trusted"), [("IP:127.0.0.1", False), ("DNS:other.test", True)])
def test_a_certificate_that_cannot_be_trusted_is_final(
    serve: Serve, tmp_path: Path, name: str, *, trusted: bool
) -> None:
    """Signed by nobody who is known, or made out to another host: nothing is asked over such a connection, and nothing
    a second time.
    """
    certificate = _certificate(tmp_path, name)
    host = serve(tls=certificate)
    host.gives("/x")
    known = {"SSL_CERT_FILE": str(certificate)} if trusted else {}
    done = probe(tmp_path, f"{host.base}/x", politeness={"robots": False}, env=known)
    page = done.pages[f"{host.base}/x"]
    assert page["reason"] == "unreachable" and page["detail"].startswith("its certificate is not trusted")
    assert (host.requests, host.connections) == ([], 1)
    plain = serve()
    plain.gives("/old", 301, Location=f"{host.base}/x")
    led = probe(
        tmp_path, f"{plain.base}/old", politeness={"robots": False}, env=known, allowed_domains=["127.0.0.1"]
    ).pages[f"{plain.base}/old"]
    assert led["detail"].startswith(f"the certificate of {host.base}/x, to which it redirects, is not trusted")


@pytest.mark.slow
def test_a_certificate_that_is_trusted_is_no_problem(serve: Serve, tmp_path: Path) -> None:
    certificate = _certificate(tmp_path, "IP:127.0.0.1")
    host = serve(tls=certificate)
    host.gives("/x")
    assert (
        probe(tmp_path, f"{host.base}/x", env={"SSL_CERT_FILE": str(certificate)}).pages[f"{host.base}/x"]["status"]
        == 200
    )


def _certificate(folder: Path, name: str) -> Path:
    """A file with a key and a certificate that signs itself."""
    path = folder / "server.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=x",
        "-addext",
        f"subjectAltName={name}",
    ]
    subprocess.run(
        [*command, "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True,
        capture_output=True,
    )
    path.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return path


# robots.txt


@pytest.mark.slow
def test_a_long_robots_txt_counts_up_to_500_kib(serve: Serve, tmp_path: Path) -> None:
    """Also where a page may not be so large, and however far it goes on."""
    host = serve()
    padding = b"# " + b"x" * 97 + b"\n"
    early, late = b"User-agent: *\nDisallow: /early\n", b"Disallow: /late\n"
    host.gives("/robots.txt", body=early + padding * 5_200 + late + padding * 300_000, Connection="close")
    for path in ("/early", "/late"):
        host.gives(path)
    done = probe(tmp_path, f"{host.base}/early", f"{host.base}/late", limits={"bytes_per_page": 1000})
    assert done.pages[f"{host.base}/early"]["detail"] == "Forbidden by robots.txt"
    assert done.pages[f"{host.base}/late"]["status"] == 200


@pytest.mark.slow
@pytest.mark.parametrize(("hops", "allowed"), [(5, False), (6, True)])
def test_robots_txt_is_followed_through_five_redirects(
    serve: Serve, tmp_path: Path, hops: int, *, allowed: bool
) -> None:
    host = serve()
    for hop in range(hops):
        host.gives("/robots.txt" if hop == 0 else f"/hop{hop}", 301, Location=f"/hop{hop + 1}")
    host.gives(f"/hop{hops}", body=b"User-agent: *\nDisallow: /")
    host.gives("/x")
    done = probe(tmp_path, f"{host.base}/x")
    assert ("status" in done.pages[f"{host.base}/x"]) is allowed


@pytest.mark.slow
def test_robots_txt_without_an_answer_allows_nothing(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    with socket.create_server(("127.0.0.2", 0)) as silent:  # takes connections and never answers
        url = f"http://127.0.0.2:{silent.getsockname()[1]}/"
        urls = [f"{url}{n}" for n in range(20)]
        done = probe(tmp_path, *urls, settings={"DOWNLOAD_TIMEOUT": 0.5, "RETRY_TIMES": 1})
    assert {page["reason"] for page in done.pages.values()} == {"timeout"}
    assert done.seconds < 20, "the pages of such a host are not tried one after the other"
    assert host.requests == []


# Settings


def test_no_unsafe_default_of_scrapy_is_left() -> None:
    source = SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["https://shop.test/"]})
    settings = Settings()
    settings.setdict(settings_for(source), priority="project")
    for name in (
        "TELNETCONSOLE_ENABLED",
        "REMOTE_CONTROL_ENABLED",
        "COOKIES_ENABLED",
        "METAREFRESH_ENABLED",
        "HTTPPROXY_ENABLED",
        "ALLOW_PRIVATE",
    ):
        assert settings.getbool(name) is False, name
    for name in ("DOWNLOAD_VERIFY_CERTIFICATES", "ROBOTSTXT_OBEY", "AUTOTHROTTLE_ENABLED"):
        assert settings.getbool(name) is True, name
    handlers = {**settings["DOWNLOAD_HANDLERS_BASE"], **settings["DOWNLOAD_HANDLERS"]}
    assert {scheme for scheme, handler in handlers.items() if handler} == {"http", "https"}
    assert (settings.getint("DOWNLOAD_MAXSIZE"), settings.getfloat("DOWNLOAD_TIMEOUT")) == (16 << 20, 30)
    assert settings.getint("CLOSESPIDER_TIMEOUT") == 3600 and settings["JOBDIR"] is None
    assert settings["TWISTED_DNS_RESOLVER"] == "almanac.spiders.crawling.addresses.GuardedResolver"
    assert OSError not in settings["RETRY_EXCEPTIONS"]
