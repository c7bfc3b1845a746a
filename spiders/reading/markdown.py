"""Reads Markdown files: front matter, HTML rendering for selectors, and the first heading."""

import datetime
import math
import re
import tomllib
from functools import cache
from typing import Any

import lxml.html
from markdown_it import MarkdownIt
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_KEY = re.compile(r"(@?\w[\w .@/-]{0,60}?)[ \t]*:(?!//)[ \t]*(.*)$")
_MAX_FRONT_MATTER = 1 << 16
_MAX_VALUES = 10_000  # YAML's aliases let a few lines stand for billions of values
_MAX_DEPTH = 20
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_ATX_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_SETEXT_LINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")
_HEADING_ATTRIBUTES = re.compile(r"\s*\{:?\s*[#.][^{}]*\}\s*$")  # `{#id .class}`, as Pandoc and kramdown write it


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Returns the front matter (YAML between `---`, TOML between `+++`) as JSON values, and the text below it.

    Dates become ISO 8601 texts. Where the block is broken YAML, such as an unquoted colon in a title, its `key: value` lines are read as texts. A
    block without any key is part of the text.
    """
    head = text[:_MAX_FRONT_MATTER]
    block = _FRONT_MATTER.match(head.replace("\r\n", "\n"))
    if block is None:
        return {}, text
    values = _toml(block[2]) if block[1] == "+++" else _yaml(block[2])
    if values is None:
        values = _plain_lines(block[2])
    if not values and block[2].strip():
        return {}, text
    lines = block[0].count("\n")
    return values, "".join(text.split("\n", lines)[lines:]) if block[0].endswith("\n") else ""


def _yaml(block: str) -> dict[str, Any] | None:
    try:
        return _mapping(YAML(typ="safe", pure=True).load(block))
    except (YAMLError, ValueError, RecursionError, ArithmeticError, TypeError, AttributeError):  # the last three on odd tags and numbers
        return None


def _toml(block: str) -> dict[str, Any] | None:
    try:
        return _mapping(tomllib.loads(block))
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return None


def _mapping(found: Any) -> dict[str, Any] | None:
    value = _json_value(found, [0], 0)
    return value if isinstance(value, dict) else None


def _json_value(value: Any, seen: list[int], depth: int) -> Any:
    """A value of YAML or TOML as a JSON value. Raises ValueError beyond 10,000 values or 20 levels."""
    seen[0] += 1
    if seen[0] > _MAX_VALUES or depth > _MAX_DEPTH:
        raise ValueError("too much for a front matter")
    if isinstance(value, dict):
        return {_key(key): _json_value(inner, seen, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json_value(inner, seen, depth + 1) for inner in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return str(value).encode("utf-8", "replace").decode()  # YAML can escape an unpaired surrogate


def _key(value: Any) -> str:
    """A key as it was written: YAML parses `null:` and `true:` as null and true."""
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)


def _plain_lines(block: str) -> dict[str, Any]:
    """The `key: value` lines of a block that is not YAML, with indented continuation lines. Empty if any other line occurs."""
    values: dict[str, Any] = {}
    name = ""
    for line in block.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        if found := _PLAIN_KEY.match(line):
            name = found[1]
            values[name] = found[2].strip()
        elif name and line[0] in " \t-":
            values[name] = f"{values[name]} {line.strip()}".strip()
        else:
            return {}
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(text: str) -> Any:
    """A single value of a block that could not be parsed as a whole: parsed as YAML if possible, else the text."""
    value = (_yaml(f"value: {text}") or {}).get("value", text)
    return text if isinstance(value, dict) else value


def render(text: str) -> str:
    """Markdown as HTML: CommonMark with tables and strikethrough; raw HTML is kept."""
    return str(_parser().render(text))


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def heading_of(text: str) -> str | None:
    """The text of the first heading outside code fences, without markup; None if there is none."""
    found = _heading_source(text)
    return None if found is None else plain_inline(found)


def plain_inline(source: str) -> str:
    """The text of a line of Markdown without markup."""
    markup = _parser().renderInline(_HEADING_ATTRIBUTES.sub("", source)[:2000])
    return " ".join(str(lxml.html.fragment_fromstring(markup, create_parent="div").text_content()).split())


def _heading_source(text: str) -> str | None:
    fence: str | None = None
    previous = ""
    lines = text.lstrip("\r\n").splitlines()
    if lines and lines[0].strip() == "---" and "---" in (ends := [line.strip() for line in lines[1:200]]):  # an empty front matter block
        lines = lines[ends.index("---") + 2 :]
    for line in lines:
        if mark := _FENCE.match(line):
            fence = mark[1] if fence is None else None if mark[1] == fence else fence
            previous = ""
            continue
        if fence is not None:
            continue
        if (heading := _ATX_HEADING.match(line)) and heading[1]:
            return heading[1]
        if previous.strip() and _SETEXT_LINE.match(line):
            return previous.strip()
        previous = line if not line.lstrip().startswith(("-", "*", ">", "|", "+")) else ""
    return None
