"""Chat page: one HTML file with its scripts and styles, all served from this folder."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["HEADERS", "page_routes"]

_FOLDER = Path(__file__).parent
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    # The page creates its elements one by one; with this the browser blocks any script that would parse HTML.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{directive} {value}" for directive, value in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Revalidated by each request, so that page, script and style are of the same release.
    "Cache-Control": "no-cache",
}


def page_routes() -> list[BaseRoute]:
    """Routes of the chat page, `/` and `/static/…`. They need no API key and serve nothing but files of this folder."""
    return [
        Route("/", _index, name="page", include_in_schema=False),
        Mount("/static", _Static(directory=_FOLDER / "static"), name="static"),
    ]


async def _index(_: Request) -> Response:
    return FileResponse(_FOLDER / "index.html", headers=HEADERS)


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response
