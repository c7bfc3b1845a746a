"""Converts a page of HTML to Markdown: all of it, or its main text. The reasons are in docs/decisions."""

import logging
import re
from typing import Any, Literal

import lxml.etree

from almanac.schemas.left_out import LeftOut
from almanac.transforms.html.blocks import SIDE_TAGS
from almanac.transforms.html.main_text import main_tree
from almanac.transforms.html.markdown_writer import one_line, write_tree
from almanac.transforms.html.simplify import parse_page, simplify

Part = Literal["main", "all"]
# Telling main text takes more than linear time. A book on one page has about 10,000 elements; 30,000 take 5 s.
_MAX_ELEMENTS = 30_000
_MAX_CHARACTERS = 5_000_000
_DEPTH = 100
_TOO_DEEP = lxml.etree.XPath("boolean(" + "/*" * (_DEPTH + 1) + ")")

_IS_HOME = re.compile(
    r"(?:(?:https?:)?//[^/?#]*)?/?(?:[a-z]{2}(?:-[a-z]{2})?/?)?(?:(?:index|default|home)(?:\.\w+)?)?/?(?:[?#].*)?",
    re.IGNORECASE,
)
_NEVER = frozenset({"script", "style", "noscript", "template", "title"})
_log = logging.getLogger("almanac.transforms")


def html_to_markdown(html: str, part: Part, left_out: LeftOut | None = None) -> str:
    """Readable text of a page: `main` is its main text without navigation, `all` everything. Empty if there is none.
    `left_out` tallies what it is without.

    A page too large to be divided is written in one pass; then only elements that are navigation by their tag are left
    out.
    """
    root = parse_page(html) if html.strip() else None
    left_out = LeftOut() if left_out is None else left_out
    if root is None:
        return ""
    if too_much := _too_much(html, root):
        what = (
            "without telling its main text; only what is navigation by its tag is left out"
            if part == "main"
            else "in one pass"
        )
        _log.warning("a page of %d characters %s: it is read as a whole, %s", len(html), too_much, what)
        if part == "main":
            for element in root.iter(*(SIDE_TAGS - _NEVER)):
                is_outermost = next(element.iterancestors(*SIDE_TAGS), None) is None
                left_out.add("page_furniture", element.text_content() if is_outermost else "")
        return write_tree(root, SIDE_TAGS | _NEVER if part == "main" else _NEVER)
    if part == "all":
        simplify(root, drawings=True)
        return write_tree(root, _NEVER)
    heading = _heading(root)
    main = main_tree(root, heading, left_out)
    if main is None:
        return ""
    text = write_tree(main, _NEVER)
    return text if heading in one_line(text) else f"# {heading}\n\n{text}"


def _too_much(html: str, root: Any) -> str | None:
    """What keeps a page from being divided, if anything."""
    if len(html) > _MAX_CHARACTERS:
        return "is too long"
    if _TOO_DEEP(root):
        return f"has elements in more than {_DEPTH} others"
    return (
        f"has more than {_MAX_ELEMENTS} elements"
        if any(number > _MAX_ELEMENTS for number, _ in enumerate(root.iter()))
        else None
    )


def _heading(root: Any) -> str:
    """The page's only <h1>, which may stand in a <header>; empty if there is none or more than one.

    One that is a link is the site's name, unless the page's <title> begins with it and it does not lead to the home
    page.
    """
    headings = list(root.iter("h1"))
    if len(headings) != 1:
        return ""
    heading = one_line(headings[0].text_content())
    link = headings[0].find(".//a[@href]")
    if link is None:
        return heading
    title = root.find(".//title")
    is_own = (
        title is not None
        and one_line(title.text_content()).startswith(heading)
        and not _IS_HOME.fullmatch(link.get("href").strip())
    )
    return heading if is_own else ""
