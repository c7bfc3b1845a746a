"""A site whose answers take far more to read than they weigh, or never end, beside healthy pages: each is told, and the
run publishes the rest.
"""

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, read_table
from almanac.flows.pipeline.run import Run
from tests.flows.commands import carry_out
from tests.forked import forked_crawls
from tests.hardening.http_bombs import Answer, http_bombs
from tests.hardening.tally import tallied
from tests.hardening.usage import GROWTH_MIB, Usage
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.proof.base import TORTURE

pytestmark = pytest.mark.slow
_EACH_S = 10.0  # of processor time for an answer, on average
_LISTS = ("sitemap", "rss-", "atom-", "json-feed")  # which lead on, and are no items


class _Site:
    """`/bomb/NAME` answers as its bomb does, `/fine/NUMBER` is healthy, and `/` leads to all of them."""

    def __init__(self, bombs: dict[str, Answer]) -> None:
        self.requests: Counter[str] = Counter()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                name = self.path.removeprefix("/bomb/")
                site.requests[name] += 1
                with suppress(OSError):
                    if name in bombs:
                        self.close_connection = True
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
                        for piece in bombs[name]():
                            self.wfile.write(piece)
                        return
                    self._answer(site.page(self.path))

            def _answer(self, page: str | None) -> None:
                body = (page or "").encode()
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        links = [f"/fine/{number}" for number in range(4)] + [
            f"/bomb/{name}" for name in bombs if not name.startswith("sitemap")
        ]
        self._home = "<h1>Home</h1><p>All that there is.</p>" + "".join(
            f'<a href="{link}">x</a> ' for link in [*links, "/fine/5", "/fine/6"]
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def page(self, path: str) -> str | None:
        if path == "/":
            return self._home
        number = path.removeprefix("/fine/")
        markup = (
            f"<h1>Page {number}</h1><p>What page {number} has to say stands here alone: {number}, {number} and "
            f"{number} once more.</p>"
        )
        return markup if path.startswith("/fine/") else None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def bombs() -> dict[str, Answer]:
    return http_bombs(None if TORTURE else 3)


@pytest.fixture
def site(bombs: dict[str, Answer]) -> Iterator[_Site]:
    made = _Site(bombs)
    yield made
    made.close()


def _declared(folder: Path, site: _Site, bombs: dict[str, Answer]) -> Path:
    source: dict[str, Any] = {
        "name": "pages",
        "kind": "site",
        "start_urls": [f"{site.base}/"],
        "sitemaps": [f"{site.base}/bomb/{name}" for name in bombs if name.startswith("sitemap")],
        "yields": "documents",
        "body": "all",
        "follow": {"deny": ["/nowhere/", r"^http://127\.0\.0\.1/"], "allow": ["/bomb/", "/fine/"]},
        "politeness": {"allow_private": True, "delay_s": 0},
        "limits": {"bytes_per_page": "8MiB", "seconds": 400, "depth": 1},
    }
    gate = {"max_lost": None, "max_failed": None, "max_added": None}
    path = folder / "kb.yaml"
    path.write_text(
        json.dumps({"name": "kb", "sources": [source], "validate": {"max_rejected": 1}, "gate": gate}), encoding="utf-8"
    )
    return path


def test_every_answer_is_told_and_its_neighbours_are_published(
    tmp_path: Path, site: _Site, bombs: dict[str, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
    monkeypatch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
    data = DataDir(tmp_path / "data")
    promise = (
        "asked for, and read, failed or rejected with its reason; healthy neighbours published; less than "
        f"{GROWTH_MIB} MiB more in all processes"
    )
    with tallied("Bombs over HTTP", promise, 130) as tally, forked_crawls(), without_children(), Usage() as usage:
        report = carry_out(Run(load_declaration(str(_declared(tmp_path, site, bombs)), ""), data))
        assert report["version"], report
        (source,) = report["sources"]
        processed = data.processed("kb")
        rejects = [json.loads(line) for line in (processed / "rejects.jsonl").read_text(encoding="utf-8").splitlines()]
        duplicates = [
            json.loads(line) for line in (processed / "duplicates.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        documents = {
            url.removeprefix(site.base) for url in read_table(processed / DOCUMENTS, ["url"]).column(0).to_pylist()
        }
        reported = {
            entry["url"].removeprefix(site.base) for entry in [*source["failures"], *rejects, *duplicates]
        } | documents
        unreported = [
            name for name in bombs if f"/bomb/{name}" not in reported and not name.startswith(_LISTS) and name != "meta"
        ]
        # pages without any text are counted, not listed
        of_count = unreported if len(unreported) > source["without_text"] else []
        for name in bombs:
            tally.note(
                name,
                "never asked for"
                if not site.requests[name]
                else "nobody says what became of it"
                if name in of_count
                else None,
            )
        for number in (0, 1, 2, 3, 5, 6):
            tally.note(f"healthy page {number}", held=f"/fine/{number}" in documents)
        tally.note("memory", None if usage.growth_mib < GROWTH_MIB else f"{usage.growth_mib} MiB more")
        tally.note("processor time", None if usage.seconds < _EACH_S * len(bombs) else f"{usage.seconds:.0f} s")
