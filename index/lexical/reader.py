"""Read access to a version's lexical index: BM25 search, with the query analyzed once per language of the version."""

import shutil
import tempfile
from collections.abc import Collection, Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from almanac.index.lexical.analyzer import folded_tokens, has_folded, is_folded, tokens
from almanac.index.lexical.facts import LEXICAL, lexical_facts
from almanac.index.lexical.writer import BODY, FOLDED, ID, ID_HIGH, ID_LOW, as_damaged_lexical, lexical_schema
from almanac.schemas.errors import StorageError

Hit = tuple[str, float]

_SPARE = 20  # extra rows requested beyond k, for ties at the cut-off
_FEW = 500  # up to this many allowed ids become part of the query, in 2.5 ms; with more, hits of the whole index are filtered
_DEEPER = 4  # factor by which the number of requested rows grows while too few of them pass the filter
_ROUNDING = 2e-6  # relative difference of scores up to which they tie
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
    """A snapshot of the lexical index in a version's folder; later changes of the folder are not seen. Safe to share among threads."""

    def __init__(self, version_dir: Path) -> None:
        """Opens the index. Raises DamagedVersion where it is missing or cannot be read."""
        self._facts = lexical_facts(version_dir / LEXICAL)
        self._schema = lexical_schema()
        with as_damaged_lexical(version_dir / LEXICAL):
            self._searcher = _open(version_dir / LEXICAL)
        self._rows = int(self._searcher.num_docs)

    def ids(self) -> list[str]:
        """Returns the chunk id of every row, in no particular order; a duplicate row repeats its id."""
        hits = self._searcher.search(tantivy.Query.all_query(), max(self._rows, 1), count=False).hits
        return [_id_of(*numbers) for _, *numbers in self._numbered(hits)]

    def search(self, query: str, k: int, ids: Collection[str] | None = None) -> list[Hit]:
        """Returns the k best rows as (chunk_id, BM25 score), highest score first, ties by id.

        Terms are combined with OR, without operator syntax. In an index of several languages, each analysis of the query is searched, and a row keeps its
        highest score.

        Args:
            query: The words to search for.
            k: Maximum number of hits.
            ids: Restricts the search to these chunks, fastest as a set; None searches all rows.
        """
        if k < 1 or (ids is not None and not ids):
            return []
        wanted = ids if ids is None or isinstance(ids, Set) else frozenset(ids)
        best: dict[str, float] = {}
        for field, terms in self._readings(query):
            for chunk_id, score in self._top(self._any_of(field, self._rarest(field, terms), "freq"), k, wanted):
                best[chunk_id] = max(score, best.get(chunk_id, score))
        return _ranked(best.items())[:k]

    def readings(self, query: str) -> list[AnalyzedQuery]:
        """Returns the query analyzed for each language of the index, with the document frequency of each term."""
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

    def _rarest(self, field: str, terms: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the terms to search for: all, or, of more than 128, the 128 rarest that occur in the index."""
        if len(terms) <= _MOST_TERMS:
            return terms
        frequencies = {term: self._searcher.doc_freq(field, term) for term in terms}
        return tuple(sorted((term for term in terms if frequencies[term]), key=lambda term: (frequencies[term], term))[:_MOST_TERMS])

    def _any_of(self, field: str, terms: tuple[str, ...], stored: str) -> tantivy.Query:
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, tantivy.Query.term_query(self._schema, field, term, stored)) for term in terms])

    def _top(self, query: tantivy.Query, k: int, wanted: Set[str] | None) -> list[Hit]:
        """Returns the k best rows of a query as (chunk_id, score), and all rows that tie with the last one, so that ties are broken by id and not by chance."""
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
                if len(found) >= k and _is_less(score, found[-1][1]):
                    return found
                chunk_id = _id_of(high, low)  # the most expensive step of this loop, hence after the check of the score
                if wanted is None or chunk_id in wanted:
                    found.append((chunk_id, score))
            if len(hits) < limit:
                return found
            limit *= _DEEPER

    def _numbered(self, hits: list[tuple[float, tantivy.DocAddress]]) -> "zip[tuple[float, int | None, int | None]]":
        places = [place for _, place in hits]
        high: list[Any] = self._searcher.fast_field_values(ID_HIGH, places)
        low: list[Any] = self._searcher.fast_field_values(ID_LOW, places)
        return zip((score for score, _ in hits), high, low, strict=True)


def _id_of(high: int | None, low: int | None) -> str:
    if high is None or low is None:
        raise ValueError("a row has no id")
    return f"{high:016x}{low:016x}"


def _open(folder: Path) -> tantivy.Searcher:
    """Opens the index through a temporary folder of links: tantivy writes a lock file beside what it reads, and a version may be read-only.

    The searcher has every file open, so the links are not needed any longer. A link into a pinned folder leads to the same file under whatever name that
    folder has by then.
    """
    try:
        links = tempfile.mkdtemp(prefix="almanac-lexical-")
    except OSError as error:
        raise StorageError(f"no temporary folder for the lexical index: {error.strerror}", where="TMPDIR", hint="TMPDIR names a folder to write to") from error
    try:
        for path in folder.iterdir():
            (Path(links) / path.name).symlink_to(path.absolute())
        index = tantivy.Index.open(links)
        index.config_reader(reload_policy="manual")  # otherwise a thread watches for changes
        return index.searcher()
    finally:
        for _ in range(2):  # again, where tantivy has put its lock file there meanwhile
            shutil.rmtree(links, ignore_errors=True)


def _is_less(score: float, above: float) -> bool:
    """Whether a score is less than the one above it by more than rounding errors: tantivy sums terms in single precision, in an order that varies."""
    return above - score > _ROUNDING * above


def _ranked(hits: "Collection[Hit]") -> list[Hit]:
    """Returns hits with scores of 6 digits, highest first, ties by id. Scores that differ by rounding errors alone tie."""
    ordered = sorted(hits, key=lambda hit: -hit[1])
    ranked: list[Hit] = []
    for number, (chunk_id, score) in enumerate(ordered):
        is_tie = number > 0 and not _is_less(score, ordered[number - 1][1])
        ranked.append((chunk_id, ranked[-1][1] if is_tie else float(f"{score:.6g}")))
    return sorted(ranked, key=lambda hit: (-hit[1], hit[0]))
