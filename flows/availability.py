"""Prefect records and shows a run, and decides nothing about it: what cannot be told to it ends no run."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from almanac.core.logs import get_logger

_PAUSE_S = 30.0
_log = get_logger("almanac.prefect")


@dataclass
class _Absence:
    """Until when Prefect is asked nothing, and for how long the next time."""

    until: float = -math.inf
    pause_s: float = _PAUSE_S
    is_on: bool = False


_absence = _Absence()


def tell_prefect(what: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Returns what a call of Prefect's client returns, and None where it fails.

    Its client tries each request again, and a run sends some dozens. So after one that got no answer none is sent for
    half a minute, then for twice as long, and so on.
    """
    if time.monotonic() < _absence.until:
        return None
    try:
        result = call(*arguments, **named)
    except Exception as error:  # whatever the API or the way to it raises
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
            _log.warning("not taken by Prefect", what=what, error=f"{error}")
        else:
            note_absence(error)
        return None
    _absence.is_on, _absence.pause_s = False, _PAUSE_S
    return result


def note_absence(error: BaseException) -> None:
    """Notes that a request got no answer."""
    if not _absence.is_on:
        logging.raiseExceptions = False  # else Prefect would print about each batch of logs that it cannot send
        message = f"{type(error).__name__}: {error}".rstrip(": ")
        _log.warning("Prefect does not answer: the run goes on without it", error=message)
    _absence.until, _absence.is_on = time.monotonic() + _absence.pause_s, True
    _absence.pause_s *= 2


def is_prefect_gone() -> bool:
    """Whether the last request got no answer. What is still to be sent is not worth waiting for."""
    return _absence.is_on
