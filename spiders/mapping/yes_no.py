"""Reads yes and no: words of markup and of English shops, and what a field declares."""

import re
import unicodedata
from collections.abc import Iterable

from almanac.spiders.mapping.numbers import plain_digits

_MARKS_OF_YES, _MARKS_OF_NO = "✓✔☑✅", "✗✘❌☐"
_YES = (
    *("true", "yes", "y", "on", "1", "available", "in stock", "instock", "instoreonly", "onlineonly"),
    *("limitedavailability", *_MARKS_OF_YES),
)
_NO = (
    *("false", "no", "n", "off", "0", "unavailable", "not available", "currently unavailable", "no longer available"),
    *("out of stock", "outofstock", "not in stock", "temporarily out of stock", "sold out", "soldout", "discontinued"),
    *_MARKS_OF_NO,
)
_KNOWN = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
# A count or a remark may follow a phrase. A single word may not, which may deny it: "stokta var değil", "In stock: no".
_GOES_ON = re.compile(r"\s*(?::\s*)?\d|\s*[(\[,.;|/–—、。【-](?!\s*(?:(?![\u3040-\u9fff])[^\W\d])+\W*$)")
# Also a year, as of "In stock: 12 May 2026".
_DENIED = re.compile(
    r"\b(?:not?|n[oe]n|nicht|nein|keine?|pas|niet|geen|nee|nej|ikke|inte|nie|não|не|нет|değil|yok|20\d\d)\b"
    r"|[无無没沒未不]|なし|ない|없"
)


def answer(text: str, yes: Iterable[str] = (), no: Iterable[str] = ()) -> bool | None:
    """Whether a text says yes; None if it says neither yes nor no, or both: "In stock (sold out online)", "✗ In stock".

    What is declared is compared without regard to case; it and known phrases of several words may go on, and the first
    count tells: "In stock (3 available)" says yes, "In stock: 0 of 10" no.
    """
    declared = {_plain(phrase): True for phrase in yes} | {_plain(phrase): False for phrase in no}
    answers = _KNOWN | declared
    plain = _plain(text)
    if plain in answers:
        return answers[plain]
    bare = plain.strip(f" .!{_MARKS_OF_YES}{_MARKS_OF_NO}")
    is_crossed = any(mark in plain for mark in _MARKS_OF_NO)
    if bare in answers:
        return None if is_crossed and answers[bare] else answers[bare]
    for phrase in sorted(answers, key=len, reverse=True):
        rest = bare.removeprefix(phrase)
        if rest != bare and (phrase in declared or " " in phrase) and _GOES_ON.match(rest):
            if not answers[phrase]:
                return False
            return None if is_crossed or _is_denied(rest, answers) else _has_count(rest)
    return None


def _is_denied(rest: str, answers: dict[str, bool]) -> bool:
    denials = (phrase for phrase, is_yes in answers.items() if not is_yes and (len(phrase) > 3 or not phrase.isascii()))
    return _DENIED.search(rest) is not None or any(phrase in rest for phrase in denials)


def _has_count(rest: str) -> bool | None:
    """Whether what follows a phrase of yes counts something, or nothing at all; None for a zero among other numbers."""
    counts = [count.strip("0.,") for count in re.findall(r"\d[\d.,]*", rest)]
    if not counts or counts[0]:
        return True
    return None if any(counts) and not re.match(r"\W*\d", rest) else False


def _plain(text: str) -> str:
    # the dot that is left of a Turkish İ
    folded = unicodedata.normalize("NFKC", plain_digits(text)).casefold().replace("\u0307", "")
    return folded.strip(" .!")
