"""Extractive answers: sentences that stand in the hits, each with its citation; never a sentence that is not there."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from sentencex import segment

from index.embedder import Embedder
from schemas.declaration import Declaration
from schemas.reports import Answer, Citation, Hit

UNKNOWN = "I don't know based on the internal docs."
_SENTENCES = 3
# A further sentence is only said when it answers nearly as well as the best one.
_NEARLY_AS_GOOD = 0.85
_HEADING = re.compile(r"#{1,6}\s+")
_LIST_MARK = re.compile(r"^(?:[-*+]|\d+[.)])\s+")
_QUESTION_END = ("?", "？", "؟")


class _Sentence(NamedTuple):
    hit: int
    position: int
    text: str
    context: str


def extract_answer(declaration: Declaration, version: str, question: np.ndarray, hits: Sequence[Hit], embedder: Embedder, confident: float) -> Answer:
    """Up to three sentences in reading order, best hit first. `question` is its unit vector; `hits` are at or above the floor."""
    chosen = _choose(question, hits, embedder, declaration.language)
    if not chosen:
        return _answer(declaration, version, answered=False, reply=UNKNOWN, citation=None, sources=[])
    markers = {hit: f"[{number}]" for number, hit in enumerate(dict.fromkeys(s.hit for s in chosen), start=1)}
    reply = " ".join(f"{s.text} {markers[s.hit]}" for s in chosen)
    sources = [_cite(hits[hit], marker, next(s.text for s in chosen if s.hit == hit), confident) for hit, marker in markers.items()]
    return _answer(declaration, version, answered=True, reply=reply, citation=f"Source: {declaration.title or declaration.name}", sources=sources)


def _answer(declaration: Declaration, version: str, *, answered: bool, reply: str, citation: str | None, sources: list[Citation]) -> Answer:
    return Answer(kb=declaration.name, version=version, answered=answered, reply=reply, pathway="kb-only", citation=citation, sources=sources)


def _cite(hit: Hit, marker: str, quote: str, confident: float) -> Citation:
    confidence: Literal["high", "medium"] = "high" if hit.score >= confident else "medium"
    return Citation(
        marker=marker,
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        url=hit.url,
        title=hit.title,
        text=hit.text,
        score=hit.score,
        confidence=confidence,
        quote=quote,
    )


def _choose(question: np.ndarray, hits: Sequence[Hit], embedder: Embedder, language: str) -> list[_Sentence]:
    sentences = [s for number, hit in enumerate(hits) for s in _sentences(number, hit, _language_of(hit, language))]
    if not sentences:
        return []
    # A sentence is judged together with what it stands under: "Three days." answers nothing without its question.
    vectors = embedder.embed_documents([f"{s.context} {s.text}".strip() for s in sentences])
    scores = vectors @ question
    order = np.argsort(-scores, kind="stable")
    best = [sentences[i] for i in order[:_SENTENCES] if scores[i] >= _NEARLY_AS_GOOD * scores[order[0]]]
    unique = list({s.text: s for s in reversed(best)}.values())
    return sorted(unique, key=lambda s: (s.hit, s.position))


def _language_of(hit: Hit, declared: str) -> str:
    """Where languages are detected, each hit carries its own."""
    return str(hit.metadata.get("language") or "und") if declared == "auto" else declared


def _sentences(number: int, hit: Hit, language: str) -> Iterator[_Sentence]:
    """Sentences of a hit as they stand there; headings and questions are context, not answers."""
    context, position = hit.title, 0
    # Chunks overlap: one that goes on in the middle of a sentence does not say what its first words mean.
    is_fragment = bool(hit.start) and hit.text[:1].islower()
    for line in hit.text.split("\n"):
        text = line.strip()
        if _HEADING.match(text):
            context = f"{hit.title} {_HEADING.sub('', text, count=1)}"
            continue
        for sentence in segment(language.partition("-")[0], _LIST_MARK.sub("", text, count=1)):
            stripped = sentence.strip()
            if is_fragment:
                is_fragment = False
            elif stripped.endswith(_QUESTION_END):
                context = f"{hit.title} {stripped}"
            elif any(c.isalnum() for c in stripped):
                yield _Sentence(number, position, stripped, context)
                position += 1
