"""Tells by tags, classes, styles and labels which price of a page is struck out, and which is called an older one."""

import re
from functools import lru_cache
from typing import Any

from almanac.spiders.reading.currencies import currency_beside
from almanac.spiders.reading.own_sheets import styled_by_sheet

_STRUCK_TAGS = frozenset({"del", "s", "strike"})
_STRUCK_STYLE = re.compile(r"text-decoration(?:-line)?\s*:[^;]*line-through", re.IGNORECASE)
_STRUCK_CLASS = re.compile(
    r"(?:^|[\s:_-])(?:line-through|strike-?through|stri?ked?|striked|crossed(?:-?out)?|text-decoration-line-throug"
    r"h|barred|barre|durchgestrichen)(?=$|[\s_-])"
)
_PRICE_WORD = r"(?:price|prices|prix|preis|precio|preco|prezzo|prijs|gia|cena|amount|money)"
_OLD_WORD = (
    r"(?:old|was|former|previous|prev|compare|compare-?at|original|orig|initial|rrp|msrp|uvp|strike|ancien|barre|a"
    r"nterior|vecchio|stara)"
)
_OLD_CLASS = re.compile(
    rf"(?:^|[\s_])(?:[a-z0-9]+[-_]+)*(?:(?:{_OLD_WORD}|list|alter?)[-_]*{_PRICE_WORD}|{_PRICE_WORD}[-_]+(?:item[-_"
    rf"]+)?(?:is[-_]+)?(?:{_OLD_WORD}|cu|goc|before))(?![a-z])"
    r"|(?:^|\s)(?:was|rrp|msrp|uvp|compare-at)(?=\s|$)",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"(?:^|[\s_])(?:sr-only|visually-?hidden|screen-?reader(?:-?text)?|a11y|a-offscreen|u-hiddenvisually|accessibi"
    r"lity)(?![a-z])",
    re.IGNORECASE,
)
# Labels of a price that no longer holds, as shops of these languages write them: en fr de es it pt nl sv pl cs ru vi zh
# ja ko he ar tr.
OLD_LABEL = re.compile(
    r"\W*(?:was|(?:old|original|former|previous|list|strike-?through) price|original price was|rrp|msrp|before"
    r"|(?:le )?(?:ancien prix|prix (?:barré|initial|d[’']origine|précédent|conseillé))(?: était)?|au lieu de|avant"
    r"|(?:der )?(?:alter|ursprünglicher?|früherer|bisheriger|vorheriger|durchgestrichener)\s*preis(?: "
    r"war)?|statt|uvp|vorher"
    r"|(?:el )?(?:precio (?:original|anterior|antiguo|tachado))(?: era)?|antes|(?:il )?prezzo "
    r"(?:originale|precedente|pieno|barrato)(?: era)?|anziché|prima"
    r"|(?:o )?preço (?:original|anterior|antigo)(?: era)?|de:"
    r"|oude prijs|oorspronkelijke prijs(?: was)?|van|ordinarie pris|tidigare pris|stara cena|pierwotna "
    r"cena|původní cena"
    r"|старая цена|прежняя цена|первоначальная цена(?: составляла)?|giá (?:gốc|cũ|niêm yết|trước đây)(?: là)?"
    r"|原价|原價|原价为|定価|元の価格|通常価格|参考価格|정가|원래 가격"
    r"|מחיר (?:קודם|מקורי|רגיל)|السعر (?:القديم|الأصلي|السابق)|eski fiyat|orijinal fiyat)\W*",
    re.IGNORECASE,
)
REGULAR_LABEL = re.compile(
    r"\W*(?:regular price|list price|prix (?:régulier|normal|habituel)|normaler preis|regulärer preis|precio "
    r"(?:habitual|regular|normal)"
    r"|prezzo di listino|preço normal|giá thường|通常価格|原价|обычная цена|sale price|now)\W*",
    re.IGNORECASE,
)
STRUCK_STYLE = "text-decoration: line-through"
NUMBER = re.compile(r"\d+(?:[.,\s'’]\d+)*")
MAX_FIGURE = 80  # characters of a struck text that is a price and no passage
_MAX_LEVELS = 5  # elements around a number that are looked at
_MAX_LETTERS = 4  # of a struck number without a currency: what is longer is a text with a number in it

# `is_struck` and `has_old_class` for text and attribute nodes, which have no reference to their element.
CURRENT_XPATH = (
    f"[not(ancestor-or-self::*[position() <= {_MAX_LEVELS}][self::del or self::s or self::strike or "
    f"re:test(string(@style), '{_STRUCK_STYLE.pattern}', 'i')"
    f" or re:test(string(@class), '{_STRUCK_CLASS.pattern}') or re:test(string(@class), '{_OLD_CLASS.pattern}', 'i')])]"
)


def is_struck(element: Any) -> bool:
    """Whether the element's text has a line through it."""
    if element.tag in _STRUCK_TAGS or element.get("data-a-strike") == "true":
        return True
    style = element.get("style")
    return "struck" in _said_by(element) or (style is not None and _STRUCK_STYLE.search(style) is not None)


def has_old_class(element: Any) -> bool:
    """Whether a class calls the element an older price."""
    return "old" in _said_by(element)


def is_spoken(element: Any) -> bool:
    """Whether the element is for screen readers alone."""
    return "spoken" in _said_by(element)


def _said_by(element: Any) -> frozenset[str]:
    names = element.get("class")
    return said_by_class(names) if names else frozenset()


@lru_cache(maxsize=4096)
def said_by_class(names: str) -> frozenset[str]:
    """What the value of a `class` says of a price: `struck`, `old`, `spoken`."""
    patterns = {"struck": _STRUCK_CLASS, "old": _OLD_CLASS, "spoken": _SPOKEN}
    return frozenset(kind for kind, pattern in patterns.items() if pattern.search(names[:500]))


def is_in_struck_price(element: Any) -> bool:
    """Whether the element is, or is in, a struck price or what a class calls an older price."""
    around = element
    by_sheet = struck_by_sheet(element.getroottree().getroot())
    for _ in range(_MAX_LEVELS):
        if around is None:
            return False
        if is_struck(around) or has_old_class(around) or around in by_sheet:
            return is_price(text_in(around))
        around = around.getparent()
    return False


def struck_by_sheet(root: Any) -> frozenset[Any]:
    """The elements that the page's own style sheets strike out."""
    return styled_by_sheet(root, _STRUCK_STYLE, "line-through")


def text_in(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def is_price(text: str) -> bool:
    """Whether a text is an amount: a number beside a currency, or a number with few letters."""
    if len(text) > MAX_FIGURE:
        return False
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return False
    if any(currency_beside(text[: number.start()], text[number.end() :]) for number in numbers):
        return True
    rest = REGULAR_LABEL.sub("", OLD_LABEL.sub("", text, count=1), count=1)
    return sum(map(str.isalpha, rest)) <= _MAX_LETTERS


def begins_with_price(text: str) -> bool:
    """Whether a short text, or the beginning of a longer one, has an amount with a currency, or is a number."""
    text = text[: 2 * MAX_FIGURE]
    numbers = list(NUMBER.finditer(text))
    return any(currency_beside(text[: number.start()], text[number.end() :]) for number in numbers) or (
        bool(numbers) and numbers[0][0] == text.strip()
    )
