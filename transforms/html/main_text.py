"""Selects the blocks of a page that are its main text: what trafilatura finds, corrected by the page's own structure.

Documents are corrected by their region, everything else by the neighbourhood of what was found: openings, gaps, endings
and headings are added; tables of contents, lines that are one link and headings without a text below are taken away.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import lxml.html

from almanac.schemas.left_out import LeftOut
from almanac.transforms.html.around import mark_around
from almanac.transforms.html.blocks import LISTS, Block, blocks_of
from almanac.transforms.html.contacts import add_contacts
from almanac.transforms.html.letters import letters
from almanac.transforms.html.markdown_writer import one_line
from almanac.transforms.html.region import add_region
from almanac.transforms.html.simplify import simplify
from almanac.transforms.html.witness import Witness, witness_of

_CONFIRMED = 0.8  # of the witness's letters; with less, the page cannot be divided as the witness did
_WHOLE = 0.9  # of the page's letters; a witness with more told nothing apart
_LONG = 100  # letters: a paragraph of its own, rather than a label or a line of a widget
_OPENING = 80
_LABEL = 20
_SHORT = 60
_LISTING = 0.2  # of the main text's letters are in links: it is no article, and its links are what it says
_HOST = re.compile(r"(?:https?:)?//([^/?#]+)", re.IGNORECASE)
_IS_URL = re.compile(r"(?<!\w)(?:https?://|www\.)")
_NOTICE = re.compile(r"©|\(c\)|copyright\b", re.IGNORECASE)
_LEADS_ON = (":", "?", "…")


def main_tree(root: Any, heading: str, left_out: LeftOut) -> Any:
    """The page reduced to its main text and simplified, in place; None if there is no main text.

    What it is reduced by is tallied in `left_out`, without its `heading`, which is written above any text.

    If the page's blocks cover less than 80 % of what trafilatura found, all prose of the page is kept; if that is less
    than half or more than twice as much, as where a text is not divided into blocks, trafilatura's own tree is
    returned, despite what it loses. But if that is the whole page with its navigation, its prose is kept, and of a page
    that is mostly links, those that are no navigation.
    """
    witness = witness_of(root)
    simplify(root)
    blocks = blocks_of(root)
    mark_around(blocks)
    witness_size = witness.size if witness is not None else 0
    outside = _select(blocks, witness) if witness is not None else 0
    if (
        not witness_size
        or _letters(block for block in blocks if block.is_found or block.is_main) + outside < _CONFIRMED * witness_size
    ):
        for block in blocks:
            block.is_main = _is_left(block)
        for below, block in pairwise(blocks[::-1]):  # cards: the title of each is a link
            if (
                below.is_main
                and block.is_heading
                and below.parent is block.parent
                and not (block.side_tags or block.is_surrounding)
            ):
                block.is_main = True
        _leave_trailing(blocks)
        is_whole = _WHOLE * _letters(blocks) < witness_size <= _letters(blocks) / _WHOLE
        if witness is not None and (is_whole or witness.is_undivided(blocks)):
            if 2 * _letters(block for block in blocks if block.is_links) >= _letters(blocks) or all(
                block.is_heading for block in blocks if block.is_main
            ):
                _keep_links(blocks, _title(root))
                _leave_trailing(blocks)
        elif (
            witness is not None
            and not witness_size / 2 <= _letters(block for block in blocks if block.is_main) <= 2 * witness_size
        ):
            _tally((block for block in blocks if not block.is_found), heading, left_out)
            return lxml.html.document_fromstring(witness.html)
    left = [block for block in blocks if not block.is_main]
    _tally(left, heading, left_out)
    for block in left:
        block.element.drop_tree()
    return root if len(left) < len(blocks) else None


def _tally(left: Iterable[Block], heading: str, left_out: LeftOut) -> None:
    """Tallies blocks: paragraphs that neither tags nor names call navigation or the like as `prose_beside` the main
    text, all others as `page_furniture`.
    """
    for block in left:
        if block.element.tag != "h1" or one_line(block.text) != heading:
            is_prose = block.size >= _LONG and not block.is_links and not _stands_around(block)
            text = " ".join(block.element.itertext()) if block.element.tag in (*LISTS, "table") else block.text
            left_out.add("prose_beside" if is_prose else "page_furniture", text)


def _is_left(block: Block) -> bool:
    """Whether it stays where no witness helps: it is neither links nor beside or around a text."""
    return not (block.is_links or _stands_around(block))


def _stands_around(block: Block) -> bool:
    return bool(block.side_tags) or block.is_surrounding or block.is_around


def _keep_links(blocks: list[Block], title: str) -> None:
    """Of a page that is mostly links, keeps those below its heading; if nothing else is left, all that do not stand
    around it, or else all.
    """
    headed = next(
        (
            number
            for number, block in enumerate(blocks)
            if block.is_main and (block.is_heading or _is_title(block, title))
        ),
        0,
    )
    for block in blocks[headed:]:
        block.is_main = not _stands_around(block)
    if all(block.is_heading or _NOTICE.match(block.text) for block in blocks if block.is_main):
        for block in blocks:
            block.is_main = True


def _is_title(block: Block, title: str) -> bool:
    return bool(block.letters) and title.startswith(block.letters)


def _title(root: Any) -> str:
    title = root.find(".//title")
    return letters(title.text_content()) if title is not None else ""


def _letters(blocks: Iterable[Block]) -> int:
    return sum(block.size for block in blocks)


def _select(blocks: list[Block], witness: Witness) -> int:
    """Marks the main blocks, and returns the letters of those that the witness has, but that are outside of the page's
    <main>.
    """
    for block in blocks:
        block.is_found = block.is_main = witness.confirms(block)
    if any(block.is_main and not (block.side_tags or block.is_around) for block in blocks):
        for block in blocks:  # of a short page, trafilatura takes everything
            block.is_main = block.is_main and not (block.is_around or block.side_tags & {"nav", "footer"})
    outside = _leave_what_is_outside(blocks)
    is_document = add_region(blocks)
    for block in blocks:
        block.is_main = block.is_main and not (
            block.is_contents or block.is_breadcrumb or (block.is_links and block.is_surrounding)
        )
    if not is_document and _links_of(blocks) <= _LISTING:
        _leave_links(blocks)
    _add_gaps(blocks)
    _add_ending(blocks)
    _add_opening(blocks)
    _add_facts(blocks)
    _add_headings(blocks)
    add_contacts(blocks)
    _add_headings(blocks)
    _leave_trailing(blocks)
    return outside


def _links_of(blocks: list[Block]) -> float:
    main = [block for block in blocks if block.is_main]
    return sum(block.linked for block in main) / (_letters(main) or 1)


def _leave_what_is_outside(blocks: list[Block]) -> int:
    """Drops what is outside the page's only <main>, if most of what was found is inside; if nothing is, but the title
    is, takes the prose inside.

    Returns the letters dropped.
    """
    holders = {
        element for block in blocks for element in block.above if element.tag == "main" or element.get("role") == "main"
    }
    confirmed = [block for block in blocks if block.is_found]
    if len(holders) == 1:
        outside = [block for block in confirmed if not holders.intersection(block.above)]
        inside = [block for block in blocks if holders.intersection(block.above)]
        is_missed = (
            bool(confirmed) and len(outside) == len(confirmed) and any(block.element.tag == "h1" for block in inside)
        )
        if is_missed or 2 * _letters(outside) <= _letters(confirmed):
            for block in outside:
                block.is_found = block.is_main = False
            for block in inside if is_missed else ():
                block.is_main = _is_left(block)
            return _letters(outside)
    return 0


def _leave_links(blocks: list[Block]) -> None:
    """Drops paragraphs that are one link to the site itself, such as those to other articles. Lists stay, and links to
    other sites, or shown as URLs.
    """
    own = _own_host(blocks)
    for block in blocks:
        is_line = block.element.tag not in LISTS and block.element.tag not in ("table", "pre") and not block.is_heading
        if (
            block.is_main
            and is_line
            and block.linked
            and block.linked >= 0.9 * block.size
            and not _IS_URL.search(block.text)
        ):
            block.is_main = any(_host(link) not in ("", own) for link in block.links)


def _own_host(blocks: list[Block]) -> str:
    """The host that most absolute links of the page lead to; empty if there are none."""
    hosts = Counter(host for block in blocks for link in block.links if (host := _host(link)))
    return max(hosts, key=hosts.__getitem__, default="")


def _host(url: str) -> str:
    match = _HOST.match(url.strip())
    return match[1].lower().removeprefix("www.") if match else ""


def _add_gaps(blocks: list[Block]) -> None:
    """Adds blocks between main ones: those set like their neighbours, long paragraphs, tables, code, and plain lists
    among them, of links too.
    """
    main = [number for number, block in enumerate(blocks) if block.is_main]
    if not main:
        return
    body = [block for block in blocks if block.is_main and not block.is_heading]
    parents = Counter(block.parent for block in body)
    kinds = {block.kind for block in body if block.kind[1] or block.kind[3]}
    for block in blocks[main[0] + 1 : main[-1]]:
        if block.is_main or block.is_found or block.is_heading or block.side_tags or block.is_suspect:
            continue
        is_alike = block.parent in parents or block.kind in kinds
        is_plain_list = block.element.tag in LISTS and not block.element.get("class") and parents[block.parent] > 1
        if is_plain_list or (not block.is_links and (is_alike or block.is_facts or block.size >= _LONG)):
            block.is_main = True


def _add_ending(blocks: list[Block]) -> None:
    """Adds paragraphs and plain lists, of links too, that follow the last main block in the box of several main
    ones.
    """
    held = Counter(block.parent for block in blocks if block.is_main and not block.is_heading)
    last = max((number for number, block in enumerate(blocks) if block.is_main), default=len(blocks))
    for block in blocks[last + 1 :]:
        if held[block.parent] < 2 or block.parent.tag == "body":
            return
        is_plain_list = block.element.tag in LISTS and not block.element.get("class")
        if not (block.is_found or block.is_heading or block.side_tags or block.is_suspect) and (
            is_plain_list or not block.is_links
        ):
            block.is_main = True


def _add_opening(blocks: list[Block]) -> None:
    """Adds the paragraphs between the title, or else the heading nearest to it, and the first paragraph, such as a
    summary in larger letters.
    """
    first = next((number for number, block in enumerate(blocks) if block.is_main and not block.is_heading), 0)
    above = [
        number for number in range(first) if blocks[number].is_heading and not blocks[number].side_tags - {"header"}
    ]
    title = max((number for number in above if blocks[number].element.tag == "h1"), default=max(above, default=first))
    for block in blocks[title + 1 : first]:
        is_beside = block.side_tags - {"header"} or block.is_links or block.is_suspect or block.is_in_figure
        if not is_beside and block.size >= (_LABEL if block.is_opening else _OPENING):
            block.is_main = True


def _add_facts(blocks: list[Block]) -> None:
    """Adds tables, lists and code in the same box as a main block next to them: a short product page has little
    more.
    """
    for order in (blocks, blocks[::-1]):
        for main, block in pairwise(order):
            is_plain_list = block.element.tag in LISTS and not (block.element.get("class") or block.is_suspect)
            if (
                main.is_main
                and (block.is_facts or is_plain_list)
                and block.parent is main.parent
                and not (block.side_tags or block.is_links)
            ):
                block.is_main = True


def _add_headings(blocks: list[Block]) -> None:
    """Adds the headings directly above main blocks."""
    for below, block in pairwise(blocks[::-1]):
        if (
            below.is_main
            and block.is_heading
            and not (block.side_tags - {"header"} or block.is_suspect)
            and (below.is_found or not block.is_links)
        ):
            block.is_main = True


def _leave_trailing(blocks: list[Block]) -> None:
    """Drops a line of copyright at the end, and headings and lines such as `Read also:` below which there is
    nothing.
    """
    main = [block for block in blocks if block.is_main]
    if len(main) > 1 and main[-1].size < _LONG and _NOTICE.match(main[-1].text):
        main.pop().is_main = False
    for block in reversed(main):
        if block.element.tag == "h1" or not (
            block.is_heading or (block.size < _SHORT and block.text.endswith(_LEADS_ON))
        ):
            return
        block.is_main = False
