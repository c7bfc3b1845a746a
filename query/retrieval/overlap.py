"""Word overlap of a question and a text, weighted by rarity: a complement to embeddings, above all in languages that
the embedder does not cover.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from almanac.index.lexical.analyzer import has_folded, is_folded, remembered_tokens


class Words:
    """Extracts the words of texts in the form in which they are compared with those of one question, or of one
    statement.

    Words are the terms of the lexical index. If a question has no diacritics at all, Vietnamese texts are compared
    without theirs.
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
_REMEMBERED = 16_384  # words whose weight is remembered


def rarity(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Weights of the words of these texts, above 0: the inverse document frequency of BM25, reduced for words of less
    than 7 letters without a digit.
    """
    found = [set(text) for text in texts]
    counts, total = Counter(chain.from_iterable(found)), len(found)
    by_count = {count: math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in set(counts.values())}
    return {word: _weight(word) * by_count[count] for word, count in counts.items()}


@lru_cache(_REMEMBERED)
def _weight(word: str) -> float:
    return 1.0 if not word.isalpha() and any(c.isdigit() for c in word) else min(1.0, len(word) / _TELLING)


class WeighedWords:
    """The words of a question, each with its weight, which texts are compared with.

    Args:
        words: The words.
        rare: Weights of words, as from `rarity`. A word without a weight, which occurs in none of the compared texts,
            is ignored.
    """

    def __init__(self, words: Sequence[str], rare: Mapping[str, float]) -> None:
        self._weights = [(word, weight) for word in dict.fromkeys(words) if (weight := rare.get(word))]
        self._total = sum(weight for _, weight in self._weights)

    def covered(self, found: Mapping[str, float]) -> float:
        """Share, 0 to 1, of their weight that a text covers. `found` has its words, with the degree, 0 to 1, to which
        each counts.
        """
        return (
            sum([weight * found.get(word, 0.0) for word, weight in self._weights]) / self._total if self._total else 0.0
        )

    def covered_by(self, words: Collection[str]) -> float:
        """Share, 0 to 1, of their weight that a text covers each of whose words counts."""
        return sum([weight for word, weight in self._weights if word in words]) / self._total if self._total else 0.0
