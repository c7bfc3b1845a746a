"""Prices: an amount beside a currency, however a shop writes them."""

import re
from functools import lru_cache

from babel.numbers import get_currency_precision
from price_parser._currencies import CURRENCY_CODES, CURRENCY_NATIONAL_SYMBOLS, CURRENCY_SYMBOLS
from price_parser.parser import SAFE_CURRENCY_SYMBOLS

from spiders.mapping.locales import decimal_mark
from spiders.mapping.numbers import INVISIBLE, NUMBER, plain_digits, shown, to_decimal

_MORE_SYMBOLS = {"VNĐ", "vnđ", 'ש"ח', "ש״ח", "元", "NIS", "Rs."}
_NO_CURRENCIES = {"ALL", "TOP", "CUP", "-"}  # words of English, and a stand-in
_SHORT = {"R", "kr", "Kr", "zł", "Zł", "Kč", "Rs", "RM", "Ft", "TL", "Tk", "kn", "SR", "KD", "JD", "QR", "Rp", "Bs", "Kz", "đ", "лв", "р."}


def _known_currencies() -> frozenset[str]:
    """price-parser's symbols and codes. Of those with one or two plain letters, which are units as well (12 L, 5 m), only common ones."""
    known = {*CURRENCY_SYMBOLS, *SAFE_CURRENCY_SYMBOLS, *CURRENCY_CODES, *CURRENCY_NATIONAL_SYMBOLS}
    symbols = {s for symbol in known if (s := symbol.translate(INVISIBLE).strip()) and (len(s) > 2 or not (s.isascii() and s.isalpha()))}
    return frozenset((symbols | {s.rstrip(".") for s in symbols if not s.isascii()} | _MORE_SYMBOLS | _SHORT) - _NO_CURRENCIES)


_CURRENCIES = _known_currencies()
_LONGEST = max(map(len, _CURRENCIES))
_RANGE = re.compile(r"\s*[-–—~～]\s*|\s+(?:to|and|à|bis|a|hasta|até|đến|до|עד)\s+", re.IGNORECASE)
_ROUNDED = re.compile(
    r"\s?(?:k|m|mn|mln|mio|bn|million|millions|thousand|tr|triệu|nghìn|ngàn|tỷ|tỉ|тыс|млн|万|億|亿|만|억|lakh|crore)(?![^\W\d_])", re.IGNORECASE
)
_FREE = frozenset({"free", "gratis", "gratuit", "kostenlos", "gratuito", "miễn phí", "бесплатно", "חינם", "無料", "免费"})

# Currencies at home where 1.299 is more than a thousand; the others write 1,299 for it.
_COMMA_CURRENCIES = frozenset(
    {"€", "EUR", "euro", "eur", "kr", "kr.", "SEK", "NOK", "DKK", "ISK", "zł", "PLN", "Kč", "CZK", "Ft", "HUF", "lei", "RON", "лв", "лв.", "BGN", "₽", "руб"}
    | {"руб.", "RUB", "₴", "грн", "грн.", "UAH", "₺", "TL", "TRY", "R$", "BRL", "₫", "đ", "VND", "VNĐ", "Rp", "IDR", "ARS", "CLP", "COP", "дин.", "RSD", "kn"}
)
# Codes of signs whose smallest unit is not a hundredth: three digits after a mark are then never decimals, or always.
_CODES = {"₫": "VND", "đ": "VND", "VNĐ": "VND", "vnđ": "VND", "¥": "JPY", "￥": "JPY", "円": "JPY", "₩": "KRW", "원": "KRW", "Rp": "IDR"}


@lru_cache(maxsize=4096)
def read_price(text: str, language: str) -> tuple[str, str | None]:
    """Amount as a decimal string, and the currency as it stands there, if one does.

    The amount is the number beside a currency, else the only number; of a range, of a "from" price and of several prices, the first.
    An amount that is rounded ("12k", "1.5 million"), and several numbers without any currency, are refused.
    """
    plain = plain_digits(text)
    if plain.casefold() in _FREE:
        return "0", None
    numbers = list(NUMBER.finditer(plain))
    if not numbers:
        raise ValueError(f"no price in {shown(text)}")
    gaps = [plain[a:b] for a, b in zip([0, *(n.end() for n in numbers)], [*(n.start() for n in numbers), len(plain)], strict=True)]
    beside = [currency_beside(gaps[i], gaps[i + 1]) for i in range(len(numbers))]
    chosen = next((i for i, currency in enumerate(beside) if currency), 0)
    currency = beside[chosen]
    while chosen and _RANGE.fullmatch(gaps[chosen]):
        chosen -= 1
    if currency is None and len(numbers) > 1 and not (len(numbers) == 2 and _RANGE.fullmatch(gaps[1])):
        raise ValueError(f"several numbers and no currency in {shown(text)}")
    if _ROUNDED.match(gaps[chosen + 1]):
        raise ValueError(f"a rounded price: {shown(text)}")
    is_negative = _is_negative(numbers[chosen], gaps[chosen], gaps[chosen + 1], is_first=chosen == 0, is_only=len(numbers) == 1)
    amount = to_decimal(numbers[chosen], _price_mark(currency, language), "-" if is_negative else None)
    return format(amount, "f"), currency


def currency_beside(before: str, after: str) -> str | None:
    """The currency at the end of the text before a number, or at the beginning of the text after it."""
    head = before.rstrip("+-").rstrip()
    for length in range(min(_LONGEST, len(head)), 0, -1):
        if head[-length:] in _CURRENCIES and not _is_in_word(head[-length - 1 : -length], head[-length]):
            return head[-length:]
    tail = re.sub(r"^[.,][-–—]", "", after).lstrip()
    for length in range(min(_LONGEST, len(tail)), 0, -1):
        if tail[:length] in _CURRENCIES and not _is_in_word(tail[length - 1], tail[length : length + 1]):
            return tail[:length]
    return None


def _is_in_word(left: str, right: str) -> bool:
    """Whether no word ends between two characters. Scripts without upper and lower case may write words without spaces."""
    return left.isalpha() and right.isalpha() and left.lower() != left.upper() and right.lower() != right.upper()


def _is_negative(number: re.Match[str], before: str, after: str, *, is_first: bool, is_only: bool) -> bool:
    """-5, -£5, £-5, - 5 at the beginning, 5.00- at the end, (5.00). A dash after other text, as in "now - £5", is none."""
    if number["sign"] == "-":
        return True
    if before.rstrip().endswith("-") and (currency := currency_beside(before, "")):
        return before.rstrip().removesuffix("-").rstrip().endswith(currency)
    lead = before.rstrip()
    if currency := currency_beside(before, ""):
        lead = lead.removesuffix(currency)
    if re.search(r"(?:^|[\s(:])-$", lead) or (is_first and lead.strip() == "-"):
        return True
    if not is_only:
        return False
    return (after.strip() == "-" and re.search(r"[.,]\d\d$", number["digits"]) is not None) or (before.startswith("(") and after.endswith(")"))


def _price_mark(currency: str | None, language: str) -> str:
    """Which mark parts decimals where three digits follow it: only one that both the language and the currency write them with."""
    mark = decimal_mark(language)
    if currency is None:
        return mark
    places = _places(_CODES.get(currency, currency))
    if places != 2:
        return mark if places == 3 else ""
    return mark if mark == ("," if currency in _COMMA_CURRENCIES else ".") else ""


def _places(code: str) -> int:
    return get_currency_precision(code) if code.isalpha() and code.isupper() else 2
