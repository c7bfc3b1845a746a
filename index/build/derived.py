"""Parameters of search that are derived from a version's chunks and kept in its manifest.

They depend on the set of chunks alone, never on the order of rows, which differs between a delta and a full build of the same content.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.tables import read_table
from almanac.index.build.chunk_rows import ChunkRows
from almanac.index.embedding.subword_fertility import language_fit
from almanac.index.vectors.exact import most_repeats
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.manifest import Derived

_SAMPLE, _LONGEST = 100, 500  # chunks of each language, and characters of each
_COLUMNS = ["chunk_id", "text_sha256", "metadata"]


def derive(chunks: Path, embed: Embed, *, known: Mapping[str, float] | None = None) -> Derived:
    """Derives the parameters of a chunks table. Raises DamagedVersion where it cannot be read.

    How well the embedder covers a language is measured on the 100 chunks of smallest id: ids are hashes, so this is a random sample, and the same one in
    whatever order the rows come.

    Args:
        chunks: Path of the table.
        embed: The embedder of the version.
        known: How well another embedder covers each language of the table; `embed` is then not looked at.
    """
    table = read_table(chunks, _COLUMNS)
    ids, languages = table.column("chunk_id"), _languages(table.column("metadata"))
    fits = {}
    for language in sorted(pc.unique(languages).to_pylist()):
        if known is not None:
            fits[language] = known[language]
            continue
        rows = pc.indices_nonzero(pc.equal(languages, language))
        sample = rows.take(pc.sort_indices(ids.take(rows))[:_SAMPLE]).to_numpy().astype(np.int64)
        texts = ChunkRows(chunks, sample, ["text"]).slice(0, len(sample)).column("text").to_pylist()
        fits[language] = language_fit(embed, [text[:_LONGEST] for text in texts])
    return Derived(language_fit=fits, repeats=most_repeats(table.column("text_sha256")))


def _languages(metadata: pa.ChunkedArray) -> pa.Array:
    """The `language` in each row's metadata, a JSON text; "" where there is none. Equal metadata, as of one document's chunks, is parsed once."""
    encoded = metadata.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    found = [str(json.loads(text).get("language") or "") for text in encoded.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(encoded.indices)
