"""Text analysis of the lexical index: splits chunks and queries into terms, for any script and language.

Most words become one term. A code, an address or a compound (`TO1101`, `80 km/h`, `e-mail`) becomes one term as a whole
and one per part, so that either matches. Runs of text in scripts written without spaces become single characters and
character bigrams.
"""

import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # ships no types
import Stemmer
from cachetools import LRUCache, cached

from almanac.core.invisible import without_invisible

_SPACELESS = r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー〇ﾞﾟ]&&[\p{L}〇]]"
# without fractions: `½` would merge with the number before it
_LETTER = rf"[[\p{{L}}\p{{N}}]--{_SPACELESS}--[¼-¾⅐-⅟↉]]"
_REST = rf"[{_LETTER}\p{{M}}\u200D]"
_JOINT = r"""(?:['’‘ʹ＇.@/&_+·\-‐‑\u200C׳״]|(?<=\p{Nd})[,:](?=\p{Nd})|(?<=\p{Hebrew})"(?=\p{Hebrew}))"""
_WORDS = regex.compile(
    rf"(?V1)(?:{_SPACELESS}\p{{M}}*+){{1,256}}|{_LETTER}{_REST}{{0,255}}+(?:{_JOINT}{_LETTER}{_REST}{{0,63}}+){{0,"
    rf"15}}(?:\+\+|\#)?"
)
_IS_SPACELESS = regex.compile(rf"(?V1){_SPACELESS}")
_FIRST_SPACELESS = "\u0e00"  # code points below Thai belong to scripts with spaces, which settles most words quickly

_CLUSTERS = regex.compile(r"\X")
_APOSTROPHES = regex.compile(r"[’‘ʼʹ＇`]")
_INSIDE_HEBREW = regex.compile(r"""(?<=\p{Hebrew})['"׳״]""")
_SEPARATORS = regex.compile(r"[^\p{L}\p{M}\p{N}']+")
_OTHER_DIGITS = regex.compile(r"(?V1)[\p{Nd}--[0-9]]")
_THOUSANDS = regex.compile(r"([0-9]{1,3}(?:[.,'][0-9]{3})+)(?:[.,]([0-9]{1,2}))?(\p{L}*)")
_DECIMAL = regex.compile(r"[0-9]+[.,][0-9]+")
_INITIALS = regex.compile(r"\p{L}(?:\.\p{L})+")
_PIECES = regex.compile(r"\d+|[\p{L}\p{M}]{2,}")
_LATIN = regex.compile(r"\p{Latin}")
_FOLDABLE = regex.compile(r"[\p{Latin}\p{Greek}]")
_HEBREW = regex.compile(r"\p{Hebrew}")
_ARABIC = regex.compile(r"\p{Arabic}")
_MARKS = regex.compile(r"\p{Mn}")
_POINTS = regex.compile(r"[\u0591-\u05BD\u05BF\u05C1\u05C2\u05C4\u05C5\u05C7]")  # Hebrew vowels and accents
# vowels, and the tatweel, which lengthens words
_ARABIC_SIGNS = regex.compile(r"[\u0610-\u061A\u0640\u064B-\u065F\u0670\u06D6-\u06ED]")
_ARABIC_LETTERS = str.maketrans("أإآٱىیةک", "ااااييهك")
_UNDECOMPOSED = str.maketrans(
    {"đ": "d", "ð": "d", "ø": "o", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
# Hebrew prefixes written together with the next word: from, that, the, and, as, to, in
_PREFIXES = frozenset("משהוכלב")
_TONES = frozenset("\u0300\u0301\u0303\u0309\u0323")

_LONGEST = 64  # characters of a term; longer terms are cut
_MOST_PARTS = 8  # compounds with more parts, such as addresses, get no term as a whole
_CACHED_LUMPS = 1 << 16  # cached lumps (runs of text without white space); about 25 MB
# bytes that whole texts and their terms take, about, in whatever script: without spaces, each character makes two terms
_REMEMBERED = 10_000_000
_OF_TEXT, _OF_CHARACTER, _OF_TERM = 400, 2, 80  # bytes
_LUMP = 40  # characters; longer lumps, such as sentences without spaces, rarely repeat and are not cached

_ALSO_CALLED = {"nb": "no", "nn": "no", "iw": "he", "ji": "yi", "in": "id"}
# Languages in which words in Latin letters are foreign, mostly English, and therefore stemmed as English.
_NOT_LATIN = regex.compile(
    "am|ar|as|be|bg|bn|dv|dz|el|fa|gu|he|hi|hy|ja|ka|kk|km|kn|ko|ky|lo|mk|ml|mn|mr|my|ne|or|pa|ps|ru|sd|si|ta|te|t"
    "g|th|ti|uk|ur|yi|zh"
)
# Elided words that are joined to the next word by an apostrophe, per language: they are dropped.
_ELISIONS = {
    "fr": regex.compile("[cdjlmnst]|(?:jus|lors|puis|quoi|pres)?qu"),
    "it": regex.compile("[cdlmnstv]|un|gl|(?:a|da|de|ne|su|co|be|que)ll|quest|(?:de|a|ne|su)gl|tutt|sant"),
    "ca": regex.compile("[dlmnst]"),
    "oc": regex.compile("[dlmnst]|qu"),
    "ga": regex.compile("[bdm]"),
}


def tokens(text: str, language: str) -> list[str]:
    """Returns the terms of a query, in the order of its words; no term contains a space.

    `language` is a BCP 47 tag; words of a language without a stemmer are not stemmed. Case and canonical equivalence
    (NFC, NFD) make no difference.
    """
    tag = primary_tag(language)
    return _read(text, tag, _terms_of)


def stored_tokens(text: str, language: str) -> list[str]:
    """Returns the terms of a chunk: those of `tokens`, and those of its Latin and Greek words typed without diacritics
    (for Vietnamese see `folded_tokens`).

    Both are needed because stemmers depend on diacritics: French `musée` becomes `mus`, and `musee` becomes `muse`.
    """
    tag = primary_tag(language)
    return _read(text, tag, _stored_terms_of)


def folded_tokens(text: str) -> list[str]:
    """Returns the terms and term pairs of a Vietnamese text with diacritics removed, to match queries typed without
    them.
    """
    terms = tokens(text, "und")
    return [*terms, *_pairs(terms)]


class _Remembered(NamedTuple):
    terms: tuple[str, ...]
    size: int  # bytes


def remembered_tokens(text: str, language: str, *, folded: bool) -> tuple[str, ...]:
    """Returns `folded_tokens` or `tokens` of a text that is likely to be asked for again: one answer meets hundreds of
    sentences, and the next one many of the same.
    """
    return _remember(text, language, folded).terms


@cached(LRUCache(_REMEMBERED, getsizeof=lambda remembered: remembered.size), lock=threading.Lock())
def _remember(text: str, language: str, folded: bool) -> _Remembered:
    terms = tuple(folded_tokens(text) if folded else tokens(text, language))
    return _Remembered(terms, _OF_TEXT + _OF_CHARACTER * len(text) + _OF_TERM * len(terms))


def is_folded(text: str) -> bool:
    """Whether a text contains no diacritics."""
    plain = unicodedata.normalize("NFC", text).casefold()
    return fold(plain) == unicodedata.normalize("NFD", plain)


def has_folded(language: str) -> bool:
    """Whether texts of the language are also indexed by `folded_tokens`: true for Vietnamese, whose words differ by
    marks that people often omit.
    """
    return primary_tag(language) == "vi"


def primary_tag(language: str) -> str:
    """Returns the primary subtag of a BCP 47 tag, with deprecated codes replaced: `pt-BR` gives `pt`, `iw` gives
    `he`.
    """
    tag = language.partition("-")[0].partition("_")[0].lower()
    return _ALSO_CALLED.get(tag, tag)


def fold(text: str) -> str:
    """Removes diacritics: `điện` becomes `dien`. Lower-case letters without a Unicode decomposition are replaced by
    their usual spelling, `ø` by `o`.
    """
    bare: str = _MARKS.sub("", unicodedata.normalize("NFD", text))
    return bare.translate(_UNDECOMPOSED)


def _read(text: str, tag: str, terms_of: Callable[[str, str], tuple[str, ...]]) -> list[str]:
    terms: list[str] = []
    # Lumps between white space repeat often and never split a word, so their terms are cached: 0.3 instead of 1.7
    # microseconds per word.
    for lump in unicodedata.normalize("NFC", without_invisible(text)).split():
        terms += terms_of(lump, tag) if len(lump) <= _LUMP else terms_of.__wrapped__(lump, tag)  # type: ignore[attr-defined]
    return [*terms, *_pairs(terms)] if tag == "vi" else terms


def _pairs(syllables: list[str]) -> list[str]:
    """Returns bigrams of Vietnamese syllables: a word is one or more syllables, separated by spaces."""
    return [f"{first}_{second}" for first, second in pairwise(syllables)]


def _grams(run: str) -> list[str]:
    """Returns the characters of a run, each with its combining marks, followed by all pairs of neighbours."""
    units = [unit[:_LONGEST] for unit in _CLUSTERS.findall(unicodedata.normalize("NFKC", run).casefold())]
    return [*units, *map("".join, pairwise(units))]


@lru_cache(_CACHED_LUMPS)
def _terms_of(lump: str, tag: str) -> tuple[str, ...]:
    return tuple(
        term for word in _words_of(lump) for term in (_grams(word) if _is_run(word) else _terms_of_word(word, tag))
    )


@lru_cache(_CACHED_LUMPS)
def _stored_terms_of(lump: str, tag: str) -> tuple[str, ...]:
    terms: list[str] = []
    for word in _words_of(lump):
        if _is_run(word):
            terms += _grams(word)
            continue
        word_terms = _terms_of_word(word, tag)
        if tag != "vi" and not word.isascii() and _FOLDABLE.search(word):
            folded = _terms_of_word(fold(word.casefold()), tag)
            word_terms += [term for term in folded if term not in word_terms]
        terms += word_terms
    return tuple(terms)


def _words_of(lump: str) -> list[str]:
    words: list[str] = _WORDS.findall(lump)
    return words


def _is_run(word: str) -> bool:
    """Whether a match of `_WORDS` is a run in a script written without spaces."""
    return word[0] >= _FIRST_SPACELESS and _IS_SPACELESS.match(word) is not None


def _terms_of_word(word: str, tag: str) -> list[str]:
    """Returns the terms of one match of `_WORDS`: a word, or several words joined by something other than a space."""
    word = _plain(word, tag)
    if number := _THOUSANDS.fullmatch(word):
        return _terms_of_number(*number.groups())
    parts = [part for part in _SEPARATORS.split(word) if part.strip("'")]
    terms: list[str] = []
    if len(parts) > 1 or word[-1:] in "+#":
        terms.append(_whole(word, parts, tag))
    if not _INITIALS.fullmatch(word):
        for part in parts:
            terms += _terms_of_part(part.strip("'"), tag)
    return list(dict.fromkeys(term[:_LONGEST] for term in terms if term))


def _terms_of_number(whole: str, decimals: str | None, unit: str) -> list[str]:
    """Normalises a number with separators: `1,000.50` and `1.000,50` give the same term. A unit or currency behind it
    (`1.000.000đ`) is a second term.
    """
    digits = "".join(character for character in whole if character.isdigit())
    number = f"{digits}.{decimals}" if decimals else digits
    return [number, fold(unit)] if unit else [number]


def _plain(word: str, tag: str) -> str:
    """Normalises a word: Unicode NFKC_Casefold, ASCII apostrophes and ASCII digits."""
    if tag in ("tr", "az"):
        word = word.replace("I", "ı").replace("İ", "i")
    word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word.replace("\u200d", "")).casefold())
    # digits newer than Python's Unicode data stay
    word = _OTHER_DIGITS.sub(lambda digit: str(unicodedata.digit(digit[0], digit[0])), word)
    return str(_INSIDE_HEBREW.sub("", _APOSTROPHES.sub("'", word)))


def _whole(word: str, parts: list[str], tag: str) -> str:
    """Returns the term for a compound as a whole; empty where it would serve no query, as for compounds of more than 8
    parts.
    """
    if _DECIMAL.fullmatch(word):
        return ".".join(parts)
    if _INITIALS.fullmatch(word):
        return "".join(parts)
    if len(parts) > _MOST_PARTS:
        return ""
    if set(_SEPARATORS.findall(word)) <= {"-", "‐", "·", "\u200c"}:
        has_digits = any(character.isdigit() for character in word)
        return "".join(parts) if has_digits else _stemmed("".join(parts), tag) if len(parts) == 2 else ""
    return fold(word) if tag != "vi" and _FOLDABLE.search(word) else word


def _terms_of_part(part: str, tag: str) -> list[str]:
    head, apostrophe, tail = part.partition("'")
    if apostrophe and tag in _ELISIONS and _ELISIONS[tag].fullmatch(head):
        return _terms_of_part(tail.strip("'"), tag)
    if any(character.isdigit() for character in part):
        pieces = _PIECES.findall(part)
        return [fold(part.replace("'", "")), *(map(fold, pieces) if 1 <= len(pieces) <= 4 else ())]
    if apostrophe and len(head) <= 2 and len(tail) > 2:
        # a foreign name such as d'Orsay in a language without elision
        return [_stemmed(part, tag), _stemmed(tail, tag)]
    if _HEBREW.search(part):
        bare = _POINTS.sub("", part)
        return [bare, bare[1:]] if len(bare) > 3 and bare[0] in _PREFIXES else [bare]
    return [_stemmed(part, tag)]


def _stemmed(word: str, tag: str) -> str:
    is_latin = bool(_LATIN.search(word))
    language = "en" if is_latin and _NOT_LATIN.fullmatch(tag) else tag
    if language == "en":
        word = fold(word)  # diacritics in English are optional
    if (stemmer := _stemmer(language)) is not None:
        with _STEMMING:
            word = stemmer.stemWord(word)
    word = word.replace("'", "")
    if tag == "vi":
        return _with_tone_last(word)
    if _ARABIC.search(word):
        return str(_ARABIC_SIGNS.sub("", word)).translate(_ARABIC_LETTERS)
    return fold(word) if _FOLDABLE.search(word) else word.replace("ё", "е")


def _with_tone_last(syllable: str) -> str:
    """Moves the tone mark of a Vietnamese syllable to its end, since two conventions place it differently: `hòa` and
    `hoà`.
    """
    marks = unicodedata.normalize("NFD", syllable)
    tone = "".join(mark for mark in marks if mark in _TONES)
    return unicodedata.normalize("NFC", "".join(mark for mark in marks if mark not in _TONES)) + tone


_STEMMING = threading.Lock()  # stemmers are not thread-safe


@lru_cache(64)
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    """Snowball's stemmer of a language, by its ISO 639-1 code; None where there is none."""
    try:
        return Stemmer.Stemmer(language, 0)
    except KeyError:
        return None
