"""Which passage says a statement of a reply, by its words: adds citations where a model wrote none, and corrects those
of what another passage says.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from almanac.index.lexical.analyzer import is_folded
from almanac.query.answering.figures import Stated, is_supported, stated_by, without_figures
from almanac.query.answering.markers import without_markers
from almanac.query.answering.sentences import language_of, sentences_of
from almanac.query.retrieval.overlap import Words, rarity
from almanac.schemas.results import Hit

_BORNE = 0.6  # minimum share of a statement's words in one sentence of a passage that says it
# Share of the words' weight in a passage that says the statement, below which a cited one does not: a page may talk a
# model into crediting its words to another. Far below, since a passage may say the same in other words, and only of
# statements with so many words, since few are found anywhere.
_FALSE, _LEAST_WORDS = 0.5, 4


class Credit:
    """The passages that a reply may cite. `shown` are hits by citation number, `language` is the declared one. Passages
    in several languages are compared word for word, as in none of them.
    """

    def __init__(self, shown: Mapping[int, Hit], language: str) -> None:
        tags = {language_of(hit, language) for hit in shown.values()}
        self._shown, self._declared, self._tag = shown, language, tags.pop() if len(tags) == 1 else "und"
        self._said = cache(self._said_by)

    def best(self, statement: str) -> int | None:
        """The number of the passage that has the most of a statement's words in one sentence, at least .6 of them, with
        all its numbers; None without one.
        """
        shares = self._shares(statement)
        number = max(shares, key=lambda n: (shares[n], -n), default=0)
        return number if shares.get(number, 0.0) >= _BORNE else None

    def corrected(self, statement: str, cited: Sequence[int]) -> list[int]:
        """The numbers to cite for a statement: `cited` without passages that hardly have its words, and none that is
        missing in another which says it; if none is left, that one.

        The fewer of the passages have a word, the more it counts here: passages about like things share most of their
        words, but not their names.
        """
        plain, numbers = without_markers(statement), list(dict.fromkeys(cited))
        asked, shares, best = set(Words(plain).asked(self._tag)), self._shares(plain), self.best(plain)
        if len(asked) < _LEAST_WORDS or best is None or min(shares[number] for number in numbers) == 1:
            return numbers
        words = {n: set[str]().union(*(found for _, found in said)) for n, said in self._said(is_folded(plain)).items()}
        weighed = self._shares(plain, rarity(words.values()))
        return [
            number
            for number in numbers
            if weighed[number] >= _FALSE * weighed[best] or asked & words[number] - words[best]
        ] or [best]

    def _shares(self, statement: str, weights: Mapping[str, float] | None = None) -> dict[int, float]:
        """For each passage the maximum share, 0 to 1, of the statement's words in one sentence with its context; 0 for
        sentences that lack one of its numbers. A word counts by its weight, and one that no passage has as much as the
        heaviest. Default: all alike.
        """
        most = max(weights.values(), default=1.0) if weights else 1.0
        words = Words(without_figures(statement)).asked(self._tag)
        asked = {word: (weights or {}).get(word, most) for word in words}
        total = sum(asked.values()) or 1.0

        def share(stated: Stated, found: set[str]) -> float:
            borne = sum(weight for word, weight in asked.items() if word in found) / total if asked else 1.0
            return borne if borne and is_supported(statement, stated) else 0.0

        return {n: max(share(*one) for one in said) for n, said in self._said(is_folded(statement)).items()}

    def _said_by(self, folded: bool) -> dict[int, list[tuple[Stated, set[str]]]]:
        """By passage, its sentences with their context, and its title and tags: their numbers, and their words."""
        words, found = Words("" if folded else "é"), {}
        for number, hit in self._shown.items():
            texts = [f"{s.context} {s.text}" for s in sentences_of([hit], self._declared)] or [hit.readable]
            texts.append(f"{hit.title} {', '.join(hit.tags)}")
            found[number] = [(stated_by([text]), set(words.of(text, self._tag))) for text in texts]
        return found
