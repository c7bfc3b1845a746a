"""Weighs tags into the scores of candidates: those that a question names, and those related to them."""

from typing import Any

from almanac.index.embedding.embedder import Vectors
from almanac.index.reader import OpenVersion
from almanac.query.retrieval.access import Access
from almanac.query.retrieval.candidates import Candidate
from almanac.query.retrieval.request import EmbedQueries, Request, Retrieved
from almanac.query.retrieval.sample import Sample
from almanac.query.retrieval.tags import QuestionTags, TagIndex
from almanac.query.retrieval.workspace_cache import WorkspaceCache
from almanac.schemas.declaration.retrieve import Tags

# Standard deviations above its mean cosine to chunks from which on a question names a tag by meaning. On the workspace
# example, .40 with all-MiniLM-L6-v2 and .85 with multilingual-e5-small: "data privacy for engineers" is at .77 and .92
# to `data-privacy`, and at .26 and .82 to the fourth tag.
_NAMED = 2.75


class TagScores:
    """The tags of one open version, as declared. Safe to share among threads.

    `embed_queries` gives the unit vectors of the names of tags, float32 (n, dimension).
    """

    def __init__(
        self, declared: Tags, opened: OpenVersion, access: Access, sample: Sample, embed_queries: EmbedQueries
    ) -> None:
        self._declared, self._opened, self._access, self._sample, self._embed_queries = (
            declared,
            opened,
            access,
            sample,
            embed_queries,
        )
        size = opened.manifest.counts.chunks
        self._tags = WorkspaceCache[TagIndex](size)
        self._vectors = WorkspaceCache[Vectors](size)

    def weighed(self, request: Request, candidates: list[Candidate], found: Retrieved) -> list[Candidate]:
        """Candidates in the order of their scores after tags are weighed in. Unchanged where the question names no
        tag.
        """
        declared = self._declared
        with found.step("tags") as told:
            asked = self._asked(request)
            told.update(named=list(asked.named), related=list(asked.related))
            if not asked.named or not candidates:
                return candidates
            best = max(one.score for one in candidates)
            rows = self._opened.rows([one.chunk_id for one in candidates], ("metadata",))
            tags = [as_tags(row["metadata"].get(declared.field)) for row in rows]
            for one, own in zip(candidates, tags, strict=True):
                one.tag, one.cluster = round(asked.match(own), 6), round(asked.alignment(own), 6)
                searched = one.score / best if best > 0 else 0.0
                share = 1 - declared.weight - declared.cluster_weight
                one.score = round(
                    share * searched + declared.weight * one.tag + declared.cluster_weight * one.cluster, 6
                )
            told["weights"] = {"search": round(share, 6), "tag": declared.weight, "cluster": declared.cluster_weight}
        return sorted(candidates, key=lambda one: one.order)

    def _asked(self, request: Request) -> QuestionTags:
        vector, workspace, floor = request.vector, request.workspace, self._declared.floor
        if floor is None:
            floor = 1.0 if vector is None else self._sample.usual_cosine(vector).at(_NAMED)
        tags = self._tags_in(workspace)
        return tags.tags_of(
            request.text, None if vector is None else lambda: self._vectors_in(workspace) @ vector, floor
        )

    def _tags_in(self, workspace: str | None) -> TagIndex:
        """Tag index of a workspace, or of all chunks. It is built by workspace, so that a trace does not reveal the
        tags of another one.
        """

        def read() -> TagIndex:
            ids = self._access.chunks_in(workspace)
            values = self._access.column(self._declared.field).values.among(
                None if ids is None else self._opened.mask_of(ids)
            )
            return TagIndex([as_tags(value) for value in values])

        return self._tags.of(workspace, read, self._access.rows_in)

    def _vectors_in(self, workspace: str | None) -> Vectors:
        return self._vectors.of(
            workspace, lambda: self._embed_queries(self._tags_in(workspace).names), self._access.rows_in
        )


def as_tags(value: Any) -> list[str]:
    """Tags as a list of texts, from a list or from a comma-separated text."""
    found = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    return [text for one in found if (text := str(one).strip())]
