"""Sentence splitting of hits: spans of what there is to read of them, each with its context. List items, table rows and
labelled lines count as sentences. Blocks are those of Markdown.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cachetools import LRUCache, cached
from markdown_it import MarkdownIt

from almanac.core.passage_parts import parts_of
from almanac.core.sentences import sentence_spans
from almanac.schemas.results import Hit


class Sentence(NamedTuple):
    """A sentence of a hit: `text` is `hits[hit].readable[start:end]`, with offsets in characters.

    `context` contains the title, the label of a record's field, the headings, the question that the sentence answers,
    and the lead-in of its list or the head of its table. `is_cut` is whether its beginning or its end may be missing,
    `is_field` whether it is a short field of a record, with its label. `head` is where the head of its table stands in
    the hit, for a row of three columns and more. `passage` is the best hit of its document, or of its record; within
    it, `position` is the reading order.
    """

    start: int
    end: int
    context: str
    is_cut: bool = False
    is_field: bool = False
    head: tuple[int, int] | None = None
    text: str = ""
    hit: int = 0
    passage: int = 0
    position: int = 0


_Span = tuple[int, int]
# whether a text begins with a sentence, goes on after a chunk, or begins anywhere in a sentence
_Begin = Literal["whole", "continued", "anywhere"]
_BLOCKS = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table").disable(["inline", "reference"])
_WITH_CODE = 1_000  # characters of code that is quoted with the sentence that introduces it
_ITEM = re.compile(r"\s*(?:[-*+•·‣▪◦–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+")
_LABELLED_LENGTH = 240
_TITLE_LENGTH = 80
_AROUND_TITLE = " \n.:,;|–—-"  # between a title and a text, in a template
_QUESTION_END = ("?", "？", "؟", "?**", "?*", "?»", "? »")
_COLON = (":", "：", ":**", ":*")
_STOP = re.compile(r"[.!?…。！？؟।։။።]+[\"'”’»)\]*_]*\s*$")
# Hard-wrapped lines, which belong to one paragraph, are about equally long: the longest has so many characters, all but
# the last at least this share.
_WRAPPED_AT = range(45, 140)
_WRAPPED_LEAST = 0.55
_REMEMBERED = 16_384  # sentences of passages that were split lately: questions meet the same ones


def sentences_of(hits: Sequence[Hit]) -> list[Sentence]:
    """The sentences of hits, best first: each once, in reading order within a document, the document of the best hit
    first. A sentence that several chunks share belongs to the best of those that have it whole, or most of it.
    """
    sentences_at: dict[tuple[str, int], Sentence] = {}
    best: dict[str, int] = {}
    for number, hit in enumerate(hits):
        if hit.passage is None:
            begin: _Begin = "whole" if not hit.start else "anywhere" if hit.begins_anywhere else "continued"
            sentences = _remembered(hit.text, _title(hit), hit.language, begin, hit.ends_anywhere)
        else:
            sentences = list(_fields(hit))
        item_id = hit.chunk_id if hit.start is None else hit.document_id
        for s in sentences:
            at = (hit.start or 0) + s.start
            known = sentences_at.get((item_id, at))
            if known is None or (s.is_cut, s.start - s.end) < (known.is_cut, known.start - known.end):
                text, passage = hit.readable[s.start : s.end], best.setdefault(item_id, number)
                sentences_at[item_id, at] = s._replace(text=text, hit=number, passage=passage, position=at)
    return sorted(sentences_at.values(), key=lambda s: (s.passage, s.position))


def _title(hit: Hit) -> str:
    section = hit.metadata.get("section")
    path = [str(part) for part in section] if isinstance(section, list) else [str(section)] if section else []
    return " ".join(dict.fromkeys(part for part in (hit.title, *path) if part))


@dataclass(slots=True)
class _Under:
    """Context of the next sentence of a text, whose language, beginning and end stay the same."""

    title: str
    language: str
    begin: _Begin = "whole"
    ends_anywhere: bool = False
    headings: list[tuple[int, str]] = field(default_factory=list)
    question: str = ""
    lead: str = ""
    head: str = ""
    head_span: _Span | None = None

    def __str__(self) -> str:
        parts = (self.title, *(text for _, text in self.headings), self.question, self.lead, self.head)
        return " ".join(dict.fromkeys(part for part in parts if part))

    def open_section(self, level: int, text: str) -> None:
        self.headings = [*((depth, heading) for depth, heading in self.headings if depth < level), (level, text)]
        self.question = self.lead = self.head = ""


@cached(LRUCache(_REMEMBERED, getsizeof=len), lock=threading.Lock())
def _remembered(text: str, title: str, language: str, begin: _Begin, ends_anywhere: bool) -> list[Sentence]:
    return list(_sentences(text, _Under(title, language, begin, ends_anywhere)))


class _Block(NamedTuple):
    """Lines of a text: `kind` is heading, head (of a table), row, code, item or text; `level` that of a heading."""

    kind: str
    start: int
    end: int
    level: int = 0


def _blocks(text: str) -> list[_Block]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    blocks: list[_Block] = []
    lists, is_head = 0, False
    for token in _BLOCKS.parse(text.replace("\r", " ")):
        lists += {"list_item_open": 1, "list_item_close": -1}.get(token.type, 0)
        is_head = token.type == "thead_open" or (is_head and token.type != "thead_close")
        if token.map is None:
            continue
        lines = [(starts[number], starts[number + 1] - 1) for number in range(*token.map)]
        whole = (lines[0][0], lines[-1][1]) if lines else (0, 0)
        if token.type == "heading_open":
            blocks.append(_Block("heading", *whole, int(token.tag[1])))
        elif token.type == "tr_open":
            blocks.append(_Block("head" if is_head else "row", *whole))
        elif token.type in ("fence", "code_block"):
            blocks.append(_Block("code", *whole))
        elif token.type in ("paragraph_open", "html_block"):
            is_row = text.startswith("|", whole[0])  # of a table whose head is in another chunk
            kind = "row" if is_row else "item" if lists else "text"
            regions = [whole] if not is_row and _is_wrapped([text[slice(*line)] for line in lines]) else lines
            blocks += [_Block(kind, *region) for region in regions]
    return blocks


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Whether lines are one paragraph, and not a sentence each."""
    lengths = [len(line) for line in lines]
    is_even = max(lengths) in _WRAPPED_AT and min(lengths[:-1], default=0) >= _WRAPPED_LEAST * max(lengths)
    return len(lines) > 1 and is_even and not all(_STOP.search(line) for line in lines)


def _sentences(text: str, under: _Under) -> Iterator[Sentence]:
    """The sentences of a text in reading order. Headings, questions, lead-ins and table heads become context, not
    sentences.
    """
    blocks = _blocks(text)
    taken = -1
    for number, block in enumerate(blocks):
        line = text[block.start : block.end]
        if number <= taken or not any(c.isalnum() for c in line):
            if block.kind == "head":  # a table whose columns have no names
                under.head, under.head_span = "", None
        elif block.kind == "heading" or _is_heading(text, blocks, number):
            under.open_section(block.level or 2, line.split("\n")[0].strip(" #") if block.level else line.strip())
        elif block.kind == "head":
            under.head, under.head_span = " ".join(line.replace("|", " ").split()), _inside(text, block)
        elif block.kind == "row":
            start, end = _inside(text, block)
            is_wide = under.head and text.count("|", start, end) > 1
            yield Sentence(start, end, str(under), head=under.head_span if is_wide else None)
        elif block.kind == "code":
            for match in re.finditer(r"[^\n]+", line):
                words = match[0].strip()
                if any(c.isalnum() for c in words) and not words.startswith(("```", "~~~")):
                    start = block.start + match.start() + match[0].index(words)
                    yield Sentence(start, start + len(words), str(under))
        else:
            after = blocks[number + 1] if number + 1 < len(blocks) else None
            is_code = after is not None and after.kind == "code" and after.end - after.start <= _WITH_CODE
            end = after.end if after and is_code and line.rstrip().endswith(_COLON) else 0
            taken = number + 1 if end else taken
            yield from _prose(text, block, under, is_first=number == 0 and block.kind != "item", code_end=end)


def _is_heading(text: str, blocks: Sequence[_Block], number: int) -> bool:
    """Whether a line of a plain text is a heading: short, in words, alone, and above content.

    In a text without punctuation, headings cannot be distinguished from content, and all lines are taken as content.
    """
    block = blocks[number]
    is_alone = block.kind == "text" and "\n\n" in (text[block.end : block.end + 2] or "\n\n")
    is_alone = is_alone and text[max(0, block.start - 2) : block.start] in ("", "\n\n")
    if not is_alone or not _names(text[block.start : block.end]):
        return False
    below = (later for later in blocks[number + 1 :] if not _names(text[later.start : later.end]))
    content = next(below, None)
    return content is not None and (content.kind != "text" or bool(_STOP.search(text[content.start : content.end])))


def _names(line: str) -> bool:
    """Whether a line may be the heading of the lines below it. "Weight: 2 kg" is content."""
    plain = line.strip()
    is_short = len(plain) <= _TITLE_LENGTH and not plain[:1].islower() and not _STOP.search(plain)
    return is_short and any(c.isalpha() for c in plain) and not any(c.isdigit() or c in ":：|" for c in plain)


def _inside(text: str, block: _Block) -> _Span:
    """A row of a table without the lines at its sides."""
    row = text[block.start : block.end]
    return block.start + len(row) - len(row.lstrip(" \t|")), block.end - len(row) + len(row.rstrip(" \t|"))


def _prose(text: str, block: _Block, under: _Under, *, is_first: bool, code_end: int) -> Iterator[Sentence]:
    """The sentences of a paragraph. The last one, where it introduces code, reaches to the end of that: "To list them,
    run:" is nothing without it.
    """
    item = _ITEM.match(text, block.start, block.end)
    start, is_item = item.end() if item else block.start, block.kind == "item" or item is not None
    spans = [(start + first, start + last) for first, last in _split(text[start : block.end], under.language)]
    if not is_item:
        under.lead = under.head = ""
    question_number = None
    for number, (first, last) in enumerate(spans):
        sentence, is_last = text[first:last], number == len(spans) - 1
        if sentence.endswith(_QUESTION_END):
            # A question alone is context of all that follows; within a paragraph, of the rest of it.
            question_number, under.question = number, sentence
        elif sentence.endswith(_COLON) and is_last and not code_end:
            under.lead = sentence
        else:
            goes_on = under.begin == "anywhere" or sentence[0].islower() or sentence[0] in ",;:)…"
            lacks_start = is_first and number == 0 and under.begin != "whole" and goes_on
            # If the last sentence of a chunk lacks its full stop, and the one before it does not, it was cut there.
            stops = under.ends_anywhere or (number > 0 and _STOP.search(text[slice(*spans[number - 1])]))
            lacks_end = is_last and not text[block.end :].strip() and not _STOP.search(sentence) and stops
            end = code_end if is_last and code_end else last
            yield Sentence(first, end, str(under), lacks_start or bool(lacks_end))
    if question_number is not None and question_number < len(spans) - 1:
        under.question = ""


def _split(text: str, language: str) -> Iterator[_Span]:
    """Sentences without surrounding white space."""
    for start, end in sentence_spans(text, language):
        part = text[start:end]
        if any(c.isalnum() for c in part):
            yield start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _fields(hit: Hit) -> Iterator[Sentence]:
    """The sentences of a record's passage: each labelled line is one, and those of a long text have its label as
    context.

    What is shown beside the passage anyway, and a bare number that is the record's id, are no sentences. A value of
    many sentences is split, and the first keeps the label: "Gloves, food." says the opposite of "Not included: Gloves,
    food." A value that is a question is the context of what follows, as in pairs of question and answer, and what
    answers it is taken without its label, as is the one sentence that is the record's text.
    """
    passage, under = hit.readable, _Under(_title(hit), hit.language)
    for part in parts_of(passage):
        value, inner = passage[part.start : part.end], f"{under} {part.label}".strip()
        if not part.is_line:
            for s in _sentences(value, _Under(inner, hit.language)):
                head = s.head and (s.head[0] + part.start, s.head[1] + part.start)
                yield s._replace(start=s.start + part.start, end=s.end + part.start, head=head)
        elif value.endswith(_QUESTION_END):
            under.question = value
        elif _says_something(value, hit):
            spans = list(_split(value, hit.language)) if _STOP.search(value) and " " in value else []
            is_answer = bool(under.question) or hit.title.endswith(_QUESTION_END)
            # What the record is embedded by is no field of it: "Text:" says nothing.
            is_text = hit.text.endswith(value) and hit.text.removesuffix(value).strip(_AROUND_TITLE) in ("", hit.title)
            is_bare = is_answer or (is_text and len(spans) == 1)
            if not spans or (not is_bare and part.end - part.begin <= _LABELLED_LENGTH):
                yield Sentence(part.begin, part.end, str(under), is_field=bool(part.label))
                continue
            for number, (first, last) in enumerate(spans):
                begin = part.begin if number == 0 and not is_answer and not is_text else part.start + first
                yield Sentence(begin, part.start + last, inner)


def _says_something(value: str, hit: Hit) -> bool:
    """Whether a field's value is more than what is shown beside the hit anyway, and a bare number that is its id."""
    is_shown = value in (hit.title, hit.url, ", ".join(hit.tags)) or (value == hit.document_id and value.isdecimal())
    return not is_shown and any(c.isalnum() for c in value)
