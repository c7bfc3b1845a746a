"""Passages of records: what is declared as their metadata, as labelled lines that people and models can read and search
finds ([decision 0010]).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

from babel import Locale

from almanac.core.locales import locale_of, primary
from almanac.core.passage_parts import lay_out
from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.declaration.source import Source
from almanac.schemas.declaration.template import parse_template
from almanac.transforms.written import is_price, written

# characters of a passage, some 3,000 tokens: what a prompt has room for in all (`query.answering.prompt`)
BUDGET = 12_000
_LINE = 200  # characters of a value beyond which it is a long text
_QUALIFIER = 60  # characters of a text beyond which it does not qualify the label of its entry
_LEAST = 200  # characters of a long text below which the rest of it is not worth showing
_CUT = "…"
_CAMEL = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-Z])(?=[A-Z][a-z])")
_CAPITALS = frozenset({"id", "url", "sku", "isbn", "ean", "gtin", "vat"})
_NOUNS_IN_CAPITALS = frozenset({"de", "lb", "nds", "gsw"})
# "10:00", "9 am": figures, which name no entry
_TIME = re.compile(r"(?=.*\d|[\W_]*$)(?:[\W\d_]|[ap]\.?m\b\.?|uhr\b|h(?![^\W\d_]))*", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z\d+.-]*://\S+", re.IGNORECASE)
_END = re.compile(r"[.!?…؟।۔][\"'”’»)\]]*\s|[。！？][”’」』）]*|\n")
_SENTENCE = re.compile(r"(?:^|(?<=[.!?。！？\n]))\s*([^.!?。！？\n]*[^\W\d_][^.!?。！？\n]*(?:[.!?。！？]|$))")
_Pair = tuple[str, str]


def passage_of(
    source: Source,
    values: Mapping[str, Any],
    names: Sequence[str],
    title: str,
    text: str,
    *,
    language: str,
    workspace: str | None,
) -> str | None:
    """Writes the passage of a record; None where no field is to be shown, so that its text is all there is to read.

    One line for each value, in the order of `names`; long texts follow, the longest last, in 12,000 characters for the
    passage. No line gives way to a long text. At the end stands what the record's text holds beyond all that.

    Args:
        source: The record's source.
        values: Cleaned fields by name, with the item's `url` and `title`.
        names: Names of the fields to show; values that are missing or empty have no line.
        title: Title of the record, which is shown beside its passage.
        text: Text of the record, which is embedded.
        language: BCP 47 tag of the record, for the notation of its values.
        workspace: Field that keeps workspaces apart, which is never shown.
    """
    rules = source.declared_fields()
    shown = [name for name in names if name != workspace]
    own = [
        pair
        for name in shown
        for pair in _pairs(label_of(name, rules.get(name)), values.get(name), rules.get(name), language)
    ]
    if not own:
        return None
    lines = [pair for pair in own if not _is_long(pair[1])]
    more = [
        name
        for name in _names_in_text(source, values, rules)
        if name not in {*names, workspace, "url", "title"} and values.get(name) != title
    ]
    behind = [
        pair
        for name in more
        for pair in _pairs(label_of(name, rules.get(name)), values.get(name), rules.get(name), language)
    ]
    behind += [("Text", words)] if (words := _own_words(source, text)) else []
    texts = sorted((pair for pair in own if _is_long(pair[1])), key=lambda pair: len(pair[1]))
    return _within_budget(lines, [*texts, *behind])


def label_of(name: str, rule: FieldRule | None = None) -> str:
    """The label of a field: the declared one, else its name as words: `Departure date` for `departure_date` and
    `departureDate`.
    """
    if rule is not None and rule.label is not None:
        return rule.label
    words = _words_of(name)
    return words[:1].upper() + words[1:]


def _words_of(name: str) -> str:
    words = re.split(r"[\s_]+|(?<=\w)-(?=\w)" if name.islower() else r"[\s_]+", _CAMEL.sub(" ", name).strip())
    is_camel = bool(_CAMEL.search(name)) and not re.search(r"[\s_]", name)
    written_out = (
        word.upper() if word.lower() in _CAPITALS else word.lower() if is_camel and word[1:].islower() else word
        for word in words
        if word
    )
    return " ".join(written_out) or name


def _pairs(label: str, value: Any, rule: FieldRule | None, language: str) -> Iterator[_Pair]:
    """(label, value) of each line or long text that a value takes; none for a value without anything to see."""
    if isinstance(value, Mapping) and not is_price(value):
        for name, part, inner in _parts(value, rule):
            yield from _pairs(f"{label}, {_inside(name, inner)}", part, inner, language)
        return
    if not isinstance(value, list | tuple):
        if text := written(value, rule, language):
            yield label, text
        return
    plain = [entry for entry in value if not isinstance(entry, Mapping) or is_price(entry)]
    if text := _joined(plain, rule, language):
        yield label, text
    entries = [
        _Entry.divide(entry, rule, language) for entry in value if isinstance(entry, Mapping) and not is_price(entry)
    ]
    names = {part.name for entry in entries for part in entry.held}
    for entry in entries:
        yield from entry.pairs(label, language, is_only=len(names) == 1)


class _Part(NamedTuple):
    """A value inside an entry of a list, and the same in one text."""

    name: str
    value: Any
    rule: FieldRule | None
    text: str

    @property
    def is_date(self) -> bool:
        return self.rule is not None and self.rule.type in ("date", "datetime")

    @property
    def may_qualify(self) -> bool:
        is_text = isinstance(self.value, str) and (
            self.is_date or self.rule is None or self.rule.type in (None, "text")
        )
        is_name = self.is_date or not _TIME.fullmatch(self.text)
        return (
            is_text and is_name and len(self.text) <= _QUALIFIER and "\n" not in self.text and not _URL.match(self.text)
        )


class _Entry(NamedTuple):
    """An entry of a list: short texts qualify the label of the line, `Price, adult`, and the others are its values. Of
    texts alone, the first qualifies.
    """

    named: list[_Part]
    held: list[_Part]

    @classmethod
    def divide(cls, entry: Mapping[str, Any], rule: FieldRule | None, language: str) -> Self:
        parts = [
            part
            for name, value, inner in _parts(entry, rule)
            if (part := _Part(name, value, inner, _flat(value, inner, language))).text
        ]
        named = [part for part in parts if part.may_qualify]
        if len(named) == len(parts):
            named = parts[: len(parts) > 1]
        # a date names an entry that nothing else does: "Departures, 14/11/2026: 9.500.000 ₫"
        elif any(not part.is_date for part in named):
            named = [part for part in named if not part.is_date]
        return cls(named, [part for part in parts if part not in named])

    def pairs(self, label: str, language: str, *, is_only: bool) -> Iterator[_Pair]:
        """`is_only`: whether entries of the list hold nothing but values of one name, which then goes without
        saying.
        """
        names = [part.text for part in self.named]
        if any(is_price(part.value) for part in self.held):
            names = [_in_mid_sentence(name, language) for name in names]
        label = ", ".join([label, *names])
        if any(_is_long(part.text) for part in self.held):
            for part in self.held:
                yield from _pairs(
                    label if is_only else f"{label}, {_inside(part.name, part.rule)}", part.value, part.rule, language
                )
        elif self.held:
            yield (
                label,
                self.held[0].text
                if is_only
                else "; ".join(f"{label_of(part.name, part.rule)}: {part.text}" for part in self.held),
            )


def _in_mid_sentence(text: str, language: str) -> str:
    """A text as it is written within a line: `adult` for `Adult`. Capitals inside, and names that CLDR knows, stay."""
    first = text.split()[0]
    if primary(language) in _NOUNS_IN_CAPITALS or not text[1:].islower() or first in _names_of(primary(language)):
        return text
    return text[0].lower() + text[1:]


@lru_cache(maxsize=64)
def _names_of(language: str) -> frozenset[str]:
    locale = locale_of(language) or Locale("en")
    periods = (*locale.days["format"]["wide"].values(), *locale.months["format"]["wide"].values())
    return frozenset(str(name) for name in (*periods, *locale.territories.values(), *locale.languages.values()))


def _flat(value: Any, rule: FieldRule | None, language: str) -> str:
    """A value of an entry in one text."""
    if isinstance(value, Mapping) and not is_price(value):
        parts = [(label_of(name, inner), _flat(part, inner, language)) for name, part, inner in _parts(value, rule)]
        return ", ".join(f"{label} {text}" for label, text in parts if text)
    return _joined(value, rule, language) if isinstance(value, list | tuple) else written(value, rule, language)


def _joined(values: Sequence[Any], rule: FieldRule | None, language: str) -> str:
    texts = [text for value in values if (text := _flat(value, rule, language))]
    if any("\n" in text for text in texts):
        return "\n\n".join(texts)
    return ("; " if any(", " in text for text in texts) else ", ").join(texts)


def _parts(value: Mapping[str, Any], rule: FieldRule | None) -> Iterator[tuple[str, Any, FieldRule | None]]:
    """Names, values and rules inside a mapping, in the declared order; what is not declared comes last."""
    rules = (rule.fields if rule is not None else None) or {}
    for name in (*(name for name in rules if name in value), *(name for name in value if name not in rules)):
        yield str(name), value[name], rules.get(name)


def _inside(name: str, rule: FieldRule | None) -> str:
    return _words_of(name) if rule is None or rule.label is None else rule.label


def _names_in_text(source: Source, values: Mapping[str, Any], rules: Mapping[str, FieldRule]) -> list[str]:
    """Fields that the record's text is made of, each once."""
    if source.text is None:
        return [
            name
            for name in values
            if isinstance(values[name], str) and (name not in rules or rules[name].type in (None, "text", "html"))
        ]
    heads = ((name, name.partition(".")[0]) for name in parse_template(source.text)[1::2])
    return list(dict.fromkeys(name if name in values else head for name, head in heads))


def _own_words(source: Source, text: str) -> str:
    """Whole sentences and lines that stand in the template itself, not in a field, and are in the text."""
    if source.text is None:
        return ""
    parts = parse_template(source.text)
    marked = "\0".join(parts[::2])
    sentences = (match[1].strip() for match in _SENTENCE.finditer(marked) if "\0" not in match[1])
    return "\n".join(sentence for sentence in sentences if " " in sentence and sentence in text)


def _is_long(text: str) -> bool:
    return len(text) > _LINE or "\n" in text


def _within_budget(lines: list[_Pair], texts: list[_Pair]) -> str:
    """The passage with its long texts cut to what the lines leave: short ones stay whole, long ones share the rest
    evenly (max-min fairness).
    """
    kept_lines = _lines_within(lines)
    left = BUDGET - len(lay_out(kept_lines, [])) - sum(len(label) + 4 for label, _ in texts)
    cut: dict[int, str] = {}
    for place, number in enumerate(sorted(range(len(texts)), key=lambda n: len(texts[n][1]))):
        share = left // (len(texts) - place)
        value = texts[number][1]
        if len(value) <= share:
            cut[number] = value
        elif share >= _LEAST:
            cut[number] = _shortened(value, share)
        left -= len(cut.get(number, ""))
    return lay_out(kept_lines, [(label, cut[number]) for number, (label, _) in enumerate(texts) if number in cut])


def _lines_within(lines: list[_Pair]) -> list[_Pair]:
    """As many lines as the budget has room for; where there are more, the last one says so."""
    room = BUDGET
    for number, (label, value) in enumerate(lines):
        if len(label) + len(value) + 3 > room:
            while number > 1 and len(label) + len(_CUT) + 3 > room:
                number -= 1
                label, value = lines[number]
                room += len(label) + len(value) + 3
            return [*lines[:number], (label, _CUT)]
        room -= len(label) + len(value) + 3
    return lines


def _shortened(text: str, length: int) -> str:
    """The beginning of a text, in `length` characters at most, to the end of a sentence or a line, else of a word, and
    `…`.
    """
    room = length - len(_CUT) - 1
    ends = [match.end() for match in _END.finditer(text, 0, room)]
    if not ends or ends[-1] < room // 2:
        space = text.rfind(" ", room // 2, room)
        ends = [space if space > 0 else room]
    return f"{text[: ends[-1]].rstrip()} {_CUT}"
