"""Classifies responses that are not pages and requests that failed, by the reasons used in crawl outcomes (see `FailedPage`)."""

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

from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.reading.content import is_text_type, looks_like_text
from almanac.spiders.reading.decode import is_binary

_UNREACHABLE = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    ConnectError,
    ConnectionDone,
    ConnectionLost,
)


def header(response: Response, name: str) -> str | None:
    """The value of a header; None if it is missing."""
    value = response.headers.get(name)
    return None if value is None else value.decode("latin-1")


def robots_header(response: Response) -> str:
    """The values of the X-Robots-Tag headers, one a line."""
    return "\n".join(" ".join(value.decode("latin-1").split()) for value in response.headers.getlist("X-Robots-Tag"))


def problem_of(response: Response) -> tuple[str, str] | None:
    """(reason, detail) why a response is not a page; None if it is one."""
    if response.status in (404, 410):
        return "gone", ""
    if response.status >= 500 or response.status in (408, 429):
        return "server_error", ""
    if response.status != 200:
        return "error", f"answered {response.status}"
    kind = header(response, "Content-Type")
    is_text = is_text_type(kind) and not is_binary(response.body) if kind else looks_like_text(response.body)
    return None if is_text else ("not_text", kind or "binary")


def reason_of(error: BaseException | None) -> tuple[str | None, str, int | None]:
    """(reason, detail, status) of a failed request; the reason is None if there is nothing to report."""
    detail = str(error)[:300] or type(error).__name__
    match error:
        case Refusal():
            return error.reason, error.detail, error.status
        case StopDownload() if error.response is not None:
            reason, detail = problem_of(error.response) or ("error", detail)
            return reason, detail, error.response.status
        case DownloadTimeoutError():
            return "timeout", detail, None
        case DownloadCancelledError():
            return "too_large", detail, None
        case IgnoreRequest() if "during decompression" in detail:
            return "too_large", detail, None
        case IgnoreRequest() if "robots.txt" in detail:
            return "refused_by_robots", "", None
        case ResponseDataLossError():
            return "unreachable", str(error) or "its body is cut short: it has not the length that was announced, or lacks its last chunk", None
        case _ if isinstance(error, _UNREACHABLE):
            closed = "ConnectionDone" in detail or "ConnectionLost" in detail
            return "unreachable", "the server closed the connection without a whole answer" if closed else detail, None
        case _:
            return "error", detail, None
