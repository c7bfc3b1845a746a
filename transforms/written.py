"""Values as people write them: dates, prices, numbers and yes or no, in the notation of a language."""

import re
from contextlib import AbstractContextManager
from copy import copy
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any
from unicodedata import east_asian_width

from babel import Locale, UnknownLocaleError
from babel.core import get_global
from babel.dates import format_date, format_time
from babel.numbers import (
    NumberPattern,
    format_decimal,
    format_scientific,
    get_currency_precision,
    get_currency_symbol,
    get_territory_currencies,
    is_currency,
)

from almanac.core.locales import locale_of, primary
from almanac.schemas.declaration.field_rules import FieldRule

_DEFAULT = Locale("en")
_YES_NO = {
    "ar": ("نعم", "لا"), "cs": ("ano", "ne"), "da": ("ja", "nej"), "de": ("ja", "nein"), "el": ("ναι", "όχι"),
    "en": ("yes", "no"), "es": ("sí", "no"),
    "fi": ("kyllä", "ei"), "fr": ("oui", "non"), "he": ("כן", "לא"), "hu": ("igen", "nem"), "id": ("ya", "tidak"),
    "it": ("sì", "no"), "ja": ("はい", "いいえ"),
    "ko": ("예", "아니요"), "nb": ("ja", "nei"), "nl": ("ja", "nee"), "no": ("ja", "nei"), "pl": ("tak", "nie"),
    "pt": ("sim", "não"), "ro": ("da", "nu"),
    "ru": ("да", "нет"), "sv": ("ja", "nej"), "tr": ("evet", "hayır"), "uk": ("так", "ні"), "vi": ("có", "không"),
    "zh": ("是", "否"),
}  # fmt: skip
_GROUPED_FROM = 10_000  # 1998 may be a year, and many languages write four digits together
# digits before the decimal mark, and behind it, that a float is written with; a longer one is written with a power of
# ten: 1.989E30
_IN_FULL = 20
_USUAL_DECIMALS = 4  # of a currency, at most
_MOST_DIGITS = 2000  # of an amount on either side of its decimal mark: what is longer is no price
# Symbols and words that mean one currency; `$`, `£`, `¥` and `kr` mean several.
_CODES = {
    **dict.fromkeys(("₫", "đ", "VNĐ", "vnđ", "đồng", "Đồng"), "VND"), "€": "EUR", "₪": "ILS", **dict.fromkeys(("₩", "￦",  # noqa: E501
    "원"), "KRW"),
    "₹": "INR", "₽": "RUB", "₺": "TRY",
    "₴": "UAH", "zł": "PLN", "Kč": "CZK", "Ft": "HUF", "฿": "THB", "บาท": "THB", "₱": "PHP", "₦": "NGN", "₸": "KZT",
    "₾": "GEL", "₲": "PYG", "₡": "CRC",
    "₮": "MNT", "₭": "LAK", "៛": "KHR", "Rp": "IDR", "R$": "BRL", "円": "JPY", "lei": "RON",
}  # fmt: skip
# Directives that strftime fills in alike in all languages; `%B` and `%p` are words.
_DIGITS_ONLY = re.compile(r"(?!unix)(?:[^%]|%[dmYyHIMSjf%-])*")
_HAS_TIME = re.compile(r"%-?[HIMSfp]")
_SPACES = re.compile(r"[\u00a0\u2007\u202f]")
_BIDI = re.compile(r"[\u200e\u200f\u061c]")


def is_price(value: Any) -> bool:
    """Whether a value is a price, `{amount, currency}` with a decimal amount."""
    return (
        isinstance(value, dict)
        and {"amount", "currency"} >= value.keys() >= {"amount"}
        and _decimal(value["amount"]) is not None
    )


def written(value: Any, rule: FieldRule | None, language: str) -> str:
    """A scalar or a price as people write it; empty for None and for a text without any visible character.

    Args:
        value: A text, a number, a boolean, or a price `{amount, currency}`.
        rule: Rule of the field; None for a value that no rule declares.
        language: BCP 47 tag; `und` and unknown languages are written as English.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return _YES_NO.get(primary(language), _YES_NO["en"])[not value]
    if isinstance(value, int | float):
        return _number(value, language, is_typed=rule is not None and rule.type in ("integer", "number"))
    if is_price(value):
        return _price(str(value["amount"]), str(value.get("currency") or "").strip(), language)
    if rule is not None and rule.type in ("date", "datetime"):
        return _moment(str(value), rule, language)
    return str(value).replace("\r\n", "\n").replace("\r", "\n").strip()


def _number(value: float, language: str, *, is_typed: bool) -> str:
    """A number with the decimal mark of the language. Only declared numbers of five digits and more are grouped: others
    may be ids, codes and years.
    """
    number = Decimal(value if isinstance(value, int) else str(value))
    if not number.is_finite():
        return str(value)
    locale = locale_of(language) or _DEFAULT
    if isinstance(value, float) and number == number.to_integral_value() and number.adjusted() < _IN_FULL:
        number = Decimal(int(number))  # 5, not 5.0
    digits = max(0, -int(number.as_tuple().exponent))
    if digits > _IN_FULL or (isinstance(value, float) and number.adjusted() >= _IN_FULL):
        with _all_digits(number):
            return _bare(format_scientific(number, "#E0", locale=locale))
    grouped = is_typed and abs(number) >= _GROUPED_FROM
    pattern = f"{'#,##0' if grouped else '0'}{'.' + '0' * digits if digits else ''}"
    with _all_digits(number):
        return _bare(format_decimal(number, pattern, locale=locale, group_separator=grouped))


def _all_digits(number: Decimal) -> AbstractContextManager[Context]:
    """Has Babel write all digits of a number: where it rounds one to its decimal places, `decimal` raises an error from
    29 digits on.
    """
    return localcontext(prec=len(number.as_tuple().digits) + abs(number.adjusted()) + _USUAL_DECIMALS)


@lru_cache(maxsize=4096)
def _price(amount: str, currency: str, language: str) -> str:
    """A price in the notation of the one country that has the currency, else of the language, with the decimals that
    the amount has.
    """
    number = _decimal(amount)
    assert number is not None
    locale = locale_of(language) or _DEFAULT
    with _all_digits(number):
        return _priced(number, currency, locale)


def _priced(number: Decimal, currency: str, locale: Locale) -> str:
    if not currency:
        return _amount(number, _decimals(number, 2), locale)
    code = _CODES.get(currency) or (currency.upper() if is_currency(currency.upper()) else None)
    digits = _decimals(number, get_currency_precision(code) if code else 2)
    shown = _bare(get_currency_symbol(currency.upper(), locale=locale) if code == currency.upper() else currency)
    return _with_currency(number, digits, shown, (code and _home(code)) or locale)


def _with_currency(number: Decimal, digits: int, shown: str, locale: Locale) -> str:
    pattern: NumberPattern = copy(locale.currency_formats["standard"])
    pattern.frac_prec = (digits, digits)
    text = _bare(pattern.apply(number, locale, currency="XXX", currency_digits=False))
    placeholder = _bare(get_currency_symbol("XXX", locale=locale))
    before, _, after = text.partition(placeholder)
    # a word, which stands behind the amount: 12 euros, 3,200円
    if not before[-1:].isdigit() and shown[0].isalpha() and not shown[0].isupper():
        before, after = before.strip(), after.strip()
        return f"{before}{after}{'' if east_asian_width(shown[0]) == 'W' else ' '}{shown}"
    spaced = " " if shown[:1].isalpha() and before[-1:].isdigit() else ""
    behind = " " if shown[-1:].isalpha() and after[:1].isdigit() else ""
    return f"{before}{spaced}{shown}{behind}{after}".strip()


def _amount(number: Decimal, digits: int, locale: Locale) -> str:
    return _bare(format_decimal(number, f"#,##0{'.' + '0' * digits if digits else ''}", locale=locale))


def _decimals(number: Decimal, usual: int) -> int:
    """Decimal places to write: none for a whole amount as written, else at least as many as usual. The amount's own
    zeros count.
    """
    own = max(0, -int(number.as_tuple().exponent))
    if own == 0 or (usual == 0 and number == number.to_integral_value()):
        return 0
    return max(own, usual)


@lru_cache(maxsize=512)
def _home(code: str) -> Locale | None:
    """Locale of the country of a currency, where exactly one has it."""
    countries = _countries().get(code, [])
    if len(countries) != 1:
        return None
    tag = get_global("likely_subtags").get(f"und_{countries[0]}")
    try:
        locale = Locale.parse(tag) if tag else None
    except (UnknownLocaleError, ValueError):
        return None
    # The notation is taken over, not the script: 32.00 ج.م. is nothing for readers of English, and its pattern is for
    # text from right to left.
    return None if locale is None or locale.text_direction == "rtl" else locale


@lru_cache(maxsize=1)
def _countries() -> dict[str, list[str]]:
    countries: dict[str, list[str]] = {}
    for country in get_global("territory_currencies"):
        for code in get_territory_currencies(country):
            countries.setdefault(code, []).append(country)
    return countries


def _moment(text: str, rule: FieldRule, language: str) -> str:
    """A date or datetime: by the declared format, where that has digits alone, else in CLDR's long form. A text that is
    no date stays as it is.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text.strip()
    if (
        rule.format
        and _DIGITS_ONLY.fullmatch(rule.format)
        and (rule.type == "datetime" or not _HAS_TIME.search(rule.format))
        and moment.tzinfo is None
    ):
        return moment.strftime(rule.format)
    locale = locale_of(language) or _DEFAULT
    day = _bare(format_date(date(moment.year, moment.month, moment.day), "long", locale=locale))
    if rule.type == "date" or (moment.tzinfo is None and (moment.hour, moment.minute, moment.second) == (0, 0, 0)):
        return day
    offset = moment.strftime("%z")
    zone = "" if not offset else " UTC" if offset.strip("+-0") == "" else f" UTC{offset[:3]}:{offset[3:5]}"
    return f"{day}, {_bare(format_time(moment.time(), 'short', locale=locale))}{zone}"


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = Decimal(value if isinstance(value, int) else str(value))
    except InvalidOperation:
        return None
    if (
        not number.is_finite()
        or abs(number.adjusted()) > _MOST_DIGITS
        or -int(number.as_tuple().exponent) > _MOST_DIGITS
    ):
        return None
    return number


def _bare(text: str) -> str:
    """A text with plain spaces and without marks of direction, so that it is found by those who type it."""
    return _BIDI.sub("", _SPACES.sub(" ", text))
