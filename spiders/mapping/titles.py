"""Finds the title that a page or file gives itself."""

import re
import unicodedata
from typing import Any

import parsel

from almanac.spiders.reading.content import Content
from almanac.spiders.reading.markdown import title_of
from almanac.spiders.selecting.selectors import normal_space, text_of
from almanac.spiders.selecting.urls import file_title

_PARTING = re.compile(r"\s+[-–—|·•:»«›‹/~]\s+|\s*[|»›]\s*")  # between the names of a page and of its site
_ASIDE = re.compile(r"\s+\(|:\s+")  # before what is said of a name: Introduction (Bison 3.8)
_NUMBERED = re.compile(r"\s*(?:\d{1,3}(?:\.\d{1,3})*[.)]|\d{1,3}(?:\.\d{1,3})+)\s+(?=\S)")  # 1. Overview, 2.3 Usage
_SIGNS = " ¶§🔗"  # of links to a heading
_HOME = re.compile(r"/|(?:https?:)?//[^/?#]+/?", re.IGNORECASE)  # the address of a site's first page
_WORD = re.compile(r"\w+")


def own_title(content: Content, node: Any = None, *, is_part: bool = False) -> str:
    """The title that a page, a file or a part gives itself; for a file without one, its name. Empty if there is none.

    Of a page it is the heading that its <title> names, else its first-level heading, else <title> (`_page_title`).
    Headings of sections are no titles: `## Installation` says nothing of which page it is on.

    A part (`node` or `is_part`) has only the headings inside it.
    """
    if isinstance(node, parsel.Selector):
        return _first_text(node.css("h1, h2, h3"))
    if is_part:
        return ""
    match content.form:
        case "html" | "xml":
            return _page_title(content.selector) or _file_name(content)
        case "markdown":
            return _said_title(content) or title_of(content.prose) or _file_name(content)
        case "pdf" | "docx" | "pptx" | "xlsx" | "epub" | "eml":
            return content.document.title or _file_name(content)
        case "plain":
            return _file_name(content)
        case _:
            return ""


def _page_title(page: parsel.Selector) -> str:
    """The heading or <title> that names a page, by what they share.

    A <title> often has the page's name and the site's, `TLS | Node.js`, and a first-level heading may be either of
    them, or that of a section. A heading that is the <title>, `og:title` or the first part of the <title> names the
    page, then one that is another part. Where none is, the only first-level heading does, or the first of several that
    has a word of the <title>. Where there is a <title>, one that is a link to the site's home page does not, nor one
    with the number of a section, if there are several or if that is 1: others are dates and amounts, too.
    """
    title = _first_text(page.css("head > title, title")[:1])
    shared = normal_space(page.css('meta[property="og:title"]::attr(content)').get() or "")
    first_level = _headings(
        parsel.SelectorList(heading for heading in page.css("h1") if not (title and _leads_home(heading)))
    )
    parts = _PARTING.split(title)
    if not first_level:
        return shared if shared and any(_key(shared) == _key(part) for part in parts) else title
    named = [title, shared, parts[0], _ASIDE.split(parts[0])[0]]
    for names, headings in ((named, first_level), (named, _headings(page.css("h2"))), (parts, first_level)):
        keys = {key: heading for heading in reversed(headings) if (key := _key(heading))}
        for name in names:
            if (heading := keys.get(_key(name))) is not None:
                return heading
    first = first_level[0]
    number = _NUMBERED.match(first)
    if len(first_level) > 1:
        is_section = number is not None or _words(first).isdisjoint(_words(title))
    else:
        is_section = number is not None and number[0].strip().rstrip(".)") == "1"
    return title if title and is_section else first


def _leads_home(heading: parsel.Selector) -> bool:
    """Whether a heading is a link to the first page of its site, as logos are."""
    links = heading.xpath("parent::a[@href] | .//a[@href]")
    return (
        bool(links)
        and _HOME.fullmatch(links[0].attrib["href"].strip()) is not None
        and text_of(links[0]) == text_of(heading)
    )


def _key(text: str) -> str:
    """What two writings of a title share: letters and digits, without the number of a chapter or section."""
    return "".join(filter(str.isalnum, _NUMBERED.sub("", unicodedata.normalize("NFKC", text)).casefold()))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _headings(matches: parsel.SelectorList[parsel.Selector]) -> list[str]:
    """The texts of headings without the sign that links to each; a `#` that is no link belongs to the text, as in
    C#.
    """
    texts = []
    for match in matches:
        text = text_of(match).rstrip(_SIGNS)
        links = map(normal_space, match.xpath(".//a[contains(@href, '#')]//text()").getall())
        texts.append(text.removesuffix("#").rstrip() if "#" in links else text)
    return [text for text in texts if text]


def _said_title(content: Content) -> str:
    """The title in a Markdown file's front matter; empty if there is none."""
    title = content.json.get("title")
    return str(title) if isinstance(title, str | int | float) and not isinstance(title, bool) else ""


def _file_name(content: Content) -> str:
    """What links call a document that was fetched, the name that it was sent under, or the file's name; empty for a web
    page, whose URL is no title.
    """
    page = content.page
    if content.is_document and (called := page.link_text or file_title(page.file_name)):
        return called
    return (
        ""
        if content.url.startswith(("http://", "https://")) and content.form in ("html", "xml")
        else file_title(content.url)
    )


def _first_text(matches: parsel.SelectorList[parsel.Selector]) -> str:
    return next((text for match in matches if (text := text_of(match))), "")
