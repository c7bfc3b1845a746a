"""Problem details (RFC 9457), the error responses of the server. They never contain a stack trace, a path of the server
or a secret.
"""

import json
import math
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
    RateLimited,
    Retriable,
    Unreachable,
    UsageError,
)  # fmt: skip

# of values that may be one or a list: pydantic puts them into places, and no request has them
BRANCHES = ("<one>", "<several>")
_WAIT_S, _LONGEST_WAIT_S = 5, 3600  # seconds after which a client may ask again: where a service told none, and at most
_LONGEST = 500  # maximum characters of a quotation from a request
_PATH = re.compile(r"(?<![\w.])/[\w.-]+/")
# The first matching class applies: status, and the detail that replaces an error's message where that is meant for the
# operator.
_STATUS: tuple[tuple[type[AlmanacError], int, str | None], ...] = (
    (DeclarationError, 503, "the declaration of this knowledge base cannot be used as it is"),
    (EmbedderMismatch, 503, "the published version and the declaration name different embedders"),
    (NothingPublished, 404, None),
    (NotFound, 404, None),
    (UsageError, 422, None),
    (CredentialRefused, 503, "a service that this answer needs refused the server"),
    (RateLimited, 503, "a model that this answer needs takes no more requests for now: its rate limit is reached"),
    (Unreachable, 503, "a service that this answer needs is out of reach"),
    (Retriable, 503, "a service that this answer needs fails for now"),
    (OperationalError, 503, "the index, or a service that this answer needs, cannot be used"),
    (AlmanacError, 500, "the server could not do this"),
)


class ProblemDetails(Exception):
    """An error response.

    Args:
        status: HTTP status code.
        detail: Description for the client.
        kind: Last part of the problem's `type`. Default: the name of the status.
        headers: Further headers of the response.
        **members: Further members of the document, such as `hint` and `where`; those that are None are left out.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        self.title = HTTPStatus(status).phrase
        self.kind = (kind or self.title.lower().replace("'", "")).replace(" ", "-").replace("_", "-")
        self.members = {name: value for name, value in members.items() if value is not None}

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """The problem as a JSON object. `instance` is the path of the request."""
        standard_members = {
            "type": f"urn:almanac:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": _short(self.detail),
        }
        return {**standard_members, **({"instance": instance} if instance else {}), **self.members}

    def response(self, scope: Scope) -> Response:
        """The problem as a response to the request of `scope`."""
        # ASCII, since quotations may contain lone surrogates, which UTF-8 cannot encode.
        body = json.dumps(self.document(instance_of(scope)))
        return Response(body, self.status, {**self.headers, "Cache-Control": "no-store"}, "application/problem+json")


def instance_of(scope: Scope) -> str:
    """Raw path of a request, truncated to 500 characters."""
    return str(scope.get("raw_path", b"").decode("ascii", "replace"))[:_LONGEST]


def problem_of(error: AlmanacError, kb: str | None = None) -> ProblemDetails:
    """Problem details of an error, for clients.

    The error's own message is used where the client can fix the cause, else a general one. `where` is kept if it is an
    option or a plain name, `hint` if it has no path of the server. `kb` replaces KB in the hint.
    """
    error.about(kb or "KB")
    status, instead = next((status, instead) for kind, status, instead in _STATUS if isinstance(error, kind))
    where = error.where.lstrip("-") if error.where and re.fullmatch(r"-{0,2}\w+", error.where) else None
    hint = None if error.hint and _PATH.search(error.hint) else error.hint
    retry_after_s = error.retry_after_s if isinstance(error, RateLimited) else None
    wait = (
        {"Retry-After": str(_WAIT_S if retry_after_s is None else math.ceil(min(retry_after_s, _LONGEST_WAIT_S)))}
        if isinstance(error, Retriable)
        else None
    )
    return ProblemDetails(status, instead or error.message, kind=error.kind, headers=wait, where=where, hint=hint)


def invalid(errors: Sequence[Any]) -> ProblemDetails:
    """Problem details of pydantic's findings in a request, at most 20, each with a JSON pointer. The values of the
    request are not repeated.
    """
    findings = [{"pointer": _pointer(error["loc"]), "detail": _short(error["msg"])} for error in errors[:20]]
    first = f"{findings[0]['pointer']}: {findings[0]['detail']}" if findings else "the request cannot be understood"
    return ProblemDetails(422, first, kind="invalid-request", errors=findings)


def _pointer(place: Sequence[str | int]) -> str:
    within, *keys = place or ("body",)
    steps = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys if key not in BRANCHES)
    return _short(f"#{steps}" if within == "body" else f"{within}{steps}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
