"""Reads the front matter of Markdown files: YAML between `---`, TOML between `+++`.

A value that is no YAML, such as a title with a colon, is read as the text that it is. Any other block that cannot be
read is refused with line and reason.
"""

import datetime
import json
import re
import tomllib
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from almanac.core.yaml_bounds import excess_of

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*(?:\n|\Z)")
_KEY = re.compile(r"[\"'@]?[a-z_][\w-]*[\"']?[ \t]*[:=](?!//)|\[")  # as programs name things; `Note:` begins prose
_ENTRY = re.compile(
    r"(?P<lead>[ \t]*(?:-[ \t]+)?)(?:(?<=-[ \t])|(?P<key>@?[^\W\d][\w .@/-]{0,60}?)[ \t]*:(?!//)[ \t]*)(?P<value>\S.*)"
)
_CLOSED_BY = {"[": "]", "{": "}", '"': '"', "'": "'"}
_TO_MEND = "quote texts, close quotes and brackets, indent by spaces, and end the block with a line ---"
_MAX_CHARACTERS = 1 << 16
_MAX_VALUES = 10_000  # YAML's aliases let a few lines stand for billions of values
_MAX_DEPTH = 20


class BrokenFrontMatter(ValueError):
    """The front matter cannot be read. The message has line, finding and next step; `below` is the text under the
    block.
    """

    def __init__(self, line: int, finding: str, below: str = "") -> None:
        super().__init__(f"front matter, line {line}: {finding}")
        self.line, self.finding, self.below = line, finding, below


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Returns the front matter as JSON values, and the text below it. Dates become ISO 8601 texts.

    A block that does not begin with a key, such as prose between two thematic breaks, is part of the text. Raises
    BrokenFrontMatter for one that does and cannot be read: no end, no YAML or TOML, a key that is there twice, more
    than 10,000 values or 20 levels.
    """
    head = text[:_MAX_CHARACTERS].replace("\r\n", "\n")
    opening = _OPENING.match(head)
    if opening is None:
        return {}, text
    lines = head.split("\n")
    ends = ("---", "...") if opening[1] == "---" else ("+++",)
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip(" \t") in ends), None)
    has_keys = _KEY.match(next((line for line in lines[1:] if not line.startswith("#")), "")) is not None
    if end is None:
        if has_keys:
            limit = f" within {_MAX_CHARACTERS:,} characters" if len(text) > _MAX_CHARACTERS else ""
            finding = f"the block is opened and not closed{limit}: end it with a line {opening[1]}"
            raise BrokenFrontMatter(1, finding, text)
        return {}, text
    below = "".join(text.split("\n", end + 1)[end + 1 :])
    block = lines[1:end]
    try:
        values = _toml(block) if opening[1] == "+++" else _yaml(block)
    except BrokenFrontMatter as error:
        if has_keys or all(map(_ENTRY.match, filter(str.strip, block))):
            raise BrokenFrontMatter(error.line, error.finding, below) from error
        values = None
    return (values, below) if isinstance(values, dict) else ({}, text)


def _toml(block: list[str]) -> Any:
    try:
        return _json_value(tomllib.loads("\n".join(block)))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        finding = f"no TOML: {str(error).partition(' (at ')[0]}; in TOML, texts are quoted and lists are in brackets"
        raise BrokenFrontMatter(1 + int(place[1]) if place else len(block) + 1, finding) from error
    except RecursionError as error:
        raise BrokenFrontMatter(2, "no TOML: too many levels") from error


def _yaml(block: list[str]) -> Any:
    """The value of a block, read once more with quotes around what is no YAML if it is none as it stands."""
    try:
        value = _parsed("\n".join(block))
    except YAMLError:
        value = None
    if isinstance(value, dict):
        return value
    if not any(line.strip() for line in block):
        return {}
    try:
        return _parsed("\n".join(map(_quoted, block)))
    except YAMLError as error:
        line, problem = _finding(error)
        line = max(row for row, written in enumerate(block[: line + 1]) if row == 0 or written.strip())
        finding = f"no YAML at {block[line].strip()[:60]!r}: {problem}"
        raise BrokenFrontMatter(line + 2, f"{finding}; {_TO_MEND}") from error


def _finding(error: YAMLError) -> tuple[int, str]:
    """(line from 0, problem); of a quote or bracket that is not closed, the line that opens it."""
    if not isinstance(error, MarkedYAMLError):
        return 0, str(error)
    is_open = error.context is not None and ("flow" in error.context or "quoted" in error.context)
    mark = error.context_mark if is_open else error.problem_mark
    return mark.line if mark is not None else 0, " ".join((error.problem or "").split())


class _Constructor(SafeConstructor):
    """Reads dates as ISO 8601 texts, and what only looks like one, `2024-13-45`, as it is written."""

    def construct_date(self, node: Any) -> str:
        try:
            value: datetime.date = self.construct_yaml_timestamp(node)
        except ValueError:
            return str(node.value)
        return value.isoformat()


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", _Constructor.construct_date)


def _parsed(source: str) -> Any:
    """The YAML value of a text. Raises YAMLError for whatever the library makes of broken input, BrokenFrontMatter if
    it is too large.
    """
    try:
        if excess := excess_of(source, _MAX_VALUES, _MAX_DEPTH):
            raise BrokenFrontMatter(excess.line + 1, f"{excess.finding}: keep data in a file of its own")
        reader = YAML(typ="safe", pure=True)
        reader.Constructor = _Constructor
        return _json_value(reader.load(source))
    except (YAMLError, BrokenFrontMatter):
        raise
    # on odd tags, numbers and keys
    except (ValueError, ArithmeticError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise YAMLError(f"{type(error).__name__}: {error}") from error


def _quoted(line: str) -> str:
    """A line `key: value` or `- value` with quotes around what is no YAML by itself: `title: Ajax: an intro`."""
    entry = _ENTRY.match(line)
    if entry is None:
        return line
    key = entry["key"] or ""
    named = f'"{key}": ' if key.startswith("@") else f"{key}: " if key else ""
    lead, value = entry["lead"] + named, entry["value"]
    return lead + (json.dumps(value, ensure_ascii=False) if _is_text(lead.lstrip(), value) else value)


def _is_text(lead: str, value: str) -> bool:
    """Whether a value is no YAML and can only be read as the text that it is: quotes and brackets that it begins with
    are closed before its end.
    """
    try:
        _parsed(lead + value)
    except YAMLError:
        closing = _CLOSED_BY.get(value[:1])
        return closing is None or value.startswith("{{") or (closing in value[1:] and not value.endswith(closing))
    return False


def _json_value(value: Any) -> Any:
    """A value of YAML or TOML as one of JSON: keys are texts, dates ISO 8601, infinite numbers `Infinity`, integers of
    more than 18 digits texts.
    """
    written = json.dumps(value, ensure_ascii=False, default=_text).encode("utf-8", "replace")
    return json.loads(written, parse_constant=str, parse_int=lambda digits: int(digits) if len(digits) < 19 else digits)


def _text(value: Any) -> Any:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return list(value) if isinstance(value, set) else str(value)
