"""Default weight of the dense retriever in hybrid search, by how well the embedder's vocabulary fits the languages of the content."""

_WEIGHT_IF_KNOWN, _WEIGHT_IF_UNKNOWN = 0.55, 0.2


def dense_weight(known: float) -> float:
    """Weight of the dense score in hybrid fusion: .2 for content in an unknown language (`known` 0) to .55 for a known one (`known` 1), linear in between.

    Chosen on one half of XQuAD's questions in three languages, Cranfield's and CLAP-NQ's, for two embedders at once (`benchmarks.evaluation` prints nDCG@10 by
    weight): where the embedder knows the language, .5 to .6 are within .009 of each other on each set; where it does not, .1 to .3 within .002.
    """
    return round(_WEIGHT_IF_UNKNOWN + known * (_WEIGHT_IF_KNOWN - _WEIGHT_IF_UNKNOWN), 3)
