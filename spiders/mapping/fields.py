"""Evaluates field rules: finds a value on a page, converts and processes it, and checks it against the rule."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from almanac.core.patterns import TooSlow, first_group
from almanac.core.unforeseen import FORESEEN, reason_of_defect
from almanac.schemas.declaration.field_rules import FieldRule, Process
from almanac.spiders.mapping.casing import lower, title, upper
from almanac.spiders.mapping.machine_dates import machine_date
from almanac.spiders.mapping.values import convert
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import find, subjects_of, why_hidden, why_no_prefix
from almanac.spiders.selecting.selectors import LAYOUT, markup_of, parted_number, text_of, without_silent
from almanac.spiders.selecting.things import Subjects
from almanac.spiders.selecting.urls import spellings

_REDUCING = frozenset({"first", "last", "count", "join"})
_SPREADING = frozenset({"split", "unique", "sort"})
_LIST_STEPS = (_REDUCING | _SPREADING) - {"split"}
_SEPARATOR = re.compile(r"[,;|\n，；、،؛•·]")
_TEXT_STEPS: dict[Process, Callable[[str, str], str]] = {"lower": lower, "upper": upper, "title": title}
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class FieldScope:
    """Where a rule is evaluated: a part of a page (an element or JSON value; None for the whole page), the page, and
    the language.

    `verbatim` names the field that keeps workspaces apart. Of its texts only the layout of markup is read off, as a
    browser does: any other white space that reading would drop makes two names of one, which only cleaning can notice.

    `subjects` are the things that the fields of the record are read from.
    """

    node: Any
    content: Content
    language: str
    verbatim: str | None = None
    subjects: Subjects = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldReading:
    """The result of one rule.

    Attributes:
        value: the converted and processed value.
        matched: whether the rule found anything.
        problem: why the value cannot be used; None if it can.
        offending: the offending value, shortened for reports.
        breaks: the declared condition that the problem breaks, one of `FieldRule.conditions`; None for other problems.
        field: name or path of the field.
        note: why the rule found nothing, where its matches are hidden from visitors, it has a prefix that the page does
            not declare, or another thing of the page has the value; None otherwise.
        thing: the thing of the page's JSON-LD or microdata that the value is from, by its type and place: `Product, 2
            of 3`; None for other values.
    """

    value: Any
    rule: FieldRule
    matched: bool = False
    problem: str | None = None
    offending: Any = None
    field: str = ""
    breaks: str | None = None
    note: str | None = None
    thing: str | None = None


def told_hidden(reason: str, what: str = "its only match") -> str:
    """The sentence on a rule that finds nothing but what no visitor sees, with what to do if it is to be read all the
    same.
    """
    return (
        f"{what} is hidden from visitors ({reason}): look for the one that they see; if this one is meant, "
        "`hidden: true` reads it"
    )


def read_fields(rules: dict[str, FieldRule], scope: FieldScope) -> dict[str, FieldReading]:
    """Reads every field of an item, in declared order. Problems are in the readings, not raised.

    Fields that read JSON-LD, or microdata, come from one thing of the page.
    """
    scope = replace(scope, subjects=subjects_of(scope.content, rules.values(), scope.node, scope.subjects))
    return {name: read_field(name, rule, scope) for name, rule in rules.items()}


def read_field(name: str, rule: FieldRule, scope: FieldScope) -> FieldReading:
    """Reads one field: finds, converts, processes and checks its value. An exception that nobody foresaw is its
    problem.
    """
    try:
        return _read_field(name, rule, scope)
    except FORESEEN:
        raise
    except Exception as error:
        reason = reason_of_defect(error, url=scope.content.url, rule=f"{name}: {rule.rule}")
        return FieldReading(None, rule, matched=True, problem=reason, field=name)


def _read_field(name: str, rule: FieldRule, scope: FieldScope) -> FieldReading:
    if rule.fields is not None:
        return _read_nested(name, rule, scope)
    wants_list = (
        rule.many or not _LIST_STEPS.isdisjoint(rule.process) or ("split" in rule.process and rule.json_ is not None)
    )
    try:
        values, matched = _typed_values(rule, scope, wants_list, name == scope.verbatim)
    except _BadValue as bad:
        broken = rule.conditions.get(bad.condition)
        return FieldReading(
            None,
            rule,
            matched=True,
            problem=str(bad),
            offending=_shown(bad.offending),
            field=name,
            breaks=broken,
            thing=_thing(rule, scope),
        )
    is_list = wants_list or "split" in rule.process
    value = _processed(values if is_list else (values[0] if values else None), rule, scope.language)
    if not matched and (rule.default is not None or "count" not in rule.process):
        value = _without_match(rule)
    note = None if matched else _note(rule, scope, wants_list)
    reading = _checked(FieldReading(value, rule, matched=matched, field=name, note=note, thing=_thing(rule, scope)))
    return _told_by_pattern(reading, scope) if reading.problem and not matched and rule.pattern is not None else reading


def _thing(rule: FieldRule, scope: FieldScope) -> str | None:
    where = rule.each or rule
    subject = scope.subjects.get(str(where.from_)) if where.json_ is not None else None
    return subject.name if subject is not None and where.json_ is not None and subject.gave(where.json_) else None


def _note(rule: FieldRule, scope: FieldScope, wants_list: bool) -> str | None:
    where = rule.each or rule
    if where.json_ is not None:
        subject = scope.subjects.get(str(where.from_))
        return None if subject is None else subject.why_nothing(where.json_)
    if not (where.css or where.xpath):
        return None
    if (reason := why_no_prefix(scope.content, where, scope.node)) is not None:
        return reason
    reason = why_hidden(scope.content, where, scope.node, many=wants_list)
    return None if reason is None else told_hidden(reason)


def _told_by_pattern(reading: FieldReading, scope: FieldScope) -> FieldReading:
    """The reading of a required field; where a text was there and the pattern found nothing in it, this is the
    problem.
    """
    rule = reading.rule
    text = next((raw for raw in _raw_values(rule, scope, wants_list=True) if not _is_nothing(raw)), None)
    if text is None:
        return reading
    problem = f"{reading.problem}: {_shown(text)!r} does not match the pattern {rule.pattern}"
    return replace(reading, problem=problem, offending=_shown(text), breaks=rule.conditions["pattern"])


class _BadValue(Exception):
    """A value that breaks the `condition` type or pattern."""

    def __init__(self, reason: str, offending: Any, condition: str) -> None:
        super().__init__(reason)
        self.offending = offending
        self.condition = condition


def _typed_values(rule: FieldRule, scope: FieldScope, wants_list: bool, verbatim: bool) -> tuple[list[Any], bool]:
    """Converted values in page order (only the first unless `wants_list`), and whether the rule found anything."""
    raw_values = _raw_values(rule, scope, wants_list, verbatim)
    if "count" in rule.process and "split" not in rule.process and rule.pattern is None:
        matches = list(raw_values)  # counted elements may have no text, such as a star drawn by CSS
        return matches, bool(matches)
    values: list[Any] = []
    for raw in raw_values:
        values += _values_of(rule, raw, scope, verbatim)
        if values and not wants_list:
            break
    return values, bool(values)


def _values_of(rule: FieldRule, raw: Any, scope: FieldScope, verbatim: bool) -> list[Any]:
    """The values of one match: one, several with `split`, or none if the pattern or type finds nothing in it."""
    extracted = _by_pattern(rule.pattern, raw)
    if _is_nothing(extracted):
        return []
    parts = (
        [part.strip(LAYOUT if verbatim else None) for part in _SEPARATOR.split(str(extracted))]
        if "split" in rule.process
        else [extracted]
    )
    if verbatim and rule.type == "text":
        return [part if isinstance(part, str) else _typed(part, rule, scope) for part in parts if not _is_nothing(part)]
    values = (_typed(part, rule, scope) for part in parts if not _is_nothing(part))
    return [value for value in values if not _is_nothing(value)]


def _typed(value: Any, rule: FieldRule, scope: FieldScope) -> Any:
    try:
        return convert(
            value,
            rule.type,
            language=scope.language,
            date_format=rule.format,
            base_url=scope.content.base_url,
            times=rule.times,
            calendar=rule.calendar,
            yes=rule.yes,
            no=rule.no,
        )
    except ValueError as error:
        raise _BadValue(str(error), value, "type") from error


def _raw_values(rule: FieldRule, scope: FieldScope, wants_list: bool, verbatim: bool = False) -> Iterable[Any]:
    """Texts, JSON values or (for type html) markup, unconverted, in page order."""
    if rule.const is not None:
        return rule.const if wants_list and isinstance(rule.const, list) else [rule.const]
    if rule.url is not None:
        return [_by_pattern(rule.url, spelled) for spelled in spellings(scope.content.url)]
    matches = find(scope.content, rule, scope.node, many=wants_list, about=scope.subjects)
    if rule.json_ is not None:
        # A JSON list is one value, unless its entries are wanted.
        spread = wants_list or rule.type is not None or rule.pattern is not None
        return matches[0] if spread and matches and isinstance(matches[0], list) else matches
    if rule.type == "html" and rule.attr is None:
        return (
            markup_of(match, hidden=rule.hidden, asked_for=True, leave_out=scope.content.leave_out) for match in matches
        )
    if rule.type == "price" and rule.attr is None:
        return (_price_text(match, rule, scope, lines="split" in rule.process) for match in matches)
    may_be_machine = (
        rule.type in ("date", "datetime") and rule.attr is rule.format is rule.calendar is rule.pattern is None
    )
    return (
        (may_be_machine and machine_date(match, scope.language, with_time=rule.type == "datetime"))
        or text_of(
            match,
            rule.attr,
            lines="split" in rule.process,
            hidden=rule.hidden,
            verbatim=verbatim,
            leave_out=scope.content.leave_out,
        )
        for match in matches
    )


def _price_text(match: Any, rule: FieldRule, scope: FieldScope, *, lines: bool) -> Any:
    """The text of a price. Where it is not clear whether its last digits are cents, what screen readers are told
    counts, as far as that is clear.

    Raises _BadValue where nothing says it.
    """
    text = text_of(match, None, lines=lines, hidden=rule.hidden, leave_out=scope.content.leave_out)
    number = parted_number(match, hidden=rule.hidden)
    if not number or number not in str(_by_pattern(rule.pattern, text) or ""):
        return text
    spoken = without_silent(match)
    if (
        spoken is not None
        and not parted_number(spoken, hidden=rule.hidden)
        and (heard := text_of(spoken, None, hidden=rule.hidden))
        and _digits(heard)
    ):
        return heard
    if not parted_number(match, hidden=True) and _digits(heard := text_of(match, None, hidden=True)) == _digits(text):
        return heard  # with the mark between them, which is hidden
    settles = "a selector for one of them, or xpath: concat(…, '.', …) with cents and concat(…) without"
    raise _BadValue(
        f"the digits of {number} stand in several elements, and the last may be cents; what settles it: {settles}",
        text,
        "type",
    )


def _digits(text: str) -> str:
    return "".join(filter(str.isdecimal, text))


def _by_pattern(pattern: str | None, raw: Any) -> Any:
    try:
        return (
            raw if pattern is None or raw is None else first_group(pattern, raw if isinstance(raw, str) else str(raw))
        )
    except TooSlow as error:
        raise _BadValue(str(error), raw, "pattern") from error


def _without_match(rule: FieldRule) -> Any:
    """The value where nothing matched: the default, or an empty list for a field of several values without one."""
    gives_list = (rule.many or not _SPREADING.isdisjoint(rule.process)) and _REDUCING.isdisjoint(rule.process)
    return [] if rule.default is None and gives_list else rule.default


def _is_nothing(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _processed(value: Any, rule: FieldRule, language: str) -> Any:
    for step in rule.process:
        value = _step(step, value, language)
    return value


def _step(step: Process, value: Any, language: str) -> Any:
    if step in _TEXT_STEPS:
        change = _TEXT_STEPS[step]
        if isinstance(value, list):
            return [change(part, language) if isinstance(part, str) else part for part in value]
        return change(value, language) if isinstance(value, str) else value
    values = value if isinstance(value, list) else [] if value is None else [value]
    match step:
        case "split":  # done in `_values_of`, before conversion
            return values
        case "count":
            return len(values)
        case "first" | "last":
            return (values[0] if step == "first" else values[-1]) if values else None
        case "unique":
            return [part for number, part in enumerate(values) if part not in values[:number]]
        case "sort":
            return sorted(
                values, key=lambda part: (0, part, "") if isinstance(part, int | float) else (1, 0, str(part))
            )
        case _:
            return ", ".join(str(part) for part in values)


def _read_nested(name: str, rule: FieldRule, scope: FieldScope) -> FieldReading:
    """Reads `fields` inside each container. A problem inside becomes the field's problem, named by its path."""
    entries = []
    for container in _containers(rule, scope):
        readings = read_fields(
            rule.fields or {}, FieldScope(container, scope.content, scope.language, subjects=scope.subjects)
        )
        if rule.many and not any(reading.matched for reading in readings.values() if reading.rule.looks):
            continue  # such as a header row
        for inner, reading in readings.items():
            if reading.problem:
                return replace(reading, value=None, matched=True, field=f"{name}.{reading.field or inner}")
        if any(reading.matched for reading in readings.values()):
            entries.append({inner: reading.value for inner, reading in readings.items()})
    if not entries:
        return _checked(FieldReading(_without_match(rule), rule, field=name, note=_note(rule, scope, rule.many)))
    value = _processed(entries if rule.many else entries[0], rule, scope.language)
    return _checked(FieldReading(value, rule, matched=True, field=name, thing=_thing(rule, scope)))


def _containers(rule: FieldRule, scope: FieldScope) -> list[Any]:
    where = rule.each or rule
    containers = find(scope.content, where, scope.node, many=rule.many, about=scope.subjects)
    if where.json_ is not None and containers and isinstance(containers[0], list):
        containers = containers[0]
    return containers if rule.many else containers[:1]


def _checked(reading: FieldReading) -> FieldReading:
    """The reading, with a problem added if a required value is missing or a value is not in `one_of`."""
    rule = reading.rule
    problem = broken = None
    if rule.required and _is_nothing(reading.value if reading.matched else rule.default):
        problem, broken = "required field is missing" + (f": {reading.note}" if reading.note else ""), "required"
    elif rule.one_of is not None and reading.value is not None:
        values = reading.value if isinstance(reading.value, list) else [reading.value]
        if strange := [value for value in values if value not in rule.one_of]:
            problem, broken = f"{_shown(strange[0])!r} is not one of {', '.join(map(repr, rule.one_of))}", "one_of"
    if broken is None:
        return reading
    return replace(reading, problem=problem, offending=_shown(reading.value), breaks=rule.conditions[broken])


def _shown(value: Any) -> Any:
    return f"{value[:_SHOWN]}…" if isinstance(value, str) and len(value) > _SHOWN else value
