"""Lists of links: feeds (RSS 2.0, RSS 1.0, Atom, JSON Feed) and XML sitemaps. Told by their content, since servers
label them as any XML, HTML or JSON.

Of a broken file, what can be read counts. External entities are never read and declared ones never expanded.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urljoin

from lxml import etree

from almanac.spiders.reading.content import Content
from almanac.spiders.reading.rewriting import local_name

MAX_URLS = 50_000  # of one sitemap; the limit of sitemaps.org

_ENTRIES = frozenset({"url", "sitemap", "item", "entry"})
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "rdf"})
_ENTRY_END = re.compile(rf"</(?:[\w.-]+:)?(?:{'|'.join(sorted(_ENTRIES))})\s*>", re.IGNORECASE)
_END_TAGS = re.compile(r"(?:\s*</[^<>]+>)+\s*")
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});)")
_PROLOG = r"(?:\s|\ufeff|\0|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)*+"
_ROOT = re.compile(rf"{_PROLOG}<(?:[\w.-]+:)?(rss|feed|rdf|urlset|sitemapindex)(?=[\s>])", re.DOTALL | re.IGNORECASE)
_IS_ATOM = re.compile(r"purl\.org/atom|w3\.org/2005/Atom|<(?:[\w.-]+:)?entry[\s>]", re.IGNORECASE)
_IS_RSS_1 = re.compile(r"purl\.org/rss|netscape\.com/rdf", re.IGNORECASE)
_JSON_FEED = "https://jsonfeed.org/version/"
# RFC 4287 and 5005: where else the list is, and where it goes on
_OF_THE_LIST = frozenset({"alternate", "next", "next-archive", "prev-archive"})

Kind = Literal["feed", "sitemap"]


@dataclass(slots=True)
class LinkList:
    """The URLs that a list names: pages and, in an index, further sitemaps; absolute, in order. `left` counts those
    beyond MAX_URLS.

    `further` are the URLs of the list itself: the page that it belongs to, and its next part. `is_cut`: it is cut short
    or damaged, so it may name more; the last page that is left of it is dropped where it may be half a URL.
    """

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)
    further: list[str] = field(default_factory=list)
    left: int = 0
    is_cut: bool = False


def kind_of_list(content: Content) -> Kind | None:
    """Whether a page is a feed or a sitemap; None for any other page."""
    if content.form == "json":
        return "feed" if _json_feed(content) is not None else None
    root_tag = _ROOT.match(content.text) if content.form in ("html", "xml", "plain") else None
    match root_tag[1].lower() if root_tag is not None else "":
        case "urlset" | "sitemapindex":
            return "sitemap"
        case "rss":
            return "feed"
        case "feed":
            return "feed" if _IS_ATOM.search(content.text) else None
        case "rdf":
            return "feed" if _IS_RSS_1.search(content.text) else None
        case _:
            return None


def links_of_list(content: Content) -> list[str]:
    """The absolute URLs that a feed or sitemap names, in order; those of the list itself come last."""
    feed = _json_feed(content) if content.form == "json" else None
    if feed is not None:
        items = feed["items"] if isinstance(feed.get("items"), list) else []
        named = [item.get("url") or item.get("external_url") for item in items if isinstance(item, dict)]
        named += [feed.get("home_page_url"), feed.get("next_url")]
        return [url for address in named if isinstance(address, str) and (url := _resolved(address, "", content.url))]
    try:
        links = read_xml(content.text.lstrip("\ufeff \t\r\n\0"), content.url)
    except ValueError:
        return []
    return [*links.pages, *links.sitemaps, *links.further]


def _json_feed(content: Content) -> dict[str, Any] | None:
    if _JSON_FEED not in content.text and _JSON_FEED.replace("/", "\\/") not in content.text:
        return None
    try:
        feed = content.json
    except ValueError:
        return None
    return feed if isinstance(feed, dict) and str(feed.get("version", "")).startswith(_JSON_FEED) else None


def read_xml(text: str, url: str) -> LinkList:
    """Parses an XML sitemap or feed. Raises ValueError if it is neither."""
    links, root = LinkList(), ""
    for element in _elements(text):
        name = local_name(element)
        names = links.sitemaps if name == "sitemap" else links.pages
        if name in _ENTRIES and (address := _address(element, name, url)):
            if len(names) < MAX_URLS:
                names.append(address)
            else:
                links.left += 1
        if name == "link" and (address := _link_of_list(element, url)):
            links.further.append(address)
        root = name
    if root in _ROOTS and not _has_end(text, root):
        links.is_cut = True
        if not text.rstrip().endswith(">"):
            (links.sitemaps or links.pages)[-1:] = []
    if root not in _ROOTS and not (links.pages or links.sitemaps):
        raise ValueError(f"no sitemap: its first element is <{root[:40]}>" if root else "no sitemap: not XML")
    return links


def _has_end(text: str, root: str) -> bool:
    """Whether a list is whole: its root is closed or, as some are written, an end tag of another name closes what is
    around its last entry.
    """
    if re.search(rf"</(?:[\w.-]+:)?{root}(?=[\s>])[^<>]*>|<(?:[\w.-]+:)?{root}(?=[\s/])[^<>]*/>", text, re.IGNORECASE):
        return True
    closed = 0
    for entry in _ENTRY_END.finditer(text):
        closed = entry.end()
    return closed > 0 and _END_TAGS.fullmatch(text, closed) is not None


def _elements(text: str) -> Iterator[Any]:
    """Yields every element at its end, so the root comes last. Entries are freed once they are read."""
    markup = io.BytesIO(_BARE_AMPERSAND.sub("&amp;", text).encode("utf-8", "replace"))
    events = etree.iterparse(
        markup, recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, encoding="utf-8"
    )
    try:
        for _, element in events:
            yield element
            if local_name(element) in _ENTRIES:
                _let_go(element)
    except etree.XMLSyntaxError:  # unrecoverable: the elements before it count
        return


def _let_go(entry: Any) -> None:
    entry.clear()
    parent = entry.getparent()
    while parent is not None and local_name(parent) not in _ENTRIES and entry.getprevious() is not None:
        del parent[0]


def _address(entry: Any, name: str, url: str) -> str | None:
    """The absolute URL of an entry in any namespace; None if it has none."""
    if name in ("entry", "item"):
        return _feed_address(entry, url)
    named = next((child.text for child in entry if local_name(child) == "loc" and child.text), None)
    return _absolute(named or entry.text or "", url)  # some sites omit <loc>


def _feed_address(entry: Any, url: str) -> str | None:
    for child in entry:
        reference = (
            (child.get("href") or child.text or "").strip()
            if local_name(child) == "link" and child.get("rel", "alternate") == "alternate"
            else ""
        )
        if reference and (address := _resolved(reference, child.base or "", url)):
            return address
    permanent = (
        child.text for child in entry if local_name(child) == "guid" and child.get("isPermaLink", "true") == "true"
    )
    return _absolute(next(filter(None, permanent), ""), url)


def _link_of_list(link: Any, url: str) -> str | None:
    """The URL of a link that belongs to a feed itself, not to an entry of it; None for others."""
    if local_name(link.getparent()) not in ("channel", "feed") or link.get("rel", "alternate") not in _OF_THE_LIST:
        return None
    return _resolved((link.get("href") or link.text or "").strip() or url, link.base or "", url)


def _resolved(reference: str, base: str, url: str) -> str | None:
    """The absolute http(s) URL of a feed's link, which may be relative, also to xml:base (RFC 4287, 2); None if it has
    none.
    """
    try:
        address = urljoin(urljoin(url, base), _as_meant(reference))
    except ValueError:
        return None
    return address if address.lower().startswith(("http://", "https://")) else None


def _as_meant(address: str) -> str:
    """A URL without what indents and wraps it, with the spaces of its own, which are escaped as it is sent."""
    on_one_line = "".join(line.strip() for line in address.replace("\t", "").splitlines())
    return on_one_line.replace("&amp;", "&")  # escaped twice, or within CDATA


def _absolute(address: str, url: str) -> str | None:
    """An absolute URL as sitemaps require it, or one from an absolute path; None for anything else."""
    address = _as_meant(address)
    if address.lower().startswith(("http://", "https://")):
        return address
    try:
        return urljoin(url, address) if address.startswith("/") else None
    except ValueError:
        return None
