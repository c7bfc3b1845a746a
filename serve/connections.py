"""The HTTP/1.1 connections of a server: what a request's head may take, in what time a request arrives and a reply is
read, and framing with one meaning.

uvicorn parses with llhttp, which refuses most of what proxies read otherwise: a length beside chunks, two lengths,
folded lines, bare line feeds. It limits neither the size of a head nor any of these times, adds the trailers of a body
to the headers of its request, and reads no body behind `Upgrade`.
"""

import json
from asyncio import TimerHandle, Transport
from itertools import groupby
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from almanac.serve.problems import ProblemDetails

MAX_HEAD_BYTES = 64 << 10  # of a request: its line, its headers, and the trailers of its body
MAX_HEADERS = 200
_MAX_QUEUED = 64  # requests that a client sends before it has the reply to the first
_FRAMING = 8  # bytes around each byte of a body in chunks of one byte, and more
_LATER_S = 3.0  # that a body may take beyond its time: the application answers first, and drains what still comes
_READ_FIRST_S = 0.02  # in which what has come is read
_VERSIONS = ("1.0", "1.1")
_ONCE = frozenset({b"host", b"content-length", b"content-type", b"transfer-encoding", b"authorization", b"origin"})


def guarded(arrive_s: float, read_s: float) -> type[HttpToolsProtocol]:
    """The class of a server's connections.

    Args:
        arrive_s: Seconds within which the head of a request has to arrive, and then its body.
        read_s: Seconds for which a client may read nothing of a reply before its connection is closed.
    """
    return type("GuardedConnection", (_Connection,), {"arrive_s": arrive_s, "read_s": read_s})


class _Connection(HttpToolsProtocol):
    """A connection. A request that is refused gets a problem document if its turn has come, and nothing behind it is
    read.
    """

    arrive_s: float
    read_s: float
    _arriving: TimerHandle | None = None
    _unread: TimerHandle | None = None
    _is_refused = False
    _has_begun = _in_body = False  # of the request that arrives
    _answering: Any = None  # uvicorn's cycle of the request that is being answered
    _fed = _body = _head = 0  # bytes since the request began: all, of its body, of its line, headers and trailers
    _headers = 0  # and trailers

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._await_more(self.arrive_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._await_more(None)
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._arriving is None and not self._is_refused:
            self._await_more(self.arrive_s)
        while data and not self._is_refused and not self.transport.is_closing():
            self._fed += len(data)
            try:
                self.parser.feed_data(data)
                data = b""
            # a server may ignore it (RFC 9110, 7.8), and some clients ask for it with every request
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                # as uvicorn does: what follows the last request is dropped
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            except httptools.HttpParserError as error:
                cause = error.__context__  # what a callback raised
                self._refuse(
                    cause
                    if isinstance(cause, ProblemDetails)
                    else ProblemDetails(400, "this is no HTTP/1.1, or its framing has two meanings")
                )
            else:
                if self._fed - self._body > MAX_HEAD_BYTES + _FRAMING * self._body:
                    self._refuse(
                        ProblemDetails(431, f"more than {MAX_HEAD_BYTES:,} bytes around the body of the request")
                    )

    # What llhttp calls

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun = True
        self._fed = self._body = self._head = self._headers = 0

    def on_url(self, url: bytes) -> None:
        self._count(url, 0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name + value, 1)
        if not self._in_body:  # a trailer is no header: who drops it would read another request
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            raise ProblemDetails(501, "CONNECT is for proxies")
        if self.parser.should_upgrade():
            return
        _require_one_meaning(self.parser.get_http_version(), self.headers, self.url)
        if len(self.pipeline) >= _MAX_QUEUED:
            raise ProblemDetails(429, f"more than {_MAX_QUEUED} requests wait for their replies on one connection")
        self._in_body = True
        super().on_headers_complete()
        self._await_more(self.arrive_s + _LATER_S)

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._in_body = self._has_begun = False
        self._fed = self._body = self._head = self._headers = 0
        self._await_more(None)

    def _count(self, piece: bytes, headers: int) -> None:
        self._head += len(piece)
        self._headers += headers
        if self._head > MAX_HEAD_BYTES or self._headers > MAX_HEADERS:
            raise ProblemDetails(
                431, f"more than {MAX_HEAD_BYTES:,} bytes of headers, or more than {MAX_HEADERS} of them"
            )

    def _head_without_upgrade(self) -> bytes:
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        return b"\r\n".join([*lines, *(b"%s: %s" % pair for pair in self.headers if pair[0] != b"upgrade"), b"", b""])

    # Ends

    def _refuse(self, problem: ProblemDetails) -> None:
        """Answers what came last with a problem document, unless earlier requests still wait for their replies: then
        the connection ends behind those.
        """
        self._is_refused = True
        self._await_more(None)
        last: Any = self.cycle
        if self._in_body and self.pipeline:  # it has not begun to be answered
            self.pipeline.popleft()
            last = self.pipeline[0][0] if self.pipeline else self._answering
        elif self._in_body:
            is_answered = last.response_started
            last.disconnected = True
            last.message_event.set()
            last = None
            if is_answered:
                self._close()
                return
        if last is not None and not last.response_complete:
            last.keep_alive = False
            return
        self.transport.write(_written(problem))
        self._close()

    def _too_late(self) -> None:
        self._arriving = None
        if self._in_body and self.pipeline:  # it waits for its turn, and is not read meanwhile
            self._await_more(self.arrive_s)
        elif self._has_begun:
            self._refuse(ProblemDetails(408, f"the request did not arrive within {self.arrive_s:g} s"))
        else:
            self._close()

    def _close(self) -> None:
        self.transport.close()
        self._await_reader()

    def _await_more(self, seconds: float | None) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
        self._arriving = None if seconds is None else self.loop.call_later(seconds, self._too_late)

    # What uvicorn and the transport call

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_reader()

    def timeout_keep_alive_handler(self) -> None:
        """Closes an idle connection, unless a request waits on it: where the process was stopped for a while, uvloop
        calls timers before it reads.
        """
        self.timeout_keep_alive_task = self.loop.call_later(_READ_FIRST_S, self._close_idle)

    def _close_idle(self) -> None:
        super().timeout_keep_alive_handler()
        self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None and not self.transport.is_closing():
            self._unread.cancel()
            self._unread = None

    def _await_reader(self) -> None:
        """Aborts a connection of which nothing is read. A closed one ends only once all was read."""
        if self._unread is None and (self.flow.write_paused or self.transport.is_closing()):
            self._unread = self.loop.call_later(self.read_s, self.transport.abort)


def _require_one_meaning(version: str, headers: list[tuple[bytes, bytes]], url: bytes) -> None:
    """Raises ProblemDetails for a request that a proxy could read otherwise, by RFC 9112 (2.3, 3.2, 6.1)."""
    if version not in _VERSIONS:
        raise ProblemDetails(505, "this is a server of HTTP/1.1")
    for name, again in groupby(sorted(headers, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        if name in _ONCE and len(list(again)) > 1:
            raise ProblemDetails(400, f"the header {name.decode()} is there twice")
    said = dict(headers)
    if version == "1.1" and b"host" not in said:
        raise ProblemDetails(400, "the header host is missing")
    coding = said.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.strip().lower() != b"chunked"):
        raise ProblemDetails(400, "the only transfer coding is chunked, in HTTP/1.1")
    scheme, is_absolute, rest = url.partition(b"://")
    if (
        is_absolute
        and scheme.lower() in (b"http", b"https")
        and rest.partition(b"/")[0].partition(b"?")[0].lower() != said.get(b"host", b"").lower()
    ):
        raise ProblemDetails(400, "the address and the header host name different servers")


def _written(problem: ProblemDetails) -> bytes:
    document = json.dumps(problem.document()).encode()
    head = (
        b"content-type: application/problem+json\r\ncontent-length: %d\r\ncache-control: no-store\r\nconnection: "
        b"close\r\n\r\n"
    )
    return STATUS_LINE[problem.status] + head % len(document) + document
