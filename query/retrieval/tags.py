"""Tags in retrieval: the tags that a question names, the tags related to them, and how well the tags of a chunk match
both.

Clusters of tags are not declared but derived from co-occurrence: two tags are related if the tag sets with both are at
least a fifth of those with either.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

_NAMED = 5  # maximum number of tags named by a question, where they are determined by embedding
_TOGETHER = 0.2  # minimum Jaccard index of two related tags: distinct tag sets with both / with either
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class QuestionTags:
    """Tags that a question names, and tags related to them, both sorted. Without named tags, scores do not depend on
    tags.
    """

    named: tuple[str, ...] = ()
    related: tuple[str, ...] = ()

    def match(self, tags: Sequence[str]) -> float:
        """Share, 0 to 1, of the named tags that are among a chunk's `tags`."""
        return len(set(self.named) & set(tags)) / len(self.named) if self.named else 0.0

    def alignment(self, tags: Sequence[str]) -> float:
        """Share, 0 to 1, of a chunk's `tags` that are named or related."""
        return len({*self.named, *self.related} & set(tags)) / len(set(tags)) if tags and self.named else 0.0


class TagIndex:
    """Index of the tags of a set of chunks, such as those of a version or of one workspace. `rows` has the tags of each
    chunk.

    `names` are the distinct tags, sorted.
    """

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        counts: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        # each distinct set once, since the chunks of a page have the same one
        for tags in {tuple(sorted(set(row))) for row in rows}:
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
        """Determines the tags that a question names.

        A question names each tag whose words it all contains, regardless of case, diacritics and the plural s of
        English. Where there is none, it names the tags whose names are most similar to it by embedding, at most five.

        Args:
            question: Text of the question.
            cosines_of_names: Gives the cosines of the question's vector to the embedded tag names, float32 (n,), in the
                order of `names`. Called only where no tag is contained in the question, since embedding the names is
                expensive. None: tags are matched by their words alone.
            floor: Minimum cosine of a tag named by embedding, -1 to 1.
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
    """Words of a text, normalized for comparison: case-folded, without diacritics, without the plural s of English."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(c))
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in _WORD.findall(folded.replace("_", " "))
    ]
