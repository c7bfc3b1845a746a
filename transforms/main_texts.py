"""The main texts of a source's pages, as only all of them together tell: without the furniture of their site, and apart
where they are equal.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from almanac.schemas.crawl_outcome import SharedText
from almanac.schemas.items import Item
from almanac.schemas.left_out import LeftOut
from almanac.transforms.html.edges import Edges
from almanac.transforms.page_furniture import PageFurniture
from almanac.transforms.shared_texts import Read, SharedTexts

# An item with the blocks beside its main text and the edges of its page; None where its text is not the main text of a
# page.
WholeRead = tuple[Item, Sequence[str] | None, Edges | None]


class MainTexts:
    """The pages of one source: `note` each, then take what is left from `reduce_items`, which walks through them
    again. Order and memory as for its parts.

    Pages of different workspaces, by the metadata field `workspace`, are compared no more than those of different
    sources.
    """

    def __init__(self, workspace: str | None = None) -> None:
        self.left_out = LeftOut()
        self._workspace = workspace
        self._furniture = PageFurniture(workspace)
        self._shared = SharedTexts(workspace)

    @property
    def shared_texts(self) -> list[SharedText]:
        """Main texts that different pages have in common."""
        return self._shared.shared_texts

    @property
    def given_back(self) -> int:
        """Characters that texts have got of what stands beside them."""
        return self._shared.given_back

    def note(self, item: Item, side_blocks: Sequence[str] | None, edges: Edges | None) -> None:
        """Takes in a page."""
        self._furniture.note(item, edges)
        self._shared.note(item, side_blocks)

    def reduce_items(
        self, pages: Callable[[], Iterable[WholeRead]], drop: Callable[[Item, str, str], None]
    ) -> Iterator[Item]:
        """Yields the items, without furniture, which is counted in `left_out`. `pages` gives all pages once more;
        `drop` is as in `SharedTexts.told_apart`.
        """
        self._furniture.settle()
        if self._furniture:
            for item, _, edges in pages():
                self._furniture.spare(item, edges)
            self._shared = SharedTexts(self._workspace)  # other texts are equal without it
            for item, side_blocks in self._bare(pages()):
                self._shared.note(item, side_blocks)
        self._shared.settle(lambda: self._bare(pages()))
        last: list[tuple[Item, Edges | None]] = []
        for item in self._shared.told_apart(self._bare(pages(), last), drop):
            whole, edges = last[0]
            self._furniture.without(whole, edges, self.left_out)
            # a page of nothing but furniture may have got its own text
            yield self._furniture.without(item, edges, self.left_out)

    def _bare(self, pages: Iterable[WholeRead], last: list[tuple[Item, Edges | None]] | None = None) -> Iterator[Read]:
        """Each page without furniture. `last` gets the one that was yielded last, as it came."""
        for item, side_blocks, edges in pages:
            if last is not None:
                last[:] = [(item, edges)]
            yield self._furniture.without(item, edges), side_blocks
