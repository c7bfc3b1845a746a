"""Years that are counted from an era: 令和8年 and R8.12.3 in Japan, 民國115年 in Taiwan."""

import re

# The year before the first one of each era. Years beyond its end count on: 平成35年 was printed before that end was
# known.
_BEFORE = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "S": 1925, "H": 1988, "R": 2018}
_MINGUO = 1911
_FIRST = "元"  # 令和元年 is the first year
_YEAR_LAST = re.compile(r"(\d\d?月\d\d?日)\D{0,3}(\d{4}年)")
_YEARS = {
    "ja": re.compile(
        rf"(明治|大正|昭和|平成|令和|^[SHR]\.?)\s?({_FIRST}|(?!00?(?!\d))\d\d?)\s?(?=年|(?<!\d)[./-]|(?<=\d)([./-])\d\d?\3)"
    ),
    "zh": re.compile(rf"((?:中[華华])?民[國国])\s?({_FIRST}|\d{{1,3}})\s?(?=[年./-])"),
}


def with_common_years(text: str, language: str) -> str:
    """The text with its years of an era in the common era, and before the month: 2026年12月3日 for 令和8年12月3日."""
    pattern = _YEARS.get(language)
    return _YEAR_LAST.sub(r"\2\1", pattern.sub(_common_year, text)) if pattern else text


def _common_year(match: re.Match[str]) -> str:
    year = 1 if match[2] == _FIRST else int(match[2])
    return str(_BEFORE.get(match[1].rstrip("."), _MINGUO) + year)
