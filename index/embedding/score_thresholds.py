"""Cosine thresholds of an embedder: from which dense cosine a hit may be answered from, and from which it is confident.

They are a property of the embedder and do not depend on the retriever.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from almanac.index.embedding.model_cache import MULTILINGUAL_E5
from almanac.index.embedding.unpack import WEIGHTS
from almanac.schemas.manifest import EmbedderInfo

_T = TypeVar("_T")


class ScoreThresholds(NamedTuple):
    """Thresholds on the dense cosine of a hit: below `floor` the answer is "I don't know"; from `confident` on, a hit
    counts as confident.

    `worth` is the cosine that all terms of a question are worth: so much less is needed of a text that contains them
    all than of one that contains none. `foreign` is the floor for texts in another language than the question's, which
    are less similar to it, whatever they are about; None: as in its own.
    """

    floor: float
    confident: float
    worth: float = 0.5
    foreign: float | None = None


MINILM_REVISION = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
E5_REVISION, E5_PROMPTS = MULTILINGUAL_E5.files[WEIGHTS], ("query: ", "passage: ")

# all-MiniLM-L6-v2: best cosine of a question against the 240 English passages of XQuAD (title and text), by percentile:
# 1     5    25    50    75    95    99   max its own 1,185 questions                .27   .35   .49   .59   .67   .75
# .80   .87 225 Cranfield questions                .15   .17   .20   .23   .27   .35   .39   .44 40 everyday questions
# and greetings    .11   .11   .17   .21   .26   .37   .40   .40 its own, article of the answer hidden  .18   .21   .26
# .30   .35   .43   .49   .58 A threshold of .30 keeps 98.1 % of the answerable questions and refuses 86 % and 80 % of
# the two off-topic sets. At .25 it is 99.7 % against 59 % and 70 %; at .35, 94.9 % against 96 % and 93 %. At or above
# .50 are 72 % of the answerable (94 % of them with the right passage first), none of the off-topic, .7 % of the near
# misses.

# multilingual-e5-small-q4 with its prompts: the same on the passages of XQuAD (en, es, vi), on CLAP NQ's 597, whose
# unanswerable questions are close. 1     5    25    50    75    95    99 own questions, English                 .80
# .82   .84   .86   .88   .90   .92 Spanish                                .82   .83   .86   .88   .90   .92   .93
# Vietnamese                             .83   .84   .86   .88   .90   .92   .93 article of the answer hidden, English
# .76   .77   .78   .79   .80   .82   .83 Spanish                                .79   .80   .81   .82   .83   .84   .85
# Vietnamese                             .80   .81   .82   .83   .84   .85   .86 greetings, keyboard mash; English
# .77   .78   .80   .80   .82   .83   .84 CLAP NQ, answerable                    .84   .84   .87   .89   .91   .92   .93
# CLAP NQ, unanswerable                  .81   .81   .83   .85   .86   .89   .90 At .82, with .1 for the words, .5 %, 0
# and .2 % of the answerable questions in the three languages are refused, and 90 %, 64 % and 52 % of the hidden ones;
# at .83 it is 1 %, .2 % and .9 % against 96 %, 79 % and 70 %. Golden questions in Hebrew and French lie as low as .83,
# hence the lower one. English questions to the Spanish and Vietnamese passages lie lower: own .76 to .88 (1st to 99th
# percentile, median .82), off-topic .74 to .81. At or above .86 are 70 % of the answerable (96 % of them with the right
# passage first) and .5 % of the hidden ones.
_MEASURED = {
    (MINILM_REVISION, "", ""): ScoreThresholds(floor=0.30, confident=0.50),
    (E5_REVISION, *E5_PROMPTS): ScoreThresholds(floor=0.82, confident=0.86, worth=0.1, foreign=0.80),
}

# Not measured here, since that needs the API: the values that the Versailles guide, written for this model, calls
# relevant (.7) and very relevant (.8). The model's cosines are high and close together: unrelated texts reach .6.
_OF_MODELS = {
    ("mistral", "mistral-embed", "", ""): ScoreThresholds(floor=0.70, confident=0.80),
    ("mistral", "mistral-embed-2312", "", ""): ScoreThresholds(floor=0.70, confident=0.80),
}

# For models without measurements: no hit with a positive cosine is refused unless the declaration sets a threshold.
_UNCALIBRATED = ScoreThresholds(floor=0.0, confident=0.5)


def score_thresholds(info: EmbedderInfo) -> ScoreThresholds:
    """Returns the calibrated thresholds of an embedder with the prompts that it was measured with; for one that was not
    measured, a floor of 0.
    """
    return of_measured(_MEASURED, info) or _OF_MODELS.get(
        (info.provider, info.model, info.query_prompt, info.document_prompt), _UNCALIBRATED
    )


def of_measured(measured: Mapping[tuple[str, str, str], _T], info: EmbedderInfo) -> _T | None:
    """The entry for the weights of an embedder and its two prompts, whatever it is called; None where there is none."""
    return measured.get((info.revision, info.query_prompt, info.document_prompt))
