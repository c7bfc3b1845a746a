"""Kin of words: two of which one begins with the other, such as `depart` and `departure`, `Straßenbahn` and
`Straßenbahnlinie`.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

_STEM = 5  # least letters of the shorter one


class Kin:
    """Words of a question, whose kin are sought among those of many texts."""

    def __init__(self, words: Iterable[str]) -> None:
        long = [word for word in words if len(word) >= _STEM]
        self._words = [(word, f"\n{word}", [word[:end] for end in range(_STEM, len(word))]) for word in long]

    def among(self, others: AbstractSet[str], joined: str | None = None) -> list[str]:
        """Returns those of the words that have kin among `others`, or are among them. `joined` is `joined_words` of
        these, where that is known.
        """
        if not self._words:
            return []
        text = joined_words(others) if joined is None else joined
        return [word for word, line, beginnings in self._words if line in text or not others.isdisjoint(beginnings)]


def joined_words(words: Iterable[str]) -> str:
    """Returns words as one text, each behind a line break: one search through it finds a word that begins like another
    one.
    """
    return "\n".join(["", *words])
