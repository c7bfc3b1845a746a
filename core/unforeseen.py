"""Exceptions that nobody foresaw while one page or item is worked on: its place and the traceback in the log, a reason
for its reject, and the run goes on.
"""

from almanac.core.logs import get_logger
from almanac.schemas.errors import AlmanacError
from almanac.schemas.items import DEFECT

FORESEEN = (AlmanacError, OSError, MemoryError)  # about more than one page: they end a run
_log = get_logger("almanac.defect")


def reason_of_defect(error: Exception, *, url: str, rule: str | None = None) -> str:
    """Logs the exception that is being handled, with page and rule, and returns the reason for the reject."""
    finding = f"{type(error).__name__}: {error}"
    _log.exception("a page or item is rejected for a defect; please report it", page=url, rule=rule, error=finding)
    return f"{DEFECT}{finding}"
