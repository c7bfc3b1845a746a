"""Answers requests from the raw store: with pages of interrupted crawls, and with pages that the server reports as
unchanged.

The spider receives ordinary responses. For a body from disk, `meta["stored"]` is its journal entry; `meta["from_disk"]`
is set if no request was sent.
"""

from dataclasses import replace
from typing import Any

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from almanac.core.clock import utc_now
from almanac.spiders.crawling.problems import header, robots_header
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.store.journal import Entry

_VALIDATORS = ("If-None-Match", "If-Modified-Since")


class StoredPages:
    """Downloader middleware: answers from disk with pages of interrupted crawls, and makes requests for other stored
    pages conditional.

    It is the first of all middlewares, so a page from disk needs no robots.txt and no delay. A redirect makes a new
    request, so each hop gets the validators of its own URL only.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "StoredPages":
        return cls(crawler)

    def process_request(self, request: Request) -> Response | None:
        spider: Any = self._crawler.spider
        for name in _VALIDATORS:
            request.headers.pop(name, None)
        for key in ("stored", "known", "from_disk"):
            request.meta.pop(key, None)
        if "waiting" not in request.cb_kwargs:  # robots.txt, or a sitemap
            return None
        url = spider.policy.canonical(request.url)
        if spider.is_forgotten(url):
            raise Refusal("forgotten", "it was taken down")
        if (
            (arrived := spider.previous.arrived(url)) is not None
            and self._may_be_kept(arrived[0])
            and spider.refusal_of(arrived[0].url) is None
        ):
            entry, page = arrived
            if entry.url != url and not spider.claim(entry.url, [url]):
                raise Refusal(None, seen=entry.url)
            request.meta["from_disk"] = True
            return _answer(request, entry, page.body)
        if (
            not request.meta.get("unconditional")
            and (known := spider.previous.known(url)) is not None
            and self._may_be_kept(known)
        ):
            _ask_conditionally(request, known)
        return None

    def _may_be_kept(self, entry: Entry) -> bool:
        """Whether a stored body is within the limit, which may be smaller than it was; a larger one is asked for, and
        refused. Drawn pages have their own.
        """
        return bool(entry.rendered) or entry.size <= self._crawler.settings.getint("DOWNLOAD_MAXSIZE")

    def process_response(self, request: Request, response: Response) -> Response | Request:
        known: Entry | None = request.meta.pop("known", None)
        if response.status != 304 or known is None:
            return response
        body = self._crawler.spider.previous.body(known)  # type: ignore[union-attr]  # SiteSpider has it
        robots = robots_header(response)
        # Without the header, a 304 does not say whether the page still has the one that kept it from being indexed.
        if body is None or (known.noindex and known.robots and not robots):
            return request.replace(meta={**request.meta, "unconditional": True}, dont_filter=True)
        unchanged = replace(
            known,
            requested_url=request.cb_kwargs["waiting"].url,
            redirects=list(request.meta.get("redirect_urls", [])),
            etag=header(response, "ETag") or known.etag,
            last_modified=header(response, "Last-Modified") or known.last_modified,
            robots=robots or known.robots,
            checked_at=utc_now(),
            unchanged=True,
            kept="",
            misses=0,
        )
        return _answer(request, unchanged, body)


def _ask_conditionally(request: Request, known: Entry) -> None:
    for name, value in zip(_VALIDATORS, (known.etag, known.last_modified), strict=True):
        if value:
            request.headers[name] = value.encode("latin-1", "replace")
    request.meta["known"] = known


def _answer(request: Request, entry: Entry, body: bytes) -> Response:
    request.meta["stored"] = entry
    return Response(
        entry.url,
        status=200,
        headers={"Content-Type": entry.content_type.encode("latin-1", "replace")},
        body=body,
        request=request,
    )
