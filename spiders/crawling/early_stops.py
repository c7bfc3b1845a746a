"""Ends downloads that come to nothing: of files that are neither pages nor documents that are fetched."""

from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.http import Request

from almanac.spiders.reading.content import is_text_type
from almanac.spiders.reading.linked_types import SNIFFED, may_be_document, says_nothing, sent_name, type_of_headers

_WORTH_STOPPING = 64 << 10  # bytes; a smaller body arrives before its download can be stopped


class EarlyStops:
    """Scrapy extension: stops the download of a large file once its headers or its beginning tell what it is."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "EarlyStops":
        stops = cls(crawler)
        crawler.signals.connect(stops.stop_unwanted, signal=signals.headers_received)
        crawler.signals.connect(stops.stop_untold, signal=signals.bytes_received)
        return stops

    def stop_unwanted(self, headers: Any, body_length: Any, request: Request) -> None:
        """Ends the download of a large file as soon as its headers have arrived, unless it is a page or a document that
        is fetched.

        `body_length` is Twisted's constant, a text, where the server names none.
        """
        request.meta.pop("beginning", None)  # of an earlier attempt
        kind = (headers.get(b"Content-Type") or b"").decode("latin-1")
        is_page = (
            not kind
            or is_text_type(kind)
            or b"Location" in headers
            or not {"waiting", "made_up"} & request.cb_kwargs.keys()
        )
        if is_page or (isinstance(body_length, int) and 0 < body_length < _WORTH_STOPPING):
            return
        document_type = type_of_headers(kind, sent_name(headers.get(b"Content-Disposition") or b""), request.url)
        if "waiting" in request.cb_kwargs and document_type in self._documents:
            return
        is_untold = "waiting" in request.cb_kwargs and document_type is None and says_nothing(kind)
        is_packed = b"Content-Encoding" in headers  # and its first bytes say nothing, either
        if not is_untold or (is_packed and not self._documents):
            raise StopDownload
        if not is_packed:
            request.meta["beginning"] = b""

    def stop_untold(self, data: bytes, request: Request) -> None:
        """Ends the download of a file of which the headers say nothing, once its beginning shows that it is no document
        that is fetched.
        """
        if "beginning" not in request.meta:
            return
        beginning = request.meta["beginning"] = request.meta["beginning"] + data[:SNIFFED]
        if len(beginning) >= SNIFFED:
            del request.meta["beginning"]
            if not self._documents or not may_be_document(beginning):
                raise StopDownload

    @property
    def _documents(self) -> Any:
        return self._crawler.spider.source.documents  # type: ignore[union-attr]  # SiteSpider has it
