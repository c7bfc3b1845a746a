"""Word overlap of a question and texts, weighted by rarity: a complement to embeddings, above all in languages that the
embedder does not cover.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain

from almanac.index.lexical.analyzer import has_folded, is_folded, remembered_tokens

# Among a few sentences "the" may be rarer than their subject; in any language, short words distinguish texts least.
_TELLING = 7  # letters from which on a word has its full weight
_REMEMBERED = 16_384  # words whose weight is remembered


def words_of(question: str, texts: Sequence[str], language: str) -> tuple[Sequence[str], list[Set[str]]]:
    """The words of a question in order, and those of each text, in the form in which they are compared: as terms of the
    lexical index of `language`, a BCP 47 tag. If the question has no diacritics at all, those of Vietnamese texts do
    not count either.
    """
    folded = has_folded(language) and is_folded(question)
    question_words, *text_words = (remembered_tokens(text, language, folded=folded) for text in (question, *texts))
    return question_words, [frozenset(words) for words in text_words]


def covered(
    words: Sequence[str], text_words: Sequence[Set[str]], weights: Mapping[str, float] | None = None
) -> list[float]:
    """For each text, the share, 0 to 1, of the weight of the question's words that it has. A word without a weight is
    ignored. `text_words` has the words of each text, `weights` are by default those of `rarity` among them.
    """
    known = rarity(text_words) if weights is None else weights
    weighed = {word: weight for word in words if (weight := known.get(word))}
    total = sum(weighed.values())
    return [
        sum(weight for word, weight in weighed.items() if word in own) / total if total else 0.0 for own in text_words
    ]


def rarity(text_words: Sequence[Set[str]]) -> dict[str, float]:
    """Weights of the words of texts, above 0: the inverse document frequency of BM25, reduced for words of less than 7
    letters without a digit.
    """
    counts, total = Counter(chain.from_iterable(text_words)), len(text_words)
    by_count = {count: math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in set(counts.values())}
    return {word: _weight(word) * by_count[count] for word, count in counts.items()}


@lru_cache(_REMEMBERED)
def _weight(word: str) -> float:
    return 1.0 if not word.isalpha() and any(c.isdigit() for c in word) else min(1.0, len(word) / _TELLING)
