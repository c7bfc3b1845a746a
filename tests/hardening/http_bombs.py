"""Answers of a site that take far more to read than they weigh, or never end: path → what is written to the
connection.
"""

import gzip
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import brotli  # type: ignore[import-untyped]  # ships no types
from backports import zstd

_MIB = 1 << 20
Answer = Callable[[], Iterable[bytes]]  # the pieces that are written, made anew for each request
_LINE = b"<p>This page has something to say, and it says it only here: lol.</p>"
_PAGE = b"<html><head><title>T</title></head><body>" + _LINE + b"%b</body></html>"
_LAUGHS = (
    b"<!DOCTYPE x [<!ENTITY a0 'lol lol lol'>"
    + b"".join(b"<!ENTITY a%d '%b'>" % (n, b"&a%d;" % (n - 1) * 20) for n in range(1, 10))
    + b"]>"
)
_OUTSIDE = b"<!DOCTYPE x [<!ENTITY a9 SYSTEM 'file:///etc/passwd'><!ENTITY % p SYSTEM 'http://127.0.0.1:9/x'>%p;]>"


def _answer(
    body: bytes, *headers: bytes, kind: bytes = b"text/html; charset=utf-8", length: bytes | None = None
) -> Answer:
    header_lines = [
        b"HTTP/1.1 200 OK",
        b"Content-Type: " + kind,
        b"Content-Length: " + (b"%d" % len(body) if length is None else length),
        *headers,
    ]
    whole = b"\r\n".join([*header_lines, b"Connection: close", b"", b""]) + body
    return lambda: [whole]


def _packed(encoding: str, body: bytes) -> bytes:
    match encoding:
        case "gzip" | "x-gzip":
            return gzip.compress(body, 6)
        case "deflate":
            return zlib.compress(body, 6)
        case "br":
            return bytes(brotli.compress(body, quality=2))
        case _:
            return bytes(zstd.compress(body))


def _raw(whole: bytes) -> Answer:
    return lambda: [whole]


def _endless(begin: bytes, again: bytes, *, pause_s: float = 0.0) -> Answer:
    def pieces() -> Iterator[bytes]:
        yield begin
        end = time.monotonic() + 60
        while time.monotonic() < end:
            yield again
            time.sleep(pause_s)

    return pieces


def _encodings() -> Iterator[tuple[str, Answer]]:
    spaces = _PAGE % (b" " * (60 * _MIB))
    for encoding in ("gzip", "x-gzip", "deflate", "br", "zstd"):
        once = _packed(encoding, spaces)
        name = encoding.encode()
        yield f"{encoding}-60-MiB", _answer(once, b"Content-Encoding: " + name)
        yield f"{encoding}-cut", _answer(once[: len(once) // 2], b"Content-Encoding: " + name)
        yield f"{encoding}-nothing-of-it", _answer(_PAGE % b"", b"Content-Encoding: " + name)
        yield (
            f"{encoding}-more-behind",
            _answer(_packed(encoding, _PAGE % b"") + b"\0" * _MIB, b"Content-Encoding: " + name),
        )
        for other in ("gzip", "br", "zstd"):
            twice = _packed(other, _packed(encoding, spaces * 3))
            yield f"{encoding}-in-{other}", _answer(twice, b"Content-Encoding: " + name + b", " + other.encode())
            yield (
                f"{encoding}-in-{other}-by-two-headers",
                _answer(twice, b"Content-Encoding: " + name, b"Content-Encoding: " + other.encode()),
            )
    yield "members", _answer(gzip.compress(b" " * 1000) * 50_000, b"Content-Encoding: gzip")
    yield "many-encodings", _answer(_PAGE % b"", b"Content-Encoding: " + b", ".join([b"gzip"] * 5000))
    yield "unknown-encoding", _answer(_PAGE % b"", b"Content-Encoding: lol")


def _framings() -> Iterator[tuple[str, Answer]]:
    page = _PAGE % b""
    yield "length-too-long", _answer(page, length=b"999999999")
    yield "length-too-short", _answer(page, length=b"10")
    yield "length-negative", _answer(page, length=b"-1")
    yield "length-huge", _answer(page, length=b"9" * 40)
    yield "length-no-number", _answer(page, length=b"lol")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    yield "endless-body", _endless(head + b"\r\n<p>", b"lol " * 16_384)
    yield "endless-chunks", _endless(chunked, b"10000\r\n" + b"lol " * 16_384 + b"\r\n")
    yield "endless-trickle", _endless(head + b"\r\n<p>", b"lol ", pause_s=0.5)
    yield "endless-headers", _endless(head, b"X: lol\r\n" * 1000)
    yield "endless-header", _endless(head + b"X: ", b"lol" * 10_000)
    yield "endless-status", _endless(b"HTTP/1.1 200 ", b"OK" * 10_000)
    yield "endless-extension", _endless(chunked + b"1;", b"lol" * 10_000)
    yield "chunk-overflow", _raw(chunked + b"fffffffffffffffff\r\nlol\r\n0\r\n\r\n")
    yield "chunk-no-number", _raw(chunked + b"lol\r\nlol\r\n0\r\n\r\n")
    yield (
        "headers-10000",
        _raw(head + b"".join(b"X-%d: y\r\n" % number for number in range(10_000)) + b"Content-Length: 3\r\n\r\nlol"),
    )
    yield "header-1-MiB", _raw(head + b"X: " + b"y" * _MIB + b"\r\nContent-Length: 3\r\n\r\nlol")
    yield "no-http", _raw(b"lol\r\n\r\n")
    yield "only-a-status", _raw(b"HTTP/1.1 200 OK\r\n")
    yield "nothing", list
    yield "informed-for-ever", _endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n")
    yield "status-999", _raw(b"HTTP/1.1 999 lol\r\nContent-Length: 0\r\n\r\n")


def _bodies() -> Iterator[tuple[str, Answer]]:
    for name in ("div", "font", "table", "svg", "frameset", "select"):
        opening = f"<{name}>".encode()
        yield f"deep-{name}", _answer(_PAGE % (opening * 200_000))
    yield (
        "attributes",
        _answer(_PAGE % (b"<p " + b" ".join(b"a%d=b" % number for number in range(1_000_000)) + b">lol</p>")),
    )
    yield "attribute-16-MiB", _answer(_PAGE % (b'<p title="' + b"lol " * (3 * _MIB) + b'">lol</p>'))
    yield "entities", _answer(_PAGE % (b"&amp;&#x6c;&nosuch;" * 300_000))
    yield "comments", _answer(_PAGE % (b"<!--" * 1_000_000))
    yield "links", _answer(_PAGE % b"".join(b"<a href=/nowhere/%d>l</a>" % number for number in range(100_000)))
    yield "same-links", _answer(_PAGE % (b"<a href=/>l</a>" * 300_000))
    yield "styles", _answer(_PAGE % (b"<style>" + b".a .b > .c{display:none}" * 100_000 + b"</style>"))
    yield "jsonld", _answer(_PAGE % (b'<script type="application/ld+json">' + b"[" * 500_000 + b"</script>"))
    yield "scripts", _answer(_PAGE % (b"<script>var a = {" + b"a:{" * 200_000 + b"</script>"))
    yield "meta", _answer(_PAGE % (b'<meta name="robots" content="noindex">' * 100_000))
    yield "base", _answer(_PAGE % (b'<base href="http://evil.example/">' * 50_000))
    for name, kind, prolog in (
        ("laughs", b"application/xml", _LAUGHS),
        ("laughs-html", b"text/html", _LAUGHS),
        ("outside", b"application/xml", _OUTSIDE),
    ):
        yield f"xml-{name}", _answer(b'<?xml version="1.0"?>' + prolog + b"<x><p>" + _LINE + b"&a9;</p></x>", kind=kind)
        rss = b'<rss version="2.0"><channel><title>&a9;</title><item><link>&a9;</link></item></channel></rss>'
        yield f"rss-{name}", _answer(prolog + rss, kind=b"application/rss+xml")
        atom = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="&a9;"/></entry></feed>'
        yield f"atom-{name}", _answer(prolog + atom, kind=b"application/atom+xml")
    yield "xml-deep", _answer(b"<x>" * 500_000, kind=b"application/xml")
    yield "xml-endless-name", _answer(b"<" + b"x" * (8 * _MIB), kind=b"application/xml")
    for name, body in {
        "json-deep": b"[" * 500_000,
        "json-objects": b'{"a":' * 300_000,
        "json-digits": b'{"a": ' + b"9" * _MIB + b"}",
        "json-keys": b"{" + b'"a":1,' * 500_000 + b'"b":1}',
    }.items():
        yield name, _answer(body, kind=b"application/json")
    yield (
        "json-feed",
        _answer(
            b'{"version": "https://jsonfeed.org/version/1", "items": ' + b"[" * 100_000, kind=b"application/feed+json"
        ),
    )
    for encoding in ("utf-7", "utf-16", "utf-32", "utf-32-be"):
        yield (
            f"as-{encoding}",
            _answer((_PAGE % b"").decode().encode(encoding), kind=f"text/html; charset={encoding}".encode()),
        )
        yield (
            f"as-{encoding}-cut",
            _answer((_PAGE % b"").decode().encode(encoding)[:-1], kind=f"text/html; charset={encoding}".encode()),
        )
    for charset in (b"unicode_escape", b"idna", b"punycode", b"rot13", b"zlib", b"lol", b"utf-8" * 10_000):
        yield (
            f"charset-{charset[:20].decode()}",
            _answer(_PAGE % (b"xn--" * 100_000), kind=b"text/html; charset=" + charset),
        )


def _sitemaps() -> Iterator[tuple[str, Answer]]:
    entry = b"<url><loc>http://127.0.0.1/%d</loc></url>"
    urls = b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">%b</urlset>'
    yield "sitemap-gzip", _answer(gzip.compress(urls % (b" " * (80 * _MIB))), kind=b"application/gzip")
    yield (
        "sitemap-gzip-twice",
        _answer(gzip.compress(gzip.compress(urls % (b" " * (80 * _MIB)))), kind=b"application/gzip"),
    )
    yield "sitemap-laughs", _answer(_LAUGHS + urls % b"<url><loc>&a9;</loc></url>", kind=b"application/xml")
    yield "sitemap-outside", _answer(_OUTSIDE + urls % b"<url><loc>&a9;</loc></url>", kind=b"application/xml")
    yield "sitemap-many", _answer(urls % b"".join(entry % number for number in range(100_000)), kind=b"application/xml")
    yield "sitemap-deep", _answer(b"<urlset>" + b"<url>" * 500_000, kind=b"application/xml")
    yield (
        "sitemap-itself",
        _answer(
            b"<sitemapindex>" + b"<sitemap><loc>/sitemap-itself</loc></sitemap>" * 5000 + b"</sitemapindex>",
            kind=b"application/xml",
        ),
    )
    yield (
        "sitemap-endless",
        _endless(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n<urlset>", (entry % 1) * 1000),
    )


def http_bombs(each: int | None) -> dict[str, Answer]:
    """All of them, or so many of each kind, by the last part of their paths; names of sitemaps begin with `sitemap`."""
    return {
        name: answer for find in (_encodings, _framings, _bodies, _sitemaps) for name, answer in islice(find(), each)
    }
