"""Converts text to typed values. A value that cannot be read raises ValueError with what was found; nothing is
guessed.
"""

import math
import re
from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import Any
from urllib.parse import urljoin, urlsplit

from almanac.schemas.declaration.field_rules import Calendar, FieldType
from almanac.spiders.mapping.dates import read_date
from almanac.spiders.mapping.numbers import read_number, shown
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
    value: Any,
    kind: FieldType | None,
    *,
    language: str = "en",
    date_format: str | None = None,
    times: float | None = None,
    calendar: Calendar | None = None,
    yes: Iterable[str] = (),
    no: Iterable[str] = (),
    base_url: str = "",
) -> Any:
    """`value` converted to the type `kind`; unchanged if `kind` is None. None stays None. Raises ValueError if it
    cannot be converted.

    Args:
        language: BCP 47 tag, decides the notation of numbers and dates.
        date_format: strptime format for date and datetime; None for the usual notations.
        calendar: of date and datetime; None for the Gregorian one, where a year is not obviously of another.
        yes: what says yes, besides what is known; for boolean.
        no: what says no.
        times: what a number or the amount of a price is multiplied by, exactly; None for 1.
        base_url: URL that relative ones are resolved against, for type url.
    """
    if value is None or kind is None:
        return value
    if kind == "html":
        return readable_text(unescaped(str(value)))
    if kind == "boolean":
        return to_boolean(value, yes, no)
    if kind in ("date", "datetime"):
        return to_date(_text(value), language, date_format, calendar, with_time=kind == "datetime")
    if kind == "url":
        return to_url(_text(value), base_url)
    if kind == "text":
        return _text(value)
    if kind == "price":
        price = to_price(value, language)
        return price if times is None else {**price, "amount": _written(_product(price["amount"], times))}
    if times is None:
        return to_integer(value, language) if kind == "integer" else to_number(value, language)
    product = _product(_number(value, language), times)
    if kind == "integer" and product != product.to_integral_value():
        raise ValueError(f"times {times:g} is not a whole number: {shown(value)}")
    return int(product) if kind == "integer" else to_number(float(product))


def _product(number: Decimal | str | None, times: float) -> Decimal:
    with localcontext() as context:
        context.prec = 2000
        return Decimal(str(number)) * Decimal(str(times))


def _written(number: Decimal) -> str:
    """The number in digits, without zeros behind its decimals."""
    digits = format(number, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


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
    return float(_number(value, language))


def _number(value: Any, language: str) -> Decimal:
    number = _decimal(value) if _is_number(value) else read_number(_text(value), language)
    if not math.isfinite(float(number)):
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


def to_date(
    text: str,
    language: str = "en",
    date_format: str | None = None,
    calendar: Calendar | None = None,
    *,
    with_time: bool = False,
) -> str:
    """The date as ISO 8601; `with_time` keeps the time, with the UTC offset if the text has one. Raises ValueError; see
    `read_date`.
    """
    moment = read_date(text, language, date_format, calendar)
    return moment.isoformat() if with_time else moment.date().isoformat()


def to_boolean(value: Any, yes: Iterable[str] = (), no: Iterable[str] = ()) -> bool:
    """True or False by known words, and by what is declared to say yes and no. Raises ValueError for any other text."""
    if isinstance(value, bool):
        return value
    if (is_yes := answer(_SCHEMA_ORG.sub("", _text(value)), yes, no)) is None:
        raise ValueError(f"neither yes nor no: {shown(value)}; `yes: [...]` and `no: [...]` list what says so here")
    return is_yes


def to_url(text: str, base_url: str = "") -> str:
    """An absolute URL; relative ones are resolved against `base_url`. Raises ValueError if it has no scheme."""
    joined = urljoin(base_url, as_browsers_read(text) if base_url.startswith("http") else text)
    if not urlsplit(joined).scheme:
        raise ValueError(f"not an absolute URL: {shown(text)}")
    return joined
