"""A published index, opened for reading: every request is answered from exactly one version."""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from index.embedder import Embedder, describe_embedder, load_embedder
from index.read import OpenVersion
from index.versions import resolve_version
from query.answer import History, Question, answer, stream_answer
from query.compose import compose_query
from query.expand import merge, other_wordings
from query.generators import Generator, load_generator
from query.rerank import Reranker, load_reranker
from query.retrieve import Found, Mode, Request, Retriever
from schemas.declaration import Declaration
from schemas.errors import EmbedderMismatch, UsageError
from schemas.load import load_declaration
from schemas.reports import Answer, Hit, SearchResult
from schemas.settings import DataDir, quiet_engines

# A reader that stays open keeps few versions: the live one, and those that requests in flight still pin.
_OPEN_VERSIONS = 3


class Asked(TypedDict, total=False):
    """What a question may be asked with; what is left out is as declared."""

    k: int | None
    where: dict[str, Any] | None
    floor: float | None
    version: str | None
    workspace: str | None
    parts: Mapping[str, str] | None


def open_index(kb: str, *, data: Path | str | None = None, version: str | None = None, env: str | None = None) -> "PublishedIndex":
    """Opens the index of `kb`, a name under `knowledge/` or a path to a declaration, with the overlay of `env`, else of ALMANAC_ENV.

    With `version` it stays pinned to that one; otherwise each request reads the live version. Raises NothingPublished before the first run.
    """
    quiet_engines()
    index = PublishedIndex(load_declaration(kb, env), DataDir.locate(data), version)
    resolve_version(index.folder, version)
    return index


class PublishedIndex:
    """Search and answers over one knowledge base. Close it, or use it as a context manager. Not for several threads at once."""

    def __init__(self, declaration: Declaration, data: DataDir, version: str | None = None) -> None:
        self.declaration = declaration
        self.folder = data.index(declaration.name)
        self._pinned = version
        self._open: OrderedDict[str, OpenVersion] = OrderedDict()
        self._embedder: Embedder | None = None
        self._retrievers: dict[str, Retriever] = {}

    def __enter__(self) -> "PublishedIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for version in self._open.values():
            version.close()
        self._open.clear()
        self._retrievers.clear()

    def _close(self, name: str) -> None:
        self._retrievers.pop(name, None)
        self._open.pop(name).close()

    @property
    def embedder(self) -> Embedder:
        """Loaded when it is first needed: seconds."""
        if self._embedder is None:
            self._embedder = load_embedder(self.declaration.embed)
        return self._embedder

    def version(self, version: str | None = None) -> OpenVersion:
        """The version that answers: the one asked for, the pinned one, or the live one at this moment."""
        name = resolve_version(self.folder, version or self._pinned)
        if name in self._open and not self._open[name].is_in_place:
            self._close(name)
        if name not in self._open:
            opened = OpenVersion(self.folder, name)
            self._refuse_other_embedder(opened)
            self._open[name] = opened
            while len(self._open) > _OPEN_VERSIONS:
                self._close(next(iter(self._open)))
        self._open.move_to_end(name)
        return self._open[name]

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
        opened = self.version(version)
        request = self._request(query, k=k, mode=mode, where=where, floor=floor, workspace=workspace, parts=parts)
        found = self._find(opened, request)
        road = [{"step": "query", "ms": None, "text": request.text, "mode": request.mode}, *found.road] if explain else None
        return SearchResult(kb=self.declaration.name, version=opened.manifest.version, query=query, hits=found.hits, explain=road)

    def _find(self, opened: OpenVersion, request: Request) -> Found:
        """What a request finds, and where that is declared, what other wordings of it find."""
        declared = self.declaration.retrieve
        found = self.find(opened, request)
        if not declared.expand or self._generator is None:
            return found
        with found.step("other wordings") as told:
            told["wordings"] = wordings = other_wordings(self._generator, request.text, declared.expand)
        vectors = self.embedder.embed_queries(wordings)
        others = [self.find(opened, replace(request, text=text, vector=vector)) for text, vector in zip(wordings, vectors, strict=True)]
        return merge([found, *others], request.k)

    def find(self, opened: OpenVersion, request: Request) -> Found:
        """What a request finds in one open version."""
        return self._retriever(opened).find(request)

    def _retriever(self, opened: OpenVersion) -> Retriever:
        name = opened.manifest.version
        if name not in self._retrievers or self._retrievers[name].opened is not opened:
            self._retrievers[name] = Retriever(self.declaration, opened, lambda texts: self.embedder.embed_queries(texts), self._reranker)
        return self._retrievers[name]

    @cached_property
    def _reranker(self) -> Reranker | None:
        return load_reranker(self.declaration)

    def _request(
        self,
        question: str,
        *,
        k: int | None,
        mode: Mode | None = None,
        where: dict[str, Any] | None = None,
        floor: float | None = None,
        workspace: str | None = None,
        parts: Mapping[str, str] | None = None,
    ) -> Request:
        _require_text(question, "question")
        declared = self.declaration.retrieve
        text = compose_query(declared.query, question, parts)
        asked = mode or declared.mode
        needs_vector = asked != "lexical" or floor is not None or declared.tags is not None
        vector = self.embedder.embed_queries([text])[0] if needs_vector else None
        return Request(text, vector, k or declared.k, asked, where, floor, workspace=workspace)

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
        declared, defaults = self.declaration.retrieve, self.embedder.defaults
        opened = self.version(asked.get("version"))
        chosen = asked.get("floor") if asked.get("floor") is not None else declared.floor
        request = self._request(text, k=asked.get("k"), where=asked.get("where"), floor=chosen, workspace=asked.get("workspace"), parts=asked.get("parts"))
        vector = self.embedder.embed_queries([request.text])[0] if request.vector is None else request.vector
        hits = self._find(opened, replace(request, vector=vector, default_floor=defaults.floor if chosen is None else None)).hits
        lowest = defaults.floor if chosen is None else chosen
        confident = declared.confident if declared.confident is not None else max(defaults.confident, lowest)
        return Question(
            self.declaration, opened.manifest.version, text, vector, hits, self.embedder, mode, lowest, confident, self._generator, history
        )  # fmt: skip

    @cached_property
    def _generator(self) -> Generator | None:
        return load_generator(self.declaration.generate)

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
    except ValueError as error:
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
