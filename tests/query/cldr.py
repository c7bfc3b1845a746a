"""Writes query/answering/cldr_names.json from CLDR as babel has it: after an upgrade of babel, or for further languages
and units.

usage: python -m tests.query.cldr
"""

import json

from babel import Locale
from babel.units import format_unit

from almanac.query.answering.cldr_names import FILE, CldrNames, day_key

LANGUAGES = (
    "en fr de es it pt nl vi he ar ar_SY ru uk be pl cs sk sl hr sr bg da sv nb fi et lv lt hu ro tr el hi bn ur "
    "fa id ms th ja ko zh ca eu gl sw"
)
# languages whose days are known by abbreviations; in Czech, "so" is another day than in German
_ABBREVIATING = "en fr de es it pt nl da sv nb pl ru uk"
_UNITS = (
    "duration-second duration-minute duration-hour duration-day duration-week duration-month duration-year "
    "length-millimeter length-centimeter length-meter "
    "length-kilometer length-mile length-foot length-inch mass-gram mass-kilogram mass-pound volume-liter "
    "volume-milliliter area-square-meter "
    "digital-gigabyte power-watt temperature-celsius temperature-fahrenheit"
)
_COUNTS = (1, 2, 5, 11)  # between them, they take each plural form


def names() -> CldrNames:
    """What babel has. Of a month and a unit, the first language that has the word decides, of a day the last."""
    locales = [Locale.parse(one) for one in LANGUAGES.split()]
    months: dict[str, int] = {}
    for locale in locales:
        for width in ("abbreviated", "wide"):
            for form in ("format", "stand-alone"):
                for number, name in locale.months[form][width].items():
                    plain = str(name).casefold().rstrip(".")
                    if len(plain) > 2 and not any(c.isdigit() for c in plain):
                        months.setdefault(plain, int(number))
    days = {
        day_key(str(name)): int(number) for locale in locales for number, name in locale.days["format"]["wide"].items()
    }
    short = {
        day_key(str(name)).rstrip("."): int(number)
        for locale in map(Locale.parse, _ABBREVIATING.split())
        for number, name in locale.days["format"]["abbreviated"].items()
    }
    return CldrNames(months, days, short, {unit: _words(unit, locales) for unit in _UNITS.split()})


def _words(unit: str, locales: list[Locale]) -> list[str]:
    written = (format_unit(count, unit, "long", locale=locale) for locale in locales for count in _COUNTS)
    return sorted({word for text in written for word in text.casefold().split() if not any(c.isdigit() for c in word)})


if __name__ == "__main__":
    FILE.write_text(json.dumps(names()._asdict(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
