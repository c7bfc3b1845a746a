"""Which blocks of a page are its main text: those that trafilatura finds, and what belongs to them.

trafilatura says well what is boilerplate, and loses what it takes for it inside an article: headings in a box of their own, code, notes,
whole tables. So its text is only a witness: the blocks of the page that it confirms stay as the page has them.
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
# Between two confirmed blocks, so many in a row belong to the text as well, such as a note in a box; more are another text.
_LONGEST_GAP = 15
_SHORT = 40
_NOT_LETTERS = re.compile(r"[\W_]+")


@dataclass(slots=True)
class _Unit:
    """A block that stays or goes as a whole: a paragraph, a heading, a list, a table, code."""

    element: Any
    is_main: bool
    is_marked: bool  # as something beside the text
    size: int  # letters
    linked: int  # letters of links

    @classmethod
    def of(cls, element: Any, *, is_main: bool) -> "_Unit":
        is_marked = any(ancestor.tag in NOT_MAIN for ancestor in element.iterancestors())
        linked = sum(len(letters(link.text_content())) for link in element.iter("a") if link.get("href"))
        return cls(element, is_main, is_marked, len(letters(element.text_content())), linked)

    @property
    def is_heading(self) -> bool:
        return self.element.tag in _HEADINGS

    def has_facts_of(self, other: "_Unit") -> bool:
        """Whether it is a table, a list of definitions or code in the same box: a short product page is little more."""
        is_facts = self.element.tag in ("table", "pre") or DEFINITIONS in self.element.attrib
        return is_facts and self.element.getparent() is other.element.getparent()


def main_tree(root: Any) -> Any:
    """The simplified tree with everything but the main text taken out; None where there is no main text.

    Where trafilatura's text is not that of whole blocks, its own tree is the answer, with what it loses.
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
    """What trafilatura found, to ask whether a text is in it. Short texts have to be a block there: `Home` is in `homepage` too."""

    def __init__(self, html: str) -> None:
        tree = lxml.html.document_fromstring(html)
        self._whole = letters(tree.text_content())
        self._blocks = {letters("".join(element.itertext())) for element in tree.iter() if element.tag in BLOCKS and not has_blocks(element)}
        self.size = len(self._whole)

    def confirms(self, element: Any) -> bool:
        items = [item for item in element.iter(*_ITEMS) if not has_blocks(item)]
        if not items:
            return self._has(letters(element.text_content()))
        texts = [text for item in items if (text := letters(item.text_content()))]
        return sum(len(text) for text in texts if self._has(text)) * 2 > sum(map(len, texts))

    def _has(self, text: str) -> bool:
        return text in self._blocks or (len(text) >= _SHORT and text in self._whole)


def letters(text: str) -> str:
    """Letters and digits alone, so that texts can be compared whatever their spaces and marks."""
    return _NOT_LETTERS.sub("", unicodedata.normalize("NFC", text)).lower()


def _units(element: Any) -> Iterator[Any]:
    for child in element:
        if child.tag in _WHOLE or (child.tag in BLOCKS and not has_blocks(child)) or (child.tag not in BLOCKS and not has_blocks(child)):
            if child.text_content().strip():
                yield child
        else:
            yield from _units(child)


def _may_belong(units: list[_Unit]) -> bool:
    """Not marked as something beside the text, and together not made of links: a line that is one link may stand in a note."""
    return not any(unit.is_marked for unit in units) and sum(unit.linked for unit in units) * 2 <= sum(unit.size for unit in units)


def _add_what_belongs(units: list[_Unit]) -> None:
    """Facts beside main text, headings directly over it, and what stands between two of its blocks, up to fifteen of them."""
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
    """Precision first: it leaves related links and teasers out. A page that is nothing but teasers then has nothing left, and is read less strictly."""
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
    # Below its default of 250 characters it falls back to a flat text that loses headings and splits words at inline tags; a short policy is a page too.
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "1")
    config.set("DEFAULT", "MIN_OUTPUT_SIZE", "1")
    return config
