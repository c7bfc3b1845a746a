"""Adds secret parameters to URLs as they are sent, so that whatever handles a request before and after knows its URL
without them.
"""

import logging
from typing import Any

from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import StopDownload
from scrapy.http import Request, Response

from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.middlewares import is_robots_txt, may_see_credentials

# It warns of bodies that are cut short, and advises to accept them.
logging.getLogger("scrapy.core.downloader.handlers.http11").setLevel(logging.ERROR)


class SecretUrls(HTTP11DownloadHandler):
    """Download handler that asks hosts of the source for URLs with their secret parameters."""

    async def download_request(self, request: Request) -> Response:
        spider: Any = self.crawler.spider
        source: SiteSource = spider.source
        url = source.secret_parameters.added(request.url)
        if url == request.url or is_robots_txt(request) or not may_see_credentials(source, request.url):
            return await super().download_request(request)
        sent = request.replace(url=url)
        try:
            response = await super().download_request(sent)
        except StopDownload as stopped:
            if stopped.response is not None:
                stopped.response = stopped.response.replace(url=request.url)
            raise
        finally:
            request.meta.update(sent.meta)  # how long the answer took, by which the pace is set
        return response.replace(url=request.url)
