"""Proposes a site's source from what one of its pages is: a list of links, values, a document, a page about things or
with cards, one that scripts draw, or a text.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from almanac.schemas.declaration.field_rules import Selector
from almanac.schemas.declaration.knowledge_base import LANGUAGE_PATTERN
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Page
from almanac.spiders.mapping.diagnose import LITTLE_TEXT, explain_empty, identifier, lists_in_scripts, lists_of_objects
from almanac.spiders.proposing.proposal import ProposedSource, counted, escaped, field_name, pattern_of
from almanac.spiders.proposing.repeated_cards import FEWEST, Cards, css_of, find_cards, price_in
from almanac.spiders.proposing.rows_to_fields import TITLES, fields_of, id_of, type_of
from almanac.spiders.reading.content import Content, parse_json
from almanac.spiders.reading.language import language_of
from almanac.spiders.reading.link_lists import kind_of_list, links_of_list
from almanac.spiders.reading.linked_types import type_of_name
from almanac.spiders.selecting.embedded import find, things_on
from almanac.spiders.selecting.linked_documents import READABLE
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.pagination import NUMBERING
from almanac.spiders.selecting.selectors import element_text
from almanac.spiders.selecting.things import is_of_the_site, types_of
from almanac.spiders.selecting.urls import joined

_MOST_FIELDS = 12
_OG_PRICE = ("product:price:amount", "product:price:currency")
_NEXT = ("a[rel~=next]", "link[rel~=next]", ".next a", "a.next")
_MAIN = ("main", "article", "[role=main]", "#main", "#content", "body")
# What a document has as its own title, text and address.
_OF_A_DOCUMENT = frozenset({"name", "headline", "article_body", "text", "url", "main_entity_of_page"})


def _may_be_item(thing: Any) -> bool:
    """Whether a thing of a known kind is about more than the site, and no list of others."""
    is_known = re.fullmatch(r"[\w:./-]+", next(iter(types_of(thing)), "")) and types_of(thing)[0] != "ItemList"
    return bool(is_known) and not is_of_the_site(thing) and any(not key.startswith("@") for key in thing)


class PageLook:
    """A look at one page: `propose` fills `proposed` by what it is. `fetch` gives those of a few URLs that arrive."""

    def __init__(
        self, page: Page, source: SiteSource, language: str | None, fetch: Callable[[list[str]], list[Page]]
    ) -> None:
        self.source, self.content, self._fetch = source, Content.from_page(page, source, language or ""), fetch
        self.policy = UrlPolicy(source)
        self.proposed = ProposedSource({"name": "pages", "kind": "site", "start_urls": [page.url]})
        self.language = language or language_of(self.content, "auto")
        stated = (self.content.selector.xpath("/html/@lang").get("") if self.content.form == "html" else "").strip()
        if re.fullmatch(LANGUAGE_PATTERN, stated) and stated.partition("-")[0].lower() == self.language:
            self.language = stated  # with its region, by which dates are read
        elif stated and language is None:
            self.proposed.remarks.append(f"language: its html says {stated}, and its text is read as {self.language}")

    def propose(self) -> None:
        """Raises NoRecords where the page is JSON, and has nothing to declare."""
        content = self.content
        if (kind := kind_of_list(content)) is not None:
            self._list(kind)
        elif content.form in ("json", "jsonl"):
            self._values()
        elif content.is_document:
            self.proposed.declare("fetch", ["html", content.form], f"it is a {content.form.upper()} document")
            self.proposed.declare_documents()
        elif content.form != "html" or not (
            self._is_about_things() or self._cards() or self._product() or self._data()
        ):
            self._text()

    def _is_about_things(self) -> bool:
        return self._things() or self._opengraph()

    def _list(self, kind: str) -> None:
        links = links_of_list(self.content)
        hosts = list(dict.fromkeys(urlsplit(url).hostname or "" for url in [self.content.url, *links]))
        self.proposed.keys.pop("start_urls")
        self.proposed.declare("sitemaps", [self.content.url], f"a {kind} of {counted(len(links), 'link')}")
        if not any(map(self.policy.is_on_site, links)):
            self.proposed.declare("allowed_domains", hosts, "its links lead to other hosts")
        self.proposed.declare_documents()

    def _values(self) -> None:
        content = self.content
        try:
            is_one = content.form == "json"
            value = content.json if is_one else [parse_json(line) for line in content.lines if line.strip()]
        except ValueError as error:
            hint = f"look at what comes: curl {content.url}"
            raise NoRecords(f"not JSON: {error}", where=content.url, hint=hint) from error
        path, rows = max(lists_of_objects(value), key=lambda json_list: len(json_list[1]), default=("", []))
        if rows and is_one:
            self.proposed.declare("each", {"json": path}, f"JSON with a list of {counted(len(rows), 'object')}")
            self._next_value(value, path)
        self._records(rows or ([value] if isinstance(value, dict) else []), "keys of its objects")

    def _next_value(self, value: Any, items: str) -> None:
        """Declares the first key beside the items that is called next: the next answer, or whether there is one."""
        waiting = [("", value)]
        for path, inner in waiting:
            if isinstance(inner, dict) and path.count(".") < 2 and not (path and items.startswith(path)):
                waiting += [(f"{path}.{identifier(key)}".lstrip("."), part) for key, part in inner.items()]
            elif "next" in path.lower() and not isinstance(inner, dict | list):
                self.proposed.declare("pagination", {"json": path}, f"{path}: {json.dumps(inner, ensure_ascii=False)}")
                return

    def _records(self, rows: list[dict[str, Any]], seen: str, origin: Any = None) -> bool:
        """Declares records of what objects say. In an item that `each` finds as JSON, rules need no `from`."""
        fields, left = fields_of(rows, self.language)
        if not fields:
            hint = "almanac init NAME, without --from, writes a declaration to fill in"
            raise NoRecords("no object with values is in it", where=self.content.url, hint=hint)
        self.proposed.declare_records(fields, TITLES, seen + left, id_of(fields, rows), origin)
        return True

    def _things(self) -> bool:
        """Declares what the page describes in JSON-LD or microdata: each of several, or the one that it is about."""
        headings = {element_text(heading.root).casefold() for heading in self.content.selector.css("h1")}
        for origin in ("json-ld", "microdata"):
            things = [thing for thing in things_on(self.content, origin).every if _may_be_item(thing)]
            named = [thing for thing in things if any(str(thing.get(key)).casefold() in headings for key in TITLES)]
            numbers = Counter(types_of(thing)[0] for thing in named or things)
            kind, number = numbers.most_common(1)[0] if numbers else ("", 0)
            seen = f"{origin} with {counted(number, kind)}"
            alike = [thing for thing in things if kind in types_of(thing)[:1]]
            if not named and number >= (1 if kind == "Question" else 2):
                if (cards := find_cards(self.content, self.language)) is not None and cards.link is not None:
                    return False  # each has a page of its own, which says more of it
                is_of_kind = f"\"@type\"=='{kind}'" if alike[0]["@type"] == kind else f"contains(\"@type\", '{kind}')"
                self.proposed.declare("each", {"json": f"[?{is_of_kind}]", "from": origin}, seen)
                self._next_page()
                return self._records(alike, "what it says of them")
            if not kind or urlsplit(self.content.url).path in ("", "/"):  # what a start page has is about the site
                continue
            thing = max(named or alike, key=len)
            if not thing.keys() & {"headline", "articleBody"}:
                self._match([self.content.url], seen)
                self._records([thing], f"what its {kind} says", origin)
                if "description" not in thing and (around := self._around()) is not None:
                    self.proposed.keys["fields"]["description"] = {"css": around, "type": "html"}
                return True
            fields = fields_of([thing], self.language)[0]
            other_fields = {
                name: {**rule, "from": origin} for name, rule in fields.items() if name not in _OF_A_DOCUMENT
            }
            self._text()
            self.proposed.keys |= {"fields": other_fields} if other_fields else {}
            self.proposed.seen["fields"] = seen
            return True
        return False

    def _opengraph(self) -> bool:
        """Declares what the page says in OpenGraph, where that is about a thing with a name, and no site or article."""
        matches = find(self.content, Selector.model_validate({"json": "@", "from": "opengraph"}))
        says = matches[0] if matches else {}
        kind = says.get("type") or ("product" if _OG_PRICE[0] in says else "website")
        if kind in ("website", "article", "profile") or "title" not in says:
            return False
        properties = {key: says[key] for key in ("title", "description", "image") if key in says}
        fields = fields_of([properties], self.language)[0]
        if says.keys() >= set(_OG_PRICE):
            fields["price"] = {"json": "join(' ', [{}, {}])".format(*map(identifier, _OG_PRICE)), "type": "price"}
        self._match([self.content.url], f"OpenGraph of a {kind}")
        self.proposed.declare_records(fields, TITLES, "what OpenGraph says", origin="opengraph")
        return True

    def _match(self, urls: list[str], seen: str) -> None:
        if (pattern := pattern_of(urls)) is not None:
            self.proposed.declare("match", pattern, seen)
        else:
            self.proposed.remarks.append(f"match: a pattern of the URLs that have such items ({seen})")

    def _cards(self) -> bool:
        cards = find_cards(self.content, self.language)
        if cards is None:
            return False
        self._next_page()
        seen = counted(cards.number, "card")
        if cards.link is None:
            self.proposed.declare("each", {"css": cards.each}, seen)
            fields = cards.fields or {"text": {"xpath": "."}}
            self.proposed.declare_records(fields, TITLES, "what most of them have", cards.key)
            return True
        path = urlsplit(self.content.url).path
        on_card = {name: rule for name, rule in cards.fields.items() if name != "title"}
        match = rf"{'://[^/]+' * (path == '/')}{escaped(path)}(\?|$)"
        listing = {"match": match, "each": {"css": cards.each}, "link": cards.link, "fields": on_card}
        self.proposed.declare("listing", listing, f"{seen} with links")
        self._match(cards.urls, f"{counted(len(cards.urls), 'page')} that cards lead to")
        self._behind(cards)
        return True

    def _behind(self, cards: Cards) -> None:
        """Declares what the page behind the first card shows: records, or else documents."""
        pages = self._fetch(cards.urls[:1])
        behind = PageLook(pages[0], self.source, self.language, self._fetch) if pages else None
        is_priced = "price" in cards.fields
        if behind is None or not (behind._is_about_things() or behind._product(is_priced=is_priced)):
            self.proposed.declare_documents()
            return
        for key in ("each", "yields", "id", "title", "fields"):
            if key in behind.proposed.keys:
                self.proposed.declare(key, behind.proposed.keys[key], behind.proposed.seen.get(key, ""))

    def _product(self, *, is_priced: bool = False) -> bool:
        """Declares a page of one heading and a price: both, the facts beside their names, and the text around them. It
        may lack the price where its card `is_priced`.
        """
        page, around = self.content.selector, self._around()
        price = None if around is None else css_of([price_in(page.css(around)[0].root, self.language)], [page])
        has_price = price is not None and "." in price
        if around is None or not (has_price or is_priced):
            return False
        fields: dict[str, Any] = {
            "name": {"css": f"{around} h1"},
            **({"price": {"css": price, "type": "price"}} if has_price else {}),
        }
        for fact in page.css(around).xpath(".//tr[count(*) = 2][td]/th | .//dl/dt"):
            called, value = fact.xpath("normalize-space(.)").get(""), fact.xpath("following-sibling::*[1]")
            if (name := field_name(called)) not in ("", *fields) and '"' not in called and len(fields) < _MOST_FIELDS:
                fields[name] = {"xpath": f'//{fact.root.tag}[normalize-space() = "{called}"]/following-sibling::*[1]'}
                fields[name] |= type_of(value.xpath("normalize-space(.)").getall(), self.language)
        fields["description"] = {"css": around, "type": "html"}
        self._match([self.content.url], "a page with one heading and a price")
        self.proposed.declare_records(fields, TITLES, "what it shows")
        return True

    def _around(self) -> str | None:
        """The selector of the main part of a page with one heading; None where there are several, or none."""
        return next((css for css in _MAIN if len(self.content.selector.css(f"{css} h1")) == 1), None)

    def _next_page(self) -> None:
        page = self.content.selector
        if css := next((css for css in _NEXT if page.css(css)), None):
            self.proposed.declare("pagination", {"next": {"css": css, "attr": "href"}}, "a link to the next page")
            return
        for href in page.css("a::attr(href)").getall():
            for name, value in parse_qsl(urlsplit(joined(self.content.url, href) or "").query):
                if name.lower() in NUMBERING and value == "2":
                    self.proposed.declare("pagination", {"parameter": name}, f"a link to {href}")
                    return

    def _data(self) -> bool:
        """Declares the data that a page without text holds in its scripts; else a remark says what would draw it."""
        reason = explain_empty(self.content, self.source.model_copy(update={"yields": "records"}))
        if reason is None or len(element_text(self.content.selector.root)) >= LITTLE_TEXT:
            return False
        name, path, rows = max(
            lists_in_scripts(self.content), key=lambda json_list: len(json_list[2]), default=("", "", [])
        )
        if len(rows) < FEWEST:
            self.proposed.remarks.append(reason)
            return False
        seen = f"{counted(len(rows), 'object')} in the script data {name}; without it, render: true draws pages"
        self.proposed.declare("each", {"json": path, "from": {"script": name}}, seen)
        self._next_page()
        return self._records(rows, "keys of its objects")

    def _text(self) -> None:
        """Declares documents: the page and those that it leads to, below its folder."""
        content, proposed = self.content, self.proposed
        proposed.declare_documents()
        if content.form != "html":
            return
        links = [link.url for link in self.policy.links(content)]
        if kinds := sorted({kind for url in links if (kind := type_of_name(url) or "") in READABLE}):
            proposed.declare("fetch", ["html", *kinds], "it links to such documents")
        folder = urlsplit(content.url).path.rpartition("/")[0] + "/"
        below = sum(urlsplit(url).path.startswith(folder) for url in links)
        if folder != "/" and below * 2 > len(links):
            seen = f"{below:,} of its {counted(len(links), 'link')} on this site lead below it"
            proposed.declare("follow", {"allow": [escaped(folder)]}, seen)
