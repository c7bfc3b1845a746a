"""adv_sitemaps: 18 sitemaps of all forms, served with their URLs moved to a server that has a page for each; the crawl
has to fetch them all.

Truth is read from the bytes by lxml's forgiving parser and by line, and knows nothing of how the product reads
sitemaps.
"""

import gzip
import html
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lxml.etree

from almanac.spiders.crawling.unknown_urls import made_up_names
from tests.reference.figures import Figure
from tests.reference.journey import CONTENT, travel

_FOLDER = CONTENT / "adv_sitemaps/crawler-commons/src/test/resources/sitemaps"
_PAGE = (
    "<html><head><title>{0}</title></head><body><p>A page of its own for {0}, with enough to read on it.</p>"
    "</body></html>"
)


def adv_sitemaps() -> Iterator[Figure]:
    files = sorted(path for path in _FOLDER.rglob("*.*") if path.is_file())
    truth = {path.name: _urls(_unzipped(path.read_bytes())) for path in files}
    yield Figure("sitemaps", len(files), 18)
    requested_paths = _crawled(files, truth)
    for name, urls in truth.items():
        missing = [url for place, url in _places(name, urls).items() if place not in requested_paths]
        yield Figure(name, len(urls) - len(missing), len(urls), missing)
    surplus = sorted(requested_paths - {place for name, urls in truth.items() for place in _places(name, urls)})
    yield Figure("nothing else asked for", int(not surplus), 1, surplus)


def _places(name: str, urls: list[str]) -> dict[str, str]:
    """The path that stands for each URL of a sitemap on the loopback server."""
    return {f"/page/{name}/{number}": url for number, url in enumerate(urls)}


def _unzipped(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def _urls(body: bytes) -> list[str]:
    """URLs in order, each once: pages of a urlset, entries of a feed, sitemaps of an index, lines of a text."""
    if not body.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"<"):
        urls = body.decode("utf-8-sig").split()
    else:
        tree = lxml.etree.fromstring(
            body.lstrip(b"\xef\xbb\xbf \r\n"), lxml.etree.XMLParser(recover=True, resolve_entities=False)
        )
        entries = tree.xpath("/*/*[local-name()='url' or local-name()='sitemap']")
        texts = [(entry.xpath("string(*[local-name()='loc'])") or entry.text or "").strip() for entry in entries]
        links = tree.xpath("/*/*[local-name()='entry']/*[local-name()='link'][not(@rel) or @rel='alternate'][1]/@href")
        urls = [*filter(None, texts), *links]
    return list(dict.fromkeys(urls))


def _crawled(files: list[Path], truth: dict[str, list[str]]) -> set[str]:
    """The paths that a crawl of all sitemaps asks for, when their URLs lead to the loopback server."""
    with _serving() as (site, bodies, requested_paths):
        for path in files:
            moved = _moved(
                _unzipped(path.read_bytes()),
                {url: site + place for place, url in _places(path.name, truth[path.name]).items()},
            )
            bodies[f"/{path.name}"] = gzip.compress(moved) if path.suffix == ".gz" else moved
        travel("adv_sitemaps", SITE=site)
        return {
            path
            for path in requested_paths - {*bodies, "/robots.txt"}
            if not any(name in path for name in made_up_names(site))
        }


def _moved(body: bytes, places: dict[str, str]) -> bytes:
    """A sitemap in which every URL is replaced; the longest first, as one may begin with another."""
    longest_first = sorted(places, key=len, reverse=True)
    for number, url in enumerate(longest_first):
        for written in (html.escape(url, quote=False), url):
            body = body.replace(written.encode(), b"\0%d\0" % number)
    for number, url in enumerate(longest_first):
        body = body.replace(b"\0%d\0" % number, places[url].encode())
    return body


@contextmanager
def _serving() -> Iterator[tuple[str, dict[str, bytes], set[str]]]:
    """A server on loopback with a page for every path: its URL, the bodies that it gives at once, and the paths it was
    asked for.
    """
    bodies: dict[str, bytes] = {}
    requested_paths: set[str] = set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Pages, bodies, requested_paths))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies, requested_paths
    finally:
        server.shutdown()
        server.server_close()


class _Pages(BaseHTTPRequestHandler):
    def __init__(self, bodies: dict[str, bytes], requested_paths: set[str], *arguments: object) -> None:
        self.bodies, self.requested_paths = bodies, requested_paths
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.requested_paths.add(self.path)
        sitemap = self.bodies.get(self.path)
        is_robots = self.path == "/robots.txt"
        body = sitemap if sitemap is not None else b"" if is_robots else _PAGE.format(self.path).encode()
        self.send_response(404 if is_robots else 200)
        kind = (
            "text/html"
            if sitemap is None
            else "application/gzip"
            if self.path.endswith(".gz")
            else "text/plain"
            if self.path.endswith(".txt")
            else "application/xml"
        )
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
