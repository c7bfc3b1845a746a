"""Recognizes compressed bodies that were cut short on the way: they count as failed fetches, and are tried again.

Scrapy fails a body that ends before its Content-Length, or before its last chunk, but takes compressed data without an
end for whole. A body whose end is the end of the connection (HTTP/1.0, or neither length nor chunks), or that goes on
beyond its Content-Length, cannot be told from a whole one; of such text, what was lost shows in `gate.max_shrunk`.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Self

import brotli  # type: ignore[import-untyped]
from backports import zstd
from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from almanac.spiders.crawling.problems import ARRIVED

CUT_SHORT = "dataloss"  # Scrapy's own name for the flag
_STOPPED = "download_stopped"  # by us: the rest is not wanted
_PART = 65_536  # bytes that are decoded at a time
_ZLIB_HEADER, _GZIP_HEADER, _GZIP_TRAILER = 2, 10, 8  # bytes
_FLUSH = b"\x00\x00\xff\xff"  # the end of a flushed block (RFC 1951, 3.2.4)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class WholeEncodings:
    """Downloader middleware that flags pages with CUT_SHORT whose compressed data has no end, and hands them on as they
    are, before Scrapy decodes the others; `PatientRetry` tries them again.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings.getint("DOWNLOAD_MAXSIZE"))

    def process_response(self, request: Request, response: Response) -> Response:  # noqa: ARG002  # Scrapy's signature
        names = b",".join(response.headers.getlist("Content-Encoding")).lower().replace(b" ", b"").split(b",")
        if response.status not in ARRIVED or _STOPPED in response.flags or names[-1] not in _STREAMS:
            return response
        # what cannot be decoded at all, or is too large, Scrapy refuses
        with suppress(OSError, ValueError, zlib.error, brotli.error, zstd.ZstdError):
            if not decoded(response.body, names[-1], self._max_size)[1]:
                del response.headers["Content-Encoding"]
                response.flags.append(CUT_SHORT)
        return response


def decoded(body: bytes, encoding: bytes, max_size: int = 0) -> tuple[bytes, bool]:
    """The decoded body, and whether it is whole; of one that is cut short or damaged, as much as there is. An empty
    body is whole.

    Checksums are not compared, and a gzip trailer may lack: some servers get them wrong. Raises OSError, zlib.error or
    the library's error if nothing can be decoded, and ValueError beyond `max_size` bytes (0: no limit).
    """
    parts: list[bytes] = []
    size = 0
    try:
        for part in _STREAMS[encoding](body) if body else ():
            size += len(part)
            if max_size and size > max_size:
                raise ValueError(f"the decoded body exceeds {max_size} bytes")
            parts.append(part)
    except EOFError:
        return b"".join(parts), False
    except (zlib.error, brotli.error, zstd.ZstdError):
        if not size:
            raise
        return b"".join(parts), False
    return b"".join(parts), True


def _gzip(body: bytes) -> Iterator[bytes]:
    if not body.startswith(_GZIP[: len(body)]):
        raise OSError("the body is said to be gzip and is not")
    while body.startswith(_GZIP[: len(body) or 1]):
        stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        yield from _inflate(stream, body[_end_of_header(body) :])
        body = stream.unused_data[_GZIP_TRAILER:]


def _end_of_header(body: bytes) -> int:
    """Where the data of a gzip member begins (RFC 1952, 2.3). Raises EOFError if its header is cut short."""
    place = _GZIP_HEADER
    flags = body[3] if len(body) >= place else 0
    if flags & 4:
        place += 2 + int.from_bytes(body[place : place + 2], "little")
    for is_there in (flags & 8, flags & 16):  # name, comment
        if is_there:
            place = body.find(b"\0", place) + 1 or len(body) + 1
    place += 2 if flags & 2 else 0
    if place > len(body):
        raise EOFError
    return place


def _deflate(body: bytes) -> Iterator[bytes]:
    """zlib's format, or bare deflate, as some servers send it."""
    has_header = len(body) >= _ZLIB_HEADER and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    if has_header:
        with suppress(EOFError):
            try:
                next(_inflate(zlib.decompressobj(wbits=-zlib.MAX_WBITS), body[_ZLIB_HEADER:]), None)
            except zlib.error:
                has_header = False
    yield from _inflate(zlib.decompressobj(wbits=-zlib.MAX_WBITS), body[_ZLIB_HEADER if has_header else 0 :])


def _inflate(stream: Any, data: bytes) -> Iterator[bytes]:
    """Yields decompressed parts. Raises EOFError for data without an end, unless it ends with a flush: some servers
    send no last block.
    """
    is_flushed = data.endswith(_FLUSH)
    while not stream.eof:
        part = stream.decompress(data, _PART)
        if not (part or data or stream.eof):  # without input, what zlib still holds comes out
            if is_flushed:
                return
            raise EOFError
        yield part
        data = stream.unconsumed_tail


def _brotli(body: bytes) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    while not stream.is_finished():
        part = stream.process(body, output_buffer_limit=_PART)
        body = b""
        if not part and not stream.is_finished():
            raise EOFError
        yield part


def _zstd(body: bytes) -> Iterator[bytes]:
    while body:
        stream = zstd.ZstdDecompressor()
        while not stream.eof:
            yield stream.decompress(body, _PART)
            body = b""
            if stream.needs_input and not stream.eof:
                raise EOFError
        body = stream.unused_data if stream.unused_data.startswith(_ZSTD) else b""


_STREAMS: dict[bytes, Callable[[bytes], Iterator[bytes]]] = {
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
