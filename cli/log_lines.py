"""What commands log: one line an event, on stderr."""

import logging
import sys
from typing import Any

from almanac.core.logs import log_through_stdlib


class _CurrentStderr(logging.StreamHandler[Any]):
    """Writes to whatever stderr is at that moment, so that lines stand above a progress bar and not through it."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        pass


def configure_logs() -> None:
    """One line an event on stderr: `12:00:01 INFO crawl kb=voyago seconds=2.1`."""
    handler = _CurrentStderr()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logging.getLogger("almanac").handlers[:] = [handler]
    log_through_stdlib()
