"""The blocks of a page: what each is, where it stands, and what its markup calls it."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from almanac.transforms.html.letters import letters, weight
from almanac.transforms.html.simplify import DEFINITIONS, has_blocks

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
LISTS = frozenset({"ul", "ol", "menu", "dir"})
# Elements whose content stands beside the main text by the meaning of their tags.
SIDE_TAGS = frozenset({"nav", "header", "footer", "aside", "script", "style", "noscript", "template"})

_UNSHOWN = frozenset({"title", "style", "script"})
_WHOLE = HEADINGS | LISTS | {"dl", "table", "pre"}
# A box of this kind is part of the text around it, even where its element is an <aside>.
_NOTE = re.compile(
    r"admonition|callout|note|hint|tip\b|warning|caution|danger|important|attention|starlight-aside", re.IGNORECASE
)
# What class names and ids call things that surround a text on all kinds of sites.
_SURROUNDING = re.compile(
    r"shar(?:e|ing)|partag|compart|teilen|social|follow|comment|kommentar|coment|newsletter|subscri|(?<![a-z])abo"
    r"\b|recommend|related|similar|more-like"
    r"|promo(?!t)|advert|(?<![a-z])ads?(?![a-z])|sponsor|(?<![a-z])rating|bewert|captcha|cookie|consent|breadc"
    r"rumb|pager|paginat|login|popup|modal|banner"
    r"|toolbar",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"caption|legend|credit|copyright|img_|image|bild(?!ung)|foto|photo|galler", re.IGNORECASE)
_OPENING = re.compile(
    r"(?<![a-z])(?:intro|lead|lede|teaser-?text|excerpt|abstract|summary|deck|dek|sub-?title|standfirst|chapo|vors"
    r"pann|sapo|entradilla|bajada|copete|ingress)",
    re.IGNORECASE,
)
_LESS_CERTAIN = re.compile(
    rf"{_FIGURE.pattern}|author|autor|byline|(?<![a-z])tags?(?![a-z])|(?<![a-z])meta|(?<!elementor-)widget|sidebar"
    r"|footer|(?<![a-z])nav|menu",
    re.IGNORECASE,
)
# Links to an address or a number. Without one, as in `mailto:?subject=`, they share the page.
_REACHES = re.compile(r"\s*(?:mailto|tel|sms|fax|callto|sip):\s*[^?\s]", re.IGNORECASE)
_CONTENTS = re.compile(r"(?<![a-z])toc(?![a-z])|table-?of-?contents", re.IGNORECASE)


@dataclass(eq=False)
class Block:
    """A block that is kept or dropped as a whole: a paragraph, heading, list, table, or code.

    Attributes:
        is_found: whether a witness has its text.
        is_main: whether it is kept.
        is_around: whether a box around it is called navigation or footer.
    """

    element: Any
    is_found: bool = False
    is_main: bool = False
    is_around: bool = False

    @cached_property
    def text(self) -> str:
        return str(self.element.text_content()).strip()

    @cached_property
    def letters(self) -> str:
        """Its text, as `letters` gives it."""
        return letters(self.text)

    @cached_property
    def size(self) -> int:
        """Its `weight`."""
        return weight(self.text)

    @cached_property
    def above(self) -> list[Any]:
        """The elements that contain it, innermost first."""
        return list(self.element.iterancestors())

    @property
    def parent(self) -> Any:
        return self.above[0]

    @property
    def is_heading(self) -> bool:
        return self.element.tag in HEADINGS

    @cached_property
    def linked(self) -> int:
        """Letters in links that lead to pages."""
        if any(element.tag == "a" and leads_on(element) for element in self.above):
            return self.size
        own = "#" if self.is_heading else None  # the link to a heading's own place may be around it
        return sum(
            weight(link.text_content())
            for link in self.element.iter("a")
            if leads_on(link) and link.get("href")[:1] != own
        )

    @cached_property
    def links(self) -> list[str]:
        """Where it links to, or what it is a link to."""
        return [
            link.get("href") for link in (*self.above, *self.element.iter("a")) if link.tag == "a" and leads_on(link)
        ]

    @property
    def is_links(self) -> bool:
        """Whether more than half of it is links."""
        return self.linked * 2 > self.size

    @cached_property
    def contacts(self) -> list[Any]:
        """The links in it, or around it, to an address or a number."""
        return [link for link in (*self.above, *self.element.iter("a")) if link.tag == "a" and reaches(link)]

    @cached_property
    def is_contents(self) -> bool:
        """Whether it is a table of contents: links to places of the same page, or called so."""
        targets = (
            [link.get("href") for link in self.element.iter("a") if link.get("href")]
            if self.linked > 0.9 * self.size
            else []
        )
        return len(targets) > 2 and (
            all(target.startswith("#") for target in targets) or bool(_CONTENTS.search(self._names))
        )

    @property
    def is_breadcrumb(self) -> bool:
        """Whether it is the way from the home page to this page."""
        return "breadcrumb" in self._names.lower()

    @cached_property
    def side_tags(self) -> frozenset[str]:
        """Tags of it and around it that put it beside the main text; an <aside> with a note in it does not."""
        return frozenset(
            element.tag
            for element in (self.element, *self.above)
            if element.tag in SIDE_TAGS and not (element.tag == "aside" and _NOTE.search(_names([element])))
        )

    @cached_property
    def kind(self) -> tuple[str, str, str, str]:
        """Tag and class of it and of its parent; blocks of one kind are set alike."""
        return (self.element.tag, self.element.get("class") or "", self.parent.tag, self.parent.get("class") or "")

    @cached_property
    def is_surrounding(self) -> bool:
        """Whether its class name, or its parent's, is one of what surrounds a text: a share bar, a newsletter's box."""
        return bool(_SURROUNDING.search(self._names))

    @cached_property
    def is_suspect(self) -> bool:
        """Whether its class name, or its parent's, may be one of what surrounds a text."""
        return self.is_surrounding or bool(_LESS_CERTAIN.search(self._names))

    def is_suspect_in(self, home: Any) -> bool:
        """Whether a class name of it, or of what is around it below `home`, may be one of what surrounds a text."""
        names = _names([self.element, *itertools.takewhile(lambda element: element is not home, self.above)])
        return bool(_SURROUNDING.search(names) or _LESS_CERTAIN.search(names))

    @property
    def is_in_figure(self) -> bool:
        """Whether it is called a caption or a credit, itself or up to two levels above."""
        return bool(_FIGURE.search(_names([self.element, *self.above[:2]])))

    @cached_property
    def is_opening(self) -> bool:
        """Whether it is called the opening of a text: a lead, a summary."""
        return bool(_OPENING.search(self._names))

    @property
    def is_prose(self) -> bool:
        """Whether nothing about it says that it surrounds a text."""
        return not (self.is_links or self.side_tags or self.is_suspect)

    @property
    def is_facts(self) -> bool:
        """Whether it is a table, a definition list or code."""
        return self.element.tag in ("table", "pre") or DEFINITIONS in self.element.attrib

    @cached_property
    def _names(self) -> str:
        return _names([self.element, self.parent])


def leads_on(link: Any) -> bool:
    """Whether it leads to a page, or shares this one; a link that writes to somebody or rings somebody up is an
    address, as readable as any text.
    """
    return bool((link.get("href") or "").strip()) and not reaches(link)


def reaches(link: Any) -> bool:
    """Whether it writes to an address, or rings a number up."""
    return bool(_REACHES.match(link.get("href") or ""))


def _names(elements: list[Any]) -> str:
    """Class names and ids, up to what holds a whole page."""
    names = []
    for element in elements:
        if element.tag in ("html", "body", "main", "article"):
            break
        names += [element.get("class") or "", element.get("id") or ""]
    return " ".join(names)


def blocks_of(root: Any) -> list[Block]:
    """The blocks of a simplified tree, in page order."""
    return [Block(element) for element in _elements(root)]


def _elements(element: Any) -> Iterator[Any]:
    for child in element:
        # a broken page may have all of its text in its head
        if child.tag in _UNSHOWN or (child.tag == "head" and not has_blocks(child)):
            continue
        if child.tag in _WHOLE or not has_blocks(child):
            if child.text_content().strip():
                yield child
        else:
            yield from _elements(child)
