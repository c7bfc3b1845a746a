"""How much of a question's words a text has: what stands beside the embedding where that does not know the language."""

import math
from collections.abc import Iterable, Mapping, Sequence

from almanac.index.lexical.analyzer import folded_tokens, has_folded, is_folded, tokens


class Words:
    """The words of texts as they compare with those of one question, or of one statement.

    They are the terms of the lexical index; a Vietnamese question that was typed without diacritics finds words that have them.
    """

    def __init__(self, question: str) -> None:
        self.question = question
        self._is_folded = is_folded(question)

    def asked(self, language: str) -> list[str]:
        """The question's, read as one in the text's language."""
        return self.of(self.question, language)

    def of(self, text: str, language: str) -> list[str]:
        return folded_tokens(text) if self._is_folded and has_folded(language) else tokens(text, language)


# Among a few sentences "the" may be rarer than what they are about; in any language the short words are the ones that tell least.
_TELLING = 7  # letters


def rarity(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Word → how much it tells among these texts, above 0: the inverse document frequency of BM25, less for short words."""
    counts: dict[str, int] = {}
    total = 0
    for text in texts:
        total += 1
        for word in set(text):
            counts[word] = counts.get(word, 0) + 1
    return {word: _weight(word) * math.log(1 + (total - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def _weight(word: str) -> float:
    return 1.0 if any(c.isdigit() for c in word) else min(1.0, len(word) / _TELLING)


def coverage(asked: Sequence[str], found: Mapping[str, float], rare: Mapping[str, float]) -> float:
    """The share, 0 to 1, of the asked words' weight that `found` has; `found` says for each word how fully it counts.

    Words that stand in none of the texts compared weigh nothing: they favour none of them.
    """
    weights = {word: rare.get(word, 0.0) for word in asked}
    total = sum(weights.values())
    return sum(weight * found.get(word, 0.0) for word, weight in weights.items()) / total if total else 0.0
