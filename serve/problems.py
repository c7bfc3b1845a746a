"""ProblemDetails documents (RFC 9457): what a client is told when a request is not answered. Never a stack trace, a path of the server, or a secret."""

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from almanac.schemas.errors import (
    AlmanacError,
    CredentialRefused,
    DeclarationError,
    EmbedderMismatch,
    NotFound,
    NothingPublished,
    OperationalError,
    Retriable,
    UsageError,
)  # fmt: skip

_LONGEST = 500  # characters of what is quoted back
_PATH = re.compile(r"(?<![\w.])/[\w.-]+/")
# The first that fits: the status, and what is said where the error's own words are for whoever runs the server.
_STATUS: tuple[tuple[type[AlmanacError], int, str | None], ...] = (
    (DeclarationError, 503, "the declaration of this knowledge base cannot be used as it is"),
    (EmbedderMismatch, 503, "the published version and the declaration name different embedders"),
    (NothingPublished, 404, None),
    (NotFound, 404, None),
    (UsageError, 422, None),
    (CredentialRefused, 503, "a service that this answer needs refused the server"),
    (Retriable, 503, "a service that this answer needs is out of reach"),
    (OperationalError, 503, "the index, or a service that this answer needs, cannot be used"),
    (AlmanacError, 500, "the server could not do this"),
)


class ProblemDetails(Exception):
    """A request that is not answered. `kind` names the problem in its `type`; `told` are further members of the document."""

    def __init__(self, status: int, detail: str, *, kind: str | None = None, headers: Mapping[str, str] | None = None, **told: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        self.title = HTTPStatus(status).phrase
        self.kind = (kind or self.title.lower().replace("'", "")).replace(" ", "-").replace("_", "-")
        self.told = {name: value for name, value in told.items() if value is not None}

    def document(self, instance: str | None = None) -> dict[str, Any]:
        told = {"type": f"urn:almanac:problem:{self.kind}", "title": self.title, "status": self.status, "detail": _short(self.detail)}
        return {**told, **({"instance": instance} if instance else {}), **self.told}

    def response(self, scope: Scope) -> Response:
        # In ASCII, since what is quoted may hold half of a surrogate pair.
        body = json.dumps(self.document(instance_of(scope)))
        return Response(body, self.status, {**self.headers, "Cache-Control": "no-store"}, "application/problem+json")


def instance_of(scope: Scope) -> str:
    """The path that was asked for, as it came."""
    return str(scope.get("raw_path", b"").decode("ascii", "replace"))[:_LONGEST]


def problem_of(error: AlmanacError, kb: str | None = None) -> ProblemDetails:
    """What a client is told about an error: its own words where the client can do something about it."""
    error.about(kb or "KB")
    status, instead = next((status, instead) for kind, status, instead in _STATUS if isinstance(error, kind))
    where = error.where.lstrip("-") if error.where and re.fullmatch(r"-{0,2}\w+", error.where) else None
    hint = None if error.hint and _PATH.search(error.hint) else error.hint
    wait = {"Retry-After": "5"} if isinstance(error, Retriable) else None
    return ProblemDetails(status, instead or error.message, kind=error.kind, headers=wait, where=where, hint=hint)


def invalid(errors: Sequence[Any]) -> ProblemDetails:
    """What pydantic found in a request; the values found are not said again. `errors` has a JSON pointer for each."""
    found = [{"pointer": _pointer(error["loc"]), "detail": _short(error["msg"])} for error in errors[:20]]
    first = f"{found[0]['pointer']}: {found[0]['detail']}" if found else "the request cannot be understood"
    return ProblemDetails(422, first, kind="invalid-request", errors=found)


def _pointer(place: Sequence[str | int]) -> str:
    within, *keys = place or ("body",)
    steps = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)
    return _short(f"#{steps}" if within == "body" else f"{within}{steps}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
