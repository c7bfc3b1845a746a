"""Words and letters behind a number that stand for a power of ten: the K of $60K, `Mio.`, `triệu`, 万, `lakh`."""

import re

from almanac.core.locales import primary
from almanac.core.multiplier_words import POWERS
from almanac.spiders.mapping.numbers import RANGE

# Words that mean different powers in different languages, with the languages in which they are sure. English words have
# the short scale.
_SURE: dict[str, dict[int, str]] = {
    "billion": {9: "en"},
    "billions": {9: "en"},
    "trillion": {12: "en"},
    "trillions": {12: "en"},
    "mil": {3: "es pt gl ca", 6: "cs sk ro"},
    "mi": {6: "pt"},
    "bi": {9: "pt"},
    "bin": {3: "tr az"},
}
_LONG_SCALE = frozenset(
    {
        "fr",
        "de",
        "es",
        "it",
        "nl",
        "pl",
        "da",
        "sv",
        "nb",
        "no",
        "fi",
        "cs",
        "sk",
        "hu",
        "hr",
        "sl",
        "sr",
        "ro",
        "ca",
        "gl",
    }
)
# nghìn tỷ, 百万, mil millones, lakh crore
_BEFORE_LARGER = frozenset(
    {
        "百",
        "백",
        "千",
        "仟",
        "천",
        "万",
        "萬",
        "만",
        "nghìn",
        "ngàn",
        "mil",
        "thousand",
        "lakh",
        "lac",
        "พัน",
        "หมื่น",
        "แสน",
    }
)
_ANY = sorted({*POWERS, *_SURE, "t", "l"}, key=len, reverse=True)
_SPACELESS = re.compile(r"[\u0e00-\u0e7f\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(rf"\s?({'|'.join(map(re.escape, _ANY))})(\.(?!\d))?", re.IGNORECASE)
_BEGINS_WORD = re.compile(r"[-&'’]?[^\W\d_]|[&'’]")  # $5 M&Ms, $25 K-Cup
_OTHER_WORD = re.compile(r"\s+[^\W\d_]")  # $25 B grade
_OF = re.compile(r"\s*(?:d'|(?:de|di|of)\s)", re.IGNORECASE)


_RUPEES = re.compile(r"(?:₹|\b(?:Rs\.?|INR))\s?$")


class AmbiguousMultiplier(ValueError):
    """The word may stand for different numbers, or for none."""


def split_multiplier(
    before: str, after: str, language: str, currencies: re.Pattern[str], *, is_glued: bool
) -> tuple[int, str]:
    """Splits a multiplier off the text `after` a number. Returns (power of ten, the rest); (0, `after`) if there is
    none.

    `currencies` matches a currency at the beginning of a text, since one may follow directly: 12k€, 500kđ. `is_glued`
    says that a digit follows the text: 5 m2 is no amount. Raises AmbiguousMultiplier for `mil` and `billion` where the
    language does not tell what they mean, and for letters that may be something else: $5 M&Ms.
    """
    power, rest, word = 0, after, ""
    while match := _WORD.match(rest):
        next_word, remainder = match[1].casefold(), rest[match.end() :]
        if not _ends_word(next_word, remainder, currencies, is_glued):
            break
        next_power = _power(next_word, before, match[0], remainder, language, currencies)
        if (
            next_power
            and len(next_word) == 1
            and next_word.isascii()
            and _may_be_no_multiplier(next_word, match[0], remainder, currencies)
        ):
            raise AmbiguousMultiplier(f"'{match[0].strip()}'")
        if not next_power or (power and not (word in _BEFORE_LARGER and next_power > power)):
            break
        power, rest, word = power + next_power, remainder, next_word
    if power and (of := _OF.match(rest)) and currencies.match(rest, of.end()):
        rest = rest[of.end() :]
    return power, rest


def _ends_word(word: str, remainder: str, currencies: re.Pattern[str], is_glued: bool) -> bool:
    if _SPACELESS.search(word):
        return True
    return (
        not is_glued
        if not remainder
        else not (remainder[0].isalnum() or remainder[0] == "_") or currencies.match(remainder) is not None
    )


def _may_be_no_multiplier(letter: str, written: str, remainder: str, currencies: re.Pattern[str]) -> bool:
    """Whether a single letter may be a size, a grade or the beginning of a name."""
    if currencies.match(remainder):
        return False
    stands_alone = written != written.lstrip() and letter != "k"
    return _BEGINS_WORD.match(remainder) is not None or (
        stands_alone and _OTHER_WORD.match(remainder) is not None and not RANGE.fullmatch(remainder)
    )


def _power(word: str, before: str, written: str, remainder: str, language: str, currencies: re.Pattern[str]) -> int:
    spoken = primary(language)
    if word in POWERS:
        return POWERS[word]
    if word == "t":  # in German, T€ is a thousand euros; $1.5T is a trillion
        if written != "T" and written != " T":
            return 0
        is_before_currency = bool(remainder) and currencies.match(remainder) is not None
        if is_before_currency and spoken != "de":
            raise AmbiguousMultiplier(f"'T{remainder.strip()[:3]}'")
        return 3 if is_before_currency else 12 if written == "T" else 0
    if word == "l":  # ₹2.5L is 2.5 lakh; anywhere else it is a litre
        return 5 if written == "L" and _RUPEES.search(before) else 0
    sure = _SURE[word]
    for power, languages in sure.items():
        if spoken in languages.split() or (languages == "en" and spoken not in _LONG_SCALE):
            return power
    if word in ("mi", "bi", "bin"):
        return 0
    raise AmbiguousMultiplier(f"'{written.strip()}'")
