"""What ends a request before or instead of a page, with the reason for the books."""

from scrapy.exceptions import IgnoreRequest


class Refusal(IgnoreRequest):
    """A request that ends here; it is never tried again. No reason means that there is nothing to report."""

    def __init__(self, reason: str | None, detail: str = "", status: int | None = None) -> None:
        super().__init__(detail or reason or "seen before")
        self.reason = reason
        self.detail = detail
        self.status = status
