"""Relevance of hits: whether a hit may be answered from, and the confidence in it."""

from typing import Literal, NamedTuple

Confidence = Literal["high", "medium", "low"]

# Best term coverage among the candidates of a question, on XQuAD with 150 questions each; "hidden": the article with the answer was left out.
#                    1     5    25    50    75    95    99 percentile
#   Spanish         .35   .41   .60   .73   .88  1.00  1.00        dense cosine  .35 to .70
#   hidden          .07   .11   .18   .26   .32   .53   .69                      .31 to .56
#   Vietnamese      .21   .26   .39   .50   .59   .79   .87                      .42 to .75
#   hidden          .06   .07   .12   .16   .20   .30   .43                      .38 to .70
#   English         .28   .42   .63   .77   .88   .97   .99                      .22 to .76
#   hidden          .05   .10   .18   .25   .34   .49   .63                      .08 to .41
# In a language that the embedder does not cover, the cosines of all texts lie close together, so term coverage decides alone. At .30, 99 % of the Spanish
# and 91 % of the Vietnamese questions are answered, and 66 % and 95 % of the hidden ones are refused. In English, with cosine and term coverage, it is
# 100 % and 60 %; with a threshold of the cosine alone, 51 % of the hidden ones were refused.
LEAST_COVERAGE = 0.30
_CONFIDENT = 0.55  # term coverage, in such a language: reached by half and more of the answerable questions, and by 4 % of the hidden ones at most
_STRONG = 0.60  # term coverage that is enough whatever the cosine, as for a product code, which means nothing to an embedder
# In a known language, term coverage above that of unrelated texts (.16) lowers the required cosine, and coverage below it raises it, by .5 of the difference.
_BY_CHANCE, _WORTH = 0.16, 0.5


class Relevance(NamedTuple):
    """Relevance of a hit to its question.

    `dense` is the cosine, None where none was computed. `term_coverage` is the share, 0 to 1, of the question's terms that the hit contains, weighted by
    rarity. `is_known` is whether the embedder covers the hit's language.
    """

    dense: float | None
    term_coverage: float
    is_known: bool

    def is_enough(self, floor: float) -> bool:
        """Whether the hit may be answered from.

        `floor` is the calibrated score threshold of the embedder, a dense cosine. An embedder that was not measured has 0: then every cosine from 0 on is
        enough.
        """
        if not self.is_known:
            return self.term_coverage >= LEAST_COVERAGE
        needed = floor - _WORTH * (self.term_coverage - _BY_CHANCE) if floor > 0 else floor
        return self.term_coverage >= _STRONG or (self.dense is not None and self.dense >= needed)

    def confidence(self, lowest: float, confident: float) -> Confidence:
        """Confidence in the hit: high from `confident` on, medium in the upper half of the range between `lowest` and `confident`, else low.

        Both thresholds are dense cosines. In a language that the embedder does not cover, term coverage is compared with .30 and .55 instead.
        """
        found, least, most = (self.dense or 0.0, lowest, confident) if self.is_known else (self.term_coverage, LEAST_COVERAGE, _CONFIDENT)
        if found >= most:
            return "high"
        return "medium" if found >= (least + most) / 2 else "low"
