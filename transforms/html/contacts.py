"""Addresses and numbers below or beside a text: cards of a team, lines with a mail address, which an extraction takes
for what surrounds a text.
"""

import re
from collections import Counter, defaultdict
from typing import Any

from almanac.transforms.html.blocks import Block

_MOST = 30  # blocks of a card; a box with more is no card
_SHORT = 100  # letters: a line of a card
_ADDRESS = re.compile(r"\s*mailto:\s*([^@?\s]+)", re.IGNORECASE)
_HOLDERS = ("main", "article")


def add_contacts(blocks: list[Block]) -> None:
    """Adds blocks with links to an address or a number that stand in the box of the main text, each with the short
    lines of its own box or card.
    """
    home = _home(blocks)
    inside = [block for block in blocks if home is not None and home in block.above]
    lines = defaultdict(list)
    for block in inside if any(block.contacts for block in inside) else ():
        for box in block.above[: block.above.index(home)]:
            lines[box].append(block)
    several = _Several()
    for block in inside:
        if not block.contacts or not _is_text(block, home):
            continue
        boxes = block.above[: block.above.index(home)]
        card = next((box for box in reversed(boxes) if several.has(box)), None)
        if not (block.is_main or card is not None or any(map(_is_shown, block.contacts))):
            continue  # `Write to us` tells nobody where
        if card is not None:
            _add_lines(lines.pop(card, []), home, is_card=True)
        elif not block.is_main:
            _add_lines([block, *(lines.pop(block.parent, []) if boxes else ())], home, is_card=False)


def _add_lines(lines: list[Block], home: Any, *, is_card: bool) -> None:
    if len(lines) > _MOST:
        lines = [line for line in lines if line.contacts]
    for number, line in enumerate(lines):
        is_name = is_card and not number  # which may lead to a page of its own
        if (is_name or not line.is_links) and line.size < _SHORT and _is_text(line, home):
            line.is_main = True


def _home(blocks: list[Block]) -> Any:
    """The innermost element with all of the main text, or the <main> or <article> around it; None if that is the whole
    page.
    """
    main = [block for block in blocks if block.is_main]
    held = Counter(element for block in main for element in block.above)
    home = next((element for element in (main[0].above if main else ()) if held[element] == len(main)), None)
    if home is None:
        return None
    holder = next(
        (
            element
            for element in (home, *home.iterancestors())
            if element.tag in _HOLDERS or element.get("role") == "main"
        ),
        home,
    )
    return None if holder.tag in ("body", "html") else holder


def _is_text(block: Block, home: Any) -> bool:
    """Whether nothing between it and `home` says that it surrounds a text."""
    return not (block.side_tags or block.is_around or block.is_suspect_in(home))


def _is_shown(link: Any) -> bool:
    """Whether an address or a number can be read, not only followed."""
    text = link.text_content()
    name = _ADDRESS.match(link.get("href") or "")
    return sum(map(str.isdigit, text)) > 3 or (name is not None and name[1].casefold() in text.casefold())


class _Several:
    """Tells boxes that have others of the same tag and class beside them: the cards of a team."""

    def __init__(self) -> None:
        self._kinds: dict[Any, Counter[Any]] = {}

    def has(self, box: Any) -> bool:
        parent = box.getparent()
        if parent not in self._kinds:
            self._kinds[parent] = Counter((child.tag, child.get("class")) for child in parent)
        return self._kinds[parent][box.tag, box.get("class")] > 1
