"""Default weight of the dense retriever in hybrid search, by how well the embedder's vocabulary fits the languages of the content."""

_WEIGHT_IF_KNOWN, _WEIGHT_IF_UNKNOWN = 0.8, 0.5


def dense_weight(known: float) -> float:
    """Weight of the dense score in hybrid fusion: .5 for content in an unknown language (`known` 0) to .8 for a known one (`known` 1), linear in between.

    Chosen on one half of XQuAD's questions (`benchmarks.evaluation` prints nDCG@10 by weight): in English .5 to .8 are within .001 of each other, and .8 is
    what Bruch et al. found best on nine sets; in Spanish and Vietnamese together .5 is best, and from .8 on the fused ranking falls below the lexical one.
    """
    return round(_WEIGHT_IF_UNKNOWN + known * (_WEIGHT_IF_KNOWN - _WEIGHT_IF_UNKNOWN), 3)
