"""Proposals from all segments of a lexical index, by one searcher or, of many rows, by two, each of half of the rows,
which two threads ask.

tantivy weighs terms and lengths by the statistics of a searcher's own rows. `Union.query` mends the weights of terms.
For lengths, what is left is bounded by `bm25.most_understated`: proposals of different searchers are compared by the
most that their exact scores may be.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import tantivy

from almanac.core.beside import begun
from almanac.index.lexical.bm25 import most_understated
from almanac.index.lexical.part import OpenPart
from almanac.index.lexical.terms import FIELDS
from almanac.index.lexical.union import TantivyHit, Union
from almanac.index.vectors.keys import RowNumbers

_MANY = 200_000  # rows from which on two threads search: to hand over takes a tenth of a millisecond
Query = Sequence[tantivy.Query | None]  # for each half; None where it has none of the terms


class Places(NamedTuple):
    """Where rows are in tantivy: the number of the half, int64 (n,), and the address in it."""

    halves: RowNumbers
    addresses: list[tantivy.DocAddress]


class Proposals:
    """Rows that may be the best, in descending order of the most that their scores by the query may be. Of some
    thousand, mostly few are looked at.

    Args:
        hits: What tantivy found in each half, best first.
        understated: How many times tantivy's score an exact one can be, in each half.
    """

    def __init__(self, hits: Sequence[Sequence[TantivyHit]], understated: Sequence[float]) -> None:
        self._hits = hits
        scores = [
            factor * np.fromiter((score for score, _ in some), np.float64, len(some))
            for some, factor in zip(hits, understated, strict=True)
        ]
        self._begins = np.cumsum([0, *(len(some) for some in hits)])
        most = np.concatenate(scores)
        self._order = np.argsort(-most, kind="stable")
        self.most = most[self._order]  # float64 (n,)

    def __len__(self) -> int:
        return len(self._order)

    def places(self, begin: int, end: int) -> "Places":
        """Returns where some of the rows are, in their order."""
        chosen = self._order[begin:end]
        halves = np.searchsorted(self._begins, chosen, side="right") - 1
        numbers = chosen - self._begins[halves]
        return Places(
            halves,
            [self._hits[half][number][1] for half, number in zip(halves.tolist(), numbers.tolist(), strict=True)],
        )


class _Half(NamedTuple):
    union: Union
    parts: RowNumbers  # numbers of its parts
    understated: dict[str, float]  # field → how many times tantivy's score an exact one can be


class Halves:
    """The searchers over all parts. Safe to share among threads.

    Args:
        parts: The segments' parts, opened.
        averages: Field → mean number of terms of live rows, which exact scores are computed with.
        threads: What does work beside the caller; without, there is one searcher.

    Raises DamagedVersion where an index cannot be read.
    """

    def __init__(self, parts: Sequence[OpenPart], averages: dict[str, float], threads: Executor | None = None) -> None:
        self._threads = threads
        sizes = [part.facts.rows for part in parts]
        every, self._halves = np.arange(len(parts)), []
        # Where the parts up to this one have half of all rows, the second half begins.
        half = int(np.searchsorted(list(accumulate(sizes)), sum(sizes) / 2)) + 1
        for numbers in (every[:half], every[half:]) if threads is not None and sum(sizes) >= _MANY else (every,):
            if len(numbers):
                some = [parts[number] for number in numbers.tolist()]
                union = Union([part.folder for part in some])
                self._halves.append(
                    _Half(union, numbers, {name: _most_understated(some, name, averages[name]) for name in FIELDS})
                )
        self.count = len(self._halves)
        self.rows = sum(half.union.rows for half in self._halves)

    def frequencies(self, name: str, term: str) -> tuple[int, ...]:
        """Returns in how many rows of each half a term occurs."""
        return tuple(half.union.frequency(name, term) for half in self._halves)

    def query(self, name: str, weights: dict[str, tuple[float, tuple[int, ...]]], needed: Collection[str]) -> Query:
        """Returns the query for rows with any of the needed terms, scored by all those in `weights`.

        Args:
            name: The field.
            weights: Term → its inverse document frequency among live rows, and its `frequencies`.
            needed: Some of the terms.
        """
        queries: list[tantivy.Query | None] = []
        for number, half in enumerate(self._halves):
            known = {term: (weight, counts[number]) for term, (weight, counts) in weights.items() if counts[number]}
            needed_here = [term for term in needed if term in known]
            queries.append(half.union.query(name, known, needed_here) if needed_here else None)
        return queries

    def proposals(self, name: str, query: Query, limit: int) -> tuple[Proposals, float]:
        """Returns the `limit` best rows of each half; and the most that the score of any other row may be.

        Scores are by the terms of the query, in the field that it is for.
        """

        def searched(number: int) -> list[TantivyHit]:
            of_half = query[number]
            return [] if of_half is None else self._halves[number].union.hits(of_half, limit)

        if len(self._halves) == 1:
            hits = [searched(0)]
        else:
            with begun(lambda: searched(1), self._threads) as second:
                hits = [searched(0), second()]
        understated = [half.understated[name] for half in self._halves[: len(hits)]]
        ends = [factor * some[-1][0] for some, factor in zip(hits, understated, strict=True) if len(some) == limit]
        return Proposals(hits, understated), max(ends, default=0.0)

    def rows_at(self, places: Places) -> tuple[RowNumbers, RowNumbers]:
        """Returns for rows the number of the part that each is of, and its number in the chunks table there, int64 (n,)
        both.
        """
        parts, rows = np.zeros(len(places.halves), np.int64), np.zeros(len(places.halves), np.int64)
        for number, half in enumerate(self._halves):
            if len(at := np.flatnonzero(places.halves == number)):
                folders, rows[at] = half.union.rows_at([places.addresses[place] for place in at.tolist()])
                parts[at] = half.parts[folders]
        return parts, rows

    def first_rows(self) -> tuple[list[str], Places]:
        """Returns a row of each of tantivy's segments: their chunk ids, and where they are."""
        of_halves = [half.union.first_places() for half in self._halves]
        ids = [
            chunk_id
            for half, places in zip(self._halves, of_halves, strict=True)
            for chunk_id in half.union.ids_at(places)
        ]
        halves = np.repeat(np.arange(len(of_halves)), [len(places) for places in of_halves])
        return ids, Places(halves, [address for places in of_halves for address in places])

    def has(self, chunk_id: str, name: str, terms: Sequence[str]) -> bool:
        """Whether a row of this chunk has any of some terms."""
        return any(half.union.has(chunk_id, name, terms) for half in self._halves)


def _most_understated(parts: Sequence[OpenPart], name: str, exact: float) -> float:
    longest = max((part.facts.longest[name] for part in parts), default=0)
    return most_understated(
        longest, sum(part.facts.terms[name] for part in parts) / max(sum(part.facts.rows for part in parts), 1), exact
    )
