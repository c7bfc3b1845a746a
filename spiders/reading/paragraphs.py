"""Joins the printed lines of a PDF to paragraphs and resolves hyphens at line ends."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

END_HYPHEN = "\ufffe"  # PDFium's mark for a hyphen at a line end; PDFium joins the two lines itself
_SIGN = re.compile(r"[•‣◦▪■●○·∙\-–\uf0b7\uf0a7]\s")
_BULLET = re.compile(rf"{_SIGN.pattern}|\(?\d{{1,3}}[.)]\s|[a-z][.)]\s")
_COUNTED = re.compile(r"\(?(?:(?P<number>\d{1,3})|(?P<letter>[a-z]))[.)]\s")
_FIRST = frozenset({"1", "a", *"ivx"})  # what a list begins with, and letters that Roman numbers are made of
_SENTENCE_END = re.compile(r"""[.!?:;…。！？：؟।]["'”’»)\]]*$""")
_HYPHENATED = re.compile(r"\w[-\u00ad\u2010]$")
_BROKEN_NUMBER = re.compile(r"(?<=\d-)\n(?=\d)")
_BROKEN_TOKEN = re.compile(
    rf"(?:[^\s{END_HYPHEN}]*(?:{END_HYPHEN}\n?|-\n|[/_=&?]\n(?=[^\s{END_HYPHEN}]*[/.=&?]\w)))+[^\s{END_HYPHEN}]+"
)
_HYPHEN_OF_THE_LINE = re.compile(rf"(?<=[/_=&?.:])(?:{END_HYPHEN}|-(?=\n))")  # an address has none there
_ADDRESS = re.compile(r"://|www\.|\w@\w")
_BEGINS_ADDRESS = re.compile(r"\W*(?:\w+://|www\.)")
_FILE_NAME = re.compile(r"[^\W_]\.[a-z][a-z\d]{1,4}\W*$")
_BROKEN_WORD = re.compile(rf"([^\W_]+(?:[-'’.][^\W_]+)*)(?:{END_HYPHEN}|[-\u00ad\u2010](?=\n))\n?([^\W\d_]+)")
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class PdfLine:
    """A printed line and its position in points from the lower left corner of the page.

    `top` is where the line begins and `bottom` where it ends; two lines joined by a hyphen are one. `size` is the
    height of its letters. `lies_behind` tells a watermark, `is_artifact` what the file itself calls no content,
    `is_value` what a field of a form holds, and `is_running` a line that every page has at the same place.
    """

    text: str
    left: float = 0.0
    right: float = 0.0
    top: float = 0.0
    bottom: float = 0.0
    size: float = 1.0
    is_bold: bool = False
    page: int = 0
    lies_behind: bool = False
    is_artifact: bool = False
    is_value: bool = False
    is_running: bool = False

    @property
    def is_beside(self) -> bool:
        """Whether the text of the pages goes on past this line: a watermark, a running header or footer."""
        return self.lies_behind or self.is_running

    @property
    def has_bullet(self) -> bool:
        """Whether the line begins with a bullet."""
        return _SIGN.match(self.text) is not None

    @property
    def is_list_item(self) -> bool:
        """Whether the line begins with a bullet or a list number."""
        return _BULLET.match(self.text) is not None


@dataclass(slots=True)
class Paragraph:
    """Lines that belong together, and their text."""

    lines: list[PdfLine]
    text: str


def join_lines(pages: list[list[PdfLine]]) -> list[Paragraph]:
    """The paragraphs of a document, in order. `pages` holds the lines of each page.

    Paragraphs cut by a page break are joined; consecutive list items share a paragraph, one line each.
    """
    known = {
        word.casefold()
        for page in pages
        for word in _WORD.findall(_BROKEN_WORD.sub(" ", "\n".join(line.text for line in page)))
    }
    blocks: list[list[PdfLine]] = []
    last: list[PdfLine] = []  # the last block of the page before, but for lines beside its text
    for page in pages:
        is_first = True
        reached = last
        for lines in _page_blocks(page):
            if is_first and not lines[0].is_beside and last and _runs_on(last[-1], lines[0]):
                last += lines
                continue
            blocks.append(lines)
            if not lines[0].is_beside:
                is_first, reached = False, lines
        last = reached
    paragraphs: list[Paragraph] = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        text = join_text([line.text for line in block], known)
        if before and before[0].is_list_item and block[0].is_list_item:
            paragraphs[-1].text += f"\n{text}"
            paragraphs[-1].lines += block
        else:
            paragraphs.append(Paragraph(list(block), text))
    return paragraphs


def _page_blocks(lines: list[PdfLine]) -> Iterator[list[PdfLine]]:
    steps = [step for before, line in pairwise(lines) if 0 < (step := before.bottom - line.top) < 3 * line.size]
    usual = median(steps) if steps else 0.0
    block: list[PdfLine] = []
    for number, line in enumerate(lines):
        if block and _begins_block(lines, number, block, usual):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _begins_block(lines: list[PdfLine], number: int, block: list[PdfLine], usual_step: float) -> bool:
    line, before = lines[number], lines[number - 1]
    if (
        line.is_beside != before.is_beside
        or line.is_bold != before.is_bold
        or max(line.size, before.size) > 1.15 * min(line.size, before.size)
    ):
        return True
    step = before.bottom - line.top
    if step < -0.5 * line.size:  # a new column begins
        return not _runs_on(before, line)
    if step > max(1.3 * usual_step, 1.1 * line.size) or (line.is_list_item and not _is_mid_sentence(lines, number)):
        return True
    # an indented first line
    if len(block) > 1 and not block[0].is_list_item and line.left > before.left + 0.8 * line.size:
        return True
    if block[0].is_list_item and before.left > block[0].left + 0.8 * line.size > line.left:  # back below the bullet
        return True
    return _would_have_fitted(lines, number)


def _is_mid_sentence(lines: list[PdfLine], number: int) -> bool:
    """Whether what looks like a list number or letter is the end of a sentence, a unit or a day: `1,80 / m. The`, `by /
    12. March`.

    Then the line before it ends no sentence, and no line above it has the number or letter before it.
    """
    counted, before = _COUNTED.match(lines[number].text), lines[number - 1]
    if counted is None or _SENTENCE_END.search(before.text):
        return False
    mark = counted["number"] or counted["letter"]
    if mark in _FIRST:
        return False
    previous = str(int(mark) - 1) if counted["number"] else chr(ord(mark) - 1)
    above = (_COUNTED.match(line.text) for line in lines[:number])
    return all(match is None or (match["number"] or match["letter"]) != previous for match in above)


def _would_have_fitted(lines: list[PdfLine], number: int) -> bool:
    """Whether the line's first word would have fitted at the end of the line before it, so that the break there is
    deliberate.
    """
    line, before = lines[number], lines[number - 1]
    words = line.text.split()
    if _HYPHENATED.search(before.text):
        return False
    # a script without spaces; text beside a picture
    if (len(words) < 2 and len(line.text) > 20) or _runs_on(before, line):
        return False
    word = (line.right - line.left) * len(words[0]) / len(line.text)
    near = [
        neighbour
        for neighbour in lines[max(0, number - 2) : number + 2]
        if abs(neighbour.left - line.left) < 3 * line.size and abs(neighbour.size - line.size) < 1
    ]
    return before.right + word + line.size < max((neighbour.right for neighbour in near), default=0.0)


def _runs_on(before: PdfLine, line: PdfLine) -> bool:
    """Whether a sentence continues from one line to the other across a page or column break."""
    same_kind = before.is_bold == line.is_bold and abs(before.size - line.size) < 1
    return same_kind and not _SENTENCE_END.search(before.text) and not line.is_list_item and line.text[:1].islower()


def join_text(lines: list[str], known: Collection[str] = ()) -> str:
    """The text of printed lines, with words that were broken at their ends in one. `known` are words of the document,
    in lower case.
    """
    whole = _BROKEN_TOKEN.sub(_address, "\n".join(lines))
    whole = _BROKEN_WORD.sub(lambda match: _rejoined(match[1], match[2], known), whole)
    parts = _BROKEN_NUMBER.sub("", whole.replace(END_HYPHEN, "-")).split("\n")
    text = parts[0]
    for part in parts[1:]:
        text += part if _is_wide(text[-1:]) and _is_wide(part[:1]) else f" {part}"
    return " ".join(text.split())


def _address(match: re.Match[str]) -> str:
    """An address, or a file's name, that goes on in the next line, in one: its hyphens are its own. Anything else as it
    stands.
    """
    first, *others = re.split(rf"[\n{END_HYPHEN}]+", match[0])
    whole = _HYPHEN_OF_THE_LINE.sub("", match[0]).replace(END_HYPHEN, "-").replace("\n", "")
    is_address = _ADDRESS.search(first) and not any(map(_BEGINS_ADDRESS.match, others))
    is_file_name = _FILE_NAME.search(whole) and not re.search(r"[/_=&?]\n", match[0])
    return whole if is_address or is_file_name else match[0]


def _rejoined(head: str, tail: str, known: Collection[str]) -> str:
    """Joins a word that was broken at a line end: without the hyphen, unless the hyphen belongs to the word.

    It belongs if the document writes the word so elsewhere, before a capital, after a digit or another hyphen, and
    between two words of the document.
    """
    whole, hyphenated = f"{head}{tail}", f"{head}-{tail}"
    if whole.casefold() in known:
        return whole
    is_two_words = head.casefold() in known and tail.casefold() in known
    own_hyphen = (
        hyphenated.casefold() in known
        or is_two_words
        or any(c.isdigit() or c == "-" for c in head)
        or tail[0].isupper()
    )
    return hyphenated if own_hyphen else whole


def _is_wide(character: str) -> bool:
    return bool(character) and unicodedata.east_asian_width(character) in "WF"
