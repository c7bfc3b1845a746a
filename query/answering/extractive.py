"""Extractive answers: the sentences of the hits that answer a question best, verbatim and in reading order, each with
its hit.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.asked import MEASURABLE, NAMING, Part, asked_parts, days_in
from almanac.query.answering.scoring import Compared, Floats, Scored
from almanac.query.answering.sentences import Sentence, language_of, sentences_of
from almanac.query.retrieval.overlap import Words
from almanac.query.retrieval.request import EmbedQueries
from almanac.query.retrieval.term_coverage import term_weights
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.index.lexical.reader import AnalyzedQuery

_SENTENCES = 3
_CHARACTERS = 380  # maximum length of a reply of several sentences
# A further sentence is added only if its score is nearly that of the best one, in standard deviations of the cosines
# (`scoring`): in the same passage; in another one, which may be about something else and has to have at least half the
# word overlap; and beside one that holds what is asked for, where it has to hold it, too. Share of replies of at most
# 400 characters with the answer, as in `scoring` without kin of words, and their mean length: examples e5  MiniLM
# XQuAD e5  MiniLM     characters as implemented                  .660     .586        .840     .800         235 half
# these distances            .648     .568        .824     .791         208 the best sentence only          .605
# .531        .793     .758         183 up to 1,200 characters          .654     .574        .602     .553         303
_SAME_PASSAGE, _ELSEWHERE, _SETTLED = 3.0, 1.5, 1.0
_AS_MANY_WORDS = 0.5
# share of the largest word overlap from which on a sentence with what is asked for goes before better ones without it
_NEARLY_AS_MANY = 0.8
_SAME = 0.8  # minimum Jaccard index of the words of two sentences from which on the second is a repetition
_ECHO = 0.6  # minimum share of a sentence's words in the question from which on it only repeats the question
# Share of the best hit's relevance below which a hit is not quoted beside it: a sentence may be near to a question
# about something else.
_LEAST_SHARE = 0.15
_FIRST = 2
_SURE = 0.5  # relevance of a hit that is about what is asked
# weight of the words of earlier questions beside those of the last one: "How much for a child?", after the price for an
# adult
_EARLIER = 0.5
# share of the best score that the next sentence has to have, to be quoted for a part of a question beside it
_SECOND = 0.5
_LONGEST_HEADING = 80  # characters of a heading that is quoted
_OF_ONE_THING = 500  # characters of a hit up to which its title is the name of what it describes, and not of an article
_EMBEDDED = 160  # sentences that are embedded, in about half a second; of more, those with the highest word overlap
_POINTING = re.compile(
    r"(?:it|its|they|their|this|these|that|those|he|she|his|her|there|both|neither|il|elle|ils|elles|ce|cela|cette"
    r"|ces|son|sa|ses|leurs?|celui-ci|celle-ci"
    r"|él|ella|ellos|ellas|este|esta|estos|estas|esto|ese|esa|su|sus|er|sie|es|dieser?|dieses|diese|das|sein|s"
    r"eine|ihre?|esso|essa|essi|questo|questa|questi"
    r"|suo|sua|ele|ela|eles|elas|isto|isso|seus?|suas?|het|hij|zij|ze|dit|deze|die|zijn|nó|họ|đây|đó|הוא|היא|ה"
    r"ם|הן|זה|זו|זאת|אלה|он|она|оно|они|это|هو|هي|هذا|هذه)"
    r"(?!\w)|[它他她这那其]|これ|それ",
    re.IGNORECASE,
)


class Picked(NamedTuple):
    """A sentence chosen for an answer, with what speaks for it.

    `cosine` is that of the sentence in its context with the question. `overlap` is the share, 0 to 1, of the question's
    words, weighted by rarity, that it has, in part where its context has them. `holds` is whether it holds the kind of
    thing asked for (an hour, a price, …); None where that cannot be told. `is_head` is whether it is the head of a
    table, before a row.
    """

    sentence: Sentence
    cosine: float
    overlap: float
    holds: bool | None
    is_head: bool = False


class Extracted(NamedTuple):
    """The sentences of an answer in the order to quote them, and the parts of the question that no sentence answers, in
    their words.
    """

    picked: list[Picked]
    missing: list[str]


def extract(
    question: str,
    vector: Floats,
    hits: Sequence[Hit],
    embedder: Embedder,
    embed_queries: EmbedQueries,
    language: str,
    *,
    cuts_words: bool,
    readings: "Sequence[AnalyzedQuery]" = (),
    said: str = "",
    last: str | None = None,
) -> Extracted:
    """Selects up to three sentences that answer a question.

    Args:
        question: The question.
        vector: Unit vector of the question, float32 (dimension,).
        hits: Hits to answer from, best first.
        embedder: Embedder for the sentences; at most 160 are embedded.
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension): of `texts_of_parts`, where there are
            any.
        language: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit.
        cuts_words: Whether chunks may begin anywhere in a sentence (`chunk.by: words`).
        readings: The question as analyzed for each language of the version, with document frequencies.
        last: What was asked last, where `question` also has earlier questions, which it continues. Default: `question`.
        said: The last reply, where more than that is asked for: its sentences are not quoted again, if there are
            others.

    Returns:
        The sentences, the passage with the best one first, in reading order within a passage. Sentences cut by the
        chunker are used only where there are no others. Empty where the hits contain no sentence.
    """
    found = sentences_of(hits, language, cuts_words=cuts_words)
    found = [sentence for sentence in found if sentence.text not in said] or found if said else found
    sentences = [sentence for sentence in found if not sentence.is_cut] or found
    if not sentences:
        return Extracted([], [])
    words, weights = Words(question), term_weights(readings, question)
    if last is not None:
        own = {word for tag in {language_of(hit, language) for hit in hits} for word in words.of(last, tag)}
        weights = {word: weight * (1 if word in own else _EARLIER) for word, weight in weights.items()}
    compared = _compared(sentences, hits, language, words, weights)
    if len(sentences) > _EMBEDDED:
        kept = sorted(np.argsort(-compared.overlaps(question), kind="stable")[:_EMBEDDED])
        sentences = [sentences[i] for i in kept]
        compared = _compared(sentences, hits, language, words, weights)
    vectors = embedder.embed_documents(_texts_compared(sentences))
    parts = asked_parts(question)
    scored = [
        compared.scored(part, vectors @ asked, parts[0].text)
        for part, asked in zip(parts, _vectors_of(parts, vector, embed_queries), strict=True)
    ]
    chosen: dict[int, tuple[Part, Scored]] = {}
    missing = []
    if len(parts) > 1:
        for part, one in zip(parts, scored, strict=True):
            best, second = (int(i) for i in [*np.argsort(-one.scores, kind="stable"), -1][:2])
            if (
                best in chosen
                and one.holds[best] is None
                and second >= 0
                and one.scores[second] >= _SECOND * one.scores[best]
            ):
                # what answers another part may answer this one, too; where that cannot be told, both are quoted
                best = second
            if one.holds[best] is False:
                missing.append(part.text)
            else:
                chosen.setdefault(best, (part, one))
    if not chosen:
        chosen, missing = dict.fromkeys(_choose(compared, parts[0], scored[0]), (parts[0], scored[0])), []
    picked = []
    room = _CHARACTERS - sum(len(sentences[i].text) + 1 for i in chosen)
    for i, (part, one) in chosen.items():
        told = (float(one.cosines[i]), float(one.overlaps[i]), one.holds[i])
        quoted = _with_head(compared, i, part, hits, room)
        room -= sum(len(s.text) + 1 for s in quoted[:-1])
        picked += [Picked(s, *told, is_head=s is not sentences[i]) for s in quoted]
    best_of = {one.sentence.passage: number for number, one in reversed(list(enumerate(picked)))}
    picked.sort(key=lambda one: (best_of[one.sentence.passage], one.sentence.position, one.sentence.start))
    # the head of two rows before the first
    once = {(one.sentence.hit, one.sentence.start): one for one in reversed(picked)}
    return Extracted([one for one in picked if once[one.sentence.hit, one.sentence.start] is one], missing)


def texts_of_parts(question: str) -> list[str]:
    """The parts of a question that `extract` compares with sentences by themselves; empty for most questions."""
    return _texts_of(asked_parts(question))


def texts_of_sentences(chunks: Sequence[Hit], language: str, *, cuts_words: bool) -> list[str]:
    """What `extract` embeds of most answers from these chunks, each text once; `language` and `cuts_words` as there.

    The context of a sentence may be another one where the hits hold the chunk before it, too. Chunks further before are
    left out.
    """
    ordered = sorted(chunks, key=lambda one: (one.source, one.document_id, one.ordinal))
    passages: list[Sequence[Hit]] = [*([one] for one in ordered), *pairwise(ordered)]
    texts = (text for hits in passages for text in _texts_compared(sentences_of(hits, language, cuts_words=cuts_words)))
    return list(dict.fromkeys(texts))


def hits_to_quote(hits: Sequence[Hit]) -> list[Hit]:
    """The hits to pick sentences from, in their order: the first two, and those whose relevance is at least .15 of the
    best one's.

    All of them where relevance is not known. Among few chunks, the relevance of a hit that ranks lower may be many
    times that of the first one. Where the best hit is surely about what is asked, a record among the first two counts
    as all others do: the price of another thing answers nothing.
    """
    best = max((hit.relevance for hit in hits if hit.relevance is not None), default=0.0)
    first = [rank < _FIRST and not (best >= _SURE and hit.passage is not None) for rank, hit in enumerate(hits)]
    return [
        hit
        for hit, is_first in zip(hits, first, strict=True)
        if is_first or hit.relevance is None or hit.relevance >= _LEAST_SHARE * best
    ]


def _texts_compared(sentences: Sequence[Sentence]) -> list[str]:
    """Each sentence with its context: "Three days." answers nothing without its question."""
    return [f"{s.context} {s.text}".strip() for s in sentences]


def _with_head(compared: Compared, number: int, part: Part, hits: Sequence[Hit], room: int) -> list[Sentence]:
    """The sentence; before a row of a table, the head of the table; where a name is asked for, the heading above that
    may be it, if that is new.

    "The Lost City Hotel" answers which hotel has a waterpark, and not the sentence below it: such a heading has a word
    of the question, or is a record's title. The name of a person has no word of the question. It has at most `room`
    characters.
    """
    sentence, tag = compared.sentences[number], compared.tags[number]
    if sentence.head is not None:
        return [_at(sentence, sentence.head, hits), sentence]
    if (
        sentence.heading is None
        or not part.kinds & NAMING
        or sentence.heading[1] - sentence.heading[0] > min(room, _LONGEST_HEADING)
    ):
        return [sentence]
    heading = _at(sentence, sentence.heading, hits)
    asked, own = set(compared.words.of(part.text, tag)), set(compared.words.of(heading.text, tag))
    hit = hits[sentence.hit]
    is_of_hit = heading.text == hit.title and len(hit.readable) <= _OF_ONE_THING
    is_shared = bool(own & asked)
    # nobody is called "History of the mill"
    is_name = is_shared or is_of_hit if "name" in part.kinds else is_of_hit and not is_shared
    is_new = not own <= asked and heading.text.casefold() not in sentence.text.casefold()
    return [heading, sentence] if is_name and is_new else [sentence]


def _at(sentence: Sentence, span: tuple[int, int], hits: Sequence[Hit]) -> Sentence:
    start, end = span
    return sentence._replace(
        start=start, end=end, text=hits[sentence.hit].readable[start:end], paragraph=start, head=None, heading=None
    )


def _compared(
    sentences: Sequence[Sentence], hits: Sequence[Hit], language: str, words: Words, weights: dict[str, float]
) -> Compared:
    tags = [language_of(hits[s.hit], language) for s in sentences]
    best = max((hit.relevance for hit in hits if hit.relevance is not None), default=0.0)
    relevance = [1.0 if not best or (own := hits[s.hit].relevance) is None else own / best for s in sentences]
    return Compared(
        sentences, tags, np.array(relevance, dtype=np.float32), [hits[s.hit].title for s in sentences], words, weights
    )


def _vectors_of(parts: Sequence[Part], vector: Floats, embed_queries: EmbedQueries) -> list[Floats]:
    """Vector of each part of a question: that of the question, of several parts the mean of theirs and it, since a part
    may leave out what it is about.
    """
    texts = _texts_of(parts)
    own = dict(zip(texts, embed_queries(texts), strict=True)) if texts else {}
    return [(vector + own[part.text]) / 2 if part.text in own else vector for part in parts]


def _texts_of(parts: Sequence[Part]) -> list[str]:
    """What is compared by itself: the parts of a question that has several, unless they leave out what they are
    about.
    """
    return [part.text for part in parts if not part.is_bare] if len(parts) > 1 else []


def _choose(compared: Compared, part: Part, scored: Scored) -> list[int]:
    """Selects sentences by score, best first, without repetitions of earlier ones, and with what they need to be
    understood.
    """
    sentences, scores = compared.sentences, scored.scores
    order = [int(i) for i in np.argsort(-scores, kind="stable")]
    best = _best(scored, order)
    if best != order[0]:
        order = [best, *(i for i in order if i != best)]
    is_settled = bool(scored.holds[best]) and bool(part.kinds & MEASURABLE)
    is_field = compared.is_asked_field(best, part)
    needed = [_companion(compared, best, part, is_settled=is_settled)]
    needed += [_field_asked_for(compared, part, scored, order), _about_the_day(compared, part, scored, order)]
    chosen = list(dict.fromkeys([best, *(i for i in needed if i is not None)]))
    for i in order[1:]:
        is_elsewhere = sentences[i].passage != sentences[best].passage
        margin = _ELSEWHERE if is_elsewhere else _SETTLED if is_settled else _SAME_PASSAGE
        if len(chosen) == _SENTENCES or scores[i] < scores[best] - max(_SAME_PASSAGE, _ELSEWHERE, _SETTLED):
            break
        if (
            i in chosen
            or scores[i] < scores[best] - margin
            or (is_settled and not scored.holds[i])
            or (is_elsewhere and scored.overlaps[i] < _AS_MANY_WORDS * scored.overlaps[best])
            or (is_elsewhere and not is_field and compared.is_asked_field(i, part))  # another record's price
        ):
            continue
        own = compared.own[i]
        is_repeated = any(len(own & other) >= _SAME * len(own | other) for other in (compared.own[j] for j in chosen))
        is_too_long = sum(len(sentences[j].text) + 1 for j in chosen) + len(sentences[i].text) > _CHARACTERS
        if not is_repeated and not is_too_long:
            chosen.append(i)
    return chosen


def _best(scored: Scored, order: Sequence[int]) -> int:
    """The sentence of the largest score; where it lacks the kind of thing asked for, the best one that holds it and has
    nearly as many of the question's words.

    A list of prices in another document may name the thing with its price, which the sentences about it do not say.
    """
    if scored.holds[order[0]] is not False:
        return order[0]
    least = _NEARLY_AS_MANY * float(scored.overlaps.max())
    return next((i for i in order if scored.holds[i] and scored.overlaps[i] >= least), order[0])


def _field_asked_for(compared: Compared, part: Part, scored: Scored, order: Sequence[int]) -> int | None:
    """The field of the best sentence's record that is what is asked for: "Price: 88", where that sentence says of
    something else that it costs 19 euros.
    """
    of_record = (i for i in order if compared.sentences[i].passage == compared.sentences[order[0]].passage)
    return next((i for i in of_record if scored.holds[i] and compared.is_asked_field(i, part)), None)


def _about_the_day(compared: Compared, part: Part, scored: Scored, order: Sequence[int]) -> int | None:
    """The best further sentence about a day that the question names and the best sentence does not: on such a day,
    "Open from 9 to 6." may be wrong.

    It need not hold what is asked for: "Closed on Mondays." One of the same passage goes before all others, which may
    be about another thing, and of these one that has most of the question's words with the sentences before it: "On
    Saturdays from 10 to 2." is about the hall that these are about.
    """
    best, sentences = order[0], compared.sentences
    asked = days_in(part.text) - days_in(sentences[best].text)
    if asked and sentences[best].head is not None:
        asked -= days_in(sentences[best].context)  # the head of its table
    about = [i for i in order[1:] if asked & days_in(sentences[i].text)] if asked else []
    near = [
        i
        for i in about
        if scored.scores[i] >= scored.scores[best] - _ELSEWHERE
        and scored.overlaps[i] >= _AS_MANY_WORDS * scored.overlaps[best]
    ]
    own = [i for i in about if sentences[i].passage == sentences[best].passage]
    return max(own, key=lambda i: compared.overlap_so_far(i, part, own.__contains__), default=next(iter(near), None))


def _companion(compared: Compared, best: int, part: Part, *, is_settled: bool) -> int | None:
    """The sentence that the best one does not answer without, if there is one.

    The next one, where it only repeats the question: "The display shows E3." does not answer what E3 means. The one
    before, where it begins with a pronoun: "It costs 32 euros."
    """
    sentences, sentence, own = compared.sentences, compared.sentences[best], compared.own[best]
    neighbours = {
        s.position - sentence.position: i
        for i, s in enumerate(sentences)
        if s.passage == sentence.passage and s.context == sentence.context
    }
    asked = set(compared.words.of(part.text, compared.tags[best]))
    if not is_settled and len(own & asked) >= _ECHO * len(own) and (after := neighbours.get(1)) is not None:
        return after
    before = neighbours.get(-1)
    if before is None or sentences[before].paragraph != sentence.paragraph or not _POINTING.match(sentence.text):
        return None
    return before if len(sentences[before].text) + len(sentence.text) < _CHARACTERS else None
