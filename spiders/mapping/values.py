"""Text into typed values. Whatever cannot be read is a ValueError that shows what was found; nothing is guessed."""

import math
import re
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin, urlsplit

from almanac.schemas.declaration.fields import FieldType
from almanac.spiders.mapping.dates import read_date
from almanac.spiders.mapping.numbers import plain_digits, read_number, shown
from almanac.spiders.mapping.prices import read_price
from almanac.spiders.mapping.readable import readable_text
from almanac.spiders.selecting.selectors import normal_space

_TRUE = frozenset(
    {"true", "yes", "y", "1", "on", "in stock", "available", "oui", "vrai", "en stock", "disponible", "có", "còn hàng", "đúng", "ja", "sí", "si", "כן", "במלאי"}
    | {
        "auf lager",
        "verfügbar",
        "lieferbar",
        "vorrätig",
        "wahr",
        "да",
        "есть",
        "в наличии",
        "sim",
        "em estoque",
        "disponibile",
        "tak",
        "是",
        "有货",
        "有貨",
        "はい",
        "在庫あり",
        "예",
    }
    | {"instock", "limitedavailability", "onlineonly", "instoreonly", "✓", "✔", "☑", "✅"}
)
_FALSE = frozenset(
    {"false", "no", "n", "0", "off", "out of stock", "unavailable", "not available", "not in stock", "sold out", "no longer available", "currently unavailable"}
    | {"temporarily out of stock", "non", "faux", "épuisé", "indisponible", "en rupture de stock", "rupture de stock", "không", "hết hàng", "sai", "nein", "לא"}
    | {
        "nicht auf lager",
        "nicht verfügbar",
        "nicht lieferbar",
        "nicht vorrätig",
        "falsch",
        "không có",
        "không còn hàng",
        "אין במלאי",
        "ausverkauft",
        "нет",
        "нет в наличии",
        "não",
        "esgotado",
        "agotado",
        "no disponible",
        "esaurito",
        "non disponibile",
    }
    | {"nie", "否", "缺货", "缺貨", "いいえ", "在庫なし", "아니요", "אזל מהמלאי", "לא במלאי", "outofstock", "soldout", "discontinued", "✗", "✘", "☐", "❌"}
)
# "In stock (3 available)" is a plain statement; shorter words ("on sale") are not taken for one by their beginning.
_STATEMENTS = sorted((text for text in (*_TRUE, *_FALSE) if " " in text), key=len, reverse=True)
_STATEMENT = re.compile(rf"({'|'.join(map(re.escape, _STATEMENTS))})(?:\W|$)")
_SCHEMA_ORG = re.compile(r"https?://schema\.org/", re.IGNORECASE)  # availability is written as https://schema.org/InStock
_AMOUNT_KEYS = ("amount", "price", "value", "lowPrice")
_CURRENCY_KEYS = ("currency", "priceCurrency", "currencyCode", "currency_code")


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


def to_number(value: Any, language: str = "en") -> float:
    """The one number in a text, in the notation of the language: `1 234,5` is 1234.5, and `12 %` is 12."""
    number = float(value) if _is_number(value) else float(read_number(_text(value), language))
    if not math.isfinite(number):
        raise ValueError(f"not a number: {shown(value)}")
    return number


def to_integer(value: Any, language: str = "en") -> int:
    """The one whole number in a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = Decimal(str(value)) if isinstance(value, float) else read_number(_text(value), language, whole=True)
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"not a whole number: {shown(value)}")
    return int(number)


def to_price(value: Any, language: str = "en") -> dict[str, str | None]:
    """`{amount, currency}`: the amount as a decimal string, so that no cent is lost; the currency as it stands there.

    JSON may have it in two keys: `{"price": 12.5, "priceCurrency": "EUR"}`.
    """
    if isinstance(value, dict):
        amount = next((value[key] for key in _AMOUNT_KEYS if value.get(key) is not None), None)
        if amount is None or isinstance(amount, dict):
            raise ValueError(f"no price in {shown(value)}")
        named = next((str(value[key]) for key in _CURRENCY_KEYS if value.get(key)), None)
        price = to_price(amount, language)
        return {**price, "currency": named or price["currency"]}
    if _is_number(value):
        if not math.isfinite(value):
            raise ValueError(f"no price in {shown(value)}")
        return {"amount": format(Decimal(str(value)), "f"), "currency": None}
    amount, currency = read_price(_text(value), language)
    return {"amount": amount, "currency": currency}


def to_date(text: str, language: str = "en", date_format: str | None = None, *, with_time: bool = False) -> str:
    """ISO 8601, with the offset from UTC where the text has one. With a format, exactly that; see `read_date`."""
    moment = read_date(text, language, date_format)
    return moment.isoformat() if with_time else moment.date().isoformat()


def to_boolean(value: Any) -> bool:
    """True or false by a closed list of words; other text is refused."""
    if isinstance(value, bool):
        return value
    written = _SCHEMA_ORG.sub("", plain_digits(_text(value)))
    text = written.casefold().strip(" .!")
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    bare = text.strip(" .!✓✔☑✅✗✘❌")
    if statement := _STATEMENT.match(bare):
        counts = [int(digits) for digits in re.findall(r"\d{1,9}", bare)]
        return statement[1] in _TRUE and (not counts or any(counts))  # "In stock: 0"
    if bare in _TRUE or bare in _FALSE:
        return bare in _TRUE
    raise ValueError(f"neither yes nor no: {shown(value)}")


def to_url(text: str, base_url: str = "") -> str:
    """An absolute URL; relative ones are joined to the page's."""
    joined = urljoin(base_url, text)
    if not urlsplit(joined).scheme:
        raise ValueError(f"not an absolute URL: {shown(text)}")
    return joined
