"""Cards: elements of one tag and class that a page repeats, with links or prices, and what each of them holds."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import parsel

from almanac.spiders.proposing.proposal import field_name
from almanac.spiders.proposing.rows_to_fields import is_price, type_of
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.selectors import element_text
from almanac.spiders.selecting.urls import joined

FEWEST = 3
_MOST_FIELDS = 8
_LONGEST = 1500  # characters of most cards
_AROUND = "[{}]".format(
    " or ".join(f"self::{tag}" for tag in ("nav", "header", "footer", "aside", "form", "style", "script"))
)
_NO_CARDS = re.compile(
    r"html|body|h[1-6]|p|br|hr|img|picture|source|span|tr|t[dh]|t(?:body|head)|main|d[td]|option|svg|path"
)
_HEADING = "*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]"
_PLAIN = re.compile(r"[a-z][a-z0-9]*(?:[.#][A-Za-z_][\w-]*)?")  # a tag, and a class or id without what CSS escapes
_WORDS = re.compile(r"[A-Za-z][a-z]+(?:[_-][a-z]+)*")


@dataclass(slots=True)
class Cards:
    """The cards of a page: what CSS selector finds them and nothing else, how many there are, rules of their fields,
    the rule of the link to the page about each and where these lead; without such a link, None and nothing. `key` is
    the field that differs in all of them; None where there is none. `is_covered`: the fields have nearly all that they
    say, which sections of a text do not.
    """

    each: str
    number: int
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    link: dict[str, Any] | None = None
    urls: list[str] = field(default_factory=list)
    key: str | None = None
    is_covered: bool = False


def find_cards(content: Content, language: str) -> Cards | None:
    """The cards that hold most of a page's text; None where none hold a third of it."""
    page, groups = content.selector, dict[tuple[str, str], list[Any]]()
    for element in page.root.xpath(f"//*[not(ancestor-or-self::*{_AROUND})]"):
        if not _NO_CARDS.fullmatch(element.tag):
            groups.setdefault((element.tag, element.get("class", "")), []).append(element)
    texts = page.root.xpath(f"//text()[not(ancestor::*{_AROUND})]")
    best, most = None, sum(len(text.strip()) for text in texts) / FEWEST
    for (tag, classes), alike in groups.items():
        around = {outer for element in alike for outer in element.iterancestors()}
        elements = [element for element in alike if element not in around]
        size = sum(map(_length, elements))
        # of a card and what wraps it, the inner one, which comes later
        if len(elements) < FEWEST or size < most * 0.9 or not _are_cards(elements, content, language):
            continue
        if (css := _selector_of(tag, classes, elements, page)) is not None:
            best, most = (css, elements), max(most, size)
    cards = None if best is None else _described(*best, content, language)
    if cards is None or cards.link or cards.is_covered:
        return cards
    cards.fields["text"] = {"xpath": "."}  # so that nothing they say is lost
    return cards if "price" in cards.fields else None


def _length(element: Any) -> int:
    return sum(len(text.strip()) for text in element.itertext())


def _are_cards(elements: list[Any], content: Content, language: str) -> bool:
    """Whether elements stand beside each other, and tell different things by more than a link or a paragraph."""
    if Counter(element.getparent() for element in elements).most_common(1)[0][1] < min(FEWEST, len(elements) // 2 + 1):
        return False
    if sorted(map(_length, elements))[len(elements) // 2] > _LONGEST:
        return False
    texts = [element_text(element) for element in elements]
    if len(set(texts)) * 5 < len(texts) * 4:
        return False
    return (
        sum(_is_card(*card, content, language) for card in zip(elements, texts, strict=True)) * 5 >= len(elements) * 4
    )


def _is_card(element: Any, text: str, content: Content, language: str) -> bool:
    links = element.xpath("descendant-or-self::a[@href]")
    classes = {descendant.get("class") for descendant in element.xpath(".//*[@class]")}
    has_more = element.xpath(f".//img | .//time | .//{_HEADING}") or (
        len(classes) > 1 and sum(map(_length, links)) * 5 < len(text) * 4
    )
    has_link = has_more and any(_address(link, content) for link in links)
    return bool(text) and (has_link or price_in(element, language) is not None)


def _address(link: Any, content: Content) -> str | None:
    """Where a link leads, if that is another page of the site."""
    url = (joined(content.base_url, (link.get("href") or "").strip()) or "").partition("#")[0]
    is_here = urlsplit(url).netloc == urlsplit(content.url).netloc
    return url if is_here and url != content.url.partition("#")[0] else None


def price_in(element: Any, language: str) -> Any:
    """The first of the innermost elements that are a price; None where there is none."""
    priced = (
        node for node in element.xpath("descendant-or-self::*[count(*) < 4]") if is_price(element_text(node), language)
    )
    return next(
        (node for node in priced if not any(is_price(element_text(inner), language) for inner in node.xpath("*"))), None
    )


def _selector_of(tag: str, classes: str, elements: list[Any], page: parsel.Selector) -> str | None:
    """The first CSS selector, of one class, of the tag, or below the parent's, that finds exactly these elements."""
    own = list(filter(_PLAIN.fullmatch, [*(f"{tag}.{name}" for name in classes.split()), tag]))
    parent = elements[0].getparent()
    outer_names = [f"#{parent.get('id', '')}", *(f".{name}" for name in parent.get("class", "").split()), ""]
    above = [f"{parent.tag}{name}" for name in outer_names]
    tried = own + [f"{outer} > {inner}" for outer in filter(_PLAIN.fullmatch, above) for inner in own]
    return next((css for css in tried if [match.root for match in page.css(css)] == elements), None)


def _described(each: str, elements: list[Any], content: Content, language: str) -> Cards:
    scopes = [parsel.Selector(root=element, type="html") for element in elements]
    cards = Cards(each, len(elements))
    headings = [
        [h for h in element.xpath(f".//{_HEADING}") if not is_price(element_text(h), language)] for element in elements
    ]
    heading = css_of([next(iter(of_card), None) for of_card in headings], scopes)
    classed = _classed(scopes)
    for css in [f"{heading} a"] * bool(heading) + [css for css in classed if css.startswith("a.")] + ["a"]:
        rule = {"css": css} if elements[0].tag != "a" else {"xpath": "."}
        links = [(link, scope) for scope in scopes if (link := _first(scope, rule)) is not None]
        urls = list(dict.fromkeys(url for link, _ in links if (url := _address(link, content))))
        is_more = len({element_text(link) for link, _ in links}) == 1 and len(urls) == cards.number  # read more
        naming = sum(css == f"{heading} a" or _names(link, scope, is_more=is_more) for link, scope in links)
        if len(urls) * 5 >= cards.number * 4 and naming * 2 >= cards.number:
            cards.link, cards.urls = {**rule, "attr": "href"}, urls
            break
    if titled := heading or (cards.link or {}).get("css"):
        linked = f"{titled} a[title]" if heading else f"{titled}[title]"
        cut = [link for scope in scopes if (link := _first(scope, {"css": linked})) is not None]
        is_cut = any(len(link.get("title")) > _length(link) for link in cut)
        _add(cards, scopes, "title", {"css": linked, "attr": "title"} if is_cut else {"css": titled})
        titles = [element_text(first) for scope in scopes if (first := _first(scope, {"css": titled})) is not None]
        cards.key = "title" if "title" in cards.fields and len(set(titles)) == cards.number else None
    if price := css_of([price_in(element, language) for element in elements], scopes):
        _add(cards, scopes, "price", {"css": price, "type": "price"})
    _add(cards, scopes, "date", {"css": "time", "type": "date"})
    _add(cards, scopes, "image", {"css": "img", "attr": "src", "type": "url"})
    taken = {rule["css"] for rule in cards.fields.values()}
    for css in classed:
        name = css.partition(".")[2]
        if _WORDS.fullmatch(name) and css not in taken and len(cards.fields) < _MOST_FIELDS:
            several = any(len(scope.css(css)) > 1 for scope in scopes)
            texts = [element_text(first) for scope in scopes if (first := _first(scope, {"css": css})) is not None]
            _add(
                cards,
                scopes,
                field_name(name),
                {"css": css, **({"many": True} if several else type_of(texts, language))},
            )
    read = [match.root for scope in scopes for rule in cards.fields.values() for match in scope.css(rule["css"])]
    cards.is_covered = sum(map(_length, set(read))) * 5 >= sum(map(_length, elements)) * 4
    return cards


def _names(link: Any, card: parsel.Selector, *, is_more: bool) -> bool:
    """Whether a link stands for its card: it comes first, is a picture, a good part of what the card says or, if
    `is_more`, its end. Others, such as that of a tag or an author, lead to pages about something else.
    """
    link_text, text = element_text(link), element_text(card.root)
    is_most = text.startswith(link_text) or len(link_text) * 3 >= len(text) or (is_more and text.endswith(link_text))
    return link.find(".//img") is not None or bool(link_text and is_most)


def _classed(scopes: list[parsel.Selector]) -> list[str]:
    """Selectors, by tag and class, of elements with text of their own that most cards have; in page order."""
    selectors: Counter[str] = Counter()
    for scope in scopes:
        own = scope.root.xpath(".//*[@class][text()[normalize-space()]]")
        selectors.update(
            list(dict.fromkeys(f"{element.tag}.{name}" for element in own for name in element.get("class").split()[:1]))
        )
    return [css for css, number in selectors.items() if number * 2 > len(scopes) and _PLAIN.fullmatch(css)]


def css_of(nodes: list[Any], scopes: list[parsel.Selector]) -> str | None:
    """The selector, by tag and class, whose first match in most cards is the card's node; None where there is none."""
    cards = [(scope, node) for scope, node in zip(scopes, nodes, strict=True) if node is not None]
    kinds: Counter[str] = Counter()
    for _, node in cards:
        kinds.update([*(f"{node.tag}.{name}" for name in node.get("class", "").split()), node.tag])
    plain = filter(_PLAIN.fullmatch, kinds)
    for css in sorted(plain, key=lambda css: (-kinds[css], "." not in css)):
        if sum(_first(scope, {"css": css}) is node for scope, node in cards) * 2 >= len(scopes):
            return css
    return None


def _first(scope: parsel.Selector, rule: dict[str, Any]) -> Any:
    matches = scope.css(rule["css"]) if "css" in rule else scope.xpath(rule["xpath"])
    return matches[0].root if matches else None


def _add(cards: Cards, scopes: list[parsel.Selector], name: str, rule: dict[str, Any]) -> None:
    """Adds a field whose rule finds something in most cards."""
    firsts = [first for scope in scopes if (first := _first(scope, rule)) is not None]
    filled = [first for first in firsts if "attr" not in rule or first.get(rule["attr"])]
    if name not in cards.fields and len(filled) * 2 > len(scopes):
        cards.fields[name] = rule
