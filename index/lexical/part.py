"""One segment's part of a lexical index: its tantivy index, its rows' terms, and what of it is deleted."""

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from almanac.index.lexical.bm25 import most_understated, tantivy_idf
from almanac.index.lexical.deleted import DeletedTerms
from almanac.index.lexical.facts import LEXICAL, lexical_facts
from almanac.index.lexical.terms import FIELDS, REBUILD, TERMS, TermsFile
from almanac.index.lexical.writer import ID, ID_HIGH, ID_LOW, as_damaged_lexical, lexical_schema
from almanac.schemas.errors import DamagedVersion, StorageError

_SINGLE = 1e-6  # relative difference below which a weight is tantivy's own
_ROUNDING = 1 + 2e-5  # most that tantivy's sums of up to 128 terms in single precision are below the exact ones
_KEPT = 1 << 12  # document frequencies in memory

TantivyHit = tuple[float, tantivy.DocAddress]


class LexicalPart(NamedTuple):
    """Where a segment's lexical index lies."""

    folder: Path  # the segment's, which has `lexical/`
    deleted_terms: Path | None = None  # statistics of its deleted rows; None where none are deleted


class OpenPart:
    """A segment's lexical index, opened. Safe to share among threads."""

    def __init__(self, part: LexicalPart) -> None:
        """Opens the files. Raises DamagedVersion where one is missing or cannot be read."""
        self.folder = folder = part.folder / LEXICAL
        self.facts = lexical_facts(folder)
        self.terms = TermsFile(folder / TERMS, self.facts.rows)
        self._schema = lexical_schema()
        with as_damaged_lexical(folder):
            self._searcher = _open(folder)
        if self._searcher.num_docs != self.facts.rows:
            raise DamagedVersion(f"the lexical index has {self._searcher.num_docs} rows instead of {self.facts.rows}", where=str(folder), hint=REBUILD)
        self.deleted = DeletedTerms(part.deleted_terms) if part.deleted_terms else None
        self.live_rows = self.facts.rows - (self.deleted.rows if self.deleted else 0)
        self.live_terms = {name: self.facts.terms[name] - (self.deleted.terms[name] if self.deleted else 0) for name in FIELDS}
        self.live_languages = Counter[str](self.facts.languages)
        self.live_languages.subtract(self.deleted.languages if self.deleted else {})
        self._kept: dict[tuple[str, str], tuple[int, int]] = {}

    def live_frequencies(self, name: str, terms: Sequence[str]) -> list[int]:
        """Returns for each term in how many rows it occurs that are not deleted."""
        return [live for _, live in self._frequencies(name, terms)]

    def _frequencies(self, name: str, terms: Sequence[str]) -> list[tuple[int, int]]:
        """Returns for each term in how many rows it occurs, and in how many that are not deleted; those of the latest 4,000 terms are kept."""
        found = [self._kept.get((name, term)) for term in terms]
        if unknown := [term for term, counts in zip(terms, found, strict=True) if counts is None]:
            counts = [self._searcher.doc_freq(name, term) for term in unknown]
            deleted = self.deleted.counts(name, unknown) if self.deleted else [0] * len(unknown)
            new = {(name, term): (count, count - gone) for term, count, gone in zip(unknown, counts, deleted, strict=True)}
            if len(self._kept) > _KEPT:
                self._kept = {}
            self._kept |= new
            return [counts or new[name, term] for term, counts in zip(terms, found, strict=True)]
        return [counts for counts in found if counts]

    def query(self, name: str, weights: dict[str, float]) -> tantivy.Query | None:
        """Returns the query for rows with any of some terms, weighted by the given inverse document frequencies; None where no row has any."""
        terms = []
        for (term, weight), (count, _) in zip(weights.items(), self._frequencies(name, list(weights)), strict=True):
            if count:
                query = tantivy.Query.term_query(self._schema, name, term, "freq")
                # A term of nearly all of 17 million rows weighs nothing in single precision, and is not lost either.
                factor = weight / max(tantivy_idf(count, self.facts.rows), 1e-7)
                terms.append((tantivy.Occur.Should, query if abs(factor - 1) < _SINGLE else tantivy.Query.boost_query(query, factor)))
        if not terms:
            return None
        query = tantivy.Query.boolean_query(terms)
        # tantivy skips blocks of rows by the best score in each, which it found with the average length of its own segment. Among several segments another
        # average holds, and it could skip too much: then every row is looked at.
        return query if self._searcher.num_segments <= 1 else self._restricted(tantivy.Query.all_query(), query)

    def most_understated(self, name: str, average: float) -> float:
        """Returns how many times tantivy's score the exact one can be, for the average length of all parts' live rows."""
        return most_understated(self.facts.longest[name], self.facts.terms[name] / max(self.facts.rows, 1), average) * _ROUNDING

    def hits(self, query: tantivy.Query, limit: int) -> list[TantivyHit]:
        """Returns tantivy's `limit` best rows, best first, deleted ones included."""
        hits: list[TantivyHit] = self._searcher.search(query, max(min(limit, self.facts.rows), 1), count=False).hits
        return hits

    def ids_at(self, places: list[tantivy.DocAddress]) -> list[str]:
        """Returns the chunk ids of rows."""
        high: list[Any] = self._searcher.fast_field_values(ID_HIGH, places)
        low: list[Any] = self._searcher.fast_field_values(ID_LOW, places)
        return [_id_of(*pair) for pair in zip(high, low, strict=True)]

    def ids(self) -> list[str]:
        """Returns the chunk id of every row, deleted ones included, in no particular order; a duplicate row repeats its id."""
        return self.ids_at([place for _, place in self.hits(tantivy.Query.all_query(), self.facts.rows)])

    def has(self, chunk_id: str, name: str, terms: Sequence[str]) -> bool:
        """Whether tantivy finds a chunk by any of some terms."""
        chosen = tantivy.Query.term_query(self._schema, ID, chunk_id, "basic")
        some = [(tantivy.Occur.Should, tantivy.Query.term_query(self._schema, name, term, "freq")) for term in terms]
        return bool(self.hits(self._restricted(chosen, tantivy.Query.boolean_query(some)), 1))

    def _restricted(self, chosen: tantivy.Query, query: tantivy.Query) -> tantivy.Query:
        """Returns the query for what both find, scored by the second."""
        both = [(tantivy.Occur.Must, tantivy.Query.const_score_query(chosen, 0.0)), (tantivy.Occur.Must, query)]
        return tantivy.Query.boolean_query(both)


class Proposals:
    """The rows of one part that tantivy proposes for a query: the best ones first, and more of them at each request."""

    def __init__(self, part: OpenPart, query: tantivy.Query, understated: float) -> None:
        self.part, self._query, self._understated = part, query, understated
        self.hits: list[TantivyHit] = []  # (score that the exact one does not exceed, place), best first
        self.most_of_others = math.inf  # score that the exact ones of all other rows do not exceed; 0 where there are none

    def deepen(self, limit: int) -> None:
        """Asks for the `limit` best rows."""
        self.hits = [(score * self._understated, place) for score, place in self.part.hits(self._query, limit)]
        self.most_of_others = self.hits[-1][0] if limit < self.part.facts.rows and len(self.hits) == limit else 0.0


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
