"""Parses a declaration's YAML into a tree in which every value has its file and line, for error messages.

The parser is imported with the first file that is read.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any

from almanac.core.yaml_bounds import excess_of
from almanac.schemas.errors import DeclarationError

Keys = tuple[str | int, ...]
_MAX_VALUES = 100_000
_MAX_DEPTH = 100
_SHOWN = 60  # characters of a text in an error
# A variable; or, in a template, a dollar sign before a field whose name no variable can have; or what was meant to be a
# variable.
_VARIABLE = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}|([^\W\d]\w*(?:\.\w+)*\}))?")
# Texts that name a variable, whose value is read where it is used.
_NAMING = frozenset({("embed", "key"), ("generate", "key")})
_LITERAL = "${NONE:-$}{"  # a way to write `${` where a variable would begin
# Values below these keys are never shown in errors, even in an invalid form.
SECRET_KEYS = frozenset({"auth", "headers", "cookies"})


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a YAML file, with its position."""

    value: Any  # a dict of nodes by key, a list of nodes, or a scalar
    path: Path
    line: int | None = None  # line of the key, from 1; None for the whole file

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else str(self.path)

    def nearest(self, keys: Sequence[str | int]) -> "Node":
        """Returns the node at `keys`, or its nearest existing ancestor."""
        if not keys:
            return self
        first, rest = keys[0], keys[1:]
        has_it = (isinstance(self.value, dict) and first in self.value) or (
            isinstance(self.value, list) and isinstance(first, int) and first < len(self.value)
        )
        return self.value[first].nearest(rest) if has_it else self


def read_tree(path: Path) -> Node:
    """Parses a YAML file. Raises DeclarationError where it cannot be read, is not valid YAML in UTF-8, or too large
    once its aliases are written out.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        text = path.read_text(encoding="utf-8-sig")
        if excess := excess_of(text, _MAX_VALUES, _MAX_DEPTH):
            raise DeclarationError(
                excess.finding,
                where=f"{path}:{excess.line}",
                hint="keep it flatter, or write out what aliases of aliases stand for",
            )
        tree = YAML(typ="rt").load(text)
    except UnicodeDecodeError as error:
        raise DeclarationError(
            f"not UTF-8: {error.reason} at byte {error.start}", where=str(path), hint="save the file as UTF-8"
        ) from error
    except DuplicateKeyError as error:
        raise _repeated_key(path) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise DeclarationError(f"not valid YAML: {_problem(error)}", where=place, hint=_way_out(error)) from error
    except ReaderError as error:
        place = f"{path}:{path.read_text(encoding='utf-8-sig').count(chr(10), 0, error.position) + 1}"
        raise DeclarationError(
            f"not valid YAML: the character U+{error.character:04X} may not stand in a file",
            where=place,
            hint="delete it",
        ) from error
    except YAMLError as error:
        raise DeclarationError(
            f"not valid YAML: {error}", where=str(path), hint="check indentation, quotes and brackets"
        ) from error
    except OSError as error:
        raise DeclarationError(
            f"cannot be read: {error.strerror}", where=str(path), hint="check the file's permissions"
        ) from error
    # on odd numbers, dates and tags
    except (ValueError, ArithmeticError, TypeError, AttributeError, AssertionError) as error:
        finding = str(error).partition(";")[0].partition(": ")[0]
        raise DeclarationError(
            f"not valid YAML: {finding or 'a tag on something else'}",
            where=f"{path}:1",
            hint="quote numbers, dates and tags",
        ) from error
    except KeyError as error:  # ruamel knows the versions that it is asked for, and looks up any
        place = f"{path}:{_line_of_version(path)}"
        raise DeclarationError(
            "not valid YAML: a %YAML line names a version that does not exist", where=place, hint="delete that line"
        ) from error
    return _node(tree, path, None)


def _problem(error: Any) -> str:
    """What the parser says; of what goes on from its context, the whole."""
    problem = str(error.problem or error.context)
    return f"{error.context}, {problem}" if error.context and problem.startswith("but ") else problem


def _way_out(error: Any) -> str:
    problem = str(error.problem)
    if "'\\t'" in problem:
        return "YAML is indented by spaces: replace the tab by them"
    return (
        "keep one document in the file: delete the line ---"
        if "another document" in problem
        else "check indentation, quotes and brackets there"
    )


def _line_of_version(path: Path) -> int:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if line.startswith("%YAML")), 1)


def _repeated_key(path: Path) -> DeclarationError:
    """The error about a key that is there twice in a mapping. Unlike ruamel's, it shows no value, which may be a
    secret.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    waiting = deque([YAML(typ="rt").compose(path.read_text(encoding="utf-8-sig"))])
    met: set[int] = set()
    while waiting:
        node = waiting.popleft()
        if id(node) in met:  # an alias
            continue
        met.add(id(node))
        if isinstance(node, SequenceNode):
            waiting.extend(node.value)
        lines: dict[str, int] = {}
        for key, value in node.value if isinstance(node, MappingNode) else ():
            mark = key.start_mark
            if isinstance(key, ScalarNode) and key.value in lines:
                finding = f"not valid YAML: the key '{key.value}' is there twice, first on line {lines[key.value]}"
                return DeclarationError(
                    finding, where=f"{path}:{mark.line + 1}:{mark.column + 1}", hint="keep one of the two"
                )
            lines[str(key.value)] = mark.line + 1
            waiting.append(value)
    return DeclarationError("not valid YAML: a key is there twice", where=str(path), hint="keep one of the two")


def _node(raw: Any, path: Path, line: int | None) -> Node:
    if isinstance(raw, dict):
        return Node({str(key): _node(value, path, _line(raw, key) or line) for key, value in raw.items()}, path, line)
    if isinstance(raw, list):
        return Node([_node(value, path, _line(raw, number) or line) for number, value in enumerate(raw)], path, line)
    return Node(raw.isoformat() if isinstance(raw, date | time) else raw, path, line)  # `date` includes datetime


def _line(raw: Any, key: Any) -> int | None:
    try:
        marks = raw.lc  # ruamel's line and column marks
        return int((marks.key(key) if isinstance(raw, dict) else marks.item(key))[0]) + 1
    except (AttributeError, KeyError, IndexError, TypeError):  # keys merged in by an anchor have no mark
        return None


def plain(
    node: Node,
    at: Keys = (),
    unset: Callable[[str, Keys, int], str | None] | None = None,
    filled: Callable[[str, Keys], str] = lambda value, _: value,
) -> Any:
    """Converts a tree to plain Python values, with `${VAR}` and `${VAR:-default}` replaced in every string.

    `at` is the node's position in the file, for messages. `unset` gives the text for a variable that is not set and has
    no default, by its name, the position of the string and its place in it; `filled` gives that for the value of a
    variable without a default, by the position of the string. Raises DeclarationError where there is none, and for `${`
    that begins no variable: such a text would be taken as it stands.
    """
    if isinstance(node.value, dict):
        return {key: plain(value, (*at, key), unset, filled) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [plain(value, (*at, number), unset, filled) for number, value in enumerate(node.value)]
    if not isinstance(node.value, str) or at in _NAMING:
        return node.value

    def value_of(match: re.Match[str]) -> str:
        if match[3] is not None:
            return match[0]
        if match[1] is None:
            raise _no_variable(node, at, match.start())
        value = os.environ.get(match[1]) or match[2]
        if value is None and unset is not None:
            value = unset(match[1], at, match.start())
        if value is None:
            is_field = match[1] != match[1].upper()
            hint = f"export {match[1]}=…, or write ${{{match[1]}:-default}}" + (
                f"; a dollar sign before a field is {_LITERAL}{match[1]}}}" if is_field else ""
            )
            raise DeclarationError(
                f"{dotted(at)}: environment variable {match[1]} is not set", where=node.place, hint=hint
            )
        return value if match[2] is not None else filled(value, at)

    return _VARIABLE.sub(value_of, str(node.value))


def _no_variable(node: Node, at: Keys, start: int) -> DeclarationError:
    rest_of_line = node.value[start:].split("\n", 1)[0]
    shown = "" if not SECRET_KEYS.isdisjoint(map(str, at)) else f"; found {rest_of_line[:_SHOWN]}"
    return DeclarationError(
        f"{dotted(at)}: `${{` begins a variable, and there is none{shown}",
        where=node.place,
        hint=(
            f"${{NAME}} or ${{NAME:-default}}, of ASCII letters, digits and _, with no variable in the default; "
            f"`${{` itself is written {_LITERAL}"
        ),
    )


def literal(text: str) -> str:
    """A text as it is written in a declaration where it shall be read as it stands, without variables."""
    return text.replace("${", _LITERAL)


def dotted(keys: Sequence[str | int]) -> str:
    """Formats a position as `sources[0].fields.title`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
