"""Whether a hit is near enough to its question to be answered from, and whether it can be relied on."""

from typing import Literal, NamedTuple

Confidence = Literal["high", "medium", "low"]

# The best term coverage among the candidates of a question on XQuAD, of 150 questions each; "hidden" without the article that answers:
#                    1     5    25    50    75    95    99 percentile
#   Spanish         .35   .41   .60   .73   .88  1.00  1.00        dense cosine  .35 to .70
#   hidden          .07   .11   .18   .26   .32   .53   .69                      .31 to .56
#   Vietnamese      .21   .26   .39   .50   .59   .79   .87                      .42 to .75
#   hidden          .06   .07   .12   .16   .20   .30   .43                      .38 to .70
#   English         .28   .42   .63   .77   .88   .97   .99                      .22 to .76
#   hidden          .05   .10   .18   .25   .34   .49   .63                      .08 to .41
# In a language that the embedder does not know its cosines lie close together, whatever a text says: there term coverage decides alone:
# from .30 on 99 % of the Spanish and 91 % of the Vietnamese are answered, and 66 % and 95 % of the hidden ones are not. In English, with cosine and words,
# 100 % and 60 %; by the floor of the cosine alone it was 51 %.
LEAST_COVERAGE = 0.30
_CONFIDENT = 0.55  # term coverage, there: half and more of what is answerable, and 4 % at most of what is hidden
_STRONG = 0.60  # so much of a question in a text is a reason of its own, such as a code that tells an embedder nothing
# Elsewhere words count beside the cosine: by as much as they are more, or less, than the words that strangers share.
_BY_CHANCE, _WORTH = 0.16, 0.5


class Relevance(NamedTuple):
    """How near a hit is to its question.

    `dense` is the cosine, None where there is none; `term_coverage`, 0 to 1, is the share of the question's terms that stand in the hit, rare ones counting
    more; `is_known` says whether the embedder knows the hit's language.
    """

    dense: float | None
    term_coverage: float
    is_known: bool

    def is_enough(self, floor: float) -> bool:
        """`floor` is the embedder's calibrated one, a dense cosine; 0 is that of an embedder that nobody measured, and refuses nothing above it."""
        if not self.is_known:
            return self.term_coverage >= LEAST_COVERAGE
        needed = floor - _WORTH * (self.term_coverage - _BY_CHANCE) if floor > 0 else floor
        return self.term_coverage >= _STRONG or (self.dense is not None and self.dense >= needed)

    def confidence(self, lowest: float, confident: float) -> Confidence:
        """high from `confident` on, low in the lower half of what is below it: both are cosines, and in a language that the embedder does not know
        term coverage takes their place."""
        found, least, most = (self.dense or 0.0, lowest, confident) if self.is_known else (self.term_coverage, LEAST_COVERAGE, _CONFIDENT)
        if found >= most:
            return "high"
        return "medium" if found >= (least + most) / 2 else "low"
