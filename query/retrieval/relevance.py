"""Relevance of hits: how often a hit with such evidence answers its question, and whether one may be answered from at
all.

The evidence for a hit is its dense cosine, the share of the question's terms that it contains, and how far it is above,
or below, the other candidates in both. A logistic curve makes a probability of them, which was fitted for the embedder
on judged questions (`index.embedding.score_thresholds`, `query.evaluation`). It does not depend on the score by
which hits are ordered, nor on the number of hits.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from almanac.index.embedding.score_thresholds import calibration_of
from almanac.query.retrieval.question_language import ContentLanguages
from almanac.query.retrieval.request import Request, required_vector
from almanac.query.retrieval.term_coverage import term_coverage
from almanac.schemas.manifest import Calibration, Curve
from almanac.schemas.results import Confidence, Hit

if TYPE_CHECKING:
    from almanac.index.embedding.score_thresholds import ScoreThresholds
    from almanac.index.reader import OpenVersion

CurveName = Literal["known", "unknown", "foreign"]  # of `Calibration`
HIGH, MEDIUM = 0.7, 0.4  # relevance from which on confidence in a hit is high, or medium
RIVALS = 10  # first candidates of a search, with which each hit is compared
TITLED = ("title", "text", "passage")  # the columns that `titled` is made of

# In a language that the embedder does not cover, the cosines of all texts lie close together, so that term coverage
# decides alone. At .30, 99 % of XQuAD's Spanish and 91 % of its Vietnamese questions are answered, and 66 % and 95 % of
# those whose article was left out are refused; from .55 on lie half and more of the former, and 4 % of the latter.
LEAST_COVERAGE, _CONFIDENT = 0.30, 0.55
# term coverage that is enough whatever the cosine, as for a product code, which means nothing to an embedder
_STRONG = 0.60
# In a known language, term coverage above that of unrelated texts (.16) lowers the required cosine, and coverage below
# it raises it, by a part of the difference that belongs to the embedder (`ScoreThresholds.worth`). In English, 100 % of
# XQuAD's questions are answered so, and 60 % of the hidden ones refused; by the cosine alone, 51 %.
_BY_CHANCE = 0.16


def titled(row: Mapping[str, Any]) -> str:
    """The title of a row with TITLED, and what there is to read of it, as `Hit.readable`."""
    return f"{row['title']} {row['text'] if row['passage'] is None else row['passage']}"


class Evidence(NamedTuple):
    """Evidence that a chunk answers a question.

    `dense` is the cosine, None where none was computed. `term_coverage` is the share, 0 to 1, of the question's terms
    that the chunk contains, weighted by rarity, and `cautious` the same for a question that might have had more words
    (`Coverage`). `is_known` is whether the embedder covers the chunk's language; `is_foreign`, whether the question is
    in another language, and the embedder covers both: then words hardly match.
    """

    dense: float | None
    term_coverage: float
    cautious: float
    is_known: bool
    is_foreign: bool = False

    @property
    def curve(self) -> CurveName:
        """Name of the curve in a calibration that applies."""
        return "foreign" if self.is_foreign else "known" if self.is_known else "unknown"

    def is_enough(self, thresholds: "ScoreThresholds") -> bool:
        """Whether the chunk may be answered from.

        An embedder that was not measured has the floor 0: then every cosine from 0 on is enough.
        """
        if not self.is_known:
            return self.term_coverage >= LEAST_COVERAGE
        if self.is_foreign and thresholds.foreign is not None:
            return self.dense is not None and self.dense >= thresholds.foreign - thresholds.worth * self.term_coverage
        floor = thresholds.floor
        needed = floor - thresholds.worth * (self.term_coverage - _BY_CHANCE) if floor > 0 else floor
        return self.term_coverage >= _STRONG or (self.dense is not None and self.dense >= needed)

    def reaches(self, cosine: float) -> bool:
        """Whether the dense cosine is at least `cosine`; in a language that the embedder does not cover, whether term
        coverage is at least .55.
        """
        return (self.dense or 0.0) >= cosine if self.is_known else self.term_coverage >= _CONFIDENT


class Features(NamedTuple):
    """What a curve weighs: a cosine, a cautious term coverage, and how far each is above the best rival's; below it,
    they are negative.
    """

    cosine: float
    coverage: float
    cosine_margin: float
    coverage_margin: float

    def on(self, curve: Curve) -> float:
        """Probability, 0 to 1, on a curve."""
        weighed = zip(self, (curve.cosine, curve.coverage, curve.cosine_margin, curve.coverage_margin), strict=True)
        logit = curve.intercept + sum(value * weight for value, weight in weighed)
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))


def features(evidence: Mapping[str, Evidence], rivals: Iterable[str]) -> dict[str, Features]:
    """The features of chunks, by chunk id.

    Args:
        evidence: Evidence by chunk id, each with a cosine.
        rivals: Ids of the chunks to compare with, which `evidence` has. A chunk is no rival of itself, nor of its
            copies. Other chunks of its document are: most documents answer in one place, and the paragraphs on which
            curves are fitted have the others of their article beside them.
    """
    others = [(rival, evidence[rival]) for rival in rivals]
    features_by_chunk = {}
    for chunk_id, own in evidence.items():
        copies = {(own.dense, own.cautious)}
        theirs = [rival for name, rival in others if name != chunk_id and (rival.dense, rival.cautious) not in copies]
        cosine, coverage = own.dense or 0.0, own.cautious
        best = max((rival.dense or 0.0 for rival in theirs), default=cosine)
        most = max((rival.cautious for rival in theirs), default=coverage)
        features_by_chunk[chunk_id] = Features(cosine, coverage, cosine - best, coverage - most)
    return features_by_chunk


def relevance_by(calibration: Calibration, features: Features, curve: CurveName) -> float | None:
    """Relevance of a chunk, 0 to 1 to 3 decimals; None in a language for which there is no curve."""
    fitted: Curve | None = getattr(calibration, curve)
    return None if fitted is None else round(features.on(fitted), 3)


def confidence_in(relevance: float | None) -> Confidence | None:
    """Confidence in a hit: high from a relevance of .7 on, medium from .4 on, else low; None without relevance."""
    if relevance is None:
        return None
    return "high" if relevance >= HIGH else "medium" if relevance >= MEDIUM else "low"


class Judge:
    """Judges hits of one open version. Safe to share among threads."""

    def __init__(self, opened: "OpenVersion", languages: ContentLanguages) -> None:
        self._opened, self._languages = opened, languages

    @cached_property
    def calibration(self) -> Calibration | None:
        """The curves of the version's embedder: those that it was measured with, else those that its knowledge base was
        calibrated with.
        """
        manifest = self._opened.manifest
        return calibration_of(manifest.embedder) or manifest.calibration

    def evidence(self, text: str, cosines: Mapping[str, float | None]) -> dict[str, Evidence]:
        """Evidence that chunks answer a question, by chunk id. `cosines` has the dense cosine of each chunk, None where
        there is none.
        """
        if not cosines:
            return {}
        texts = [titled(row) for row in self._opened.rows(list(cosines), TITLED)]
        shares = term_coverage(self._opened.readings(text), text, texts)
        languages = self._languages.compare_with_chunks(text, cosines)
        components = zip(cosines.items(), shares, languages, strict=True)
        return {chunk_id: Evidence(cosine, *share, *language) for (chunk_id, cosine), share, language in components}

    def judged(
        self,
        request: Request,
        hits: Sequence[Hit],
        rivals: Sequence[str],
        evidence: Mapping[str, Evidence] | None = None,
    ) -> list[Hit]:
        """The hits with their relevance to the text of `request`, and with the confidence in them.

        `rivals` are chunk ids of the candidates to compare with; `evidence` is what is known already. Without a vector
        of the request, and without a calibration of the embedder, hits stay as they are.
        """
        if request.vector is None or self.calibration is None:
            return list(hits)
        relevances = [
            relevance_by(self.calibration, *feature) for feature in self.features(request, hits, rivals, evidence)
        ]
        return [
            hit.model_copy(update={"relevance": value, "confidence": confidence_in(value)})
            for hit, value in zip(hits, relevances, strict=True)
        ]

    def features(
        self,
        request: Request,
        hits: Sequence[Hit],
        rivals: Sequence[str],
        evidence: Mapping[str, Evidence] | None = None,
    ) -> list[tuple[Features, CurveName]]:
        """What the relevance of each hit is made of, and which curve applies. Calibrations are fitted on it. Arguments
        as for `judged`; the request has a vector.
        """
        known, wanted = evidence or {}, dict.fromkeys([*(hit.chunk_id for hit in hits), *rivals])
        missing = [chunk_id for chunk_id in wanted if chunk_id not in known or known[chunk_id].dense is None]
        cosines = self._opened.cosines(required_vector(request.vector), missing)
        all_known = {**known, **self.evidence(request.text, cosines)}
        features_by_chunk = features({chunk_id: all_known[chunk_id] for chunk_id in wanted}, rivals)
        return [(features_by_chunk[hit.chunk_id], all_known[hit.chunk_id].curve) for hit in hits]
