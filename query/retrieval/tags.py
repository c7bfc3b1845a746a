"""What tags tell about a question: which it names, which lie close to those, and how well a chunk's tags answer to both.

A cluster of tags is not declared but seen: tags that stand on the same pages belong together, the more so the rarer they are apart.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

_NAMED = 5  # tags that a question is taken to name, at most, where only their meaning says so
_TOGETHER = 0.2  # of the pages with either tag, those with both: from here on two tags belong to one cluster
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class QuestionTags:
    """Tags that a question names, and those of their clusters. Without any, tags play no part in the search."""

    named: tuple[str, ...] = ()
    related: tuple[str, ...] = ()

    def match(self, tags: Sequence[str]) -> float:
        """Share of the named tags that a chunk has."""
        return len(set(self.named) & set(tags)) / len(self.named) if self.named else 0.0

    def alignment(self, tags: Sequence[str]) -> float:
        """Share of a chunk's tags that belong to the clusters of the named ones."""
        return len({*self.named, *self.related} & set(tags)) / len(set(tags)) if tags and self.named else 0.0


class TagIndex:
    """The tags of one version's chunks; `rows` has those of each chunk, in chunk order."""

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        counts: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for tags in {tuple(sorted(set(row))) for row in rows}:  # chunks of one page say the same of it once
            counts.update(tags)
            pairs.update(combinations(tags, 2))
        self.names = sorted(counts)
        self._words = {name: frozenset(_words(name)) for name in self.names}
        self._related: dict[str, set[str]] = defaultdict(set)
        for (one, other), both in pairs.items():
            if both / (counts[one] + counts[other] - both) >= _TOGETHER:
                self._related[one].add(other)
                self._related[other].add(one)

    def tags_of(self, question: str, cosines_of_names: Callable[[], np.ndarray] | None, floor: float) -> QuestionTags:
        """Tags whose words all stand in the question; where there is none, the nearest by meaning whose cosine reaches `floor`.

        `cosines_of_names` gives the cosine of the question to each of `names`, shape (n,).
        """
        asked = set(_words(question))
        named = [name for name in self.names if self._words[name] and self._words[name] <= asked]
        if not named and cosines_of_names is not None and self.names:
            cosines = cosines_of_names()
            order = np.argsort(-cosines, kind="stable")[:_NAMED]
            named = sorted(self.names[i] for i in order if cosines[i] >= floor)
        related = sorted({other for name in named for other in self._related[name]} - set(named))
        return QuestionTags(tuple(named), tuple(related))


def _words(text: str) -> list[str]:
    """Words as they compare: without case and diacritics, and without the plural of English."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(c))
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in _WORD.findall(folded.replace("_", " "))]
