"""trafilatura as a witness of main text: its output confirms blocks, which are then taken from the page itself.

trafilatura recognises what surrounds a text well, but drops parts of articles that resemble it, and flattens what it
keeps.
"""

import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import lxml.html

from almanac.transforms.html.blocks import Block
from almanac.transforms.html.letters import letters, weight
from almanac.transforms.html.simplify import BLOCKS, has_blocks

_ITEMS = ("li", "td", "th", "dt", "dd")
_COVERED = 0.9  # of a line, by the blocks that it is made of
_SHORT_PAGE = 10_000  # letters
_SHORT = 40  # letters; shorter texts must be a whole block of the witness's, since `Home` also occurs in `homepage`


class Witness:
    """The main text that trafilatura found, as HTML."""

    def __init__(self, html: str) -> None:
        self.html = html
        tree = lxml.html.document_fromstring(html)
        self._whole = letters(tree.text_content())
        self._blocks = {
            letters("".join(element.itertext()))
            for element in tree.iter()
            if element.tag in BLOCKS and not has_blocks(element)
        }

    @property
    def size(self) -> int:
        """Its `weight`."""
        return weight(self._whole)

    def confirms(self, block: Block) -> bool:
        """Whether it has the block's text; for lists and tables, more than half of their items' text."""
        items = [item for item in block.element.iter(*_ITEMS) if not has_blocks(item)]
        if not items:
            return self._has(block.letters)
        texts = [text for item in items if (text := letters(item.text_content()))]
        return sum(len(text) for text in texts if self._has(text)) * 2 > sum(map(len, texts))

    def is_undivided(self, blocks: list[Block]) -> bool:
        """Whether it is one line, made of several of the page's blocks: what trafilatura falls back on where a page is
        short.
        """
        if len(self._blocks) > 1 or len(self._whole) > _SHORT_PAGE:
            return False
        parts = [block.letters for block in blocks if block.letters and block.letters in self._whole]
        return len(parts) > 1 and sum(map(len, parts)) >= _COVERED * len(self._whole)

    def _has(self, text: str) -> bool:
        return text in self._blocks or (len(text) >= _SHORT and text in self._whole)


def witness_of(root: Any) -> Witness | None:
    """What trafilatura finds in a parsed page; None if that is nothing.

    Its defaults measure best (docs/decisions/0009): favouring precision leaves single lines of long pages, favouring
    recall lets more boilerplate in.
    """
    bare_extraction, build_html_output = _trafilatura()
    html = lxml.html.tostring(root, encoding="unicode")
    for favor_recall in (False, True):
        # Not `extract`, which hashes the text for a fingerprint that nobody asked for, a fifth of all that mapping
        # takes.
        document = bare_extraction(
            html,
            output_format="html",
            include_formatting=True,
            include_tables=True,
            include_comments=False,
            favor_recall=favor_recall,
        )
        if document is not None and (written := unicodedata.normalize("NFC", build_html_output(document))):
            return Witness(written)
    return None


@cache
def _trafilatura() -> tuple[Callable[..., Any], Callable[[Any], str]]:
    """What extracts a document, and what writes it as HTML. The import takes .25 s."""
    from trafilatura import bare_extraction
    from trafilatura.htmlprocessing import build_html_output

    return bare_extraction, build_html_output
