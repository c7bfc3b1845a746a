"""Finds the title that a page or file gives itself."""

from typing import Any

import parsel

from almanac.spiders.reading.content import Content
from almanac.spiders.reading.markdown import title_of
from almanac.spiders.selecting.selectors import text_of
from almanac.spiders.selecting.urls import file_title


def own_title(content: Content, node: Any = None, *, is_part: bool = False) -> str:
    """The page's own title: its first-level heading, else <title>; for a file without either, its name. Empty if there is none.

    Headings of sections are no titles: `## Installation` says nothing of which page it is on.

    A part (`node` or `is_part`) has only the headings inside it.
    """
    if isinstance(node, parsel.Selector):
        return _first_text(node.css("h1, h2, h3"))
    if is_part:
        return ""
    match content.form:
        case "html" | "xml":
            return _first_text(content.selector.css("h1")) or _first_text(content.selector.css("head > title, title")[:1]) or _file_name(content)
        case "markdown":
            return _said_title(content) or title_of(content.prose) or _file_name(content)
        case "pdf" | "docx" | "pptx" | "xlsx" | "epub" | "eml":
            return content.document.title or _file_name(content)
        case "plain":
            return _file_name(content)
        case _:
            return ""


def _said_title(content: Content) -> str:
    """The title in a Markdown file's front matter; empty if there is none."""
    title = content.json.get("title")
    return str(title) if isinstance(title, str | int | float) and not isinstance(title, bool) else ""


def _file_name(content: Content) -> str:
    """What links call a document that was fetched, the name that it was sent under, or the file's name; empty for a web page, whose URL is no title."""
    page = content.page
    if content.is_document and (called := page.link_text or file_title(page.file_name)):
        return called
    return "" if content.url.startswith(("http://", "https://")) and content.form in ("html", "xml") else file_title(content.url)


def _first_text(matches: parsel.SelectorList[parsel.Selector]) -> str:
    return next((text for match in matches if (text := text_of(match))), "")
