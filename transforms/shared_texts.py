"""Tells apart the pages of a source whose main texts are equal: copies of one page, and different pages of which
extraction found the same sentence.

Of different pages, each keeps its main text and what else it alone says, so that a search finds it
(docs/decisions/0009-main-text.md).
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from almanac.core.digests import as_digests, digest_of_parts
from almanac.schemas.crawl_outcome import SharedText
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Item
from almanac.schemas.left_out import characters_in
from almanac.transforms.sentence_hashes import sentences_of

OWN = 200  # characters of other text that make a page one of its own
_DIGEST = 16  # bytes
_FEW = 0.1  # of the pages that share a main text; what stands on more of them is no page's own
# An item with the blocks beside its main text; None where its text is not the main text of a page.
Read = tuple[Item, Sequence[str] | None]


@dataclass(slots=True)
class _Page:
    """A page in question. `sentences` are the hashes of those beside its main text, `sizes` their characters."""

    number: int
    url: str
    document_id: str
    sentences: array = field(default_factory=lambda: array("Q"))  # type: ignore[type-arg]
    sizes: array = field(default_factory=lambda: array("I"))  # type: ignore[type-arg]

    def beyond(self, other: "_Page", counted: Callable[[int], bool]) -> int:
        """Characters of its counted sentences that are not on the other page."""
        there = frozenset(other.sentences)
        return sum(
            size
            for sentence, size in zip(self.sentences, self.sizes, strict=True)
            if counted(sentence) and sentence not in there
        )


class SharedTexts:
    """The pages of one source, in three walks in the same order: `note` each, `settle` what is in question, and take
    what is left from `told_apart`.

    Pages of different workspaces, by the metadata field `workspace`, are compared no more than those of different
    sources.

    Memory: a hash for each page; for pages whose main text is that of a different page, and then for the others too, a
    hash for each sentence.
    """

    def __init__(self, workspace: str | None = None) -> None:
        self.shared_texts: list[SharedText] = []
        self.given_back = 0  # characters that main texts have got of what stands beside them
        self._workspace = workspace
        self._count = 0
        self._numbers = array("q")  # of the pages with a main text; below, hashes of it, and of what is beside it
        self._texts = bytearray()
        self._side_digests = bytearray()
        self._equals: dict[int, _Page] = {}
        self._own: dict[int, frozenset[int]] = {}

    def note(self, item: Item, side_blocks: Sequence[str] | None) -> None:
        """Takes in a page."""
        if side_blocks is not None:
            self._numbers.append(self._count)
            self._texts += digest_of_parts([item.text, self._belongs(item)], _DIGEST)
            self._side_digests += digest_of_parts(side_blocks, _DIGEST)
        self._count += 1

    def settle(self, pages: Callable[[], Iterable[Read]]) -> None:
        """Decides which pages are copies of which. `pages` gives all pages once more, and is called only if pages with
        equal main text differ.
        """
        groups = self._groups()
        if not groups:
            return
        in_question = {number for numbers in groups for number in numbers}
        every, read = array("Q"), dict[int, _Page]()
        for number, (item, side_blocks) in enumerate(pages()):
            main, other = self._sentences(item, item.text), self._sentences(item, "\n".join(side_blocks or ()))
            every.extend(main.keys() | other.keys())
            if number in in_question:
                left = {sentence: size for sentence, size in other.items() if sentence not in main}
                read[number] = _Page(
                    number, item.url, item.document_id, array("Q", left.keys()), array("I", left.values())
                )
        standing = dict.fromkeys((sentence for page in read.values() for sentence in page.sentences), 0)
        for sentence in every:
            if sentence in standing:
                standing[sentence] += 1
        for numbers in groups:
            self._settle_group([read[number] for number in numbers], standing)
        self.shared_texts.sort(key=lambda shared_text: (-shared_text.pages, shared_text.urls))

    def _groups(self) -> list[list[int]]:
        """Numbers of the pages that share a main text but not all that is beside it, in the order of the first page of
        each text; forgets the hashes.
        """
        texts, side_digests = (as_digests(raw, _DIGEST) for raw in (self._texts, self._side_digests))
        order = np.argsort(texts, kind="stable")
        bounds = np.flatnonzero(texts[order][1:] != texts[order][:-1]) + 1
        rows = sorted(
            (
                group.tolist()
                for group in np.split(order, bounds)
                if len(group) > 1 and (side_digests[group] != side_digests[group[0]]).any()
            ),
            key=min,
        )
        groups = [[self._numbers[row] for row in group] for group in rows]
        del self._numbers[:]
        self._texts, self._side_digests = bytearray(), bytearray()
        return groups

    def told_apart(self, pages: Iterable[Read], drop: Callable[[Item, str, str], None]) -> Iterator[Item]:
        """Yields the pages without copies of different pages; those are passed to `drop` with URL and id of the one
        that is kept.

        Pages whose main text is that of a different one get their own blocks. Copies of a page that shares its text
        with no different one are left in.
        """
        for number, (item, side_blocks) in enumerate(pages):
            if (equal := self._equals.get(number)) is not None:
                drop(item, equal.url, equal.document_id)
            elif (own := self._own.get(number)) is not None:
                text = _joined(item.text, _own_blocks(side_blocks or (), own, partial(self._sentences, item)))
                self.given_back += characters_in(text) - characters_in(item.text)
                yield replace(item, text=text)
            else:
                yield item

    def _belongs(self, item: Item) -> str:
        return "" if self._workspace is None else canonical_json(item.metadata.get(self._workspace))

    def _sentences(self, item: Item, text: str) -> dict[int, int]:
        """Hash of each sentence → its characters. In another workspace, the same sentence has another hash."""
        sizes = sentences_of(text)
        if self._workspace is None:
            return sizes
        own = int.from_bytes(digest_of_parts([self._belongs(item)], 8))
        return {sentence ^ own: size for sentence, size in sizes.items()}

    def _settle_group(self, pages: list[_Page], standing: dict[int, int]) -> None:
        here = Counter(sentence for page in pages for sentence in page.sentences)

        def counts(sentence: int) -> bool:
            """Whether it stands on no page of another main text, and not on all pages of this one: then it is not the
            site's.
            """
            return standing[sentence] == here[sentence] < len(pages)

        copies = _copies(pages, here, counts)
        originals = [page for page in pages if page.number not in copies]
        if len(originals) < 2:
            return  # copies of one page, as different as their headers are
        copies = _with_first_of_equals(originals, copies, pages, counts)
        originals = [page for page in pages if page.number not in copies]
        same = defaultdict[int, list[_Page]](list)
        for page in pages:
            same[copies.get(page.number, page).number].append(page)
        left = Counter(
            sentence
            for equals in same.values()
            for sentence in {sentence for page in equals for sentence in page.sentences}
        )
        for page in originals:
            counted = frozenset(filter(counts, page.sentences))
            self._own[page.number] = (
                frozenset(sentence for sentence in counted if left[sentence] <= max(1, _FEW * len(originals)))
                or counted
            )
        self._equals |= copies
        self.shared_texts.append(SharedText(pages=len(originals), urls=[page.url for page in originals[:2]]))


def _copies(pages: list[_Page], here: Counter[int], counts: Callable[[int], bool]) -> dict[int, _Page]:
    """Number of a copy → the page that it is a copy of: one with the same id, or that has all of it but less than 200
    characters.

    Pages with more text come first, so that the order in which they came does not matter. A page is only compared with
    those that have one of its rarest sentences, as many as make 200 characters: without them, it is no copy.
    """
    copies: dict[int, _Page] = {}
    first: _Page | None = None
    by_id: dict[str, _Page] = {}
    by_sentence: dict[int, list[_Page]] = defaultdict(list)
    counted = {
        page.number: sum(size for sentence, size in zip(page.sentences, page.sizes, strict=True) if counts(sentence))
        for page in pages
    }
    for page in sorted(pages, key=lambda page: (-counted[page.number], page.number)):
        rarest = sorted(
            (here[sentence], sentence, size)
            for sentence, size in zip(page.sentences, page.sizes, strict=True)
            if counts(sentence)
        )
        original = by_id.get(page.document_id)
        if original is None and counted[page.number] < OWN:
            original = first
        if original is None:
            original = next(
                (other for other in _sharing(rarest, by_sentence) if page.beyond(other, counts) < OWN), None
            )
        if original is not None:
            copies[page.number] = original
            continue
        first = first or page
        by_id[page.document_id] = page
        for count, sentence, _ in rarest:
            if count > 1:
                by_sentence[sentence].append(page)
    return copies


def _sharing(rarest: list[tuple[int, int, int]], by_sentence: dict[int, list[_Page]]) -> Iterator[_Page]:
    """Yields the pages that have one of the rarest sentences (pages that have it, hash, characters), each once."""
    seen: set[int] = set()
    size = 0
    for _, sentence, characters in rarest:
        for page in by_sentence.get(sentence, ()):
            if page.number not in seen:
                seen.add(page.number)
                yield page
        size += characters
        if size >= OWN:
            return


def _with_first_of_equals(
    originals: list[_Page], copies: dict[int, _Page], pages: list[_Page], counts: Callable[[int], bool]
) -> dict[int, _Page]:
    """The copies, where of pages that have all of each other the one that came first is kept: sizes differ from run to
    run by a counter or a date.
    """
    first = {page.number: page for page in originals}
    for page in pages:
        original = copies.get(page.number)
        if original is not None and page.number < first[original.number].number and original.beyond(page, counts) < OWN:
            first[original.number] = page
    chosen = {page.number for page in first.values()}
    every = {**{page.number: page for page in originals}, **copies}
    return {number: first[original.number] for number, original in every.items() if number not in chosen}


def _own_blocks(
    side_blocks: Sequence[str], own: frozenset[int], sentences: Callable[[str], dict[int, int]]
) -> list[str]:
    """The blocks with a sentence of the page's own, and headings directly above them, whoever else has them."""
    chosen = [not own.isdisjoint(sentences(block)) for block in side_blocks]
    for place in range(len(side_blocks) - 2, -1, -1):
        chosen[place] |= chosen[place + 1] and side_blocks[place].startswith("#")
    return [block for block, is_own in zip(side_blocks, chosen, strict=True) if is_own]


def _joined(text: str, blocks: Iterable[str]) -> str:
    """The text and the blocks below it: list items and rows on adjacent lines, other blocks after an empty line."""
    parts = [text]
    for block in blocks:
        parts.append(("\n" if _is_line(block) and _is_line(parts[-1].lstrip("\n")) else "\n\n") + block)
    return "".join(parts)


def _is_line(block: str) -> bool:
    return block.lstrip().startswith("- ") or (" | " in block and "\n" not in block)
