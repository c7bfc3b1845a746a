"""Pages that a browser draws, in a real Chromium, against real servers on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from almanac.core.extras import missing_package
from almanac.core.settings import installation
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.chromium import find_chromium, processes_below
from almanac.spiders.crawling.crawl import fetch_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.store.journal import Entry
from almanac.spiders.store.raw import RawStore
from tests.conftest import PATIENCE_S, Almanac
from tests.proof.base import TORTURE
from tests.spiders.conftest import Answer, Site
from tests.spiders.test_spiders_linked_documents import report

_MISSING = missing_package("render") or (None if find_chromium() else "Chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("drawing"),  # one browser at a time
    pytest.mark.skipif(_MISSING is not None, reason=f"pages are drawn with {_MISSING}, which this machine has not"),
]

_CARDS = """<!doctype html><title>{title}</title><h1>{title}</h1><div id="cards"></div>{links}
<script>fetch("/api/{api}").then(answer => answer.json()).then(names => {{
  for (const name of names) document.getElementById("cards").innerHTML += `<p class="card">${{name}}</p>`
}})</script>"""
_MORE = """<button id="agree" onclick="this.remove()">Agree</button>
<details id="fold"><summary class="fold">more of it</summary><p>folded</p></details>
<button id="more" onclick="add()">More</button>
<div style="height: 3000px"></div><div id="end"></div>
<script>
let clicked = 0, scrolled = 0
const put = (place, name) => { document.getElementById(place).innerHTML += `<p class="card" style="height: 400px">${name}</p>` }
const add = () => fetch("/api/more").then(() => { put("cards", "more " + ++clicked); if (clicked == 3) document.getElementById("more").remove() })
const isAtEnd = () => innerHeight + scrollY >= document.body.scrollHeight - 2
addEventListener("scroll", () => { if (isAtEnd() && scrolled < 2) setTimeout(() => put("end", "scrolled " + ++scrolled), 200) })
</script>"""  # noqa: E501


def source_of(base: str, *, render: Any = True, **keys: Any) -> SiteSource:
    manners = {"allow_private": True, **keys.pop("politeness", {})}
    return SiteSource.model_validate(
        {"name": "shop", "kind": "site", "start_urls": [f"{base}/"], "render": render, "politeness": manners, **keys}
    )


def crawl(
    folder: Path, source: SiteSource, run_id: str = "r1", **keys: Any
) -> tuple[CrawlOutcome, dict[str, tuple[Entry, str]]]:
    """The outcome of a crawl, and its pages by their paths."""
    raw = RawStore(folder / "raw")
    outcome = fetch_site(source, raw, run_id, **keys)
    base = source.start_urls[0].rstrip("/")
    return outcome, {
        entry.url.removeprefix(base): (entry, (raw.body(entry.sha256) or b"").decode())
        for entry in raw.index(run_id).in_order()
    }


def test_what_scripts_put_in_is_stored_and_what_is_not_drawn_has_failed(loopback_site: Site, tmp_path: Path) -> None:
    """One crawl over pages of many kinds: what is stored is the page as drawn, and whatever a page does, the rules of
    the crawl hold.
    """
    site = loopback_site
    links = "".join(
        f'<a href="{path}">{path}</a>'
        for path in ("/more", "/never", "/moved", "/refresh", "/away", "/barred", "/data.json", "/endless")
    )
    site.page("/", _CARDS.format(title="Home", api="home", links=links), headers={"ETag": '"fixed"'})
    site.page("/more", _CARDS.format(title="More", api="home", links="") + _MORE)
    site.page(
        "/never",
        "<title>Never</title><div class='card' style='display: none'>a template</div><script>"
        "fetch('/api/secret')</script>",
    )
    site.page("/moved", "<title>Moved</title><script>location.href = '/target'</script>")
    site.page("/target", _CARDS.format(title="Target", api="home", links=""))
    site.page("/refresh", "<title>Refresh</title><meta http-equiv='refresh' content='0; url=/forbidden/page'>")
    site.page("/away", "<title>Away</title><script>location = 'http://elsewhere.example/'</script>")
    site.page(
        "/barred", _CARDS.format(title="Barred", api="home", links="") + "<script>fetch('/forbidden/data')</script>"
    )
    site.page("/endless", "<title>Endless</title><script>while (true) {}</script>")
    site.page("/data.json", '{"a": 1}', content_type="application/json", headers={"ETag": '"data"'})
    site.page("/robots.txt", "User-agent: *\nDisallow: /forbidden/\nDisallow: /api/secret\n", content_type="text/plain")
    site.page("/api/home", '["Lamp", "Chair"]', content_type="application/json")
    site.page("/api/more", "{}", content_type="application/json")
    click = ["css=#agree", "css=.fold", {"on": "xpath=//button[@id='more']", "times": 20}, "css=.not-there"]
    source = source_of(site.base, render={"wait_for": "css=.card", "timeout_s": 8, "click": click, "scroll": 10})

    outcome, pages = crawl(tmp_path, source)

    assert pages.keys() == {"/", "/more", "/target", "/barred", "/data.json"}
    entry, body = pages["/"]
    assert '<p class="card">Lamp</p><p class="card">Chair</p>' in body
    assert entry.rendered.startswith("Chromium ") and "wait_for: css=.card" in entry.rendered
    assert (entry.etag, entry.content_type) == (None, "text/html; charset=utf-8")
    assert pages["/data.json"][0].etag == '"data"' and not pages["/data.json"][0].rendered, (
        "what is no page of HTML stays as it came"
    )
    more = pages["/more"][1]
    assert "Agree" not in more and '<details id="fold" open="">' in more
    assert [name in more for name in ("more 3", "more 4", "scrolled 2")] == [True, False, True]
    assert pages["/target"][0].redirects == [f"{site.base}/moved"]
    failures = {failure.url.removeprefix(site.base): (failure.reason, failure.detail) for failure in outcome.failures}
    assert failures["/never"][0] == "not_drawn"
    assert failures["/never"][1].startswith("no element is visible for css=.card within 8 s; it could not ask for")
    assert failures["/refresh"][0] == "refused_by_robots"
    assert failures["/away"] == ("off_site", "redirects to http://elsewhere.example/")
    assert failures["/endless"][0] == "not_drawn"
    assert not [path for path in site.requests if "forbidden" in path or "secret" in path]
    assert site.requests["/more"] == 1, "the browser asks for no page itself"


def test_documents_are_not_drawn_whatever_they_are_sent_as_and_pages_are(loopback_site: Site, tmp_path: Path) -> None:
    site = loopback_site
    body = report("the first line")
    site.page(
        "/",
        _CARDS.format(title="Home", api="home", links="<a href=/report>Report</a>"),
        headers={"Content-Disposition": "attachment; filename=a.html"},
    )
    site.page("/api/home", '["Lamp"]', content_type="application/json")
    site.page("/report", body, content_type="text/html")
    raw = RawStore(tmp_path / "raw")
    outcome = fetch_site(source_of(site.base, render={"wait_for": "css=.card"}, fetch=["html", "pdf"]), raw, "r1")
    page, document = sorted(raw.index("r1").in_order(), key=lambda entry: entry.url)
    assert outcome.failures == [] and '<p class="card">Lamp</p>' in (raw.body(page.sha256) or b"").decode()
    assert (document.content_type, document.rendered, raw.body(document.sha256)) == ("application/pdf", "", body)


def test_a_page_whose_document_has_not_changed_is_drawn_again(loopback_site: Site, tmp_path: Path) -> None:
    """The validators are those of the document: what its scripts fetch may be another today. Where they fail, the page
    is kept.
    """
    site = loopback_site
    site.page("/", _CARDS.format(title="Home", api="home", links=""), headers={"ETag": '"fixed"'})
    site.page("/api/home", '["Lamp"]', content_type="application/json")
    source = source_of(site.base, render={"wait_for": "css=.card", "timeout_s": 30})
    crawl(tmp_path, source)
    site.page("/api/home", '["Sofa"]', content_type="application/json")
    outcome, pages = crawl(tmp_path, source, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.pages.fetched, "Sofa" in pages["/"][1]) == (1, True)
    plain = source.model_copy(update={"render": None})
    assert requester_fingerprint(plain) != requester_fingerprint(source), (
        "pages as they were sent are not taken for drawn ones"
    )


@pytest.mark.parametrize("ends", ["the browser", "the crawl", "the crawl politely"])
def test_whatever_dies_no_browser_is_left_and_no_page_is_lost(ends: str, loopback_site: Site, tmp_path: Path) -> None:
    """A browser that is killed costs an attempt, and one that has drawn enough is followed by another. A crawl that is
    killed takes its browser with it, and goes on where it was.
    """
    site, seen = loopback_site, threading.Event()
    links = "".join(f'<a href="/page/{number}">{number}</a>' for number in range(3))
    site.page("/", _CARDS.format(title="Home", api="0", links=links))

    def answer(path: str) -> Answer:
        if path.startswith("/api/"):
            if path == "/api/2":
                seen.set()
                time.sleep(1)
            return Answer('["Lamp"]', content_type="application/json")
        return (
            Answer(_CARDS.format(title=path, api=path.removeprefix("/page/"), links=""))
            if path.startswith("/page/")
            else Answer("no", 404)
        )

    site.otherwise = answer
    source = source_of(site.base, render={"wait_for": "css=.card", "timeout_s": 30})
    with _job(tmp_path, source, browser={"RESTART_AFTER": 2}) as process:
        assert seen.wait(PATIENCE_S)
        browsers = processes_below(process.pid)
        assert any("chrom" in _name(process_id) for process_id in browsers)
        if ends == "the browser":
            for process_id in browsers:
                if "--type=" not in _command(process_id) and "chrom" in _name(process_id):
                    os.kill(process_id, signal.SIGKILL)
        elif ends == "the crawl":
            process.kill()
        else:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        _gone(browsers)
    if ends == "the browser":
        assert process.returncode == 0
    else:
        _, pages = crawl(tmp_path, source)
        assert len(pages) == 4
        assert site.requests["/"] == 1, "what had arrived is not asked for again"
    assert len(RawStore(tmp_path / "raw").index("r1").urls) == 4


@pytest.mark.skipif(not TORTURE, reason="five whole runs with a browser")
def test_a_run_that_is_interrupted_leaves_no_browser_and_the_next_equals_one_that_never_was(
    almanac_alone: Almanac, loopback_site: Site, tmp_path: Path
) -> None:
    site, drawn = loopback_site, threading.Semaphore(0)
    links = "".join(f'<a href="/page/{number}">{number}</a>' for number in range(8))
    site.page("/", _CARDS.format(title="Home", api="0", links=links))

    def answer(path: str) -> Answer:
        if path.startswith("/api/"):
            drawn.release()
            time.sleep(0.3)
            return Answer(f'["Lamp {path}"]', content_type="application/json")
        return (
            Answer(_CARDS.format(title=path, api=path.removeprefix("/page/"), links=""))
            if path.startswith("/page/")
            else Answer("no", 404)
        )

    site.otherwise = answer
    source = {
        "name": "s",
        "kind": "site",
        "start_urls": [f"{site.base}/"],
        "yields": "documents",
        "body": "all",
        "render": {"wait_for": "css=.card"},
    }
    declaration = {
        "name": "lamps",
        "sources": [{**source, "politeness": {"allow_private": True}}],
        "embed": {"provider": "local", "model": "all-MiniLM-L6-v2"},
    }
    declared = tmp_path / "lamps.yaml"
    declared.write_text(json.dumps(declaration), encoding="utf-8")
    digests = []
    for stops in (None, signal.SIGINT, signal.SIGTERM):
        data = tmp_path / str(stops)
        if stops is not None:
            while drawn.acquire(blocking=False):
                pass
            command = [sys.executable, "-m", "almanac.cli.main", "run", str(declared), "--json"]
            environment = {**os.environ, **almanac_alone.environment, "ALMANAC_DATA": str(data)}
            with subprocess.Popen(
                command, cwd=installation(), env=environment, stdout=subprocess.PIPE, start_new_session=True
            ) as process:
                assert all(drawn.acquire(timeout=PATIENCE_S) for _ in range(4))
                below = processes_below(process.pid)
                assert any("chrom" in _name(process_id) for process_id in below)
                process.send_signal(stops)
                out, _ = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, json.loads(out)["error"]["kind"]) == (130, "interrupted")
            _gone(below)
        done = almanac_alone("run", str(declared), "--json", data=data)
        assert (done.code, done.json["pages"]["failed"], done.json["items"]["added"]) == (0, 0, 9)
        digests.append(json.loads((data / "index/lamps/versions/v0001/manifest.json").read_text())["digest"])
    assert len(set(digests)) == 1


@contextmanager
def _job(folder: Path, source: SiteSource, **instructions: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A crawl `r1` in a process that is ended with the block; the `instructions` go to tests.spiders.drawn."""
    from almanac.schemas.declaration.credentials import REVEALED

    declared = source.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED)
    job = {"source": declared, "raw": str(folder / "raw"), "run_id": "r1"}
    (folder / "job.json").write_text(
        json.dumps({"job": job, "public": [], "names": {}, "bare": False, "browser": {}, **instructions}),
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spiders.drawn", str(folder / "job.json")],
        cwd=installation(),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _name(pid: int) -> str:
    return _command(pid).partition("\0")[0].rpartition("/")[2]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _gone(pids: list[int]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while left := [pid for pid in pids if _command(pid)]:  # a zombie has none
        assert time.monotonic() < ends, [_command(pid)[:200] for pid in left]
        time.sleep(0.05)


# Nothing private


@pytest.fixture
def inside() -> Iterator[tuple[int, int, list[str]]]:
    """A port on which TCP of this machine listens, one for datagrams, and what arrived at either."""
    hits: list[str] = []
    first = socket.create_server(("127.0.0.1", 0))
    port = first.getsockname()[1]
    listening = [first, *_six(port)]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                try:
                    hits.append(connection.recv(200).decode("latin-1"))
                except OSError as error:
                    hits.append(str(error))

    def receive() -> None:
        while True:
            try:
                hits.append(f"datagram {datagrams.recvfrom(2000)!r}")
            except OSError:
                return

    threading.Thread(target=receive, daemon=True).start()
    for server_socket in listening:
        threading.Thread(target=accept, args=(server_socket,), daemon=True).start()
    yield port, datagrams.getsockname()[1], hits
    for listener in (*listening, datagrams):
        listener.close()


def _six(port: int) -> list[socket.socket]:
    try:
        return [socket.create_server(("::1", port), family=socket.AF_INET6)]
    except OSError:  # a machine without IPv6
        return []


@pytest.mark.parametrize("is_allowed", [False, True])
def test_no_page_reaches_a_private_address_by_any_means(
    is_allowed: bool, inside: tuple[int, int, list[str]], outside: Callable[..., str], tmp_path: Path
) -> None:
    """A page tries whatever a browser has; without the scripts that take some of it away, so that the doors themselves
    are tried.

    Where private addresses are allowed, the same page reaches them: its tries are good ones.
    """
    port, datagrams, hits = inside
    pages: dict[str, Any] = {
        "/control": "reached",
        "/hop": f"http://127.0.0.1:{port}/hopped",
        "/service.js": f"fetch('http://127.0.0.1:{port}/service')",
    }
    base = outside(pages)
    written = (Path(__file__).parent / "hostile.html").read_text(encoding="utf-8")
    pages["/"] = written.format(port=port, datagrams=datagrams, public=base.rpartition(":")[2])
    names = {
        "inside.example": ["127.0.0.1"],
        "public.example": ["127.0.0.2"],
        "turning.example": ["127.0.0.2", "127.0.0.1"],
    }
    render = {"wait_for": "css=#done", "timeout_s": 60, "block": []}
    source = source_of(
        base, render=render, limits={"pages": 1}, politeness={"allow_private": is_allowed, "robots": False}
    )
    with _job(tmp_path, source, public=["127.0.0.2"], names=names, bare=True) as process:
        assert process.wait(PATIENCE_S) == 0
    (page,) = RawStore(tmp_path / "raw").pages("r1")
    markup = page.body.decode()
    assert "control: got reached" in markup, "a public host is reached"
    if is_allowed:
        assert {hit.split(" ")[1] for hit in hits if hit.startswith(("GET", "POST"))} >= {
            "/image",
            "/fetch",
            "/xhr",
            "/frame",
            "/socket",
            "/hopped",
            "/beacon",
        }
    else:
        assert hits == []
        ways = (
            "fetch",
            "hop",
            "xhr",
            "websocket",
            "websocket by name",
            "secure websocket",
            "eventsource",
            "worker",
            "webtransport",
            "file",
            "import",
        )
        assert [way for way in ways if f"<li>{way}: refused</li>" not in markup] == []


@pytest.fixture
def outside() -> Iterator[Callable[..., str]]:
    """Serves pages on 127.0.0.2; what begins with http is a redirect. `credentials` gets those of each request."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    running = []

    def serve(pages: dict[str, Any], credentials: dict[str, Any] | None = None, address: str = "127.0.0.2") -> str:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                return

            def do_GET(self) -> None:
                if credentials is not None:
                    credentials[self.path] = {
                        name: self.headers.get(name) for name in ("cookie", "x-key", "authorization")
                    }
                given = pages.get(self.path, "")
                self.send_response(302 if given.startswith("http") else 200 if given else 404)
                if given.startswith("http"):
                    self.send_header("Location", given)
                self.send_header(
                    "Content-Type", "text/javascript" if self.path.endswith(".js") else "text/html; charset=utf-8"
                )
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(given.encode())

        server = ThreadingHTTPServer((address, 0), Handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return f"http://{address}:{server.server_port}"

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


def test_credentials_go_to_the_host_of_the_page_and_no_other(outside: Callable[..., str], tmp_path: Path) -> None:
    """Declared headers go with the page alone: the browser would send them along with a redirect."""
    credentials: dict[str, dict[str, str | None]] = {}
    other = outside({"/elsewhere": "{}"}, credentials)
    pages = {"/api": "{}", "/hop": f"{other}/elsewhere"}
    base = outside(pages, credentials, "127.0.0.1")
    tries = (
        "Promise.allSettled([fetch('/api'), fetch('/hop')]).then(() => { document.body.innerHTML = '<p class=done>"
        "done</p>' })"
    )
    pages["/"] = f"<title>Mine</title><body><script>{tries}</script>"
    manners = {
        "cookies": {"session": "s3cret"},
        "headers": {"X-Key": "k3y"},
        "auth": {"user": "u", "password": "p"},
        "robots": False,
    }
    source = source_of(base, render={"wait_for": "css=.done", "timeout_s": 30}, limits={"pages": 1}, politeness=manners)
    outcome, _ = crawl(tmp_path, source)
    assert outcome.pages.fetched == 1
    assert credentials["/"] == {"cookie": "session=s3cret", "x-key": "k3y", "authorization": "Basic dTpw"}
    assert (credentials["/api"]["cookie"], credentials["/api"]["x-key"]) == ("session=s3cret", None)
    assert set(credentials["/elsewhere"].values()) == {None}
