"""Retriever of one open version: filter, dense and lexical candidates, fusion, tags, reranking, score threshold, selection.

Search, answers, evaluation and the gate's golden questions share it. Each step adds an entry with its results and duration to the trace of the query.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from almanac.core.coded import Coded
from almanac.index.chunk_set import ChunkSet
from almanac.index.embedding.calibrations import calibration_of
from almanac.index.embedding.embedder import Vectors
from almanac.index.embedding.subword_fertility import COVERED
from almanac.index.lexical.attainable import attainable_score
from almanac.index.reader import OpenVersion
from almanac.query.models.rerank import Reranker
from almanac.query.retrieval.candidates import Candidate
from almanac.query.retrieval.codes import codes_in, has_code, rare_codes
from almanac.query.retrieval.content_languages import ContentLanguages
from almanac.query.retrieval.filters import Column, Mask, filter_key, matching_rows, reach
from almanac.query.retrieval.fusion import UsualCosine, fuse, matched
from almanac.query.retrieval.known_fields import KnownFields, metadata_paths
from almanac.query.retrieval.listed_documents import ListedDocuments, table_of_documents
from almanac.query.retrieval.relevance import LEAST_COVERAGE, RIVALS, CurveName, Evidence, Features, confidence_in, features, relevances
from almanac.query.retrieval.request import Request, Retrieved
from almanac.query.retrieval.selection import drop_below_score_share, mmr, one_of_each_document
from almanac.query.retrieval.spelling import Vocabulary
from almanac.query.retrieval.tags import QuestionTags, TagIndex
from almanac.query.retrieval.term_coverage import term_coverage
from almanac.query.retrieval.weights import dense_weight
from almanac.query.retrieval.workspace_cache import WorkspaceCache
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import Calibration
from almanac.schemas.results import Hit, Neighbour

EmbedQueries = Callable[[Sequence[str]], Vectors]
_ROW_FIELDS = ("source", "document_id", "url", "title", "kind")
_HIT_FIELDS = ("chunk_id", "document_id", "source", "url", "title", "text", "passage", "ordinal", "start", "end", "metadata", "fetched_at")
_SAMPLE = 1000  # chunks whose cosines to a question are what is usual
# Standard deviations above its mean cosine to chunks from which on a question names a tag by meaning. On the workspace example, .40 with all-MiniLM-L6-v2 and
# .85 with multilingual-e5-small: "data privacy for engineers" is at .77 and .92 to `data-privacy`, and at .26 and .82 to the fourth tag.
_NAMED = 2.75
_MOSTLY = 0.5  # share of a question without diacritics that the best match has, from which on it is Vietnamese: 96 % of such reach it, 6 % of English questions
_FILTERS = 16  # filters whose matching chunks are cached
_COLUMNS = 32  # fields whose values are cached: four bytes a row, and each distinct value
_READ_FOR_WORDS = 50_000  # chunks of which a misspelt word is looked for
_BATCH = 1_000  # texts read at a time
_WARM = 60  # characters of a chunk: a search for them reads all kinds of files, and few of their pages
_SINGLE = 4  # search of a version before which the system begins to read around pages; those before, warming and first answer, have each read by itself
_READABLE = ("text", "passage")  # columns of what there is to read of a chunk
_UNLIKE = 3  # times k: candidates for the selection by diversity


class Retriever:
    """Searches one open version as declared. Safe to share among threads.

    Args:
        declaration: The declaration, whose `retrieve` section applies.
        opened: The version. The caller closes it.
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension). Called only to embed tag names; a request carries its own vector.
        reranker: Reranker to use where `retrieve.rerank` is declared.
    """

    def __init__(self, declaration: Declaration, opened: OpenVersion, embed_queries: EmbedQueries, reranker: Reranker | None = None) -> None:
        self.opened = opened
        self.languages = ContentLanguages(opened, declaration.embed)
        self.is_warm = False
        self._searches = count(1)
        self._declaration, self._declared = declaration, declaration.retrieve
        self._workspace_field = None if declaration.retrieve.workspace is None else declaration.retrieve.workspace.field
        self._embed_queries, self._reranker = embed_queries, reranker
        size = opened.manifest.counts.chunks
        self._known = WorkspaceCache[KnownFields](size, self._rows_in)
        self._tags = WorkspaceCache[TagIndex](size, self._rows_in)
        self._tag_vectors = WorkspaceCache[Vectors](size, self._rows_in)
        self._documents_in = WorkspaceCache[pa.Table](size, self._rows_in)
        self._vocabularies = WorkspaceCache[Vocabulary](size, self._rows_in)
        self._columns: LRUCache[str, Column] = LRUCache(_COLUMNS)
        self._filters: LRUCache[str, ChunkSet] = LRUCache(_FILTERS)  # matching chunks by hash of the filter's key: callers repeat the same filters
        self._lock = threading.Lock()  # of these two

    def find(self, request: Request, among: Collection[str] | None = None) -> Retrieved:
        """Searches the version.

        Args:
            request: The request. Its mode must be one of the three; its vector must be that of its text.
            among: Chunk ids to search, of those that the request allows. Default: all that it allows.

        Returns:
            At most k hits, best first, and the trace. `query.published.PublishedIndex.search` documents order and scores.

        Raises:
            UsageError: The filter is malformed or names an unknown field or operator, or a workspace is given and none is declared.
            DamagedVersion: Files of the version are missing or unreadable.
            EmbedderMismatch: The vector has another dimension than those of the version.
            DeclarationError, CredentialRefused: From embedding the names of tags.
            OperationalError: From the reranker, or from embedding the names of tags.
            ValueError: The request needs a vector and has none.
        """
        found = Retrieved()
        if next(self._searches) == _SINGLE:
            self.opened.read_around()
        with found.step("filter") as told:
            ids = self._allowed(request)
            if among is not None:
                ids = self.opened.chunk_set([one for one in among if ids is None or one in ids])
            told["chunks"] = self.opened.manifest.counts.chunks if ids is None else len(ids)
        if ids is not None and not ids:
            return found
        candidates = self._both_sides(request, ids, found)
        found.rivals = [one.chunk_id for one in candidates[:RIVALS]]
        candidates = self._with_codes(request, candidates, found)
        candidates = self._with_tags(request, candidates, found)
        ranked = candidates = self._reranked(request, candidates, found)
        if request.floor is not None:
            with found.step("floor") as told:
                candidates = [one for one in candidates if one.dense is not None and one.dense >= request.floor]
                told.update(floor=request.floor, left=len(candidates))
        evidence: dict[str, Evidence] = {}
        if request.thresholds is not None and candidates:
            with found.step("floor") as told:
                candidates = candidates[: max(request.k, self._declared.candidates)]
                evidence = self.evidence(request.text, {one.chunk_id: one.dense for one in candidates})
                candidates = [one for one in candidates if evidence[one.chunk_id].is_enough(request.thresholds)]
                told.update(floor=request.thresholds.floor, term_coverage=LEAST_COVERAGE, left=len(candidates))
        with found.step("select") as told:
            candidates = candidates[: request.k] if request.ranking else self._selected(request, candidates)
            found.hits = self._hits(candidates, 0 if request.ranking else self._declared.neighbours, request.workspace)
            told["hits"] = len(found.hits)
            if request.closest:
                best = self._selected(replace(request, k=max(request.k, request.closest)), ranked)
                found.closest = self._hits(best, self._declared.neighbours, request.workspace)
        if self._calibration is not None and request.vector is not None and not request.ranking:
            with found.step("relevance") as told:
                judged = self.judged(request, [*found.hits, *found.closest], found.rivals, evidence)
                found.hits, found.closest = judged[: len(found.hits)], judged[len(found.hits) :]
                told["compared_with"] = len(found.rivals)
        return found

    def judged(self, request: Request, hits: Sequence[Hit], rivals: Sequence[str], evidence: Mapping[str, Evidence] | None = None) -> list[Hit]:
        """The hits with their relevance to the text of `request`, which has a vector, and with the confidence in them.

        `rivals` are chunk ids of the candidates to compare with; `evidence` is what is known already. Without a calibration of the embedder, relevance and
        confidence are None.
        """
        if self._calibration is None:
            return list(hits)
        wanted = list(dict.fromkeys([*(hit.chunk_id for hit in hits), *rivals]))
        found = relevances(self._calibration, self._with_cosines(request, wanted, evidence or {}), rivals)
        return [hit.model_copy(update={"relevance": (value := found[hit.chunk_id]), "confidence": confidence_in(value)}) for hit in hits]

    def bearing(self, request: Request, hits: Sequence[Hit], rivals: Sequence[str]) -> list[Hit]:
        """Those of the hits of another wording that `request` itself may be answered from, with their relevance to its text, ranks counted anew.

        Where `request` has neither `floor` nor `thresholds`, all of them.
        """
        cosines: dict[str, float | None] = dict.fromkeys(hit.chunk_id for hit in hits)
        if request.vector is not None:
            cosines.update(self.opened.cosines(request.vector, list(cosines)))
        kept = list(hits)
        if request.floor is not None:
            kept = [hit for hit in kept if (cosine := cosines[hit.chunk_id]) is not None and cosine >= request.floor]
        if request.thresholds is not None:
            evidence = self.evidence(request.text, {hit.chunk_id: cosines[hit.chunk_id] for hit in kept})
            kept = [hit for hit in kept if evidence[hit.chunk_id].is_enough(request.thresholds)]
        ranked = [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(kept, start=1)]
        return ranked if request.vector is None else self.judged(request, ranked, rivals)

    def vocabulary(self, workspace: str | None) -> Vocabulary:
        """The words of the texts of a workspace, or of all; of more than 50,000 chunks, of a random sample of so many.

        It is read by workspace, so that no search reveals a word of another one.
        """
        return self._vocabularies.of(workspace, lambda: Vocabulary(lambda: self._texts_in(workspace)))

    def _texts_in(self, workspace: str | None) -> Iterator[str]:
        ids = self._allowed(Request("", None, 1, "lexical", workspace=workspace))
        if (self.opened.manifest.counts.chunks if ids is None else len(ids)) > _READ_FOR_WORDS:
            ids = self.opened.chunk_set(self.opened.smallest(_READ_FOR_WORDS, ids))
        for batch in self.opened.batches(("title", "text", "passage"), ids):
            for begin in range(0, len(batch), _BATCH):
                for title, text, passage in zip(*(column.to_pylist() for column in batch.slice(begin, _BATCH).columns), strict=True):
                    yield f"{title}\n{text if passage is None else passage}"

    def is_indexed(self, word: str) -> bool:
        """Whether the lexical index has one of the word's terms, in any of its languages."""
        return any(any(reading.frequencies.values()) for reading in self.opened.readings(word))

    def is_same_word(self, one: str, other: str) -> bool:
        """Whether two words have a term of the lexical index in common, as forms of one word have."""
        pairs = zip(self.opened.readings(one), self.opened.readings(other), strict=True)
        return any(not reading.frequencies.keys().isdisjoint(of_other.frequencies) for reading, of_other in pairs)

    def features(self, request: Request, hits: Sequence[Hit], rivals: Sequence[str]) -> list[tuple[Features, CurveName]]:
        """For each hit, what its relevance is made of, and the name of the curve that applies. Calibrations are fitted on it."""
        evidence = self._with_cosines(request, list(dict.fromkeys([*(hit.chunk_id for hit in hits), *rivals])), {})
        found = features(evidence, rivals)
        return [(found[hit.chunk_id], evidence[hit.chunk_id].curve) for hit in hits]

    @cached_property
    def _calibration(self) -> Calibration | None:
        manifest = self.opened.manifest
        return calibration_of(manifest.embedder) or manifest.calibration

    def _with_cosines(self, request: Request, chunk_ids: Sequence[str], known: Mapping[str, Evidence]) -> dict[str, Evidence]:
        """Evidence for chunks, by chunk id, in their order, all with cosines."""
        missing = [one for one in chunk_ids if one not in known or known[one].dense is None]
        found = {**known, **self.evidence(request.text, self.opened.cosines(required_vector(request.vector), missing))}
        return {one: found[one] for one in chunk_ids}

    def _allowed(self, request: Request) -> ChunkSet | None:
        """Ids of the chunks that may be returned; None for all. The workspace is combined with the filter by "and", so that no filter can widen it."""
        if request.workspace is None and request.where is None:
            return None
        asked = sha256(filter_key(request.workspace, request.where))  # a filter may be as long as a request
        with self._lock:
            found = self._filters.get(asked)
        if found is None:
            found = self._passing(request)
            with self._lock:
                self._filters[asked] = found
        return found

    def _rows_in(self, workspace: str | None) -> int:
        ids = self._allowed(Request("", None, 1, "lexical", workspace=workspace))
        return self.opened.manifest.counts.chunks if ids is None else len(ids)

    def _passing(self, request: Request) -> ChunkSet:
        masks: list[Mask] = []
        size = self.opened.manifest.counts.chunks
        if request.workspace is not None:
            if self._workspace_field is None:
                raise UsageError("no workspaces are declared", where="--workspace", hint="retrieve.workspace names the metadata field that keeps them apart")
            if not request.workspace.strip():
                raise UsageError("the workspace is blank", where="--workspace", hint="name one, or leave it out")
            masks.append(matching_rows({self._workspace_field: {"$eq": request.workspace}}, self._column, size))
        if request.where is not None:
            masks.append(matching_rows(request.where, partial(self._column_for, request.workspace, size), size, *masks))
        return self.opened.ids_where(np.logical_and.reduce(masks))

    def _known_in(self, workspace: str | None) -> KnownFields:
        """The fields that a filter may name. They are those of the workspace's own rows, so that no refusal tells what only another one has."""

        def read() -> KnownFields:
            paths = metadata_paths(self.opened, self._allowed(Request("", None, 1, "lexical", workspace=workspace)))
            if workspace is not None:  # its rows may share their field with others, which have no part in it
                paths = frozenset(path for path in paths if path.partition(".")[0] != self._workspace_field)
            own = {*_ROW_FIELDS, *filter(None, [self._workspace_field])}
            declared = {name for source in self._declaration.sources for name in source.metadata or source.declared_fields()}
            return KnownFields(paths | own, frozenset(declared), is_told=workspace is None)

        return self._known.of(workspace, read)

    def _column_for(self, workspace: str | None, size: int, path: str) -> Column:
        """A column as a workspace may see it: of the workspaces that share a chunk its own alone, or a filter would tell it with whom it shares.

        Raises UsageError for a path that is not known. To a workspace without a row each is: none has a value, and a new tenant's filters are those of others.
        """
        is_there = bool(self._rows_in(workspace)) and self._known_in(workspace).has(path)
        if is_there and (workspace is None or path != self._workspace_field):
            return self._column(path)
        return Column(Coded([([workspace if is_there else None], np.zeros(size, dtype=np.int32))]))

    def _column(self, path: str) -> Column:
        """The column of a field, or of a dotted path into one; built on first use and kept."""
        with self._lock:
            found = self._columns.get(path)
        if found is None:
            name, *inner = path.split(".")
            is_own = name in _ROW_FIELDS and name not in self.opened.metadata_keys  # a metadata field takes precedence over a column of the same name
            coded = self.opened.coded_column(name) if is_own else self.opened.coded_metadata(lambda metadata: reach(metadata.get(name), inner))
            found = Column(coded)
            with self._lock:
                self._columns[path] = found
        return found

    def _both_sides(self, request: Request, ids: ChunkSet | None, found: Retrieved) -> list[Candidate]:
        """Candidates of the retrievers of the mode, best first. In mode `hybrid` each has its dense and, where a term matches, its lexical score."""
        wanted = max(self._declared.candidates, request.k)
        dense: dict[str, float] = {}
        lexical: dict[str, float] = {}
        with ExitStack() as begun:
            near = None
            if request.mode != "lexical":
                near = begun.enter_context(self.opened.begin_query(required_vector(request.vector), wanted, ids))
            by_words = Retrieved()
            if request.mode != "dense":
                with by_words.step("lexical") as told:
                    lexical.update(self.opened.lexical(request.text, wanted, ids))
                    told["candidates"] = len(lexical)
            if near is not None:
                with found.step("dense") as told:  # what other threads have left of it
                    dense = dict(near())
                    told["candidates"] = len(dense)
            found.trace += by_words.trace
        if request.vector is not None and (missing := [one for one in lexical if one not in dense]):
            with found.step("dense scores of lexical candidates") as told:
                dense.update(self.opened.cosines(request.vector, missing))
                told["candidates"] = len(missing)
        if request.mode == "hybrid" and (missing := [one for one in dense if one not in lexical]):
            with found.step("lexical scores of dense candidates") as told:
                lexical.update(self.opened.lexical(request.text, len(missing), missing))
                told["candidates"] = len(missing)
        with found.step("fuse") as told:
            scores = self._fused(request, dense, lexical, told) if request.mode == "hybrid" else lexical if request.mode == "lexical" else dense
            candidates = [Candidate(one, score, dense.get(one), lexical.get(one)) for one, score in scores.items()]
        return sorted(candidates, key=lambda one: one.order)

    def _fused(self, request: Request, dense: dict[str, float], lexical: dict[str, float], told: dict[str, Any]) -> dict[str, float]:
        """Fused scores. Words vote as far as they match: in each language, by the share of the question that the best match in it has.

        The embedder gets the rest of their vote, if it knows both languages: of a question in other words than the text's, or in another language, where names
        and codes alone match. It has the weight of one that does not know the content if it does not know the question's language, or the question is
        Vietnamese without diacritics, which the index reads and the embedder does not.
        """
        readings = self.opened.readings(request.text)
        attainable = min((attainable_score(reading, request.text) for reading in readings), default=0.0)
        shares = matched(lexical, attainable)
        asked = self.languages.of_question(request.text)
        known = min(self.languages.known, asked.known)
        languages = self.languages.covered({**dense, **lexical}) if asked.known >= COVERED else {}
        is_foreign = bool(self.languages.foreign({**dense, **lexical}, asked))
        if not is_foreign and all(reading.is_folded for reading in readings) and max(shares.values(), default=0.0) >= _MOSTLY:
            known, languages = 0.0, {}
        weight = dense_weight(known) if self._declared.dense_weight is None else self._declared.dense_weight
        found: dict[str, float] = {}  # language → share of the question that the best match in it has
        for one, language in languages.items():
            found[language] = max(shares.get(one, 0.0), found.get(language, 0.0))
        usual = UsualCosine.of(self._sample @ required_vector(request.vector))
        told.update(dense_weight=weight, usual_cosine=round(usual.mean, 6), spread=round(usual.spread, 6), attainable=round(attainable, 4))
        told.update(matched=round(max(shares.values(), default=0.0), 4), language=asked.tag, votes_in={name: round(share, 4) for name, share in found.items()})
        return fuse(dense, lexical, weight, usual=usual, attainable=attainable, votes={one: found[language] for one, language in languages.items()})

    @cached_property
    def _sample(self) -> Vectors:
        """Vectors of up to 1,000 chunks of smallest id, float32 (n, dimension): ids are hashes, so the sample is random, and the same for the same content."""
        return self.opened.vectors(self.opened.smallest(_SAMPLE))

    @cached_property
    def _usual_likeness(self) -> float:
        """Mean cosine of two different chunks of the sample; 0 for a single one."""
        count, total = len(self._sample), self._sample.sum(axis=0, dtype=np.float64)
        return (float(total @ total) - count) / (count * (count - 1)) if count > 1 else 0.0

    def warm(self, dimension: int) -> None:
        """Searches for the beginning of a chunk, so that the files and caches of the version are loaded before the first request.

        `dimension` is that of the version's vectors.
        """
        begins = [row["text"][:_WARM] for row in self.opened.rows(self.opened.smallest(1), ("text",))]
        self.find(Request("".join(begins) or "a", np.eye(1, dimension, dtype=np.float32)[0], 1, "hybrid", ranking=True))
        self.opened.map_pages()
        self.is_warm = True

    def require_workspace(self, workspace: str | None) -> None:
        """Raises UsageError where a caller names no workspace and the declaration requires one."""
        declared = self._declared.workspace
        if workspace is None and declared is not None and declared.required:
            hint = "--workspace W, `workspace` of a request, or a key that is restricted to one"
            raise UsageError(f"{self._declaration.name} answers within a workspace only, and none is named", where="--workspace", hint=hint)

    def visible(self, workspace: str | None) -> ChunkSet | None:
        """Chunk ids that a caller of a workspace may see; None for all chunks.

        Raises UsageError for a workspace where none is declared, and for none where one is required.
        """
        self.require_workspace(workspace)
        return self._allowed(Request("", None, 1, "lexical", workspace=workspace))

    def metadata_for(self, workspace: str | None, metadata: dict[str, Any]) -> dict[str, Any]:
        """The metadata of a chunk as a caller of a workspace may see it: of the workspaces that share the chunk, their own alone. None sees all."""
        field = self._workspace_field
        return metadata if workspace is None or not isinstance(metadata.get(field or ""), list) else {**metadata, str(field): [workspace]}

    def documents(self, workspace: str | None = None) -> ListedDocuments:
        """Lists the documents and records of a workspace, or all, in the order of URL and title. The list is cached.

        Raises UsageError as `visible`.
        """
        visible = self.visible(workspace)
        return ListedDocuments(self._documents_in.of(workspace, lambda: table_of_documents(self.opened, visible)))

    def require_filter(self, request: Request) -> None:
        """Raises UsageError for a filter or a workspace that `find` would refuse, and for none where callers have to name one. The matching ids are cached."""
        self.require_workspace(request.workspace)
        self._allowed(request)

    def evidence(self, text: str, cosines: Mapping[str, float | None]) -> dict[str, Evidence]:
        """Evidence that chunks answer a question, by chunk id. `cosines` has the dense cosine of each chunk, None where there is none."""
        if not cosines:
            return {}
        rows = self.opened.rows(list(cosines), ("title", "metadata", *_READABLE))
        shares = term_coverage(self.opened.readings(text), text, [f"{row['title']} {_readable(row)}" for row in rows])
        languages = [str(row["metadata"].get("language") or "") for row in rows]
        is_known = [self.languages.covers(language) for language in languages]
        foreign = self.languages.foreign(cosines, self.languages.of_question(text))
        return {one: Evidence(cosines[one], *share, known, one in foreign) for one, share, known in zip(cosines, shares, is_known, strict=True)}

    def _with_codes(self, request: Request, candidates: list[Candidate], found: Retrieved) -> list[Candidate]:
        """Candidates with a rare code of the question before all others, in mode `hybrid`: scores are halved, and raised by half for the share of codes.

        In a sentence, the code is one word of several, and unknown to the embedder: other records are as near to "How much is GR-16?".
        """
        if request.mode != "hybrid" or not candidates or not codes_in(request.text):
            return candidates
        with found.step("codes") as told:
            rows = self.opened.rows([one.chunk_id for one in candidates], ("title", *_READABLE))
            texts = [f"{row['title']} {_readable(row)}" for row in rows]
            # Only codes that a candidate has are told of and counted: others may be those of another workspace.
            codes = [code for code in rare_codes(request.text, self.opened.readings(request.text)) if any(has_code(code, text) for text in texts)]
            told["codes"] = codes
            for one, text in zip(candidates, texts, strict=True) if codes else ():
                one.score = round((one.score + sum(has_code(code, text) for code in codes) / len(codes)) / 2, 6)
        return sorted(candidates, key=lambda one: one.order)

    def _with_tags(self, request: Request, candidates: list[Candidate], found: Retrieved) -> list[Candidate]:
        """Candidates in the order of their scores after tags are weighed in. Unchanged where the question names no tag."""
        declared = self._declared.tags
        if declared is None:
            return candidates
        with found.step("tags") as told:
            asked = self._question_tags(request, declared.floor)
            told.update(named=list(asked.named), related=list(asked.related))
            if not asked.named or not candidates:
                return candidates
            best = max(one.score for one in candidates)
            rows = self.opened.rows([one.chunk_id for one in candidates], ("metadata",))
            tags = [_as_tags(row["metadata"].get(declared.field)) for row in rows]
            for one, own in zip(candidates, tags, strict=True):
                one.tag, one.cluster = round(asked.match(own), 6), round(asked.alignment(own), 6)
                searched = one.score / best if best > 0 else 0.0
                share = 1 - declared.weight - declared.cluster_weight
                one.score = round(share * searched + declared.weight * one.tag + declared.cluster_weight * one.cluster, 6)
            told["weights"] = {"search": round(share, 6), "tag": declared.weight, "cluster": declared.cluster_weight}
        return sorted(candidates, key=lambda one: one.order)

    def _question_tags(self, request: Request, floor: float | None) -> QuestionTags:
        vector, workspace = request.vector, request.workspace
        if floor is None:
            floor = 1.0 if vector is None else UsualCosine.of(self._sample @ vector).at(_NAMED)
        tags = self._tags_in(workspace)
        return tags.tags_of(request.text, None if vector is None else lambda: self._vectors_of_tags(workspace) @ vector, floor)

    def _tags_in(self, workspace: str | None) -> TagIndex:
        """Tag index of a workspace, or of all chunks. It is built by workspace, so that a trace does not reveal the tags of another one."""
        declared = self._declared.tags
        assert declared is not None

        def read() -> TagIndex:
            ids = self._allowed(Request("", None, 1, "lexical", workspace=workspace))
            values = self._column(declared.field).values.among(None if ids is None else self.opened.mask_of(ids))
            return TagIndex([_as_tags(value) for value in values])

        return self._tags.of(workspace, read)

    def _vectors_of_tags(self, workspace: str | None) -> Vectors:
        return self._tag_vectors.of(workspace, lambda: self._embed_queries(self._tags_in(workspace).names))

    def _reranked(self, request: Request, candidates: list[Candidate], found: Retrieved) -> list[Candidate]:
        declared = self._declared.rerank
        if declared is None or self._reranker is None or not candidates:
            return candidates
        with found.step("rerank") as told:
            first, rest = candidates[: declared.candidates], candidates[declared.candidates :]
            texts = [_readable(row) for row in self.opened.rows([one.chunk_id for one in first], _READABLE)]
            for one, score in zip(first, self._reranker.scores(request.text, texts), strict=True):
                one.rerank = round(float(score), 6)
            told.update(candidates=len(first), cut=self._reranker.count_cut(request.text, texts))
            # A reranker's scale is not that of the search. Reranked candidates come first, in its order; the search's scores are handed out anew, descending.
            ordered = sorted(first, key=lambda one: (-(one.rerank or 0.0), one.chunk_id))
            for one, score in zip(ordered, sorted((one.score for one in first), reverse=True), strict=True):
                one.score = score
            return ordered + rest

    def _selected(self, request: Request, candidates: list[Candidate]) -> list[Candidate]:
        declared = self._declared
        if declared.one_per_document:
            candidates = one_of_each_document(candidates, self._documents)
        if declared.diversity:
            candidates = candidates[: _UNLIKE * request.k]
        candidates = mmr(candidates, request.k, declared.diversity, self.opened.vectors, self._usual_likeness if declared.diversity else 0.0)
        return drop_below_score_share(candidates, declared.share, declared.least_k)

    def _documents(self, chunk_ids: Sequence[str]) -> list[tuple[str, str]]:
        return [(row["source"], row["document_id"]) for row in self.opened.rows(chunk_ids, ("source", "document_id"))]

    def _hits(self, candidates: Sequence[Candidate], neighbours: int, workspace: str | None) -> list[Hit]:
        rows = [row | {"metadata": self.metadata_for(workspace, row["metadata"])} for row in self.opened.rows([one.chunk_id for one in candidates])]
        around = [self._around(row, neighbours) for row in rows] if neighbours else [None] * len(rows)
        tagged = self._declared.tags.field if self._declared.tags else "tags"
        return [
            _hit(rank, one, row, near, _as_tags(row["metadata"].get(tagged)))
            for rank, (one, row, near) in enumerate(zip(candidates, rows, around, strict=True), start=1)
        ]

    def _around(self, row: dict[str, Any], reach: int) -> list[Neighbour]:
        """Neighbours of a chunk: up to `reach` chunks before it and after it in its document, in reading order, without the chunk itself."""
        near = range(row["ordinal"] - reach, row["ordinal"] + reach + 1)
        at = dict(self.opened.chunks_of(row["source"], row["document_id"], near))
        rows = self.opened.rows([at[ordinal] for ordinal in near if ordinal != row["ordinal"] and ordinal in at], ("chunk_id", "start", "end", "text"))
        return [Neighbour(**one) for one in rows]


def _readable(row: dict[str, Any]) -> str:
    """What there is to read of a chunk, as `Hit.readable`."""
    return str(row["text"] if row["passage"] is None else row["passage"])


def _hit(rank: int, one: Candidate, row: dict[str, Any], neighbours: list[Neighbour] | None, tags: list[str]) -> Hit:
    scores = {"dense": one.dense, "lexical": one.lexical, "tag": one.tag, "cluster": one.cluster, "rerank": one.rerank}
    return Hit(rank=rank, score=one.score, scores=scores, neighbours=neighbours, tags=tags, **{name: row[name] for name in _HIT_FIELDS})


def required_vector(vector: Vectors | None) -> Vectors:
    """The vector. Raises ValueError where there is none."""
    if vector is None:
        raise ValueError("this search needs the question's vector")
    return vector


def _as_tags(value: Any) -> list[str]:
    """Tags as a list of texts, from a list or from a comma-separated text."""
    found = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    return [text for one in found if (text := str(one).strip())]
