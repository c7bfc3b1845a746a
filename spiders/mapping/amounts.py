"""Finds the amounts in a text, rounded ones (60K, 1億2,000万) included, and says which of them are the ends of a
range.
"""

import re
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

from almanac.spiders.mapping.currencies import currency_mark
from almanac.spiders.mapping.locales import decimal_mark
from almanac.spiders.mapping.multipliers import AmbiguousMultiplier, split_multiplier
from almanac.spiders.mapping.numbers import NUMBER, RANGE, to_decimal
from almanac.spiders.reading.currencies import ANY_CURRENCY, currency_beside

_BETWEEN = re.compile(r"\b(?:between|entre|zwischen|tra|fra|tussen|mellan|między|giữa|между|בין)\s*$", re.IGNORECASE)
_AND = re.compile(r"\s+(?:and|et|und|e|y|en|och|i|và|и|ל-?|ו-?)\s*", re.IGNORECASE)
_PER_CENT = re.compile(r"\s?(?:[%٪％‰]|percent|per cent|prozent|pour cent|phần trăm)", re.IGNORECASE)
_PER_CENT_BEFORE = re.compile(r"[%٪]\s?-?$")
# k€ 12, TEUR 12
_MULTIPLIED_CURRENCY = re.compile(
    r"(?<!\w)(k|m|mio|md|mrd|mds|bn|t)\.?(€|EUR|US\$|\$|USD|£|GBP|CHF)\s?$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount with the text around it.

    Attributes:
        number: match of NUMBER, the first if several numbers make one amount (1億2000万, 1 crore 50 lakh).
        power: of ten, by which that number is multiplied; 0 if it is written in full.
        added: what the other numbers add.
        before: the text before it, from the amount before on.
        after: the text behind it, without its multiplier, up to the next number.
        takes_more: whether its multiplier may be followed by a smaller one; a single letter may not.
        unclear: a multiplier that may mean several things; empty if there is none.
    """

    number: re.Match[str]
    power: int
    added: Decimal
    before: str
    after: str
    takes_more: bool
    unclear: str


def find_amounts(plain: str, language: str) -> list[Amount]:
    """The amounts of a text, as `plain_digits` gives it, in order."""
    numbers = list(NUMBER.finditer(plain))
    ends = [0, *(number.end() for number in numbers)]
    starts = [*(number.start() for number in numbers), len(plain)]
    gaps = [plain[end:start] for end, start in zip(ends, starts, strict=True)]
    found: list[Amount] = []
    for row, number in enumerate(numbers):
        before, after = gaps[row], gaps[row + 1]
        power, rest, unclear = _multiplier(before, after, language, is_glued=row + 1 < len(numbers))
        if found and (part := _added(found[-1], number, power, rest, language)) is not None:
            found[-1] = replace(found[-1], added=_sum(found[-1].added, part), after=rest)
            continue
        if not power and (match := _MULTIPLIED_CURRENCY.search(before)):
            power, _, unclear = _multiplier("", match[1] + match[2], language, is_glued=False)
            before = f"{before[: match.start()]}{match[2]}"
        elif found:
            before = found[-1].after
        is_word = len(after.removesuffix(rest).strip(" .")) > 1 or not after[:1].isascii()
        found.append(Amount(number, power, Decimal(0), before, rest, power > 0 and is_word, unclear))
    return found


def _multiplier(before: str, after: str, language: str, *, is_glued: bool) -> tuple[int, str, str]:
    """(power of ten, the text behind the multiplier, the multiplier where it is unclear)."""
    if currency_beside("", after):
        return 0, after, ""
    try:
        return *split_multiplier(before, after, language, ANY_CURRENCY, is_glued=is_glued), ""
    except AmbiguousMultiplier as error:
        return 0, after, str(error)


def _added(last: Amount, number: re.Match[str], power: int, rest: str, language: str) -> Decimal | None:
    """What a number adds to the amount before it, as the 2000万 of 1億2000万 and the 50 lakh of 1 crore 50 lakh do;
    None if it is another amount.
    """
    if (
        not last.takes_more
        or last.after.strip()
        or number["sign"]
        or power >= last.power
        or not (power or currency_beside("", rest))
    ):
        return None
    value = _shifted(to_decimal(number, decimal_mark(language), None), power)
    return value if value < (last.added or _shifted(Decimal(1), last.power)) else None


def power_of(amounts: list[Amount], row: int) -> int:
    """The power of ten of an amount; that of a range's upper end where it belongs to both: $60–121K.

    Raises ValueError where a multiplier may mean several things, and for $60–$121K, which may mean $60 too.
    """
    one = amounts[row]
    upper = amounts[row + 1] if row + 1 < len(amounts) else None
    symbol = currency_beside(one.after, "")
    between = one.after.rstrip().removesuffix(symbol) if symbol else one.after
    if upper is None or one.power or not is_range(one.before, between):
        upper = None
    if unclear := one.unclear or (upper.unclear if upper else ""):
        raise ValueError(f"{unclear} may mean several things")
    if (
        upper is None
        or not upper.power
        or currency_beside("", one.after)
        or to_decimal(one.number, ".", None) > to_decimal(upper.number, ".", None)
    ):
        return one.power
    if symbol:
        raise ValueError("is the first amount rounded, too?")
    return upper.power


def in_full(one: Amount, power: int, sign: str | None, currency: str | None, language: str) -> Decimal:
    """The value of a rounded amount, exactly. It has decimals in any currency: 1,234 tỷ đồng. Raises ValueError where
    its mark may be either (€1.299M).
    """
    mark = decimal_mark(language)
    amount = to_decimal(one.number, mark, sign)
    if (
        currency is not None
        and mark != currency_mark(currency)
        and amount != to_decimal(one.number, currency_mark(currency), sign)
    ):
        raise ValueError(
            f"{one.number[0]} is another number in the notation of the currency than in that of the language"
        )
    return _sum(_shifted(amount, power), one.added)


def _shifted(amount: Decimal, power: int) -> Decimal:
    """The amount times ten to the power, exactly: a product would be rounded to 28 digits."""
    sign, digits, exponent = amount.as_tuple()
    return Decimal((sign, digits, int(exponent) + power))


def _sum(amount: Decimal, added: Decimal) -> Decimal:
    if not added:
        return amount
    with localcontext() as context:
        context.prec = 2000
        return amount - added if amount < 0 else amount + added


def is_share(before: str, after: str) -> bool:
    """Whether a number with this text around it is a percentage."""
    return _PER_CENT.match(after) is not None or _PER_CENT_BEFORE.search(before) is not None


def is_range(before: str, between: str) -> bool:
    """Whether two numbers are the ends of one range: 10–20, 10 to 20, between 10 and 20."""
    return RANGE.fullmatch(between) is not None or (
        _BETWEEN.search(before) is not None and _AND.fullmatch(between) is not None
    )
