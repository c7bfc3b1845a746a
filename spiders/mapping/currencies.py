"""Currencies and the decimal marks of the countries that use them."""

from babel.numbers import get_currency_precision

from almanac.spiders.mapping.locales import decimal_mark

# Currencies of countries that write 1.299 for a thousand and more; the others write 1,299.
_COMMA_CURRENCIES = frozenset(
    {
        "€",
        "EUR",
        "euro",
        "Euro",
        "euros",
        "Euros",
        "eur",
        "kr",
        "kr.",
        "SEK",
        "NOK",
        "DKK",
        "ISK",
        "zł",
        "PLN",
        "Kč",
        "CZK",
        "Ft",
        "HUF",
        "lei",
        "RON",
    }
    | {
        "лв",
        "лв.",
        "BGN",
        "₽",
        "руб",
        "руб.",
        "RUB",
        "₴",
        "грн",
        "грн.",
        "UAH",
        "₺",
        "TL",
        "TRY",
        "R$",
        "BRL",
        "₫",
        "đ",
        "VND",
        "VNĐ",
        "Rp",
        "IDR",
    }
    | {
        "ARS",
        "CLP",
        "COP",
        "дин.",
        "RSD",
        "kn",
        "РСД",
        "dinara",
        "динара",
        "денари",
        "тенге",
        "теңге",
        "тг",
        "тг.",
        "₸",
        "KZT",
        "rupiah",
        "Rupiah",
        "lira",
    }
    | {"złoty", "złote", "złotych", "koruna", "koruny", "korun", "korún", "forint", "kroner", "kronor", "krónur", "leu"}
    | {"рубль", "рубля", "рублей", "рублів", "гривня", "гривні", "гривень", "гривны", "гривен", "лева"}
    | {"евро", "євро", "eura", "eurot", "eurų", "eiro", "evra", "evrov", "euroa", "ευρώ"}
)
# Codes of symbols whose smallest unit is not a hundredth, so that three digits after a mark are never decimals, or
# always.
_CODES = {
    **dict.fromkeys(("₫", "đ", "VNĐ", "vnđ", "đồng", "Đồng"), "VND"),
    **dict.fromkeys(("¥", "￥", "円"), "JPY"),
    **dict.fromkeys(("₩", "￦", "원"), "KRW"),
    **dict.fromkeys(("CFA", "FCFA", "F CFA", "Fcfa"), "XOF"),
    **dict.fromkeys(("Rp", "rupiah", "Rupiah"), "IDR"),
}


def price_mark(currency: str | None, language: str) -> str:
    """The mark taken as decimal before three digits: the language's; empty if the currency's differs, or if it has
    neither two nor three decimals.
    """
    mark = decimal_mark(language)
    if currency is None:
        return mark
    places = _places(_CODES.get(currency, currency))
    if places != 2:
        return mark if places == 3 else ""
    return mark if mark == currency_mark(currency) else ""


def currency_mark(currency: str) -> str:
    """The decimal mark of the countries that use a currency."""
    return "," if {currency, _CODES.get(currency)} & _COMMA_CURRENCIES else "."


def _places(code: str) -> int:
    """Decimal places of a currency; 2 if the code is not known."""
    return get_currency_precision(code) if code.isalpha() and code.isupper() else 2
