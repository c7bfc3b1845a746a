"""The BM25 score that a question could reach: how much of it the words of an index can match at all."""

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.index.lexical.analyzer import folded_tokens, tokens
from almanac.index.lexical.lexical_reader import MOST_TERMS, AnalyzedQuery, idf

_CHARACTER = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}〇]\p{M}*")


def attainable_score(analyzed: AnalyzedQuery, query: str) -> float:
    """BM25 score of a text of average length in which each word of a query stands once; 0 for a query without words.

    The best score of a search, divided by it, is about the share of the query that the texts contain: with BM25's usual
    parameters, a term that stands once in a text of average length scores its inverse document frequency. A word counts
    with those of its terms that occur in the index or, where none does, as one term that no text has. Pairs (of
    Vietnamese syllables, of characters in scripts without spaces) count only where they occur: most neighbours are no
    word.

    Args:
        analyzed: The query, analyzed for one language of the index.
        query: The query itself.
    """
    counts = {term: count for term, count in analyzed.frequencies.items() if count}
    for lump in query.split():
        terms = folded_tokens(lump) if analyzed.is_folded else tokens(lump, analyzed.language)
        characters = [term for term in terms if _CHARACTER.fullmatch(term)]
        others = [term for term in terms if not _CHARACTER.match(term)]
        for word in (*([character] for character in characters), others):
            if word and not any(term in counts for term in word):
                counts[word[0]] = 0
    return sum(sorted((idf(count, analyzed.rows) for count in counts.values()), reverse=True)[:MOST_TERMS])
