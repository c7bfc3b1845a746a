"""Page furniture: blocks that most pages of a source have at the same place, before or after what each page says
itself.

A page alone does not tell its site's header from its own first lines, unless its tags do; the pages of a source
together do. The reasons are in docs/decisions/0009-main-text.md.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Item
from almanac.schemas.left_out import LeftOut
from almanac.transforms.html.edges import KEY, LINK, Edges, is_links, key_of, without_links
from almanac.transforms.html.letters import hash_of, letters

REASON = "page_furniture"
LEAST = 10  # pages; fewer tell nothing
SHARE = 0.9  # of the pages of a group have a block of furniture
# blocks above, or below, that no folder has, and that pages have in common which begin alike, or end alike: then these
# are a group
_TEMPLATE = 3
_GAP = "\n\n"  # between two blocks of a text
_CODE = "```"
_LEADS_ON = (":", "：")

_Keys = npt.NDArray[np.uint64]
_Place = tuple[int, str, str]  # length of its URL, URL, id of the document


class PageFurniture:
    """The furniture of one source, told in two walks through its pages: `note` each, `settle`, then `spare` each.
    `without` gives a document without it.

    Pages are compared with those of their folder of the site, with and without what lies in folders of it; with those
    of each folder above; and with those that begin, or end, with the same block, if they are of one template. Those of
    different workspaces, by the metadata field `workspace`, are never compared. Neither the order of the pages nor an
    earlier run makes a difference.

    Memory: 8 bytes for each block of the pages' edges, and for each folder of their URLs.
    """

    def __init__(self, workspace: str | None = None) -> None:
        self._workspace = workspace
        self._groups, self._tops, self._bottoms = _Lists(), _Lists(), _Lists()
        # of a group: keys above, and below, what pages say themselves
        self._furniture: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        self._spared: dict[int, _Place] = {}  # hash of a block → the document that keeps it

    def __bool__(self) -> bool:
        return bool(self._furniture)

    def note(self, item: Item, edges: Edges | None) -> None:
        """Takes in a document; one whose text is no main text of a page has no edges."""
        if edges is not None:
            self._groups.add(_groups_of(item.url, self._belongs(item), edges))
            self._tops.add(edges.top)
            self._bottoms.add(edges.bottom)

    def settle(self) -> None:
        """Decides which blocks are furniture, and forgets the pages."""
        pages, groups = self._groups.pairs()
        order = np.argsort(groups, kind="stable")
        named, starts, sizes = (
            numbers.tolist() for numbers in np.unique(groups[order], return_index=True, return_counts=True)
        )
        standing = {}
        for group, start, size in zip(named, starts, sizes, strict=True):
            if size >= LEAST:
                members = np.sort(pages[order[start : start + size]])
                standing[group] = (
                    _standing(*self._tops.keys_of(members), SHARE * size),
                    _standing(*self._bottoms.keys_of(members), SHARE * size),
                )
        of_folders = [
            frozenset[int]().union(*(keys[side] for group, keys in standing.items() if not _is_template(group)))
            for side in (0, 1)
        ]
        for group, keys in standing.items():
            if not _is_template(group) or any(len(keys[side] - of_folders[side]) >= _TEMPLATE for side in (0, 1)):
                self._furniture[group] = keys
        self._groups, self._tops, self._bottoms = _Lists(), _Lists(), _Lists()

    def spare(self, item: Item, edges: Edges | None) -> None:
        """Takes in a document once more: a block that is no menu stays in the one with the shortest URL, so that no
        answer is lost.
        """
        links = (
            frozenset(without_links(key) for key in (*edges.top, *edges.bottom) if is_links(key))
            if edges is not None
            else frozenset()
        )
        for block in self._divided(item, edges).furniture:
            if any(
                key_of(line_letters, is_heading=is_heading) not in links
                for line_letters, is_heading in _lines_of(block)
            ):
                place, known = _place_of(item), self._hash_of(letters(block), item)
                self._spared[known] = min(place, self._spared.get(known, place))

    def without(self, item: Item, edges: Edges | None, left_out: LeftOut | None = None) -> Item:
        """The document without the furniture at its beginning and its end, which `left_out` counts."""
        divided = self._divided(item, edges)
        above, below = (
            [block for block in blocks if self._is_spared(block, item)] for blocks in (divided.above, divided.below)
        )
        if len(above) + len(below) == len(divided.furniture):
            return item
        for block in divided.furniture:
            if left_out is not None and not self._is_spared(block, item):
                left_out.add(REASON, block)
        return replace(item, text=_GAP.join([*divided.title, *above, *divided.rest, *below]))

    def _divided(self, item: Item, edges: Edges | None) -> "_Divided":
        groups = [] if edges is None or not self._furniture else _groups_of(item.url, self._belongs(item), edges)
        furniture = [self._furniture[group] for group in groups if group in self._furniture]
        if edges is None or not furniture:
            return _Divided([], [], [item.text], [])
        above, below = (
            _Region(edge, [keys[side] for keys in furniture]) for side, edge in enumerate((edges.top, edges.bottom))
        )
        return _divide(item.text, above.holds, below.holds)

    def _is_spared(self, block: str, item: Item) -> bool:
        return self._spared.get(self._hash_of(letters(block), item)) == _place_of(item)

    def _hash_of(self, block_letters: str, item: Item) -> int:
        return hash_of(f"{self._belongs(item)} {block_letters}")

    def _belongs(self, item: Item) -> str:
        return "" if self._workspace is None else canonical_json(item.metadata.get(self._workspace))


class _Lists:
    """Lists of keys, one for each page, end to end."""

    def __init__(self) -> None:
        self._keys = array("Q")
        self._ends = array("q", [0])

    def add(self, keys: Iterable[int]) -> None:
        self._keys.extend(keys)
        self._ends.append(len(self._keys))

    def pairs(self) -> tuple[npt.NDArray[np.int64], _Keys]:
        """(page, key) for all of them, as two arrays."""
        ends = np.frombuffer(self._ends, dtype=np.int64)
        return np.repeat(np.arange(len(ends) - 1), np.diff(ends)), np.array(self._keys, dtype=np.uint64)

    def keys_of(self, pages: npt.NDArray[np.int64]) -> tuple[_Keys, npt.NDArray[np.int64]]:
        """The keys of some pages, and how many each page has."""
        ends = np.frombuffer(self._ends, dtype=np.int64)
        sizes = ends[pages + 1] - ends[pages]
        rows = np.arange(sizes.sum()) + np.repeat(ends[pages] - (np.cumsum(sizes) - sizes), sizes)
        return np.frombuffer(self._keys, dtype=np.uint64)[rows], sizes


def _standing(keys: _Keys, sizes: npt.NDArray[np.int64], least: float) -> frozenset[int]:
    """_Keys that stand in at least so many edges before the first block that is neither such a key nor links. No edge
    has a key twice.
    """
    plain, are_links = keys & np.uint64(KEY), (keys & np.uint64(LINK)) > 0
    starts = np.cumsum(sizes) - sizes
    before, count = np.ones(len(keys), dtype=bool), -1
    while True:
        distinct, counts = np.unique(plain[before], return_counts=True)
        shared = distinct[counts >= least]
        if len(shared) == count:
            return frozenset(shared.tolist())
        count = len(shared)
        own = np.concatenate([[0], np.cumsum(~(np.isin(plain, shared) | are_links))])
        before = own[1:] == np.repeat(own[starts], sizes)


def _groups_of(url: str, workspace: str, edges: Edges) -> list[int]:
    """The folder that a page lies in, all that this lies in, and what the page begins and ends with; of its
    workspace.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # a declared `url` of an item may be none, such as `http://[1/`: it lies in no folder
        parts = urlsplit("")
    folders = parts.path.split("/")[:-1]
    # the first: without folders in it
    paths = [["/".join(folders)], *("/".join(folders[:depth]) for depth in range(len(folders) + 1))]
    outermost = [
        (side, without_links(edge[0])) for side, edge in (("top", edges.top), ("bottom", edges.bottom)) if edge
    ]
    named = [hash_of(canonical_json([workspace, parts.scheme, parts.netloc, path])) & ~1 for path in paths]
    return [*dict.fromkeys(named), *(hash_of(canonical_json([workspace, side, key])) | 1 for side, key in outermost)]


def _is_template(group: int) -> bool:
    """Whether a group is that of pages which begin, or end, alike."""
    return bool(group & 1)


def _place_of(item: Item) -> _Place:
    return len(item.url), item.url, item.document_id


class _Region:
    """The part of a page from one of its ends to the first block of its own that is no line of links; `furniture` are
    the keys that its groups have there.
    """

    def __init__(self, edge: Sequence[int], furniture: Sequence[frozenset[int]]) -> None:
        self._inside: set[int] = set()
        self._outside: set[int] = set()
        is_over = not furniture
        for key in edge:
            plain = without_links(key)
            is_shared = not is_over and any(plain in keys for keys in furniture)
            is_over = is_over or not (is_shared or is_links(key))
            (self._inside if is_shared else self._outside).add(plain)

    def holds(self, block: str) -> bool | None:
        """Whether all lines of a block are furniture there, and none stands again beyond it, as a page's title that a
        menu names; None if it says nothing.
        """
        lines = _lines_of(block)
        return (
            None
            if not lines
            else _CODE not in block and all(self._holds(line_letters, is_heading) for line_letters, is_heading in lines)
        )

    def _holds(self, line_letters: str, is_heading: bool) -> bool:
        number = 0
        while (key := key_of(line_letters, is_heading=is_heading, number=number)) in self._inside:
            number += 1
        return number > 0 and key not in self._outside


@dataclass(frozen=True, slots=True)
class _Divided:
    """The blocks of a text: `rest` without the furniture `above` and `below`; `title` is the page's own heading, if it
    stands before furniture.
    """

    title: list[str]
    above: list[str]
    rest: list[str]
    below: list[str]

    @property
    def furniture(self) -> list[str]:
        return [*self.above, *self.below]


def _divide(text: str, is_above: Callable[[str], bool | None], is_below: Callable[[str], bool | None]) -> _Divided:
    """Takes furniture off both ends of a text, if more than headings is left.

    A heading, or a line that ends with a colon, is not parted from what it leads to: it stays above a text that stays,
    and below one that stays, so does its text. But the heading of a whole page above a text is the site's name.
    """
    blocks = text.split(_GAP)
    begin = 1 if _is_heading(blocks[0]) and not is_above(blocks[0]) else 0
    first = begin + _run(blocks[begin:], is_above)
    while (
        begin < first < len(blocks)
        and _leads_on(blocks[first - 1])
        and not blocks[first - 1].startswith("# ")
        and not _is_heading(blocks[first])
    ):
        first -= 1
    last = len(blocks) - _run(reversed(blocks[first:]), is_below)
    while first < last < len(blocks) and _leads_on(blocks[last - 1]) and not _is_heading(blocks[last]):
        last += 1
    if all(map(_is_heading, blocks[first:last])):
        return _Divided([], [], blocks, [])
    return _Divided(blocks[:begin], blocks[begin:first], blocks[first:last], blocks[last:])


def _run(blocks: Iterable[str], is_furniture: Callable[[str], bool | None]) -> int:
    """How many blocks are furniture, until one is not; those that say nothing, such as a line, count if furniture
    follows.
    """
    length = 0
    for number, block in enumerate(blocks, start=1):
        if (belongs := is_furniture(block)) is False:
            break
        length = number if belongs else length
    return length


def _lines_of(block: str) -> list[tuple[str, bool]]:
    """The letters of each line that has some, and whether it is a heading."""
    return [(line_letters, line.startswith("#")) for line in block.split("\n") if (line_letters := letters(line))]


def _is_heading(block: str) -> bool:
    return block.startswith("#")


def _leads_on(block: str) -> bool:
    return _is_heading(block) or block.endswith(_LEADS_ON)
