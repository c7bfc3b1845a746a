"""A published index, opened for reading: every request is answered from exactly one version."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from index.embedder import Embedder, describe_embedder, load_embedder
from index.read import OpenVersion
from index.versions import resolve_version
from query.answer import extract_answer
from query.retrieve import retrieve
from schemas.declaration import Declaration
from schemas.errors import EmbedderMismatch, UsageError
from schemas.load import load_declaration
from schemas.reports import Answer, Hit, SearchResult
from schemas.settings import DataDir, quiet_engines

# A reader that stays open keeps few versions: the live one, and those that requests in flight still pin.
_OPEN_VERSIONS = 3


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

    def __enter__(self) -> "PublishedIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for version in self._open.values():
            version.close()
        self._open.clear()

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
            self._open.pop(name).close()
        if name not in self._open:
            opened = OpenVersion(self.folder, name)
            self._refuse_other_embedder(opened)
            self._open[name] = opened
            while len(self._open) > _OPEN_VERSIONS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(name)
        return self._open[name]

    def search(
        self, query: str, *, k: int | None = None, where: dict[str, Any] | None = None, floor: float | None = None, version: str | None = None
    ) -> SearchResult:
        """The `k` nearest chunks, best first; equal scores are ordered by chunk id. Hits below `floor` (dense cosine) are left out."""
        _require_text(query, "query")
        opened = self.version(version)
        hits = self.search_by_vector(opened, self.embedder.embed_queries([query])[0], k or self.declaration.retrieve.k, where=where, floor=floor)
        return SearchResult(kb=self.declaration.name, version=opened.manifest.version, query=query, hits=hits)

    def search_by_vector(
        self, opened: OpenVersion, vector: np.ndarray, k: int, *, where: dict[str, Any] | None = None, floor: float | None = None
    ) -> list[Hit]:
        """Hits for a unit vector in one open version."""
        return retrieve(self.declaration, opened, vector, k, where=where, floor=floor)

    def ask(self, question: str, *, k: int | None = None, mode: str = "kb-only", floor: float | None = None, version: str | None = None) -> Answer:
        """An answer made of cited sentences, or an explicit "I don't know" where no hit reaches the floor."""
        _require_text(question, "question")
        if mode != "kb-only":
            raise UsageError(f"mode {mode} needs a generating model, which is not supported yet", where="--mode", hint="leave it at kb-only")
        declared, defaults = self.declaration.retrieve, self.embedder.defaults
        lowest = next(f for f in (floor, declared.floor, defaults.floor) if f is not None)
        confident = declared.confident if declared.confident is not None else max(defaults.confident, lowest)
        opened = self.version(version)
        vector = self.embedder.embed_queries([question])[0]
        hits = self.search_by_vector(opened, vector, k or declared.k, floor=lowest)
        return extract_answer(self.declaration, opened.manifest.version, vector, hits, self.embedder, confident)

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
