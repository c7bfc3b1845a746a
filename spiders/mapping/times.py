"""Times of day in the notation of a language: 21h30, 18 Uhr, ore 21, 6:30 p. m."""

import re

from almanac.core.locales import primary

_HOUR = re.compile(r"(?<![\d:.,])([01]?\d|2[0-3])\s?h(?:\s?([0-5]\d))?(?:\s?min)?(?!\w)", re.IGNORECASE)  # 21h30, 20 h
_HALF_PAST = re.compile("(?<=[時时點点])半")  # 午後7時半
_HALF_OF_DAY = re.compile(r"(?<=\d)\s?([ap])\.?\sm\b\.?", re.IGNORECASE)  # p. m., as Spanish writes it
# What stands behind a full hour, and what before one; either makes a number an hour.
_BEHIND = {
    "de": "uhr",
    "nl": "uur",
    "fr": "heures?",
    "pt": "horas?",
    "es": "horas?",
    "ca": "hores",
    "cs": r"hod(?:\.|in)?",
    "sk": r"hod(?:\.|ín|ine)?",
    "hu": r"óra(?:kor)?",
    "ru": r"час(?:ов|а)?",
    "bg": r"ч\.|часа?",
    "vi": "giờ",
    "ja": "時",
    "zh": "[时時点點]",
}
_BEFORE = {
    "it": r"(?:alle\s)?ore",
    "da": r"kl\.?|klokken",
    "no": r"kl\.?|klokken",
    "nb": r"kl\.?|klokken",
    "nn": r"kl\.?|klokka",
    "sv": r"kl\.?|klockan",
    "pl": r"(?:o\s)?godz(?:\.|inie)",
    "ro": "ora",
    "fi": "klo",
    "tr": "saat",
    "fa": "ساعت",
    "ca": r"a\sles",
    "el": "στις",
}
_NUMBER = r"([01]?\d|2[0-3])(?::([0-5]\d)|\.([0-5]\d)(?![.\d]))?"


def with_plain_times(text: str, language: str) -> str:
    """The text with its time of day as `18:30`, where dateparser would not read it; a half of the day as `pm`."""
    text = _HALF_OF_DAY.sub(r" \1m", _HALF_PAST.sub("30分", _HOUR.sub(_plain, text)))
    for pattern in _patterns(primary(language)):
        text = pattern.sub(_plain, text)
    return " ".join(text.split())


def _plain(match: re.Match[str]) -> str:
    return f" {match[1]}:{next(filter(None, match.groups()[1:]), '00')}"


def _patterns(language: str) -> list[re.Pattern[str]]:
    found = []
    if before := _BEFORE.get(language):
        found.append(re.compile(rf"(?<!\w)(?:{before})\s?{_NUMBER}(?![\d:.,])", re.IGNORECASE))
    if behind := _BEHIND.get(language):
        found.append(
            re.compile(
                rf"(?<![\d:.,]){_NUMBER}\s?(?:{behind})(?:\s?([0-5]\d)(?:\s?(?:分|min\w*))?)?(?!\w)", re.IGNORECASE
            )
        )
    return found
