"""Finds the amounts in a text, rounded ones (60K, 1,5 Mio.) included, and says which are the ends of a range."""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, reduce

from babel.core import get_global
from babel.numbers import get_currency_name, get_currency_precision, get_territory_currencies

from almanac.core.locales import locale_of
from almanac.spiders.mapping.notations import decimal_mark
from almanac.spiders.mapping.numbers import NUMBER, RANGE, to_decimal
from almanac.spiders.mapping.rounded import find_multiplier
from almanac.spiders.reading.currencies import currency_beside

_BETWEEN = re.compile(r"\b(?:between|entre|zwischen|tra|fra|tussen|mellan|między|giữa|между|בין)\s*$", re.IGNORECASE)
_AND = re.compile(r"\s+(?:and|et|und|e|y|en|och|i|và|и|ל-?|ו-?)\s*", re.IGNORECASE)
_PER_CENT = re.compile(r"\s?(?:[%٪％‰]|percent|per cent|prozent|pour cent|phần trăm)", re.IGNORECASE)
_OF_FUEL = re.compile(r"\s?/\s?(?:l|lit\w+|gal|gallon|kwh|kw/h)\b", re.IGNORECASE)
_PER_CENT_BEFORE = re.compile(r"[%٪]\s?-?$")
# Codes of signs and words whose currency has no hundredths, so that three digits behind a mark are never decimals.
_CODES = {
    **dict.fromkeys(("₫", "đ", "VNĐ", "vnđ", "đồng", "Đồng"), "VND"),
    **dict.fromkeys(("¥", "￥", "円"), "JPY"),
    **dict.fromkeys(("₩", "￦", "원"), "KRW"),
}


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount with the text around it.

    Attributes:
        number: match of NUMBER.
        before: the text before it, from the amount before on.
        after: the text behind it, without its multiplier, up to the next number.
        power: of ten, by which it is multiplied; 0 if it is written in full.
        multiplier: how that is written.
        doubtful: a multiplier of which it is not clear what it means; empty if there is none.
    """

    number: re.Match[str]
    before: str
    after: str
    power: int
    multiplier: str
    doubtful: str

    @property
    def between(self) -> str:
        """The text behind it without currencies, which may stand between the ends of a range: $60 – $121."""
        signs = (currency_beside("", self.after), currency_beside(self.after, ""))
        return reduce(lambda text, sign: text.replace(sign or "", "", 1), signs, self.after)


def find_amounts(plain: str, language: str) -> list[Amount]:
    """The amounts of a text, as `plain_digits` gives it, in order."""
    amounts: list[Amount] = []
    numbers = list(NUMBER.finditer(plain))
    for row, number in enumerate(numbers):
        behind = plain[number.end() :]
        others = plain[numbers[row + 1].start() :] if row + 1 < len(numbers) else ""
        what = find_multiplier(behind, language, of_price=True)
        multiplier, after = behind.removesuffix(what.rest).strip(), what.rest.removesuffix(others)
        before = amounts[-1].after if amounts else plain[: number.start()]
        power, doubtful = what.power, what.doubtful
        is_between = re.fullmatch(r"\s\S+\s?", after) and currency_beside("", after) and not currency_beside(before, "")
        if others and is_between:
            is_letter, is_apart = len(multiplier) == 1 and multiplier.isascii(), after[-1].isspace()
            if is_letter and not (power and is_apart):  # 2 l €2.50, 5 m £10: the currency of the next one
                power, doubtful, multiplier, after = 0, "", "", behind.removesuffix(others)
            elif power and (not is_apart or (is_letter and behind[0] not in "kK")):  # 5 million £10, 5 m € 10
                doubtful = multiplier
        amounts.append(Amount(number, before, after, power, multiplier, doubtful))
    return amounts


def read_amount(amount: Amount, currency: str | None, language: str, sign: str | None) -> Decimal:
    """The value of an amount, exactly.

    Three digits behind the mark that parts thousands are thousands, and so they are where the currency has no
    hundredths. Raises ValueError behind the decimal mark, as the shops of a country may part thousands otherwise than
    CLDR says (R2,499 in en-ZA, $150,000 in es-CO), and for rounded amounts where either mark may be meant: €1,299M.
    Beside the currency of the language's country, rounded amounts and prices of fuel do have three decimals: $1.299M,
    1,799 €/l; and so does a bare 129.000, as data are written, where the language has that mark.
    """
    mark = decimal_mark(language)
    decimal, whole = to_decimal(amount.number, mark, sign), to_decimal(amount.number, "", sign)
    code = _CODES.get(currency or "", currency or "")
    places = get_currency_precision(code) if code.isascii() and code.isalpha() and code.isupper() else 2
    is_home = currency is not None and not _at_home(language).isdisjoint((currency, code))
    is_data = mark == "." and not (amount.before.strip() or amount.after.strip())
    if not amount.power and places == 0:
        decimal = whole
    elif is_data and not amount.power:
        pass
    elif not is_home or not (amount.power or _OF_FUEL.match(amount.between)):
        other = to_decimal(amount.number, "," if mark == "." else ".", sign)
        if (decimal != whole and places == 2) or (amount.power and decimal != other):
            raise ValueError(
                f"does {amount.number[0]} have thousands, or three decimals? For thousands, `xpath: translate(…, "
                f"'{mark}', '')` takes the mark out; decimals are read by `type: number`"
            )
    return Decimal(f"{decimal:f}e{amount.power}")


@lru_cache(maxsize=256)
def _at_home(language: str) -> frozenset[str]:
    """Codes, signs and names of the currencies of the country where a language is likely spoken."""
    locale = locale_of(language)
    if locale is None:
        return frozenset()
    country = locale.territory or get_global("likely_subtags").get(locale.language, "").rpartition("_")[2]
    return frozenset(
        name
        for code in get_territory_currencies(country)
        for name in (
            code,
            locale.currency_symbols.get(code),
            *(get_currency_name(code, n, locale) for n in (None, 1, 9)),
        )
        if name
    )


def is_share(before: str, after: str) -> bool:
    """Whether a number with this text around it is a percentage."""
    return _PER_CENT.match(after) is not None or _PER_CENT_BEFORE.search(before) is not None


def is_range(before: str, between: str) -> bool:
    """Whether two numbers are the ends of one range: 10–20, 10 to 20, between 10 and 20."""
    return RANGE.fullmatch(between) is not None or (
        _BETWEEN.search(before) is not None and _AND.fullmatch(between) is not None
    )
