"""Fields by `json` rules, from the objects of an API, of a page's data, or the rows of a table."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from almanac.spiders.mapping.dates import read_date
from almanac.spiders.mapping.diagnose import identifier
from almanac.spiders.mapping.values import to_date, to_price
from almanac.spiders.proposing.proposal import field_name

# How data formats call a name, what a nested object is known by, and an identifier.
TITLES = ("name", "title", "headline", "question", "label", "subject")
_KNOWN_BY = ("name", "title", "headline", "text", "ratingValue", "contentUrl", "url", "value")
_CALLED = {"offers": "price", "acceptedAnswer": "answer"}
_IDS = ("id", "sku", "code", "identifier", "isbn", "gtin13", "slug", "key", "uuid", "url")
_MOST = 20  # fields
_ORDERS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_SHORT = 40  # characters of a price or date
_MARKUP = re.compile(r"</?(?:p|br|li|b|strong|em|a|h\d)\b[^<>]*>", re.IGNORECASE)
# All values of a column, in what no language writes otherwise.
_TYPES = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d\S*)?"),
    "url": re.compile(r"(?:https?:/)?/[^\s<>]+"),
    "integer": re.compile(r"-?(?:0|[1-9]\d{0,17})"),
    "number": re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?"),
}


def fields_of(rows: Sequence[dict[str, Any]], language: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Rules by name, for the keys that half of the rows have, in the order of the rows; and which keys are left out."""
    fields: dict[str, dict[str, Any]] = {}
    left = []
    for key in dict.fromkeys(key for row in rows for key in row if not key.startswith("@")):
        values = [row[key] for row in rows if row.get(key) not in (None, "", [], {})]
        name = _CALLED.get(key) or field_name(key) or f"field_{len(fields) + 1}"
        rule = _rule(identifier(key), values, language) if values and len(values) * 2 >= len(rows) else None
        if rule is None or name in fields or len(fields) == _MOST:
            left.append(key)
            continue
        if name in _IDS:  # digits that others write with letters
            rule.pop("type", None)
        fields[name] = {**rule, **({} if key.isascii() else {"label": key})}
    return fields, f"; left out: {', '.join(left[:10])}" if left else ""


def id_of(fields: dict[str, dict[str, Any]], rows: Sequence[dict[str, Any]]) -> str | None:
    """The field that tells rows apart: one that is called so, else the first that differs in all of them; None where
    there is none, or a single row.
    """
    for name in sorted(fields, key=lambda name: _IDS.index(name) if name in _IDS else len(_IDS)):
        values = [value for row in rows for key, value in row.items() if field_name(key) == name]
        plain = {str(value) for value in values if isinstance(value, int | str) and len(str(value)) <= 200}
        if len(plain) == len(rows) == len(values) > 1:
            return name
    return None


def _rule(path: str, values: list[Any], language: str) -> dict[str, Any] | None:
    """The rule that reads such values; None for lists of lists, and objects that are known by nothing."""
    first = values[0]
    if isinstance(first, dict):
        if is_price(first, language):
            return {"json": path, "type": "price"}
        known_by = next((key for key in _KNOWN_BY if isinstance(first.get(key), str | int | float)), None)
        if known_by is None:
            return None
        called = [value[known_by] for value in values if isinstance(value, dict) and value.get(known_by)]
        return {"json": f"{path}.{identifier(known_by)}", **type_of(called, language)}
    if not isinstance(first, list):
        several = {"process": ["split"], "many": True} if path == "keywords" else {}  # as schema.org has them
        return {"json": path, **(several or type_of(values, language))}
    if not isinstance(first[0], dict):
        return None if isinstance(first[0], list) else {"json": path, "many": True}
    inner = _rule("", [first[0]], language)
    if inner is None or inner.get("type") == "price":
        return inner and {"json": f"{path}[0]", "type": "price"}
    return {"json": f"{path}[]{inner['json']}", "many": True}


def type_of(values: Sequence[Any], language: str) -> dict[str, str]:
    """The `type` of a rule for such values; empty where they stay as they are."""
    texts = [value.strip() for value in values if isinstance(value, str)]
    if not texts or len(texts) < len(values):
        return {}
    kinds = list(_TYPES) if len(texts) > 2 else ["date", "datetime", "url"]  # a few digits may be a code
    if kind := next((kind for kind in kinds if all(map(_TYPES[kind].fullmatch, texts))), None):
        return {"type": kind}
    if all(is_price(text, language) for text in texts):
        return {"type": "price"}
    if all(re.search(r"\d{4}", text) and _reads(to_date, text, language) for text in texts):
        # 05/12 is read by the language, unless another one, such as 22/01, tells the order of all
        orders = [order for order in _ORDERS if all(_is_written(text, order, language) for text in texts)]
        return {"type": "date", **({"format": orders[0]} if len(orders) == 1 else {})}
    return {"type": "html"} if any(map(_MARKUP.search, texts)) else {}


def _is_written(text: str, order: str, language: str) -> bool:
    try:
        return bool(read_date(text, language, order))
    except ValueError:
        return False


def is_price(value: Any, language: str) -> bool:
    """Whether a short text, or an object, is an amount with its currency."""
    if isinstance(value, str) and not any(map(str.isdigit, value)):
        return False
    return (_reads(to_price, value, language) or {}).get("currency") is not None


def _reads(convert: Callable[..., Any], value: Any, language: str) -> Any:
    """What a short value is read as; None where it is not."""
    try:
        return convert(value, language) if isinstance(value, dict) or len(value) <= _SHORT else None
    except ValueError:
        return None
