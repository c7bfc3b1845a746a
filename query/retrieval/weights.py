"""Default weight of the dense retriever in hybrid search, by how well the embedder's vocabulary fits the languages of
the content.
"""

_WEIGHT_IF_KNOWN, _WEIGHT_IF_UNKNOWN = 0.5, 0.2


def dense_weight(known: float) -> float:
    """Weight of the dense score in hybrid fusion: .2 for content in an unknown language (`known` 0) to .5 for a known
    one (`known` 1), linear in between.

    It is the weight where words match a whole question; the less they match, the more the embedder has (`fuse`,
    `votes`). Chosen on XQuAD's questions in three languages and on paraphrased questions in French, German and Hebrew:
    where the embedder knows the language, .4 to .55 are within .004 of each other in the mean over these sets; where it
    does not, .1 to .3 within .002 on each of XQuAD's (`benchmarks.evaluation` prints nDCG@10 by weight).
    """
    return round(_WEIGHT_IF_UNKNOWN + known * (_WEIGHT_IF_KNOWN - _WEIGHT_IF_UNKNOWN), 3)
