"""Gives images their text: the `alt` of a picture, a map's area or an image button, and the title of a drawing."""

import re
from itertools import islice
from typing import Any

from lxml import etree

from almanac.core.control_characters import without_controls
from almanac.spiders.reading.rewriting import class_names, remove, replace_by_text

_UNSEEN = ("noscript", "template", "script", "style")
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "br", "button", "cite", "code", "em", "font", "i", "kbd", "label", "mark",
    "picture", "q", "s", "small", "source", "span", "strong", "sub", "sup", "u", "var", "wbr", "img",
})  # fmt: skip
_HOLDERS = frozenset({"div", "figure", "section", "article", "main", "body", "center", "li", "dd", "blockquote"})
_IN_LINE = _INLINE - {"img", "br", "picture", "source", "wbr"}
_ITEMS = frozenset({"li", "dd"})
_FILE = re.compile(
    r"\S+\.(?:jpe?g|jfif|png|gif|webp|svg|avif|bmp|tiff?|heic|ico|pdf)(?:\?\S*)?|.*\.(?:jpe?g|png|gif|webp|svg)",
    re.IGNORECASE,
)
# Names that cameras, phones, upload forms and templates give, and what says no more than that there is an image.
_NO_ALT = re.compile(
    r"dsc\w?\d+|[\da-f_-]{12,}|[\w-]*_\d+[\w-]*|[\d\W_]*|.{0,30}\blogo\b.{0,12}"
    r"|(?:(?:whatsapp )?image|img|photo|picture|screen ?shot|untitled|unnamed|null|undefined|placeholder|banner|icon"
    r"|avatar|thumbnail)(?:[\W_]*\d(?:[\d\W_]|at|[ap]m)*)?",
    re.IGNORECASE,
)
_HOME = re.compile(
    r"\s*(?:(?:https?:)?//[^/?#]*)?(?:\.{0,2}/)*(?:[a-z]{2}(?:[-_][a-z]{2})?/?)?(?:(?:index|home)(?:\.\w{2,5})?/?)?"
    r"(?:[?#].*)?\s*",
    re.IGNORECASE,
)
_ICON_CLASS = re.compile(
    r"(?:^|[-_])(?:icon|icons|ico|sprite|spacer|pixel|avatar|gravatar|logo)(?:$|[-_])", re.IGNORECASE
)
_WORDS = re.compile(r"\w+")
_ICON_SIZE = 32  # pixels
_MAX_ALT = 1000  # characters
_MAX_SIBLINGS = 100  # of an image, that are looked at for text beside it
_TEXTS = etree.XPath("descendant-or-self::*[not(self::script or self::style or (self::title and parent::svg))]/text()")


def write_images(root: Any) -> None:
    """Puts the text of each image in its place: as a paragraph where the image stands alone, else within the line.

    Left out: what is decoration by its own word (`alt=""`, `role=presentation`, `aria-hidden`), icons and counting
    pixels, names of files, and a text that the page says anyway, such as a caption or the name in a link.
    """
    images = [(element, alt) for element in root.iter("img", "area", "input", "svg") if (alt := _alt_of(element))]
    page_text = _PageText(root) if images else None
    for element, alt in images:
        if page_text is not None and next(element.iterancestors(*_UNSEEN), None) is None and page_text.first_time(alt):
            _write(element, alt)


def drop_fallbacks(root: Any) -> None:
    """Removes the text inside `<video>` and `<audio>`, which only browsers that cannot play them show."""
    for media in list(root.iter("video", "audio")):
        for inner in list(media):
            media.remove(inner)
        media.text = None


def alt_text(root: Any) -> str:
    """The texts of the images in an element, for an element that has no other text."""
    alts = [alt for element in root.iter("img", "area", "input", "svg") if (alt := _alt_of(element))]
    return " ".join(dict.fromkeys(alts))


class _PageText:
    """The text of a page, to tell whether it says the same as an image."""

    def __init__(self, root: Any) -> None:
        self._text = _folded(" ".join(_TEXTS(root)))

    def first_time(self, alt: str) -> bool:
        """Whether the page does not say this yet; from now on it does."""
        folded = _folded(alt)
        if folded in self._text:
            return False
        self._text += folded
        return True


def _folded(text: str) -> str:
    """The words of a text without case and punctuation, each between spaces, so that whole words can be looked for."""
    return f" {' '.join(_WORDS.findall(text.casefold()) or text.split())} "


def _alt_of(element: Any) -> str:
    """The text that stands for an image; empty if it is decoration or has none."""
    if element.get("role") in ("presentation", "none") or element.get("aria-hidden") == "true":
        return ""
    if element.tag == "svg":
        title = next(iter(element.xpath("./*[local-name()='title']")), None)
        named = element.get("aria-label") or ("" if title is None else "".join(title.itertext()))
        return "" if element.get("role") != "img" or _is_icon(element) else _worded(named)
    if element.tag == "input":
        return _worded(element.get("alt") or "") if (element.get("type") or "").lower() == "image" else ""
    alt = _worded(element.get("alt") or "")
    if (
        not alt
        or _is_file_name(alt, element)
        or _leads_home(element)
        or (_is_icon(element) and not _is_whole_cell(element))
    ):
        return ""
    return alt


def _worded(alt: str) -> str:
    """The text, or none where it is only a file's name or a word such as "image". An emoji is a text."""
    text = " ".join(without_controls(alt).split())
    if (
        len(text) > _MAX_ALT
        or _FILE.fullmatch(text)
        or ((text.isascii() or text[:1].isalpha()) and _NO_ALT.fullmatch(text))
    ):
        return ""
    return text


def _is_file_name(alt: str, element: Any) -> bool:
    """Whether an `alt` without spaces is the name of the file, as upload forms fill it in, or has a file name's
    shape.
    """
    if " " in alt:
        return False
    stem = (element.get("src") or "").partition("?")[0].rpartition("/")[2].rpartition(".")[0]
    return (
        "_" in alt
        or alt.count("-") > 1
        or (bool(re.search(r"[-\d]", alt)) and stem.casefold().startswith(alt.casefold()))
    )


def _leads_home(element: Any) -> bool:
    """Whether the image is all of a link to a home page: then it is a site's logo."""
    link = next(element.iterancestors("a"), None)
    return (
        link is not None
        and (link.get("href") or "#")[0] not in "#?"
        and _HOME.fullmatch(link.get("href") or "") is not None
        and not "".join(link.itertext()).strip()
    )


def _is_icon(element: Any) -> bool:
    if "emoji" in " ".join(class_names(element)):
        return False
    sizes = [
        int(match[0])
        for name in ("width", "height")
        if (match := re.match(r"\d{1,5}(?=\s*(?:px)?\s*$)", element.get(name) or ""))
    ]
    return any(size <= _ICON_SIZE for size in sizes) or any(_ICON_CLASS.search(name) for name in class_names(element))


def _is_whole_cell(element: Any) -> bool:
    """Whether an image is all there is in a cell of a table, such as a tick."""
    cell = next(element.iterancestors("td", "dd"), None)
    return cell is not None and not "".join(cell.itertext()).strip() and len(list(cell.iter("img"))) == 1


def _write(element: Any, alt: str) -> None:
    parent = element.getparent()
    if parent is None:
        replace_by_text(element, alt)
        return
    if element.tag == "svg":
        for title in element.xpath("./*[local-name()='title']"):
            title.clear()
    block = _line_of(element)
    if block.tag == "p" and block.getparent() is not None and _is_worded(alt):
        before, after = _has_text_around(element, block)
        if before != after:  # beside a paragraph, not in it
            mark = _paragraph(element, alt)
            (block.addprevious if after else block.addnext)(mark)
            remove(element) if element.tag != "svg" else None
            return
    if _stands_between_blocks(element):
        element.addprevious(_paragraph(element, alt))
        remove(element) if element.tag != "svg" else None
    elif element.tag == "svg":
        mark = element.makeelement("span")
        mark.text = f" {alt} "
        element.addprevious(mark)
    else:
        replace_by_text(element, _spaced(element, alt))


def _paragraph(element: Any, text: str) -> Any:
    paragraph = element.makeelement("p")
    paragraph.text = text
    return paragraph


def _is_worded(alt: str) -> bool:
    """Whether the text is more than an emoji."""
    return any(map(str.isalnum, alt))


def _line_of(element: Any) -> Any:
    """The element around the line of text that an image stands in."""
    around = element.getparent()
    while around.tag in _INLINE and around.getparent() is not None:
        around = around.getparent()
    return around


def _has_text_around(element: Any, block: Any) -> tuple[bool, bool]:
    """Whether there is text before the image in a block, and after it."""
    return _has_text_beside(element, block, preceding=True), _has_text_beside(element, block, preceding=False)


def _has_text_beside(element: Any, block: Any, *, preceding: bool) -> bool:
    while element is not block:
        parent = element.getparent()
        if ((parent.text if preceding else element.tail) or "").strip():
            return True
        for sibling in islice(element.itersiblings(preceding=preceding), _MAX_SIBLINGS):
            if (sibling.tail or "").strip() or (
                isinstance(sibling.tag, str) and any(map(str.strip, sibling.itertext(with_tail=False)))
            ):
                return True
        element = parent
    return False


def _stands_between_blocks(element: Any) -> bool:
    """Whether an image stands in no line of text or link: between blocks, or in a box where text only precedes or
    follows it.
    """
    while (
        (parent := element.getparent()) is not None
        and parent.tag in ("picture", "span")
        and not "".join(parent.itertext()).strip()
    ):
        if (element.tail or "").strip():
            return False
        element = parent
    if parent is None or parent.tag not in _HOLDERS:
        return False
    previous, following = element.getprevious(), element.getnext()
    before = ((parent.text if previous is None else previous.tail) or "").strip() or (
        previous is not None and previous.tag in _IN_LINE
    )
    after = (element.tail or "").strip() or (following is not None and following.tag in _IN_LINE)
    return not (before or after) if parent.tag in _ITEMS else not (before and after)


def _spaced(element: Any, alt: str) -> str:
    """The text with a space on each side where a word stands beside it."""
    previous = element.getprevious()
    before = (
        previous.tail if previous is not None else element.getparent().text if element.getparent() is not None else ""
    ) or ""
    after = element.tail or ""
    if len(alt) < 3 and not alt.isascii():  # an emoji, or a sign of its own
        return alt
    return (
        (" " if before[-1:].strip() or (not before and previous is not None) else "")
        + alt
        + (" " if after[:1].isalnum() or not after else "")
    )
