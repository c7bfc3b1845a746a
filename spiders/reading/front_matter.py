"""Reads the front matter of Markdown files: YAML between `---`, TOML between `+++`.

Blocks that are not quite YAML are read where nothing has to be guessed, such as an unquoted colon in a title. Others
are refused with line and reason.
"""

import datetime
import math
import re
import tomllib
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from almanac.core.yaml_bounds import excess_of

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*(?:\n|\Z)")
_KEY = re.compile(r"(\"[^\"]+\"|'[^']+'|@?\w[\w .@/-]{0,60}?)[ \t]*:(?!//)[ \t]*(.*)$")
_USUAL_KEY = re.compile(r"@?[a-z_][\w-]*[ \t]*:(?:\s|$)")
_GLUED_KEY = re.compile(r"[a-z_][\w-]*:(?!//)\S")  # title:foo, which YAML reads as one text
_TOML_KEY = re.compile(r"[\w.\"'-]+[ \t]*=|\[")
_ITEM = re.compile(r"-(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"[|>][-+\d]*(?:\s+#.*)?")
_MAX_CHARACTERS = 1 << 16
_MAX_VALUES = 10_000  # YAML's aliases let a few lines stand for billions of values
_MAX_DEPTH = 20
_MAX_ENTRIES = 1000  # of a block that is not YAML


class BrokenFrontMatter(ValueError):
    """The front matter cannot be read. The message has line, finding and next step; `below` is the text under the
    block.
    """

    def __init__(self, line: int, finding: str, below: str = "") -> None:
        super().__init__(f"front matter, line {line}: {finding}")
        self.line, self.finding, self.below = line, finding, below


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Returns the front matter as JSON values, and the text below it. Dates become ISO 8601 texts.

    A block without any key, such as prose between two thematic breaks, is part of the text. Raises BrokenFrontMatter
    for a block that has keys and cannot be read: no end, no YAML or TOML, a key that is there twice, more than 10,000
    values or 20 levels.
    """
    head = text[:_MAX_CHARACTERS].replace("\r\n", "\n")
    opening = _OPENING.match(head)
    if opening is None:
        return {}, text
    lines = head.split("\n")
    ends = (opening[1], "...") if opening[1] == "---" else (opening[1],)
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip(" \t") in ends), None)
    if end is None:
        if _has_keys(_first_paragraph(lines[1:]), opening[1]):
            limit = f" within {_MAX_CHARACTERS:,} characters" if len(text) > _MAX_CHARACTERS else ""
            raise BrokenFrontMatter(
                1, f"the block is opened and not closed{limit}: end it with a line {opening[1]}", text
            )
        return {}, text
    below = "".join(text.split("\n", end + 1)[end + 1 :])
    block = lines[1:end]
    try:
        values = _toml(block) if opening[1] == "+++" else _yaml_block(block)
    except BrokenFrontMatter as error:
        raise BrokenFrontMatter(error.line, error.finding, below) from error
    return ({}, text) if values is None else (values, below)


def _first_paragraph(lines: list[str]) -> list[str]:
    return lines[: next((number for number, line in enumerate(lines) if not line.strip()), len(lines))]


def _has_keys(lines: list[str], mark: str) -> bool:
    """Whether lines are meant as keys and values: they begin with a key, and it looks like one of a program, or most
    other lines have keys too.
    """
    said = [line for line in lines if line.strip() and not line.startswith("#")]
    if not said or not lines[0].strip():
        return False
    if mark == "+++":
        return _TOML_KEY.match(said[0]) is not None
    outer = [line for line in said if line[0] not in " \t-]}"]
    keys = sum(_KEY.match(line) is not None for line in outer)
    return _KEY.match(said[0]) is not None and (
        _USUAL_KEY.match(said[0]) is not None or (keys > 1 and 2 * keys > len(outer))
    )


def _toml(block: list[str]) -> dict[str, Any] | None:
    """The values of a block; None if it is text."""
    try:
        return _mapping(tomllib.loads("\n".join(block)), 2)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        if not _has_keys(block, "+++"):
            return None
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = int(place[1]) if place and place[1] else len(block)
        finding = (
            "too many levels"
            if isinstance(error, RecursionError)
            else str(error).replace(place[0] if place else "", "")
        )
        raise BrokenFrontMatter(
            line + 1, f"no TOML: {finding}; in TOML, texts are quoted and lists are in brackets"
        ) from error


def _yaml_block(block: list[str]) -> dict[str, Any] | None:
    """The values of a block; None if it is text."""
    if not any(line.strip() for line in block):
        return {}
    try:
        found = _parsed("\n".join(block), 2)
    except YAMLError:
        return _read_entries(block, 2) if _has_keys(block, "---") else None
    if isinstance(found, str) and all(_GLUED_KEY.match(line) for line in block if line.strip()):
        return _read_entries(block, 2)
    return _mapping(found, 2) if isinstance(found, dict) else None


def _parsed(source: str, line: int) -> Any:
    """The YAML value of lines that begin with `line`. Raises YAMLError for whatever the library makes of broken input,
    BrokenFrontMatter if it is too large.
    """
    try:
        if excess := excess_of(source, _MAX_VALUES, _MAX_DEPTH):
            raise BrokenFrontMatter(line + excess.line - 1, f"{excess.finding}: keep data in a file of its own")
        return YAML(typ="safe", pure=True).load(source)
    except (YAMLError, BrokenFrontMatter):
        raise
    except RecursionError as error:
        raise YAMLError("too many levels") from error
    # on odd dates, tags and numbers
    except (ValueError, ArithmeticError, TypeError, AttributeError, AssertionError) as error:
        raise YAMLError(f"{type(error).__name__}: {error}") from error


def _read_entries(lines: list[str], first: int) -> dict[str, Any]:
    """The keys and values of lines that are no YAML as a whole, each entry read for itself. `first` is the number of
    the first line in the file.
    """
    starts: list[int] = []
    for number, line in enumerate(lines):
        if (
            not line.strip()
            or line.startswith("#")
            or (starts and line[0] in " \t]}")
            or (starts and _ITEM.match(line))
        ):
            continue
        if not _KEY.match(line):
            tab = (
                "a tab indents it: use spaces"
                if line.startswith("\t")
                else f"{_shown(line)} is no `key: value`; is the line --- above it missing?"
            )
            raise BrokenFrontMatter(first + number, tab)
        starts.append(number)
    if len(starts) > _MAX_ENTRIES:
        raise BrokenFrontMatter(first, f"no YAML, and more than {_MAX_ENTRIES:,} keys")
    values: dict[str, Any] = {}
    seen: dict[str, int] = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        name, value = _read_entry(lines[start:end], first + start)
        if name in values and values[name] != value:
            raise BrokenFrontMatter(first + start, f"`{name}` is there twice, first in line {seen[name]}: keep one")
        values[name] = value
        seen.setdefault(name, first + start)
    return values


def _read_entry(lines: list[str], number: int) -> tuple[str, Any]:
    """The key and the value of one entry. Raises BrokenFrontMatter."""
    entry = _KEY.match(lines[0])
    assert entry is not None
    name, value = entry[1].strip("\"'"), entry[2].strip()
    try:
        found = _parsed("\n".join(lines), number)
        if isinstance(found, dict) and len(found) == 1:
            return next(iter(_mapping(found, number).items()))
        finding = "no YAML: quote the whole value"
    except YAMLError as error:
        finding = _finding(error, lines[0])
    inner = [line for line in lines[1:] if line.strip() and not line.lstrip().startswith("#")]
    if tabbed := next(
        (row for row, line in enumerate(lines) if row and line[: len(line) - len(line.lstrip())].count("\t")), None
    ):
        raise BrokenFrontMatter(number + tabbed, "a tab indents it: use spaces")
    if nested := next((row for row, line in enumerate(lines) if row and value and _KEY.match(line.lstrip())), None):
        raise BrokenFrontMatter(
            number + nested,
            f"{_shown(lines[nested])} is indented under a key that has a value: move it out, or quote the whole value",
        )
    if (
        value
        and not _BLOCK.fullmatch(value)
        and _is_plain(text := " ".join([value, *(line.strip() for line in inner)]))
    ):
        return name, text if inner else _plain_value(text, number)
    if value or not inner:
        raise BrokenFrontMatter(number, f"{_shown(lines[0])}: {finding}")
    return name, _read_inner(lines[1:], number + 1)


def _read_inner(lines: list[str], number: int) -> Any:
    """What is indented under a key: a list, or keys and values."""
    said = [line for line in lines if line.strip()]
    indent = min(len(line) - len(line.lstrip(" ")) for line in said)
    dedented = [line[indent:] for line in lines]
    if not said[0].lstrip().startswith("-"):
        return _read_entries(dedented, number)
    values = []
    for row, line in enumerate(dedented):
        if line.strip() and not line.startswith("#"):
            item = _ITEM.match(line)
            if item is None or not _is_plain(item[1] or ""):
                raise BrokenFrontMatter(
                    number + row, f"{_shown(line)} is no item of a list: quote it, or begin it with a dash"
                )
            values.append(_plain_value(item[1] or "", number + row))
    return values


def _plain_value(text: str, number: int) -> Any:
    """A single value: parsed as YAML if possible, else the text."""
    try:
        value = _mapping(_parsed(f"value: {text}", number), number).get("value", text)
    except (YAMLError, AttributeError):
        return text
    return text if isinstance(value, dict) else value


def _is_plain(text: str) -> bool:
    """Whether a value can only be read in one way although it is no YAML: as the text that it is. Quotes and brackets
    that it begins with are closed.
    """
    begin = text[:1]
    if begin in ("'", '"'):
        closed = len(re.findall(rf"(?<!\\){begin}", text)) % 2 == 0
        # "Foo" and bar; a text that is quoted as a whole has a wrong escape
        return closed and not (text.endswith(begin) and text.count(begin) == 2)
    if begin in ("[", "{"):
        balanced = text.count("[") == text.count("]") and text.count("{") == text.count("}")
        return balanced and (text.startswith("{{") or text[-1] not in "]}")  # {{ page.title }}, [Draft] My title
    return True


def _finding(error: YAMLError, line: str) -> str:
    if re.search(r"[\s\[,]#", line):
        return "`#` begins a comment here: quote what begins with it"
    problem = (error.problem or "") if isinstance(error, MarkedYAMLError) else str(error)
    if "<stream end>" in problem or "unexpected end of stream" in problem:
        return "a quote or bracket is not closed: close it, or quote the whole value"
    return f"{problem.partition(chr(10))[0].strip() or 'no YAML'}: quote the whole value"


def _shown(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= 60 else f"{line[:57]}...")


def _mapping(found: dict[Any, Any], line: int) -> dict[str, Any]:
    """A mapping of YAML or TOML as JSON values. Raises BrokenFrontMatter beyond 10,000 values or 20 levels."""
    value: dict[str, Any] = _json_value(found, [0], 0, line)
    return value


def _json_value(value: Any, seen: list[int], depth: int, line: int) -> Any:
    seen[0] += 1
    if seen[0] > _MAX_VALUES or depth > _MAX_DEPTH:
        raise BrokenFrontMatter(
            line, f"more than {_MAX_VALUES:,} values or {_MAX_DEPTH} levels: keep data in a file of its own"
        )
    if isinstance(value, dict):
        return {_key(key): _json_value(inner, seen, depth + 1, line) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json_value(inner, seen, depth + 1, line) for inner in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return str(value).encode("utf-8", "replace").decode()  # YAML can escape an unpaired surrogate


def _key(value: Any) -> str:
    """A key as it was written: YAML parses `null:` and `true:` as null and true."""
    return (
        {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )
