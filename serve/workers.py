"""Threads for the blocking work of requests: so many at once, so many that wait, and a deadline for each."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect

from almanac.core.given_up import require_wanted, unless
from almanac.serve.problem_details import ProblemDetails
from almanac.serve.server_settings import Settings

_T = TypeVar("_T")
_END = object()


class Workers:
    """Pool of worker threads, with the limits of `settings`.

    `in_flight` counts the requests that wait or run; `tell` is called with it whenever it changes. An overdue or
    abandoned request counts until its thread ends, since it still uses the processor.
    """

    def __init__(self, settings: Settings) -> None:
        self._pool = ThreadPoolExecutor(settings.max_concurrent, thread_name_prefix="answer")
        self._room, self._deadline_s = settings.max_concurrent + settings.max_waiting, settings.deadline_s
        self._lock = threading.Lock()
        self.in_flight = 0
        self.tell: Callable[[int], None] = lambda _: None

    async def run(self, work: Callable[[], _T], gone: Callable[[], Awaitable[None]] | None = None) -> _T:
        """Runs `work` in a thread and returns its result.

        Raises ProblemDetails 503 where the queue is full, past the deadline, and at shutdown, and ClientDisconnect once
        `gone` returns. What nobody waits for any more ends before its next step (`core.given_up`), and does not begin
        if it has not.
        """
        stopped = threading.Event()
        doing = asyncio.wrap_future(self._submit(work, stopped))
        leaving = asyncio.ensure_future(gone()) if gone is not None else None
        awaited: set[asyncio.Future[Any]] = {doing} if leaving is None else {doing, leaving}
        try:
            await asyncio.wait(awaited, timeout=self._deadline_s, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            if leaving is not None and leaving.done():
                raise ClientDisconnect
            raise self._overdue()
        finally:
            stopped.set()
            if leaving is not None:
                leaving.cancel()
            _abandon(doing)

    async def stream(self, pieces: Generator[_T, None, None]) -> AsyncGenerator[_T, None]:
        """Runs a generator in a thread and yields its pieces as they arrive. If the consumer stops, the generator is
        closed at its next piece.

        Raises ProblemDetails 503 as `run`; the deadline applies to the whole stream.
        """
        loop, queue, stopped = asyncio.get_running_loop(), asyncio.Queue[Any](), threading.Event()

        def make() -> None:
            with closing(pieces):
                for piece in pieces:
                    if stopped.is_set():
                        return
                    loop.call_soon_threadsafe(queue.put_nowait, piece)

        end = loop.time() + self._deadline_s
        doing = asyncio.wrap_future(self._submit(make, stopped))
        doing.add_done_callback(lambda _: queue.put_nowait(_END))
        try:
            while (piece := await asyncio.wait_for(queue.get(), end - loop.time())) is not _END:
                yield piece
            doing.result()
        except TimeoutError:
            if doing.done():  # its own
                raise
            raise self._overdue() from None
        finally:
            stopped.set()
            _abandon(doing)

    def close(self) -> int:
        """Accepts no more work, cancels what waits, and returns the number of requests that still run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self.in_flight

    def _submit(self, work: Callable[[], _T], stopped: threading.Event) -> "Future[_T]":
        def do() -> _T:
            with unless(stopped.is_set):
                require_wanted()
                return work()

        with self._lock:
            if self.in_flight >= self._room:
                finding = "more requests than the server works on at once"
                raise ProblemDetails(503, finding, kind="busy", headers={"Retry-After": "1"})
            self.in_flight += 1
            self.tell(self.in_flight)
        try:
            future = self._pool.submit(do)
        except RuntimeError:  # the pool is shut down
            self._done()
            raise ProblemDetails(503, "the server is ending", kind="ending", headers={"Retry-After": "5"}) from None
        future.add_done_callback(self._done)
        return future

    def _done(self, _: object = None) -> None:
        with self._lock:
            self.in_flight -= 1
            self.tell(self.in_flight)

    def _overdue(self) -> ProblemDetails:
        finding = f"no answer within {self._deadline_s:g} s"
        return ProblemDetails(503, finding, kind="deadline", headers={"Retry-After": "5"})


def _abandon(doing: "asyncio.Future[Any]") -> None:
    """Cancels work that has not started. The exception of finished work is retrieved, so that asyncio does not report
    it as unhandled.
    """
    if not doing.cancel() and not doing.cancelled():
        doing.exception()
