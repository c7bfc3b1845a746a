"""Names that CLDR has, in many languages: of months, days of the week, and units.

They are read from `cldr_names.json`: babel takes a quarter of a second to gather them. `python -m tests.query.cldr`
writes that file, and a test compares it with babel's.
"""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple


class CldrNames(NamedTuple):
    """`months` has the number, 1 to 12, by name or abbreviation of three letters and more, casefolded, without a full
    stop.

    `days` has the number of a day, 0 for Monday, by the key (`day_key`) of its name, and `short_days` by that of its
    abbreviation, without a full stop. `units` has the words, casefolded, by unit as CLDR calls it, such as
    `length-meter`.
    """

    months: dict[str, int]
    days: dict[str, int]
    short_days: dict[str, int]
    units: dict[str, list[str]]


@cache
def cldr_names() -> CldrNames:
    return CldrNames(**json.loads(FILE.read_text(encoding="utf-8")))


def day_key(name: str) -> str:
    """A name in one spelling for all that match it, in capitals or not: to a pattern, the two Turkish i are one."""
    return name.casefold().replace("i\u0307", "i").replace("ı", "i")


FILE = Path(__file__).with_suffix(".json")
