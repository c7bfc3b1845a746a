"""Default weight of the dense retriever in hybrid search, by how well the embedder's vocabulary fits the languages of the content."""

import numpy as np

from almanac.index.embedding.subword_fertility import subword_fertility
from almanac.index.reader import OpenVersion
from almanac.schemas.declaration.embed import Embed

# Subword fertility (pieces per word) with all-MiniLM-L6-v2, whose vocabulary is English: English 1.09 to 1.13 (XQuAD, Cranfield, five long texts, product
# documentation), French 1.6 to 1.7, Vietnamese 1.7, Spanish 1.8, German 2.6, Hebrew 4.7, Russian 8.9. Multilingual vocabularies have 100,000 pieces and more.
_KNOWN, _UNKNOWN = 1.25, 1.5
_MANY_LANGUAGES = 100_000
_WEIGHT_IF_KNOWN, _WEIGHT_IF_UNKNOWN = 0.8, 0.5
_SAMPLE, _LONGEST = 100, 500  # chunks of each language, and characters of each


def dense_weight(known: float) -> float:
    """Weight of the dense score in hybrid fusion: .5 for content in an unknown language (`known` 0) to .8 for a known one (`known` 1), linear in between.

    Chosen on one half of XQuAD's questions (`benchmarks.evaluation` prints nDCG@10 by weight): in English .5 to .8 are within .001 of each other, and .8 is
    what Bruch et al. found best on nine sets; in Spanish and Vietnamese together .5 is best, and from .8 on the fused ranking falls below the lexical one.
    """
    return round(_WEIGHT_IF_UNKNOWN + known * (_WEIGHT_IF_KNOWN - _WEIGHT_IF_UNKNOWN), 3)


def known_shares(embed: Embed, opened: OpenVersion) -> dict[str, float]:
    """How well the embedder covers each language of a version, 0 to 1, by the `language` in the metadata of its chunks ("" for chunks without)."""
    by_language: dict[str, list[str]] = {}
    for chunk_id, language in zip(opened.chunk_ids, opened.metadata_column("language"), strict=True):
        by_language.setdefault(str(language or ""), []).append(chunk_id)
    return {language: _known(embed, opened, ids) for language, ids in by_language.items()}


def _known(embed: Embed, opened: OpenVersion, ids: list[str]) -> float:
    """How well the embedder covers these chunks, 0 to 1, by the subword fertility of a sample.

    Multilingual vocabularies and embedders without a readable vocabulary count as 1.
    """
    chosen = [ids[i] for i in np.linspace(0, len(ids) - 1, num=min(_SAMPLE, len(ids)), dtype=int)]
    fit = subword_fertility(embed, [row["text"][:_LONGEST] for row in opened.rows(chosen)])
    if fit is None or fit.size >= _MANY_LANGUAGES:
        return 1.0
    return min(1.0, max(0.0, (_UNKNOWN - fit.pieces_per_word) / (_UNKNOWN - _KNOWN)))
