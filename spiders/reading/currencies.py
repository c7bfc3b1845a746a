"""Finds the currency beside an amount."""

import re
import unicodedata
from datetime import date

from babel import Locale
from babel.numbers import get_territory_currencies

from almanac.core.invisible import INVISIBLE

UNSEEN = INVISIBLE | dict.fromkeys(map(ord, "\u200c\u200d"))
# Short forms and names that CLDR does not have in English, none of which means anything else beside a number.
_WRITTEN = """
    $U AR$ AU$ BN$ BZ$ Bds$ C$ CL$ CO$ CUC$ CV$ J$ MOP$ N$ RD$ S$ T$ TT$ US$ WS$ Z$ IR£ LB£ SY£ GH₵ ƒ
    B/. S/. S/ Bs.F. Bs Afl. CFA Fcfa CFP FBu Fdj Fr. fr. fl. Dkr Ikr Nkr Skr kr Kr Kč Ft zł Zł LEI Lei lei leu Lek din.
    Ksh TSh USh SLRs NPRs PKRs MURs Rs Rs. R RM RMB NTD NIS MRf MTn Nu. TL Tk kn SR KD JD QR Rp Kz đ VNĐ vnđ eur pln
    euro Euro euros Euros dollar dollars Dollar Dollars dólar dólares rupees Rupees yen pesos reais francs baht บาท
    rupiah Rupiah złoty złote złotych koruna koruny korun korún forint kroner kronor krónur lira dinara Dinara đồng Đồng
    eura eurot eurų eiro evra evrov euroa ευρώ евро євро ユーロ 欧元 歐元 유로 ドル 美元 달러 ポンド 元 円 원
    р р. руб. рубль рубля рублей рублів грн. гривня гривні гривень гривны гривен лв. лева ман. тенге теңге тг. тңг.
    РСД дин. динар динара денари доллар доллара долларов долар долари доларів
    դր. դրամ ლარი ש"ח ש״ח שקל שקלים تومان ریال ريال ريالا درهم دراهم درهما دينار دينارا دنانير جنيه جنيها ليرة
    ج.م. د.أ. د.إ. د.ب. د.ت. د.ج. د.ع. د.ك. د.ل. د.م. ر.س. ر.ع. ر.ق. ر.ي. ل.س. ل.ل. روپے روپیہ روپئے ރ
    र रु. रू. रुपये रुपए रुपया रुपैयाँ नेरू রুপি রুপির টকা টাকা টাকার টাকায় રૂ. રૂપિયા ਰੁ. ਰੁਪਏ ரூ. ரூபாய் రూ. రూపాయలు ರೂ. ರೂಪಾಯಿ
    രൂ. രൂപ රු.
"""
_NO_CURRENCIES = {"ALL", "TOP", "CUP", "¢", "¤"}  # English words; hundredths; the sign for none in particular
_SINCE, _UNTIL = date(2000, 1, 1), date(2100, 1, 1)  # a currency was somebody's


def _known_currencies() -> frozenset[str]:
    """Signs of Unicode, codes of currencies, what English calls them, and what is written beside amounts elsewhere."""
    english = Locale("en")
    codes = {
        code
        for place in map(str, english.territories)
        if len(place) == 2
        for code in get_territory_currencies(place, _SINCE, _UNTIL)
    }
    signs = {chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) == "Sc"}
    written = {*_WRITTEN.split(), "F CFA"}
    short = {symbol.replace("\u202f", " ") for symbol in english.currency_symbols.values()}
    return frozenset(
        {*codes, *signs, *short, *written, *(word.rstrip(".") for word in written if not word.isascii())}
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
    if "\u0900" <= left[:1] <= "\u0dff" and "\u0900" <= right[:1] <= "\u0dff":  # the scripts of India
        return all(unicodedata.category(character)[0] in "LM" for character in (left, right))
    return left.isalpha() and right.isalpha() and left.lower() != left.upper() and right.lower() != right.upper()
