"""The exception that ends a request without a page, with the reason for the crawl's outcome."""

from scrapy.exceptions import IgnoreRequest


class Refusal(IgnoreRequest):
    """A request that ends here and is never retried. Without a reason, it redirects to `seen`, a page that another
    request is for.
    """

    def __init__(self, reason: str | None, detail: str = "", status: int | None = None, *, seen: str = "") -> None:
        super().__init__(detail or reason or "seen before")
        self.reason = reason
        self.detail = detail
        self.status = status
        self.seen = seen
