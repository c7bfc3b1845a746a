"""From which cosine on a hit may be answered from: a property of the embedder, never of the retriever."""

from typing import NamedTuple

from almanac.schemas.manifest import EmbedderInfo


class ScoreThresholds(NamedTuple):
    """Dense cosines. Below `floor` the answer is "I don't know"; from `confident` on a hit is called confident."""

    floor: float
    confident: float


MINILM_REVISION = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Best cosine of a question against the 240 English passages of XQuAD (title and text), by percentile:
#                                            1     5    25    50    75    95    99   max
#   its own 1,185 questions                .27   .35   .49   .59   .67   .75   .80   .87
#   225 Cranfield questions                .15   .17   .20   .23   .27   .35   .39   .44
#   40 everyday questions and greetings    .11   .11   .17   .21   .26   .37   .40   .40
#   its own, article of the answer hidden  .18   .21   .26   .30   .35   .43   .49   .58
# From .30 on: 98.1 % of the answerable are kept, 86 % and 80 % of the two off-topic sets are refused. At .25 it is 99.7 %
# against 59 % and 70 %; at .35, 94.9 % against 96 % and 93 %.
# From .50 on: 72 % of the answerable (94 % of them with the right passage first), none of the off-topic, .7 % of the near misses.
_CALIBRATED = {MINILM_REVISION: ScoreThresholds(floor=0.30, confident=0.50)}

# Not measured here, for that needs the API: what the Versailles guide, written for this model, calls relevant (.7) and very relevant (.8). Its
# cosines lie close together and high: texts that have nothing in common reach .6.
_OF_MODELS = {
    ("mistral", "mistral-embed"): ScoreThresholds(floor=0.70, confident=0.80),
    ("mistral", "mistral-embed-2312"): ScoreThresholds(floor=0.70, confident=0.80),
}

# A model that nobody measured: nothing is refused for a positive cosine until the declaration says otherwise.
_UNCALIBRATED = ScoreThresholds(floor=0.0, confident=0.5)


def score_thresholds(info: EmbedderInfo) -> ScoreThresholds:
    """The calibrated floors of this embedder; a model that was not measured refuses nothing above cosine 0, and none was with prompts."""
    if info.query_prompt or info.document_prompt:
        return _UNCALIBRATED
    return _CALIBRATED.get(info.revision) or _OF_MODELS.get((info.provider, info.model), _UNCALIBRATED)
