"""Read access to a lexical index of one or several segments: BM25 search, with the query analyzed once per language of the index.

tantivy proposes rows, by statistics that include deleted ones. Every score that is returned is computed here, from the rows' terms and the statistics of live
rows, so that the same content ranks the same whatever its segments. A bound on how much tantivy understates a score tells how many proposals are enough for the
best rows to be among them.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.index.lexical.analyzer import folded_tokens, has_folded, is_folded, tokens
from almanac.index.lexical.bm25 import RowTerms, bm25_scores, idf, most_of, most_understated
from almanac.index.lexical.part import LexicalPart, OpenPart
from almanac.index.lexical.terms import BODY, FIELDS, FOLDED, REBUILD
from almanac.index.lexical.union import Union
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion

Hit = tuple[str, float]
Locate = Callable[[Sequence[str]], RowNumbers]
Mask = npt.NDArray[np.bool_]
_Scores = dict[str, float]

_SPARE = 20  # extra rows requested beyond k, for ties at the cut-off
_FEW = 500  # up to this many allowed ids are scored one by one, in 3 ms; with more, hits of the whole index are filtered
_DEEPER = 4  # factor by which the number of requested rows grows while they are not enough
_AT_A_TIME = 5000  # rows whose terms are in memory; some 40 MB
_ROUNDED = 1 - 1e-5  # a score that much below another one may equal it in 6 digits
_KEPT = 10_000  # document frequencies in memory
_LONGEST_KEPT = 200  # characters of a term whose frequency is kept: a letter with a thousand marks is one, too
# To go through the rows of frequent terms takes nearly all of a search, so they are left out where that changes no hit. Shares of the rarest term's weight:
_NEGLIGIBLE = 0.03  # what terms add to a score, all together, that tantivy does not score by; our own scores have them
_TYPICAL = 1.3  # what a row with the rarest term scores at least, presumably: then rows without any of the rarest terms need not be looked at
_RARE = 0.03  # share of all places of a query's terms up to which the rarest terms are so looked for; more of them cost more than all terms together
_NARROW = 4  # no terms are left out where fewer than one row in so many is wanted: it then takes longest to tell which of the proposed rows are
_MOST_TERMS = 128  # per query; of more terms, the rarest decide the ranking almost alone


class AnalyzedQuery(NamedTuple):
    """A query analyzed for one language, with corpus statistics."""

    language: str  # BCP 47 tag
    is_folded: bool  # whether it was analyzed without diacritics (Vietnamese typed without them)
    frequencies: dict[str, int]  # term → number of rows that contain it, in the order of the query
    rows: int  # rows of the index

    def terms_of(self, text: str) -> set[str]:
        """Returns the terms of another text, analyzed in the same way as this query."""
        return set(folded_tokens(text) if self.is_folded else tokens(text, self.language))


class LexicalIndex:
    """A snapshot of the lexical index of one or several segments; later changes of their folders are not seen. Safe to share among threads."""

    def __init__(self, parts: Sequence[LexicalPart], locate: Locate) -> None:
        """Opens the index.

        Args:
            parts: The segments' folders. A chunk id may stand in several of them, and at most one of these rows is not deleted.
            locate: Returns for chunk ids the number of their row that is not deleted, int64 (n,): the number of rows in the parts before its own, plus its
                number in its part's chunks table; -1 for an id without such a row. For one part without deletions, `rows_of` makes it.

        Raises DamagedVersion where a file is missing or cannot be read.
        """
        self._parts = [OpenPart(part) for part in parts]
        self._deleted = [part.deleted for part in self._parts if part.deleted]
        self._locate = locate
        self._starts = np.array([0, *accumulate(part.facts.rows for part in self._parts)], np.int64)  # first row of each part, and the number of all rows
        self._union = Union([part.folder for part in self._parts])
        if self._union.rows != self._starts[-1]:
            finding = f"the lexical index has {self._union.rows} rows instead of {self._starts[-1]}"
            raise DamagedVersion(finding, where=str(self._parts[0].folder), hint=REBUILD)
        self._rows = sum(part.live_rows for part in self._parts)
        self._totals = {name: sum(part.live_terms[name] for part in self._parts) for name in FIELDS}
        self._understated = {name: self._most_understated(name) for name in FIELDS}
        self._kept: dict[tuple[str, str], tuple[int, int]] = {}
        self._languages = sorted({language for part in self._parts for language in part.facts.languages if self._is_live(language)})

    def ids(self) -> list[str]:
        """Returns the chunk id of every row of all parts, deleted ones included, in no particular order; a duplicate row repeats its id."""
        return self._union.ids()

    def search(self, query: str, k: int, ids: Collection[str] | Mask | None = None) -> list[Hit]:
        """Returns the k best rows as (chunk_id, BM25 score of 6 digits), highest score first, ties by id.

        Terms are combined with OR, without operator syntax. In an index of several languages, each analysis of the query is searched, and a row keeps its
        highest score.

        Args:
            query: The words to search for.
            k: Maximum number of hits.
            ids: Restricts the search to these chunks, or to the rows of a mask over the numbers that `locate` gives; None searches all rows.
        """
        if k < 1 or (ids is not None and not len(ids)):
            return []
        found: _Scores = {}
        if ids is not None and not isinstance(ids, np.ndarray) and len(ids) <= _FEW:
            rows = self._live_rows(list(ids))
            scores = (self._scores(name, weights, rows) for name, weights in self._readings(query))
        else:
            wanted = ids if ids is None or isinstance(ids, np.ndarray) else self._mask_of(ids)
            scores = (self._top(name, weights, k, wanted) for name, weights in self._readings(query))
        for of_reading in scores:
            for chunk_id, score in of_reading.items():
                found[chunk_id] = max(score, found.get(chunk_id, score))
        ranked = ((chunk_id, float(f"{score:.6g}")) for chunk_id, score in found.items())
        return sorted(ranked, key=lambda hit: (-hit[1], hit[0]))[:k]

    def readings(self, query: str) -> list[AnalyzedQuery]:
        """Returns the query analyzed for each language of the index, with the document frequency of each term; deleted rows do not count."""
        return [self._reading(query, language, is_folded(query) and has_folded(language)) for language in self._languages]

    def finds(self, query: str, chunk_id: str) -> bool:
        """Whether a row is found by a query both by tantivy and by its stored terms: verifies that its parts belong together."""
        rows = self._live_rows([chunk_id])
        return any(self._scores(name, weights, rows) and self._union.has(chunk_id, name, list(weights)) for name, weights in self._readings(query))

    def _reading(self, query: str, language: str, folded: bool) -> AnalyzedQuery:
        terms = folded_tokens(query) if folded else tokens(query, language)
        return AnalyzedQuery(language, folded, self._frequencies(FOLDED if folded else BODY, tuple(dict.fromkeys(terms))), self._rows)

    def _readings(self, query: str) -> Iterator[tuple[str, dict[str, float]]]:
        """Yields each different analysis of the query as field and the idf of each term that occurs: of more than 128 terms, of the 128 rarest."""
        folded = is_folded(query)
        readings = {
            (FOLDED, tuple(dict.fromkeys(folded_tokens(query)))) if folded and has_folded(language) else (BODY, tuple(dict.fromkeys(tokens(query, language))))
            for language in self._languages
        }
        for name, terms in sorted(readings):
            counts = {term: count for term, count in self._frequencies(name, terms).items() if count}
            if len(counts) > _MOST_TERMS:
                counts = dict(sorted(counts.items(), key=lambda item: (item[1], item[0]))[:_MOST_TERMS])
            if counts:
                yield name, {term: idf(count, self._rows) for term, count in counts.items()}

    def _frequencies(self, name: str, terms: Sequence[str]) -> dict[str, int]:
        """Returns term → number of live rows that contain it, in the given order."""
        return {term: live for term, (_, live) in zip(terms, self._counts(name, terms), strict=True)}

    def _counts(self, name: str, terms: Sequence[str]) -> list[tuple[int, int]]:
        """Returns for each term in how many rows it occurs, and in how many live ones. Those of some thousand terms are kept."""
        found = [self._kept.get((name, term)) for term in terms]
        unknown = [term for term, counts in zip(terms, found, strict=True) if counts is None]
        if not unknown:
            return [counts for counts in found if counts is not None]
        deleted = [sum(counts) for counts in zip([0] * len(unknown), *(one.counts(name, unknown) for one in self._deleted), strict=True)]
        counted = ((term, self._union.frequency(name, term), gone) for term, gone in zip(unknown, deleted, strict=True))
        new = {(name, term): (count, count - gone) for term, count, gone in counted}
        self._kept = (self._kept if len(self._kept) < _KEPT else {}) | {key: counts for key, counts in new.items() if len(key[1]) <= _LONGEST_KEPT}
        return [new[name, term] if counts is None else counts for term, counts in zip(terms, found, strict=True)]

    def _most_understated(self, name: str) -> float:
        longest = max((part.facts.longest[name] for part in self._parts), default=0)
        return most_understated(longest, sum(part.facts.terms[name] for part in self._parts) / max(self._union.rows, 1), self._average(name))

    def _is_live(self, language: str) -> bool:
        """Whether a live row has the language, or it is the declared one of all rows."""
        return any(part.facts.language == language or part.live_languages[language] > 0 for part in self._parts)

    def _average(self, name: str) -> float:
        return self._totals[name] / max(self._rows, 1)

    def _top(self, name: str, weights: dict[str, float], k: int, wanted: Mask | None) -> _Scores:
        """Returns chunk id → score of the k best rows among those wanted, of all that tie with the last one, and of some others."""
        counts = {term: count for term, (count, _) in zip(weights, self._counts(name, list(weights)), strict=True)}
        highest, total = max(weights.values()), sum(counts.values())
        deciding = _without_frequent(weights, _NEGLIGIBLE * highest)
        rarest = _without_frequent(weights, _TYPICAL * highest)
        if sum(counts[term] for term in rarest) > _RARE * total:
            rarest = deciding
        is_narrow = wanted is not None and _NARROW * np.count_nonzero(wanted) < self._union.rows
        for needed in dict.fromkeys((rarest, deciding)):
            if is_narrow or len(needed) == len(weights):
                break
            found = self._proposed(name, weights, counts, needed, deciding, k, wanted)
            if len(found) >= k and _ROUNDED * _kth(found, k) > most_of(weight for term, weight in weights.items() if term not in needed):
                return found
        return self._proposed(name, weights, counts, tuple(weights), tuple(weights), k, wanted)

    def _proposed(
        self, name: str, weights: dict[str, float], counts: dict[str, int], needed: Sequence[str], scored: Sequence[str], k: int, wanted: Mask | None
    ) -> _Scores:
        """Returns `_top`, among rows that have one of the needed terms; tantivy orders them by the scored terms."""
        query = self._union.query(name, {term: (weights[term], counts[term]) for term in scored}, needed)
        others = most_of(weight for term, weight in weights.items() if term not in scored)
        limit = k + _SPARE
        if wanted is not None:
            limit += limit * self._union.rows // max(int(np.count_nonzero(wanted)), 1)
        scores: _Scores = {}
        seen: set[str] = set()
        least = 0.0  # what a row has to score to be among the k best
        while True:
            hits = [(score * self._understated[name] + others, place) for score, place in self._union.hits(query, limit)]
            begin, size = 0, min(k, _AT_A_TIME)
            while begin < (end := min(begin + size, bisect_right(hits, -least, key=lambda hit: -hit[0]))):
                new = [chunk_id for chunk_id in self._union.ids_at([place for _, place in hits[begin:end]]) if chunk_id not in seen]
                seen.update(new)
                rows = self._live_rows(new, wanted)
                self._require_known(rows)
                scores.update(self._scores(name, weights, rows))
                if len(scores) >= k:
                    least = _ROUNDED * _kth(scores, k)
                begin, size = end, min(2 * size, _AT_A_TIME)
            if len(hits) < limit or hits[-1][0] < least:
                return scores
            limit *= _DEEPER

    def _require_known(self, rows: "_LiveRows") -> None:
        """Raises DamagedVersion where nothing is deleted, and tantivy has a row that is in no table."""
        if rows.others and not self._deleted:
            finding = f"the lexical index has a chunk {rows.others[0]} that is in no table"
            raise DamagedVersion(finding, where=str(self._parts[0].folder), hint=REBUILD)

    def _mask_of(self, ids: Collection[str]) -> Mask:
        """Returns the mask of chunks' live rows over the rows of all parts."""
        mask = np.zeros(self._starts[-1], np.bool_)
        rows = self._locate(list(ids))
        mask[rows[rows >= 0]] = True
        return mask

    def _live_rows(self, ids: Collection[str], wanted: Mask | None = None) -> "_LiveRows":
        """Returns the live rows of chunk ids, those of the mask `wanted` alone where it is given; unknown ids are left out."""
        distinct = list(dict.fromkeys(ids))
        numbers = self._locate(distinct)
        known = numbers >= 0
        if (numbers >= self._starts[-1]).any():
            raise DamagedVersion(f"the lexical index has {self._starts[-1]} rows, and the table has more", where=str(self._parts[-1].folder), hint=REBUILD)
        kept = known if wanted is None else known & wanted[numbers]
        if kept.all():
            return _LiveRows(distinct, [], self._place(numbers))
        return _LiveRows(list(compress(distinct, kept)), list(compress(distinct, ~known)), self._place(numbers[kept]))

    def _place(self, numbers: RowNumbers) -> "list[tuple[OpenPart, RowNumbers, RowNumbers]]":
        """Returns for each part that has any of the rows: their positions in `numbers`, and their numbers in the part."""
        parts = np.searchsorted(self._starts, numbers, side="right") - 1
        return [(self._parts[part], at := np.flatnonzero(parts == part), numbers[at] - self._starts[part]) for part in np.unique(parts).tolist()]

    def _scores(self, name: str, weights: dict[str, float], rows: "_LiveRows") -> _Scores:
        """Returns chunk id → score of the rows in which a term occurs."""
        scores = bm25_scores(rows.terms(name), weights, self._average(name)).tolist()
        return {chunk_id: score for chunk_id, score in zip(rows.ids, scores, strict=True) if score}


class _LiveRows:
    """Rows that are not deleted, with their terms once these are asked for."""

    def __init__(self, ids: list[str], others: list[str], places: list[tuple[OpenPart, RowNumbers, RowNumbers]]) -> None:
        self.ids, self.others = ids, others  # chunk ids of the rows, and those that have no row
        self.places = places
        self._terms: dict[str, RowTerms] = {}

    def terms(self, name: str) -> RowTerms:
        """Returns the terms of a field, in the order of `ids`."""
        if name not in self._terms:
            texts: list[memoryview] = [memoryview(b"")] * len(self.ids)
            for part, positions, numbers in self.places:
                for position, text in zip(positions.tolist(), part.terms.texts(name, numbers), strict=True):
                    texts[position] = text
            self._terms[name] = RowTerms(texts)
        return self._terms[name]


def _without_frequent(weights: dict[str, float], score: float) -> tuple[str, ...]:
    """The terms, rarest first, without the most frequent ones, as many as add less than `score` to any row's, all together."""
    terms = sorted(weights, key=lambda term: -weights[term])
    while terms and (score := score - most_of([weights[terms[-1]]])) > 0:
        terms.pop()
    return tuple(terms)


def _kth(scores: _Scores, k: int) -> float:
    return heapq.nlargest(k, scores.values())[-1]


def rows_of(ids: Iterable[str]) -> Locate:
    """Returns what locates the rows of one part without deletions, from all chunk ids in the order of its table."""
    row_of = {chunk_id: row for row, chunk_id in enumerate(ids)}
    return lambda some: np.array([row_of.get(chunk_id, -1) for chunk_id in some], np.int64)
