"""Requests as they are sent: secret parameters are added to the URL, and pages of an API that takes POST get their
body. Whatever handles a request before and after knows its URL, which names the page, and nothing else.
"""

import json
import logging
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import StopDownload
from scrapy.http import Request, Response

from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.middlewares import is_robots_txt, may_see_credentials
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.urls import with_parameter

# It warns of bodies that are cut short, and advises to accept them.
logging.getLogger("scrapy.core.downloader.handlers.http11").setLevel(logging.ERROR)


_JSON = "application/json"


class AsSent(HTTP11DownloadHandler):
    """Download handler that asks hosts of the source for URLs with their secret parameters and bodies."""

    async def download_request(self, request: Request) -> Response:
        spider: Any = self.crawler.spider
        source: SiteSource = spider.source
        if is_robots_txt(request) or not may_see_credentials(source, request.url):
            return await super().download_request(request)
        sent = posted(request, spider.policy) if "waiting" in request.cb_kwargs else request
        sent = sent.replace(url=source.secret_parameters.added(sent.url))
        try:
            response = await super().download_request(sent)
        except StopDownload as stopped:
            if stopped.response is not None:
                stopped.response = stopped.response.replace(url=request.url)
            raise
        finally:
            request.meta.update(sent.meta)  # how long the answer took, by which the pace is set
        return response.replace(url=request.url)


def posted(request: Request, policy: UrlPolicy) -> Request:
    """The request by POST, without those parameters in its URL that are values of the body; as it is where the page is
    not asked for so.
    """
    declared = policy.source.request
    if declared is None or not policy.is_posted(request.url):
        return request
    url, pairs = request.url, parse_qsl(urlsplit(request.url).query, keep_blank_values=True)
    values = {name: value for name, value in pairs if declared.has(name)}
    for name in values:
        url = with_parameter(url, name, None)
    headers = request.headers.copy()
    for name in ("If-None-Match", "If-Modified-Since"):
        headers.pop(name, None)
    headers |= {"Content-Type": _JSON, "Accept": _JSON}
    body = json.dumps(declared.body(values), ensure_ascii=False)
    return request.replace(url=url, method="POST", headers=headers, body=body.encode())
