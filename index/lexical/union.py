"""tantivy over the segments of a lexical index: it proposes rows, deleted ones included, by the statistics of all of
them.
"""

import json
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import tantivy

from almanac.core.durable import write_file
from almanac.index.lexical.bm25 import tantivy_idf
from almanac.index.lexical.writer import ID, ID_HIGH, ID_LOW, ROW, as_damaged_lexical, lexical_schema
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import StorageError

TantivyHit = tuple[float, tantivy.DocAddress]

_META = "meta.json"
_DIGITS = 32  # of a chunk id, which is kept as two numbers
_SINGLE = 1e-6  # relative difference below which a weight is tantivy's own


class Union:
    """One searcher over the tantivy indexes of several folders. Safe to share among threads."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Opens the indexes. Raises DamagedVersion where one cannot be read."""
        self._schema = lexical_schema()
        with as_damaged_lexical(folders[0] if len(folders) == 1 else folders[0].parent.parent):
            self._searcher, counts = _open(folders)
        self.rows = int(self._searcher.num_docs)
        # of each of tantivy's segments, the folder that it is of
        self._part_of = np.repeat(np.arange(len(folders)), counts)

    def frequency(self, name: str, term: str) -> int:
        """Returns in how many rows a term occurs."""
        return int(self._searcher.doc_freq(name, term))

    def query(
        self, name: str, weights: dict[str, tuple[float, int]], needed: Collection[str] | None = None
    ) -> tantivy.Query:
        """Returns the query for rows with any of the needed terms, scored by all terms.

        Args:
            name: The field.
            weights: Term → its inverse document frequency among live rows, and the number of all rows that have it.
            needed: Some of the terms; None for all.
        """
        terms = {}
        for term, (weight, count) in weights.items():
            query = self._term(name, term)
            # A term of nearly all of 17 million rows weighs nothing in single precision, and is not lost either.
            factor = weight / max(tantivy_idf(count, self.rows), 1e-7)
            terms[term] = (
                tantivy.Occur.Should,
                query if abs(factor - 1) < _SINGLE else tantivy.Query.boost_query(query, factor),
            )
        if needed is None or len(needed) == len(terms):
            return tantivy.Query.boolean_query(list(terms.values()))
        query = tantivy.Query.boolean_query([terms.pop(term) for term in needed])
        for other in terms.values():
            query = tantivy.Query.boolean_query([(tantivy.Occur.Must, query), other])
        return query

    def hits(self, query: tantivy.Query, limit: int) -> list[TantivyHit]:
        """Returns the `limit` best rows, best first."""
        hits: list[TantivyHit] = self._searcher.search(query, max(min(limit, self.rows), 1), count=False).hits
        return hits

    def rows_at(self, places: list[tantivy.DocAddress]) -> tuple[RowNumbers, RowNumbers]:
        """Returns for rows the number of the folder that each is of, and its number in the chunks table there, int64
        (n,) both.
        """
        rows = self._searcher.fast_field_values(ROW, places)
        if None in rows:
            raise ValueError("a row has no number")
        return self._part_of[[place.segment_ord for place in places]], np.array(rows, np.int64)

    def first_places(self) -> list[tantivy.DocAddress]:
        """Returns a row of each of tantivy's segments."""
        return [tantivy.DocAddress(number, 0) for number in range(len(self._part_of))]

    def ids_at(self, places: list[tantivy.DocAddress]) -> list[str]:
        """Returns the chunk ids of rows."""
        halves = [self._searcher.fast_field_values(name, places) for name in (ID_HIGH, ID_LOW)]
        if any(None in half for half in halves):
            raise ValueError("a row has no id")
        digits = np.array(halves, dtype=">u8").T.tobytes().hex()
        return [digits[begin : begin + _DIGITS] for begin in range(0, len(digits), _DIGITS)]

    def places(self) -> list[tantivy.DocAddress]:
        """Returns all rows, in no particular order."""
        return [place for _, place in self.hits(tantivy.Query.all_query(), self.rows)]

    def has(self, chunk_id: str, name: str, terms: Sequence[str]) -> bool:
        """Whether a row of this chunk has any of some terms."""
        chosen = tantivy.Query.const_score_query(tantivy.Query.term_query(self._schema, ID, chunk_id, "basic"), 0.0)
        some = tantivy.Query.boolean_query([(tantivy.Occur.Should, self._term(name, term)) for term in terms])
        return bool(
            self.hits(tantivy.Query.boolean_query([(tantivy.Occur.Must, chosen), (tantivy.Occur.Must, some)]), 1)
        )

    def _term(self, name: str, term: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, name, term, "freq")


def _open(folders: Sequence[Path]) -> tuple[tantivy.Searcher, list[int]]:
    """Opens the indexes as one, and counts the segments of each.

    Through a temporary folder of links: tantivy writes a lock file beside what it reads, and a version may be
    read-only.

    The files of an index are named by random ids, so that those of several do not collide; a `meta.json` of all lists
    them. The searcher has every file open, so the links are not needed any longer. A link into a pinned folder leads to
    the same file under whatever name that folder has by then.
    """
    try:
        links = tempfile.mkdtemp(prefix="almanac-lexical-")
    except OSError as error:
        raise StorageError(
            f"no temporary folder for the lexical index: {error.strerror}",
            where="TMPDIR",
            hint="TMPDIR names a folder to write to",
        ) from error
    try:
        metas = [json.loads((folder / _META).read_bytes()) for folder in folders]
        if any(
            meta["schema"] != metas[0]["schema"] or meta["index_settings"] != metas[0]["index_settings"]
            for meta in metas
        ):
            raise ValueError("its segments have different schemas")
        for folder, meta in zip(folders, metas, strict=True):
            for segment in meta["segments"]:
                for path in folder.glob(f"{segment['segment_id'].replace('-', '')}.*"):
                    (Path(links) / path.name).symlink_to(path.absolute())
        every = {
            "segments": [segment for meta in metas for segment in meta["segments"]],
            "opstamp": max(meta["opstamp"] for meta in metas),
        }
        write_file(Path(links) / _META, json.dumps(metas[0] | every), synced=False)
        index = tantivy.Index.open(links)
        index.config_reader(reload_policy="manual")  # otherwise a thread watches for changes
        return index.searcher(), [len(meta["segments"]) for meta in metas]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{_META} lists no segments") from error
    finally:
        for _ in range(2):  # again, where tantivy has put its lock file there meanwhile
            shutil.rmtree(links, ignore_errors=True)
