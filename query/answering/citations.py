"""Citations of a reply: for each cited passage the verbatim sentence that supports the statement, and the confidence in
it.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.sentences import language_of, sentences_of
from almanac.query.retrieval.overlap import WeighedWords, Words, rarity
from almanac.schemas.results import Citation, Hit

_TOLD = 0.2  # minimum word overlap from which on it selects the quote; below it the embedding does


def cite(hit: Hit, number: int, quote: str, *, is_borne: bool = True) -> Citation:
    """The citation of a hit under `[number]`, with the sentence that it is cited for. Confidence is low unless that
    sentence bears the statement.
    """
    return Citation(
        marker=f"[{number}]",
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        url=hit.url,
        title=hit.title,
        text=hit.text,
        score=hit.score,
        relevance=hit.relevance,
        confidence=hit.confidence if is_borne or hit.confidence is None else "low",
        quote=quote,
        tags=hit.tags,
        passage=hit.passage,
        metadata=hit.metadata,
        place=place_of(hit),
        link=link_of(hit),
    )


def place_of(hit: Hit) -> str | None:
    """Where in its document a hit begins, as a reader looks it up: `p. 4`, `slide 3`, `sheet Prices`; None where the
    document has no pages.

    A record has none, whatever its fields are called, nor has a document that has a declared field of that name
    (`place` is null).
    """
    if not _has_place(hit):
        return None
    for unit, written in (("page", "p."), ("slide", "slide"), ("sheet", "sheet")):
        if isinstance(name := hit.metadata.get(unit), int | str) and not isinstance(name, bool):
            return f"{written} {name}"
    return None


def link_of(hit: Hit) -> str | None:
    """The URL that opens a PDF of a site at the page on which a hit begins; None for all others, which `url` opens."""
    page, parts = hit.metadata.get("page") if _has_place(hit) else None, urlsplit(hit.url)
    is_pdf = parts.scheme in ("http", "https") and parts.path.lower().endswith(".pdf") and not parts.fragment
    return (
        f"{hit.url}#page={page}"
        if is_pdf and isinstance(page, int) and not isinstance(page, bool) and page > 0
        else None
    )


def _has_place(hit: Hit) -> bool:
    return hit.start is not None and ("place" not in hit.metadata or hit.metadata["place"] is not None)


def cite_statements(
    said: Mapping[int, Sequence[str]], shown: Mapping[int, Hit], embedder: Embedder, language: str, lowest: float
) -> list[Citation]:
    """Builds a citation for each passage that a reply cites.

    The quote is the sentence of the passage that is most similar to one of the statements that cite it: by word
    overlap, else by embedding.

    Args:
        said: The statements that cite a passage, without markers, by its number, in order of first mention.
        shown: Hits by the number under which the model saw them.
        embedder: Embedder for sentences and statements, called only where word overlap selects no sentence.
        language: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit.
        lowest: Cosine of a quote to the statement below which, if the two share hardly a word, confidence is low.
    """
    nearest = {number: _nearest(said[number], shown[number], embedder, language, lowest) for number in said}
    return [cite(shown[number], number, quote, is_borne=is_borne) for number, (quote, is_borne) in nearest.items()]


def _nearest(statements: Sequence[str], hit: Hit, embedder: Embedder, language: str, lowest: float) -> tuple[str, bool]:
    """The sentence of a hit that is most similar to one of the statements, and whether it is similar enough to support
    it.
    """
    tag = language_of(hit, language)
    sentences = sentences_of([hit], language)
    if not sentences:
        return hit.readable.strip(), True
    best, quote = 0.0, ""
    for statement in statements:
        words = Words(statement)
        counted = [
            {**dict.fromkeys(words.of(s.context, tag), 0.5), **dict.fromkeys(words.of(s.text, tag), 1.0)}
            for s in sentences
        ]
        asked, rare = words.asked(tag), rarity(counted)
        weighed, known = WeighedWords(asked, rare), [word for word in asked if word in rare]
        for sentence, found in zip(sentences, counted, strict=True):
            # Words of the statement that the passage lacks count, too: a passage with one word of ten does not support
            # it.
            share = weighed.covered(found) * len(known) / len(asked) if asked else 0.0
            if share > best:
                best, quote = share, sentence.text
    if best >= _TOLD:
        return quote, True
    # Statement and passage are in two languages, or use different words.
    near = (
        embedder.embed_documents([f"{s.context} {s.text}".strip() for s in sentences])
        @ embedder.embed_documents(list(statements)).T
    )
    number = int(near.max(axis=1).argmax())
    return sentences[number].text, float(near.max()) >= lowest
