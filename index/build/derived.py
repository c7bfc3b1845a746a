"""Parameters of search that are derived from a version's chunks and kept in its manifest.

They depend on the set of chunks alone, never on the order of rows, which differs between a delta and a full build of
the same content.
"""

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.core.digests import Digests, digests_of
from almanac.core.memory import give_back
from almanac.core.tables import Batches, read_rows
from almanac.index.embedding.subword_fertility import language_fit
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.manifest import Derived

_SAMPLE, _LONGEST = 100, 500  # chunks of each language, and characters of each
_ID = 16  # bytes of a chunk id
_COLUMNS = ["chunk_id", "metadata"]


def derive(chunks: Batches, embed: Embed, *, known: Mapping[str, float] | None = None) -> Derived:
    """Derives the parameters of chunks. Raises DamagedVersion where they cannot be read.

    How well the embedder covers a language is measured on the 100 chunks of smallest id: ids are hashes, so this is a
    random sample, and the same one in whatever order the rows come.

    Args:
        chunks: Reads the table, or those of several segments, in batches.
        embed: The embedder of the version.
        known: How well another embedder covers each language of the table; `embed` is then not looked at.
    """
    numbers: dict[str, int] = {}  # of the languages, as they come
    columns: list[tuple[Digests, npt.NDArray[np.int32]]] = []
    for batch in chunks(_COLUMNS):
        languages = _languages(batch.column("metadata"))
        codes = np.array(
            [numbers.setdefault(language, len(numbers)) for language in languages.dictionary.to_pylist()],
            dtype=np.int32,
        )
        columns.append((digests_of(batch.column("chunk_id"), _ID), codes[languages.indices.to_numpy()]))
    ids, spoken = (
        (np.concatenate(column) for column in zip(*columns, strict=True)) if columns else (digests_of([]), np.zeros(0))
    )
    fits = {}
    for language in sorted(numbers):
        if known is not None:
            fits[language] = known[language]
            continue
        rows = np.flatnonzero(spoken == numbers[language])
        sample = np.sort(rows[np.argsort(ids[rows], kind="stable")[:_SAMPLE]])
        texts = [text for batch, _ in read_rows(chunks, ["text"], sample) for text in batch.column("text").to_pylist()]
        fits[language] = language_fit(embed, [text[:_LONGEST] for text in texts])
    del columns, ids, spoken
    give_back()
    return Derived(language_fit=fits)


def _languages(metadata: pa.ChunkedArray) -> pa.DictionaryArray:
    """The `language` in each row's metadata, a JSON text; "" where there is none. Equal metadata, as of one document's
    chunks, is parsed once.
    """
    encoded = metadata.combine_chunks().dictionary_encode()
    languages = [str(json.loads(text).get("language") or "") for text in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(languages, pa.string()))
