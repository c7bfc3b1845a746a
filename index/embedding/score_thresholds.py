"""What was measured of embedders: from which dense cosine a hit may be answered from, from which it is confident, and
by which curves evidence for it becomes its relevance. These do not depend on the retriever.

The calibrations were made by `python -m benchmarks.calibration --sets …` on 22 November 2026: hits 1 to 5 of hybrid
searches for one half of the questions (by the hash of their ids) of XQuAD in English, Spanish and Vietnamese, Cranfield
and CLAP NQ. Among the questions are such without an answer there: of passages left out, of other sets, greetings,
keyboard mash. The other half is what docs/quality.md reports.
"""

from typing import NamedTuple

from almanac.index.embedding.model_folder import FourBitModel
from almanac.schemas.manifest import Calibration, Curve, EmbedderInfo


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

_CALIBRATIONS = {
    (MINILM_REVISION, "", ""): Calibration(
        known=Curve(intercept=-7.38, cosine=9.26, coverage=5.94, cosine_margin=2.34, coverage_margin=8.78),
        unknown=Curve(intercept=-3.52, cosine=0.17, coverage=13.55, cosine_margin=13.99, coverage_margin=16.51),
    ),
    (E5_REVISION, *E5_PROMPTS): Calibration(
        known=Curve(intercept=-29.91, cosine=31.58, coverage=7.41, cosine_margin=43.42, coverage_margin=9.34),
        foreign=Curve(intercept=-41.74, cosine=49.26, coverage=13.7, cosine_margin=94.31, coverage_margin=8.76),
    ),
}

# Not measured here, since that needs the API: the values that the Versailles guide, written for this model, calls
# relevant (.7) and very relevant (.8). The model's cosines are high and close together: unrelated texts reach .6.
_OF_MISTRAL = {"mistral-embed": ScoreThresholds(0.70, 0.80), "mistral-embed-2312": ScoreThresholds(0.70, 0.80)}

# For models without measurements: no hit with a positive cosine is refused unless the declaration sets a threshold.
_UNCALIBRATED = ScoreThresholds(floor=0.0, confident=0.5)


def score_thresholds(info: EmbedderInfo) -> ScoreThresholds:
    """Returns the thresholds that an embedder brings, else the calibrated ones with the prompts that it was measured
    with; for one that was not measured, a floor of 0.
    """
    if info.floor is not None or info.confident is not None:
        floor = _UNCALIBRATED.floor if info.floor is None else info.floor
        return ScoreThresholds(floor, max(floor, _UNCALIBRATED.confident) if info.confident is None else info.confident)
    if info.provider == "mistral" and not info.query_prompt and not info.document_prompt:
        return _OF_MISTRAL.get(info.model, _UNCALIBRATED)
    return _MEASURED.get(_weights_and_prompts(info), _UNCALIBRATED)


def calibration_of(info: EmbedderInfo) -> Calibration | None:
    """Returns the calibration of a bundled embedder with its own prompts; None for any other."""
    return _CALIBRATIONS.get(_weights_and_prompts(info))


def _weights_and_prompts(info: EmbedderInfo) -> tuple[str, str, str]:
    """What an embedder was measured by, whatever it is called."""
    return (info.revision, info.query_prompt, info.document_prompt)
