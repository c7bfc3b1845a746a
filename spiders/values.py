"""Text into typed values. Whatever cannot be read is a ValueError that shows what was found; nothing is guessed."""

import math
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin, urlsplit

import dateparser  # type: ignore[import-untyped]  # ships no types
from price_parser import Price

from schemas.fields import FieldType
from spiders.select import normal_space, readable_text

_TRUE = frozenset(
    {"true", "yes", "y", "1", "on", "in stock", "available", "oui", "vrai", "en stock", "disponible", "có", "còn hàng", "đúng", "ja", "sí", "si", "כן"}
)
_FALSE = frozenset(
    {"false", "no", "n", "0", "off", "out of stock", "unavailable", "not available", "sold out", "non", "faux", "épuisé", "indisponible", "en rupture de stock"}
    | {"không", "hết hàng", "sai", "nein", "לא"}
)
# "In stock (3 available)" is a plain statement; shorter words ("on sale") are not taken for one by their beginning.
_STATEMENTS = {text: text in _TRUE for text in (*_TRUE, *_FALSE) if " " in text}

_SPACES = " '’\u00a0\u2009\u202f"
_NUMBER = re.compile(rf"[-+−]?(?:\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*|[.,]\d+)")
_DECIMAL_POINT = frozenset({"en", "he", "zh", "ja", "ko", "th", "hi"})  # the others write 3,5 and 1.234
_ABSOLUTE = {"STRICT_PARSING": True, "REQUIRE_PARTS": ["day", "month", "year"], "PARSERS": ["absolute-time"]}


def convert(value: Any, kind: FieldType | None, *, language: str = "en", date_format: str | None = None, base_url: str = "") -> Any:
    """`value` as `kind`; without a kind, as it is. None stays None."""
    if value is None or kind is None:
        return value
    if kind == "html":
        return readable_text(str(value))
    if kind == "boolean":
        return to_boolean(value)
    if kind in ("date", "datetime"):
        return to_date(_text(value), language, date_format, with_time=kind == "datetime")
    if kind == "url":
        return to_url(_text(value), base_url)
    if kind == "price":
        return to_price(value)
    if kind == "text":
        return _text(value)
    return to_integer(value, language) if kind == "integer" else to_number(value, language)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError(f"a text was expected; found {_shown(value)}")
    return normal_space(str(value))


def to_number(value: Any, language: str = "en") -> float:
    """The one number in a text, in the notation of the language: `1 234,5` is 1234.5."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"not a number: {value}")
        return float(value)
    return float(_decimal(_text(value), language))


def to_integer(value: Any, language: str = "en") -> int:
    """The one whole number in a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = Decimal(str(value)) if isinstance(value, float) else _decimal(_text(value), language, whole=True)
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"not a whole number: {_shown(value)}")
    return int(number)


def _decimal(text: str, language: str, *, whole: bool = False) -> Decimal:
    found = _NUMBER.findall(text)
    if len(found) != 1:
        raise ValueError(f"{'no number' if not found else 'several numbers'} in {_shown(text)}")
    sign, digits = ("-", found[0][1:]) if found[0][0] in "-−" else ("", found[0].lstrip("+"))
    digits = re.sub(rf"[{_SPACES}]", "", digits)
    points = [mark for mark in digits if mark in ".,"]
    if len(set(points)) == 2:  # the last one parts the decimals
        decimal_mark = points[-1]
    elif len(points) > 1:  # 1.234.567
        decimal_mark = ""
    elif points and re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", digits):  # 1,234: only the language can tell
        decimal_mark = "" if whole else ("." if language.split("-")[0].lower() in _DECIMAL_POINT else ",")
        decimal_mark = decimal_mark if decimal_mark == points[0] else ""
    else:
        decimal_mark = points[0] if points else ""
    head, _, tail = digits.rpartition(decimal_mark) if decimal_mark else (digits, "", "")
    return Decimal(f"{sign}{re.sub('[.,]', '', head) or '0'}.{tail or '0'}")


def to_price(value: Any) -> dict[str, str | None]:
    """`{amount, currency}`: the amount as a decimal string, so that no cent is lost; the currency as it stands there."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"amount": format(Decimal(str(value)), "f"), "currency": None}
    text = _text(value)
    price = Price.fromstring(text)
    if price.amount is None:
        raise ValueError(f"no price in {_shown(text)}")
    # price-parser drops the sign; a credit must not become a charge.
    amount = -price.amount if re.match(r"[-−]", text) and price.amount > 0 else price.amount
    return {"amount": format(amount, "f"), "currency": price.currency}


def to_date(text: str, language: str = "en", date_format: str | None = None, *, with_time: bool = False) -> str:
    """ISO 8601. With a format, exactly that; else ISO 8601 or the language's own notation, day, month and year complete."""
    moment = _moment(text, language, date_format)
    return moment.isoformat() if with_time else moment.date().isoformat()


def _moment(text: str, language: str, date_format: str | None) -> datetime:
    if date_format is not None:
        try:
            return datetime.strptime(text, date_format)
        except ValueError as error:
            raise ValueError(f"{_shown(text)} is not a date of the form {date_format}") from error
    try:
        return datetime.fromisoformat(text) if not re.fullmatch(r"\d+", text) else datetime.combine(date.fromisoformat(text), datetime.min.time())
    except ValueError:
        pass
    primary, _, region = language.partition("-")
    try:
        found: datetime | None = dateparser.parse(text, languages=[primary.lower()], region=region.upper() or None, settings=_ABSOLUTE)
    except ValueError:  # dateparser does not know the language
        found = dateparser.parse(text, settings=_ABSOLUTE)
    if found is None:
        raise ValueError(f"not a date: {_shown(text)}")
    return found


def to_boolean(value: Any) -> bool:
    """True or false by a closed list of words; other text is refused."""
    if isinstance(value, bool):
        return value
    text = _text(value).casefold().strip(" .!✓✔✗")
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    for statement, meaning in _STATEMENTS.items():
        if re.match(rf"{re.escape(statement)}\W", text):
            return meaning
    raise ValueError(f"neither yes nor no: {_shown(value)}")


def to_url(text: str, base_url: str = "") -> str:
    """An absolute URL; relative ones are joined to the page's."""
    joined = urljoin(base_url, text)
    if not urlsplit(joined).scheme:
        raise ValueError(f"not an absolute URL: {_shown(text)}")
    return joined


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 120 else f"{shown[:117]}..."
