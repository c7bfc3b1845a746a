"""Codes in questions, such as X1, TO1101 or GR-16. They say which thing is meant, and an embedder hardly sees it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import regex  # type: ignore[import-untyped]  # ships no types

if TYPE_CHECKING:
    from almanac.index.lexical.lexical_reader import AnalyzedQuery
    from almanac.schemas.results import Hit

# A code: letters, then digits. "5G" and "4x4" are none, nor is "7-day"; in other scripts, particles are written onto a
# number ("ב-2024", "在2024年").
_LETTER = r"[\p{Latin}\p{Greek}\p{Cyrillic}]"
_CODE = regex.compile(
    rf"(?<![\p{{L}}\p{{M}}\p{{N}}.@/_-]){_LETTER}{{1,5}}-?\d{{1,6}}{_LETTER}?(?![\p{{L}}\p{{M}}\p{{N}}]|[.,:]\d)"
)
# In small letters, these are rarely one: "u2", "mp3", "top10"; nor is a word with a day, an age or a year: "under-18",
# "Juni-2024", "DEC-2024".
_NO_CODE = regex.compile(
    r"\p{Ll}\d|\p{Ll}{2}\d|v\d+|\p{L}\p{Ll}{2,}(?:\d{1,2}|-\d{1,2}|-?(?:19|20)\d\d)\p{L}?"
    r"|(?:JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEPT?|OCT|NOV|DEC)-?(?:19|20)\d\d"
)
_PARTS = regex.compile(r"(\p{L}+)-?(.+)")
# Chunks, or share of them if that is more, up to which a code names a thing: CO2 and A4 are what a text is about, or
# said in passing.
_RARE, _RARE_SHARE = 10, 0.01


def codes_in(question: str) -> list[str]:
    """The codes in a question, as they stand there."""
    return [code for code in dict.fromkeys(_CODE.findall(question)) if not _NO_CODE.fullmatch(code)]


def rare_codes(question: str, readings: "Sequence[AnalyzedQuery]") -> list[str]:
    """Those of the codes in a question that occur in few chunks, and in some. `readings` is the question as analyzed
    for each language of the version.
    """
    return [
        code
        for code in codes_in(question)
        if any(
            0 < reading.frequencies.get(_term(code), 0) <= max(_RARE, _RARE_SHARE * reading.rows)
            for reading in readings
        )
    ]


def has_code(code: str, text: str) -> bool:
    """Whether a text has a code, in capitals or not, with or without a hyphen or a space before its digits."""
    letters, digits = _PARTS.fullmatch(code).groups()
    return (
        regex.search(
            rf"(?i)(?<![\p{{L}}\p{{N}}]){regex.escape(letters)}[-‐‑ ]?{regex.escape(digits)}(?![\p{{L}}\p{{N}}])", text
        )
        is not None
    )


def with_codes(codes: Sequence[str], hits: "Sequence[Hit]") -> "Sequence[Hit]":
    """Those of the hits that have one of the codes, in their order; all where none has."""
    return [hit for hit in hits if any(has_code(code, f"{hit.title} {hit.readable}") for code in codes)] or hits


def _term(code: str) -> str:
    """The term of the lexical index for a whole code."""
    return code.replace("-", "").casefold()
