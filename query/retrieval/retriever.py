"""Retriever of one open version: filter, dense and lexical candidates, fusion, tags, reranking, score threshold,
selection.

Search, answers, evaluation and the gate's golden questions share it. Each step adds an entry with its results and
duration to the trace of the query.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.query.retrieval.access import Access, WorkspaceCache
from almanac.query.retrieval.codes import codes_in, has_code, rare_codes
from almanac.query.retrieval.fusion import Proposals, Sample
from almanac.query.retrieval.question_language import ContentLanguages
from almanac.query.retrieval.relevance import LEAST_COVERAGE, RIVALS, TITLED, Evidence, Judge, titled
from almanac.query.retrieval.request import Candidate, EmbedQueries, Request, Retrieved, Vectors
from almanac.query.retrieval.tags import TagScores, as_tags
from almanac.schemas.results import Hit, Neighbour

if TYPE_CHECKING:
    from almanac.index.reader import OpenVersion
    from almanac.query.models.rerank import Reranker
    from almanac.schemas.declaration import Declaration

_WARM = 60  # characters of a chunk: a search for them reads all kinds of files, and few of their pages
# search of a version before which the system begins to read around pages; those before, warming and first answer, have
# each read by itself
_SINGLE = 4
_UNLIKE = 3  # times k: candidates for the selection by diversity
_LEAST_RANGE = 0.01  # of cosines from the usual one up to 1: in a version of repetitions, the usual one is 1


class Retriever:
    """Searches one open version, which the caller closes, as declared. Safe to share among threads.

    `embed_queries` gives the unit vectors of tag names, float32 (n, dimension); a request carries its own vector.
    """

    def __init__(
        self,
        declaration: "Declaration",
        opened: "OpenVersion",
        embed_queries: EmbedQueries,
        reranker: "Reranker | None" = None,
    ) -> None:
        declared = declaration.retrieve
        self.opened = opened
        self.languages = ContentLanguages(opened, declaration.embed)
        self.access = Access(declaration, opened)
        self.judge = Judge(opened, self.languages)
        self.is_warm = False
        self._searches = count(1)
        self._declared, self._reranker = declared, reranker
        self._language, self._begin_anywhere = declaration.language, declaration.chunk.by == "words"
        self._sample = Sample(opened)
        self._proposals = Proposals(declared, opened, self.languages, self._sample)
        self._tags: TagScores | None = None
        if declared.tags is not None:
            self._tags = TagScores(declared.tags, opened, self.access, self._sample, embed_queries)
        self._documents_in = WorkspaceCache[pa.Table](opened.manifest.counts.chunks)

    def find(self, request: Request, among: Collection[str] | None = None) -> Retrieved:
        """Searches the version, or those of its chunks that are `among` some ids, for at most k hits, best first.

        Raises UsageError as `Access.chunks_in`, DamagedVersion, EmbedderMismatch where the vector has another dimension
        than those of the version, ValueError where the request needs one and has none, and the errors of the reranker
        and of embedding the names of tags.
        """
        retrieved = Retrieved()
        if next(self._searches) == _SINGLE:
            self.opened.read_around()
        with retrieved.step("filter") as facts:
            ids = self.access.chunks_in(request.workspace, request.where)
            if among is not None:
                ids = self.opened.chunk_set(among, ids)
            facts["chunks"] = self.opened.manifest.counts.chunks if ids is None else len(ids)
        if ids is not None and not ids:
            return retrieved
        candidates = self._proposals.propose_candidates(request, ids, retrieved)
        retrieved.rivals = [candidate.chunk_id for candidate in candidates[:RIVALS]]
        candidates = self._with_codes(request, candidates, retrieved)
        if self._tags is not None:
            candidates = self._tags.weighed(request, candidates, retrieved)
        ranked = candidates = self._reranked(request, candidates, retrieved)
        if request.floor is not None:
            with retrieved.step("floor") as facts:
                candidates = [
                    candidate
                    for candidate in candidates
                    if candidate.dense is not None and candidate.dense >= request.floor
                ]
                facts.update(floor=request.floor, left=len(candidates))
        evidence: dict[str, Evidence] = {}
        if request.thresholds is not None and candidates:
            with retrieved.step("floor") as facts:
                candidates = candidates[: max(request.k, self._declared.candidates)]
                evidence = self.judge.evidence(
                    request.text, {candidate.chunk_id: candidate.dense for candidate in candidates}
                )
                candidates = [
                    candidate for candidate in candidates if evidence[candidate.chunk_id].is_enough(request.thresholds)
                ]
                facts.update(floor=request.thresholds.floor, term_coverage=LEAST_COVERAGE, left=len(candidates))
        with retrieved.step("select") as facts:
            candidates = candidates[: request.k] if request.ranking else self._selected(request, candidates)
            retrieved.hits = self._hits(
                candidates, 0 if request.ranking else self._declared.neighbours, request.workspace
            )
            facts["hits"] = len(retrieved.hits)
            if request.closest:
                best = self._selected(replace(request, k=max(request.k, request.closest)), ranked)
                retrieved.closest = self._hits(best, self._declared.neighbours, request.workspace)
        if self.judge.calibration is not None and request.vector is not None and not request.ranking:
            with retrieved.step("relevance") as facts:
                judged = self.judge.judged(request, [*retrieved.hits, *retrieved.closest], retrieved.rivals, evidence)
                retrieved.hits, retrieved.closest = judged[: len(retrieved.hits)], judged[len(retrieved.hits) :]
                facts["compared_with"] = len(retrieved.rivals)
        return retrieved

    def warm(self, dimension: int) -> None:
        """Searches for the beginning of a chunk, so that files and caches are loaded before the first request.
        `dimension` is that of the version's vectors.
        """
        first = self.opened.smallest(1)
        begin = "".join(row["text"][:_WARM] for row in self.opened.rows(first, ("text",))) or "a"
        self.find(Request(begin, np.eye(1, dimension, dtype=np.float32)[0], 1, "hybrid", ranking=True))
        self.judge.evidence(begin, dict.fromkeys(first))  # reads word lists
        self.is_warm = True

    def chunks(self, most: int) -> list[Hit]:
        """All chunks of the version as hits, without scores, ascending by id; none where there are more than `most`."""
        if self.opened.manifest.counts.chunks > most:
            return []
        return self._hits([Candidate(chunk_id, 0.0) for chunk_id in self.opened.smallest(most)], 0, None)

    def documents(self, workspace: str | None = None) -> pa.Table:
        """Lists the documents and records of a workspace, or all, in order: `source` (the URL, else the id), `title`
        and `chunks`. The list is cached.

        Raises UsageError as `Access.visible`.
        """
        visible = self.access.visible(workspace)

        def listed() -> pa.Table:
            documents = self.opened.table(("source", "document_id", "url", "title"), visible)
            documents = documents.group_by(["source", "document_id"], use_threads=False).aggregate(
                [("url", "first"), ("title", "first"), ([], "count_all")]
            )
            is_without_url = pc.equal(pc.fill_null(documents["url_first"], ""), "")
            source = pc.if_else(is_without_url, documents["document_id"], documents["url_first"])
            named = {"source": source, "title": documents["title_first"], "chunks": documents["count_all"]}
            return pa.table(named).sort_by([("source", "ascending"), ("title", "ascending")])

        return self._documents_in.get_or_make(workspace, listed, self.access.rows_in)

    def _with_codes(self, request: Request, candidates: list[Candidate], retrieved: Retrieved) -> list[Candidate]:
        """Candidates with a rare code of the question before all others, in mode `hybrid`: scores are halved, and
        raised by half for the share of codes.

        In a sentence, the code is one word of several, and unknown to the embedder: other records are as near to "How
        much is GR-16?".
        """
        if request.mode != "hybrid" or not candidates or not codes_in(request.text):
            return candidates
        with retrieved.step("codes") as facts:
            rows = self.opened.rows([candidate.chunk_id for candidate in candidates], TITLED)
            texts = [titled(row) for row in rows]
            # Only codes that a candidate has are told of and counted: others may be those of another workspace.
            rare = rare_codes(request.text, self.opened.readings(request.text))
            facts["codes"] = codes = [code for code in rare if any(has_code(code, text) for text in texts)]
            for candidate, text in zip(candidates, texts, strict=True) if codes else ():
                candidate.score = round(
                    (candidate.score + sum(has_code(code, text) for code in codes) / len(codes)) / 2, 6
                )
        return sorted(candidates, key=lambda candidate: candidate.order)

    def _reranked(self, request: Request, candidates: list[Candidate], retrieved: Retrieved) -> list[Candidate]:
        declared = self._declared.rerank
        if declared is None or self._reranker is None or not candidates:
            return candidates
        with retrieved.step("rerank") as facts:
            first, rest = candidates[: declared.candidates], candidates[declared.candidates :]
            rows = self.opened.rows([candidate.chunk_id for candidate in first], ("text", "passage"))
            texts = [row["text"] if row["passage"] is None else row["passage"] for row in rows]
            scores, cut = self._reranker.scores(request.text, texts), self._reranker.count_cut(request.text, texts)
            for candidate, score in zip(first, scores, strict=True):
                candidate.rerank = round(float(score), 6)
            facts.update(candidates=len(first), cut=cut)
            # A reranker's scale is not that of the search. Reranked candidates come first, in its order; the search's
            # scores are handed out anew, descending.
            ordered = sorted(first, key=lambda candidate: (-(candidate.rerank or 0.0), candidate.chunk_id))
            descending = sorted((candidate.score for candidate in first), reverse=True)
            for candidate, score in zip(ordered, descending, strict=True):
                candidate.score = score
            return ordered + rest

    def _selected(self, request: Request, candidates: list[Candidate]) -> list[Candidate]:
        declared = self._declared
        if declared.one_per_document:
            rows = self.opened.rows([candidate.chunk_id for candidate in candidates], ("source", "document_id"))
            first: dict[tuple[str, str], Candidate] = {}
            for candidate, row in zip(candidates, rows, strict=True):
                first.setdefault((row["source"], row["document_id"]), candidate)
            candidates = list(first.values())
        if declared.diversity:
            vectors = self.opened.vectors([candidate.chunk_id for candidate in candidates[: _UNLIKE * request.k]])
            candidates = mmr(candidates, request.k, declared.diversity, vectors, self._sample.usual_likeness)
        candidates = candidates[: request.k]
        if declared.share is not None and candidates:
            least = declared.share * max(candidate.score for candidate in candidates)
            candidates = [
                candidate for n, candidate in enumerate(candidates) if n < declared.least_k or candidate.score >= least
            ]
        return candidates

    def _hits(self, candidates: Sequence[Candidate], neighbours: int, workspace: str | None) -> list[Hit]:
        rows = [
            row | {"metadata": self.access.metadata_for(workspace, row["metadata"])}
            for row in self.opened.rows([candidate.chunk_id for candidate in candidates])
        ]
        around = [self._around(row, neighbours) for row in rows] if neighbours else [None] * len(rows)
        tagged = self._declared.tags.field if self._declared.tags else "tags"
        hits = []
        for rank, (candidate, row, near) in enumerate(zip(candidates, rows, around, strict=True), start=1):
            scores = {name: getattr(candidate, name) for name in ("dense", "lexical", "tag", "cluster", "rerank")}
            read = {"language": self._language, "begins_anywhere": self._begin_anywhere}
            if self._begin_anywhere:
                behind = self.opened.chunks_of(row["source"], row["document_id"], [row["ordinal"] + 1])
                read["ends_anywhere"] = bool(behind)
            if self._language == "auto":
                read["language"] = str(row["metadata"].get("language") or "und")
            tags = as_tags(row["metadata"].get(tagged))
            hits.append(Hit(rank=rank, score=candidate.score, scores=scores, neighbours=near, tags=tags, **read, **row))
        return hits

    def _around(self, row: dict[str, Any], reach: int) -> list[Neighbour]:
        """Neighbours of a chunk: up to `reach` chunks before it and after it in its document, in reading order, without
        the chunk itself.
        """
        near = range(row["ordinal"] - reach, row["ordinal"] + reach + 1)
        at = dict(self.opened.chunks_of(row["source"], row["document_id"], near))
        others = [at[ordinal] for ordinal in near if ordinal != row["ordinal"] and ordinal in at]
        return [Neighbour(**neighbour) for neighbour in self.opened.rows(others, ("chunk_id", "start", "end", "text"))]


def mmr(
    candidates: Sequence[Candidate], k: int, diversity: float, vectors: Vectors, usual: float = 0.0
) -> list[Candidate]:
    """Selects at most k candidates by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), in that order.

    `candidates` come best first, `vectors` are the unit vectors of the first of them, float32 (n, dimension): the
    others are not considered. `diversity` weighs the dissimilarity to those selected, above 0 and up to 1; `usual`, the
    mean cosine of two chunks, counts as a similarity of 0, since the cosines of some embedders are all high.
    """
    alike = (vectors @ vectors.T - usual) / max(1 - usual, _LEAST_RANGE)
    chosen: list[int] = []
    left = list(range(len(vectors)))
    while left and len(chosen) < k:
        nearest = [max(alike[i, chosen], default=0.0) for i in left]
        worth = [
            (1 - diversity) * candidates[i].score - diversity * near for i, near in zip(left, nearest, strict=True)
        ]
        chosen.append(left.pop(int(np.argmax(worth))))
    return [candidates[i] for i in chosen]
