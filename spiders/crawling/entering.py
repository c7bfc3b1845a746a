"""What lets a crawl in before its first page: a form, or a token; the crawl ends where it does not."""

import asyncio
from typing import Any

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from almanac.schemas.errors import CredentialRefused, OperationalError, Unreachable
from almanac.spiders.crawling.problems import problem_of, reason_of
from almanac.spiders.crawling.refusal import Refusal

# It is no crawling: its owner has declared the address, and robots.txt is not asked whether a crawler may find it.
DECLARED = {"login": True, "dont_obey_robotstxt": True}
_TRANSIENT = frozenset({"unreachable", "timeout", "server_error"})


class Entering:
    """Downloader middleware that enters where a request wants it, one at a time."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._one_at_a_time = asyncio.Lock()

    @property
    def _spider(self) -> Any:
        return self._crawler.spider

    @property
    def _where(self) -> str:
        """The declared section, for messages."""
        raise NotImplementedError

    async def _download(self, request: Request) -> Response:
        assert self._crawler.engine is not None
        return await self._crawler.engine.download_async(request)

    async def _ask(self, request: Request, **meta: Any) -> Response:
        """What is answered to a request that is no page of the crawl. Raises Unreachable and CredentialRefused where
        nothing is.
        """
        request = request.replace(meta={"login": False, **request.meta, **meta}, dont_filter=True)
        try:
            response = await self._download(request)
        except Exception as error:
            reason, detail, _ = reason_of(error)
            if reason is None:
                raise
        else:
            reason, detail = problem_of(response) or (None, "")
            if reason not in _TRANSIENT:
                return response
            detail = f"answered {response.status}"
        kind = Unreachable if reason in _TRANSIENT else CredentialRefused
        raise kind(
            f"{request.url}: {reason}, {detail}",
            where=self._where,
            hint=f"is it the right address? curl -I {request.url}",
        )

    def _must_go_on(self) -> None:
        if self._spider.fatal is not None:
            raise Refusal(None, "the crawl ends")

    def _end(self, error: OperationalError) -> None:
        self._spider.end_with(error)
        raise Refusal(None, "the crawl ends") from error
