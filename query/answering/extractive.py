"""Extractive answers: the sentences of the hits that answer a question best, verbatim and in reading order, each with
its hit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from almanac.index.lexical.analyzer import primary_tag
from almanac.query.answering.hit_sentences import Sentence, sentences_of
from almanac.query.answering.overlap import covered, words_of
from almanac.query.answering.question_parts import parts_of_question
from almanac.query.answering.reading import Floats, Reader
from almanac.query.retrieval.question_language import question_language
from almanac.query.retrieval.term_coverage import term_weights
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.index.lexical.lexical_reader import AnalyzedQuery

_SENTENCES, _CHARACTERS = 4, 380  # of a reply, at most
# Added to what the embedders say: for the question's words that a sentence has with its context, weighted by rarity;
# for the score of its hit, relative to the best one's. Taken off for a record's short field: beside its title,
# "Updated: March 4" is as near to a question about the thing as what is said of it.
_WORDS, _HIT, _FIELD = 0.3, 0.1, 0.15
# how much less than the best sentence another one may have, to be quoted beside it, and where one embedder reads
_NEARLY, _NEARLY_ALONE = 0.2, 0.1
_SAME = 0.8  # minimum Jaccard index of the words of two sentences from which on the second is a repetition
# Sentences that are read, in some .7 s; of more, those with most of the question's words. Of 423 questions over the
# examples, 336 are answered rightly so, as where all are read (121 in the mean); with 40 it is 332.
_READ = 60


class Picked(NamedTuple):
    """A sentence chosen for an answer.

    `cosine` is that of the sentence in its context with the question, by the reader's first embedder.
    `is_foreign` is whether it is in another language than the question. `is_head` is whether it is the head of a table,
    before a row.
    """

    sentence: Sentence
    cosine: float
    is_foreign: bool = False
    is_head: bool = False


def extract(
    question: str,
    hits: Sequence[Hit],
    reader: Reader,
    *,
    readings: "Sequence[AnalyzedQuery]" = (),
    searched: str | None = None,
) -> list[Picked]:
    """Selects up to four sentences that answer a question; of a question of several parts, the best one for each first.

    Args:
        question: The question.
        hits: Hits to answer from, best first.
        reader: Reads at most 60 sentences.
        readings: What was searched for as analyzed for each language of the version, with document frequencies.
        searched: What was searched for, where that is the question behind an earlier one. Both are read: the question
            may continue nothing.

    Returns:
        The sentences, the passage with the best one first, in reading order within a passage. Those that the chunker
        has cut are used only where there are no others.
    """
    all_sentences = sentences_of(hits)
    sentences = [sentence for sentence in all_sentences if not sentence.is_cut] or all_sentences
    if not sentences:
        return []
    whole = [question] if searched is None else [question, searched]
    overlaps = _overlaps(whole[-1], sentences, hits, readings)
    fields = np.array([s.is_field for s in sentences], dtype=np.float32)
    adjustments = _WORDS * overlaps + _HIT * _shares(sentences, hits) - _FIELD * fields
    if len(sentences) > _READ:
        indexes = np.sort(np.argsort(-adjustments, kind="stable")[:_READ])
        sentences, adjustments = [sentences[i] for i in indexes], adjustments[indexes]
    parts = parts_of_question(question)
    is_english = _is_english(question, hits)
    read = reader.read([*whole, *parts], _texts_read(sentences), is_english=is_english)
    cosines = read.cosines[: len(whole)].mean(axis=0)
    scores = read.scores[: len(whole)].mean(axis=0) + adjustments
    lead: list[int] = []
    for of_part in read.scores[len(whole) :]:
        # A part may leave out what it is about, so that the whole question counts as much.
        best = map(int, np.argsort(-(scores + of_part + adjustments), kind="stable"))
        lead += [i for i in best if i not in lead][:1]  # another one than another part's
    chosen = _choose(sentences, scores, lead, _NEARLY if is_english else _NEARLY_ALONE)
    best_of = {sentences[i].passage: number for number, i in reversed(list(enumerate(chosen)))}
    chosen.sort(key=lambda i: (best_of[sentences[i].passage], sentences[i].position))
    language = question_language(question)
    picked = [
        Picked(
            sentences[i],
            float(cosines[i]),
            language not in (None, primary_tag(hits[sentences[i].hit].language)),
        )
        for i in chosen
    ]
    return _with_heads(picked, hits)


def texts_of_sentences(chunks: Sequence[Hit]) -> list[str]:
    """What `extract` reads of answers from these chunks, each text once."""
    return list(dict.fromkeys(_texts_read([sentence for chunk in chunks for sentence in sentences_of([chunk])])))


def _texts_read(sentences: Sequence[Sentence]) -> list[str]:
    """Each sentence with its context: "Three days." answers nothing without its title and heading."""
    return [f"{s.context} {s.text}".strip() for s in sentences]


def _is_english(question: str, hits: Sequence[Hit]) -> bool:
    """Whether a question, as far as that can be told, and the best hit are English."""
    return question_language(question) in ("en", None) and primary_tag(hits[0].language) == "en"


def _overlaps(
    question: str,
    sentences: Sequence[Sentence],
    hits: Sequence[Hit],
    readings: "Sequence[AnalyzedQuery]",
) -> Floats:
    tags, texts = [hits[s.hit].language for s in sentences], _texts_read(sentences)
    weights = term_weights(readings, question) or None
    shares = {tag: covered(*words_of(question, texts, tag), weights) for tag in set(tags)}
    return np.array([shares[tag][number] for number, tag in enumerate(tags)], dtype=np.float32)


def _shares(sentences: Sequence[Sentence], hits: Sequence[Hit]) -> Floats:
    """The score of each sentence's hit, relative to the best one's, 0 to 1."""
    best = max(hit.score for hit in hits)
    return np.array([max(0.0, hits[s.hit].score / best) if best > 0 else 1.0 for s in sentences], dtype=np.float32)


def _choose(sentences: Sequence[Sentence], scores: Floats, lead: Sequence[int], nearly: float) -> list[int]:
    """Selects sentences, those of `lead` first, then by score, without repetitions of earlier ones."""
    order = [int(i) for i in np.argsort(-scores, kind="stable")]
    words = [frozenset(s.text.casefold().split()) for s in sentences]
    chosen: list[int] = []
    room = _CHARACTERS
    for i in dict.fromkeys([*lead, *order]):
        if len(chosen) == _SENTENCES or (i not in lead and scores[i] < scores[order[0]] - nearly):
            break
        is_repeated = any(len(words[i] & words[j]) >= _SAME * len(words[i] | words[j]) for j in chosen)
        if not is_repeated and (not chosen or len(sentences[i].text) <= room):
            chosen.append(i)
            room -= len(sentences[i].text) + 1
    return chosen


def _with_heads(picked: Sequence[Picked], hits: Sequence[Hit]) -> list[Picked]:
    """The sentences, and before the first row of a table its head."""
    picks: list[Picked] = []
    shown = set[tuple[int, int]]()
    for pick in picked:
        s = pick.sentence
        if s.head is not None and (s.hit, s.head[0]) not in shown:
            shown.add((s.hit, s.head[0]))
            start, end = s.head
            head = s._replace(start=start, end=end, text=hits[s.hit].readable[start:end], head=None)
            picks.append(pick._replace(sentence=head, is_head=True))
        picks.append(pick)
    return picks
