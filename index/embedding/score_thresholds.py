"""Cosine thresholds of an embedder: from which dense cosine a hit may be answered from, and from which it is confident.

They are a property of the embedder and do not depend on the retriever.
"""

from typing import NamedTuple

from almanac.schemas.manifest import EmbedderInfo


class ScoreThresholds(NamedTuple):
    """Thresholds on the dense cosine of a hit: below `floor` the answer is "I don't know"; from `confident` on, a hit counts as confident."""

    floor: float
    confident: float


MINILM_REVISION = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Best cosine of a question against the 240 English passages of XQuAD (title and text), by percentile:
#                                            1     5    25    50    75    95    99   max
#   its own 1,185 questions                .27   .35   .49   .59   .67   .75   .80   .87
#   225 Cranfield questions                .15   .17   .20   .23   .27   .35   .39   .44
#   40 everyday questions and greetings    .11   .11   .17   .21   .26   .37   .40   .40
#   its own, article of the answer hidden  .18   .21   .26   .30   .35   .43   .49   .58
# A threshold of .30 keeps 98.1 % of the answerable questions and refuses 86 % and 80 % of the two off-topic sets. At .25 it is 99.7 %
# against 59 % and 70 %; at .35, 94.9 % against 96 % and 93 %.
# At or above .50 are 72 % of the answerable (94 % of them with the right passage first), none of the off-topic, .7 % of the near misses.
_CALIBRATED = {MINILM_REVISION: ScoreThresholds(floor=0.30, confident=0.50)}

# Not measured here, since that needs the API: the values that the Versailles guide, written for this model, calls relevant (.7) and very relevant (.8).
# The model's cosines are high and close together: unrelated texts reach .6.
_OF_MODELS = {
    ("mistral", "mistral-embed"): ScoreThresholds(floor=0.70, confident=0.80),
    ("mistral", "mistral-embed-2312"): ScoreThresholds(floor=0.70, confident=0.80),
}

# For models without measurements: no hit with a positive cosine is refused unless the declaration sets a threshold.
_UNCALIBRATED = ScoreThresholds(floor=0.0, confident=0.5)


def score_thresholds(info: EmbedderInfo) -> ScoreThresholds:
    """Returns the calibrated thresholds of an embedder; for one that was not measured, which includes every embedder with prompts, a floor of 0."""
    if info.query_prompt or info.document_prompt:
        return _UNCALIBRATED
    return _CALIBRATED.get(info.revision) or _OF_MODELS.get((info.provider, info.model), _UNCALIBRATED)
