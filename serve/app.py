"""The ASGI application: routes, middleware, error handlers and the background task that opens new versions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from almanac.core.logs import get_logger
from almanac.core.memory import give_back
from almanac.schemas.errors import AlmanacError
from almanac.serve.api import Api
from almanac.serve.api_keys import ApiKeys, require_safe_address
from almanac.serve.bodies import BodyLimits
from almanac.serve.catalog import Catalog
from almanac.serve.guard import Guard
from almanac.serve.messages import ProblemDocument
from almanac.serve.metrics import Observed
from almanac.serve.page import page_routes
from almanac.serve.problem_details import ProblemDetails, invalid, problem_of
from almanac.serve.server_settings import Settings
from almanac.serve.workers import Workers

_LOOK_S = 2.0  # seconds between two checks for newly published versions
_REFUSALS = {
    400: "The body is not JSON.",
    401: "An API key is needed.",
    403: "The key, or the page, may not ask for this.",
    404: "There is no such knowledge base or version.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    421: "The Host header names another machine.",
    422: "A value is invalid or too long.",
    429: "Too many requests of this key.",
    503: "Busy, too slow, not ready, or a service is out of reach.",
}
_DESCRIPTION = """Search and answers over published knowledge bases. Every answer names its version and what it
rests on.

What is refused is said by a problem document (RFC 9457). Names that are not documented here are refused."""
_log = get_logger("almanac.serve")


def create_app(catalog: Catalog, settings: Settings, shared: Path | None = None) -> FastAPI:
    """Builds the application over one catalog. `shared` is the folder by which several processes share rates and
    metrics; None for a single one.

    At shutdown it closes the catalog, unless requests are still running. Raises UsageError for malformed API keys, and
    where other machines could ask without a key.
    """
    keys = ApiKeys.parse(settings.api_keys.get_secret_value())
    require_safe_address(settings.host, keys)
    push_keys = ApiKeys.parse(settings.push_keys.get_secret_value(), "ALMANAC_PUSH_KEYS")
    workers = Workers(settings)
    api = Api(catalog, settings, workers, shared)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        upkeep_task = asyncio.create_task(_keep_up(catalog, api))
        yield
        upkeep_task.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep_task
        if left := workers.close():
            _log.warning("cut_off", requests=left)
        else:
            catalog.close()

    # No page at /docs: FastAPI's pages load scripts from other hosts.
    app = FastAPI(
        title="Almanac",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.workers = workers
    app.include_router(
        api.router, responses={status: _refusal(description) for status, description in _REFUSALS.items()}
    )
    app.router.routes.extend(page_routes())
    for error in (RequestValidationError, HTTPException, ProblemDetails, AlmanacError, ClientDisconnect):
        app.add_exception_handler(error, _answer_with_problem)
    app.add_middleware(BodyLimits, settings=settings)
    app.add_middleware(Guard, settings=settings, keys=keys, push_keys=push_keys, shared=shared)
    app.add_middleware(Observed, metrics=api.metrics)
    _document(app, settings, has_keys=bool(keys))
    return app


async def _keep_up(catalog: Catalog, api: Api) -> None:
    while True:
        try:
            is_warm = bool(await asyncio.to_thread(catalog.keep_up))
            if is_warm and not api.is_warm:
                await asyncio.to_thread(give_back)  # what loading the model has used
                _log.info("ready")
            api.is_warm = is_warm
        except AlmanacError as error:
            _log.warning("not_ready", error=str(error))
        await asyncio.sleep(_LOOK_S)


async def _answer_with_problem(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)  # for the metrics: nobody reads it
    if isinstance(error, RequestValidationError):
        problem = invalid(error.errors())
    elif isinstance(error, HTTPException):
        problem = ProblemDetails(error.status_code, _message_of(error, request), headers=error.headers)
    elif isinstance(error, AlmanacError):
        problem = problem_of(error)
        if problem.status >= 500:
            _log.warning("refused", kind=error.kind, error=str(error))
    else:
        assert isinstance(error, ProblemDetails)
        problem = error
    return problem.response(request.scope)


def _message_of(error: HTTPException, request: Request) -> str:
    if error.status_code == 404:
        return "there is nothing at this path"
    if error.status_code == 405:
        return f"this path does not take {request.method[:20]}"
    return str(error.detail)


def _refusal(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }


def _document(app: FastAPI, settings: Settings, *, has_keys: bool) -> None:
    """Adds to the OpenAPI document what the models cannot express: the configured limits, problem documents and API
    keys.
    """
    schema = app.openapi()
    schemas = schema["components"]["schemas"]
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    for name, text, k in (
        ("ChatRequest", "message", None),
        ("SearchRequest", "query", "k"),
        ("SearchKbRequest", "query", "top_k"),
        ("ChatOptions", None, "retrievalK"),
    ):
        if text:
            schemas[name]["properties"][text]["maxLength"] = settings.max_input_chars
        if k:
            schemas[name]["properties"][k]["anyOf"][0]["maximum"] = settings.max_k
    if has_keys:
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        schema["paths"]["/health"]["get"]["security"] = []
