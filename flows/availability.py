"""A command whose Prefect goes away goes on without it: Prefect records and shows a run, and decides nothing about it.

Prefect's client tries each request again for about a minute if its server is gone, and a run sends some dozens. With
`notice_absence`, a request that got no answer after a few attempts lets the following ones fail at once: for half a
minute, then for twice as long, and so on; for good if the server was a child of this command. Runs that a worker starts
do without: their server is meant to come back, and the worker tells it how they ended.
"""

import logging
import math
import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from almanac.core.logs import get_logger
from almanac.schemas.errors import PrefectGone

_UNANSWERED = frozenset({408, 429, 502, 503})  # after which Prefect's client tries again
_FIRST_PAUSE_S = 30.0
_PATIENCE = {
    "PREFECT_CLIENT_MAX_RETRIES": "1",  # after 2 s
    "PREFECT_API_REQUEST_TIMEOUT": "10",
    # Prefect sends events and logs by threads of its own. What they say about it is said once, here.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
}
_log = get_logger("almanac.prefect")


class _Absence:
    """Whether Prefect failed to answer, and when it may be asked again."""

    def __init__(self) -> None:
        self._pause_s = _FIRST_PAUSE_S
        self._ask_again_at = 0.0
        self._stop: Callable[[], None] | None = None
        self.is_on = False

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() < self._ask_again_at

    def server_is_ours(self, stop: Callable[[], None]) -> None:
        self._stop, self._ask_again_at, self._pause_s = stop, 0.0, math.inf

    @property
    def is_own(self) -> bool:
        return self._stop is not None

    def begin(self, url: str, reason: str) -> PrefectGone:
        if not self.is_fresh:
            self._ask_again_at = time.monotonic() + self._pause_s
            self._pause_s *= 2
            logging.raiseExceptions = False  # Prefect's log handler would print about each batch that it cannot send
            if not self.is_on:
                _log.warning("Prefect does not answer: the run goes on without it", api=url, error=reason)
            self.is_on = True
            if self._stop is not None:
                self._stop()
        return self.error(url, reason)

    def end(self) -> None:
        self.is_on = False

    def error(self, url: str, reason: str = "nor did it before") -> PrefectGone:
        return PrefectGone(
            f"Prefect does not answer: {reason}",
            where=url,
            hint="run again; PREFECT_API_URL names the server, unset the run starts its own",
        )

    def ask_once_more(self) -> None:
        if self._stop is None:
            self._ask_again_at = 0.0


_absence = _Absence()


def be_impatient() -> None:
    """Sets how long this process waits for Prefect, before Prefect is imported; variables that are set already stay."""
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)


def server_is_ours(stop: Callable[[], None]) -> None:
    """Notes that the server is a child of this process: once it does not answer, it is stopped, and not asked again."""
    _absence.server_is_ours(stop)


def has_own_server() -> bool:
    """Whether the server is a child of this process."""
    return _absence.is_own


def is_prefect_gone() -> bool:
    """Whether the last request got no answer. What is still to be sent is not worth waiting for."""
    return _absence.is_on


def ask_once_more() -> None:
    """Lets the next request be sent in any case. For what a server that has come back should not miss: how a run
    ended.
    """
    _absence.ask_once_more()


def notice_absence() -> None:
    """From now on, requests of this process to Prefect raise PrefectGone: the one that gets no answer, and those after
    it at once.
    """
    from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient

    for client, noticing in ((PrefectHttpxSyncClient, _noticing), (PrefectHttpxAsyncClient, _noticing_async)):
        if not hasattr(client.send, "__wrapped__"):
            setattr(client, "send", noticing(client.send))  # noqa: B010  # a method of Prefect's


def _noticing(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    def noticing(client: Any, *arguments: Any, **options: Any) -> Any:
        _require_present(client)
        try:
            response = send(client, *arguments, **options)
        except Exception as error:
            _raise_gone(client, error)
            raise
        _absence.end()
        return response

    return noticing


def _noticing_async(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    async def noticing(client: Any, *arguments: Any, **options: Any) -> Any:
        _require_present(client)
        try:
            response = await send(client, *arguments, **options)
        except Exception as error:
            _raise_gone(client, error)
            raise
        _absence.end()
        return response

    return noticing


def _require_present(client: Any) -> None:
    if _absence.is_fresh:
        raise _absence.error(str(client.base_url))


def _raise_gone(client: Any, error: Exception) -> None:
    """Raises PrefectGone for a request that failed for want of an answer."""
    if _is_silence(error):
        raise _absence.begin(str(client.base_url), f"{type(error).__name__}: {error}".rstrip(": ")) from error


def _is_silence(error: Exception) -> bool:
    """Whether a request failed for want of an answer; an answer that refuses is one."""
    import httpx
    from prefect.exceptions import PrefectHTTPStatusError

    return isinstance(error, httpx.TransportError) or (
        isinstance(error, PrefectHTTPStatusError) and error.response.status_code in _UNANSWERED
    )
