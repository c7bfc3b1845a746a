"""The outer blocks of a page, as hashes: what the pages of a source begin and end with
(transforms/page_furniture.py).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from almanac.transforms.html.blocks_beside import UNREAD, blocks_in
from almanac.transforms.html.letters import hash_of, weight

_REACH = 1000  # letters that are no links: an edge ends with the block that reaches them
_BLOCKS = 128  # of an edge, at most
LINK = 1  # the last bit of a key in an edge: whether most of the block is links
KEY = 2**48 - 2  # what keys keep of a hash: 48 bits, but for the last one


@dataclass(frozen=True, slots=True)
class Edges:
    """The first blocks of a page, and its last ones, the outermost first: as keys, and the last bit of each tells
    whether it is links.

    A block that stands in an edge for the second time has another key than the first one: the title of a page is not
    the entry of a menu that it equals.
    """

    top: list[int] = field(default_factory=list)
    bottom: list[int] = field(default_factory=list)


def edges_of(page: Any) -> Edges:
    """The edges of a marked page (`marked_page`), with all that its main text may hold: also navigation, headers,
    footers and controls.
    """
    if page is None:
        return Edges()
    blocks = [
        (block_letters, block.startswith("#"), is_links) for block, block_letters, is_links in blocks_in(page, UNREAD)
    ]
    return Edges(_edge(blocks), _edge(reversed(blocks)))


def key_of(block_letters: str, *, is_heading: bool, number: int = 0) -> int:
    """The key of a block with these letters that stands in an edge for the `number`-th time, counted from 0; an even
    number.
    """
    return hash_of(f"{number if number else ''}{'#' if is_heading else ' '}{block_letters}") & KEY


def without_links(key: int) -> int:
    """The key of a block in an edge, whether or not it is links there."""
    return key & KEY


def is_links(key: int) -> bool:
    """Whether most of the block is links, as its key in an edge says."""
    return bool(key & LINK)


def _edge(blocks: Iterable[tuple[str, bool, bool]]) -> list[int]:
    keys: list[int] = []
    seen = Counter[tuple[str, bool]]()
    letters = 0
    for block_letters, is_heading, is_linked in blocks:
        keys.append(
            key_of(block_letters, is_heading=is_heading, number=seen[block_letters, is_heading])
            | (LINK if is_linked else 0)
        )
        seen[block_letters, is_heading] += 1
        letters += 0 if is_linked else weight(block_letters)
        if letters >= _REACH or len(keys) == _BLOCKS:
            break
    return keys
