"""A published index, opened for reading: every request is answered from exactly one version."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, Project, quiet_engines
from almanac.index.embedding.embedder import Embedder, describe_embedder, load_embedder
from almanac.index.reader import OpenVersion
from almanac.index.versions.store import current_version, read_manifest, report_versions, resolve_version
from almanac.query.answering.answer import History, Question, answer, stream_answer
from almanac.query.answering.pathways import require_mode
from almanac.query.models.embedding_cache import CachingEmbedder
from almanac.query.models.generators import Generator, load_generator
from almanac.query.models.rerank import Reranker, find_reranker, load_reranker
from almanac.query.open_versions import VersionPool
from almanac.query.retrieval.query_expansion import PATIENCE, expand, merge
from almanac.query.retrieval.query_template import compose_query
from almanac.query.retrieval.retriever import Mode, Request, Retrieved, Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import EmbedderMismatch, UsageError
from almanac.schemas.reports import Answer, Hit, SearchResult, Versions

_IDLE_S = 60.0  # for which a version that was asked for by name waits to be asked for again


class Asked(TypedDict, total=False):
    """What a question may be asked with; what is left out is as declared."""

    k: int | None
    where: dict[str, Any] | None
    floor: float | None
    version: str | None
    workspace: str | None
    parts: Mapping[str, str] | None
    temperature: float | None  # of the model that writes, where one is declared


def open_index(
    kb: str, *, data: Path | str | None = None, version: str | None = None, env: str | None = None, project: Path | str | None = None
) -> "PublishedIndex":
    """Opens the index of `kb`, a name under the project's `knowledge/` or a path to a declaration, with the overlay of `env`, else of ALMANAC_ENV.

    The project is found as commands find it: `project`, ALMANAC_PROJECT, the nearest folder upwards that declares something. With `version` it stays pinned
    to that one; otherwise each request reads the live version. Raises NothingPublished before the first run.
    """
    quiet_engines()
    found = Project.locate(project)
    index = PublishedIndex(load_declaration(kb, env, found), DataDir.locate(data, found), version)
    find_reranker(index.declaration)  # a folder that is none is said before a model is loaded
    resolve_version(index.folder, version)
    return index


def live_version(data: DataDir, name: str) -> str | None:
    """The version of a knowledge base that is live, or None before the first. Raises DamagedVersion where the pointer leads nowhere."""
    return current_version(data.index(name))


def readable_version(data: DataDir, name: str) -> str | None:
    """As `live_version`. Raises DamagedVersion where this Almanac cannot read it, such as one of another format."""
    version = live_version(data, name)
    return version and read_manifest(data.index(name), version).version


class Embedders:
    """What is declared → its embedder, loaded once by whoever needs it first. Safe to share among threads, and among indexes."""

    def __init__(self) -> None:
        self._loaded: dict[str, Embedder] = {}
        self._lock = threading.Lock()

    def of(self, embed: Embed, data: DataDir) -> Embedder:
        """Takes seconds at first."""
        declared = embed.model_dump_json()
        with self._lock:
            if declared not in self._loaded:
                self._loaded[declared] = CachingEmbedder(load_embedder(embed, data))
            return self._loaded[declared]


class PublishedIndex:
    """Search and answers over one knowledge base. Safe to share among threads; close it, or use it as a context manager.

    Indexes of one process may share their `embedders`.
    """

    def __init__(self, declaration: Declaration, data: DataDir, version: str | None = None, *, embedders: Embedders | None = None) -> None:
        self.declaration = declaration
        self.folder = data.index(declaration.name)
        self._data = data
        self._embedders = embedders or Embedders()
        self._pool = VersionPool(self.folder, self._open, version)

    def __enter__(self) -> "PublishedIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its versions; what a request still reads, when it is done. Whoever asks again opens it again."""
        self._pool.close()

    @property
    def embedder(self) -> Embedder:
        """Loaded when it is first needed: seconds."""
        return self._embedders.of(self.declaration.embed, self._data)

    def reading(self, version: str | None = None) -> AbstractContextManager[Retriever]:
        """Holds the version that answers: the one asked for, the pinned one, or the live one at this moment. It stays until the end of the block."""
        return self._pool.reading(version)

    def version(self, version: str | None = None) -> OpenVersion:
        """The version that answers now. It may be closed as soon as another one is live: who needs it for longer takes `reading`."""
        with self.reading(version) as retriever:
            return retriever.opened

    def _open(self, version: str) -> Retriever:
        opened = OpenVersion(self.folder, version)
        self._refuse_other_embedder(opened)
        return Retriever(self.declaration, opened, lambda texts: self.embedder.embed_queries(texts), self._reranker)

    def keep_up(self) -> None:
        """Loads what the first question would have to wait for, of the version that is live now, and closes what nobody has asked for of late."""
        with self.reading() as retriever:
            if not retriever.is_warm:
                retriever.warm(self.embedder.info.dimension)
        self._pool.close_idle(_IDLE_S)

    @property
    def live(self) -> str | None:
        """The version that is live now; None before the first."""
        return current_version(self.folder)

    def versions(self) -> Versions:
        """The versions that are kept, newest first."""
        return report_versions(self.folder)

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        mode: Mode | None = None,
        where: dict[str, Any] | None = None,
        floor: float | None = None,
        version: str | None = None,
        workspace: str | None = None,
        parts: Mapping[str, str] | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """The `k` best chunks, best first; equal scores are ordered by chunk id. Hits below `floor` (dense cosine) are left out.

        `workspace` is kept below `where`; `parts` fill the declared query template beside the question. What is None is as declared.
        """
        with self.reading(version) as retriever:
            request = self._request(retriever, query, k=k, mode=mode, where=where, floor=floor, workspace=workspace, parts=parts)
            found = self._find(retriever, request)
            answering = retriever.opened.manifest.version
        trace = [{"step": "query", "ms": None, "text": request.text, "mode": request.mode}, *found.trace] if explain else None
        return SearchResult(kb=self.declaration.name, version=answering, query=query, hits=found.hits, explain=trace)

    def _find(self, retriever: Retriever, request: Request) -> Retrieved:
        """What a request finds, and where that is declared, what other wordings of it find."""
        found = retriever.find(request)
        if self._rephraser is None:
            return found
        with found.step("other wordings") as told:
            expansion = expand(self._rephraser, request.text, self.declaration.retrieve.expand)
            told.update(expansion.told)
        wordings = expansion.wordings
        vectors = [None] * len(wordings) if request.vector is None else self.embedder.embed_queries(wordings)
        others = [retriever.find(replace(request, text=text, vector=vector)) for text, vector in zip(wordings, vectors, strict=True)]
        return merge([found, *others], request.k)

    @cached_property
    def _rephraser(self) -> Generator | None:
        """What writes other wordings of a question; None where none are declared."""
        is_wanted = self.declaration.retrieve.expand > 0
        return load_generator(self.declaration.generate, self._data, retry=PATIENCE) if is_wanted else None

    @cached_property
    def _reranker(self) -> Reranker | None:
        return load_reranker(self.declaration)

    def _request(
        self,
        retriever: Retriever,
        question: str,
        *,
        k: int | None,
        mode: Mode | None = None,
        where: dict[str, Any] | None = None,
        floor: float | None = None,
        workspace: str | None = None,
        parts: Mapping[str, str] | None = None,
    ) -> Request:
        """What is wrong with it is said before the embedder is loaded, which takes seconds."""
        _require_text(question, "question")
        if k is not None and k < 1:
            raise UsageError(f"k is {k}: that asks for no hit", where="-k", hint="1 or more; without it, as many as declared")
        declared = self.declaration.retrieve
        text = compose_query(declared.query, question, parts)
        asked = mode or declared.mode
        needs_vector = asked != "lexical" or floor is not None or declared.tags is not None
        request = Request(text, None, k or declared.k, asked, where, floor, workspace=workspace)
        retriever.require_filter(request)
        return replace(request, vector=self.embedder.embed_queries([text])[0]) if needs_vector else request

    def ask(self, question: str, *, mode: str = "kb-only", history: History = (), **asked: Unpack[Asked]) -> Answer:
        """An answer with its citations, or an explicit "I don't know" where nothing is near enough to the question.

        `mode` kb-llm lets the declared model add what it knows. `history` holds earlier messages, {role, content}, the oldest first.
        """
        return answer(self._question(question, mode, history, asked))

    def stream(self, question: str, *, mode: str = "kb-only", history: History = (), **asked: Unpack[Asked]) -> Iterator[str | Answer]:
        """As `ask`, in pieces of text as they come; the Answer is the last item."""
        return stream_answer(self._question(question, mode, history, asked))

    def _question(self, text: str, mode: str, history: History, asked: Asked) -> Question:
        """A question with the hits that it may be answered from."""
        require_mode(mode, is_generated=self._generator is not None)
        with self.reading(asked.get("version")) as retriever:
            return self._asked_of(retriever, text, mode, history, asked)

    def _asked_of(self, retriever: Retriever, text: str, mode: str, history: History, asked: Asked) -> Question:
        declaration, version = self._with_temperature(asked.get("temperature")), retriever.opened.manifest.version
        declared = declaration.retrieve
        chosen = asked.get("floor") if asked.get("floor") is not None else declared.floor
        workspace, parts = asked.get("workspace"), asked.get("parts")
        request = self._request(retriever, text, k=asked.get("k"), where=asked.get("where"), floor=chosen, workspace=workspace, parts=parts)
        defaults = self.embedder.score_thresholds
        vector = self.embedder.embed_queries([request.text])[0] if request.vector is None else request.vector
        hits = self._find(retriever, replace(request, vector=vector, default_floor=defaults.floor if chosen is None else None)).hits
        lowest = defaults.floor if chosen is None else chosen
        confident = declared.confident if declared.confident is not None else max(defaults.confident, lowest)
        near = retriever.relevance(request.text, {hit.chunk_id: hit.scores.get("dense") for hit in hits})
        return Question(
            declaration, version, text, vector, hits, self.embedder, mode, lowest, confident, self._generator, history, near
        )  # fmt: skip

    def _with_temperature(self, temperature: float | None) -> Declaration:
        """The declaration, with another temperature of the model where one is asked for."""
        if temperature is None:
            return self.declaration
        if not 0 <= temperature <= 2:
            raise UsageError(f"the temperature is {temperature}", where="temperature", hint="from 0, the most likely answer, to 2")
        generate = self.declaration.generate.model_copy(update={"temperature": temperature})
        return self.declaration.model_copy(update={"generate": generate})

    @cached_property
    def _generator(self) -> Generator | None:
        return load_generator(self.declaration.generate, self._data)

    def _refuse_other_embedder(self, opened: OpenVersion) -> None:
        built, declared = opened.manifest.embedder, describe_embedder(self.declaration.embed)
        if built.fingerprint != declared.fingerprint:
            opened.close()
            raise EmbedderMismatch(
                f"version {opened.manifest.version} was embedded with {built.model} ({built.fingerprint}), and the declaration says "
                f"{declared.model} ({declared.fingerprint}): their vectors do not compare",
                where=str(self.declaration.path),
                hint=f"almanac run {self.declaration.handle} builds a version with the declared embedder",
            )


def parse_where(text: str | None) -> dict[str, Any] | None:
    """The filter of `--where`, a JSON object."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where="--where", hint="""write it like --where '{"kind": "record"}'""") from error
    if not isinstance(where, dict):
        raise UsageError(f"a filter is a JSON object; found {text}", where="--where")
    return where


def parse_parts(parts: Sequence[str] | None) -> dict[str, str]:
    """The parts of `--part NAME=TEXT`."""
    named = {}
    for part in parts or ():
        name, equals, text = part.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"not NAME=TEXT: {part!r}", where="--part", hint="write it like --part product='Kettle 2'")
        named[name] = text
    return named


def _require_text(text: str, what: str) -> None:
    if not text.strip():
        raise UsageError(f"the {what} is empty", hint="ask something")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"the {what} is not valid UTF-8", hint="check the terminal's or the caller's encoding")


def best_documents(hits: Sequence[Hit]) -> dict[str, float]:
    """Document id → the score of its best chunk."""
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.document_id] = max(hit.score, best.get(hit.document_id, hit.score))
    return best
