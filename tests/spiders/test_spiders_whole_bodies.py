"""Bodies that were cut short on the way, over real sockets: tried again, then counted as failed, and the page keeps
what it had.
"""

import gzip
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
from backports import zstd

from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.whole_bodies import decoded
from almanac.spiders.store.raw import RawStore

_PAGE = b"<h1>A page</h1>" + b"".join(
    b"<p>Sentence number %d of a page that is long enough to be cut.</p>" % n for n in range(400)
)
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def answer(body: bytes, *headers: str, length: int | None = None, status: bytes = _OK) -> bytes:
    header_lines = [f"Content-Length: {len(body) if length is None else length}", *headers, "Connection: close"]
    return status + "\r\n".join(header_lines).encode() + b"\r\n\r\n" + body


def unframed(body: bytes, version: bytes) -> bytes:
    return _OK.replace(b"HTTP/1.1", version) + b"Connection: close\r\n\r\n" + body


def chunked(body: bytes, *, whole: bool = True) -> bytes:
    parts = [body[place : place + 1000] for place in range(0, len(body), 1000)]
    content = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return _OK + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + content + (b"0\r\n\r\n" if whole else b"")


def encoded(name: str, body: bytes, **keys: Any) -> bytes:
    return answer(body, f"Content-Encoding: {name}", **keys)


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def flushed(body: bytes) -> bytes:
    """Gzip data that end with a flush, not with a last block."""
    packer = zlib.compressobj(wbits=31)
    return packer.compress(body) + packer.flush(zlib.Z_SYNC_FLUSH)


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
_HALF = _PAGE[: len(_PAGE) // 2]
CUT: dict[str, bytes] = {
    "length-ahead": answer(_HALF, length=len(_PAGE)),
    "chunks-without-end": chunked(_HALF, whole=False),
    "chunk-in-the-middle": chunked(_PAGE)[:-500],
    **{f"{name}-cut": encoded(name, pack(_PAGE)[:-12]) for name, pack in ENCODERS.items()},
    **{f"{name}-half": encoded(name, pack(_PAGE)[: len(pack(_PAGE)) // 2]) for name, pack in ENCODERS.items()},
    "raw-deflate-cut": encoded("deflate", raw_deflate(_PAGE)[:-5]),
    "gzip-in-chunks-cut": chunked(gzip.compress(_PAGE)[:-20]).replace(
        b"Transfer-", b"Content-Encoding: gzip\r\nTransfer-", 1
    ),
    "gzip-header-only": encoded("gzip", gzip.compress(_PAGE)[:7]),
}
WHOLE: dict[str, bytes] = {
    "plain": answer(_PAGE),
    "chunked": chunked(_PAGE),
    **{name: encoded(name, pack(_PAGE)) for name, pack in ENCODERS.items()},
    "raw-deflate": encoded("deflate", raw_deflate(_PAGE)),
    "two-members": encoded("gzip", gzip.compress(_PAGE[:500]) + gzip.compress(_PAGE[500:])),
    "gzip-without-trailer": encoded("gzip", gzip.compress(_PAGE)[:-8]),  # nothing of the page lacks
    "gzip-flushed": encoded("gzip", flushed(_PAGE)),
    "gzip-and-padding": encoded("gzip", gzip.compress(_PAGE) + b"\0" * 20),
    "blank-lines-after": answer(_PAGE + b"\r\n\r\n", length=len(_PAGE)),
    "http-1.0": unframed(_PAGE, b"HTTP/1.0"),
    "no-length": unframed(_PAGE, b"HTTP/1.1"),
}


class Site:
    def __init__(self, base: str) -> None:
        self.base = base
        self.answers: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()

    def serve(self, pages: dict[str, bytes]) -> None:
        links = "".join(f"<a href='/{name}'>{name}</a>" for name in pages)
        self.answers = {"/": answer(links.encode()), **{f"/{name}": content for name, content in pages.items()}}
        self.requests.clear()

    def crawl(self, raw: RawStore, run_id: str, concluded: str | None = None) -> CrawlOutcome:
        source = {"name": "s", "kind": "site", "start_urls": [f"{self.base}/"], "politeness": {"allow_private": True}}
        return crawl_site(SiteSource.model_validate(source), raw, run_id, previous=PreviousCrawls(concluded=concluded))


@pytest.fixture
def site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def do_GET(self) -> None:
            served.requests[self.path] += 1
            self.wfile.write(served.answers.get(self.path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Site(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield served
    server.shutdown()
    server.server_close()


def bodies(raw: RawStore, run_id: str, base: str) -> dict[str, bytes]:
    return {page.url.removeprefix(f"{base}/"): page.body for page in raw.pages(run_id)}


@pytest.mark.slow
def test_a_body_that_was_cut_short_is_a_failed_fetch_and_the_page_keeps_what_it_had(site: Site, tmp_path: Path) -> None:
    """Of each kind: asked for three times, counted as failed, and read from the last crawl. A page that is new and cut
    is not stored at all.
    """
    raw, old = RawStore(tmp_path), b"<h1>A page</h1><p>as it was before</p>"
    site.serve(dict.fromkeys(CUT, answer(old)))
    assert site.crawl(raw, "r1").pages.fetched == len(CUT) + 1
    site.serve({**CUT, "new": CUT["gzip-cut"]})
    outcome = site.crawl(raw, "r2", "r1")
    assert {path: times for path, times in site.requests.items() if path not in ("/", "/robots.txt")} == {
        f"/{name}": 3 for name in [*CUT, "new"]
    }
    assert (outcome.pages.fetched, outcome.pages.failed, outcome.kept, outcome.pages.vanished) == (
        1,
        len(CUT) + 1,
        len(CUT),
        0,
    )
    assert {failure.reason for failure in outcome.failures} == {"unreachable"}
    assert {failure.detail.partition(":")[0] for failure in outcome.failures} == {
        "its compressed body is cut short",
        "its body is cut short",
    }
    stored = bodies(raw, "r2", site.base)
    assert stored.keys() == {"", *CUT} and all(stored[name] == old for name in CUT)


@pytest.mark.slow
def test_a_whole_body_is_taken_however_it_is_sent(site: Site, tmp_path: Path) -> None:
    """Also without a length, where nobody can tell; and a cut body of a page that is gone says all the same that it is
    gone.
    """
    site.serve(
        {
            **WHOLE,
            "gone": encoded(
                "gzip", gzip.compress(_PAGE)[:-20], status=b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n"
            ),
        }
    )
    outcome = site.crawl(RawStore(tmp_path), "r1")
    assert (outcome.pages.fetched, outcome.pages.failed, outcome.pages.gone) == (len(WHOLE) + 1, 0, 1)
    stored = bodies(RawStore(tmp_path), "r1", site.base)
    assert {name: stored[name] == _PAGE for name in WHOLE} == dict.fromkeys(WHOLE, True)
    assert set(site.requests.values()) == {1}


@pytest.mark.parametrize("name", ENCODERS)
def test_of_a_cut_body_as_much_as_there_is(name: str) -> None:
    """At every place: never taken for whole, unless only a checksum lacks."""
    packed = ENCODERS[name](_PAGE[:3000])
    assert decoded(packed, name.encode()) == (_PAGE[:3000], True)
    checksum = {"gzip": 8, "deflate": 4}.get(name, 0)
    for length in range(1, len(packed) - checksum):
        text, is_whole = decoded(packed[:length], name.encode())
        assert not is_whole and _PAGE[:3000].startswith(text)
    large = ENCODERS[name](b"x" * 1_000_000)
    assert decoded(large, name.encode()) == (b"x" * 1_000_000, True)
    with pytest.raises(ValueError, match="exceeds"):
        decoded(large, name.encode(), 100_000)
    assert decoded(b"", name.encode()) == (b"", True)


@pytest.mark.parametrize("flags", range(32))
def test_every_gzip_header_is_passed_over(flags: int) -> None:
    plain = gzip.compress(_PAGE)
    extra = (
        (b"\x03\x00abc" if flags & 4 else b"")
        + (b"name\0" if flags & 8 else b"")
        + (b"a comment\0" if flags & 16 else b"")
        + (b"xx" if flags & 2 else b"")
    )
    packed = plain[:3] + bytes([flags]) + plain[4:10] + extra + plain[10:]
    assert decoded(packed, b"gzip") == (_PAGE, True)
    assert all(decoded(packed[:length], b"gzip") == (b"", False) for length in range(1, 10 + len(extra)))


def test_what_was_never_compressed_is_an_error() -> None:
    with pytest.raises(OSError, match="is not"):
        decoded(b"<p>plain</p>", b"gzip")
    with pytest.raises(zlib.error):
        decoded(b"<p>plain</p>", b"deflate")
