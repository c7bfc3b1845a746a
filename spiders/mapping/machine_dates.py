"""Dates that a page gives for machines, in `<time datetime="2026-05-03">`: what is shown often lacks the year, or says
"yesterday".
"""

import re
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from almanac.spiders.mapping.dates import read_date
from almanac.spiders.selecting.selectors import text_of

_WHOLE_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
_ZONE = re.compile(r"\[[^\[\]]*\]$")  # as Java writes it behind the offset: 2026-05-03T22:00+02:00[Europe/Paris]


def machine_date(match: Any, language: str, *, with_time: bool) -> str | None:
    """The date in `datetime` of the `time` element that a match is or consists of, in ISO 8601.

    None where it is no whole date, where the element is not seen, and of a time in UTC where a date is wanted and the
    text shows it: it may be the day before.
    """
    root: Any = getattr(match, "root", None)
    times = list(islice(root.iter("{*}time"), 2)) if hasattr(root, "iter") else []
    if len(times) != 1 or not _WHOLE_DATE.match(given := _ZONE.sub("", times[0].get("datetime", "").strip())):
        return None
    shown = text_of(match)
    is_alone = shown and (times[0] is root or shown == text_of(type(match)(root=times[0], type=match.type)))
    moment = _read(given, language) if is_alone else None
    if moment is None or (
        not with_time and moment.utcoffset() == timedelta(0) and _is_neighbour(moment, _read(shown, language))
    ):
        return None
    return given


def _read(text: str, language: str) -> datetime | None:
    try:
        return read_date(text, language)
    except ValueError:
        return None


def _is_neighbour(moment: datetime, shown: datetime | None) -> bool:
    """Whether the date that is shown is a day off at most; one farther off was hardly read as it was meant."""
    return shown is not None and abs(shown.date() - moment.date()) <= timedelta(days=1)
