"""The terms of a text, by which the lexical index finds it: made alike of chunks and of queries, in any script and language.

A word becomes one term in most cases. A code, an address or a compound (`TO1101`, `80 km/h`, `e-mail`) becomes a term as a whole and one for each part,
so that either finds it. Words of scripts that are written without spaces become their characters and pairs of characters.
"""

import threading
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise

import regex  # type: ignore[import-untyped]  # ships no types
import Stemmer

_SPACELESS = r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー〇ﾞﾟ]&&[\p{L}〇]]"
_LETTER = rf"[[\p{{L}}\p{{N}}]--{_SPACELESS}--[¼-¾⅐-⅟↉]]"  # a fraction would grow together with the number before it
_REST = rf"[{_LETTER}\p{{M}}\u00AD\u200D\u2060]"
_JOINT = r"""(?:['’‘ʹ＇.@/&_+·\-‐‑\u200C׳״]|(?<=\p{Nd})[,:](?=\p{Nd})|(?<=\p{Hebrew})"(?=\p{Hebrew}))"""
_WORDS = regex.compile(rf"(?V1)(?:{_SPACELESS}\p{{M}}*+){{1,256}}|{_LETTER}{_REST}{{0,255}}+(?:{_JOINT}{_LETTER}{_REST}{{0,63}}+){{0,15}}(?:\+\+|\#)?")
_IS_SPACELESS = regex.compile(rf"(?V1){_SPACELESS}")
_FIRST_SPACELESS = "\u0e00"  # no script without spaces comes before Thai; a quick way to tell most words

_CLUSTERS = regex.compile(r"\X")
_IGNORED = regex.compile(r"[\u00AD\u200D\u2060\uFE00-\uFE0F]")
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
_ARABIC_SIGNS = regex.compile(r"[\u0610-\u061A\u0640\u064B-\u065F\u0670\u06D6-\u06ED]")  # vowels, and the stroke that lengthens words
_ARABIC_LETTERS = str.maketrans("أإآٱىیةک", "ااااييهك")
_UNDECOMPOSED = str.maketrans({"đ": "d", "ð": "d", "ø": "o", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})
_PREFIXES = frozenset("משהוכלב")  # what Hebrew writes together with the next word: from, that, the, and, as, to, in
_TONES = frozenset("\u0300\u0301\u0303\u0309\u0323")

_LONGEST = 64  # characters of a term
_MOST_PARTS = 8  # of a compound that is a term as a whole; an address has more
_KEPT = 1 << 16  # lumps whose terms are remembered; some 25 MB
_LUMP = 40  # characters of one; sentences without a space do not come again

_STEMMERS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish", "nl": "dutch", "en": "english", "eo": "esperanto",
    "et": "estonian", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "no": "norwegian", "fa": "persian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_ALSO_CALLED = {"nb": "no", "nn": "no", "iw": "he", "ji": "yi", "in": "id"}
# In these, words in Latin letters are foreign, and most of them English.
_NOT_LATIN = regex.compile("am|ar|as|be|bg|bn|dv|dz|el|fa|gu|he|hi|hy|ja|ka|kk|km|kn|ko|ky|lo|mk|ml|mn|mr|my|ne|or|pa|ps|ru|sd|si|ta|te|tg|th|ti|uk|ur|yi|zh")
# What is written together with the next word, by the language.
_ELISIONS = {
    "fr": regex.compile("[cdjlmnst]|(?:jus|lors|puis|quoi|pres)?qu"),
    "it": regex.compile("[cdlmnstv]|un|gl|(?:a|da|de|ne|su|co|be|que)ll|quest|(?:de|a|ne|su)gl|tutt|sant"),
    "ca": regex.compile("[dlmnst]"),
    "oc": regex.compile("[dlmnst]|qu"),
    "ga": regex.compile("[bdm]"),
}


def tokens(text: str, language: str) -> list[str]:
    """The terms of a query in the order of its words; none holds a space. `language` is a BCP 47 tag; one that is not known leaves words as they are.

    Texts that Unicode holds to be equivalent (NFC and NFD), in whatever case, have the same terms.
    """
    tag = primary_tag(language)
    return _read(text, tag, _terms_of)


def stored_tokens(text: str, language: str) -> list[str]:
    """The terms of a chunk: those of `tokens`, and those that a query would have where people type no diacritics.

    A stemmer goes by them: French `musée` is `mus`, and `musee` is `muse`.
    """
    tag = primary_tag(language)
    return _read(text, tag, _stored_terms_of)


def folded_tokens(text: str) -> list[str]:
    """The terms of a Vietnamese text without its diacritics, as they are typed where a keyboard has none."""
    found = tokens(text, "und")
    return [*found, *_pairs(found)]


def is_folded(text: str) -> bool:
    """Whether no word of a text carries a diacritic."""
    plain = unicodedata.normalize("NFC", text).casefold()
    return fold(plain) == unicodedata.normalize("NFD", plain)


def has_folded(language: str) -> bool:
    """Whether texts of the language are also indexed by `folded_tokens`: it tells words apart by marks that people leave out."""
    return primary_tag(language) == "vi"


def primary_tag(language: str) -> str:
    """The first part of a BCP 47 tag: `pt` of `pt-BR`."""
    tag = language.partition("-")[0].partition("_")[0].lower()
    return _ALSO_CALLED.get(tag, tag)


def fold(text: str) -> str:
    """Without diacritics: `Điện` becomes `Dien`. Lower-case letters that have no decomposition are written as people do without them."""
    bare: str = _MARKS.sub("", unicodedata.normalize("NFD", text))
    return bare.translate(_UNDECOMPOSED)


def _read(text: str, tag: str, terms_of: Callable[[str, str], tuple[str, ...]]) -> list[str]:
    found: list[str] = []
    # By lumps that come again and again, since a word has no space in it: 0.3 against 1.7 microseconds for a word.
    for lump in unicodedata.normalize("NFC", text).split():
        found += terms_of(lump, tag) if len(lump) <= _LUMP else terms_of.__wrapped__(lump, tag)  # type: ignore[attr-defined]
    return [*found, *_pairs(found)] if tag == "vi" else found


def _pairs(syllables: list[str]) -> list[str]:
    """A word of Vietnamese is one or more syllables, written apart."""
    return [f"{one}_{two}" for one, two in pairwise(syllables)]


def _grams(run: str) -> list[str]:
    """Characters, with the marks that belong to them, and pairs of neighbours."""
    units = _CLUSTERS.findall(unicodedata.normalize("NFKC", run).casefold())
    return [*units, *map("".join, pairwise(units))]


@lru_cache(_KEPT)
def _terms_of(lump: str, tag: str) -> tuple[str, ...]:
    return tuple(term for word in _words_of(lump) for term in (_grams(word) if _is_run(word) else _terms_of_word(word, tag)))


@lru_cache(_KEPT)
def _stored_terms_of(lump: str, tag: str) -> tuple[str, ...]:
    found: list[str] = []
    for word in _words_of(lump):
        if _is_run(word):
            found += _grams(word)
            continue
        terms = _terms_of_word(word, tag)
        if tag != "vi" and not word.isascii() and _FOLDABLE.search(word):
            terms += [term for term in _terms_of_word(fold(word.casefold()), tag) if term not in terms]
        found += terms
    return tuple(found)


def _words_of(lump: str) -> list[str]:
    words: list[str] = _WORDS.findall(lump)
    return words


def _is_run(word: str) -> bool:
    """Whether it is written without spaces."""
    return word[0] >= _FIRST_SPACELESS and _IS_SPACELESS.match(word) is not None


def _terms_of_word(word: str, tag: str) -> list[str]:
    """The terms of what `_WORDS` takes for one word: a word, or several with something between them that is no space."""
    word = _plain(word, tag)
    if number := _THOUSANDS.fullmatch(word):
        return _terms_of_number(*number.groups())
    parts = [part for part in _SEPARATORS.split(word) if part.strip("'")]
    found: list[str] = []
    if len(parts) > 1 or word[-1:] in "+#":
        found.append(_whole(word, parts, tag))
    if not _INITIALS.fullmatch(word):
        for part in parts:
            found += _terms_of_part(part.strip("'"), tag)
    return list(dict.fromkeys(term[:_LONGEST] for term in found if term))


def _terms_of_number(whole: str, decimals: str | None, unit: str) -> list[str]:
    """`1,000.50` and `1.000,50` are written by different people. What comes after it is a unit or a currency: `1.000.000đ`."""
    digits = "".join(character for character in whole if character.isdigit())
    number = f"{digits}.{decimals}" if decimals else digits
    return [number, fold(unit)] if unit else [number]


def _plain(word: str, tag: str) -> str:
    """As NFKC_Casefold of Unicode has it, and with one kind of apostrophe and of digits."""
    if tag in ("tr", "az"):
        word = word.replace("I", "ı").replace("İ", "i")
    word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _IGNORED.sub("", word)).casefold())
    word = _OTHER_DIGITS.sub(lambda digit: str(unicodedata.digit(digit[0], digit[0])), word)  # newer digits than Python knows stay
    return str(_INSIDE_HEBREW.sub("", _APOSTROPHES.sub("'", word)))


def _whole(word: str, parts: list[str], tag: str) -> str:
    """The term of a compound as a whole; none where there is nothing that anybody would ask for."""
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
        return [_stemmed(part, tag), _stemmed(tail, tag)]  # d'Orsay, in a language that has no elision
    if _HEBREW.search(part):
        bare = _POINTS.sub("", part)
        return [bare, bare[1:]] if len(bare) > 3 and bare[0] in _PREFIXES else [bare]
    return [_stemmed(part, tag)]


def _stemmed(word: str, tag: str) -> str:
    is_latin = bool(_LATIN.search(word))
    stemmer = "en" if is_latin and _NOT_LATIN.fullmatch(tag) else tag
    if stemmer == "en":
        word = fold(word)  # a diacritic is for those who can type it
    if stemmer in _STEMMERS:
        with _STEMMING:
            word = _stemmer(_STEMMERS[stemmer]).stemWord(word)
    word = word.replace("'", "")
    if tag == "vi":
        return _with_tone_last(word)
    if _ARABIC.search(word):
        return str(_ARABIC_SIGNS.sub("", word)).translate(_ARABIC_LETTERS)
    return fold(word) if _FOLDABLE.search(word) else word.replace("ё", "е")


def _with_tone_last(syllable: str) -> str:
    """A syllable has one tone, and two schools of where to write it: `hòa` and `hoà`."""
    marks = unicodedata.normalize("NFD", syllable)
    tone = "".join(mark for mark in marks if mark in _TONES)
    return unicodedata.normalize("NFC", "".join(mark for mark in marks if mark not in _TONES)) + tone


_STEMMING = threading.Lock()  # a stemmer is for one thread


@cache
def _stemmer(algorithm: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(algorithm, 0)
