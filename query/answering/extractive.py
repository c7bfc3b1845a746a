"""Extractive answers: the sentences of the hits that answer a question best, verbatim and in reading order, each with its hit."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.index.embedding.embedder import Embedder
from almanac.index.lexical.analyzer import fold
from almanac.query.answering.asked import asked_parts, holds_any
from almanac.query.answering.sentences import Sentence, language_of, sentences_of
from almanac.query.retrieval.overlap import Words, coverage, rarity
from almanac.schemas.reports import Hit

if TYPE_CHECKING:
    from almanac.index.lexical.reader import AnalyzedQuery

_SENTENCES = 3
_CHARACTERS = 1200  # maximum length of a reply; further sentences are for a short answer with more than one part
# A further sentence is added only if it scores nearly as well as the best one. One of another passage, which may be about something else, has to score even
# better and to have at least half the word overlap. With all-MiniLM-L6-v2, share of replies that contain the answer, sentences, characters:
#                                          XQuAD en           es                  vi                 own, de es he ja
#   .85 of the best, in any passage        .913 1.25 224      .873 1.46 309       .893 1.37 259      .917 1.50 67
#   as implemented                         .907 1.22 221      .880 1.37 287       .887 1.31 248      .875 1.35 60
#   .95 of the best                        .900 1.13 207      .833 1.17 252       .860 1.13 217      .875 1.23 55
#   the best sentence only                 .860 1.04 193      .780 1.02 227       .833 1.04 201      .792 1.04 46
_NEARLY_AS_GOOD = 0.85
_AS_GOOD, _AS_MANY_WORDS = 0.95, 0.5
# Word overlap with the question complements the embedding. Words of the context alone count for less: all sentences below a heading share them.
# With all-MiniLM-L6-v2, on XQuAD (150 questions, the passage and two of its article), share of replies that contain the answer, by the weight of the overlap:
#             0     .2    .35   .5    .65   1
#   en       .907  .920  .907  .887  .887  .820
#   es       .693  .853  .880  .873  .867  .853
_OVERLAP_WEIGHT = 0.35
_IN_CONTEXT = 0.6
_BEFORE = 0.3  # for words of the preceding sentence alone, which names the subject of "It costs 32 euros."
_FIGURE = 0.1  # added to the score of a sentence with a digit, where the question asks for a figure
_ASKS_FIGURE = re.compile(
    r"\b(?:how (?:much|many|long|old|often|far|big|high|heavy|late|early)|when|what (?:time|year|date|price|percentage)|price|cost|fee"
    r"|combien|quand|quelle (?:heure|date|annee|duree)|prix|tarif|cout\w*|cuant\w+|cuando|precio|wie ?(?:viel\w*|lange|oft|hoch|alt)|wann|preis"
    r"|kostet|quant[oiae]\w?|prezzo|quando"
    r"|preco|hoeveel|wanneer|prijs|bao nhieu|bao lau|may (?:gio|ngay)|khi nao|gia|сколько|когда|цена)\b"
    r"|(?<!\w)(?:כמה|מתי|מחיר\w*)|كم|متى|سعر|多少|几|幾|何時|いくら|いつ|何[人年月日]|얼마|언제"
)
_HAS_FIGURE = re.compile(r"(?<![A-Za-z\d])\d")  # a code such as TO1101 is no figure
_SAME = 0.8  # minimum Jaccard index of the words of two sentences from which on the second is a repetition
_ECHO = 0.6  # minimum share of a sentence's words in the question from which on it only repeats the question
# Share of the best hit's relevance below which a hit is not quoted beside it: a sentence may be near to a question about something else.
_LEAST_SHARE = 0.2
_EMBEDDED = 160  # sentences that are embedded, in about half a second; of more, those with the highest word overlap
_Floats = npt.NDArray[np.float32]


class Picked(NamedTuple):
    """A sentence chosen for an answer, with what speaks for it.

    `cosine` is that of the sentence in its context with the question. `overlap` is the share, 0 to 1, of the question's words, weighted by rarity, that it
    has, in part where its context has them. `holds` is whether it holds the kind of thing asked for (an hour, a price, …); None where that cannot be told.
    """

    sentence: Sentence
    cosine: float
    overlap: float
    holds: bool | None


class Extracted(NamedTuple):
    """The sentences of an answer in the order to quote them, and the parts of the question that no sentence answers, in their words."""

    picked: list[Picked]
    missing: list[str]


def extract(
    question: str,
    vector: _Floats,
    hits: Sequence[Hit],
    embedder: Embedder,
    language: str,
    *,
    cuts_words: bool,
    readings: "Sequence[AnalyzedQuery]" = (),
) -> Extracted:
    """Selects up to three sentences that answer a question.

    Args:
        question: The question.
        vector: Unit vector of the question, float32 (dimension,).
        hits: Hits to answer from, best first.
        embedder: Embedder for the sentences; at most 160 are embedded.
        language: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit.
        cuts_words: Whether chunks may begin anywhere in a sentence (`chunk.by: words`).
        readings: The question as analyzed for each language of the version, with document frequencies.

    Returns:
        The sentences, the passage with the best one first, in reading order within a passage. Sentences cut by the chunker are used only where there are no
        others. Empty where the hits contain no sentence.
    """
    found = sentences_of(hits, language, cuts_words=cuts_words)
    sentences = [sentence for sentence in found if not sentence.is_cut] or found
    if not sentences:
        return Extracted([], [])
    words, tags = Words(question), [language_of(hits[s.hit], language) for s in sentences]
    overlaps = _overlaps(words, sentences, tags)
    if len(sentences) > _EMBEDDED:
        kept = sorted(np.argsort(-overlaps, kind="stable")[:_EMBEDDED])
        sentences, tags, overlaps = [sentences[i] for i in kept], [tags[i] for i in kept], overlaps[kept]
    # A sentence is embedded together with its context: "Three days." answers nothing without its question.
    cosines = embedder.embed_documents([f"{s.context} {s.text}".strip() for s in sentences]) @ vector
    scores = (1 - _OVERLAP_WEIGHT) * cosines + _OVERLAP_WEIGHT * overlaps
    if _ASKS_FIGURE.search(fold(question.casefold())):
        scores = scores + _FIGURE * np.array([_HAS_FIGURE.search(s.text) is not None for s in sentences])
    chosen = _choose(sentences, scores, overlaps, [set(words.of(s.text, tag)) for s, tag in zip(sentences, tags, strict=True)])
    if follower := _follower(chosen[0], sentences, words, tags[sentences.index(chosen[0])]):
        chosen = [chosen[0], follower, *(s for s in chosen[1:] if s != follower)][:_SENTENCES]
    best_of = {s.passage: number for number, s in reversed(list(enumerate(chosen)))}
    kinds = asked_parts(question)[0].kinds
    told = {s: Picked(s, float(cosines[i]), float(overlaps[i]), holds_any(s.text, kinds)) for i, s in enumerate(sentences) if s in chosen}
    return Extracted([told[s] for s in sorted(chosen, key=lambda s: (best_of[s.passage], s.position))], [])


def hits_to_quote(hits: Sequence[Hit]) -> list[Hit]:
    """The hits to pick sentences from, in their order: those whose relevance is at least a fifth of the best one's; all where relevance is not known."""
    best = max((hit.relevance for hit in hits if hit.relevance is not None), default=0.0)
    return [hit for hit in hits if hit.relevance is None or hit.relevance >= _LEAST_SHARE * best]


def _overlaps(words: Words, sentences: Sequence[Sentence], tags: Sequence[str]) -> _Floats:
    """Word overlap of each sentence with the question: the weighted share, 0 to 1, of the question's words, float32 (n,)."""
    counted: list[dict[str, float]] = []
    before: tuple[int, set[str]] = (-1, set())
    for sentence, tag in zip(sentences, tags, strict=True):
        own = set(words.of(sentence.text, tag))
        earlier = before[1] if before[0] == sentence.passage else ()
        counted.append({**dict.fromkeys(earlier, _BEFORE), **dict.fromkeys(words.of(sentence.context, tag), _IN_CONTEXT), **dict.fromkeys(own, 1.0)})
        before = (sentence.passage, own)
    rare = rarity(counted)
    asked = {tag: words.asked(tag) for tag in set(tags)}
    return np.array([coverage(asked[tag], found, rare) for tag, found in zip(tags, counted, strict=True)], dtype=np.float32)


def _follower(best: Sentence, sentences: Sequence[Sentence], words: Words, tag: str) -> Sentence | None:
    """The next sentence, where the best one only repeats the question: "The display shows E3." does not answer what E3 means. Else None."""
    own = set(words.of(best.text, tag))
    if len(own.intersection(words.asked(tag))) < _ECHO * len(own):
        return None
    return next((s for s in sentences if s.passage == best.passage and s.position == best.position + 1 and s.context == best.context), None)


def _choose(sentences: Sequence[Sentence], scores: _Floats, overlaps: _Floats, words: Sequence[set[str]]) -> list[Sentence]:
    """Selects sentences by score, best first, without repetitions of earlier ones."""
    order = np.argsort(-scores, kind="stable")
    chosen: list[Sentence] = []
    said: list[set[str]] = []
    for i in order:
        if scores[i] < _NEARLY_AS_GOOD * scores[order[0]] or len(chosen) == _SENTENCES:
            break
        sentence, own = sentences[i], words[i]
        is_elsewhere = sentence.passage != sentences[order[0]].passage
        if is_elsewhere and (scores[i] < _AS_GOOD * scores[order[0]] or overlaps[i] < _AS_MANY_WORDS * overlaps[order[0]]):
            continue
        is_repeated = any(len(own & other) >= _SAME * len(own | other) for other in said)
        is_too_long = chosen and sum(len(s.text) for s in chosen) + len(sentence.text) > _CHARACTERS
        if not is_repeated and not is_too_long:
            chosen.append(sentence)
            said.append(own)
    return chosen
