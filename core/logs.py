"""Logging: one event a line, through the standard library, so that the terminal, Prefect and a test each take what they want."""

import logging

import structlog


def log_through_stdlib() -> None:
    """Sends structlog's events to the standard library's loggers as `event key=value …`. Without it structlog prints on stdout."""
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
