"""Where Scrapy's own handling of robots.txt and of redirects is not what is declared."""

from typing import Any

from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.robotstxt import RobotParser

_ALLOW_ALL = b""
_DISALLOW_ALL = b"User-agent: *\nDisallow: /\n"


class Refusal(IgnoreRequest):
    """A request that ends here, with the reason for the books; no reason means that there is nothing to report."""

    def __init__(self, reason: str | None, detail: str = "", status: int | None = None) -> None:
        super().__init__(detail or reason or "seen before")
        self.reason = reason
        self.detail = detail
        self.status = status


class StrictRobots(RobotsTxtMiddleware):
    """robots.txt by RFC 9309: unavailable (4xx) allows everything, unreachable (5xx, no answer) allows nothing.

    Pages of an unreachable robots.txt are not refused by it but failed: they are as they were, only out of reach.
    """

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self._unreachable: dict[str, Exception] = {}

    async def robot_parser(self, request: Request) -> RobotParser | None:
        parser = await super().robot_parser(request)
        error = self._unreachable.get(_netloc(request.url))
        if error is not None:
            raise error
        return parser

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        rules = response.body
        if response.status >= 500 or response.status == 429:
            rules = _DISALLOW_ALL
            detail = f"robots.txt answered {response.status}, so nothing may be fetched (RFC 9309)"
            self._unreachable[netloc] = Refusal("server_error", detail, response.status)
        elif response.status >= 400:
            rules = _ALLOW_ALL
        await super()._parse_robots(response.replace(body=rules), netloc, request)

    def _robots_error(self, exc: Exception, netloc: str) -> None:
        # A robots.txt that leads off the site or in a circle says nothing (RFC 9309, 2.3.1.2).
        if not isinstance(exc, IgnoreRequest):
            self._unreachable[netloc] = exc
        super()._robots_error(exc, netloc)


class DeclaredRedirects(RedirectMiddleware):
    """Redirects stay on the declared road: each hop is allowed, new, and no step in a circle."""

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        if not request.meta.get("dont_obey_robotstxt"):  # robots.txt itself may stand anywhere
            self._check(redirected.url, [*request.meta.get("redirect_urls", []), request.url], int(reason))
        try:
            return super()._redirect(redirected, request, reason)
        except IgnoreRequest as error:
            raise Refusal("error", f"more than {self.max_redirect_times} redirects", int(reason)) from error

    def _check(self, target: str, way: list[str], status: int) -> None:
        spider: Any = self.crawler.spider
        if target in way:
            raise Refusal("error", f"redirects in a circle, back to {target}", status)
        refusal = spider.refusal_of(target)
        if refusal is not None:
            raise Refusal(refusal, f"redirects to {target}", status)
        if not spider.claim(target, way):
            raise Refusal(None)


def _netloc(url: str) -> str:
    return url.split("/", 3)[2]
