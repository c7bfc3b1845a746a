"""Proposes a site's source from one of its pages, and from what the site says in robots.txt and its sitemap."""

import tempfile
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from almanac.schemas.declaration.private_hosts import private_host
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import AlmanacError, UsageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.crawl import fetch_site
from almanac.spiders.crawling.sitemaps import read_sitemap
from almanac.spiders.mapping.inspect_url import fetch_page
from almanac.spiders.proposing.proposal import ProposedSource, counted
from almanac.spiders.proposing.propose_page import PageLook
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.decode import is_labelled
from almanac.spiders.reading.language import UNDETERMINED
from almanac.spiders.reading.link_lists import kind_of_list
from almanac.spiders.selecting.linked_documents import READABLE
from almanac.spiders.selecting.withheld import withheld
from almanac.spiders.store.raw import RawStore

_PAGES = 50  # of a first run


def propose_site(url: str, language: str | None = None, *, allow_private: bool = False) -> ProposedSource:
    """The source that a page speaks for; it and at most three others are fetched, as a crawl would fetch them.

    Raises UsageError for a private address that is not allowed, NoRecords for a page that has nothing to declare, and
    the errors of `inspect_url`.
    """
    if not allow_private and (finding := private_host(urlsplit(url).hostname or "")):
        raise UsageError(finding, where=url, hint="--allow-private, if you may fetch from it: it is declared then")
    declared = {"name": "pages", "kind": "site", "start_urls": [url], "politeness": {"allow_private": allow_private}}
    source = SiteSource.model_validate({**declared, "fetch": ["html", *sorted(READABLE)], "limits": {"depth": 0}})
    source.ask_in(language or "auto")
    try:
        page = fetch_page(source, url)
    except AlmanacError as error:
        error.where = url
        raise
    look = PageLook(page, source, language, lambda urls: _fetch(urls, source))
    look.propose()
    proposed = look.proposed
    proposed.language = None if look.language == UNDETERMINED else look.language
    proposed.declare("limits", {"pages": _PAGES}, "a small first run; raise it once its items are right")
    if allow_private:
        proposed.declare("politeness", {"allow_private": True})
    if look.content.form == "html" and not {"listing", "each", "sitemaps"} & proposed.keys.keys():
        _declare_sitemap(look, source)
    _remark(look, source)
    return proposed


def _remark(look: PageLook, source: SiteSource) -> None:
    """Adds what the page says of itself, and no key is declared for."""
    content, remarks = look.content, look.proposed.remarks
    if content.form == "html":
        look.proposed.title = " ".join((content.selector.css("title::text").get() or "").split())[:200]
        others = list(dict.fromkeys(content.selector.css("link[hreflang]::attr(hreflang)").getall()))
        if len(others) > 1:
            remarks.append(f"language: auto, if all of these are crawled: {', '.join(others)} (hreflang)")
    is_told = content.is_document or is_labelled(content.page.body, content.page.content_type)
    if not is_told and content.encoding != "utf-8":
        remarks.append(f"encoding: {content.encoding}, which was detected: neither page nor server says it")
    if kind_of_list(content) is None and (why := withheld(content, source)) is not None:
        remarks.append(f"a run takes no item from this page: {': '.join(why)}")


def _declare_sitemap(look: PageLook, source: SiteSource) -> None:
    """Declares the sitemaps that robots.txt names, else the one at the usual place, where it names own pages."""
    robots, usual = (urljoin(look.content.url, path) for path in ("/robots.txt", "/sitemap.xml"))
    pages = {page.requested_url: page for page in _fetch([robots, usual], source)}
    lines = pages[robots].body.decode("utf-8", "replace").splitlines() if robots in pages else []
    named = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("sitemap:")]
    if own := list(filter(look.policy.is_on_site, named)):
        look.proposed.declare("sitemaps", own, "robots.txt names it")
    elif usual in pages and kind_of_list(Content(pages[usual])) == "sitemap":
        listed = read_sitemap(pages[usual].body, usual)
        if urls := sum(map(look.policy.is_on_site, [*listed.pages, *listed.sitemaps])):
            look.proposed.declare("sitemaps", [usual], f"it names {counted(urls, 'URL')} of this site")


def _fetch(urls: list[str], source: SiteSource) -> list[Page]:
    with tempfile.TemporaryDirectory(prefix="almanac-") as folder:
        raw = RawStore(Path(folder))
        try:
            fetch_site(source.model_copy(update={"start_urls": urls}), raw, "look")
        except AlmanacError:
            return []
        return list(raw.pages("look"))
