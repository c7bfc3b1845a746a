"""Logging: one event per line, through the standard library, so that the terminal, Prefect and tests can each handle it in their way."""

import logging

import structlog


def log_through_stdlib() -> None:
    """Routes structlog's events to the standard library's loggers as `event key=value …`. Without this call, structlog prints to stdout."""
    logging.getLogger("almanac").setLevel(logging.INFO)
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
