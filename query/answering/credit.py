"""Which passage says a statement of a reply, by its words: adds citations where a model wrote none, and corrects those
of what another passage says.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from almanac.index.lexical.analyzer import is_folded
from almanac.query.answering.figures import Stated, figures_of
from almanac.query.answering.markers import without_markers
from almanac.query.answering.sentences import language_of, sentences_of, split
from almanac.query.retrieval.overlap import Words, rarity
from almanac.schemas.results import Hit

_BORNE = 0.6  # minimum share of a statement's words in one sentence of a passage that says it
# Share of the words' weight in a passage that says the statement, below which a cited one does not: a page may talk a
# model into crediting its words to another. Far below, since a passage may say the same in other words, and only of
# statements with so many words, since few are found anywhere.
_FALSE, _LEAST_WORDS = 0.5, 4

# in which words are compared: BCP 47 tag of the analysis, and whether the statement has no diacritics
_Form = tuple[str, bool]


class Credit:
    """The passages that a reply may cite, with the words of their sentences.

    Args:
        shown: Hits by citation number.
        language: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit.
    """

    def __init__(self, shown: Mapping[int, Hit], language: str) -> None:
        self._shown, self._declared = shown, language
        self._tags = {number: language_of(hit, language) for number, hit in shown.items()}
        self._words, self._all_words, self._rarity = (
            cache(self._words_of),
            cache(self._all_words_of),
            cache(self._rarity_of),
        )

    def attributed(self, reply: str) -> str | None:
        """A reply without citation markers with one behind each sentence: that of the passage that contains at least .6
        of its words, and all its figures.

        None where there is no such passage for one of the sentences, so that the reply is unsupported.
        """
        marked, end = "", 0
        for start, stop in split(reply, next(iter(self._tags.values()), "und")):
            share, number = self._best(reply[start:stop], self._tags)
            if share < _BORNE:
                return None
            marked += f"{reply[end:stop]} [{number}]"
            end = stop
        return marked + reply[end:] if marked else None

    def corrected(self, statement: str, cited: Sequence[int]) -> list[int]:
        """The numbers to cite for a statement: `cited` without passages that hardly have its words, and none that is
        missing in another which says it; if none is left, that one.

        The fewer of the passages have a word, the more it counts here: passages about like things share most of their
        words, but not their names. Passages in several languages are compared word for word, as in none of them.
        """
        plain, numbers = without_markers(statement), list(dict.fromkeys(cited))
        tag = next(iter(self._tags.values())) if len(set(self._tags.values())) == 1 else "und"
        tags, form = dict.fromkeys(self._shown, tag), (tag, is_folded(plain))
        asked = set(Words(plain).asked(tag))
        if len(asked) < _LEAST_WORDS or min(self._borne_by(plain, number, tag) for number in numbers) == 1:
            return numbers
        share, best = self._best(plain, tags)
        if share < _BORNE:
            return numbers
        weights, known = self._rarity(form), self._all_words(best, form)
        least = _FALSE * self._borne_by(plain, best, tag, weights)
        return [
            n
            for n in numbers
            if self._borne_by(plain, n, tag, weights) >= least or (asked & self._all_words(n, form)) - known
        ] or [best]

    def _best(self, statement: str, tags: Mapping[int, str]) -> tuple[float, int]:
        """The largest share of a statement that a passage bears, and its number, the smallest of equals. `tags` are
        those that passages are analyzed by.
        """
        share, number = max(
            ((self._borne_by(statement, number, tags[number]), -number) for number in self._shown), default=(0.0, 0)
        )
        return share, -number

    def _borne_by(self, statement: str, number: int, tag: str, weights: Mapping[str, float] | None = None) -> float:
        """Maximum share, 0 to 1, of the statement's words in one sentence with its context. A sentence that lacks a
        figure of the statement counts as 0.

        A word counts by its weight, and one that no passage has as much as the heaviest. Default: all alike.
        """
        figures = figures_of(statement)
        for figure in figures:  # which stand there in other notations, too
            statement = statement.replace(figure.text, " ")
        most = max(weights.values(), default=1.0) if weights else 1.0
        asked = {word: (weights or {}).get(word, most) for word in Words(statement).asked(tag)}
        total = sum(asked.values())
        best = 0.0
        for said, words in self._words(number, (tag, is_folded(statement))):
            share = (
                sum(weight for word, weight in asked.items() if word in words) / total
                if total
                else float(bool(figures))
            )
            if share > best and (not figures or all(map(Stated([said]).has, figures))):
                best = share
        return best

    def _words_of(self, number: int, form: _Form) -> list[tuple[str, set[str]]]:
        """What a passage says: its sentences with their context, and its tags; and the words of each, in a form."""
        (tag, folded), hit = form, self._shown[number]
        texts = [f"{s.context} {s.text}" for s in sentences_of([hit], self._declared)] or [hit.readable]
        words = Words("" if folded else "é")
        return [(text, set(words.of(text, tag))) for text in [*texts, f"{hit.title} {', '.join(hit.tags)}"]]

    def _all_words_of(self, number: int, form: _Form) -> set[str]:
        return set[str]().union(*(words for _, words in self._words(number, form)))

    def _rarity_of(self, form: _Form) -> dict[str, float]:
        return rarity(self._all_words(number, form) for number in self._shown)
