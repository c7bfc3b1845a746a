"""Finds the currency beside an amount."""

import re
import unicodedata

from price_parser._currencies import CURRENCY_CODES, CURRENCY_NATIONAL_SYMBOLS, CURRENCY_SYMBOLS
from price_parser.parser import SAFE_CURRENCY_SYMBOLS

from almanac.core.invisible import INVISIBLE

UNSEEN = INVISIBLE | dict.fromkeys(map(ord, "\u200c\u200d"))
_MORE_SYMBOLS = {"VNĐ", "vnđ", 'ש"ח', "ש״ח", "元", "NIS", "Rs.", "đồng", "Đồng", "F CFA", "Fcfa"}
_NAMES = {
    "Euro",
    "euros",
    "Euros",
    "dollar",
    "dollars",
    "Dollar",
    "Dollars",
    "rupees",
    "Rupees",
    "yen",
    "pesos",
    "reais",
    "francs",
    "baht",
    "บาท",
}
_OTHER_NAMES = {
    "euroa",
    "ευρώ",
    "ドル",
    "ユーロ",
    "ポンド",
    "美元",
    "欧元",
    "歐元",
    "달러",
    "유로",
    "रुपये",
    "रुपए",
    "रुपया",
}
# Names and short forms in the script of a language, or inflected, none of which means anything else beside a number.
_NATIVE_NAMES = """
    रु. रु रू. रू रुपैयाँ রুপি রুপির રૂ. રૂ રૂપિયા ਰੁ. ਰੁ ਰੁਪਏ ரூ. ரூ ரூபாய் రూ. రూ రూపాయలు ರೂ. ರೂ ರೂಪಾಯಿ രൂ. രൂ രൂപ රු. රු روپے روپیہ روپئے
    টাকা টাকার টাকায় שקל שקלים ليرة دينار دينارا دنانير دراهم درهما جنيها ريالا ლარი դրամ ֏ rupiah Rupiah
    рубль рубля рублей рублів гривня гривні гривень гривны гривен лева тенге теңге тг тг. РСД динара денари
    złoty złote złotych koruna koruny korun korún forint kroner kronor krónur lira dinara
    евро євро eura eurot eurų eiro evra evrov доллар доллара долларов долар долари доларів dólar dólares
"""
_INDIC = re.compile(r"[\u0900-\u0dff]")
_WIDE = {"＄", "￡", "￦"}  # as East Asian keyboards write $, £ and ₩; price-parser knows ￥
_NO_CURRENCIES = {"ALL", "TOP", "CUP", "-"}  # English words, and a dash used as a placeholder
_SHORT = {
    "R",
    "kr",
    "Kr",
    "zł",
    "Zł",
    "Kč",
    "Rs",
    "RM",
    "Ft",
    "TL",
    "Tk",
    "kn",
    "SR",
    "KD",
    "JD",
    "QR",
    "Rp",
    "Bs",
    "Kz",
    "đ",
    "лв",
    "р.",
}


def _known_currencies() -> frozenset[str]:
    """price-parser's symbols and codes, without rare ones of one or two plain letters, which are also units (12 L, 5
    m).
    """
    known = {*CURRENCY_SYMBOLS, *SAFE_CURRENCY_SYMBOLS, *CURRENCY_CODES, *CURRENCY_NATIONAL_SYMBOLS}
    symbols = {
        s
        for symbol in known
        if (s := symbol.translate(UNSEEN).strip()) and (len(s) > 2 or not (s.isascii() and s.isalpha()))
    }
    return frozenset(
        (
            symbols
            | {s.rstrip(".") for s in symbols if not s.isascii()}
            | _MORE_SYMBOLS
            | _NAMES
            | _OTHER_NAMES
            | {*_NATIVE_NAMES.split()}
            | _SHORT
            | _WIDE
        )
        - _NO_CURRENCIES
    )


_CURRENCIES = _known_currencies()
_LONGEST = max(map(len, _CURRENCIES))
ANY_CURRENCY = re.compile(rf"\s*(?:{'|'.join(map(re.escape, sorted(_CURRENCIES, key=len, reverse=True)))})(?![^\W\d_])")


def currency_beside(before: str, after: str) -> str | None:
    """The currency at the end of the text before a number, or at the beginning of the text after it; None if there is
    none.
    """
    head = before.rstrip("+-").rstrip()
    for written in (head, head.removesuffix(".")):  # kr. 1.299,00
        for length in range(min(_LONGEST, len(written)), 0, -1):
            if written[-length:] in _CURRENCIES and not _is_in_word(written[-length - 1 : -length], written[-length]):
                return written[-length:]
    tail = re.sub(r"^[.,][-–—]{1,2}", "", after).lstrip()
    for length in range(min(_LONGEST, len(tail)), 0, -1):
        if tail[:length] in _CURRENCIES and not _is_in_word(tail[length - 1], tail[length : length + 1]):
            return tail[:length]
    return None


def _is_in_word(left: str, right: str) -> bool:
    """Whether two characters are inside one word. Scripts without upper and lower case may write words without spaces,
    but for a letter and its marks.

    Those of India put spaces between words.
    """
    if unicodedata.category(right or " ").startswith("M"):
        return True
    if _INDIC.match(left) and _INDIC.match(right):
        return all(unicodedata.category(character)[0] in "LM" for character in (left, right))
    return left.isalpha() and right.isalpha() and left.lower() != left.upper() and right.lower() != right.upper()
