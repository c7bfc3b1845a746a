"""Reads data from a page's scripts without running them: values assigned to a variable, or the content of a script
element with an id.
"""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import chompjs

from almanac.spiders.reading.content import parse_json

# Strings, comments and regular expressions are skipped, so that an assignment inside one does not count. A slash begins
# a regular expression where it cannot be a division. An unclosed literal ends with its line, so the scan takes linear
# time.
_REGULAR_EXPRESSION = r"(?<=[=(,:;!&|?{\[])\s*+/(?![*/])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,80}+\]){1,500}+/"
_COMMENT = r"//[^\n]*+|/\*.*?(?:\*/|\Z)"
_STRING = (
    r"""\"(?:[^"\\\n]|\\.)*+(?:"|\\?(?=\n|\Z))|'(?:[^'\\\n]|\\.)*+(?:'|\\?(?=\n|\Z))|`(?:[^`\\]|\\.)*+(?:`|\\?\Z)"""
)
_PASSED = rf"(?P<passed>{_REGULAR_EXPRESSION}|{_COMMENT}|{_STRING})"
_GLOBAL = re.compile(r"^(?:(?:var|let|const)\s+)?(?:(?:window|self|globalThis|top|this)\s*\.\s*)?|\s*=\s*$")
_GLOBALS = r"(?:(?:window|self|globalThis|top|this)\s*(?:\.\s*|\[\s*['\"]))?"
_PATH = r"(?P<path>(?:\s*\.\s*[\w$]+|\s*\[\s*(?:'[^'\n]*'|\"[^\"\n]*\"|\d+)\s*\])*?)"
_STEP = re.compile(r"\.\s*([\w$]+)|\[\s*(?:'([^']*)'|\"([^\"]*)\"|(\d+))\s*\]")
_OR = re.compile(r"\s*[A-Za-z_$][\w$]*+(?:\.[\w$]++|\[['\"]?[\w$.-]++['\"]?\])*+\s*+(?:\|\||\?\?)\s*")
_JSON_PARSE = re.compile(r"\s*JSON\s*\.\s*parse\s*\(\s*")
_LITERAL = re.compile(
    r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\$]|\\.)*+`|-?\d[\d.]*(?:[eE][-+]?\d+)?|true|false|null)(?=\s*(?:[;,)\n}]|$))"""
)
_WRAPPING = re.compile(r"^\s*(?://|/\*)?\s*(?:<!\[CDATA\[|<!--)\s*(?:\*/)?")
_BEFORE_VALUE = re.compile(r"(?:[\s(]|Object\s*\.\s*freeze\b)*+")
_NO_JSON_ESCAPE = re.compile(r"(\\\\)|\\x([0-9a-fA-F]{2})|\\u\{0*([0-9a-fA-F]{1,6})\}|\\\n")
# JavaScript values that JSON lacks; chompjs returns them as text.
_NO_JSON = {"undefined": None, "void 0": None, "!0": True, "!1": False, "Infinity": None, "-Infinity": None}
_MAX_ASSIGNMENTS = 1000
_MAX_IN_VAIN = 64 << 20  # characters


def named_data(scripts: list[tuple[str | None, str]], name: str) -> Any:
    """The data that `name` holds in the page's scripts; None if there is none. `scripts` are (id, text) in page order.

    A script element with that id is data as a whole. Otherwise all assignments count, in any script: to the variable
    itself, to parts of it (`data.items = …`), and `data.push(…)`. Values that are not plain data, such as function
    calls, are skipped.
    """
    wanted = _GLOBAL.sub("", name.strip()).removeprefix("#")
    for own_id, text in scripts:
        if own_id == wanted and (value := read_data(text)) is not None:
            return value
    return (
        None
        if name.strip().startswith("#")
        else _assigned([text for _, text in scripts if wanted.split(".")[0] in text], wanted)
    )


def read_data(text: str) -> Any:
    """The data that a script consists of, such as a JSON-LD block; None if it is no data. Comments, stray commas and
    JavaScript escapes are tolerated.
    """
    text = _WRAPPING.sub("", text)
    for written in (text, unescape(text)) if "&quot;" in text or "&#34;" in text else (text,):
        if (begin := re.search(r"[\[{]", written)) and (
            value := _Reader(written).value_at(begin.start())[0]
        ) is not None:
            return value
    return None


def _assigned(scripts: list[str], name: str) -> Any:
    """The value of the variable after all assignments, in order."""
    root: Any = None
    for text in scripts:
        for path, is_push, is_kept, value in _assignments(text, name):
            if is_push:
                root = _pushed(root, path, value)
            elif not path:
                # the default of a parameter of the same name: `function f(data = {})`
                is_default = root is not None and (is_kept or value in ({}, []))
                root = root if is_default else value
            else:
                root = _with_part(root, path, value)
    return root


def _assignments(text: str, name: str) -> Iterator[tuple[list[str], bool, bool, Any]]:
    """Yields (path below the name, is appended, keeps an existing value as in `x = x || …`, value) for each
    assignment.
    """
    dotted = r"\s*\.\s*".join(map(re.escape, name.split(".")))
    target = rf"(?<![\w$.]){_GLOBALS}{dotted}(?:['\"]\s*\])?{_PATH}\s*(?:=(?![=>])|(?P<push>\.\s*push\s*\())"
    scan = re.compile(rf"{target}|{_PASSED}", re.DOTALL)
    reader, count, position = _Reader(text), 0, 0
    while count < _MAX_ASSIGNMENTS and (match := scan.search(text, position)):
        position = match.end()
        if match["passed"] is not None:
            continue
        count += 1
        or_operator = _OR.match(text, position)
        value, position = reader.value_at(or_operator.end() if or_operator else position)
        if value is not None:
            path = [next(part for part in step if part) for step in _STEP.findall(match["path"] or "") if any(step)]
            yield path, match["push"] is not None, or_operator is not None, value


def _with_part(root: Any, path: list[str], value: Any) -> Any:
    """`root` with `value` set at `path`; unchanged if the path leads through a value that is not an object."""
    root = {} if root is None else root
    node = root
    for step in path[:-1]:
        if not isinstance(node, dict):
            return root
        node = node.setdefault(step, {})
    if isinstance(node, dict):
        node[path[-1]] = value
    return root


def _pushed(root: Any, path: list[str], value: Any) -> Any:
    root = ([] if not path else {}) if root is None else root
    node = root
    for depth, step in enumerate(path, start=1):
        node = node.setdefault(step, [] if depth == len(path) else {}) if isinstance(node, dict) else None
    if isinstance(node, list):
        node.append(value)
    return root


class _Reader:
    """Reads literal values from a script. The total length of failed attempts is bounded, so that a script of a
    thousand broken literals terminates.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._left = _MAX_IN_VAIN

    def value_at(self, position: int) -> tuple[Any, int]:
        """The value that begins at `position` and the position to go on from; the value is None if it is not plain
        data.
        """
        if parse := _JSON_PARSE.match(self.text, position):
            written, end = self._plain_at(parse.end())
            return (_loaded(written) if isinstance(written, str) else None), end
        return self._plain_at(position)

    def _plain_at(self, position: int) -> tuple[Any, int]:
        # matches the empty text, too
        start = _BEFORE_VALUE.match(self.text, position).end()  # type: ignore[union-attr]
        if self.text[start : start + 1] in ("{", "["):
            return self._object_at(start)
        literal = _LITERAL.match(self.text, start)
        if literal is None:
            return None, position
        read = _Reader(f"[{literal[0]}]")._object_at(0)[0]
        return (read[0] if read else None), literal.end()

    def _object_at(self, start: int) -> tuple[Any, int]:
        """An object or array, parsed as JSON or else as a JavaScript literal."""
        try:
            end = json.JSONDecoder(strict=False).raw_decode(self.text, start)[1]
            return _loaded(self.text[start:end]), end
        except (ValueError, RecursionError):
            pass
        if self._left <= 0:
            return None, start + 1
        self._left -= len(self.text) - start
        written = _NO_JSON_ESCAPE.sub(_json_escape, self.text[start:])
        try:
            return _plain(chompjs.parse_js_object(written, loader=_loaded)), start + 1
        except (ValueError, RecursionError):
            return None, start + 1


def _json_escape(escape: re.Match[str]) -> str:
    """A JavaScript escape as JSON; an escaped line end is dropped."""
    if escape[1]:
        return escape[1]
    if escape[3]:
        return json.dumps(chr(min(int(escape[3], 16), 0x10FFFF)))[1:-1] if len(escape[3]) > 4 else f"\\u{escape[3]:0>4}"
    return f"\\u00{escape[2]}" if escape[2] else ""


def _loaded(text: str) -> Any:
    """JSON by the rules of `parse_json`, but NaN and Infinity become null and strings may contain line ends; None if it
    is invalid.
    """
    try:
        return parse_json(text)
    except ValueError:
        pass
    try:
        return parse_json(json.dumps(json.loads(text, strict=False, parse_constant=lambda _: None)))
    except (ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return _NO_JSON.get(value, value) if isinstance(value, str) else value
