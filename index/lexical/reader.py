"""Read access to a lexical index of one or several segments: BM25 search, with the query analyzed once per language of
the index.

tantivy proposes rows, by statistics that include deleted ones. Every score that is returned is computed here, from the
rows' terms and the statistics of live rows, so that the same content ranks the same whatever its segments. A bound on
how much tantivy understates a score tells how many proposals are enough for the best rows to be among them. Of an index
of few rows that is read for many queries, all are scored instead (`postings`).
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.index.lexical.analyzer import folded_tokens, has_folded, is_folded, remembered_tokens, tokens
from almanac.index.lexical.bm25 import RowTerms, bm25_scores, idf, most_of
from almanac.index.lexical.deleted import WantedTerms
from almanac.index.lexical.halves import Halves, Places
from almanac.index.lexical.part import LexicalPart, OpenPart
from almanac.index.lexical.postings import MOST_ROWS, MOST_TERMS, Postings, rows_of_best
from almanac.index.lexical.terms import BODY, FIELDS, FOLDED, REBUILD
from almanac.index.lexical.writer import as_damaged_lexical
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion

Hit = tuple[str, float]
Mask = npt.NDArray[np.bool_]
_Scores = dict[int, float]  # by row

# extra rows requested beyond k, for ties at the cut-off and for what tantivy ranks otherwise: a second search costs ten
# times as much
_SPARE = 50
# rows that are looked at besides where some are deleted: a tenth of a million is, and not of any ten the same share
_FOR_DELETED = 5
# up to this many allowed ids are scored one by one, in 3 ms; with more, hits of the whole index are filtered
_FEW = 500
# factors by which the number of requested rows grows while they are not enough: up to so many, and beyond
_DEEPER, _FAR = (8, 4), 1000
_AT_A_TIME = 5000  # rows whose terms are in memory; some 40 MB
_ROUNDED = 1 - 1e-5  # a score that much below another one may equal it in 6 digits
_KEPT = 10_000  # document frequencies in memory
_QUERIES = 64  # queries in memory, as analyzed: steps of one search ask for theirs several times
_LONGEST_KEPT = 200  # characters of a term whose frequency is kept: a letter with a thousand marks is one, too
# To go through the rows of frequent terms takes nearly all of a search, so they are left out where that changes no hit.
# Shares of the rarest term's weight:
_NEGLIGIBLE = 0.03  # what terms add to a score, all together, that tantivy does not score by; our own scores have them
# what a row with the rarest term scores at least, presumably: then rows without any of the rarest terms need not be
# looked at
_TYPICAL = 1.3
# share of all places of a query's terms up to which the rarest terms are so looked for; more of them cost more than all
# terms together
_RARE = 0.03
# no terms are left out where fewer than one row in so many is wanted: it then takes longest to tell which of the
# proposed rows are
_NARROW = 4
_MOST_TERMS = 128  # per query; of more terms, the rarest decide the ranking almost alone


class TableRows(NamedTuple):
    """The rows of the parts' chunks tables, numbered through all parts. A chunk id may stand in several parts; at most
    one of its rows is live.
    """

    size: int
    locate: Callable[[Sequence[str]], RowNumbers]  # chunk ids → their live rows, -1 for an id without one
    ids: Callable[[RowNumbers], list[str]]  # rows → their chunk ids
    live: Mask | None = None  # which rows are not deleted; None: all

    @classmethod
    def of(cls, ids: Sequence[str]) -> "TableRows":
        """The rows of one part without deletions, from all chunk ids in the order of its table."""
        row_of = {chunk_id: row for row, chunk_id in enumerate(ids)}
        return cls(
            len(ids),
            lambda some: np.array([row_of.get(chunk_id, -1) for chunk_id in some], np.int64),
            lambda rows: [ids[row] for row in rows.tolist()],
        )


class AnalyzedQuery(NamedTuple):
    """A query analyzed for one language, with corpus statistics."""

    language: str  # BCP 47 tag
    is_folded: bool  # whether it was analyzed without diacritics (Vietnamese typed without them)
    frequencies: dict[str, int]  # term → number of rows that contain it, in the order of the query
    rows: int  # rows of the index

    def terms_of(self, text: str) -> frozenset[str]:
        """Returns the terms of another text, analyzed in the same way as this query."""
        return frozenset(remembered_tokens(text, self.language, folded=self.is_folded))


class _Counts(NamedTuple):
    """In how many rows a term occurs."""

    halves: tuple[int, ...]  # of each half, deleted rows included
    live: int


class LexicalIndex:
    """A snapshot of the lexical index of one or several segments; later changes of their folders are not seen. Safe to
    share among threads.
    """

    def __init__(self, parts: Sequence[LexicalPart], table: TableRows, threads: Executor | None = None) -> None:
        """Opens the index of the segments' folders, whose rows are those of `table`, in the order of the parts;
        one of `threads` searches half of many rows.

        Raises DamagedVersion where a file is missing, cannot be read, or has other rows.
        """
        self._parts = [OpenPart(part) for part in parts]
        self._deleted = [part.deleted for part in self._parts if part.deleted]
        self._table = table
        # first row of each part, and the number of all rows
        self._starts = np.array([0, *accumulate(part.facts.rows for part in self._parts)], np.int64)
        self._rows = sum(part.live_rows for part in self._parts)
        totals = {name: sum(part.live_terms[name] for part in self._parts) for name in FIELDS}
        self._averages = {name: total / max(self._rows, 1) for name, total in totals.items()}
        self._halves = Halves(self._parts, self._averages, threads)
        self._postings: dict[str, Postings] = {}  # by field
        for what, rows in (("the lexical index", self._halves.rows), ("the table", table.size)):
            if rows != self._starts[-1]:
                raise DamagedVersion(
                    f"{what} has {rows} rows instead of {self._starts[-1]}",
                    where=str(self._parts[0].folder),
                    hint=REBUILD,
                )
        with as_damaged_lexical(self._parts[0].folder):
            ids, places = self._halves.first_rows()
            is_of_them = ids == table.ids(self._rows_at(places))
        if not is_of_them:
            raise DamagedVersion(
                "the lexical index is that of other rows", where=str(self._parts[0].folder), hint=REBUILD
            )
        self._kept: dict[tuple[str, str], _Counts] = {}
        self._analyzed: dict[str, list[AnalyzedQuery]] = {}
        self._languages = sorted(
            {language for part in self._parts for language in part.facts.languages if self._is_live(language)}
        )

    def read_around(self) -> None:
        """Has the system read what lies around each page that is asked for, and no longer each by itself
        (`core.mapped`).
        """
        for part in self._parts:
            part.terms.read_around()

    def map_pages(self) -> None:
        """Maps the pages of rows' terms that are in memory (`core.mapped`); those of an index of few rows are read.
        Raises DamagedVersion.
        """
        for part in self._parts:
            part.terms.map_pages()
        for name in FIELDS:
            if self._starts[-1] <= MOST_ROWS and sum(part.facts.terms[name] for part in self._parts) <= MOST_TERMS:
                texts = [text for part in self._parts for text in part.terms.texts(name, np.arange(part.facts.rows))]
                self._postings[name] = Postings(texts, self._averages[name])

    def search(self, query: str, k: int, ids: Collection[str] | Mask | None = None) -> list[Hit]:
        """Returns the k best rows as (chunk_id, BM25 score of 6 digits), highest score first, ties by id.

        Terms are combined with OR, without operator syntax. In an index of several languages, each analysis of the
        query is searched, and a row keeps its highest score.

        Args:
            query: The words to search for.
            k: Maximum number of hits.
            ids: Restricts the search to these chunks, or to the rows of a mask over all of them; None searches all
                rows.
        """
        if k < 1 or (ids is not None and not len(ids)):
            return []
        found: _Scores = {}
        known: dict[int, str] = {}  # row → chunk id
        if ids is not None and not isinstance(ids, np.ndarray) and len(ids) <= _FEW:
            known = dict(zip((located := self._table.locate(list(ids))).tolist(), ids, strict=True))
            rows = self._with_terms(np.unique(located[located >= 0]))
            scores = (self._scores(name, weights, rows) for name, weights in self._readings(query))
        else:
            wanted = ids if ids is None or isinstance(ids, np.ndarray) else self._mask_of(ids)
            scores = (self._top(name, weights, k, wanted) for name, weights in self._readings(query))
        for of_reading in scores:
            for row, score in of_reading.items():
                found[row] = max(score, found.get(row, score))
        rounded = {row: float(f"{score:.6g}") for row, score in found.items()}
        least = _kth(rounded, k)
        best = [row for row, score in rounded.items() if score >= least]
        chunk_ids = [known[row] for row in best] if known else self._table.ids(np.array(best, np.int64))
        ranked = zip(chunk_ids, (rounded[row] for row in best), strict=True)
        return sorted(ranked, key=lambda hit: (-hit[1], hit[0]))[:k]

    def readings(self, query: str) -> list[AnalyzedQuery]:
        """Returns the query analyzed for each language of the index, with the document frequency of each term; deleted
        rows do not count.
        """
        found = self._analyzed.get(query)
        if found is None:
            plain = is_folded(query)
            found = [self._reading(query, language, plain and has_folded(language)) for language in self._languages]
            self._analyzed = (self._analyzed if len(self._analyzed) < _QUERIES else {}) | {query: found}
        return list(found)

    def finds(self, query: str, chunk_id: str) -> bool:
        """Whether a row is found by a query both by tantivy and by its stored terms: verifies that its parts belong
        together.
        """
        rows = self._with_terms(self._rows_of([chunk_id]))
        return any(
            self._scores(name, weights, rows) and self._halves.has(chunk_id, name, list(weights))
            for name, weights in self._readings(query)
        )

    def _reading(self, query: str, language: str, folded: bool) -> AnalyzedQuery:
        terms = folded_tokens(query) if folded else tokens(query, language)
        return AnalyzedQuery(
            language, folded, self._frequencies(FOLDED if folded else BODY, tuple(dict.fromkeys(terms))), self._rows
        )

    def _readings(self, query: str) -> Iterator[tuple[str, dict[str, float]]]:
        """Yields each different analysis of the query as field and the idf of each term that occurs: of more than 128
        terms, of the 128 rarest.
        """
        readings = {
            (FOLDED if one.is_folded else BODY, tuple(one.frequencies)): one.frequencies for one in self.readings(query)
        }
        for name, terms in sorted(readings):
            counts = {term: count for term, count in readings[name, terms].items() if count}
            if len(counts) > _MOST_TERMS:
                counts = dict(sorted(counts.items(), key=lambda item: (item[1], item[0]))[:_MOST_TERMS])
            if counts:
                yield name, {term: idf(count, self._rows) for term, count in counts.items()}

    def _frequencies(self, name: str, terms: Sequence[str]) -> dict[str, int]:
        """Returns term → number of live rows that contain it, in the given order."""
        return {term: counts.live for term, counts in zip(terms, self._counts(name, terms), strict=True)}

    def _counts(self, name: str, terms: Sequence[str]) -> "list[_Counts]":
        """Returns for each term in how many rows it occurs. Those of some thousand terms are kept."""
        found = [self._kept.get((name, term)) for term in terms]
        unknown = [term for term, counts in zip(terms, found, strict=True) if counts is None]
        if not unknown:
            return [counts for counts in found if counts is not None]
        wanted = WantedTerms.of(unknown)
        deleted = [
            sum(counts)
            for counts in zip([0] * len(unknown), *(one.counts(name, wanted) for one in self._deleted), strict=True)
        ]
        counted = (
            (term, self._halves.frequencies(name, term), gone) for term, gone in zip(unknown, deleted, strict=True)
        )
        new = {(name, term): _Counts(counts, sum(counts) - gone) for term, counts, gone in counted}
        self._kept = (self._kept if len(self._kept) < _KEPT else {}) | {
            key: counts for key, counts in new.items() if len(key[1]) <= _LONGEST_KEPT
        }
        return [new[name, term] if counts is None else counts for term, counts in zip(terms, found, strict=True)]

    def _is_live(self, language: str) -> bool:
        """Whether a live row has the language, or it is the declared one of all rows."""
        return any(part.facts.language == language or part.live_languages[language] > 0 for part in self._parts)

    def _top(self, name: str, weights: dict[str, float], k: int, wanted: Mask | None) -> _Scores:
        """Returns row → score of the k best rows among those wanted, of all that tie with the last one, and of some
        others.
        """
        if name in self._postings:
            scores = self._postings[name].scores(weights)
            rows = rows_of_best(scores, self._among(np.flatnonzero(scores), wanted), k, _ROUNDED)
            return dict(zip(rows.tolist(), scores[rows].tolist(), strict=True))
        counts = {term: counts.halves for term, counts in zip(weights, self._counts(name, list(weights)), strict=True)}
        highest, total = max(weights.values()), sum(sum(halves) for halves in counts.values())
        deciding = _without_frequent(weights, _NEGLIGIBLE * highest)
        rarest = _without_frequent(weights, _TYPICAL * highest)
        if sum(sum(counts[term]) for term in rarest) > _RARE * total:
            rarest = deciding
        is_narrow = wanted is not None and _NARROW * np.count_nonzero(wanted) < self._halves.rows
        for needed in dict.fromkeys((rarest, deciding)):
            if is_narrow or len(needed) == len(weights):
                break
            found = self._proposed(name, weights, counts, needed, deciding, k, wanted)
            if len(found) >= k and _ROUNDED * _kth(found, k) > most_of(
                weight for term, weight in weights.items() if term not in needed
            ):
                return found
        return self._proposed(name, weights, counts, tuple(weights), tuple(weights), k, wanted)

    def _proposed(
        self,
        name: str,
        weights: dict[str, float],
        counts: dict[str, tuple[int, ...]],
        needed: Sequence[str],
        scored: Sequence[str],
        k: int,
        wanted: Mask | None,
    ) -> _Scores:
        """Returns `_top`, among rows that have one of the needed terms; tantivy orders them by the scored terms."""
        query = self._halves.query(name, {term: (weights[term], counts[term]) for term in scored}, needed)
        others = most_of(weight for term, weight in weights.items() if term not in scored)
        # so many rows, of which one is wanted
        among = 1 if wanted is None else self._halves.rows // max(int(np.count_nonzero(wanted)), 1) + 1
        limit = (k // self._halves.count + _SPARE) * among
        # So many rows usually have k live ones, which tell how much the others have to score.
        most_first = int(k * among * self._halves.rows / max(self._rows, 1)) + _FOR_DELETED * bool(self._deleted)
        scores: _Scores = {}
        seen = np.zeros(0, np.int64)
        least = 0.0  # what a row has to score to be among the k best
        while True:
            proposals, beyond = self._halves.proposals(name, query, limit)
            begin, size = 0, min(most_first, _AT_A_TIME)
            while begin < (
                end := min(begin + size, int(np.searchsorted(-proposals.most, others - least, side="right")))
            ):
                rows = self._rows_at(proposals.places(begin, end))
                new = np.setdiff1d(rows, seen)
                seen = np.concatenate([seen, new])
                scores.update(self._scores(name, weights, self._with_terms(self._among(new, wanted))))
                if len(scores) >= k:
                    least = _ROUNDED * _kth(scores, k)
                begin, size = end, min(2 * size, _AT_A_TIME)
            if not beyond or beyond < least - others:
                return scores
            limit *= _DEEPER[limit > _FAR]

    def _mask_of(self, ids: Collection[str]) -> Mask:
        """Returns the mask of chunks' live rows over the rows of all parts."""
        mask = np.zeros(self._starts[-1], np.bool_)
        mask[self._rows_of(ids)] = True
        return mask

    def _rows_of(self, ids: Collection[str]) -> RowNumbers:
        """Returns the live rows of chunk ids, each once; unknown ids are left out."""
        rows = self._table.locate(list(dict.fromkeys(ids)))
        return rows[rows >= 0]

    def _rows_at(self, places: Places) -> RowNumbers:
        parts, rows = self._halves.rows_at(places)
        found: RowNumbers = self._starts[parts] + rows
        if (found >= self._starts[parts + 1]).any():
            raise DamagedVersion(
                "the lexical index has a row that is in no table", where=str(self._parts[0].folder), hint=REBUILD
            )
        return found

    def _among(self, rows: RowNumbers, wanted: Mask | None) -> RowNumbers:
        """Those of some rows that are live and, where a mask is given, wanted."""
        for mask in (self._table.live, wanted):
            rows = rows if mask is None else rows[mask[rows]]
        return rows

    def _with_terms(self, rows: RowNumbers) -> "_Rows":
        """Rows, ascending, with their terms."""
        bounds = np.searchsorted(rows, self._starts).tolist()
        places = [
            (self._parts[part], rows[begin:end] - self._starts[part])
            for part, (begin, end) in enumerate(pairwise(bounds))
            if begin < end
        ]
        return _Rows(rows, places)

    def _scores(self, name: str, weights: dict[str, float], rows: "_Rows") -> _Scores:
        """Returns row → score of the rows in which a term occurs."""
        scores = bm25_scores(rows.terms(name), weights, self._averages[name]).tolist()
        return {row: score for row, score in zip(rows.numbers.tolist(), scores, strict=True) if score}


class _Rows:
    """Rows that are not deleted, ascending, with their terms once these are asked for."""

    def __init__(self, numbers: RowNumbers, places: list[tuple[OpenPart, RowNumbers]]) -> None:
        self.numbers, self._places = numbers, places
        self._terms: dict[str, RowTerms] = {}

    def terms(self, name: str) -> RowTerms:
        """Returns the terms of a field, in the order of the rows."""
        if name not in self._terms:
            self._terms[name] = RowTerms(
                [text for part, numbers in self._places for text in part.terms.texts(name, numbers)]
            )
        return self._terms[name]


def _without_frequent(weights: dict[str, float], score: float) -> tuple[str, ...]:
    """The terms, rarest first, without the most frequent ones, as many as add less than `score` to any row's, all
    together.
    """
    terms = sorted(weights, key=lambda term: -weights[term])
    while terms and (score := score - most_of([weights[terms[-1]]])) > 0:
        terms.pop()
    return tuple(terms)


def _kth(scores: _Scores, k: int) -> float:
    """The k-th largest score, or the least where there are fewer; 0 where there is none."""
    return min(heapq.nlargest(k, scores.values()), default=0.0)
