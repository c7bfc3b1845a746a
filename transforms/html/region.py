"""The region of a page that holds its main text, told from the page's structure.

Where nearly nothing in the region is a link, as in documentation, all of it is main text: trafilatura finds half of
such pages, since their notes, synopses and short steps resemble boilerplate. A region with code or definitions is
documentation even if nearly all of it is confirmed; one with code may have more links.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from almanac.transforms.html.blocks import Block
from almanac.transforms.html.simplify import DEFINITIONS

# Shares of letters, measured on news, shops, blogs and documentation: docs/decisions/0009.
_HOLDERS = ("main", "article")
_HOLDS = 0.7  # of the confirmed text is inside the region
_COVERS = 0.7  # of the page's prose is confirmed inside the region; below, the region grows
_GROWS = 0.8  # of what a larger region adds is no link
_PURE = 0.97  # of the region is no link
_PURE_WITH_CODE = 0.7  # of a region with code is no link: documentation links the names of types and functions
_CERTAIN = 0.9  # of a region without code or definitions is confirmed; above, the witness is believed


def add_region(blocks: list[Block]) -> bool:
    """Marks what belongs to the region as main text, and returns whether there was such a region."""
    region = _region(blocks)
    if region is None:
        return False
    inside, _ = _split(blocks, region)
    is_reference = _is_reference(inside)
    is_certain = not is_reference and _letters(block for block in inside if block.is_found) >= _CERTAIN * _letters(
        inside
    )
    if not _is_pure(inside) or is_certain:
        return False
    for block in inside:
        is_foreign = block.side_tags or block.is_surrounding or (block.is_in_figure and not is_reference)
        if not is_foreign and (not block.is_links or (is_reference and block.is_heading)):
            block.is_main = True
    return True


def _is_reference(blocks: list[Block]) -> bool:
    """Whether there is code or a list of definitions among them."""
    return _has_code(blocks) or any(
        DEFINITIONS in element.attrib for block in blocks for element in block.element.iter("ul")
    )


def _has_code(blocks: list[Block]) -> bool:
    return any(True for block in blocks for _ in block.element.iter("pre"))


def _is_pure(blocks: list[Block]) -> bool:
    return _purity(blocks) >= (_PURE_WITH_CODE if _has_code(blocks) else _PURE)


def _region(blocks: list[Block]) -> Any:
    """The innermost element with most of the confirmed text; a larger one if the page has much other prose and the
    larger one adds hardly any links.

    It grows to the <main> or <article> around it if that is a reference and hardly any of it is links, however long the
    confirmed text is.
    """
    region = _common_element([block for block in blocks if block.is_found])
    if region is None:
        return None
    prose = _letters(block for block in blocks if block.is_prose)
    while region.tag != "body" and (larger := region.getparent()) is not None:
        inside, outside = _split(blocks, region)
        if _letters(block for block in inside if block.is_found) >= _COVERS * prose:
            break
        added = [block for block in outside if larger in block.above]
        if added and _purity(added) < _GROWS:
            break
        region = larger
    for holder in [region, *region.iterancestors()]:
        if (
            (holder.tag in _HOLDERS or holder.get("role") == "main")
            and _is_reference(inside := _split(blocks, holder)[0])
            and _is_pure(inside)
        ):
            return holder
    return region


def _common_element(blocks: list[Block]) -> Any:
    held: Counter[Any] = Counter()
    depth: dict[Any, int] = {}
    for block in blocks:
        for height, element in enumerate(block.above):
            held[element] += block.size
            depth[element] = len(block.above) - height
    wanted = _HOLDS * _letters(blocks)
    return max((element for element, size in held.items() if size >= wanted), key=depth.__getitem__, default=None)


def _split(blocks: list[Block], region: Any) -> tuple[list[Block], list[Block]]:
    inside: list[Block] = []
    outside: list[Block] = []
    for block in blocks:
        (inside if region in block.above else outside).append(block)
    return inside, outside


def _letters(blocks: Iterable[Block]) -> int:
    return sum(block.size for block in blocks)


def _purity(blocks: list[Block]) -> float:
    """The share of letters in blocks that are neither links nor beside the text, tables of contents aside; 1 if there
    are none.
    """
    counted = [block for block in blocks if not block.is_contents]
    return (
        _letters(block for block in counted if not (block.is_links or block.side_tags)) / (_letters(counted) or 1)
        if counted
        else 1.0
    )
