"""Cosine thresholds of an embedder: from which dense cosine a hit may be answered from, and from which it is confident.

They are a property of the embedder and do not depend on the retriever.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from almanac.index.embedding.model_folder import FourBitModel
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
E5_REVISION, E5_PROMPTS = FourBitModel.REVISION, ("query: ", "passage: ")

# What these keep and refuse of questions with and without an answer is in docs/quality.md. Golden questions in Hebrew
# and French lie as low as .83, and English ones to passages in Spanish and Vietnamese lie lower than those to English.
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
    """Returns the thresholds that an embedder brings, else the calibrated ones with the prompts that it was measured
    with; for one that was not measured, a floor of 0.
    """
    if info.floor is not None or info.confident is not None:
        floor = _UNCALIBRATED.floor if info.floor is None else info.floor
        return ScoreThresholds(floor, max(floor, _UNCALIBRATED.confident) if info.confident is None else info.confident)
    return of_measured(_MEASURED, info) or _OF_MODELS.get(
        (info.provider, info.model, info.query_prompt, info.document_prompt), _UNCALIBRATED
    )


def of_measured(measured: Mapping[tuple[str, str, str], _T], info: EmbedderInfo) -> _T | None:
    """The entry for the weights of an embedder and its two prompts, whatever it is called; None where there is none."""
    return measured.get((info.revision, info.query_prompt, info.document_prompt))
