"""Scrapy's downloader, corrected to respect `per_domain` where there is no delay."""

from collections.abc import Coroutine
from typing import Any

from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.core.downloader import Slot
from scrapy.http import Request, Response
from twisted.internet.defer import Deferred


class Downloader(ScrapyDownloader):
    """Counts a request as in transfer as soon as it leaves the queue.

    Scrapy 2.19 counts it when its task starts, which is after the whole queue was released: every request waiting for a
    host would be sent at once.
    """

    def _wait_for_download(
        self, slot: Slot, request: Request, queue_dfd: "Deferred[Response]"
    ) -> Coroutine[Any, Any, None]:
        slot.transferring.add(request)
        return super()._wait_for_download(slot, request, queue_dfd)
