"""Citations of a reply: for each cited passage the verbatim sentence that supports the statement, and the confidence in
it.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from urllib.parse import urlsplit

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.hit_sentences import sentences_of
from almanac.query.answering.overlap import covered, words_of
from almanac.schemas.results import Citation, Hit

_LEAST_OVERLAP = 0.2  # minimum word overlap from which on it selects the quote; below it the embedding does


_OF_HIT = {"chunk_id", "document_id", "url", "title", "text", "score", "relevance", "tags", "passage", "metadata", "kb"}


def cite(hit: Hit, number: int, quote: str, *, is_borne: bool = True) -> Citation:
    """The citation of a hit under `[number]`, with the sentence that it is cited for. Confidence is low unless that
    sentence bears the statement.

    Where a document has pages, slides or sheets, `place` is where the hit begins; `link` opens a PDF of a site there. A
    record has none, whatever its fields are called, nor has a document with a declared field of that name (`place` is
    null).
    """
    place = link = None
    if hit.start is not None and hit.metadata.get("place", "") is not None:
        for unit, written in (("page", "p."), ("slide", "slide"), ("sheet", "sheet")):
            if place is None and isinstance(name := hit.metadata.get(unit), int | str) and not isinstance(name, bool):
                place = f"{written} {name}"
        page, parts = hit.metadata.get("page"), urlsplit(hit.url)
        is_pdf = parts.scheme in ("http", "https") and parts.path.lower().endswith(".pdf") and not parts.fragment
        link = f"{hit.url}#page={page}" if is_pdf and type(page) is int and page > 0 else None
    return Citation(
        **hit.model_dump(include=_OF_HIT),
        marker=f"[{number}]",
        confidence=hit.confidence if is_borne or hit.confidence is None else "low",
        quote=quote,
        place=place,
        link=link,
    )


def cite_statements(
    citing_statements: Mapping[int, Sequence[str]], shown: Mapping[int, Hit], embedder: Embedder, lowest: float
) -> list[Citation]:
    """Builds a citation for each passage that a reply cites.

    The quote is the sentence of the passage that is most similar to one of the statements that cite it: by word
    overlap, else by embedding.

    Args:
        citing_statements: Statements that cite a passage, without markers, by its number, in order of first mention.
        shown: Hits by the number under which the model saw them.
        embedder: Called only where word overlap selects no sentence.
        lowest: Cosine of a quote to the statement below which, if the two share hardly a word, confidence is low.
    """
    citations = []
    for number, statements in citing_statements.items():
        sentences = sentences_of([shown[number]])
        quote, is_borne = shown[number].readable.strip(), True
        if sentences:
            texts = [f"{s.context} {s.text}".strip() for s in sentences]
            tag = shown[number].language
            share, best = max((_best(statement, texts, tag) for statement in statements), key=itemgetter(0))
            if share < _LEAST_OVERLAP:  # statement and passage are in two languages, or use different words
                near = embedder.embed_documents(texts) @ embedder.embed_documents(list(statements)).T
                best, is_borne = int(near.max(axis=1).argmax()), float(near.max()) >= lowest
            quote = sentences[best].text
        citations.append(cite(shown[number], number, quote, is_borne=is_borne))
    return citations


def _best(statement: str, texts: Sequence[str], tag: str) -> tuple[float, int]:
    """The highest share of a statement's words in one of the texts, weighted by their rarity among these, and which
    text that is. Words that the texts lack count, too: one word of ten supports nothing.
    """
    words, text_words = words_of(statement, texts, tag)
    known = sum(any(word in own for own in text_words) for word in words) / len(words) if words else 0.0
    shares = covered(words, text_words)
    best = max(shares)
    return best * known, shares.index(best)
