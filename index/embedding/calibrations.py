"""Calibrations of the bundled embedders: the curves by which evidence for a hit becomes its relevance.

Made by `python -m benchmarks.calibration --sets …` on 22 November 2026: hits 1 to 5 of hybrid searches for one half of
the questions (by the hash of their ids) of XQuAD in English, Spanish and Vietnamese, Cranfield and CLAP NQ. Among the
questions are such without an answer there: of passages left out, of other sets, greetings, keyboard mash. The other
half is what docs/quality.md reports.
"""

from almanac.index.embedding.score_thresholds import E5_PROMPTS, E5_REVISION, MINILM_REVISION, of_measured
from almanac.schemas.manifest import Calibration, Curve, EmbedderInfo

_MEASURED = {
    (MINILM_REVISION, "", ""): Calibration(
        known=Curve(intercept=-7.38, cosine=9.26, coverage=5.94, cosine_margin=2.34, coverage_margin=8.78),
        unknown=Curve(intercept=-3.52, cosine=0.17, coverage=13.55, cosine_margin=13.99, coverage_margin=16.51),
    ),
    (E5_REVISION, *E5_PROMPTS): Calibration(
        known=Curve(intercept=-29.91, cosine=31.58, coverage=7.41, cosine_margin=43.42, coverage_margin=9.34),
        foreign=Curve(intercept=-41.74, cosine=49.26, coverage=13.7, cosine_margin=94.31, coverage_margin=8.76),
    ),
}


def calibration_of(info: EmbedderInfo) -> Calibration | None:
    """Returns the calibration of a bundled embedder with its own prompts; None for any other."""
    return of_measured(_MEASURED, info)
