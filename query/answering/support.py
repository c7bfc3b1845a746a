"""A generated reply while it is written, statement by statement: links that no passage holds and markers of passages
that were not shown are taken out, and so are statements with numbers that no cited passage states.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from almanac.core.sentences import sentence_spans
from almanac.query.answering.figures import Stated, is_supported, stated_by
from almanac.query.answering.markers import CODE, MARKERS, normalize_markers, without_markers
from almanac.query.answering.overlap import covered, words_of
from almanac.query.answering.reply_links import addresses_in, without_foreign_links
from almanac.schemas.hashing import canonical_json
from almanac.schemas.results import Hit

_STOPS = r"[.!?…。！？؟։।]+[\"'”’»)\]*_]*"
_CITED = rf"{_STOPS}{MARKERS}|{MARKERS}(?:{_STOPS}|(?=[^\w\n]*\n))"
_SECTION = re.compile(rf"{CODE}|(?P<end>{_CITED})", re.IGNORECASE)
_SENTENCE = re.compile(rf"{CODE}|(?P<end>{_CITED}|{_STOPS}(?=\s)|(?<=\S)(?=\n))", re.IGNORECASE)
_MAY_GO_ON = re.compile(r"\s*(?:[\[【［⟦][^\]】］⟧]{0,120}|\([^()\s]{0,600})?$")  # another marker, or its link
_FENCE = re.compile(r"`{3,}")
_LINE = re.compile(r"\s*(?:```(?s:.*?)```[^\n]*|[^\n]+)")
_PREFIX = re.compile(r"\s*(?:(?:[-*+•·‣▪◦–]|#{1,6}|\(?\d{1,3}(?:\.\d{1,2})*[.)])\s+)*")
# A statement of so many words is credited to a passage that has this share of them, if the cited one has less than this
# share of the words' weight that the other has: a page may talk a model into crediting its words to another. Far less,
# since a passage may say the same in other words.
_LEAST_WORDS, _BORNE, _FALSE = 4, 0.6, 0.5


class CheckedReply:
    """What a reply says and rests on, as far as it was read: `citing_statements` are the statements that cite a
    passage, without markers, by its number.

    With `drops_statements`, a statement is left out if one of its numbers stands in none of the passages that it cites,
    or, where it cites none, in none that the reply cites up to the end of its section. Without, such a statement stays
    and loses its markers, and one without markers is not looked at. A statement that another passage says is credited
    to that one.

    Args:
        shown: Hits by citation number.
        questions: The question, and the user's earlier messages.
        language: BCP 47 tag of the reply, `und` where it is not known.
        held: Addresses that links may have; None for any.
    """

    def __init__(
        self,
        shown: Mapping[int, Hit],
        questions: Iterable[str],
        language: str,
        held: frozenset[str] | None,
        *,
        drops_statements: bool,
    ) -> None:
        self.citing_statements: dict[int, list[str]] = {}
        self.dropped_sentences = self.dropped_citations = 0
        self._shown, self._in_questions, self._language, self._held = shown, stated_by(questions), language, held
        self._drops = drops_statements
        tags = {hit.language for hit in shown.values()}
        self._tag = tags.pop() if len(tags) == 1 else "und"  # several are compared word for word
        self._any = {number: number for number in shown}
        self._states = cache(lambda number: stated_by(_texts_of(shown[number])))
        self._lead, self._is_bare = "", False  # whether all is left out since the lead
        self._cites, self._lead_cites = list[tuple[int, str]](), list[tuple[int, str]]()  # of this line, of the lead
        self._cited: Stated = frozenset()  # stated by what the reply cites so far

    def sections(self, pieces: Iterable[str]) -> Iterator[str]:
        """What is left of each section of the reply, none of it empty, in order; together they are the reply. A section
        ends with a cited sentence or line, and, where nothing is left out, with every one. Sections do not depend on
        how the input is cut into pieces.
        """
        held, is_first = "", True
        ending = _SECTION if self._drops else _SENTENCE
        for piece in chain(pieces, [None]):
            held += piece or ""
            while held and (end := _end_of(held, ending, is_final=piece is None)):
                section, held = self._checked(held[:end]), held[end:]
                if not held and piece is None and not self._is_bare:
                    section += self._lead
                    self._cite(self._lead_cites)
                if section := section.lstrip() if is_first else section:
                    yield section
                    is_first = False

    def _checked(self, section: str) -> str:
        text, before = section.strip(), ""
        while text != before:  # what is taken out may leave another one behind
            before = text
            text = text if self._held is None else without_foreign_links(text, self._held)
            text, _, dropped = normalize_markers(text, self._any)
            self.dropped_citations += dropped
        begin = section[: len(section) - len(section.lstrip())]
        lines = [(prefix, list(self._statements(line))) for prefix, line in _lines(begin + text)]
        for statement in chain.from_iterable(statements for _, statements in lines):
            numbers = self._numbers(statement)
            if self._is_supported(statement, self._stated_by(numbers)):
                self._cited |= self._stated_by(numbers)
        return "".join(self._with_lead(prefix, "".join(map(self._left_of, statements))) for prefix, statements in lines)

    def _with_lead(self, prefix: str, line: str) -> str:
        """A line behind the headings and lead-ins before it, which wait for what they lead in."""
        written = prefix + line.rstrip()
        cites, self._cites = self._cites, []
        if not line.strip():
            self._is_bare = True
            return ""
        lead, lead_cites = self._lead, self._lead_cites
        if "#" in prefix or written.endswith((":", "：")):
            self._lead, self._lead_cites = (written, cites) if self._is_bare else (lead + written, lead_cites + cites)
            self._is_bare = False
            return ""
        self._lead, self._lead_cites, self._is_bare = "", [], False
        self._cite(lead_cites + cites)
        return lead + written

    def _cite(self, cites: Iterable[tuple[int, str]]) -> None:
        for number, statement in cites:
            self.citing_statements.setdefault(number, []).append(statement)

    def _statements(self, line: str) -> Iterator[str]:
        if line.startswith(("|", "```")):
            yield line
            return
        held = ""
        for start, end in sentence_spans(line, self._language):
            if held and any(c.isalpha() for c in without_markers(line[start:end])):
                yield held
                held = ""
            held += line[start:end]
        yield held

    def _left_of(self, statement: str) -> str:
        numbers = self._numbers(statement)
        stated = self._stated_by(numbers) if numbers else self._cited
        is_supported = self._is_supported(statement, stated)
        if self._drops and not is_supported:
            self.dropped_sentences += 1
            return ""
        plain = without_markers(statement).strip()
        cited = self._credited(plain, numbers) if is_supported and numbers else {}
        text, numbers, dropped = normalize_markers(statement, cited)
        self.dropped_citations += dropped
        self._cites += [(number, plain) for number in numbers]
        return text + statement[len(statement.rstrip()) :]

    def _numbers(self, statement: str) -> list[int]:
        return list(dict.fromkeys(normalize_markers(statement, self._any)[1]))

    def _is_supported(self, statement: str, stated: Stated) -> bool:
        return is_supported(without_markers(statement), stated, self._in_questions)

    def _credited(self, statement: str, numbers: Sequence[int]) -> Mapping[int, int]:
        """The numbers to cite for a statement, by those that it has: without passages that hardly have its words, and
        none that is missing in another which says it; if none is left, that one.
        """
        unchanged = {number: number for number in numbers}
        texts = [f"{hit.title} {', '.join(hit.tags)} {hit.readable}" for hit in self._shown.values()]
        words, own = words_of(statement, texts, self._tag)
        terms, terms_at = set(words), dict(zip(self._shown, own, strict=True))
        saying = [number for number in terms_at if is_supported(statement, self._states(number), self._in_questions)]
        best = max(saying, key=lambda number: (len(terms & terms_at[number]), -number), default=None)
        if best is None or len(terms) < _LEAST_WORDS or len(terms & terms_at[best]) < _BORNE * len(terms):
            return unchanged
        # passages about like things share most of their words, but not their names
        shares = dict(zip(self._shown, covered(words, own), strict=True))
        return {
            number: number
            for number in numbers
            if shares[number] >= _FALSE * shares[best] or terms & terms_at[number] - terms_at[best]
        } or {numbers[0]: best}

    def _stated_by(self, numbers: Iterable[int]) -> Stated:
        return frozenset[str]().union(*map(self._states, numbers))


def _end_of(text: str, ending: re.Pattern[str], *, is_final: bool) -> int:
    """Length of the section that a text begins with; 0 where more input is needed, as where code may go on."""
    if is_final or len(_FENCE.findall(text)) % 2 == 0:
        for match in ending.finditer(text):
            end = match.end()
            if match["end"] is not None and text[:end].strip():
                is_open = "`" in text[text.rfind("\n", 0, end) + 1 : end] and "\n" not in text[end:]
                return end if is_final or not (is_open or _MAY_GO_ON.match(text, end)) else 0
    return len(text) if is_final else 0


def _lines(section: str) -> Iterator[tuple[str, str]]:
    """Lines and blocks of code, with what goes before their words: white space, and the mark of a list or heading."""
    for match in _LINE.finditer(section):
        prefix = _PREFIX.match(match[0])
        begin = prefix.end() if prefix else 0
        yield match[0][:begin], match[0][begin:]


def addresses_of(hits: Iterable[Hit]) -> frozenset[str]:
    """The addresses that passages hold, with their own."""
    return addresses_in(text for hit in hits for text in [hit.url, *_texts_of(hit)])


def _texts_of(hit: Hit) -> list[str]:
    return [hit.readable, hit.text, hit.title, canonical_json(hit.metadata)]
