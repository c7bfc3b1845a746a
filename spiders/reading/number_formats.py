"""Writes the value of a cell as its sheet shows it by its number format: `25%`, `€ 1,234.50`, `2024-03-05`.

Four things are not as shown, since they would say something else in a text: dates and times are written by ISO 8601; a
loss is `-12`, also where the sheet has it in brackets or in red; nothing is `0` where the sheet has a dash; numbers
without a format have all of their digits, however narrow their column is.
"""

import datetime as dt
import re
from decimal import Decimal
from functools import lru_cache

from almanac.core.locales import locale_of
from almanac.spiders.reading.number_sections import MAX_POWER, Marks, plain_number, sections_of

_BRACKETS = re.compile(r"[()]")
_ASIDE = re.compile(r'"[^"]*"?|\\.?|[_*].?|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE | re.DOTALL)
_TEXT_SECTION = 3
_ANY_DAY = dt.date(2000, 1, 1)
# Formats that files of East Asia name by number only: dates, or times, by language.
EAST_ASIAN_DATES = frozenset({*range(27, 37), *range(50, 59)})


@lru_cache(maxsize=64)
def marks_of(language: str) -> Marks:
    """The marks of a language, as fields of type `number` read them; those of English where it is not known."""
    locale = locale_of(language)
    symbols = locale.number_symbols.get("latn", {}) if locale else {}
    marks = Marks(symbols.get("decimal", "."), symbols.get("group", ","))
    return marks if marks.decimal in (".", ",") and marks.group != marks.decimal else Marks()


def number_text(value: float, code: str, marks: Marks) -> str:
    """A number by the format `code`; empty where the format hides it."""
    exact = _exact(value)
    if exact is None:
        return ""
    if abs(exact.adjusted()) >= MAX_POWER:
        return plain_number(exact, marks)
    sections = sections_of(code)
    section, is_signed = sections[0], True
    if any(conditional.condition for conditional in sections):
        section = next((conditional for conditional in sections if conditional.accepts(exact)), section)
        is_signed = not (section.condition in ("<", "<=") and not section.bound)
    elif exact < 0 and len(sections) > 1:
        section, is_signed = sections[1], False
    elif not exact and len(sections) > 2:
        section = sections[0] if sections[2].is_dash else sections[2]
    if not section.parts:
        return plain_number(exact, marks) if len(sections) == 1 else ""
    try:
        written = " ".join(section.written(abs(exact), marks).split())
    except ArithmeticError:  # a format that no program writes: a thousand percent signs
        return plain_number(exact, marks)
    if exact < 0 and not is_signed and section.differs_by_sign_only(sections[0]):
        written, is_signed = _BRACKETS.sub("", written).strip(), True
    return f"-{written}" if exact < 0 and is_signed and re.search("[1-9]", written) else written


def text_text(value: str, code: str) -> str:
    """A text by the format of its cell: `"No. "@`; empty where the format hides texts, as `;;;` does."""
    sections = sections_of(code)
    if len(sections) > _TEXT_SECTION:
        section = sections[_TEXT_SECTION]
    elif any(part.text == "@" for part in sections[-1].parts):
        section = sections[-1]
    else:
        return value
    return "".join(
        value if part.text == "@" else part.text for part in section.parts if part.text == "@" or part.kind == "literal"
    )


def date_text(value: dt.datetime | dt.date | dt.time | dt.timedelta, code: str) -> str:
    """A date, a time or both, as much of it as the format shows: `2024-03` for `mmm yyyy`; hours and minutes where it
    has no seconds.
    """
    shown = _ASIDE.sub("", code.partition(";")[0]).lower().replace("general", "")
    has_time = bool(re.search(r"[hs]|\[m", shown))
    has_date = bool(re.search("[ydge]", shown)) or ("m" in shown and not has_time)
    if not has_time and not has_date:
        has_time = has_date = True
    has_seconds = "s" in shown or not shown
    if isinstance(value, dt.timedelta):
        return _elapsed(value, has_seconds=has_seconds)
    if isinstance(value, dt.time):  # of day 0, which is no date
        return _time(value, has_seconds=has_seconds) if has_time else ""
    if not isinstance(value, dt.datetime):
        return _date(value, shown)
    if not has_time or (has_date and value.time() == dt.time()):
        return _date(value.date(), shown)
    value = _to_seconds(value)
    return (
        f"{value.date().isoformat()} {_time(value.time(), has_seconds=has_seconds)}"
        if has_date
        else _time(value.time(), has_seconds=has_seconds)
    )


def _date(value: dt.date, shown: str) -> str:
    if "d" in shown or not re.search("[yge]", shown):
        return value.isoformat()
    return value.isoformat()[:7] if "m" in shown else value.isoformat()[:4]


def _time(value: dt.time, *, has_seconds: bool) -> str:
    value = _to_seconds(dt.datetime.combine(_ANY_DAY, value)).time()
    return value.isoformat() if has_seconds else value.isoformat("minutes")


def _to_seconds(value: dt.datetime) -> dt.datetime:
    """A sheet has hours as parts of a day, in which a second is no round number."""
    return (value + dt.timedelta(microseconds=500_000)).replace(microsecond=0)


def _elapsed(value: dt.timedelta, *, has_seconds: bool) -> str:
    minutes, seconds = divmod(round(abs(value.total_seconds())), 60)
    written = f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if has_seconds else "")
    return f"-{written}" if value < dt.timedelta() else written


def _exact(value: float) -> Decimal | None:
    """The number with the 15 digits that a sheet holds, without the noise of binary fractions; None for what is no
    number.
    """
    exact = Decimal(value) if isinstance(value, int) else Decimal(f"{value:.15g}")
    return exact if exact.is_finite() else None
