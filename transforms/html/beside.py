"""Text of a page beside its main text: what an extraction left out, without navigation."""

import re
from collections.abc import Iterable, Iterator

from almanac.transforms.html.blocks import BESIDE
from almanac.transforms.html.consent import drop_consent
from almanac.transforms.html.letters import letters
from almanac.transforms.html.simplify import parse_page
from almanac.transforms.html.writer import write_tree

_SKIPPED = BESIDE | {"title", "select", "datalist", "button", "svg", "canvas", "iframe", "object", "audio", "video"}
# Noncharacters around the text of links, which no page may use.
_LINK, _END = "\ufdd0", "\ufdd1"
_LINKED = re.compile(f"({_LINK}|{_END})")
_BLOCK = re.compile(r"^(`{3,})\n.*?^\1$|[^\n]+", re.MULTILINE | re.DOTALL)  # code between fences, or a line
# On 628 pages of news, blogs, forums, a book and a museum two keep less, and both lost their text; the next one, with 0.107, is a thread of a forum whose
# first post is kept. Articles with many comments or teasers keep a sixth or more.
_LITTLE = 0.1
_MUCH_LOST = 500  # letters
_NEAR = 20_000  # letters; searching all of a long text for each block would take quadratic time


def blocks_beside(html: str, text: str) -> list[str]:
    """Blocks of a page that are not in its extracted `text`, as Markdown, in page order: paragraphs, headings, list items, rows, code.

    Left out are elements that are navigation by their tag, and blocks of which more than half is links. Only letters and digits are compared.
    """
    root = parse_page(html.replace(_LINK, "").replace(_END, "")) if html.strip() else None
    if root is None:
        return []
    drop_consent(root)
    for link in root.iter("a"):
        if link.get("href"):
            link.text = _LINK + (link.text or "")
            if len(link):
                link[-1].tail = (link[-1].tail or "") + _END
            else:
                link.text += _END
    kept = _Kept(text)
    return [block for block, said in _unlinked(write_tree(root, _SKIPPED)) if not kept.has(said)]


class _Kept:
    """The letters of an extracted text, for questions in page order: a block is one of its lines, or stands near the one that was found last."""

    def __init__(self, text: str) -> None:
        self._text = letters(text)
        self._lines = set(map(letters, text.split("\n")))
        self._place = 0

    def has(self, said: str) -> bool:
        if said in self._lines:
            return True
        found = self._text.find(said, max(0, self._place - _NEAR), self._place + _NEAR + len(said))
        self._place = found if found >= 0 else self._place
        return found >= 0


def _unlinked(written: str) -> Iterator[tuple[str, str]]:
    """Yields (block, its letters) for the blocks of which at most half of the letters are in links; a link may span several blocks."""
    is_link = False
    for found in _BLOCK.finditer(written):
        linked = 0
        for part in _LINKED.split(found[0]):
            if part in (_LINK, _END):
                is_link = part == _LINK
            elif is_link:
                linked += len(letters(part))
        block = _LINKED.sub("", found[0])
        if (said := letters(block)) and linked * 2 <= len(said):
            yield block, said


def keeps_little(text: str, beside: Iterable[str]) -> bool:
    """Whether an extracted text is less than a tenth of its page without navigation, and what was left out is more than a line or two."""
    kept, lost = len(letters(text)), sum(len(letters(block)) for block in beside)
    return lost >= _MUCH_LOST and kept < _LITTLE * (kept + lost)
