"""Misspelt words of a question: each is replaced by the nearest word of the texts that are searched, if neither they
nor its language know it as it is.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from itertools import islice, takewhile
from threading import RLock
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.core.computed_once import computed_once
from almanac.core.given_up import require_wanted
from almanac.index.lexical.analyzer import fold, primary_tag
from almanac.query.retrieval.word_frequencies import word_frequencies

_LEAST = 5  # letters of a word that is replaced: shorter ones have a neighbour in every language
# edits (insert, delete, replace, swap neighbours) to the nearest word; letters from which on two are allowed
_LONG, _NEAR, _NEAR_OF_LONG = 8, 1, 2
_CLEARLY = 4  # times as frequent is the word that is taken, of several that are equally near
_NOUN = 7  # letters of a German noun that is replaced: with fewer, `Rotor` has a neighbour, too
_ENDING = 3  # letters at the end, in which two edits make another form: German "restaurieren", "restauriert"
_PART = 4  # least letters of each part of a compound
# between the parts of a compound, in German, Dutch and the languages of the north
_JOINTS = ("", "s", "es", "n", "en", "e")
# languages that write compounds as one word
_COMPOUNDING = frozenset(("de", "nl", "sv", "da", "no", "is", "fi", "hu", "et"))
_BATCH = 1000  # texts read at a time
# words of a question that are looked for, of those that nobody knows: one takes up to 25 ms among 100,000 words
_MOST = 20
_BEFORE = 100  # characters before a word that tell whether it is a German noun

# no part of a code, address or compound
_WORD = regex.compile(r"(?<![\p{L}\p{M}\p{N}_@./·-])\p{L}[\p{L}\p{M}]{4,}(?![\p{L}\p{M}\p{N}_@/·-]|[.'’]\p{L})")
_STORED = regex.compile(r"\p{L}[\p{L}\p{M}]{3,}")
_SPACELESS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_SENTENCE_ENDS = regex.compile(r"[.!?…:]\s")
# German writes every noun with a capital; after one of these, and at most one more word, it is a noun and hardly a
# name.
_BEFORE_NOUN = regex.compile(
    r"(?<!\p{L})(?:de[rsmn]|das|die|ein(?:e[rsmn]?)?|kein(?:e[rsmn]?)?|(?:mein|dein|sein|ihr|unser|eu(?:e)?r)(?:e["
    r"rsmn]?)?|i[mn]s?|[av]om|am|ans|zu[mr]|bei"
    r"|beim|welche[rsmn]?|jede[rsmn]?|diese[rsmn]?|viele?|pro|mit|ohne|für)(?:\s+\p{Ll}+)?\s+$",
    regex.IGNORECASE,
)
_HEBREW_PREFIXES = frozenset("משהוכלב")


class Respelt(NamedTuple):
    """A question with its misspelt words replaced; `replaced` maps each to what stands for it, in their order."""

    text: str
    replaced: dict[str, str]

    def applied(self, text: str) -> str:
        """Another text of the same words, with the same replacements."""
        return str(_WORD.sub(lambda match: self.replaced.get(match[0], match[0]), text))


class Vocabulary:
    """The words of texts, of four letters and more, without those in scripts that have no spaces. Read on first use;
    safe to share among threads.
    """

    def __init__(self, texts: Callable[[], Iterable[str]]) -> None:
        self._texts, self._lock = texts, RLock()

    def nearest(self, word: str, is_same: Callable[[str, str], bool]) -> str | None:
        """The word nearest to a misspelt one, in lower case, with its diacritics; None where none is near, or several
        are that mean different things.

        Diacritics do not count, but between words that differ by them alone. Of words that are equally near, those with
        the same first letter come first, then the one that is four times as frequent as the next; `is_same` tells
        whether two are forms of one word, of which the more frequent one is taken.
        """
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        words = self._words
        plain = _plain(word)
        if plain in words:  # with other diacritics, which a search does not heed
            return None
        most = _NEAR_OF_LONG if len(plain) >= _LONG else _NEAR
        found = extract(plain, self._listed, scorer=OSA.distance, score_cutoff=most, limit=None)
        near = [(distance, one) for one, distance, _ in found if _may_mean(plain, one, int(distance))]
        near = [(distance, one) for distance, one in near if one[0] == plain[0]] or near
        equally = [one for distance, one in near if distance == min(near)[0]]
        spelt = {
            one: min(self._words[one].items(), key=lambda of: (OSA.distance(word.lower(), of[0]), -of[1], of[0]))[0]
            for one in equally
        }
        counts = {one: sum(self._words[one].values()) for one in equally}
        best = min(equally, key=lambda one: (-counts[one], one), default=None)
        if best is None or any(
            counts[best] < _CLEARLY * counts[one] and not is_same(spelt[best], spelt[one])
            for one in equally
            if one != best
        ):
            return None
        return spelt[best]

    @computed_once
    def _listed(self) -> list[str]:
        return sorted(self._words)

    @computed_once
    def _words(self) -> dict[str, dict[str, int]]:
        """Word without diacritics → its spellings, with how often each occurs."""
        counts: Counter[str] = Counter()
        for batch in _batches(self._texts()):
            counts.update(_STORED.findall(unicodedata.normalize("NFC", "\n".join(batch)).lower()))
        words: dict[str, dict[str, int]] = {}
        for word, count in counts.items():
            if not _SPACELESS.search(word):
                words.setdefault(fold(word), {})[word] = count
        return words


def _may_mean(typed: str, word: str, edits: int) -> bool:
    """Whether somebody may have meant a word that is `edits` away. Beginnings are hardly mistyped, and another ending
    is another form of a word.
    """
    if typed[0] != word[0] and (len(typed) < _LONG or edits > 1):
        return False
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(typed, word, strict=False)))
    has_other_end = (len(typed) == len(word) == same + 1) or (
        edits > 1 and max(len(typed), len(word)) - same <= _ENDING
    )
    return not has_other_end or sorted(typed) == sorted(word)


def respell(
    question: str,
    vocabulary: Vocabulary,
    is_indexed: Callable[[str], bool],
    is_same: Callable[[str, str], bool],
    tags: Collection[str],
) -> Respelt:
    """Replaces the misspelt words of a question.

    A word is misspelt that neither the index nor one of the languages knows, and that is near to a word of the index.
    Words of less than five letters, with a digit, in a script without spaces, and names are left as they are: a word
    with a capital that begins no sentence is a name, but for German nouns after an article. So is every word where all
    are in capitals.

    Args:
        question: The question.
        vocabulary: The words of the texts that are searched.
        is_indexed: Whether a search for a word finds anything.
        is_same: Whether two words are forms of one, for a search.
        tags: BCP 47 tags of the languages of question and texts.
    """
    replaced: dict[str, str] = {}
    sought: dict[str, str | None] = {}
    parts: list[str] = []
    end = 0
    for match in _WORD.finditer(question):
        word = match[0]
        if (
            word not in sought
            and len(sought) < _MOST
            and _is_candidate(question, match.start(), word, tags)
            and not (is_indexed(word) or is_known(word, tags))
        ):
            require_wanted()
            sought[word] = vocabulary.nearest(word, is_same)
        if (nearest := sought.get(word)) is not None:
            replaced[word] = (
                nearest if word[0].islower() or not nearest[0].islower() else nearest[0].upper() + nearest[1:]
            )
            parts += [question[end : match.start()], replaced[word]]
            end = match.end()
    return Respelt("".join([*parts, question[end:]]), replaced)


def is_known(word: str, tags: Collection[str]) -> bool:
    """Whether one of the languages knows a word: it is among its some 30,000 most frequent ones, or is made of two of
    these.
    """
    plain = unicodedata.normalize("NFC", word).casefold()
    return any(_knows(primary_tag(tag), plain) for tag in tags)


def _knows(tag: str, word: str) -> bool:
    known = _words_of(tag)
    if word in known or fold(word) in known:
        return True
    if tag == "he":
        return any(
            set(word[:end]) <= _HEBREW_PREFIXES and word[end:] in known for end in (1, 2) if len(word) - end >= 3
        )
    return tag in _COMPOUNDING and any(
        word[begin:] in known
        and any(word[:begin].removesuffix(joint) in known for joint in _JOINTS if word[:begin].endswith(joint))
        for begin in range(_PART, len(word) - _PART + 1)
    )


def _is_candidate(question: str, begin: int, word: str, tags: Collection[str]) -> bool:
    if _SPACELESS.search(word):
        return False
    if word.islower() or not (word[0].isupper() or word[0].istitle()):
        return True
    if not word[1:].islower():
        return False  # LED, iPhone
    is_noun = (
        len(word) >= _NOUN
        and "de" in map(primary_tag, tags)
        and _BEFORE_NOUN.search(question, max(0, begin - _BEFORE), begin) is not None
    )
    return is_noun or _begins_sentence(question, begin)


def _begins_sentence(text: str, begin: int) -> bool:
    """Whether nothing but punctuation and white space stands between here and the end of a sentence, or the beginning
    of the text.
    """
    end = begin
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1]).startswith("P")):
        end -= 1
    return not end or _SENTENCE_ENDS.search(text, end, begin) is not None


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH)):
        yield batch


def _plain(word: str) -> str:
    return fold(unicodedata.normalize("NFC", word).lower())


@cache
def _words_of(tag: str) -> frozenset[str]:
    """The most frequent words of a language, of four letters and more; none for a language without a word list."""
    return frozenset(word for word in word_frequencies(tag) if len(word) >= _PART - 1)
