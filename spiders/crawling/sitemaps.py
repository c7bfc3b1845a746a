"""Parses sitemaps, sitemap indexes and feeds: bytes in, URLs out. From a broken file, it reads what it can.

Supported are sitemaps.org (XML, text, gzip), RSS 2.0, RSS 1.0, Atom and JSON Feed; `link_lists` reads what is not plain
text.
"""

import zlib

from almanac.schemas.items import Page
from almanac.spiders.crawling.whole_bodies import decoded
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.decode import decode_markup
from almanac.spiders.reading.link_lists import MAX_URLS, LinkList, kind_of_list, links_of_list, read_xml

MAX_BYTES = 50 << 20  # unzipped; the limit of sitemaps.org
MAX_NESTING = 3  # indexes of indexes
MAX_SITEMAPS = 1_000  # of one source

_GZIP = b"\x1f\x8b"
_TOO_LARGE = "larger than {} MiB"


def read_sitemap(body: bytes, url: str, content_type: str = "") -> LinkList:
    """Parses a sitemap. Raises ValueError if the body is no sitemap, or larger than MAX_BYTES unzipped."""
    unzipped, is_whole = _unzipped(body)
    _, text = decode_markup(unzipped, content_type)
    text = text.lstrip("\ufeff \t\r\n\0")
    links = (
        read_xml(text, url)
        if text.startswith("<")
        else _read_json(unzipped, url)
        if text.startswith("{")
        else _read_lines(text)
    )
    if not is_whole and not links.is_cut:
        links.is_cut = True
        (links.sitemaps or links.pages)[-1:] = []
    return links


def _unzipped(body: bytes) -> tuple[bytes, bool]:
    """The body without gzip compression, also if compressed twice, and whether it is whole; of a truncated file, as
    much as there is.
    """
    is_whole = True
    try:
        for _ in range(2):
            if body.startswith(_GZIP):
                body, is_end = decoded(body, b"gzip", MAX_BYTES)
                is_whole &= is_end
    except zlib.error as error:
        raise ValueError(f"damaged gzip: {error}") from error
    except ValueError as error:
        raise ValueError(_TOO_LARGE.format(MAX_BYTES >> 20)) from error
    if len(body) > MAX_BYTES:
        raise ValueError(_TOO_LARGE.format(MAX_BYTES >> 20))
    return body, is_whole


def _read_json(body: bytes, url: str) -> LinkList:
    content = Content(Page(url, body, content_type="application/json"))
    if kind_of_list(content) is None:
        raise ValueError("no sitemap: JSON, and no JSON Feed")
    return LinkList(pages=links_of_list(content)[:MAX_URLS])


def _read_lines(text: str) -> LinkList:
    urls = [line.strip() for line in text.splitlines() if line.strip().lower().startswith(("http://", "https://"))]
    if not urls:
        raise ValueError("no sitemap: neither XML nor a list of URLs")
    return LinkList(pages=urls[:MAX_URLS], left=max(0, len(urls) - MAX_URLS))
