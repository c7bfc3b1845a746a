"""Sentence splitting of hits: spans of what there is to read of them, each with its context. List items, table rows and
labelled lines count as sentences.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from cachetools import LRUCache, cached

from almanac.core.passage_parts import parts_of
from almanac.core.sentences import sentence_spans
from almanac.schemas.results import Hit


class Sentence(NamedTuple):
    """A sentence of a hit: `text` is `hits[hit].readable[start:end]`, with offsets in characters.

    `context` contains the title, the label of a record's field, the headings, the question that the sentence answers,
    and the lead-in of its list or the head of its table. `passage` and `position` number passages, and sentences within
    them, in reading order; overlapping chunks form one passage. `is_cut` is whether its beginning or its end may be
    missing, `is_field` whether it is a short field of a record, with its label. `head` is where the head of its table
    stands in the hit, for a row of three columns and more.
    """

    hit: int
    start: int
    end: int
    text: str
    context: str
    passage: int
    position: int
    is_cut: bool
    is_field: bool = False
    head: tuple[int, int] | None = None


class _Piece(NamedTuple):
    start: int
    end: int
    context: str
    is_cut: bool
    is_field: bool = False
    head: tuple[int, int] | None = None


_Span = tuple[int, int]
_LINE = re.compile(r"[^\n]+")
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_INDENTED = re.compile(r"(?: {4}|\t)\s*\S")
_WITH_CODE = 1_000  # characters of code that is quoted with the sentence that introduces it
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r"\s*(?:={3,}|-{3,}|\*{3,}|_{3,})\s*$")
_ITEM = re.compile(r"\s*(?:[-*+•·‣▪◦–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"\s*\|?[\s:|=-]*-[\s:|=-]*\|?\s*$")
# A label in front of more than a sentence, which belong together up to this length: "Battery: 62 Wh. 13 hours of
# video."
_LABELLED = re.compile(r"(?:\*\*)?([^\W\d_][^.!?:：。*\n]{0,38})(?:\*\*)?[:：](?:\*\*)?\s+(?=\S)")
_LABELLED_LENGTH = 240
_HEAD_LENGTH = 40  # characters of a list item's first sentence up to which it is the head of the others
_TOO_LONG = 380
_AROUND_TITLE = " \n.:,;|–—-"  # between a title and a text, in a template
_SEMICOLON = re.compile(r"\s?[;；؛](?:\s+|(?<=；))(?=\S)")
_QUESTION_END = ("?", "？", "؟", "?**", "?*", "?»", "? »")
_COLON = (":", "：", ":**", ":*")
_STOP = re.compile(r"[.!?…。！？؟।։។။።]+[\"'”’»)\]*_]*\s*$")
# Hard-wrapped lines, which belong to one paragraph, are about equally long: the longest has so many characters, all but
# the last at least this share.
_WRAPPED_AT = range(45, 140)
_WRAPPED_LEAST = 0.55
_REMEMBERED = 4_000_000  # bytes of passages that were split lately: questions meet the same ones
_OF_CHARACTER, _OF_PIECE = 4, 300  # bytes, estimated
# lines that are examined to decide whether one is a heading: consecutive headings and the text below them
_HEADINGS = 4


def sentences_of(hits: Sequence[Hit], language: str, *, cuts_words: bool = False) -> list[Sentence]:
    """Splits hits into sentences.

    Args:
        hits: Hits, best first.
        language: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit's metadata.
        cuts_words: Whether chunks may begin anywhere in a sentence.

    Returns:
        Each sentence once, in reading order within a passage, the passage of the best hit first. A sentence that
        overlapping chunks share belongs to the best of them; one that no single hit contains completely is left out.
    """
    found = []
    pieces: Iterable[_Piece]
    for number, passage in enumerate(_passages(hits)):
        first = passage.members[0][1]
        tag = language_of(hits[first], language)
        cut = passage.begin > 0 and cuts_words
        opens = hits[first].start is not None and passage.begin == 0
        if hits[first].passage is None:
            pieces = _remembered(passage.text, _title(hits[first]), tag, passage.begin > 0, cut, opens).pieces
        else:
            pieces = _fields(hits[first], tag)
        for position, piece in enumerate(pieces):
            held = next(
                (
                    (hit, offset)
                    for offset, hit in passage.members
                    if offset <= piece.start and piece.end <= offset + len(hits[hit].readable)
                ),
                None,
            )
            if held is not None:
                hit, offset = held
                text = passage.text[piece.start : piece.end]
                head = _moved(piece.head, -offset) if piece.head and piece.head[0] >= offset else None
                found.append(
                    Sentence(
                        hit,
                        piece.start - offset,
                        piece.end - offset,
                        text,
                        piece.context,
                        number,
                        position,
                        piece.is_cut,
                        piece.is_field,
                        head,
                    )
                )
    return found


def language_of(hit: Hit, declared: str) -> str:
    """BCP 47 tag of a hit: the declared one; where that is `auto`, the one in its metadata, `und` without."""
    return str(hit.metadata.get("language") or "und") if declared == "auto" else declared


def split(text: str, language: str) -> Iterator[_Span]:
    """Splits plain prose into sentences, as (start, end) offsets without surrounding white space. `language` is a BCP
    47 tag.
    """
    for start, end in sentence_spans(text, language):
        part = text[start:end]
        if any(c.isalnum() for c in part):
            yield start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _title(hit: Hit) -> str:
    section = hit.metadata.get("section")
    path = [str(part) for part in section] if isinstance(section, list) else [str(section)] if section else []
    return " ".join(dict.fromkeys(part for part in (hit.title, *path) if part))


@dataclass(slots=True)
class _Passage:
    """Overlapping chunks joined into one text. `begin` is its offset in the document; members are (offset in the text,
    number of the hit), best hit first.
    """

    text: str
    begin: int
    members: list[tuple[int, int]]


def _passages(hits: Sequence[Hit]) -> list[_Passage]:
    made: list[_Passage] = []
    ending: dict[str, _Passage] = {}  # by document: its last passage so far
    for number in sorted(range(len(hits)), key=lambda n: (hits[n].start or 0, n)):
        hit = hits[number]
        if hit.start is None:
            made.append(_Passage(hit.readable, 0, [(0, number)]))
            continue
        last = ending.get(hit.document_id)
        offset = hit.start - last.begin if last else 0
        shared = last.text[offset : offset + len(hit.text)] if last else ""
        if last and shared and hit.text.startswith(shared):
            last.text += hit.text[len(shared) :]
            last.members.append((offset, number))
        else:
            ending[hit.document_id] = _Passage(hit.text, hit.start, [(0, number)])
            made.append(ending[hit.document_id])
    for passage in made:
        passage.members.sort(key=lambda member: member[1])
    return sorted(made, key=lambda passage: passage.members[0][1])


@dataclass(slots=True)
class _Under:
    """Context of the next sentence."""

    title: str
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


class _Remembered(NamedTuple):
    pieces: Sequence[_Piece]
    size: int  # bytes


@cached(LRUCache(_REMEMBERED, getsizeof=lambda found: found.size), lock=threading.Lock())
def _remembered(
    text: str, title: str, language: str, is_continued: bool, is_cut: bool, opens_document: bool
) -> _Remembered:
    pieces = list(
        _pieces(text, title, language, is_continued=is_continued, is_cut=is_cut, opens_document=opens_document)
    )
    contexts = {id(piece.context): len(piece.context) for piece in pieces}  # many share theirs
    return _Remembered(
        pieces, _OF_CHARACTER * (len(text) + len(title) + sum(contexts.values())) + _OF_PIECE * len(pieces)
    )


def _pieces(
    text: str, title: str, language: str, *, is_continued: bool, is_cut: bool, opens_document: bool
) -> Iterator[_Piece]:
    """The sentences of a passage in reading order. Headings, questions, lead-ins and table heads become context, not
    sentences.
    """
    under = _Under(title)
    lines = [(match.start(), match.end()) for match in _LINE.finditer(text)]
    index = 0
    while index < len(lines):
        start, end = lines[index]
        line = text[start:end]
        following = text[slice(*lines[index + 1])] if index + 1 < len(lines) and lines[index + 1][0] == end + 1 else ""
        taken = 1
        if heading := _HEADING.match(line):
            under.open_section(len(heading[1]), heading[2])
        elif following and _UNDERLINE.match(following) and not _ITEM.match(line) and not _ROW.match(line):
            under.open_section(1 if "=" in following else 2, line.strip())
            taken = 2
        elif (
            _is_shouted(line)
            or (index == 0 and opens_document and not following and len(lines) > 1 and _is_title(line))
            or _is_heading(text, lines, index)
        ):
            under.open_section(2, line.strip())
        elif _FENCE.match(line) or _UNDERLINE.match(line) or not any(c.isalnum() for c in line):
            if _ROW.match(line) and _RULE.match(following):  # a table whose columns have no names
                under.head, under.head_span = "", None
        elif _ROW.match(line):
            if _RULE.match(following):
                under.head, under.head_span = " ".join(line.replace("|", " ").split()), _inside(text, (start, end))
                taken = 2
            else:
                first, last = _inside(text, (start, end))
                if any(c.isalnum() for c in text[first:last]):
                    head = under.head_span if under.head and text.count("|", first, last) > 1 else None
                    yield _Piece(first, last, str(under), False, head=head)
        else:
            taken = _paragraph_length(text, lines, index)
            region = (start, lines[index + taken - 1][1])
            first = index == 0 and not _ITEM.match(line)
            code = (
                _code_at(text, lines, index + taken, may_be_indented=not _ITEM.match(line))
                if text[slice(*region)].rstrip().endswith(_COLON)
                else 0
            )
            end = lines[index + taken + code - 1][1] if code else 0
            yield from _prose(
                text,
                region,
                under,
                language,
                is_continued=first and is_continued,
                is_cut=first and is_cut,
                code_end=end,
            )
            taken += code
        index += taken


def _fields(hit: Hit, language: str) -> Iterator[_Piece]:
    """The sentences of a record's passage: each labelled line is one, and those of a long text have its label as
    context.

    What is shown beside the passage anyway, and a bare number that is the record's id, are no sentences. A value of
    many sentences is split, and the first keeps the label: "Gloves, food." says the opposite of "Not included: Gloves,
    food." A value that is a question is the context of what follows, as in pairs of question and answer, and what
    answers it is taken without its label, as is the one sentence that is the record's text.
    """
    passage, under = hit.readable, _Under(_title(hit))
    for part in parts_of(passage):
        value = passage[part.start : part.end]
        if not part.is_line:
            inner = f"{under} {part.label}".strip()
            for piece in _pieces(value, inner, language, is_continued=False, is_cut=False, opens_document=True):
                yield piece._replace(
                    start=part.start + piece.start,
                    end=part.start + piece.end,
                    head=_moved(piece.head, part.start),
                )
        elif value.endswith(_QUESTION_END):
            under.question = value
        elif _says_something(value, hit):
            spans = list(split(value, language)) if _STOP.search(value) and " " in value else []
            is_answer = bool(under.question) or hit.title.endswith(_QUESTION_END)
            # What the record is embedded by is no field of it: "Text:" says nothing.
            is_text = hit.text.endswith(value) and hit.text.removesuffix(value).strip(_AROUND_TITLE) in ("", hit.title)
            if not spans or (
                not is_answer and not (is_text and len(spans) == 1) and part.end - part.begin <= _LABELLED_LENGTH
            ):
                yield _Piece(part.begin, part.end, str(under), False, is_field=bool(part.label))
                continue
            begin = part.start if is_answer or is_text else part.begin
            for first, last in spans:
                context = f"{under} {part.label}".strip()
                yield _Piece(begin if first == spans[0][0] else part.start + first, part.start + last, context, False)


def _says_something(value: str, hit: Hit) -> bool:
    """Whether a field's value is more than what is shown beside the hit anyway, and a bare number that is its id."""
    is_shown = value in (hit.title, hit.url, ", ".join(hit.tags)) or (value == hit.document_id and value.isdecimal())
    return not is_shown and any(c.isalnum() for c in value)


def _moved(span: _Span | None, by: int) -> _Span | None:
    return span and (span[0] + by, span[1] + by)


def _is_shouted(line: str) -> bool:
    """Whether a line is a heading in capitals, such as SPECIFICATIONS."""
    return (
        line.isupper()
        and len(line) <= 60
        and not any(c.isdigit() for c in line)
        and not _STOP.search(line)
        and sum(c.isalpha() for c in line) > 3
    )


def _is_title(line: str) -> bool:
    """Whether a line may be a title: short, and neither a complete sentence nor part of a list or table."""
    return len(line) <= 80 and not _is_statement(line)


def _is_statement(line: str) -> bool:
    """Whether a line is content and not a heading: it ends with a full stop or a colon, or is part of a list or
    table.
    """
    return bool(_STOP.search(line) or _ITEM.match(line) or _ROW.match(line)) or line.rstrip().endswith(_COLON)


def _is_heading(text: str, lines: Sequence[_Span], index: int) -> bool:
    """Whether a line within a plain text is a heading: short, in words, between empty lines, and above content.

    In a text without punctuation, headings cannot be distinguished from content, and all lines are taken as content.
    """
    if (
        index == 0
        or index + 1 == len(lines)
        or lines[index - 1][1] + 1 == lines[index][0]
        or lines[index][1] + 1 == lines[index + 1][0]
    ):
        return False
    below = (text[slice(*span)] for span in lines[index + 1 : index + _HEADINGS])
    return _names(text[slice(*lines[index])]) and _is_statement(next((line for line in below if not _names(line)), ""))


def _names(line: str) -> bool:
    """Whether a line may be the heading of the lines below it. "Weight: 2 kg" is content."""
    plain = line.strip()
    return (
        _is_title(line)
        and not plain[:1].islower()
        and any(c.isalpha() for c in plain)
        and not any(c.isdigit() or c in ":：" for c in plain)
    )


def _inside(text: str, span: _Span) -> _Span:
    """A row of a table without the lines at its sides."""
    start, end = span
    while start < end and (text[start].isspace() or text[start] == "|"):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] == "|"):
        end -= 1
    return start, end


def _paragraph_length(text: str, lines: Sequence[_Span], index: int) -> int:
    """Number of lines from `index` on that form one paragraph: more than one where they are hard-wrapped."""
    block = [lines[index]]
    for span in lines[index + 1 :]:
        line = text[slice(*span)]
        if (
            span[0] != block[-1][1] + 1
            or _HEADING.match(line)
            or _ITEM.match(line)
            or _ROW.match(line)
            or _FENCE.match(line)
            or _UNDERLINE.match(line)
        ):
            break
        if not line.strip():
            break
        block.append(span)
    lengths = [end - start for start, end in block]
    is_wrapped = len(block) > 1 and max(lengths) in _WRAPPED_AT and min(lengths[:-1]) >= _WRAPPED_LEAST * max(lengths)
    # If every line ends a sentence, each line is a sentence of its own.
    return len(block) if is_wrapped and not all(_STOP.search(text[slice(*span)]) for span in block) else 1


def _code_at(text: str, lines: Sequence[_Span], index: int, *, may_be_indented: bool) -> int:
    """Number of lines of the code, fenced or indented, that begins at a line; 0 where none does, or it is too long to
    be quoted, or has no end.
    """
    if index == len(lines):
        return 0
    written = [text[slice(*span)] for span in lines[index:]]
    marks = "".join(takewhile(lambda character: character == written[0].strip()[:1], written[0].strip()))
    last = None
    if _FENCE.match(written[0]):
        ends = (
            number
            for number, line in enumerate(written)
            if number and line.strip().startswith(marks) and not line.strip().strip(marks)
        )
        last = next(ends, None)
    elif may_be_indented and _INDENTED.match(written[0]):
        last = next((number for number, line in enumerate(written) if not _INDENTED.match(line)), len(written)) - 1
    return 0 if last is None or lines[index + last][1] - lines[index][0] > _WITH_CODE else last + 1


def _clauses(text: str, span: _Span) -> Iterator[_Span]:
    """A sentence, or the clauses of one that is too long to be quoted, as far as semicolons part it."""
    start, end = span
    for stop in _SEMICOLON.finditer(text, start, end) if end - start > _TOO_LONG else ():
        yield start, stop.end() - len(stop[0]) + len(stop[0].rstrip())
        start = stop.end()
    yield start, end


def _prose(
    text: str, region: _Span, under: _Under, language: str, *, is_continued: bool, is_cut: bool, code_end: int
) -> Iterator[_Piece]:
    """The sentences of a paragraph. The last one, where it introduces code, reaches to the end of that: "To list them,
    run:" is nothing without it.
    """
    start, end = region
    is_item = _ITEM.match(text, start, end)
    start = is_item.end() if is_item else start
    spans = [(start + first, start + last) for first, last in split(text[start:end], language)]
    label = _LABELLED.match(text, start, end)
    is_headed = is_item is not None and len(spans) > 1 and spans[0][1] - spans[0][0] <= _HEAD_LENGTH
    is_one = (label or is_headed) and len(spans) > 1 and spans[-1][1] - start <= _LABELLED_LENGTH
    if is_one and not any(text[slice(*span)].endswith((*_QUESTION_END, *_COLON)) for span in spans):
        # "Battery: 62 Wh. 13 hours of video.", "- A person decides. No model of ours sets a fee."
        spans = [(start, spans[-1][1])]
    spans = [clause for span in spans for clause in _clauses(text, span)]
    if not is_item:
        under.lead = under.head = ""
    is_last = not text[end:].strip()
    asked = None
    for number, (first, last) in enumerate(spans):
        sentence = text[first:last]
        if sentence.endswith(_QUESTION_END):
            # A question alone is context of all that follows; within a paragraph, of the rest of it.
            asked = number
            under.question = sentence
            continue
        if sentence.endswith(_COLON) and number == len(spans) - 1:
            if code_end:
                yield _Piece(first, code_end, str(under), number == 0 and is_cut)
            else:
                under.lead = sentence
            continue
        lacks_start = number == 0 and is_continued and (is_cut or sentence[0].islower() or sentence[0] in ",;:)…")
        # If the last sentence of a chunk lacks its full stop, and the one before it does not, the chunk was cut there.
        lacks_end = (
            is_last
            and number == len(spans) - 1 > 0
            and not _STOP.search(sentence)
            and bool(_STOP.search(text[slice(*spans[number - 1])]))
        )
        context = f"{under} {label[1]}" if label and number > 0 else str(under)
        yield _Piece(first, last, context, lacks_start or lacks_end)
    if asked is not None and asked < len(spans) - 1:
        under.question = ""
