"""Parses sitemaps, sitemap indexes and feeds: bytes in, URLs out. From a broken file, it reads what it can.

Supported are sitemaps.org (XML, text, gzip), RSS 2.0, RSS 1.0 and Atom. External entities are never read and declared ones never expanded.
"""

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from lxml import etree

from almanac.spiders.crawling.whole_bodies import decoded
from almanac.spiders.reading.decode import decode_markup

MAX_BYTES = 50 << 20  # unzipped; the limit of sitemaps.org
MAX_URLS = 50_000  # of one sitemap; the limit of sitemaps.org
MAX_NESTING = 3  # indexes of indexes
MAX_SITEMAPS = 1_000  # of one source

_GZIP = b"\x1f\x8b"
_TOO_LARGE = "larger than {} MiB"
_ENTRIES = frozenset({"url", "sitemap", "item", "entry"})
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "rdf"})
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});)")


@dataclass(slots=True)
class Sitemap:
    """The URLs that a sitemap lists: pages and, in an index, further sitemaps; absolute, in order. `left` counts those beyond MAX_URLS.

    `is_cut`: its compressed data is cut short or damaged, so it may name more; the last page that is left of it, which may be half a URL, is dropped.
    """

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)
    left: int = 0
    is_cut: bool = False


def read_sitemap(body: bytes, url: str, content_type: str = "") -> Sitemap:
    """Parses a sitemap. Raises ValueError if the body is no sitemap, or larger than MAX_BYTES unzipped."""
    unzipped, is_whole = _unzipped(body)
    _, text = decode_markup(unzipped, content_type)
    text = text.lstrip("\ufeff \t\r\n\0")
    found = _read_xml(text, url) if text.startswith("<") else _read_lines(text)
    if not is_whole:
        found.is_cut = True
        (found.sitemaps or found.pages)[-1:] = []
    return found


def _unzipped(body: bytes) -> tuple[bytes, bool]:
    """The body without gzip compression, also if compressed twice, and whether it is whole; of a truncated file, as much as there is."""
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


def _read_lines(text: str) -> Sitemap:
    urls = [line.strip() for line in text.splitlines() if line.strip().lower().startswith(("http://", "https://"))]
    if not urls:
        raise ValueError("no sitemap: neither XML nor a list of URLs")
    return Sitemap(pages=urls[:MAX_URLS], left=max(0, len(urls) - MAX_URLS))


def _read_xml(text: str, url: str) -> Sitemap:
    found, root = Sitemap(), ""
    for element in _elements(text):
        name = _name(element)
        names = found.sitemaps if name == "sitemap" else found.pages
        if name in _ENTRIES and (address := _address(element, name, url)):
            if len(names) < MAX_URLS:
                names.append(address)
            else:
                found.left += 1
        root = name
    if root not in _ROOTS and not (found.pages or found.sitemaps):
        raise ValueError(f"no sitemap: its first element is <{root[:40]}>" if root else "no sitemap: not XML")
    return found


def _elements(text: str) -> Iterator[Any]:
    """Yields every element at its end, so the root comes last. Entries are freed once they are read."""
    markup = io.BytesIO(_BARE_AMPERSAND.sub("&amp;", text).encode("utf-8", "replace"))
    events = etree.iterparse(markup, recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, encoding="utf-8")
    try:
        for _, element in events:
            yield element
            if _name(element) in _ENTRIES:
                _let_go(element)
    except etree.XMLSyntaxError:  # unrecoverable: the elements before it count
        return


def _let_go(entry: Any) -> None:
    entry.clear()
    parent = entry.getparent()
    while parent is not None and _name(parent) not in _ENTRIES and entry.getprevious() is not None:
        del parent[0]


def _address(entry: Any, name: str, url: str) -> str | None:
    """The absolute URL of an entry in any namespace; None if it has none."""
    if name in ("entry", "item"):
        return _feed_address(entry, url)
    named = next((child.text for child in entry if _name(child) == "loc" and child.text), None)
    return _absolute(named or entry.text or "", url)  # some sites omit <loc>


def _feed_address(entry: Any, url: str) -> str | None:
    for child in entry:
        reference = (child.get("href") or child.text or "").strip() if _name(child) == "link" and child.get("rel", "alternate") == "alternate" else ""
        if reference and (address := _resolved(reference, child.base or "", url)):
            return address
    permanent = (child.text for child in entry if _name(child) == "guid" and child.get("isPermaLink", "true") == "true")
    return _absolute(next(filter(None, permanent), ""), url)


def _name(element: Any) -> str:
    """The local name in lower case; empty for a comment. An undeclared prefix is dropped."""
    return element.tag.rpartition("}")[2].rpartition(":")[2].lower() if isinstance(element.tag, str) else ""


def _resolved(reference: str, base: str, url: str) -> str | None:
    """The absolute http(s) URL of a feed's link, which may be relative, also to xml:base (RFC 4287, 2); None if it has none."""
    try:
        address = urljoin(urljoin(url, base), "".join(reference.split()))
    except ValueError:
        return None
    return address if address.lower().startswith(("http://", "https://")) else None


def _absolute(address: str, url: str) -> str | None:
    """An absolute URL as sitemaps require it, or one from an absolute path; None for anything else."""
    address = "".join(address.split()).replace("&amp;", "&")  # escaped twice, or within CDATA
    if address.lower().startswith(("http://", "https://")):
        return address
    try:
        return urljoin(url, address) if address.startswith("/") else None
    except ValueError:
        return None
