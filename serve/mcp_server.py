"""MCP server over published knowledge bases: search and ask as tools, documents and passages as resources. It is
read-only.

Each request reads what is published at that moment, so that new knowledge bases and versions need no restart;
subscribed clients are notified of changes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ToolsListChanged
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextResourceContents,
    Tool,
)
from starlette.types import ASGIApp

from almanac.core.logs import get_logger
from almanac.schemas.errors import AlmanacError
from almanac.serve.api_keys import ApiKeys, Caller, require_safe_address
from almanac.serve.bodies import BodyLimits
from almanac.serve.caller_view import View
from almanac.serve.catalog import Catalog
from almanac.serve.guard import Guard
from almanac.serve.mcp_resources import JSON, TEMPLATES, read_resource, sources_resource
from almanac.serve.mcp_tools import (
    SEARCH_SEVERAL,
    AskArguments,
    SearchArguments,
    SearchSeveralArguments,
    as_failure,
    as_result,
    ask_tool,
    in_words,
    read_arguments,
    require_length,
    search_name,
    search_results,
    search_several_tool,
    search_tool,
    usual_results,
)
from almanac.serve.messages import require_small_filter
from almanac.serve.problem_details import ProblemDetails, problem_of
from almanac.serve.server_settings import Settings
from almanac.serve.workers import Workers

_LOOK_EVERY_S = 5.0  # seconds between two checks for changes, to notify subscribed clients
_INSTRUCTIONS = """\
Knowledge bases that are kept fresh from websites and documents. Each has a search tool, whose description says what \
it holds; `ask` answers one question with citations. Search results name their passage, which can be read as a \
resource, as can the list of documents. Everything is read-only."""
_log = get_logger("almanac.mcp")
_Outcome = TypeVar("_Outcome")
_Context = ServerRequestContext[Workers, Any]


class KnowledgeServer(Server[Workers]):
    """MCP server over the knowledge bases of a catalog.

    Args:
        catalog: The knowledge bases.
        settings: Limits of requests.
        version: Version of the server, as reported to clients.
        workspace: Workspace that all requests are held to. Default: over HTTP that of the caller's key, else none.
        is_ahead: Whether to load models and open versions before the first question, which takes some hundred MB even
            if none is ever asked.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        *,
        version: str = "",
        workspace: str | None = None,
        is_ahead: bool = False,
    ) -> None:
        self._catalog, self._settings, self._workspace, self._is_ahead = catalog, settings, workspace, is_ahead
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus)
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(
            "almanac",
            title="Almanac",
            version=version,
            instructions=_INSTRUCTIONS,
            lifespan=self._working,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=self._listeners,
        )

    def end_listening(self) -> None:
        """Ends the event streams of subscribed clients, which otherwise never end. May be called in a signal
        handler.
        """
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._listeners.close)

    async def _list_tools(self, context: _Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=await _worked(context, partial(self._tools, self._view_of(context))))

    async def _call_tool(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        call = partial(self._call, params.name, params.arguments, self._view_of(context))
        try:
            return await _in_thread(context.lifespan_context, call)
        except ProblemDetails as problem:
            return as_failure(problem)

    async def _list_resources(self, context: _Context, _: PaginatedRequestParams | None) -> ListResourcesResult:
        view = self._view_of(context)
        return ListResourcesResult(
            resources=await _worked(context, lambda: [sources_resource(index.declaration) for index in view.indexes()])
        )

    async def _list_templates(self, _: _Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def _read_resource(self, context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        resource = await _worked(context, partial(read_resource, self._view_of(context), params.uri))
        return ReadResourceResult(
            contents=[
                TextResourceContents(uri=params.uri, mime_type=JSON, text=json.dumps(resource, ensure_ascii=False))
            ]
        )

    def _view_of(self, context: _Context) -> View:
        workspace = self._workspace
        if context.request is not None and workspace is None:  # over stdio there is no key
            caller: Caller = context.request.scope["state"]["caller"]
            workspace = caller.workspace
        return View(self._catalog, workspace)

    def _tools(self, view: View) -> list[Tool]:
        indexes, longest = view.indexes(), self._settings.max_input_chars
        if not indexes:
            return []
        searches = [search_tool(index.declaration, view.held(index), max_chars=longest) for index in indexes]
        declarations, default = {index.declaration.name: index.declaration for index in indexes}, view.default()
        if len(indexes) > 1:
            searches.append(search_several_tool(declarations, default, max_chars=longest))
        return [*searches, ask_tool(declarations, default, max_chars=longest)]

    def _call(self, name: str, arguments: dict[str, Any] | None, view: View) -> CallToolResult:
        longest, workspace = self._settings.max_input_chars, view.workspace
        if name == "ask":
            ask_arguments = read_arguments(AskArguments, arguments)
            require_length("question", ask_arguments.question, longest)
            require_length("history", "".join(message.content for message in ask_arguments.history), longest)
            history = [message.model_dump() for message in ask_arguments.history]
            return as_result(
                view.select_indexes(ask_arguments.kb).ask(
                    ask_arguments.question, mode=ask_arguments.mode, history=history, workspace=workspace
                )
            )
        searches = {search_name(index.declaration.name): index for index in view.indexes()}
        if name == SEARCH_SEVERAL and len(searches) > 1:
            several = read_arguments(SearchSeveralArguments, arguments)
            self._require_short(several)
            search_result = view.select_indexes(several.kb).search(
                several.query, k=several.max_results, where=several.where, workspace=workspace
            )
            return as_result(search_results(search_result))
        if name not in searches:
            raise MCPError(INVALID_PARAMS, f"no tool {name[:80]!r}\n→ there are: {', '.join([*searches, 'ask'])}")
        index = searches[name]
        wanted = read_arguments(SearchArguments, arguments, max_results=usual_results(index.declaration))
        self._require_short(wanted)
        return as_result(
            search_results(index.search(wanted.query, k=wanted.max_results, where=wanted.where, workspace=workspace))
        )

    def _require_short(self, wanted: SearchArguments) -> None:
        require_length("query", wanted.query, self._settings.max_input_chars)
        require_small_filter(wanted.where, self._settings.max_filter_depth, self._settings.max_filter_size)

    @asynccontextmanager
    async def _working(self, _: Server[Workers]) -> AsyncIterator[Workers]:
        """Lifespan of the server: provides the worker threads, and runs the task that notifies subscribed clients of
        changes.
        """
        self._loop, workers = asyncio.get_running_loop(), Workers(self._settings)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, workers)
                yield workers
                tasks.cancel_scope.cancel()
        finally:
            workers.close()

    async def _watch(self, workers: Workers) -> None:
        before: list[Tool] | None = None
        while True:
            with suppress(ProblemDetails):  # already logged; the next check may succeed
                if self._is_ahead:
                    await _in_thread(workers, self._catalog.keep_up)
                now = await _in_thread(workers, partial(self._tools, View(self._catalog, self._workspace)))
                if before is not None and now != before:
                    await self._bus.publish(ToolsListChanged())
                    await self._bus.publish(ResourcesListChanged())
                before = now
            await anyio.sleep(_LOOK_EVERY_S)


async def serve_stdio(server: KnowledgeServer) -> None:
    """Serves the client that started this process, until it closes stdin. Stdout carries the protocol; everything else
    is written to stderr.
    """
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def http_app(server: KnowledgeServer, settings: Settings) -> ASGIApp:
    """ASGI application for MCP over streamable HTTP, at /mcp, with the access control and the body limits of the HTTP
    API.

    Raises UsageError for malformed API keys, and where other machines could ask without a key.
    """
    keys = ApiKeys.parse(settings.api_keys.get_secret_value())
    require_safe_address(settings.host, keys)
    # Guard does this, and also accepts the bound address
    looked_at = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(transport_security=looked_at, max_request_body_size=settings.max_request_bytes)
    return Guard(BodyLimits(app, settings), settings, keys, ApiKeys())


async def _worked(context: _Context, work: Callable[[], _Outcome]) -> _Outcome:
    """Result of a request other than a tool call, computed in a worker thread. Raises MCPError: such requests fail with
    an error of the protocol.
    """
    try:
        return await _in_thread(context.lifespan_context, work)
    except ProblemDetails as problem:
        raise MCPError(INVALID_PARAMS if problem.status < 500 else INTERNAL_ERROR, in_words(problem)) from problem


async def _in_thread(workers: Workers, work: Callable[[], _Outcome]) -> _Outcome:
    """Runs work in a worker thread.

    Raises MCPError as it is, and any other error as ProblemDetails. The details of a server-side error are written to
    the log and not sent to the client.
    """
    try:
        return await workers.run(work)
    except (ProblemDetails, MCPError):
        raise
    except AlmanacError as error:
        problem = problem_of(error)
        if problem.status >= 500:  # the log has more than the client gets
            _log.warning("refused", kind=error.kind, error=str(error))
        raise problem from error
    except Exception as error:
        _log.error("request_failed", exc_info=error)
        raise ProblemDetails(
            500, "the request failed by a defect of this server", hint="its log says more; please report it"
        ) from error
