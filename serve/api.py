"""Routes of the HTTP API. Each runs a request of the query API in a worker thread, within the workspace of the caller's
key.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from almanac.query.published import PublishedIndex
from almanac.query.several import SeveralIndexes
from almanac.schemas.errors import AlmanacError
from almanac.schemas.reports import Versions
from almanac.schemas.results import Answer, Hit, ListedDocument, SearchResult
from almanac.serve.api_keys import Caller
from almanac.serve.caller_view import View
from almanac.serve.catalog import Catalog
from almanac.serve.documents import push_documents, remove_documents
from almanac.serve.guard import PUSHED
from almanac.serve.messages import (
    ChatAnswer,
    ChatRequest,
    FoundChunk,
    FoundChunks,
    Health,
    KnowledgeBase,
    KnowledgeBases,
    Pushed,
    PushRequest,
    Ready,
    RemoveRequest,
    SearchKbRequest,
    SearchRequest,
    SourcesPage,
    SourcesQuery,
    VersionsQuery,
    require_short,
    require_small_filter,
)  # fmt: skip
from almanac.serve.metrics import Metrics
from almanac.serve.problem_details import ProblemDetails, problem_of
from almanac.serve.server_settings import Settings
from almanac.serve.workers import Workers

_T = TypeVar("_T")
_EVENTS = "text/event-stream"
_EVENT_EXAMPLE = (
    'event: token\ndata: {"text": "28 days of "}\n\nevent: done\ndata: {"reply": "28 days of leave [1]", '
    '"version": "v0001"}\n\n'
)


class Api:
    """The routes over one catalog, in `router`.

    `is_warm` is whether an index is open and its model loaded, so that the first question need not wait; the
    application sets it, and `/ready` reports it.
    """

    def __init__(self, catalog: Catalog, settings: Settings, workers: Workers, shared: Path | None = None) -> None:
        self._catalog, self._settings, self._workers = catalog, settings, workers
        self.metrics = Metrics(self._live_versions, catalog.stores, shared)
        workers.tell = self.metrics.in_flight.set
        self.is_warm = False
        self.router = APIRouter()
        route = self.router.add_api_route
        shape: dict[int | str, dict[str, Any]] = {
            200: {"content": {_EVENTS: {"schema": {"type": "string"}, "example": _EVENT_EXAMPLE}}}
        }
        route(
            "/api/chat",
            self.chat,
            methods=["POST"],
            response_model=ChatAnswer,
            responses=shape,
            summary="An answer with its sources",
        )
        route(
            "/api/search",
            self.search,
            methods=["POST"],
            response_model=SearchResult,
            summary="The best passages, with every part of their scores",
        )
        route(
            "/search_kb",
            self.search_kb,
            methods=["POST"],
            response_model=FoundChunks,
            summary="The best passages, in short",
        )
        route("/api/sources", self.sources, response_model=SourcesPage, summary="The documents that can be found")
        route("/api/kbs", self.kbs, response_model=KnowledgeBases, summary="The knowledge bases that can be asked")
        route(
            "/api/versions", self.versions, response_model=Versions, summary="The versions that are kept, newest first"
        )
        route(
            "/health",
            self.health,
            response_model=Health,
            response_model_exclude_none=True,
            summary="Whether the server is alive",
        )
        route(
            "/ready",
            self.ready,
            response_model=Ready,
            response_model_exclude_none=True,
            summary="Whether the first question would find an index open and its model loaded",
        )
        route(
            PUSHED, self.push, methods=["POST"], response_model=Pushed, summary="Documents that the next run publishes"
        )
        route(
            PUSHED,
            self.remove,
            methods=["DELETE"],
            response_model=Pushed,
            summary="Documents that the next run removes",
        )
        route("/metrics", self.prometheus, response_class=Response, summary="Metrics for Prometheus")
        for path, endpoint in (("/health", self.health), ("/ready", self.ready)):  # probes ask for the status alone
            route(path, endpoint, methods=["HEAD"], response_model_exclude_none=True, include_in_schema=False)

    async def chat(self, body: ChatRequest, request: Request) -> Any:
        require_short([body.message], self._settings.max_input_chars, "message")
        require_short([message.content for message in body.history], self._settings.max_input_chars, "history")
        self._require_limits(body.options.retrieval_k, body.where)
        options: dict[str, Any] = {
            "mode": body.mode,
            "history": [message.model_dump() for message in body.history],
            "k": body.options.retrieval_k or self._settings.retrieval_k,
            "temperature": self._settings.temperature if body.options.temperature is None else body.options.temperature,
            "language": body.options.language,
            "workspace": _workspace(request, body.workspace),
            **body.model_dump(include={"where", "floor", "version", "parts"}),
        }
        caller = _caller(request)
        if body.stream or _EVENTS in request.headers.get("accept", ""):
            return await self._stream(request, lambda: self._select_indexes(caller, body.kb), body.message, options)
        answer = await self._do(
            request, body.kb, lambda: self._select_indexes(caller, body.kb).ask(body.message, **options)
        )
        self.metrics.count_answer(answer)
        return ChatAnswer.model_validate(answer.model_dump())

    async def _stream(
        self,
        request: Request,
        index: Callable[[], PublishedIndex | SeveralIndexes],
        message: str,
        options: dict[str, Any],
    ) -> Response:
        """Streams an answer as server-sent events. The response starts with the first piece, so that errors before it
        still set the status code.

        Raises ClientDisconnect where the client leaves before that; who leaves later is noticed by the response itself.
        """

        def pieces() -> Generator[str | Answer, None, None]:
            yield from index().stream(message, **options)

        events = self._events(self._workers.stream(pieces()))
        first = await _first(request, events)

        async def all_events() -> AsyncIterator[str]:
            yield first
            try:
                async with aclosing(events):
                    async for event in events:
                        yield event
            except Exception as error:  # the status code has been sent already
                problem = (
                    error
                    if isinstance(error, ProblemDetails)
                    else problem_of(error)
                    if isinstance(error, AlmanacError)
                    else None
                )
                yield _event(
                    "error",
                    (
                        problem or ProblemDetails(500, "a defect of the server; its log has more", kind="defect")
                    ).document(),
                )
                if problem is None:
                    raise

        return StreamingResponse(all_events(), media_type=_EVENTS, headers={"X-Accel-Buffering": "no"})

    async def _events(self, pieces: AsyncGenerator[str | Answer, None]) -> AsyncGenerator[str, None]:
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, Answer):
                    self.metrics.count_answer(piece)
                    yield _event("done", ChatAnswer.model_validate(piece.model_dump()).model_dump(mode="json"))
                else:
                    yield _event("token", {"text": piece})

    async def search(self, body: SearchRequest, request: Request) -> SearchResult:
        require_short([body.query], self._settings.max_input_chars, "query")
        self._require_limits(body.k, body.where)
        caller, workspace = _caller(request), _workspace(request, body.workspace)
        options = body.model_dump(exclude={"query", "kb", "workspace"})
        return await self._do(
            request,
            body.kb,
            lambda: self._select_indexes(caller, body.kb).search(body.query, workspace=workspace, **options),
        )

    async def search_kb(self, body: SearchKbRequest, request: Request) -> FoundChunks:
        require_short([body.query], self._settings.max_input_chars, "query")
        self._require_limits(body.top_k, None)
        caller, workspace = _caller(request), _workspace(request, body.workspace)

        def find() -> FoundChunks:
            search_result = self._select_indexes(caller, body.kb).search(
                body.query, k=body.top_k, workspace=workspace, parts=body.parts
            )
            chunks = [
                _chunk(hit, self._catalog.index(hit.kb or search_result.kb).declaration.language)
                for hit in search_result.hits
            ]
            return FoundChunks(
                chunks=chunks, **search_result.model_dump(include={"kb", "version", "versions", "note", "searched"})
            )

        return await self._do(request, body.kb, find)

    async def sources(self, query: Annotated[SourcesQuery, Query()], request: Request) -> SourcesPage:
        caller, workspace = _caller(request), _workspace(request, query.workspace)

        def listed() -> SourcesPage:
            index = self._index(caller, query.kb)
            with index.reading(query.version) as retriever:
                documents, version = retriever.documents(workspace), retriever.opened.manifest.version
            end = query.offset + query.limit
            following = end if end < len(documents) else None
            return SourcesPage(
                kb=index.declaration.name, version=version, total=len(documents), next=following,
                items=[ListedDocument(**row) for row in documents.slice(query.offset, query.limit).to_pylist()],
            )  # fmt: skip

        return await self._do(request, query.kb, listed)

    async def kbs(self, request: Request) -> KnowledgeBases:
        caller = _caller(request)

        def listed() -> KnowledgeBases:
            items = [
                _described(self._catalog.index(kb), version, counts_all=caller.workspace is None)
                for kb, version in self._visible(caller).items()
            ]
            return KnowledgeBases(
                items=items, default=self._view(caller).default(), max_input_chars=self._settings.max_input_chars
            )

        return await self._do(request, None, listed)

    async def versions(self, query: Annotated[VersionsQuery, Query()], request: Request) -> Versions:
        caller = _free(request)
        return await self._do(request, query.kb, lambda: self._index(caller, query.kb).versions())

    async def push(self, body: PushRequest, request: Request) -> Pushed:
        caller = _caller(request)
        return await self._do(
            request, body.kb, lambda: push_documents(self._catalog, caller, body.kb, body.source, body.documents)
        )

    async def remove(self, body: RemoveRequest, request: Request) -> Pushed:
        caller = _caller(request)
        return await self._do(
            request, body.kb, lambda: remove_documents(self._catalog, caller, body.kb, body.source, body.ids)
        )

    async def health(self) -> Health:
        stores = await asyncio.to_thread(self._catalog.stores)  # not in the queue of the workers
        away = [state.away_since for state in stores.values() if state.away_since]
        return Health(store_away_since=min(away, default=None))

    async def ready(self, request: Request) -> Ready:
        versions = await asyncio.to_thread(self._visible, _caller(request))  # not in the queue of the workers
        if not self.is_warm or not versions:
            finding = "the model is being loaded" if versions else "no knowledge base is published"
            raise ProblemDetails(503, finding, kind="not-ready", headers={"Retry-After": "2"})
        stores = await asyncio.to_thread(self._catalog.stores)
        behind = {kb: state.behind for kb, state in stores.items() if kb in versions and state.behind}
        return Ready(versions=versions, behind=behind or None)

    async def prometheus(self, request: Request) -> Response:
        _free(request)
        return Response(await asyncio.to_thread(self.metrics.text), media_type="text/plain; version=0.0.4")

    async def _do(self, request: Request, kb: str | list[str] | None, work: Callable[[], _T]) -> _T:
        try:
            return await self._workers.run(work, lambda: _gone(request))
        except AlmanacError as error:
            error.about(kb if isinstance(kb, str) else "KB")
            raise

    def _require_limits(self, k: int | None, where: dict[str, Any] | None) -> None:
        if k is not None and k > self._settings.max_k:
            raise ProblemDetails(
                422,
                f"k is {k}, and at most {self._settings.max_k} hits are given",
                kind="invalid-request",
                where="k",
                limit=self._settings.max_k,
            )
        require_small_filter(where, self._settings.max_filter_depth, self._settings.max_filter_size)

    def _select_indexes(self, caller: Caller, kb: str | list[str] | None) -> PublishedIndex | SeveralIndexes:
        """What a request is put to: the index of a knowledge base, or those of several. Errors as `View.index`."""
        return self._view(caller).select_indexes(kb if isinstance(kb, list) else [kb] if kb else [])

    def _index(self, caller: Caller, kb: str | None) -> PublishedIndex:
        return self._view(caller).index(kb)

    def _view(self, caller: Caller) -> View:
        return View(self._catalog, caller.workspace)

    def _visible(self, caller: Caller) -> dict[str, str]:
        """Live versions of the knowledge bases that a caller may ask, by name."""
        return {index.declaration.name: index.live or "" for index in self._view(caller).indexes()}

    def _live_versions(self) -> dict[str, str]:
        return self._visible(Caller("metrics"))


async def _gone(request: Request) -> None:
    """Returns once the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _first(request: Request, events: AsyncGenerator[str, None]) -> str:
    """The first event. Raises ClientDisconnect, with the events closed, where the client leaves before it."""
    coming, leaving = asyncio.ensure_future(anext(events)), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({coming, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            return coming.result()
        raise ClientDisconnect
    finally:
        leaving.cancel()
        if coming.cancel():
            await asyncio.wait({coming})  # which closes the events


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


def _free(request: Request) -> Caller:
    """The caller. Raises ProblemDetails 403 for the key of a workspace, since the response covers all workspaces."""
    caller = _caller(request)
    if caller.workspace is not None:
        raise ProblemDetails(
            403,
            "this key is restricted to one workspace, and the response would cover all of them",
            hint="ask with a key without a workspace",
        )
    return caller


def _workspace(request: Request, workspace: str | None) -> str | None:
    held = _caller(request).workspace
    if held is not None and workspace not in (None, held):
        raise ProblemDetails(
            403,
            "this key is held to another workspace",
            where="workspace",
            hint="leave workspace out: the key says which",
        )
    return workspace if held is None else held


def _described(index: PublishedIndex, version: str, *, counts_all: bool) -> KnowledgeBase:
    declared = index.declaration
    return KnowledgeBase(
        kb=declared.name,
        title=declared.title or declared.name,
        language=declared.language,
        version=version,
        modes=["kb-only"] if declared.generate.provider == "extractive" else ["kb-only", "kb-llm"],
        has_workspaces=declared.retrieve.workspace is not None,
        size_mb=index.size_mb(version) if counts_all else None,
    )


def _chunk(hit: Hit, language: str) -> FoundChunk:
    defaults = {"id": f"{hit.document_id}_{hit.ordinal}", "language": None if language == "auto" else language}
    own: dict[str, Any] = {
        "source": hit.document_id,
        "chunk_index": hit.ordinal,
        "url": hit.url,
        "title": hit.title,
        "chunk_id": hit.chunk_id,
    }
    own |= {"kb": hit.kb} if hit.kb else {}
    return FoundChunk(text=hit.text, metadata={**defaults, **hit.metadata, **own}, score=hit.score)


def _event(name: str, data: dict[str, Any] | BaseModel) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
