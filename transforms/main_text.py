"""Selects the blocks of a page that are its main text: those whose text trafilatura finds, and blocks that belong to them.

trafilatura recognises boilerplate well, but drops parts of articles that resemble it: headings in a box, code, notes, whole tables. So its
output only serves to confirm blocks, which are then taken from the page itself.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import lxml.html

from almanac.transforms.simplify import BLOCKS, DEFINITIONS, has_blocks

NOT_MAIN = frozenset({"nav", "header", "footer", "aside", "script", "style", "noscript", "template", "head"})

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_WHOLE = _HEADINGS | {"ul", "ol", "dl", "menu", "dir", "table", "pre"}
_ITEMS = ("li", "td", "th", "dt", "dd")
# A gap of up to this many blocks between two confirmed ones belongs to the text, such as a note in a box; a longer one is another text.
_LONGEST_GAP = 15
_SHORT = 40
_NOT_LETTERS = re.compile(r"[\W_]+")


@dataclass(slots=True)
class _Unit:
    """A block that is kept or dropped as a whole: a paragraph, heading, list, table, or code."""

    element: Any
    is_main: bool
    is_marked: bool  # inside an element such as <nav> or <aside>
    size: int  # letters
    linked: int  # letters in links

    @classmethod
    def of(cls, element: Any, *, is_main: bool) -> "_Unit":
        is_marked = any(ancestor.tag in NOT_MAIN for ancestor in element.iterancestors())
        linked = sum(len(letters(link.text_content())) for link in element.iter("a") if link.get("href"))
        return cls(element, is_main, is_marked, len(letters(element.text_content())), linked)

    @property
    def is_heading(self) -> bool:
        return self.element.tag in _HEADINGS

    def has_facts_of(self, other: "_Unit") -> bool:
        """Whether the unit is a table, definition list or code in the same box as `other`: a short product page has little more."""
        is_facts = self.element.tag in ("table", "pre") or DEFINITIONS in self.element.attrib
        return is_facts and self.element.getparent() is other.element.getparent()


def main_tree(root: Any) -> Any:
    """The simplified tree reduced to its main text, in place; None if there is no main text.

    If the selected blocks cover less than 95 % of trafilatura's text, trafilatura's own tree is returned, despite what it loses.
    """
    found = _trafilatura(root)
    if found is None:
        return None
    witness = _Witness(found)
    units = [_Unit.of(element, is_main=witness.confirms(element)) for element in _units(root)]
    _add_what_belongs(units)
    kept = [unit for unit in units if unit.is_main]
    if sum(unit.size for unit in kept) < 0.95 * witness.size:
        return lxml.html.document_fromstring(found)
    for unit in units:
        if not unit.is_main:
            unit.element.drop_tree()
    return root


class _Witness:
    """The text that trafilatura found. Texts under 40 letters must be a whole block of it, since `Home` also occurs in `homepage`."""

    def __init__(self, html: str) -> None:
        tree = lxml.html.document_fromstring(html)
        self._whole = letters(tree.text_content())
        self._blocks = {letters("".join(element.itertext())) for element in tree.iter() if element.tag in BLOCKS and not has_blocks(element)}
        self.size = len(self._whole)

    def confirms(self, element: Any) -> bool:
        """Whether the element's text is in it; for lists and tables, more than half of their items' text."""
        items = [item for item in element.iter(*_ITEMS) if not has_blocks(item)]
        if not items:
            return self._has(letters(element.text_content()))
        texts = [text for item in items if (text := letters(item.text_content()))]
        return sum(len(text) for text in texts if self._has(text)) * 2 > sum(map(len, texts))

    def _has(self, text: str) -> bool:
        return text in self._blocks or (len(text) >= _SHORT and text in self._whole)


def letters(text: str) -> str:
    """Letters and digits only, in lower case, for comparing texts regardless of spaces and punctuation."""
    return _NOT_LETTERS.sub("", unicodedata.normalize("NFC", text)).lower()


def _units(element: Any) -> Iterator[Any]:
    for child in element:
        if child.tag in _WHOLE or (child.tag in BLOCKS and not has_blocks(child)) or (child.tag not in BLOCKS and not has_blocks(child)):
            if child.text_content().strip():
                yield child
        else:
            yield from _units(child)


def _may_belong(units: list[_Unit]) -> bool:
    """Whether none of the units is marked as beside the text, and at most half of their letters are in links (a note may contain a line of links)."""
    return not any(unit.is_marked for unit in units) and sum(unit.linked for unit in units) * 2 <= sum(unit.size for unit in units)


def _add_what_belongs(units: list[_Unit]) -> None:
    """Adds facts beside main text, headings directly above it, and gaps of up to fifteen blocks between its blocks."""
    for before, unit in pairwise(units):
        if before.is_main and not unit.is_main and unit.has_facts_of(before):
            unit.is_main = _may_belong([unit])
    for below, unit in pairwise(units[::-1]):
        if below.is_main and not unit.is_main and (unit.is_heading or unit.has_facts_of(below)):
            unit.is_main = _may_belong([unit])
    last: int | None = None
    for number, unit in enumerate(units):
        if not unit.is_main:
            continue
        gap: list[_Unit] = units[last + 1 : number] if last is not None else []
        if len(gap) <= _LONGEST_GAP and _may_belong(gap):
            for one in gap:
                one.is_main = True
        last = number


def _trafilatura(root: Any) -> str | None:
    """The main text as HTML; None if there is none.

    Favours precision, which leaves out related links and teasers. A page of nothing but teasers would be empty then, and is read less strictly.
    """
    import trafilatura

    html = lxml.html.tostring(root, encoding="unicode")
    for favor_precision in (True, False):
        found: str | None = trafilatura.extract(
            html,
            output_format="html",
            include_formatting=True,
            include_tables=True,
            include_comments=False,
            favor_precision=favor_precision,
            config=_config(),
        )
        if found:
            return found
    return None


@cache
def _config() -> Any:
    from trafilatura.settings import use_config

    config = use_config()
    # Below 250 characters, the default, trafilatura falls back to flat text that loses headings and splits words at inline tags.
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "1")
    config.set("DEFAULT", "MIN_OUTPUT_SIZE", "1")
    return config
