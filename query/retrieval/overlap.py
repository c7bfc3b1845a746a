"""Word overlap of a question and a text, weighted by rarity: a complement to embeddings, above all in languages that the embedder does not cover."""

import math
from collections.abc import Iterable, Mapping, Sequence

from almanac.index.lexical.analyzer import has_folded, is_folded, remembered_tokens


class Words:
    """Extracts the words of texts in the form in which they are compared with those of one question, or of one statement.

    Words are the terms of the lexical index. If a question has no diacritics at all, Vietnamese texts are compared without theirs.
    """

    def __init__(self, question: str) -> None:
        self.question = question
        self._is_folded = is_folded(question)

    def asked(self, language: str) -> Sequence[str]:
        """Words of the question, analyzed by the rules of `language`, a BCP 47 tag."""
        return self.of(self.question, language)

    def of(self, text: str, language: str) -> Sequence[str]:
        """Words of a text, in order, analyzed by the rules of `language`, a BCP 47 tag."""
        return remembered_tokens(text, language, folded=self._is_folded and has_folded(language))


# Among a few sentences "the" may be rarer than their subject; in any language, short words distinguish texts least.
_TELLING = 7  # letters from which on a word has its full weight


def rarity(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Weights of the words of these texts, above 0: the inverse document frequency of BM25, reduced for words of less than 7 letters without a digit."""
    counts: dict[str, int] = {}
    total = 0
    for text in texts:
        total += 1
        for word in set(text):
            counts[word] = counts.get(word, 0) + 1
    return {word: _weight(word) * math.log(1 + (total - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def _weight(word: str) -> float:
    return 1.0 if not word.isalpha() and any(c.isdigit() for c in word) else min(1.0, len(word) / _TELLING)


def coverage(asked: Sequence[str], found: Mapping[str, float], rare: Mapping[str, float]) -> float:
    """Share, 0 to 1, of the weight of the question's words that a text covers.

    Args:
        asked: Words of the question.
        found: Words of the text with the degree, 0 to 1, to which each counts.
        rare: Weights of words, as from `rarity`. A word without a weight, which occurs in none of the compared texts, is ignored.
    """
    weights = {word: rare.get(word, 0.0) for word in asked}
    total = sum(weights.values())
    return sum(weight * found.get(word, 0.0) for word, weight in weights.items()) / total if total else 0.0
