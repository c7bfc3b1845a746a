"""The chat page: one HTML file and what it loads, all from here."""

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
    # The page makes its elements one by one; with this the browser refuses a script that would parse HTML.
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
    # Asked for again each time, so that page, script and style are of one release.
    "Cache-Control": "no-cache",
}


def page_routes() -> list[BaseRoute]:
    """Routes for `/` and `/static/…`, to be put into an application; they ask for no key and read nothing but this folder."""
    return [Route("/", _index, name="page", include_in_schema=False), Mount("/static", _Static(directory=_FOLDER / "static"), name="static")]


async def _index(_: Request) -> Response:
    return FileResponse(_FOLDER / "index.html", headers=HEADERS)


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response
