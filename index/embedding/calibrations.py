"""Calibrations of the bundled embedders: the curves by which evidence for a hit becomes its relevance.

Made by `python -m benchmarks.calibration --sets …` on 22 November 2026: hits 1 to 5 of hybrid searches for one half of the questions (by the hash of their
ids) of XQuAD in English, Spanish and Vietnamese, Cranfield and CLAP NQ. Among the questions are such without an answer there: of passages left out, of other
sets, greetings, keyboard mash. The other half is what docs/relevance.md reports.
"""

from almanac.index.embedding.score_thresholds import E5_MODEL, E5_PROMPTS, MINILM_REVISION, of_measured
from almanac.schemas.manifest import Calibration, Curve, EmbedderInfo

_MEASURED = {
    (MINILM_REVISION, "", ""): Calibration(
        known=Curve(intercept=-6.41, cosine=7.66, coverage=6.83, cosine_margin=3.53, coverage_margin=9.71),
        unknown=Curve(intercept=-6.75, cosine=3.69, coverage=15.44, cosine_margin=4.34, coverage_margin=16.95),
    ),
    (E5_MODEL, *E5_PROMPTS): Calibration(
        known=Curve(intercept=-33.13, cosine=35.27, coverage=8.53, cosine_margin=40.28, coverage_margin=10.56),
    ),
}


def calibration_of(info: EmbedderInfo) -> Calibration | None:
    """Returns the calibration of a bundled embedder with its own prompts; None for any other."""
    return of_measured(_MEASURED, info)
