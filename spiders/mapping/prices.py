"""Reads prices: an amount beside a currency, in any notation that shops use."""

import re
import unicodedata
from functools import lru_cache

from almanac.core.locales import primary
from almanac.spiders.mapping.amounts import Amount, find_amounts, is_range, is_share, read_amount
from almanac.spiders.mapping.notations import decimal_mark
from almanac.spiders.mapping.numbers import plain_digits, shown, to_decimal
from almanac.spiders.mapping.rounded import unclear
from almanac.spiders.reading.currencies import ANY_CURRENCY, currency_beside
from almanac.spiders.reading.raised import decimals_behind, lowered

_MULTIPLIED = re.compile(
    r"(?<![\w/])(?:[kmt]|(?:mio|md|mrd|mds|bn)\.?\s?)(?:€|EUR|US\$|\$|USD|£|GBP|CHF)\s?$|^(?:k|m|tr)$", re.IGNORECASE
)
_BEFORE_SIGN = re.compile(rf"\s?[^\W\d_]+[.\s](?=\s?[^\w\s]){ANY_CURRENCY.pattern}")  # 12 Dutzend €
_HUNDREDTHS = re.compile(r"\s?(¢|p|pence|cts?|cents?|centimes?)(?!\w)", re.IGNORECASE)
_HUNDREDTHS_BEHIND = re.compile(
    rf"{_HUNDREDTHS.pattern}|\s?(?:gr|grosz[ey]?|коп|копе\w+|к|bani?|öre|øre|hal|haléř\w*|fillér|стотинк\w)\.?(?!\w)",
    re.IGNORECASE,
)
# Where Japanese and Korean encodings have the backslash of ASCII, their fonts show ¥ and ₩: `\1,980` is a price, `C:\1`
# a path.
_BACKSLASH = re.compile(r"(?<![A-Za-z0-9:\\/])\\(?=\s?\d)")
_SHOWN = {"ja": "¥", "ko": "₩"}
_COLON = re.compile(r"(?<=\d):(?=\d\d\s?(?:kr|sek|nok|dkk|:-)(?!\w))", re.IGNORECASE)  # 1299:50 kr
# In the letters of str.casefold, which knows no final ς.
_FREE_OF_CHARGE = """
    free | free of charge | free entry | free admission | admission free | gratis | gratuit | gratuito | gratuita |
    entrée libre | entrée gratuite | entrada libre | entrada gratuita | entrada gratis | entrada livre |
    ingresso libero | ingresso gratuito | entrata libera | kostenlos | kostenfrei | eintritt frei |
    freier eintritt | gratis toegang | toegang gratis | za darmo | bezpłatnie | bezpłatny | bezpłatna | bezpłatne |
    darmowy | wstęp wolny | wstęp bezpłatny | zdarma | vstup zdarma | vstup volný | zadarmo | vstup voľný | ingyenes |
    ilmainen | vapaa pääsy | fri entré | gratis entré | gratis inngang | intrare liberă | ücretsiz | bedava |
    ücretsiz giriş | giriş ücretsiz | δωρεάν | ελεύθερη είσοδοσ | είσοδοσ ελεύθερη | бесплатно | безкоштовно |
    вход свободный | вход бесплатный | вхід вільний | חינם | כניסה חופשית | مجاني | مجانية | مجانا | الدخول مجاني |
    دخول مجاني | मुफ़्त | निःशुल्क | ฟรี | miễn phí | vào cửa miễn phí | vào cửa tự do | 無料 | 入場無料 | 免费 |
    入场免费 | 免费入场 | 免費 | 免費入場 | 무료 | 무료입장 | 무료 입장
"""
_FREE = frozenset(text.strip() for text in _FREE_OF_CHARGE.split("|"))
_LOWERED = re.compile(r"\d\s?[₀-₉]")
_RAISED = re.compile(r"(?P<whole>\d(?:[\d ,.']*\d)?)(?P<mark>\s?[.,])?\s?(?P<raised>[⁺⁻⁰¹²³⁴-⁹]+)")
_RAISED_BEHIND_CURRENCY = re.compile(r"(?<=\d)([^\w\s])[⁰¹²³⁴-⁹]{2}(?![⁰¹²³⁴-⁹])")  # 12€⁹⁹
_RAISED_CENTS = re.compile(rf"[⁰¹²³⁴-⁹]{{2}}(?={_HUNDREDTHS_BEHIND.pattern})", re.IGNORECASE)
_PARTED_MARK = re.compile(r"(?<=\d)\s([.,])\s(?=\d\d(?!\d))")  # 12 . 99: the mark is for screen readers
_HAS_DECIMALS = re.compile(r"[.,]\d{1,2}$")
_SETTLES = "`pattern` takes a part of the text, and `xpath` puts parts of the element together: concat(…, '.', …)"
_TANWIN = "\u064b"  # مجانًا is written مجاناً and مجانا, too


@lru_cache(maxsize=4096)
def read_price(text: str, language: str, currency: str | None = None) -> tuple[str, str | None]:
    """Returns (amount as a decimal string, currency as written or None). Raises ValueError if no price can be read.

    The amount is the number beside a currency, else the only number; of a range, of a "from" price and of several
    prices, the first; "free" is 0. A rounded amount is written in full where CLDR has its word for the language: $60K
    is 60000, 1,2 Mio. € 1200000, 5 triệu đồng 5000000, 3万円 30000. Percentages are not prices. Refused are what may
    multiply an amount in a way that is not clear, rounded amounts without a currency ("12k" of what?), several numbers
    without a currency, an older price beside a lower one (`$20 $15`), three digits behind a mark that may part
    thousands or decimals, and what may be cents or something else: `12 99 €`, raised digits without a currency.
    `currency` is the one that is named elsewhere, such as in a column of its own.
    """
    plain = plain_digits(unicodedata.normalize("NFC", text))
    if plain.casefold().replace(_TANWIN, "").strip(" .!！¡。()") in _FREE:
        return "0", None
    plain = _COLON.sub(",", plain)
    plain, raised = _with_cents(_PARTED_MARK.sub(r"\1", plain), text)
    if shown_as := _SHOWN.get(primary(language)):
        plain = _BACKSLASH.sub(shown_as, plain)
    amounts = find_amounts(plain, language)
    if not amounts:
        raise ValueError(f"no price in {shown(text)}")
    named = {
        row: currency_beside(amount.before, amount.after)
        for row, amount in enumerate(amounts)
        if not is_share(amount.before, amount.after)
    }
    if not named:
        raise ValueError(f"no price in {shown(text)}: a share is none")
    chosen = next((row for row, own_currency in named.items() if own_currency), min(named))
    own_currency = named[chosen]
    while chosen and is_range(amounts[chosen - 1].before, amounts[chosen - 1].after):
        chosen -= 1
    amount = amounts[chosen]
    if raised and (own_currency or currency) is None:
        raise ValueError(f"{raised} without a currency in {shown(text)}: cents, or a note? {_SETTLES}")
    _check_parted(amounts, chosen, text)
    _check_multiplied(amounts, chosen, own_currency, text)
    _check_reduced(amounts[chosen:], own_currency, language, text)
    if (
        own_currency is None
        and len(amounts) > 1
        and not (len(amounts) == 2 and is_range(amounts[0].before, amounts[0].after))
    ):
        raise ValueError(f"several numbers and no currency in {shown(text)}")
    if amount.power and own_currency is None and currency is None:
        raise ValueError(f"a rounded price: {shown(text)}; no currency beside it")
    is_negative = _is_negative(
        amount.number, amount.before, amount.after, is_first=chosen == 0, is_only=len(amounts) == 1
    )
    try:
        decimal = read_amount(amount, own_currency or currency, language, "-" if is_negative else None)
    except ValueError as error:
        raise ValueError(f"no price in {shown(text)}: {error}") from error
    if own_currency is None and (hundredths := _HUNDREDTHS.match(amount.after)):
        return format(decimal, "f"), hundredths[1]
    return format(decimal, "f") + _decimals_behind(own_currency, amounts[chosen:]), own_currency


def _check_multiplied(amounts: list[Amount], chosen: int, currency: str | None, text: str) -> None:
    """Raises ValueError where something may multiply the chosen amount that is not read: an unclear word behind it, the
    multiplier of a range's upper end ($60–121K), another number (1億2000万), a letter before a currency (k€ 12), or a
    word between it and the sign of a currency (12 Dutzend €).
    """
    amount, *behind = amounts[chosen:]
    upper = behind[0] if behind and not amount.power and is_range(amount.before, amount.between) else None
    parts = (amount, *amounts[max(chosen - 1, 0) : chosen])
    word = (
        amount.doubtful
        or (upper.multiplier if upper else "")
        or next((part.multiplier for part in parts if not part.after.strip() and part is not amounts[-1]), "")
    )
    if not word and (match := _MULTIPLIED.search(amount.before)):
        word = match[0].strip()
    if not word and currency is None:
        word = next((match[0].strip() for part in amounts if (match := _BEFORE_SIGN.match(part.after))), "")
    if word:
        hint = f"`xpath: concat(substring-before(…), ' {currency or '€'}')` writes the currency behind it"
        raise ValueError(f"{unclear(word, shown(text))}; {hint}")


def _with_cents(plain: str, text: str) -> tuple[str, str]:
    """The text with raised cents as decimals, `$12⁹⁹` as `$12.99`, and without marks of notes; and what was taken for
    cents.

    Raises ValueError for other raised digits: 10⁶ is no 10.
    """
    cents: list[str] = []
    if _LOWERED.search(plain):
        raise ValueError(f"lowered digits in {shown(text)}: cents, or a note? {_SETTLES}")

    def written(match: re.Match[str]) -> str:
        whole, raised = match["whole"], match["raised"]
        if len(raised) == 2 and raised.isdigit() and not _HAS_DECIMALS.search(whole):
            cents.append(match[0])
            return whole + decimals_behind(whole, lowered(raised))
        if raised.isdigit() and (_HAS_DECIMALS.search(whole) or (len(raised) == 1 and whole != "10")):
            return whole + (match["mark"] or "")  # the mark of a note
        if not raised.strip("⁻"):  # 12,⁻
            return f"{whole}{match['mark'] or ','}-"
        raise ValueError(f"raised digits in {shown(text)}: cents, a note or a power? {_SETTLES}")

    plain = _RAISED_BEHIND_CURRENCY.sub(
        lambda match: lowered(match[0]) if currency_beside("", match[1]) else match[0], plain
    )
    plain = _RAISED.sub(written, _RAISED_CENTS.sub(lambda match: lowered(match[0]), plain))
    return plain, cents[0] if cents else ""


def _check_parted(amounts: list[Amount], chosen: int, text: str) -> None:
    """Raises ValueError where the chosen amount and two digits beside it, with nothing but a space between, may be one:
    `12 99 €`.
    """
    for row, behind in ((chosen, chosen + 1), (chosen - 1, chosen)):
        if (
            row < 0
            or behind >= len(amounts)
            or amounts[row].after.strip()
            or not re.fullmatch(r"\d\d", amounts[behind].number[0])
        ):
            continue
        rest = amounts[behind].after
        # else they may count what follows: $12 99 left
        is_last = currency_beside("", rest) is not None or not any(map(str.isalpha, rest))
        if is_last and not _HAS_DECIMALS.search(amounts[row].number["digits"]):
            raise ValueError(
                f"{amounts[row].number[0]} {amounts[behind].number[0]} in {shown(text)}: is the second the cents "
                f"of the first? {_SETTLES}"
            )


def _check_reduced(amounts: list[Amount], currency: str | None, language: str, text: str) -> None:
    """Raises ValueError where two prices are all that a text says, with nothing between, and the second one is lower:
    `$20 $15` has an older price and a new one.
    """
    if currency is None or len(amounts) != 2 or any(amount.power for amount in amounts):
        return
    old, new = amounts
    around = f"{old.after}{new.after}"
    if f"{old.before}{around}".count(currency) == 2 and not around.replace(currency, "").replace(",-", "").strip(" ."):
        first, second = (to_decimal(amount.number, decimal_mark(language), None) for amount in amounts)
        if second < first:
            raise ValueError(
                f"two prices in {shown(text)}: an older one and today's? A selector finds one of them, such as "
                "`.price :not(.old)`, or `pattern`"
            )


def _decimals_behind(currency: str | None, amounts: list[Amount]) -> str:
    """The `.50` of 12€50, where the currency stands for the decimal mark; empty otherwise.

    With spaces, only where nothing but cents follows: `5 € 20 pieces` has none.
    """
    if len(amounts) < 2 or amounts[0].power:
        return ""
    whole, cents = amounts[:2]
    is_named = _HUNDREDTHS_BEHIND.match(cents.after) is not None
    between = whole.after.strip()
    unit = currency_beside("", whole.after)
    # 12 dollars and 99 cents
    is_joined = is_named and unit is not None and re.fullmatch(r"\s\w{1,4}", between.removeprefix(unit)) is not None
    # £12 10p
    stands_between = (
        between == currency or is_joined or (is_named and not between and currency == currency_beside(whole.before, ""))
    )
    if not stands_between or not whole.number["digits"][-3:].isdigit() or not re.fullmatch(r"\d\d", cents.number[0]):
        return ""
    after = cents.after
    is_last = not after.strip(" .*)]") or is_named
    is_glued = whole.after == currency and not after[:1].isalpha() and not is_share("", after)
    # of its own, or the first one's currency stands before it
    is_price = not is_named and (currency_beside("", after) or currency_beside(whole.before, ""))
    return f".{cents.number[0]}" if (is_last or is_glued) and not is_price else ""


def _is_negative(number: re.Match[str], before: str, after: str, *, is_first: bool, is_only: bool) -> bool:
    """Whether the amount is negative: -5, -£5, £-5, - 5 at the beginning, 5.00- at the end, (5.00). A dash after other
    text does not count: "now - £5".
    """
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
    return (after.strip() == "-" and re.search(r"[.,]\d\d$", number["digits"]) is not None) or (
        before.startswith("(") and after.endswith(")")
    )
