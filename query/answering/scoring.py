"""Scores of sentences as answers to a question: by meaning, by the question's words, and by whether they hold the kind
of thing that it asks for.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.query.answering.asked import Part, holds_any, named_in
from almanac.query.answering.asked_words import Kinds
from almanac.query.answering.figure_words import NOT
from almanac.query.answering.sentences import Sentence
from almanac.query.retrieval.kin import Kin
from almanac.query.retrieval.overlap import WeighedWords, Words, rarity

Floats = npt.NDArray[np.float32]

# What is weighed, in standard deviations of the cosines of a question's sentences: embedders differ in how far these
# lie apart, by a factor of four. Share of replies of at most 400 characters with the answer, of all answerable
# questions: 162 over the examples, 450 of XQuAD (en, es, vi), each with both embedders: examples e5  MiniLM      XQuAD
# e5  MiniLM as implemented                              .660     .586         .844     .798 without kin of words
# (_ALIKE, labels too)   .660     .586         .840     .800   (as in the rows below) without _HOLDS
# .636     .568         .840     .796 without _IN_VERSION                         .648     .562         .851     .784
# without _AMONG_HITS                         .648     .580         .844     .789 without _HIT
# .660     .580         .840     .796 without the smaller ones, below _TITLE      .642     .580         .840     .798
# raw cosine and overlap among hits alone     .562     .469         .702     .713   (and up to 1,200 characters) Weights
# were chosen on these questions: larger ones near a softmax regression on which sentence has the answer, _TITLE, _NAMES
# and _BESIDE by hand. Half to twice as large, those tried (not _TITLE, where nothing changes up to 3) changed a share
# by .012 at most. On 143 questions of ClapNQ that took no part, with MiniLM, a sentence that judges selected was quoted
# for .888, measured without kin of words, and for .643 as in the last row.
_SPREAD = 0.01  # added to that deviation: two sentences are not far apart because there are no others
# overlap with the question, words weighted by their rarity in the version, those of the context counted in part
_IN_VERSION = 3.0
_IN_CONTEXT, _BEFORE = 0.8, 0.3
_ALIKE = 0.6  # how much a word counts of which a sentence has kin (`query.retrieval.kin`)
_AMONG_HITS = 1.5  # overlap of the sentence's own words, weighted by their rarity among the sentences
_HOLDS = 1.3  # for a sentence with what is asked for; as much less for one without
_HIT = 1.5  # for the relevance of the hit, relative to the best one
# less for each share of the question that the title of another hit has, and that of the sentence's hit has not
_TITLE = 3.0
# share of what the first part has of a title, up to which another part is about the things that the first one names
_BARELY = 0.5
_RULES = 0.5  # for a sentence that allows, forbids or denies, where the question is answered by yes or no
_LABELLED = 1.2  # for a label that the question asks for: "Battery: …"
_FIELD = 2.0  # times as much for a record's field that is what is asked for: "Price: …" where something costs
# less for a short field of a record whose label the question does not have, "Updated: …"; where it holds what is asked
# for
_BESIDE, _BESIDE_HELD = 3.0, 0.5
_NAMES = 0.6  # for a name that the question does not have, where it asks for a person or a place
_UNENDED = 0.6  # less for a line without a full stop: most are headings, or parts of lists
_RULE = re.compile(
    rf"{NOT}|\b(?:must|may|can|only|allowed|forbidden|permitted|required|free|yes|always|everyone|interdit\w*|auto"
    r"ris\w*|permis\w*|accept\w*|peut|peuvent|doit"
    r"|doivent|défendu\w*|uniquement|oui|darf|dürfen|muss|müssen|verboten|erlaubt|ja|puede|pueden|prohibid\w*|"
    r"permitid\w*|debe|sí|può|possono|vietat\w*|deve"
    r"|pode|podem|proibid\w*|mag|mogen|moet|moeten|verboden|được|phải|cấm|можно|нельзя|должен|должны)\b|(?<!\w"
    r")(?:מותר|אסור|ניתן|אפשר|חובה|כן)(?!\w)|可以|必须|禁止",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?:\*\*)?([^\W\d_][^.!?:：。|\n]{0,38})(?:\*\*)?(?:[:：]| \|)\s")
# words in mid-sentence, where a name begins with a capital letter
_INNER = re.compile(r"(?<=[\w,:(“\"«] )[^\W\d_][\w’'-]+")
_NAMED_KINDS: Kinds = frozenset({"person", "place"})
_END = re.compile(r"[.!?…。！？؟।։။។።][\"'”’»)\]*_]*$")


class Scored(NamedTuple):
    """Sentences scored as answers to one part of a question, each (n,): cosines, overlaps from 0 to 1, whether each
    holds what is asked for, and scores.

    `holds` has None where that cannot be told. Scores compare within one question.
    """

    cosines: Floats
    overlaps: Floats
    holds: list[bool | None]
    scores: Floats


class _Label(NamedTuple):
    """The words of a sentence's label, and which of them name a kind of thing: of "Price per person" the first one.
    Empty where it has none.
    """

    words: set[str]
    naming: list[tuple[Kinds, set[str]]]

    @classmethod
    def of(cls, text: str, words: Words, tag: str) -> "_Label":
        found = _LABEL.match(text)
        if found is None:
            return cls(set(), [])
        own = set(words.of(found[1], tag))
        return cls(own, [(kinds, own.intersection(words.of(name, tag))) for kinds, name in named_in(found[1])])

    def named(self, kinds: Kinds) -> set[str]:
        """Its words that name one of these kinds."""
        return {word for named, words in self.naming if named & kinds for word in words}


class Compared:
    """The sentences of a question, made ready to be compared with its parts.

    Args:
        sentences: The sentences, in reading order within a passage.
        tags: BCP 47 tag of the language of each.
        relevance: Relevance of each sentence's hit, relative to the best one, 0 to 1.
        titles: Title of each sentence's hit.
        words: Extracts words in the form in which they are compared with the question's.
        weights: Rarity of the question's words in the version; empty where it is not known.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        tags: Sequence[str],
        relevance: Floats,
        titles: Sequence[str],
        words: Words,
        weights: Mapping[str, float],
    ) -> None:
        self.sentences, self.tags, self.words, self._relevance = sentences, tags, words, relevance
        self._titles = list(zip(titles, tags, strict=True))
        self._of_titles = {(title, tag): set(words.of(title, tag)) for title, tag in dict.fromkeys(self._titles)}
        self.own = [set(words.of(s.text, tag)) for s, tag in zip(sentences, tags, strict=True)]
        self._labels = [_Label.of(s.text, words, tag) for s, tag in zip(sentences, tags, strict=True)]
        self._counted: list[dict[str, float]] = []
        for number, (sentence, tag) in enumerate(zip(sentences, tags, strict=True)):
            before = self.own[number - 1] if number and sentences[number - 1].passage == sentence.passage else ()
            context = dict.fromkeys(words.of(sentence.context, tag), _IN_CONTEXT)
            self._counted.append({**dict.fromkeys(before, _BEFORE), **context, **dict.fromkeys(self.own[number], 1.0)})
        self._rare = rarity(self._counted)
        self._weights = weights or self._rare

    def overlaps(self, text: str) -> Floats:
        """Share of the weight of the words of `text` that each sentence has, with its context."""
        asked = self._weighed(text, self._weights)
        kin = {tag: Kin(self.words.of(text, tag)) for tag in asked}
        rows = zip(self.tags, self._counted, self.own, strict=True)
        found = [
            asked[tag].covered({**dict.fromkeys(kin[tag].among(own), _ALIKE), **counted}) for tag, counted, own in rows
        ]
        return np.array(found, dtype=np.float32)

    def _weighed(self, text: str, rare: Mapping[str, float]) -> dict[str, WeighedWords]:
        """The words of `text`, by the tag of the language of sentences that they are compared with."""
        return {tag: WeighedWords(self.words.of(text, tag), rare) for tag in set(self.tags)}

    def overlap_so_far(self, number: int, part: Part, begin: Callable[[int], bool]) -> float:
        """Share of the weight of the part's words that a sentence has with those before it in its paragraph, those of
        the context counted in part.

        `begin` says of the number of a sentence before it whether what is said from there on is about something else.
        """
        place = (self.sentences[number].passage, self.sentences[number].paragraph)
        earlier = takewhile(
            lambda n: not begin(n) and (self.sentences[n].passage, self.sentences[n].paragraph) == place,
            range(number - 1, -1, -1),
        )
        found = {
            **self._counted[number],
            **dict.fromkeys((word for n in (number, *earlier) for word in self.own[n]), 1.0),
        }
        return WeighedWords(self.words.of(part.text, self.tags[number]), self._weights).covered(found)

    def scored(self, part: Part, cosines: Floats, about: str) -> Scored:
        """The sentences scored for a part of the question. `cosines` are those of the sentences in their context with
        it.

        `about` is the first part, which may name what the others are about: "What does the junk cost, and who is its
        captain?"
        """
        asked = {tag: set(self.words.of(part.text, tag)) for tag in set(self.tags)}
        overlaps, weighed = self.overlaps(part.text), self._weighed(part.text, self._rare)
        among = [weighed[tag].covered_by(own) for tag, own in zip(self.tags, self.own, strict=True)]
        holds = [
            _held(s.text, label.named(part.kinds), part) for s, label in zip(self.sentences, self._labels, strict=True)
        ]
        scores = (
            (cosines - cosines.mean()) / (cosines.std() + _SPREAD)
            + _IN_VERSION * overlaps
            + _AMONG_HITS * np.array(among)
            + _HIT * self._relevance
        )
        named = self._named_by_title(part.text)
        if part.text != about and named.max() < _BARELY * (first := self._named_by_title(about)).max():
            named = first
        scores += _TITLE * (named - named.max())
        scores += [self._bonus(number, part, held, asked[self.tags[number]]) for number, held in enumerate(holds)]
        return Scored(cosines, overlaps, holds, scores.astype(np.float32))

    def _named_by_title(self, text: str) -> Floats:
        """Share of the weight of the words of `text` that the title of each sentence's hit has."""
        asked = self._weighed(text, self._weights)
        shares = {(title, tag): asked[tag].covered_by(words) for (title, tag), words in self._of_titles.items()}
        return np.array([shares[one] for one in self._titles], dtype=np.float32)

    def is_asked_field(self, number: int, part: Part) -> bool:
        """Whether a sentence is a field of a record whose label says what is asked for, and nothing besides: "Price:
        72.95" where something costs.
        """
        label = self._labels[number]
        named = label.named(part.kinds)
        return (
            self.sentences[number].is_field
            and bool(named)
            and label.words <= named.union(self.words.of(part.text, self.tags[number]))
        )

    def _bonus(self, number: int, part: Part, held: bool | None, asked: set[str]) -> float:
        sentence, label = self.sentences[number], self._labels[number]
        found = 0.0 if held is None else _HOLDS if held else -_HOLDS
        if "yes or no" in part.kinds and _RULE.search(sentence.text):
            found += _RULES
        own = label.words
        share = len((own & asked).union(Kin(own).among(asked), label.named(part.kinds))) / len(own) if own else 0.0
        found += _LABELLED * share * (_FIELD if sentence.is_field and label.named(part.kinds) else 1.0)
        if sentence.is_field:
            found -= (1 - share) * (_BESIDE_HELD if held else _BESIDE)
        names = (
            [word for word in _INNER.findall(sentence.text) if word[0].isupper()] if part.kinds & _NAMED_KINDS else ()
        )
        if any(not asked.intersection(self.words.of(name, self.tags[number])) for name in names):
            found += _NAMES
        return found - (0.0 if own or _END.search(sentence.text) else _UNENDED)


def _held(text: str, named: Collection[str], part: Part) -> bool | None:
    """Whether a sentence holds what is asked for, also a number behind a label that names that: "Dauer in Tagen: 7".

    Of a row of a table with a figure that cannot be told: its unit may stand in the head.
    """
    held = holds_any(text, part.kinds, part.text)
    if held is False and named and any(c.isdigit() for c in text):
        return True
    return None if held is False and " | " in text and any(c.isdigit() for c in text) else held
