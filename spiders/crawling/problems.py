"""Tells what responses are, and classifies those that are not pages and requests that failed, by the reasons used in
crawl outcomes (see `FailedPage`).
"""

import re
from collections.abc import Collection

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.http import Response
from twisted.internet.error import ConnectError, ConnectionDone, ConnectionLost

from almanac.core.clock import utc_now
from almanac.schemas.items import Page
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.reading.content import is_text_type, looks_like_text, media_type
from almanac.spiders.reading.decode import is_binary
from almanac.spiders.reading.formats import document_by_content
from almanac.spiders.reading.linked_types import (
    MEDIA_TYPES,
    is_whole_page,
    sent_name,
    type_of_content,
    type_of_headers,
    type_of_name,
)
from almanac.spiders.selecting.links import UrlPolicy

_UNREACHABLE = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    ConnectError,
    ConnectionDone,
    ConnectionLost,
)
ARRIVED = frozenset({200, 203})
"""Statuses of a whole page; 203 says that a proxy on the way changed it (RFC 9110, 15.3.4)."""
_MAX_DETAIL = 300  # characters that come from a server or a library
_MAX_SIZE = re.compile(r"(?:max size|DOWNLOAD_MAXSIZE) \((\d+)(?: B)?\)")


def header(response: Response, name: str) -> str | None:
    """The value of a header; None if it is missing."""
    value = response.headers.get(name)
    return None if value is None else value.decode("latin-1")


def robots_header(response: Response) -> str:
    """The values of the X-Robots-Tag headers, one a line."""
    return "\n".join(" ".join(value.decode("latin-1").split()) for value in response.headers.getlist("X-Robots-Tag"))


def file_name(response: Response) -> str:
    """The name under which a response was sent; empty if it has none."""
    return sent_name(response.headers.get("Content-Disposition") or b"")


def document_of(response: Response) -> str | None:
    """The type of the document that a response is, by its content, else by its headers; None for a page and for what is
    neither.
    """
    kind = header(response, "Content-Type") or ""
    shown: str | None = type_of_content(response.body)
    if media_type(kind) == "text/plain" and "eml" in (type_of_name(file_name(response)), type_of_name(response.url)):
        shown = shown or document_by_content(response.body)
    if shown is not None or is_text_type(kind) or (not kind and looks_like_text(response.body)):
        return shown
    document_type = type_of_headers(kind, file_name(response), response.url)
    return None if document_type is not None and is_whole_page(response.body) else document_type


def content_type_of(response: Response, documents: Collection[str]) -> str | None:
    """The content type that a response is read as; None if it is neither a page nor one of the types of `documents`."""
    kind = header(response, "Content-Type") or ""
    if (document := document_of(response)) is not None:
        return MEDIA_TYPES[document] if document in documents else None
    if is_text_type(kind):
        return None if is_binary(response.body) else kind
    # and it is a page: an error page, or one that shows the document
    if type_of_headers(kind, file_name(response), response.url) in documents:
        return "text/html"
    return "" if not kind and looks_like_text(response.body) else None


def page_of(response: Response, requested_url: str, policy: UrlPolicy) -> Page:
    """The page that a response is, fetched now; one of `ARRIVED`."""
    documents = policy.source.documents
    links = b", ".join(response.headers.getlist("Link")).decode("latin-1")
    return Page(
        url=policy.canonical(response.url),
        body=response.body,
        status=response.status,
        content_type=content_type_of(response, documents) or "",
        fetched_at=utc_now(),
        requested_url=requested_url,
        file_name=file_name(response) if document_of(response) is not None else "",
        etag=header(response, "ETag"),
        last_modified=header(response, "Last-Modified"),
        robots=robots_header(response),
        rendered=response.meta.get("rendered", ""),
        canonical=policy.linked_address(links, response.url),
    )


def problem_of(
    response: Response, documents: Collection[str] = (), gone: Collection[int] = ()
) -> tuple[str, str] | None:
    """(reason, detail) why a response is neither a page nor one of the types of `documents`; None if it is.

    `gone` are the statuses by which a page is gone besides 404 and 410.
    """
    if response.status in (404, 410) or response.status in gone:
        return "gone", ""
    if response.status >= 500 or response.status in (408, 429):
        return "server_error", ""
    if response.status not in ARRIVED:
        return "error", f"answered {response.status}" + _where_to(response)
    if content_type_of(response, documents) is not None:
        return None
    kind = header(response, "Content-Type")
    return "not_text", f"{kind}; but its body is {_kind_of_bytes(response.body)}" if kind and is_text_type(
        kind
    ) else kind or "binary"


def _where_to(response: Response) -> str:
    """Where a redirect leads that cannot be followed."""
    if not 300 < response.status < 400 or response.status == 304:
        return ""
    location = header(response, "Location")
    return f", which leads to {location[:_MAX_DETAIL]}" if location else " without a Location"


def _kind_of_bytes(body: bytes) -> str:
    return "gzip data: compressed twice, or without a Content-Encoding" if body.startswith(b"\x1f\x8b") else "binary"


def _too_large(detail: str, limit: str) -> str:
    """Scrapy's message on a body that is too large, with the limit as it is declared here."""
    size = _MAX_SIZE.search(detail)
    unpacked = ", unpacked" if "during decompression" in detail else ""
    return f"more than {int(size[1]):,} bytes{unpacked}: {limit}" if size else detail


def reason_of(
    error: BaseException | None, limit: str = "limits.bytes_per_page", *, gone: Collection[int] = ()
) -> tuple[str | None, str, int | None]:
    """(reason, detail, status) of a failed request; the reason is None if there is nothing to report.

    `limit` names what limits the size of its body; `gone` is as in `problem_of`.
    """
    detail = str(error)[:_MAX_DETAIL] or type(error).__name__
    match error:
        case Refusal():
            return error.reason, error.detail, error.status
        case StopDownload() if error.response is not None:
            reason, detail = problem_of(error.response, gone=gone) or ("error", detail)
            return reason, detail, error.response.status
        case DownloadTimeoutError():
            return "timeout", detail, None
        case DownloadCancelledError():
            return "too_large", _too_large(detail, limit), None
        case IgnoreRequest() if "during decompression" in detail:
            return "too_large", _too_large(detail, limit), None
        case IgnoreRequest() if "robots.txt" in detail:
            return "refused_by_robots", "", None
        case ResponseDataLossError():
            return (
                "unreachable",
                str(error)
                or "its body is cut short: it has not the length that was announced, or lacks its last chunk",
                None,
            )
        case _ if isinstance(error, _UNREACHABLE):
            closed = "ConnectionDone" in detail or "ConnectionLost" in detail
            return "unreachable", "the server closed the connection without a whole answer" if closed else detail, None
        case _:
            return "error", detail, None
