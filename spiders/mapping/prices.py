"""Reads prices: an amount beside a currency, in any notation that shops use."""

import re
from functools import lru_cache

from babel.numbers import get_currency_precision
from price_parser._currencies import CURRENCY_CODES, CURRENCY_NATIONAL_SYMBOLS, CURRENCY_SYMBOLS
from price_parser.parser import SAFE_CURRENCY_SYMBOLS

from almanac.spiders.mapping.locales import decimal_mark
from almanac.spiders.mapping.numbers import NUMBER, UNSEEN, plain_digits, shown, to_decimal

_MORE_SYMBOLS = {"VNĐ", "vnđ", 'ש"ח', "ש״ח", "元", "NIS", "Rs.", "đồng", "Đồng", "F CFA", "Fcfa"}
_NO_CURRENCIES = {"ALL", "TOP", "CUP", "-"}  # English words, and a dash used as a placeholder
_SHORT = {"R", "kr", "Kr", "zł", "Zł", "Kč", "Rs", "RM", "Ft", "TL", "Tk", "kn", "SR", "KD", "JD", "QR", "Rp", "Bs", "Kz", "đ", "лв", "р."}


def _known_currencies() -> frozenset[str]:
    """price-parser's symbols and codes, without rare ones of one or two plain letters, which are also units (12 L, 5 m)."""
    known = {*CURRENCY_SYMBOLS, *SAFE_CURRENCY_SYMBOLS, *CURRENCY_CODES, *CURRENCY_NATIONAL_SYMBOLS}
    symbols = {s for symbol in known if (s := symbol.translate(UNSEEN).strip()) and (len(s) > 2 or not (s.isascii() and s.isalpha()))}
    return frozenset((symbols | {s.rstrip(".") for s in symbols if not s.isascii()} | _MORE_SYMBOLS | _SHORT) - _NO_CURRENCIES)


_CURRENCIES = _known_currencies()
_LONGEST = max(map(len, _CURRENCIES))
_RANGE = re.compile(r"\s*[-–—~～]\s*|\s+(?:to|and|à|bis|a|hasta|até|đến|до|עד)\s+", re.IGNORECASE)
_BETWEEN = re.compile(r"\b(?:between|entre|zwischen|tra|fra|tussen|mellan|między|giữa|между|בין)\s*$", re.IGNORECASE)
_AND = re.compile(r"\s+(?:and|et|und|e|y|en|och|i|và|и|ל-?|ו-?)\s*", re.IGNORECASE)
_PER_CENT = re.compile(r"\s?(?:[%٪％‰]|percent|per cent|prozent|pour cent|phần trăm)", re.IGNORECASE)
_PER_CENT_BEFORE = re.compile(r"[%٪]\s?-?$")
# A currency may follow directly: 12k€, 500kđ. Scripts without spaces need no word boundary.
_ROUNDED = re.compile(
    r"\s?(?:[百千仟万萬億亿백천만억]|พัน|หมื่น|แสน|ล้าน|(?i:k|m|mn|mln|mio|bn?|mrd|millions?|billions?|thousand|milliards?|millionen|milliarden|tsd|mille|mil|millones"
    r"|milhões|tr|triệu|nghìn|ngàn|tỷ|tỉ|тыс|млн|млрд|lakh|crore|אלף|מיליון|ألف|مليون)"
    rf"(?=$|[\W\d_]|(?:{'|'.join(map(re.escape, sorted(_CURRENCIES, key=len, reverse=True)))})(?![^\W\d_])))"
)
_HUNDREDTHS = re.compile(r"\s?(¢|p|pence|cts?|cents?|centimes?)(?!\w)", re.IGNORECASE)
_FREE = frozenset({"free", "gratis", "gratuit", "kostenlos", "gratuito", "miễn phí", "бесплатно", "חינם", "無料", "免费"})

# Currencies of countries that write 1.299 for a thousand and more; the others write 1,299.
_COMMA_CURRENCIES = frozenset(
    {"€", "EUR", "euro", "eur", "kr", "kr.", "SEK", "NOK", "DKK", "ISK", "zł", "PLN", "Kč", "CZK", "Ft", "HUF", "lei", "RON", "лв", "лв.", "BGN", "₽", "руб"}
    | {"руб.", "RUB", "₴", "грн", "грн.", "UAH", "₺", "TL", "TRY", "R$", "BRL", "₫", "đ", "VND", "VNĐ", "Rp", "IDR", "ARS", "CLP", "COP", "дин.", "RSD", "kn"}
)
# Codes of symbols whose smallest unit is not a hundredth, so that three digits after a mark are never decimals, or always.
_CODES = {
    **dict.fromkeys(("₫", "đ", "VNĐ", "vnđ", "đồng", "Đồng"), "VND"),
    **dict.fromkeys(("¥", "￥", "円"), "JPY"),
    **dict.fromkeys(("₩", "원"), "KRW"),
    **dict.fromkeys(("CFA", "FCFA", "F CFA", "Fcfa"), "XOF"),
    "Rp": "IDR",
}


@lru_cache(maxsize=4096)
def read_price(text: str, language: str) -> tuple[str, str | None]:
    """Returns (amount as a decimal string, currency as written or None). Raises ValueError if no price can be read.

    The amount is the number beside a currency, else the only number; of a range, of a "from" price and of several prices, the first; "free" is 0.
    Percentages are not prices. Rounded amounts ("12k", "1.5 million") and several numbers without a currency are refused.
    """
    plain = plain_digits(text)
    if plain.casefold() in _FREE:
        return "0", None
    numbers = list(NUMBER.finditer(plain))
    if not numbers:
        raise ValueError(f"no price in {shown(text)}")
    gaps = [plain[a:b] for a, b in zip([0, *(n.end() for n in numbers)], [*(n.start() for n in numbers), len(plain)], strict=True)]
    amounts = {i: currency_beside(gaps[i], gaps[i + 1]) for i in range(len(numbers)) if not _is_share(gaps[i], gaps[i + 1])}
    if not amounts:
        raise ValueError(f"no price in {shown(text)}: a share is none")
    chosen = next((i for i, currency in amounts.items() if currency), min(amounts))
    currency = amounts[chosen]
    while chosen and _is_range(gaps[chosen - 1], gaps[chosen]):
        chosen -= 1
    if currency is None and len(numbers) > 1 and not (len(numbers) == 2 and _is_range(gaps[0], gaps[1])):
        raise ValueError(f"several numbers and no currency in {shown(text)}")
    if _ROUNDED.match(gaps[chosen + 1]) and not currency_beside("", gaps[chosen + 1]):
        raise ValueError(f"a rounded price: {shown(text)}")
    is_negative = _is_negative(numbers[chosen], gaps[chosen], gaps[chosen + 1], is_first=chosen == 0, is_only=len(numbers) == 1)
    amount = to_decimal(numbers[chosen], _price_mark(currency, language), "-" if is_negative else None)
    if currency is None and (hundredths := _HUNDREDTHS.match(gaps[chosen + 1])):
        return format(amount, "f"), hundredths[1]
    return format(amount, "f") + _decimals_behind(currency, numbers[chosen:], gaps[chosen:]), currency


def _is_share(before: str, after: str) -> bool:
    return _PER_CENT.match(after) is not None or _PER_CENT_BEFORE.search(before) is not None


def _is_range(before: str, between: str) -> bool:
    """Whether two numbers are the ends of one range: 10–20, 10 to 20, between 10 and 20."""
    return _RANGE.fullmatch(between) is not None or (_BETWEEN.search(before) is not None and _AND.fullmatch(between) is not None)


def _decimals_behind(currency: str | None, numbers: list[re.Match[str]], gaps: list[str]) -> str:
    """The `.50` of 12€50, where the currency stands for the decimal mark; empty otherwise.

    With spaces, only where nothing but cents follows: `5 € 20 pieces` has none.
    """
    if len(numbers) < 2 or gaps[1].strip() != currency or not numbers[0]["digits"][-3:].isdigit() or not re.fullmatch(r"\d\d", numbers[1][0]):
        return ""
    after = gaps[2]
    is_last = not after.strip(" .*)]") or _HUNDREDTHS.match(after) is not None
    is_glued = gaps[1] == currency and not after[:1].isalpha() and not _is_share("", after)
    return f".{numbers[1][0]}" if (is_last or is_glued) and not currency_beside("", after) and not currency_beside(gaps[0], "") else ""


def currency_beside(before: str, after: str) -> str | None:
    """The currency at the end of the text before a number, or at the beginning of the text after it; None if there is none."""
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
    """Whether two characters are inside one word. Scripts without upper and lower case may write words without spaces."""
    return left.isalpha() and right.isalpha() and left.lower() != left.upper() and right.lower() != right.upper()


def _is_negative(number: re.Match[str], before: str, after: str, *, is_first: bool, is_only: bool) -> bool:
    """Whether the amount is negative: -5, -£5, £-5, - 5 at the beginning, 5.00- at the end, (5.00). A dash after other text does not count: "now - £5"."""
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
    """The mark taken as decimal before three digits: the language's; empty if the currency's differs, or if it has neither two nor three decimals."""
    mark = decimal_mark(language)
    if currency is None:
        return mark
    places = _places(_CODES.get(currency, currency))
    if places != 2:
        return mark if places == 3 else ""
    return mark if mark == ("," if currency in _COMMA_CURRENCIES else ".") else ""


def _places(code: str) -> int:
    """Decimal places of a currency; 2 if the code is not known."""
    return get_currency_precision(code) if code.isalpha() and code.isupper() else 2
