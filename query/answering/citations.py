"""What a reply rests on: for each passage that it cites, the sentence that bears the statement, as it stands there, and how far it can be trusted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.markers import Marked, without_markers
from almanac.query.answering.sentences import language_of, sentences_of, split
from almanac.query.retrieval.overlap import Words, coverage, rarity
from almanac.query.retrieval.relevance import Confidence, Relevance
from almanac.schemas.reports import Citation, Hit

_BORNE = 0.6  # share of a statement's words that a sentence has to have, where the model did not say what its statement rests on
_TOLD = 0.2  # least share by which words alone tell the sentence
_STATEMENT = 1500  # characters before a marker in which its statement begins


class Thresholds(NamedTuple):
    """Dense cosines: of a hit that is answered from, and of a confident one. `near` says of hits, by chunk id, how near they are."""

    lowest: float
    confident: float
    near: Mapping[str, Relevance] = {}

    def confidence(self, hit: Hit) -> Confidence:
        """high from `confident` on, low in the lower half of what is below it; a hit of which nobody said more goes by its score."""
        dense = hit.scores.get("dense")
        return self.near.get(hit.chunk_id, Relevance(hit.score if dense is None else dense, 0.0, True)).confidence(self.lowest, self.confident)


def cite(hit: Hit, number: int, quote: str, confidence: Confidence) -> Citation:
    tags = hit.metadata.get("tags")
    return Citation(
        marker=f"[{number}]",
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        url=hit.url,
        title=hit.title,
        text=hit.text,
        score=hit.score,
        confidence=confidence,
        quote=quote,
        tags=[str(tag) for tag in tags] if isinstance(tags, list) else [str(tags)] if tags else [],
    )


def cite_statements(
    reply: str, marked: Sequence[Marked], shown: Mapping[int, Hit], embedder: Embedder, language: str, thresholds: Thresholds
) -> list[Citation]:
    """A citation for each passage that the reply marks, in order of first mention. `shown` maps numbers to what the model saw under them.

    Its quote is the sentence of the passage that is nearest to one of the statements: by words, else by embedding.
    """
    statements: dict[int, list[str]] = {}
    for mark in marked:
        statements.setdefault(mark.number, []).append(_statement_before(reply, mark.position, language_of(shown[mark.number], language)))
    citations = []
    for number, said in statements.items():
        hit = shown[number]
        quote, is_borne = _nearest(said, hit, embedder, language, thresholds.lowest)
        citations.append(cite(hit, number, quote, thresholds.confidence(hit) if is_borne else "low"))
    return citations


def attribute(reply: str, shown: Mapping[int, Hit], language: str) -> str | None:
    """The reply of a model that forgot its markers, with them: each sentence gets the passage that has its words and all its figures.

    None where one sentence has no such passage: then nobody can say what the reply rests on.
    """
    texts = {number: [(s.text, s.context) for s in sentences_of([hit], language)] or [(hit.text, "")] for number, hit in shown.items()}
    marked, end = "", 0
    for start, stop in split(reply, next((language_of(hit, language) for hit in shown.values()), "und")):
        statement = reply[start:stop]
        best = max(((_borne_by(statement, found, language_of(shown[number], language)), -number) for number, found in texts.items()), default=(0.0, 0))
        if best[0] < _BORNE:
            return None
        marked += f"{reply[end:stop]} [{-best[1]}]"
        end = stop
    return marked + reply[end:] if marked else None


def _borne_by(statement: str, sentences: Sequence[tuple[str, str]], language: str) -> float:
    """The greatest share of the statement's words in one sentence and what it stands under; 0 where a figure is in none."""
    words = Words(statement)
    asked = words.asked(language)
    figures = {word for word in asked if any(c.isdigit() for c in word)}
    shares = []
    for text, context in sentences:
        own = set(words.of(f"{context} {text}", language))
        shares.append(len(own.intersection(asked)) / len(set(asked)) if asked and figures <= own else 0.0)
    return max(shares, default=0.0)


def _statement_before(reply: str, position: int, language: str) -> str:
    """The sentence that ends at a marker, without markers."""
    before = without_markers(reply[max(0, position - _STATEMENT) : position]).rstrip()
    spans = list(split(before, language))
    return before[slice(*spans[-1])] if spans else before


def _nearest(statements: Sequence[str], hit: Hit, embedder: Embedder, language: str, lowest: float) -> tuple[str, bool]:
    """The sentence of a hit that is nearest to one of the statements, and whether it is near at all."""
    tag = language_of(hit, language)
    sentences = sentences_of([hit], language)
    if not sentences:
        return hit.text.strip(), True
    best, quote = 0.0, ""
    for statement in statements:
        words = Words(statement)
        counted = [{**dict.fromkeys(words.of(s.context, tag), 0.5), **dict.fromkeys(words.of(s.text, tag), 1.0)} for s in sentences]
        asked, rare = words.asked(tag), rarity(counted)
        known = [word for word in asked if word in rare]
        for sentence, found in zip(sentences, counted, strict=True):
            # Of the statement's words all count, also those that the passage lacks: a passage that has one word of ten does not say it.
            share = coverage(asked, found, rare) * len(known) / len(asked) if asked else 0.0
            if share > best:
                best, quote = share, sentence.text
    if best >= _TOLD:
        return quote, True
    # Statement and passage in two languages, or in other words.
    near = embedder.embed_documents([f"{s.context} {s.text}".strip() for s in sentences]) @ embedder.embed_documents(list(statements)).T
    number = int(near.max(axis=1).argmax())
    return sentences[number].text, float(near.max()) >= lowest
