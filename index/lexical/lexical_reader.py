"""Search by words in the lexical indexes of one or several segments, by BM25; a query is analyzed once per language.

A term scores idf · 2.2 · tf / (tf + 1.2 · (.25 + .75 · length / average length)) in a row (Robertson and Zaragoza, "The
Probabilistic Relevance Framework: BM25 and Beyond", 2009). Rows, lengths and document frequencies are those of live
rows, in double precision, and terms are added up in one order: the same content has the same scores, whatever segments
it lies in and however many of their rows are deleted.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise, starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]  # ships no types

from almanac.index.lexical.analyzer import folded_tokens, has_folded, is_folded, remembered_tokens, tokens
from almanac.index.lexical.lexical_facts import LEXICAL
from almanac.index.lexical.postings import FOLDED, Counts, Postings, Rows, term_hash
from almanac.index.lexical.writer import AUTO
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion

Hit = tuple[str, float]
Mask = npt.NDArray[np.bool_]

_K1, _B = 1.2, 0.75
MOST_TERMS = 128  # per query; of more terms, the rarest decide the ranking almost alone
_ROUNDED = 1 - 1e-5  # a score that much below another one may equal it in 6 digits
# Looking a term up in a row takes as long as going through so many of its postings, and a posting as long as looking
# for the best among so many rows.
_FEW = 16
_CHARACTER = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}〇]\p{M}*")
_QUERIES = 64  # queries in memory, as analyzed: steps of one search ask for theirs several times


class AnalyzedQuery(NamedTuple):
    """A query analyzed for one language, with corpus statistics."""

    language: str  # BCP 47 tag
    is_folded: bool  # whether it was analyzed without diacritics (Vietnamese typed without them)
    frequencies: dict[str, int]  # term → number of rows that contain it, in the order of the query
    rows: int  # rows of the index

    def terms_of(self, text: str) -> frozenset[str]:
        """Returns the terms of another text, analyzed in the same way as this query."""
        return frozenset(remembered_tokens(text, self.language, folded=self.is_folded))


class LexicalIndex:
    """The lexical indexes of some segments, as one. Safe to share among threads.

    Args:
        folders: The segments' folders, which have `lexical/`.
        ids_of: Gives the chunk ids of rows, which are numbered through all segments.
        live: Which rows are not deleted, bool (n,); None for all.

    Raises DamagedVersion where a file is missing, cannot be read, or has another number of rows.
    """

    def __init__(
        self, folders: Sequence[Path], ids_of: Callable[[RowNumbers], list[str]], live: Mask | None, size: int
    ) -> None:
        self._parts = [Postings(folder / LEXICAL) for folder in folders]
        self._ids_of, self._live = ids_of, live
        self._starts = [0, *accumulate(map(len, self._parts))]  # first row of each part, and the number of all rows
        if self._starts[-1] != size:
            finding = f"the lexical index has {self._starts[-1]} rows instead of {size}"
            raise DamagedVersion(finding, where=str(folders[0]), hint="almanac rebuild KB VERSION makes it anew")
        self._rows = size if live is None else int(np.count_nonzero(live))
        self._languages = sorted(self._live_languages())
        self._norms = self._length_norms()
        self._analyzed: dict[str, list[AnalyzedQuery]] = {}

    def _live_languages(self) -> set[str]:
        languages = set()
        for part, begin in zip(self._parts, self._starts, strict=False):
            codes = part.languages if self._live is None else part.languages[self._live[begin : begin + len(part)]]
            languages |= {part.facts.languages[code] for code in np.unique(codes)} | ({part.facts.language} - {AUTO})
        return languages

    def _length_norms(self) -> list[npt.NDArray[np.float64]]:
        """What BM25 adds to a term's frequency in each row: for terms as they stand, and for those without
        diacritics.
        """
        lengths = np.concatenate([np.zeros((2, 0)), *(part.lengths for part in self._parts)], axis=1)
        averages = (lengths if self._live is None else lengths[:, self._live]).sum(axis=1) / max(self._rows, 1)
        return [_K1 * (1 - _B + _B * own / max(average, 1e-9)) for own, average in zip(lengths, averages, strict=True)]

    def search(self, query: str, k: int, wanted: Mask | None = None) -> list[Hit]:
        """Returns the k best rows as (chunk_id, BM25 score of 6 digits), highest score first, ties by id.

        Terms are combined with OR, without operator syntax. In an index of several languages, each analysis of the
        query is searched, and a row keeps its highest score.

        Args:
            query: The words to search for.
            k: Maximum number of hits.
            wanted: The rows to search, bool (n,); None for all.
        """
        if k < 1:
            return []
        allowed = self._live if wanted is None else wanted if self._live is None else wanted & self._live
        scores_by_row: dict[int, float] = {}
        for norms, weights in self._readings(query):
            rows, scores = self._best(norms, weights, k, allowed)
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
                scores_by_row[row] = max(score, scores_by_row.get(row, 0.0))
        rounded = np.array([float(f"{score:.6g}") for score in scores_by_row.values()], np.float64)
        best = rounded >= _kth(rounded, k)
        ids = self._ids_of(np.fromiter(scores_by_row, np.int64, len(scores_by_row))[best])
        return sorted(zip(ids, rounded[best].tolist(), strict=True), key=lambda hit: (-hit[1], hit[0]))[:k]

    def readings(self, query: str) -> list[AnalyzedQuery]:
        """Returns the query analyzed for each language of the index, with the document frequency of each term; deleted
        rows do not count.
        """
        readings = self._analyzed.get(query)
        if readings is None:
            plain = is_folded(query)
            readings = [self._reading(query, language, plain and has_folded(language)) for language in self._languages]
            if len(self._analyzed) >= _QUERIES:
                self._analyzed = {}
            self._analyzed[query] = readings
        return list(readings)

    def _reading(self, query: str, language: str, folded: bool) -> AnalyzedQuery:
        terms = list(dict.fromkeys(folded_tokens(query) if folded else tokens(query, language)))
        counts = self._frequencies([FOLDED + term for term in terms] if folded else terms)
        return AnalyzedQuery(language, folded, dict(zip(terms, counts, strict=True)), self._rows)

    def _frequencies(self, keys: Sequence[str]) -> list[int]:
        """Returns in how many live rows each term occurs."""
        counts = np.zeros(len(keys), np.int64)
        for span, postings in self._find_postings(keys):
            live = None if self._live is None else self._live[span]
            own = [len(rows) if live is None else np.count_nonzero(live[rows]) for rows, _ in postings]
            counts += np.array(own, np.int64)
        return counts.tolist()

    def _readings(self, query: str) -> Iterator[tuple[npt.NDArray[np.float64], dict[str, float]]]:
        """Yields each different analysis of the query, as what is added to frequencies in each row and the idf of each
        term that occurs, rarest first: of more than 128 terms, of the 128 rarest.
        """
        readings = {
            (reading.is_folded, tuple(reading.frequencies)): reading.frequencies for reading in self.readings(query)
        }
        for folded, terms in sorted(readings):
            counts = sorted((count, term) for term, count in readings[folded, terms].items() if count)[:MOST_TERMS]
            if counts:
                start = FOLDED if folded else ""
                yield self._norms[folded], {start + term: idf(count, self._rows) for count, term in counts}

    def _best(
        self, norms: npt.NDArray[np.float64], weights: dict[str, float], k: int, allowed: Mask | None
    ) -> tuple[RowNumbers, npt.NDArray[np.float64]]:
        """Returns the k best of the allowed rows, and all that nearly tie with the last one; and their scores.

        Terms are gone through from the rarest on. Once those to come cannot lift a row that has none of the terms so
        far among the best, they are looked up in the rows that are left (Turtle and Flood, "Query evaluation:
        strategies and optimizations", 1995).
        """
        scores = np.zeros(len(norms), np.float64)
        rows: RowNumbers | None = None  # among which the best are; None while these may be any
        if allowed is not None and _FEW * np.count_nonzero(allowed) < len(scores):
            rows = np.flatnonzero(allowed)
        rest = (_K1 + 1) * sum(weights.values())  # the most that the terms to come can add
        parts = list(self._find_postings(list(weights)))
        for number, weight in enumerate(weights.values()):
            if number and _FEW * sum(len(postings[number][0]) for _, postings in parts) > len(scores):
                reached = _among(np.flatnonzero(scores > 0), allowed) if rows is None else rows
                least = _ROUNDED * _kth(scores[reached], k)
                if least > rest:
                    rows = reached[scores[reached] + rest >= least]
            for span, postings in parts:
                having, counts = postings[number]
                if rows is not None and _FEW * len(rows) < len(having):
                    having, counts = _looked_up(having, counts, rows, span)
                scores[span][having] += weight * (_K1 + 1) * (counts / (counts + norms[span][having]))
            rest -= (_K1 + 1) * weight
        rows = _among(np.flatnonzero(scores > 0), allowed) if rows is None else rows[scores[rows] > 0]
        rows = rows[scores[rows] >= _ROUNDED * _kth(scores[rows], k)]
        return rows, scores[rows]

    def _find_postings(self, keys: Sequence[str]) -> Iterator[tuple[slice, list[tuple[Rows, Counts]]]]:
        """Yields for each part which rows it has, and for each term those of them, by their numbers in the part, that
        have it, and how often.
        """
        hashes = np.array([term_hash(key) for key in keys], np.uint64)
        for part, span in zip(self._parts, starmap(slice, pairwise(self._starts)), strict=True):
            yield span, part.find(hashes)


def idf(count: int, rows: int) -> float:
    """Returns the inverse document frequency of a term that occurs in `count` of `rows` rows."""
    return math.log1p((rows - count + 0.5) / (count + 0.5))


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


def _among(rows: RowNumbers, allowed: Mask | None) -> RowNumbers:
    return rows if allowed is None else rows[allowed[rows]]


def _looked_up(having: Rows, counts: Counts, rows: RowNumbers, span: slice) -> tuple[Rows, Counts]:
    """The postings of a term in the rows of a part, `span`, that are among `rows`."""
    first, last = np.searchsorted(rows, [span.start, span.stop])
    wanted = (rows[first:last] - span.start).astype(np.int32)  # of the type of `having`, which would be copied else
    places = np.searchsorted(having, wanted).clip(max=len(having) - 1)
    has = having[places] == wanted
    return wanted[has], counts[places[has]]


def _kth(scores: npt.NDArray[np.float64], k: int) -> float:
    """The k-th largest score; 0 where there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) >= k else 0.0
