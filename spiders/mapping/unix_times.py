"""Unix times, as JSON APIs give them: seconds or milliseconds since 1970, in UTC."""

import re
from datetime import UTC, datetime, timedelta

from almanac.spiders.mapping.numbers import shown

_PER_SECOND = {"unix": 1, "unix_ms": 1000}
# The seconds of these years are no milliseconds of them, and the other way round, so that neither is taken for the
# other.
_FIRST, _END = datetime(1973, 3, 4, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_unix_time(text: str, unit: str) -> datetime:
    """The time, in UTC, that whole seconds (`unix`) or milliseconds (`unix_ms`) name. Raises ValueError beyond the
    years 1973 to 2099.
    """
    moment = _moment(text, unit)
    if moment is None:
        other = next((other for other in _PER_SECOND if _moment(text, other)), None)
        hint = f"; it is one of the form {other}" if other else " from 1973 to 2099"
        raise ValueError(f"{shown(text)} is not a Unix time of the form {unit}{hint}")
    return moment


def unix_hint(digits: str) -> str:
    """What to declare for digits that may be a Unix time, to go after a message; empty for others."""
    unit = next((unit for unit in _PER_SECOND if len(digits) in (10, 13) and _moment(digits, unit)), None)
    return "" if unit is None else f"; if it is a Unix time, declare `format: {unit}`"


def _moment(text: str, unit: str) -> datetime | None:
    if not re.fullmatch(r"[0-9]{1,13}", text):
        return None
    moment = (
        _EPOCH + timedelta(milliseconds=int(text) * 1000 // _PER_SECOND[unit])
        if len(text) <= 10 or unit == "unix_ms"
        else None
    )
    return moment if moment is not None and _FIRST <= moment < _END else None
