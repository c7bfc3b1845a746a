"""Extracts question and answer pairs from a page: folded sections, Q: and A:, definition lists, bold lines, or
headings.

A page is assumed to mark its questions in one way. Every way is tried, and the one that finds the most question marks
wins; a page without question marks is read by its structure alone.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import pairwise
from typing import Any

import lxml.html

from almanac.spiders.reading.outline import Line, outline, text_of_lines

_QUESTION_MARKS = "?？؟՞;⁇"  # the fifth is the Greek question mark
_ASKS = re.compile(f"[{_QUESTION_MARKS}]")
# Q: and A., Question 1: and Réponse:, Hỏi: and Đáp:. A word needs a colon, a letter or a number also may have a stop.
_LABEL = re.compile(
    r"\W{0,3}(?:([^\W\d_]+(?: [^\W\d_]+)?)\s?(?:n[°º]\s?)?\d{0,3}\s*[:：](?![:/])"
    r"|([^\W\d_]|[^\W\d_]+(?=\s?\d))\.?\s?\d{0,3}\s*(?:[.)]\s|．))\s*"
)
_INITIALS = ("qa", "qr", "pr", "fa")  # question and answer, réponse; pregunta, respuesta; Frage, Antwort
_NUMBERING = re.compile(r"^\(?\d{1,3}(?:\.\d{1,3})*[.)]?\s+(?=\D)|^\(?\d{1,3}[.)]\s*(?=\D)")
_PAIR_OF_TAGS = re.compile(r"<([a-z][a-z0-9]*)\b[^<>]{0,500}>[^<>]{0,500}</\1>", re.IGNORECASE)
_MAX_QUESTION = 500
_NEAR = 5000  # letters


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer, the path of headings above it, its number on the page (from 1), and an anchor unique
    on the page.
    """

    question: str
    answer: str
    section: str
    number: int
    anchor: str

    def as_json(self) -> dict[str, Any]:
        """The pair as a JSON object, without the anchor."""
        return {
            "question": self.question,
            "answer": self.answer,
            "section": self.section or None,
            "number": self.number,
        }


@dataclass(slots=True)
class _PairLines:
    question: str
    section: str
    answer: list[Line] = field(default_factory=list)
    is_labelled: bool = False


def pairs_of_lines(lines: list[Line]) -> list[Pair]:
    """The pairs found in the lines of an outline, in order; questions without an answer are left out."""
    return numbered((pair.question, text_of_lines(pair.answer), pair.section) for pair in _best_reading(lines))


def unpaired(lines: Iterable[Line], pairs: list[Pair]) -> Iterator[str]:
    """Yields the texts of the lines that are in none of the pairs: introductions, questions without an answer, sections
    without questions.
    """
    yield from _unpaired(lines, _PairTexts(pairs))


def _unpaired(lines: Iterable[Line], pair_texts: "_PairTexts") -> Iterator[str]:
    for line in lines:
        bare = _without_label(line.text)
        if not any(
            map(
                pair_texts.has,
                dict.fromkeys(map(_letters, (line.text, bare, _clean_question(line.text), _clean_question(bare)))),
            )
        ):
            yield line.text
        yield from _unpaired(line.folded, pair_texts)


class _PairTexts:
    """The letters of pairs, for questions in page order: a text is a question or a line of an answer, or stands near
    the one that was found last.
    """

    def __init__(self, pairs: list[Pair]) -> None:
        self._lines = {_letters(line) for pair in pairs for line in (pair.section, *pair.answer.split("\n"))}
        self._questions: dict[str, int] = {}  # where each begins
        written: list[str] = []
        self._place = length = 0
        for pair in pairs:
            self._questions.setdefault(_letters(pair.question), length)
            written.append(_letters(f"{pair.section} {pair.question} {pair.answer}"))
            length += len(written[-1])
        self._text = "".join(written)

    def has(self, letters: str) -> bool:
        place = self._questions.get(letters, -1)
        if place < 0 and letters in self._lines:
            return True
        if place < 0:  # searching all of a long text for each line would take quadratic time
            place = self._text.find(letters, max(0, self._place - _NEAR), self._place + _NEAR + len(letters))
        self._place = place if place >= 0 else self._place
        return place >= 0


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def pairs_of_structured_data(nodes: list[Any]) -> list[Pair]:
    """The pairs of schema.org FAQPages among JSON-LD values, in order."""
    triples: list[tuple[str, str, str]] = []
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node[::-1]
        elif isinstance(node, dict):
            waiting += [node[key] for key in ("mainEntity", "@graph") if key in node][::-1]
            if "Question" in _types(node) and isinstance(node.get("name"), str):
                triples.append((_readable_name(node["name"]), _readable(_accepted_answer(node)), ""))
    return numbered(triples)


def _accepted_answer(question: dict[str, Any]) -> str:
    answers = question.get("acceptedAnswer") or question.get("suggestedAnswer")
    answer = answers[0] if isinstance(answers, list) and answers else answers
    text = answer.get("text") if isinstance(answer, dict) else None
    return text if isinstance(text, str) else ""


def _readable_name(name: str) -> str:
    """The text of a `name`: entities are decoded, but only paired tags count as markup, since people also ask about
    `<br>`.
    """
    return _readable(name) if _PAIR_OF_TAGS.search(name) else unescape(name)


def _readable(markup: str) -> str:
    if "<" not in markup and "&" not in markup:
        return markup
    return text_of_lines(outline(lxml.html.fragment_fromstring(markup, create_parent="div")))


def _types(node: dict[str, Any]) -> list[Any]:
    kind = node.get("@type")
    return kind if isinstance(kind, list) else [kind]


def numbered(triples: Iterable[tuple[str, str, str]]) -> list[Pair]:
    """Numbers (question, answer, section) triples and gives them anchors; triples without a question or an answer are
    dropped.
    """
    pairs: list[Pair] = []
    taken: Counter[str] = Counter()
    for question, answer, section in triples:
        question = _clean_question(question)
        if not question or not answer.strip():
            continue
        slug = slug_of(question)
        taken[slug] += 1
        anchor = slug if taken[slug] == 1 else f"{slug}-{taken[slug]}"
        pairs.append(Pair(question, answer.strip(), section, len(pairs) + 1, f"#{anchor}"))
    return pairs


def slug_of(question: str) -> str:
    """A question as an anchor: its letters and digits joined by hyphens, 100 characters at most."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", question).casefold())
    return "-".join(words)[:100].strip("-") or "question"


def _clean_question(text: str) -> str:
    return _NUMBERING.sub("", " ".join(text.split())).strip(" *_#")


def _best_reading(lines: list[Line]) -> list[_PairLines]:
    """The reading that finds the most questions with a question mark; without any, the first that finds something."""
    ways = [
        _folded(lines),
        _labelled(lines),
        _defined(lines),
        _opened_by(lines, _bold_question),
        _under_headings(lines),
    ]
    best = max(([pair for pair in way if pair.answer] for way in ways), key=_score)
    return best or [pair for pair in _opened_by(lines, _plain_question) if pair.answer]


def _score(pairs: list[_PairLines]) -> float:
    return sum(1.0 if pair.is_labelled or _ASKS.search(pair.question) else 0.01 for pair in pairs)


def _folded(lines: list[Line]) -> list[_PairLines]:
    """Reads `<details>`: the summary is the question, the folded content the answer. A `<details>` that contains others
    is a section.
    """
    pairs: list[_PairLines] = []

    def read(some: list[Line], sections: "_Sections") -> None:
        for line in some:
            sections.see(line)
            if line.tag != "details":
                continue
            if any(inner.tag == "details" for inner in line.folded):
                read(line.folded, sections.below(line.text))
            else:
                pairs.append(_PairLines(line.text, sections.path, line.folded))

    read(lines, _Sections())
    return pairs


def _labelled(lines: list[Line]) -> list[_PairLines]:
    """Reads `Q: …` and `A: …` labels in any language: those that follow each other most often. A question continues
    until its answer begins; a heading ends an answer.
    """
    asks, answers = _labels_in_use(lines)
    pairs: list[_PairLines] = []
    sections = _Sections()
    state = ""
    for line in lines:
        label = _label_of(line.text)
        if label and label == asks:
            pairs.append(_PairLines(_without_label(line.text), sections.path, is_labelled=True))
            state = "asking"
        elif line.level:
            sections.see(line)
            state = ""
        elif state and label and label == answers:
            pairs[-1].answer.append(Line(_without_label(line.text)))
            state = "answering"
        elif state == "asking" and not line.starts and answers:
            pairs[-1].question += f" {line.text}"
        elif state:
            pairs[-1].answer.append(line)
            state = "answering"
    return pairs


def _labels_in_use(lines: list[Line]) -> tuple[str, str]:
    """The labels of questions and answers: `q` and `a` and their kin, or what stands before most of several questions,
    more than there are headings that ask, and what follows it; the answer's is empty if only questions are labelled,
    both if none are.
    """
    labelled = [(label, line.text) for line in lines if (label := _label_of(line.text))]
    headings = sum(1 for line in lines if line.level and _ASKS.search(line.text) and not _label_of(line.text))
    few = max(1, headings)
    seen = Counter(label for label, _ in labelled)
    asking = Counter(label for label, text in labelled if label == "q" or text.endswith(tuple(_QUESTION_MARKS[:4])))
    follow = Counter((label, following) for (label, _), (following, _) in pairwise(labelled) if label != following)
    for (asks, answers), times in follow.most_common():
        if 2 * min(times, asking[asks]) >= seen[asks] and (times > few or asks[0] + answers[0] in _INITIALS):
            return asks, answers
    return next(((asks, "") for asks, times in asking.items() if times > few and 2 * times >= seen[asks]), ("", ""))


def _label_of(text: str) -> str:
    """The label at the beginning of a line, case-folded; empty if there is none."""
    match = _LABEL.match(unicodedata.normalize("NFC", text[:40]))
    return (match[1] or match[2]).casefold() if match else ""


def _without_label(text: str) -> str:
    return _LABEL.sub("", text, count=1)


def _defined(lines: list[Line]) -> list[_PairLines]:
    """Reads definition lists: the term is the question, its definitions are the answer."""
    pairs: list[_PairLines] = []
    sections = _Sections()
    for line in lines:
        sections.see(line)
        if line.tag == "dt":
            if pairs and not pairs[-1].answer:
                pairs[-1].question += f" {line.text}"
            else:
                pairs.append(_PairLines(line.text, sections.path))
        elif line.tag == "dd" and pairs:
            pairs[-1].answer.append(line)
    return pairs


def _bold_question(line: Line) -> tuple[str, str] | None:
    """The bold question that a line begins with, and the rest of the line; None if there is none."""
    bold = line.bold
    rest = line.text[len(bold) :] if line.text.startswith(bold) else ""
    mark = re.match(rf"\s*[{_QUESTION_MARKS}]", rest)
    if mark is not None:
        bold, rest = bold + mark[0], rest[mark.end() :]
    return (
        (bold, rest.strip())
        if bold and not line.level and _ASKS.search(bold[-3:]) and len(bold) <= _MAX_QUESTION
        else None
    )


def _plain_question(line: Line) -> tuple[str, str] | None:
    """A line that is a question by its final question mark; None otherwise."""
    is_question = (
        line.starts and not line.level and line.text[-1:] in _QUESTION_MARKS[:4] and len(line.text) <= _MAX_QUESTION
    )
    return (line.text, "") if is_question else None


def _opened_by(lines: list[Line], question_of: Callable[[Line], tuple[str, str] | None]) -> list[_PairLines]:
    """Each question that `question_of` recognises, with the lines below it up to the next question or heading."""
    pairs: list[_PairLines] = []
    sections = _Sections()
    is_open = False
    for line in lines:
        opened = question_of(line)
        if opened is not None:
            question, rest = opened
            pairs.append(_PairLines(question, sections.path, [Line(rest)] if rest else []))
            is_open = True
        elif line.level:
            sections.see(line)
            is_open = False
        elif is_open:
            if not pairs[-1].answer:  # it may continue the question's line
                line = replace(line, lead=line.lead.lstrip() and line.lead, starts=True)
            pairs[-1].answer.append(line)
    return pairs


def _under_headings(lines: list[Line]) -> list[_PairLines]:
    """Headings of the question level, each with the text below it. Higher headings are sections, lower ones part of the
    answer.
    """
    level = _asking_level(lines)
    pairs: list[_PairLines] = []
    sections = _Sections()
    is_open = False
    for line in lines:
        if line.level and (line.level <= level or _ASKS.search(line.text)):
            if is_open and pairs and not pairs[-1].answer:
                pairs.pop()  # a heading right above another one is a section
            is_open = line.level == level or (line.level > level and bool(_ASKS.search(line.text)))
            sections.see(line)
            if is_open:
                pairs.append(_PairLines(line.text, sections.above(line.level)))
        elif is_open:
            pairs[-1].answer.append(line)
    # an answer of nothing but links is a table of contents
    return [pair for pair in pairs if not all(line.is_link for line in pair.answer)]


def _asking_level(lines: list[Line]) -> int:
    """The heading level with the most question marks; without any, the deepest level with two or more headings that
    have text below.
    """
    asking: Counter[int] = Counter()
    carrying: Counter[int] = Counter()
    for line, below in pairwise([*lines, None]):
        if line is not None and line.level and below is not None and not below.level and below.tag != "details":
            carrying[line.level] += 1
            asking[line.level] += bool(_ASKS.search(line.text))
    if any(asking.values()):
        return max(asking, key=lambda level: (asking[level], level))
    return max((level for level, count in carrying.items() if count > 1), default=0)


class _Sections:
    """Keeps track of the headings above the current line."""

    def __init__(self, above: tuple[str, ...] = ()) -> None:
        self._above = above
        self._open: dict[int, str] = {}

    def see(self, line: Line) -> None:
        if line.level:
            self._open = {level: text for level, text in self._open.items() if level < line.level} | {
                line.level: line.text
            }

    def below(self, title: str) -> "_Sections":
        return _Sections((*self._above, *self._titles(), title))

    def above(self, level: int) -> str:
        return " › ".join((*self._above, *(text for at, text in sorted(self._open.items()) if at < level and at > 1)))

    @property
    def path(self) -> str:
        """The titles of the sections around the current line, joined by ` › `, without the page's own title."""
        return " › ".join((*self._above, *self._titles()))

    def _titles(self) -> Iterator[str]:
        return (text for level, text in sorted(self._open.items()) if level > 1)
