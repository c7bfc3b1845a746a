"""The first candidates of a search: what the dense and the lexical retriever propose, with the scores of both,
fused.
"""

from contextlib import ExitStack
from typing import Any

from almanac.index.chunk_set import ChunkSet
from almanac.index.embedding.subword_fertility import COVERED
from almanac.index.lexical.attainable import attainable_score
from almanac.index.reader import OpenVersion
from almanac.query.retrieval.candidates import Candidate
from almanac.query.retrieval.content_languages import ContentLanguages
from almanac.query.retrieval.fusion import fuse, matched
from almanac.query.retrieval.request import Request, Retrieved, required_vector
from almanac.query.retrieval.sample import Sample
from almanac.query.retrieval.weights import dense_weight
from almanac.schemas.declaration.retrieve import Retrieve

# share of a question without diacritics that the best match has, from which on it is Vietnamese: 96 % of such reach it,
# 6 % of English questions
_MOSTLY = 0.5


class Proposals:
    """Proposes candidates of one open version, as its `retrieve` section declares. Safe to share among threads."""

    def __init__(self, declared: Retrieve, opened: OpenVersion, languages: ContentLanguages, sample: Sample) -> None:
        self._declared, self._opened, self._languages, self._sample = declared, opened, languages, sample

    def of(self, request: Request, ids: ChunkSet | None, found: Retrieved) -> list[Candidate]:
        """Candidates of the retrievers of the mode, best first. In mode `hybrid` each has its dense and, where a term
        matches, its lexical score.

        `ids` are the chunks to search, None for all; the steps are added to the trace of `found`.
        """
        wanted = max(self._declared.candidates, request.k)
        dense: dict[str, float] = {}
        lexical: dict[str, float] = {}
        with ExitStack() as begun:
            near = None
            if request.mode != "lexical":
                near = begun.enter_context(self._opened.begin_query(required_vector(request.vector), wanted, ids))
            by_words = Retrieved()
            if request.mode != "dense":
                with by_words.step("lexical") as told:
                    lexical.update(self._opened.lexical(request.text, wanted, ids))
                    told["candidates"] = len(lexical)
            if near is not None:
                with found.step("dense") as told:  # what other threads have left of it
                    dense = dict(near())
                    told["candidates"] = len(dense)
            found.trace += by_words.trace
        if request.vector is not None and (missing := [one for one in lexical if one not in dense]):
            with found.step("dense scores of lexical candidates") as told:
                dense.update(self._opened.cosines(request.vector, missing))
                told["candidates"] = len(missing)
        if request.mode == "hybrid" and (missing := [one for one in dense if one not in lexical]):
            with found.step("lexical scores of dense candidates") as told:
                lexical.update(self._opened.lexical(request.text, len(missing), missing))
                told["candidates"] = len(missing)
        with found.step("fuse") as told:
            scores = (
                self._fused(request, dense, lexical, told)
                if request.mode == "hybrid"
                else lexical
                if request.mode == "lexical"
                else dense
            )
            candidates = [Candidate(one, score, dense.get(one), lexical.get(one)) for one, score in scores.items()]
        return sorted(candidates, key=lambda one: one.order)

    def _fused(
        self, request: Request, dense: dict[str, float], lexical: dict[str, float], told: dict[str, Any]
    ) -> dict[str, float]:
        """Fused scores. Words vote as far as they match: in each language, by the share of the question that the best
        match in it has.

        The embedder gets the rest of their vote, if it knows both languages: of a question in other words than the
        text's, or in another language, where names and codes alone match. It has the weight of one that does not know
        the content if it does not know the question's language, or the question is Vietnamese without diacritics, which
        the index reads and the embedder does not.
        """
        readings = self._opened.readings(request.text)
        attainable = min((attainable_score(reading, request.text) for reading in readings), default=0.0)
        shares = matched(lexical, attainable)
        asked = self._languages.of_question(request.text)
        known = min(self._languages.known, asked.known)
        languages = self._languages.covered({**dense, **lexical}) if asked.known >= COVERED else {}
        is_foreign = bool(self._languages.foreign({**dense, **lexical}, asked))
        if (
            not is_foreign
            and all(reading.is_folded for reading in readings)
            and max(shares.values(), default=0.0) >= _MOSTLY
        ):
            known, languages = 0.0, {}
        weight = dense_weight(known) if self._declared.dense_weight is None else self._declared.dense_weight
        found: dict[str, float] = {}  # language → share of the question that the best match in it has
        for one, language in languages.items():
            found[language] = max(shares.get(one, 0.0), found.get(language, 0.0))
        usual = self._sample.usual_cosine(required_vector(request.vector))
        told.update(
            dense_weight=weight,
            usual_cosine=round(usual.mean, 6),
            spread=round(usual.spread, 6),
            attainable=round(attainable, 4),
        )
        told.update(
            matched=round(max(shares.values(), default=0.0), 4),
            language=asked.tag,
            votes_in={name: round(share, 4) for name, share in found.items()},
        )
        return fuse(
            dense,
            lexical,
            weight,
            usual=usual,
            attainable=attainable,
            votes={one: found[language] for one, language in languages.items()},
        )
