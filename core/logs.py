"""Logging: one event per line, through the standard library, so that the terminal, Prefect and tests can each handle it
in their way.

structlog is imported with the first event: it takes .08 s, and most questions log nothing.
"""

import logging
import sys
import threading
from typing import Any

_is_due = False  # whether structlog is to be configured with the first event
_lock = threading.Lock()


class Logger:
    """A logger of structlog: `info("crawl", kb="voyago")` and the other levels."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by pickle, copy and inspect
            raise AttributeError(name)
        import structlog

        if _is_due:
            _configure_once()
        return getattr(structlog.get_logger(self._name), name)


def get_logger(name: str) -> Logger:
    """The logger of a name, such as `almanac.serve`."""
    return Logger(name)


def log_through_stdlib() -> None:
    """Routes events to the standard library's loggers as `event key=value …`. Without this call, structlog prints to
    stdout.
    """
    global _is_due
    logging.getLogger("almanac").setLevel(logging.INFO)
    if "structlog" in sys.modules:
        _configure()
    else:
        _is_due = True


def _configure_once() -> None:
    """Another thread's event waits: structlog calls itself configured before it is, and would print to stdout
    meanwhile.
    """
    global _is_due
    import structlog

    with _lock:
        if _is_due and not structlog.is_configured():  # by whoever runs this as a library
            _configure()
        _is_due = False


def _configure() -> None:
    import structlog

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
