"""Recognizes bodies that were cut short on the way, so that they count as failed fetches and are tried again.

Scrapy fails a body that ends before its Content-Length, or before its last chunk. It takes for whole what follows here:
a body that goes on beyond its Content-Length, which therefore cuts it, and compressed data without an end. A body whose
end is the end of the connection (HTTP/1.0, or neither length nor chunks) cannot be told from a whole one; of such text,
what was lost shows in `gate.max_shrunk`.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    _LenientHTTP11ClientFactory,
    _LenientHTTP11ClientProtocol,
    _LenientHTTPClientParser,
)
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import Request, Response

# what Scrapy itself decodes with
from scrapy.utils._compression import _CHUNK_SIZE, _check_max_size, brotli, zstd  # type: ignore[attr-defined]
from twisted.python.failure import Failure
from twisted.web._newclient import ResponseFailed
from twisted.web.http import _DataLoss

from almanac.spiders.crawling.problems import ARRIVED

CUT_SHORT = "dataloss"  # Scrapy's own name for the flag
_STOPPED = "download_stopped"  # by us: the rest is not wanted
_ZLIB_HEADER, _GZIP_HEADER, _GZIP_TRAILER = 2, 10, 8  # bytes
_FLUSH = b"\x00\x00\xff\xff"  # the end of a flushed block (RFC 1951, 3.2.4)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class _Parser(_LenientHTTPClientParser):
    """Response parser that fails a page with more bytes than its Content-Length, where they arrive together with its
    end. Blank ones are forgiven.
    """

    def _finished(self, rest: bytes) -> None:
        is_chunked = self.connHeaders.hasHeader(b"Transfer-Encoding")
        if rest.strip() and self.bodyDecoder is not None and not is_chunked and self.response.code in ARRIVED:
            self.bodyDecoder = None  # the body ends here, and not once more when the connection is given up
            self.connHeaders.setRawHeaders(b"Connection", [b"close"])
            self.response._bodyDataFinished(Failure(ResponseFailed([Failure(_DataLoss())], self.response)))  # type: ignore[no-untyped-call]
        super()._finished(rest)  # type: ignore[no-untyped-call]


class _Protocol(_LenientHTTP11ClientProtocol):
    def request(self, request: Any) -> Any:
        answer = super().request(request)
        assert self._parser is not None
        self._parser.__class__ = _Parser  # as Scrapy replaces Twisted's, which is hardcoded
        return answer


class _Factory(_LenientHTTP11ClientFactory):
    def buildProtocol(self, _address: Any) -> _Protocol:  # noqa: N802  # Twisted's name
        return _Protocol(self._quiescentCallback)  # type: ignore[no-untyped-call]


class WholeBodies(HTTP11DownloadHandler):
    """Download handler that fails a page whose body is longer than its Content-Length, as Scrapy's fails one whose body
    is shorter.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._pool._factory = _Factory
        self._fail_on_dataloss_warned = True  # the warning advises to accept such pages


class WholeEncodings(HttpCompressionMiddleware):
    """Downloader middleware that decodes bodies, and flags pages with CUT_SHORT whose compressed data has no end;
    `PatientRetry` tries them again.
    """

    _is_cut = False

    # Scrapy calls it without the spider
    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        self._is_cut = False
        decoded = super().process_response(request, response)
        if (
            self._is_cut
            and response.status in ARRIVED
            and _STOPPED not in response.flags
            and isinstance(decoded, Response)
        ):
            decoded.flags.append(CUT_SHORT)
        return decoded

    # it is called on the instance
    def _decode(self, body: bytes, encoding: bytes, max_size: int) -> bytes:  # type: ignore[override]
        text, is_whole = decoded(body, encoding, max_size)
        self._is_cut |= not is_whole
        return text


def decoded(body: bytes, encoding: bytes, max_size: int = 0) -> tuple[bytes, bool]:
    """The decoded body, and whether it is whole; of one that is cut short or damaged, as much as there is. An empty
    body is whole.

    Checksums are not compared, and a gzip trailer may lack: some servers get them wrong. Raises OSError, zlib.error or
    the library's error if nothing can be decoded, and Scrapy's error beyond `max_size` bytes (0: no limit).
    """
    parts: list[bytes] = []
    size = 0
    try:
        for part in _STREAMS[encoding](body) if body else ():
            size += len(part)
            _check_max_size(size, max_size)
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
        part = stream.decompress(data, _CHUNK_SIZE)
        if not (part or data or stream.eof):  # without input, what zlib still holds comes out
            if is_flushed:
                return
            raise EOFError
        yield part
        data = stream.unconsumed_tail


def _brotli(body: bytes) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    while not stream.is_finished():
        part = stream.process(body, output_buffer_limit=_CHUNK_SIZE)
        body = b""
        if not part and not stream.is_finished():
            raise EOFError
        yield part


def _zstd(body: bytes) -> Iterator[bytes]:
    while body:
        stream = zstd.ZstdDecompressor()
        while not stream.eof:
            yield stream.decompress(body, _CHUNK_SIZE)
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
