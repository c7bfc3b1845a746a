"""The read side of a version's lexical index: BM25 over the terms of a query, as each language that the version has reads it."""

from collections.abc import Collection, Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from almanac.index.lexical.analyzer import folded_tokens, has_folded, is_folded, tokens
from almanac.index.lexical.facts import LEXICAL, lexical_facts
from almanac.index.lexical.writer import BODY, FOLDED, ID, ID_HIGH, ID_LOW, damage_told, lexical_schema

Hit = tuple[str, float]

_SPARE = 20  # rows asked for beyond k, for some of equal score beside the last
_FEW = 500  # ids that are looked up, in 2.5 ms; among more, the best rows are picked from those of the whole index
_DEEPER = 4  # times as many rows, where too few of the first ones are wanted
_MOST_TERMS = 128  # of a query; of more, the rarest tell nearly all


class AnalyzedQuery(NamedTuple):
    """A query as one language has it, Vietnamese also without diacritics. `frequencies`: its terms, and in how many of the `rows` each stands."""

    language: str
    is_folded: bool
    frequencies: dict[str, int]
    rows: int

    def terms_of(self, text: str) -> set[str]:
        """The terms of another text, to compare."""
        return set(folded_tokens(text) if self.is_folded else tokens(text, self.language))


class LexicalIndex:
    """The index in a version's folder, opened as it is; later changes of the folder are not seen. Safe to share among threads."""

    def __init__(self, version_dir: Path) -> None:
        """Raises DamagedVersion where there is no lexical index, or it cannot be read."""
        self._facts = lexical_facts(version_dir / LEXICAL)
        self._schema = lexical_schema()
        with damage_told(version_dir / LEXICAL):
            self._searcher = _open(version_dir / LEXICAL)
        self._rows = int(self._searcher.num_docs)

    def ids(self) -> list[str]:
        """The ids of all rows, as often as there are rows."""
        hits = self._searcher.search(tantivy.Query.all_query(), max(self._rows, 1), count=False).hits
        return [_id_of(*numbers) for _, *numbers in self._numbered(hits)]

    def search(self, query: str, k: int, ids: Collection[str] | None = None) -> list[Hit]:
        """The k best rows as (chunk_id, BM25 score), best first, equal ones by id; among `ids` only, where given.

        Any term of the query may match, and nothing in it is an operator. In several languages it has several readings: a row counts by the one
        that suits it best.
        """
        if k < 1 or (ids is not None and not ids):
            return []
        wanted = ids if ids is None or isinstance(ids, Set) else frozenset(ids)
        best: dict[str, float] = {}
        for field, terms in self._readings(query):
            for chunk_id, score in self._top(self._any_of(field, self._telling(field, terms), "freq"), k, wanted):
                best[chunk_id] = max(score, best.get(chunk_id, score))
        return _ranked(best.items())[:k]

    def readings(self, query: str) -> list[AnalyzedQuery]:
        """A query as each language of the index reads it, and how many rows have each of its terms."""
        return [self._reading(query, language, is_folded(query) and has_folded(language)) for language in self._facts.languages]

    def _reading(self, query: str, language: str, folded: bool) -> AnalyzedQuery:
        terms = folded_tokens(query) if folded else tokens(query, language)
        return AnalyzedQuery(language, folded, {term: self._searcher.doc_freq(FOLDED if folded else BODY, term) for term in dict.fromkeys(terms)}, self._rows)

    def _readings(self, query: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        folded = is_folded(query)
        readings = {
            (FOLDED, tuple(dict.fromkeys(folded_tokens(query)))) if folded and has_folded(language) else (BODY, tuple(dict.fromkeys(tokens(query, language))))
            for language in self._facts.languages
        }
        return ((field, terms) for field, terms in sorted(readings) if terms)

    def _telling(self, field: str, terms: tuple[str, ...]) -> tuple[str, ...]:
        """All terms, or of too many the rarest that any row has."""
        if len(terms) <= _MOST_TERMS:
            return terms
        frequencies = {term: self._searcher.doc_freq(field, term) for term in terms}
        return tuple(sorted((term for term in terms if frequencies[term]), key=lambda term: (frequencies[term], term))[:_MOST_TERMS])

    def _any_of(self, field: str, terms: tuple[str, ...], stored: str) -> tantivy.Query:
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, tantivy.Query.term_query(self._schema, field, term, stored)) for term in terms])

    def _top(self, query: tantivy.Query, k: int, wanted: Set[str] | None) -> list[Hit]:
        """The k best rows of a query; all of the same score as the last one are looked at, so that ids and not chance decide."""
        limit = k + _SPARE
        if wanted is not None and len(wanted) <= _FEW:
            chosen = tantivy.Query.const_score_query(self._any_of(ID, tuple(wanted), "basic"), 0.0)
            query, wanted = tantivy.Query.boolean_query([(tantivy.Occur.Must, chosen), (tantivy.Occur.Must, query)]), None
        elif wanted is not None:
            limit += limit * self._rows // len(wanted)
        while True:
            limit = min(limit, self._rows + 1)
            hits = self._searcher.search(query, limit, count=False).hits
            found: list[Hit] = []
            for score, high, low in self._numbered(hits):
                if len(found) >= k and _rounded(score) < found[k - 1][1]:
                    return _ranked(found)[:k]
                chunk_id = _id_of(high, low)  # costs more than all else in this loop
                if wanted is None or chunk_id in wanted:
                    found.append((chunk_id, _rounded(score)))
            if len(hits) < limit:
                return _ranked(found)[:k]
            limit *= _DEEPER

    def _numbered(self, hits: list[tuple[float, tantivy.DocAddress]]) -> "zip[tuple[float, int, int]]":
        places = [place for _, place in hits]
        high: list[Any] = self._searcher.fast_field_values(ID_HIGH, places)
        low: list[Any] = self._searcher.fast_field_values(ID_LOW, places)
        return zip((score for score, _ in hits), high, low, strict=True)


def _id_of(high: int, low: int) -> str:
    return f"{high:016x}{low:016x}"


def _open(folder: Path) -> tantivy.Searcher:
    """tantivy goes by the folder's real path, once: another folder may take that while it opens one file after the other."""
    while True:
        place = folder.resolve()
        index = tantivy.Index.open(str(place))
        index.config_reader(reload_policy="manual")  # else a thread looks for changes
        searcher = index.searcher()
        if folder.resolve() == place:
            return searcher


def _rounded(score: float) -> float:
    """Terms are added up in another order from one segment to the next, in single precision."""
    return float(f"{score:.6g}")


def _ranked(hits: "Collection[Hit]") -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))
