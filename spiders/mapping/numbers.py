"""Reads numbers in any common notation: digits of any script, grouped or not, with either decimal mark."""

import re
import unicodedata
from decimal import Decimal
from typing import Any

from almanac.spiders.mapping.notations import decimal_mark
from almanac.spiders.mapping.rounded import find_multiplier, unclear
from almanac.spiders.reading.currencies import UNSEEN

# Digits grouped by threes with a space or an apostrophe, or with points and commas, which `to_decimal` interprets.
NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,])[-+])?"
    r"(?P<digits>\d{1,3}(?:(?P<gap>[ '])\d{3})(?:(?P=gap)\d{3})*(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*|(?<![\d.,])[.,]\d+)"
    r"(?P<exponent>[eE][-+]?\d{1,3}(?![\w.]))?"
)
# What stands between the ends of a range.
RANGE = re.compile(
    r"\s*(?:[-‐‑‒–—~～〜]|から|至|到|ถึง)\s*|\s+(?:to|and|à|bis|a|hasta|até|tot|til|till|do|đến|до|إلى|עד)\s+",
    re.IGNORECASE,
)
# By threes, or as in India: 1,23,456.
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*|\d{1,2}(?:,\d{2})*,\d{3}")
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_FRACTION = re.compile(r"(?<!\d)(\d+)?\s?([¼-¾⅐-⅞])")
_RAISED = re.compile(r"\d[⁺⁻]?[⁰¹²³⁴-⁹]")
_MAX_DIGITS = 100
_MARKS = str.maketrans(
    {
        "−": "-",
        "﹣": "-",
        "－": "-",
        "＋": "+",
        "，": ",",
        "．": ".",
        "٫": ".",
        "٬": ",",
        "’": "'",
        "ʼ": "'",
        "′": "'",
        "´": "'",
        "`": "'",
    }
)


def plain_digits(text: str) -> str:
    """The text with digits of any script as ASCII, signs, marks and spaces in their plain form, and invisible
    characters removed.
    """
    text = text.translate(UNSEEN).translate(_MARKS)
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() and c > "9" else c for c in text)
    return " ".join(text.split())


def read_number(text: str, language: str, *, whole: bool = False) -> Decimal:
    """The only number in a text: `1 234,5` in French is 1234.5, `12,5 %` is 12.5, `1.5 million` 1500000. Raises
    ValueError if there is none or more than one, and for what may multiply it in a way that is not clear: `60K`.

    With `whole`, a single mark before three digits separates thousands. Raised digits are refused, too: 10⁶ is no 10.
    """
    if _RAISED.search(text):
        raise ValueError(
            f"raised digits behind a number in {shown(text)}: a power or a note? `pattern` takes a part of the text"
        )
    mark = decimal_mark(language)
    plain = _FRACTION.sub(lambda match: _decimal(match, mark), plain_digits(unicodedata.normalize("NFC", text)))
    numbers = list(NUMBER.finditer(plain))
    if len(numbers) != 1:
        raise ValueError(f"{'no number' if not numbers else 'several numbers'} in {shown(text)}")
    multiplier = find_multiplier(plain[numbers[0].end() :], language, of_price=False)
    if multiplier.doubtful:
        raise unclear(multiplier.doubtful, shown(text))
    number = to_decimal(numbers[0], "" if whole and not multiplier.power else mark, numbers[0]["sign"])
    return Decimal(f"{number:f}e{multiplier.power}") if multiplier.power else number


def _decimal(match: re.Match[str], mark: str) -> str:
    """A fraction in one character as decimals: 2½ as 2.5. Raises ValueError for one that has no short decimals."""
    decimals = {"¼": "25", "½": "5", "¾": "75"}.get(match[2])
    if decimals is None:
        raise ValueError(f"a fraction in {shown(match[0])}")
    return f"{match[1] or '0'}{mark}{decimals}"


def to_decimal(match: re.Match[str], ambiguous_mark: str, sign: str | None) -> Decimal:
    """The value of a match of NUMBER. Raises ValueError if its marks are inconsistent, such as in 1.2.3.

    Where exactly three digits follow a single mark, it is the decimal mark if it is `ambiguous_mark`, else it separates
    thousands.
    """
    digits = re.sub(r"[ ']", "", match["digits"])
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"too long for a number: {shown(digits)}")
    points = [mark for mark in digits if mark in ".,"]
    if len(set(points)) == 2 and points.count(points[-1]) == 1:
        mark = points[-1]  # the last mark separates the decimals
    elif len(points) == 1 and not (_AMBIGUOUS.fullmatch(digits) and points[0] != ambiguous_mark and not match["gap"]):
        mark = points[0]
    else:
        mark = ""
    head, _, tail = digits.rpartition(mark) if mark else (digits, "", "")
    if any(point in head for point in ".,") and not _GROUPED.fullmatch(head):
        raise ValueError(f"not a number: {match[0]!r}")  # such as 1.2.3
    whole = re.sub("[.,]", "", head) or "0"
    return Decimal(f"{'-' if sign == '-' else ''}{whole}{'.' if tail else ''}{tail}{match['exponent'] or ''}")


def shown(value: Any) -> str:
    """A value as shown in a message, at most 120 characters."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
