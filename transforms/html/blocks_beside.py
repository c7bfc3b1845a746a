"""The blocks of a whole page, and those beside its main text: what an extraction left out, without navigation."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from almanac.transforms.html.blocks import SIDE_TAGS
from almanac.transforms.html.letters import letters
from almanac.transforms.html.markdown_writer import write_tree
from almanac.transforms.html.simplify import parse_page

UNREAD = frozenset(
    {"script", "style", "noscript", "template", "title", "svg", "canvas", "iframe", "object", "audio", "video"}
)
_SKIPPED = SIDE_TAGS | UNREAD | {"select", "datalist", "button"}
# Noncharacters around the text of links, which no page may use.
_LINK, _END = "\ufdd0", "\ufdd1"
_LINKED = re.compile(f"({_LINK}|{_END})")
_BLOCK = re.compile(r"^(`{3,})\n.*?^\1$|[^\n]+", re.MULTILINE | re.DOTALL)  # code between fences, or a line
# On 628 pages of news, blogs, forums, a book and a museum two keep less, and both lost their text; the next one, with
# 0.107, is a thread of a forum whose first post is kept. Articles with many comments or teasers keep a sixth or more.
_LITTLE = 0.1
_MUCH_LOST = 500  # letters
_NEAR = 20_000  # letters; searching all of a long text for each block would take quadratic time


def marked_page(html: str) -> Any:
    """A parsed page whose links are marked, as the functions of this module and of `edges` read it; None if there is no
    element.
    """
    root = parse_page(html.replace(_LINK, "").replace(_END, "")) if html.strip() else None
    if root is None:
        return None
    for link in root.iter("a"):
        if link.get("href"):
            link.text = _LINK + (link.text or "")
            if len(link):
                link[-1].tail = (link[-1].tail or "") + _END
            else:
                link.text += _END
    return root


def blocks_beside(page: Any, text: str) -> list[str]:
    """Blocks of a marked page that are not in its extracted `text`, as Markdown, in page order: paragraphs, headings,
    list items, rows, code.

    Left out are elements that are navigation by their tag, and blocks of which more than half is links. Only letters
    and digits are compared.
    """
    if page is None:
        return []
    extracted = _ExtractedText(text)
    return [
        block
        for block, block_letters, is_links in blocks_in(page, _SKIPPED)
        if not (is_links or extracted.has(block_letters))
    ]


class _ExtractedText:
    """The letters of an extracted text, for questions in page order: a block is one of its lines, or stands near the
    one that was found last.
    """

    def __init__(self, text: str) -> None:
        self._text = letters(text)
        self._lines = set(map(letters, text.split("\n")))
        self._place = 0

    def has(self, block_letters: str) -> bool:
        if block_letters in self._lines:
            return True
        place = self._text.find(block_letters, max(0, self._place - _NEAR), self._place + _NEAR + len(block_letters))
        self._place = place if place >= 0 else self._place
        return place >= 0


def blocks_in(page: Any, skipped: frozenset[str]) -> Iterator[tuple[str, str, bool]]:
    """Yields (block, its letters, whether more than half of these are links) of a marked page, without the elements
    whose tags are in `skipped`.
    """
    is_link = False  # a link may span several blocks
    for match in _BLOCK.finditer(write_tree(page, skipped)):
        linked = 0
        for part in _LINKED.split(match[0]):
            if part in (_LINK, _END):
                is_link = part == _LINK
            elif is_link:
                linked += len(letters(part))
        block = _LINKED.sub("", match[0])
        if block_letters := letters(block):
            yield block, block_letters, linked * 2 > len(block_letters)


def keeps_little(text: str, side_blocks: Iterable[str]) -> bool:
    """Whether an extracted text is less than a tenth of its page without navigation, and what was left out is more than
    a line or two.
    """
    kept_letters, lost_letters = len(letters(text)), sum(len(letters(block)) for block in side_blocks)
    return lost_letters >= _MUCH_LOST and kept_letters < _LITTLE * (kept_letters + lost_letters)
