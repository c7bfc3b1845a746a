"""Judges the hits of a search: what evidence there is that each answers the question, how relevant that makes it, and
whether it may be answered from.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from almanac.index.embedding.calibrations import calibration_of
from almanac.index.reader import OpenVersion
from almanac.query.retrieval.content_languages import ContentLanguages
from almanac.query.retrieval.relevance import CurveName, Evidence, Features, confidence_in, features, relevances
from almanac.query.retrieval.request import Request, required_vector
from almanac.query.retrieval.row_text import TITLED, titled
from almanac.query.retrieval.term_coverage import term_coverage
from almanac.schemas.manifest import Calibration
from almanac.schemas.results import Hit


class Judge:
    """Judges hits of one open version. Safe to share among threads."""

    def __init__(self, opened: OpenVersion, languages: ContentLanguages) -> None:
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
        rows = self._opened.rows(list(cosines), TITLED)
        shares = term_coverage(self._opened.readings(text), text, [titled(row) for row in rows])
        is_known = [self._languages.covers(language) for language in self._languages.of_chunks(cosines).values()]
        foreign = self._languages.foreign(cosines, self._languages.of_question(text))
        return {
            one: Evidence(cosines[one], *share, known, one in foreign)
            for one, share, known in zip(cosines, shares, is_known, strict=True)
        }

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
        wanted = list(dict.fromkeys([*(hit.chunk_id for hit in hits), *rivals]))
        found = relevances(self.calibration, self._with_cosines(request, wanted, evidence or {}), rivals)
        return [
            hit.model_copy(update={"relevance": (value := found[hit.chunk_id]), "confidence": confidence_in(value)})
            for hit in hits
        ]

    def features(
        self, request: Request, hits: Sequence[Hit], rivals: Sequence[str]
    ) -> list[tuple[Features, CurveName]]:
        """For each hit, what its relevance is made of, and the name of the curve that applies. Calibrations are fitted
        on it.
        """
        evidence = self._with_cosines(request, list(dict.fromkeys([*(hit.chunk_id for hit in hits), *rivals])), {})
        found = features(evidence, rivals)
        return [(found[hit.chunk_id], evidence[hit.chunk_id].curve) for hit in hits]

    def _with_cosines(
        self, request: Request, chunk_ids: Sequence[str], known: Mapping[str, Evidence]
    ) -> dict[str, Evidence]:
        """Evidence for chunks, by chunk id, in their order, all with cosines."""
        missing = [one for one in chunk_ids if one not in known or known[one].dense is None]
        found = {**known, **self.evidence(request.text, self._opened.cosines(required_vector(request.vector), missing))}
        return {one: found[one] for one in chunk_ids}
