"""Downloader middlewares for robots.txt, redirects and credentials, where Scrapy's own differ from what is declared."""

import re
from typing import Any, cast
from urllib.parse import urljoin, urlsplit, urlunsplit

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import DownloadTimeoutError, StopDownload
from scrapy.http import Request, Response, TextResponse
from scrapy.robotstxt import ProtegoRobotParser, RobotParser
from scrapy.utils.httpobj import urlparse_cached

from almanac.schemas.declaration.credentials import TOKEN
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.browser_state import Cookie, browser_state
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.crawling.requester_fingerprint import declared_headers, revealed
from almanac.spiders.crawling.throttle import throttle_of
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.urls import is_on_domains

_ALLOW_ALL = b""
_DISALLOW_ALL = b"User-agent: *\nDisallow: /\n"
_ROBOTS_BYTES = 500 << 10  # RFC 9309, 2.5: the least that must be parsed
_ROBOTS_REDIRECTS = 5  # RFC 9309, 2.3.1.2
_PORTS = {"http": 80, "https": 443}
_COOKIE_NAME = re.compile(TOKEN)


class StrictRobots(RobotsTxtMiddleware):
    """robots.txt by RFC 9309: unavailable (4xx) allows everything, unreachable (5xx or no answer) allows nothing.

    429 counts as unreachable. Pages behind an unreachable robots.txt count as failed, not as refused, so they are
    carried over. Crawl-delay is respected. Only the first 500 KiB of a robots.txt count.
    """

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self._unreachable: dict[str, Refusal] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "StrictRobots":
        robots = cls(crawler)
        crawler.signals.connect(robots.stop_long, signal=signals.bytes_received)
        return robots

    # Scrapy calls it without the spider
    async def process_request(self, request: Request) -> None:  # type: ignore[override]
        if is_robots_txt(request):
            # The page size limit must not apply to robots.txt, which would then count as unreachable.
            request.meta["download_maxsize"] = 32 * _ROBOTS_BYTES
            request.meta["robots_bytes"] = 0
        await super().process_request(request)

    def stop_long(self, data: bytes, request: Request) -> None:
        """Ends the download of a robots.txt at the size that is read."""
        if "robots_bytes" in request.meta:
            request.meta["robots_bytes"] += len(data)
            if request.meta["robots_bytes"] > _ROBOTS_BYTES:
                raise StopDownload(fail=False)

    async def robot_parser(self, request: Request) -> RobotParser | None:
        # of several requests that wait for robots.txt, Scrapy hands its rules to the first alone
        await super().robot_parser(request)
        netloc = urlparse_cached(request).netloc
        refusal = self._unreachable.get(netloc)
        if refusal is not None:
            raise Refusal(refusal.reason, refusal.detail, refusal.status)
        return cast("RobotParser | None", self._parsers[netloc])

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        rules = response.body
        if len(rules) > _ROBOTS_BYTES:
            rules = rules[:_ROBOTS_BYTES].rpartition(b"\n")[0]  # a truncated line could mean the opposite
        if response.status >= 500 or response.status == 429:
            rules = _DISALLOW_ALL
            detail = f"robots.txt answered {response.status}, so nothing may be fetched (RFC 9309)"
            self._unreachable[netloc] = Refusal("server_error", detail, response.status)
        elif response.status >= 300:
            rules = _ALLOW_ALL
        await super()._parse_robots(response.replace(body=rules), netloc, request)
        self._keep_pace(netloc, urlparse_cached(request).hostname or "")

    def _keep_pace(self, netloc: str, host: str) -> None:
        parser = self._parsers[netloc]
        if isinstance(parser, ProtegoRobotParser):
            delay_s = parser.rp.crawl_delay(self._default_useragent)
            if delay_s:
                throttle_of(self.crawler).slow_down(host, delay_s)

    def _robots_error(self, exc: Exception, netloc: str) -> None:
        # A robots.txt that redirects in a circle or to a refused URL counts as unavailable (RFC 9309, 2.3.1.2).
        if not isinstance(exc, Refusal):
            reason = "timeout" if isinstance(exc, DownloadTimeoutError) else "unreachable"
            self._unreachable[netloc] = Refusal(
                reason, f"robots.txt gave no answer, so nothing may be fetched (RFC 9309): {str(exc)[:200]}"
            )
        super()._robots_error(exc, netloc)


class DeclaredRedirects(RedirectMiddleware):
    """Keeps redirects within the URL policy: each hop must be allowed, not fetched yet, and not part of a circle.

    Cookies that a site sets are not kept without a login. Their names are, since a site that wants one back sends its
    visitors round in a circle until it gets it.
    """

    # Scrapy calls it without the spider
    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        names = [*request.meta.get("cookies_set", []), *map(_cookie_name, response.headers.getlist("Set-Cookie"))]
        request.meta["cookies_set"] = list(dict.fromkeys(filter(None, names)))
        spider: Any = self.crawler.spider
        is_behind_login = spider.source.login is not None and not request.meta.get("login")
        if is_behind_login and sends_to_login(response, spider.policy):
            return response
        return super().process_response(request, response)

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        spider: Any = self.crawler.spider
        redirected = _without_secrets(redirected, spider.source)
        if is_robots_txt(request):  # robots.txt may redirect anywhere
            if request.meta.get("redirect_times", 0) >= _ROBOTS_REDIRECTS:
                raise Refusal("error", f"robots.txt redirects more than {_ROBOTS_REDIRECTS} times", int(reason))
        else:
            self._check(redirected.url, request, int(reason))
        if request.meta.get("redirect_times", 0) >= self.max_redirect_times:
            raise Refusal(
                "error",
                f"more than {self.max_redirect_times} redirects{wanted_cookies(request, spider.source)}",
                int(reason),
            )
        return super()._redirect(redirected, request, reason)

    def _check(self, target: str, request: Request, status: int) -> None:
        spider: Any = self.crawler.spider
        if "login" in request.meta:
            if not may_see_credentials(spider.source, target):
                raise Refusal("off_site", f"redirects to {target.partition('?')[0]}", status)
            return
        way = [*request.meta.get("redirect_urls", []), request.url]
        if target in way:
            raise Refusal(
                "error", f"redirects in a circle, back to {target}{wanted_cookies(request, spider.source)}", status
            )
        hops = request.meta.get("logged_in_for", [])  # of the try before a login
        refusal = spider.refusal_of(target)
        if refusal is not None:
            raise Refusal(refusal, f"redirects to {target}", status)
        if "made_up" not in request.cb_kwargs and not spider.claim(target, [*way, *hops]):
            raise Refusal(None, seen=target)


def wanted_cookies(request: Request, source: SiteSource) -> str:
    """What to say of the cookies that were set on a request's way round, which the site may want back; empty if there
    were none.
    """
    names = request.meta.get("cookies_set", [])
    if not names or source.keeps_cookies:
        return ""
    declared = [name for name in names if name in source.politeness.cookies]
    if declared:
        return (
            f", and sets the cookie {', '.join(declared)} anew: its value in politeness.cookies is not taken any more"
        )
    named = ", ".join(f"{name}: …" for name in names)
    return (
        f", and sets a cookie that it may want back: politeness: {{cookies: {{{named}}}}}, with what a browser "
        "has for it"
    )


def _cookie_name(header: bytes) -> str:
    """The name of a cookie that is set; empty for one that is removed, or whose name no cookie may have."""
    name, _, rest = header.decode("latin-1").partition("=")
    value, name = rest.partition(";")[0].strip(), name.strip()
    return name if value and _COOKIE_NAME.fullmatch(name) else ""


class Credentials:
    """Adds declared headers, cookies and basic authentication to requests for the source's own hosts only.

    They are added when a request leaves, and removed when it goes to another host, as after a redirect. See
    `may_see_credentials`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._headers: dict[str, str] | None = None
        self._browser_cookies: list[Cookie] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Credentials":
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        source: SiteSource = self._crawler.spider.source  # type: ignore[union-attr]  # SiteSpider has it
        if self._headers is None:
            self._headers = declared_headers(source)
            self._browser_cookies = browser_state(source).cookies
        own = may_see_credentials(source, request.url)
        for name, value in self._headers.items():
            if own:
                request.headers[name] = value
            else:
                request.headers.pop(name, None)
        if source.keeps_cookies:  # Scrapy's CookiesMiddleware writes the header
            declared = revealed(source.politeness.cookies) if own else {}
            request.cookies = [{"name": name, "value": value} for name, value in declared.items()]
            for cookie in self._browser_cookies if own else ():
                request.cookies.append(
                    {"name": cookie.name, "value": cookie.value, "domain": cookie.domain, "path": cookie.path}
                )
            request.meta["dont_merge_cookies"] = not own


class SecretsInBodies:
    """Masks the secret parameters that a server repeats in its text, as in the URL of the next page. Stands before all
    that draws, reads or stores a body.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "SecretsInBodies":
        return cls(crawler)

    # Scrapy calls it by name
    def process_response(self, request: Request, response: Response) -> Response:  # noqa: ARG002
        secrets = self._crawler.spider.source.secret_parameters  # type: ignore[union-attr]  # SiteSpider has it
        if not secrets or not isinstance(response, TextResponse):
            return response
        return response.replace(body=secrets.masked_bytes(response.body))


def may_see_credentials(source: SiteSource, url: str) -> bool:
    """Whether a URL's server may receive the source's credentials.

    Its host must be one of the source's domains and its port the scheme's default or one of a declared URL on that
    host. Over http they are sent only if http is declared for that host; for a host without declared URLs, only if all
    declared URLs are http.
    """
    if not is_on_domains(url, source.domains):
        return False
    scheme, host, port = _origin(url)
    login = [source.login.url] if source.login is not None else []
    declared = {_origin(start) for start in [*source.start_urls, *source.sitemaps, *login]}
    same_host = {origin for origin in declared if origin[1] == host}
    schemes = {origin[0] for origin in same_host or declared}
    ports = {_PORTS[scheme], *(origin[2] for origin in same_host)}
    # A domain without declared URLs gets credentials over http only if every declared URL is http.
    may_be_plain = "http" in schemes if same_host else schemes == {"http"}
    return port in ports and (scheme == "https" or may_be_plain)


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]


def sends_to_login(response: Response, policy: UrlPolicy) -> bool:
    """Whether a redirect leads to the page to log in at."""
    location = response.headers.get("Location") if 300 < response.status < 400 else None
    return location is not None and policy.is_login(urljoin(response.url, location.decode("latin-1")))


def is_robots_txt(request: Request) -> bool:
    """Whether the request is one of StrictRobots' own, also after a redirect."""
    first = request.meta.get("redirect_urls", [request.url])[0]
    return bool(request.meta.get("dont_obey_robotstxt")) and urlsplit(first).path == "/robots.txt"


def _without_secrets(request: Request, source: SiteSource) -> Request:
    """The request without user, password and secret parameters in its URL."""
    parts = urlsplit(request.url)
    url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    url = source.secret_parameters.without(url)
    return request if url == request.url else request.replace(url=url)
