"""Pages of a site that yield no item whatever the rules find on them: those that ask not to be indexed or send visitors
on, and lists of links.
"""

import re
from datetime import datetime
from typing import Any

import parsel
from lxml import etree

from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.link_lists import kind_of_list
from almanac.spiders.reading.meta_refresh import forwards_to
from almanac.spiders.reading.robots_rules import RobotsRules, robots_rules
from almanac.spiders.selecting.embedded import find, why_no_prefix

WITHHELD = frozenset({"noindex", "forwards", "feed", "sitemap"})
_OF_LISTS = re.compile(
    r"(?<![\w.#-])(?:rss|channel|item|feed|entry|rdf|urlset|url|loc|sitemapindex|sitemap)\b", re.IGNORECASE
)


def withheld(content: Content, source: Source) -> tuple[str, str] | None:
    """(reason, detail) why a page yields no item; None if it may. Files are the user's own, so none of them is
    withheld.
    """
    if not isinstance(source, SiteSource):
        return None
    if source.politeness.noindex and content.page.noindex:
        return "noindex", content.page.noindex
    if (target := forwards_to(content)) is not None:
        return "forwards", f"it sends its visitors on to {target} at once"
    kind = None if content.is_document else kind_of_list(content)
    if kind is None or _reads_list(content, source):
        return None
    missed = why_no_prefix(content, source.each) if source.each is not None else None
    return kind, "a list of links, which are followed" + (f"; each: {missed}" if missed else "")


def gone_by(content: Content, source: SiteSource) -> Selector | None:
    """The declared element by which a page is gone; None if it has none, as documents have."""
    signs = source.gone_elements if content.has_markup and not content.is_document else ()
    return next((sign for sign in signs if find(content, sign)), None)


def leave_out_page(content: Content, reason: str) -> None:
    """Tallies all text of a page that is withheld."""
    content.leave_out(
        reason, " ".join(content.selector.xpath("//text()").getall()) if content.has_markup else content.text, content
    )


def rules_for(content: Content, source: SiteSource, now: datetime | None = None) -> RobotsRules:
    """What the page asks of this source's crawler, whether or not that is obeyed."""
    return robots_rules(content, source.politeness.user_agent, now)


def _reads_list(content: Content, source: SiteSource) -> bool:
    """Whether the declared rules are about lists of links: they find something here, and take an entry or name an
    element that only lists have.
    """
    rules: list[Selector | FieldRule] = (
        [source.each] if source.each is not None else [*source.fields.values()] if source.yields == "records" else []
    )
    for rule in rules:
        if rule.css is None and rule.xpath is None and not rule.reads_body:
            continue
        matches = find(content, rule)
        if matches and (
            rule.json_ is not None or _OF_LISTS.search(rule.css or rule.xpath or "") or any(map(_is_entry, matches))
        ):
            return True
    return False


def _is_entry(match: Any) -> bool:
    element = match.root if isinstance(match, parsel.Selector) else None
    return isinstance(element, etree._Element) and etree.QName(element).localname.lower() in (
        "item",
        "entry",
        "url",
        "sitemap",
    )
