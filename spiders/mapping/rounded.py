"""Words and letters behind a number that multiply it, by CLDR: `Mio.`, `triệu`, 万, the K of $60K."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from almanac.core.locales import locale_of
from almanac.spiders.reading.currencies import ANY_CURRENCY, UNSEEN, currency_beside

# Whose words are told from units where another language is declared, and what CLDR lacks: they are refused, but for
# those of one meaning.
_LANGUAGES = (
    *("ar", "bg", "cs", "da", "de", "el", "es", "fa", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko", "nb", "nl"),
    *("pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh", "zh-Hant"),
)
_LACKING = ("tsd", "lakh", "lakhs", "lac", "lacs", "crore", "crores", "cr", "lpa")
_OF_ONE_MEANING = {"bn": 9, "百": 2, "千": 3, "백": 2, "천": 3}
# Of single letters, those that are hardly a unit: behind a number, and behind a price.
_LETTER, _LETTER_OF_PRICE = re.compile(r"\s?[kKMB]"), re.compile(r"[kKmMbBTL]|\s[kKmMB]")
_SPACELESS = re.compile(r"[\u0e00-\u0e7f\u3400-\u9fff\uac00-\ud7af]$")
# Scripts without spaces: behind these words their multipliers are no beginning of others, as in 8조각 and 4万向轮.
_COUNTED = re.compile(
    r"\s?(?:[百千万萬亿億백천만억][人名件条條个個回次本部台以多余餘起명건개대회]|(?:พัน|หมื่น|แสน|ล้าน)(?:คน|ครั้ง|ชิ้น|ปี))"
)
_UNIT = re.compile(r"\s?(?:[千兆](?:[克米卡瓦帕赫伏焦升比]|字[节節])|百帕)")
_BEGINS_NAME = re.compile(r"[-&']?[^\W\d_]|[&']")  # $5 M&Ms, $25 K-Cup
_PREPOSITION = re.compile(r"\s(?:d'|d[ei]\s)")  # 3 millions d'euros
_LARGE = 12  # from this power on, short forms differ within languages: bn, T


@dataclass(frozen=True, slots=True)
class Multiplier:
    """What multiplies a number: a power of ten, 0 for none; what follows it; and the word where it is not clear what it
    means, else an empty text.
    """

    power: int
    rest: str
    doubtful: str = ""


def find_multiplier(after: str, language: str, *, of_price: bool, is_second: bool = False) -> Multiplier:
    """What the text behind a number begins with.

    Two words multiply one another: `2 mil milhões`, 3千万. Doubtful are words that mean other numbers in English than
    in the language (billion), words of other languages, what may begin a name or another word, and short forms behind
    numbers that are no prices, where they may be units.
    """
    if not after[:2].lstrip()[:1].isalpha() or ANY_CURRENCY.match(after) or _UNIT.match(after):
        return Multiplier(0, after)
    powers, spelled_out, pattern = _words(language)
    match = pattern.match(after)
    if match is None:
        return Multiplier(0, after)
    word, rest = match[1].casefold(), after[match.end() :]
    is_spaceless = _SPACELESS.search(word) is not None
    is_before_currency = (currency_beside("", rest) if is_spaceless else ANY_CURRENCY.match(rest)) is not None
    is_part = unicodedata.category(rest[:1] or " ")[0] in "LM" if is_spaceless else _BEGINS_NAME.match(rest) is not None
    is_letter = len(word) == 1 and word.isascii()
    letters = _LETTER_OF_PRICE if of_price else _LETTER
    if (
        not (is_spaceless or is_before_currency or not rest[:1].isalnum())  # 5 m2, 12 minutes
        or (is_letter and not is_before_currency and not letters.fullmatch(match[0].rstrip(".")))
        or not (powers[word] or is_letter or of_price or word in spelled_out)  # 5 mil thick
    ):
        return Multiplier(0, after)
    again = Multiplier(0, rest)
    if not (is_letter or is_second):
        again = find_multiplier(rest, language, of_price=of_price, is_second=True)
    is_clear = (
        len(powers[word]) == 1
        and (word in spelled_out or of_price)
        and (is_before_currency or not is_part or again.power or _COUNTED.match(after) is not None)
        and not again.doubtful
        and (is_before_currency or not is_letter or not match[0][0].isspace())
    )
    if is_clear and again.power:  # 千万, mil milhões
        return Multiplier(min(powers[word]) + again.power, again.rest)
    if (preposition := _PREPOSITION.match(rest)) and ANY_CURRENCY.match(rest, preposition.end()):
        rest = rest[preposition.end() :]
    return Multiplier(min(powers[word]), rest) if is_clear else Multiplier(0, rest, match[0].strip())


@lru_cache(maxsize=256)
def _words(language: str) -> tuple[dict[str, set[int]], set[str], re.Pattern[str]]:
    """Powers of ten by word, as the language and English know it, none for those of other languages; the words that are
    spelled out; and a pattern for all.
    """
    powers: dict[str, set[int]] = {word: set() for word in ("k", "m", "b", "t", "l", *_LACKING)}
    powers |= {word: {power} for word, power in _OF_ONE_MEANING.items()}
    spelled_out = {word for word in _OF_ONE_MEANING if not word.isascii()}
    for tag in (language, "en"):
        for word, power, is_long in _words_of(tag):
            powers.setdefault(word, set()).update({power} if is_long or power < _LARGE else {power, 0})
            spelled_out |= {word} if is_long else set()
    spelled_out |= {word for word in _LACKING if not powers[word]}
    for tag in _LANGUAGES:
        for word, power, is_long in _words_of(tag):
            if word not in powers and (not word.isascii() or (len(word) > 1 and (is_long or power < _LARGE))):
                powers[word] = set()
                spelled_out |= {word} if is_long and (len(word) > 3 or not word.isascii()) else set()
    longest_first = sorted(powers, key=len, reverse=True)
    words = "|".join(re.escape(word) + (r"\b" if " " in word else "") for word in longest_first)
    return powers, spelled_out, re.compile(rf"\s?({words})(?:\.(?!\d))?", re.IGNORECASE)


def _words_of(tag: str) -> Iterator[tuple[str, int, bool]]:
    """Each word that CLDR rounds numbers with in a language, its power of ten, and whether it is spelled out."""
    if (locale := locale_of(tag)) is None:
        return
    for width in ("short", "long"):
        for forms in locale.compact_decimal_formats.get(width, {}).values():
            for size, form in forms.items():
                written = form.pattern.partition(";")[0].translate(UNSEEN).replace("\u00a0", " ")
                word = unicodedata.normalize("NFC", re.sub("['.0]", "", written)).strip().casefold()
                is_long = width == "long" or not word.isascii()
                for spelling in (word, f"{word}s") if is_long and tag == "en" else (word,):
                    if word and "0" in written:
                        yield spelling, len(size) - written.count("0"), is_long


def unclear(word: str, text: str) -> ValueError:
    """The error for a number that a word may multiply."""
    return ValueError(
        f"{word!r} in {text} may multiply the number, and it is not clear by what: `pattern` takes the number alone, "
        "and `times` multiplies it, such as `times: 1000` by thousand"
    )
