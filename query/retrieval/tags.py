"""Tags in the score of candidates: those that a question names, and those related to them.

Which tags are related is not declared, but derived from co-occurrence: two tags are related if the tag sets with both
are at least a fifth of those with either.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from almanac.query.retrieval.access import Access, WorkspaceCache
from almanac.query.retrieval.fusion import Sample
from almanac.query.retrieval.request import Candidate, EmbedQueries, Request, Retrieved, Vectors

if TYPE_CHECKING:
    from almanac.index.reader import OpenVersion
    from almanac.schemas.declaration.retrieve import Tags

_MOST_NAMED = 5  # maximum number of tags named by a question, where they are determined by embedding
_TOGETHER = 0.2  # minimum Jaccard index of two related tags: distinct tag sets with both / with either
# Standard deviations above its mean cosine to chunks from which on a question names a tag by meaning. On the workspace
# example, .40 with all-MiniLM-L6-v2 and .85 with multilingual-e5-small: "data privacy for engineers" is at .77 and .92
# to `data-privacy`, and at .26 and .82 to the fourth tag.
_NAMED = 2.75


@dataclass(frozen=True)
class QuestionTags:
    """Tags that a question names, and tags related to them, both sorted. Without named tags, scores do not depend on
    tags.
    """

    named: tuple[str, ...] = ()
    related: tuple[str, ...] = ()

    def match(self, tags: Sequence[str]) -> float:
        """Share, 0 to 1, of the named tags that are among a chunk's `tags`."""
        return len(set(self.named) & set(tags)) / len(self.named) if self.named else 0.0

    def alignment(self, tags: Sequence[str]) -> float:
        """Share, 0 to 1, of a chunk's `tags` that are named or related."""
        return len({*self.named, *self.related} & set(tags)) / len(set(tags)) if tags and self.named else 0.0


class TagIndex:
    """Index of the tags of a set of chunks, such as those of a version or of one workspace. `rows` has the tags of each
    chunk.

    `names` are the distinct tags, sorted.
    """

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        counts: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        # each distinct set once, since the chunks of a page have the same one
        for tags in {tuple(sorted(set(row))) for row in rows}:
            counts.update(tags)
            pairs.update(combinations(tags, 2))
        self.names = sorted(counts)
        self._words = {name: frozenset(_words(name)) for name in self.names}
        self._related: dict[str, set[str]] = defaultdict(set)
        for (tag, other), both in pairs.items():
            if both / (counts[tag] + counts[other] - both) >= _TOGETHER:
                self._related[tag].add(other)
                self._related[other].add(tag)

    def tags_of(self, question: str, cosines_of_names: Callable[[], np.ndarray] | None, floor: float) -> QuestionTags:
        """The tags that a question names: each whose words it all contains, whatever their case and diacritics. Where
        there is none, those nearest to it by embedding, at most five.

        `cosines_of_names` gives the cosines of the question to `names`, float32 (n,), which is expensive; None matches
        words alone. `floor` is the minimum cosine of a tag named so, -1 to 1.
        """
        question_words = set(_words(question))
        named = [name for name in self.names if self._words[name] and self._words[name] <= question_words]
        if not named and cosines_of_names is not None and self.names:
            cosines = cosines_of_names()
            order = np.argsort(-cosines, kind="stable")[:_MOST_NAMED]
            named = sorted(self.names[i] for i in order if cosines[i] >= floor)
        related = sorted({other for name in named for other in self._related[name]} - set(named))
        return QuestionTags(tuple(named), tuple(related))


def _words(text: str) -> list[str]:
    """Words of a text, normalized for comparison: case-folded, without diacritics."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(c))
    return re.findall(r"\w+", folded.replace("_", " "))


class TagScores:
    """The tags of one open version, as declared. Safe to share among threads.

    `embed_queries` gives the unit vectors of the names of tags, float32 (n, dimension).
    """

    def __init__(
        self, declared: "Tags", opened: "OpenVersion", access: Access, sample: Sample, embed_queries: EmbedQueries
    ) -> None:
        self._declared, self._opened, self._access, self._sample = declared, opened, access, sample
        self._embed_queries = embed_queries
        size = opened.manifest.counts.chunks
        self._tags = WorkspaceCache[TagIndex](size)
        self._vectors = WorkspaceCache[Vectors](size)

    def weighed(self, request: Request, candidates: list[Candidate], retrieved: Retrieved) -> list[Candidate]:
        """Candidates in the order of their scores after tags are weighed in. Unchanged where the question names no
        tag.
        """
        declared = self._declared
        with retrieved.step("tags") as facts:
            question_tags = self._tags_of_question(request)
            facts.update(named=list(question_tags.named), related=list(question_tags.related))
            if not question_tags.named or not candidates:
                return candidates
            best = max(candidate.score for candidate in candidates)
            rows = self._opened.rows([candidate.chunk_id for candidate in candidates], ("metadata",))
            tags = [as_tags(row["metadata"].get(declared.field)) for row in rows]
            weight, cluster_weight = declared.weight, declared.cluster_weight
            share = 1 - weight - cluster_weight
            for candidate, own in zip(candidates, tags, strict=True):
                candidate.tag = round(question_tags.match(own), 6)
                candidate.cluster = round(question_tags.alignment(own), 6)
                searched = candidate.score / best if best > 0 else 0.0
                candidate.score = round(
                    share * searched + weight * candidate.tag + cluster_weight * candidate.cluster, 6
                )
            facts["weights"] = {"search": round(share, 6), "tag": weight, "cluster": cluster_weight}
        return sorted(candidates, key=lambda candidate: candidate.order)

    def _tags_of_question(self, request: Request) -> QuestionTags:
        vector, workspace, floor = request.vector, request.workspace, self._declared.floor
        if floor is None:
            floor = 1.0 if vector is None else self._sample.usual_cosine(vector).at(_NAMED)
        tags = self._tags_in(workspace)
        cosines = None if vector is None else lambda: self._vectors_in(workspace, tags.names) @ vector
        return tags.tags_of(request.text, cosines, floor)

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

        return self._tags.get_or_make(workspace, read, self._access.rows_in)

    def _vectors_in(self, workspace: str | None, names: Sequence[str]) -> Vectors:
        return self._vectors.get_or_make(workspace, lambda: self._embed_queries(names), self._access.rows_in)


def as_tags(value: Any) -> list[str]:
    """Tags as a list of texts, from a list or from a comma-separated text."""
    entries = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    return [text for entry in entries if (text := str(entry).strip())]
