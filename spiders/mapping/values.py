"""Converts text to typed values. A value that cannot be read raises ValueError with what was found; nothing is
guessed.
"""

import math
import re
import unicodedata
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin, urlsplit

from almanac.schemas.declaration.fields import FieldType
from almanac.spiders.mapping.dates import read_date
from almanac.spiders.mapping.numbers import plain_digits, read_number, shown
from almanac.spiders.mapping.prices import read_price
from almanac.spiders.mapping.readable import readable_text
from almanac.spiders.mapping.yes_no import answer
from almanac.spiders.reading.escaped import unescaped
from almanac.spiders.selecting.selectors import normal_space
from almanac.spiders.selecting.urls import as_browsers_read

_SCHEMA_ORG = re.compile(r"https?://schema\.org/", re.IGNORECASE)  # availability is given as https://schema.org/InStock
_AMOUNT_KEYS = ("amount", "price", "value", "lowPrice")
_CURRENCY_KEYS = ("currency", "priceCurrency", "currencyCode", "currency_code")


def convert(
    value: Any, kind: FieldType | None, *, language: str = "en", date_format: str | None = None, base_url: str = ""
) -> Any:
    """`value` converted to the type `kind`; unchanged if `kind` is None. None stays None. Raises ValueError if it
    cannot be converted.

    Args:
        language: BCP 47 tag, decides the notation of numbers and dates.
        date_format: strptime format for date and datetime; None for the usual notations.
        base_url: URL that relative ones are resolved against, for type url.
    """
    if value is None or kind is None:
        return value
    if kind == "html":
        return readable_text(unescaped(str(value)))
    if kind == "boolean":
        return to_boolean(value)
    if kind in ("date", "datetime"):
        return to_date(_text(value), language, date_format, with_time=kind == "datetime")
    if kind == "url":
        return to_url(_text(value), base_url)
    if kind == "price":
        return to_price(value, language)
    if kind == "text":
        return _text(value)
    return to_integer(value, language) if kind == "integer" else to_number(value, language)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError(f"a text was expected; found {shown(value)}")
    return normal_space(str(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decimal(value: float) -> Decimal:
    """A number with the digits that it is written with."""
    return Decimal(value if isinstance(value, int) else str(value))


def to_number(value: Any, language: str = "en") -> float:
    """The only number in a text, in the notation of the language: 1234.5 for `1 234,5` (French), 12 for `12 %`. Raises
    ValueError.
    """
    number = float(_decimal(value) if _is_number(value) else read_number(_text(value), language))
    if not math.isfinite(number):
        raise ValueError(f"not a number below 1.8e308: {shown(value)}")
    return number


def to_integer(value: Any, language: str = "en") -> int:
    """The only whole number in a text. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _decimal(value) if isinstance(value, float) else read_number(_text(value), language, whole=True)
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"not a whole number: {shown(value)}")
    return int(number)


def to_price(value: Any, language: str = "en", named: str | None = None) -> dict[str, str | None]:
    """`{amount, currency}`: the amount as an exact decimal string, the currency as written or None. Raises ValueError.

    A JSON object may hold them in two keys: `{"price": 12.5, "priceCurrency": "EUR"}`. `named` is such a currency,
    named beside the value.
    """
    if isinstance(value, dict):
        amount = next((value[key] for key in _AMOUNT_KEYS if value.get(key) is not None), None)
        if amount is None or isinstance(amount, dict):
            raise ValueError(f"no price in {shown(value)}")
        named = next((str(value[key]) for key in _CURRENCY_KEYS if value.get(key)), None)
        price = to_price(amount, language, named)
        return {**price, "currency": named or price["currency"]}
    if _is_number(value):
        number = _decimal(value)
        if not number.is_finite():
            raise ValueError(f"no price in {shown(value)}")
        return {"amount": format(number, "f"), "currency": None}
    amount, currency = read_price(_text(value), language, named)
    return {"amount": amount, "currency": currency}


def to_date(text: str, language: str = "en", date_format: str | None = None, *, with_time: bool = False) -> str:
    """The date as ISO 8601; `with_time` keeps the time, with the UTC offset if the text has one. Raises ValueError; see
    `read_date`.
    """
    moment = read_date(text, language, date_format)
    return moment.isoformat() if with_time else moment.date().isoformat()


def to_boolean(value: Any) -> bool:
    """True or False by a closed list of words. Raises ValueError for any other text."""
    if isinstance(value, bool):
        return value
    written = _SCHEMA_ORG.sub("", plain_digits(_text(value)))
    # the dot that is left of a Turkish İ
    text = unicodedata.normalize("NFC", written).casefold().replace("\u0307", "").strip(" .!")
    if (told := answer(text)) is None:
        raise ValueError(f"neither yes nor no: {shown(value)}")
    return told


def to_url(text: str, base_url: str = "") -> str:
    """An absolute URL; relative ones are resolved against `base_url`. Raises ValueError if it has no scheme."""
    joined = urljoin(base_url, as_browsers_read(text) if base_url.startswith("http") else text)
    if not urlsplit(joined).scheme:
        raise ValueError(f"not an absolute URL: {shown(text)}")
    return joined
