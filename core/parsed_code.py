"""What syntax trees of modules say, kept in the user's cache by the modules' bytes: to parse the 160 that a run asks
for takes half a second.
"""

import ast
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from almanac.core.durable import write_file
from almanac.core.settings import code_cache
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import sha256

_MOST = 2_000  # modules in the cache; those that were not asked for since longest go
# Python 3.11 counts the depth of all threads' trees together, and two at once may end in a SystemError
_PARSING = Lock()


class Parsed(NamedTuple):
    """What a module's syntax tree says."""

    code: str  # SHA-256 of the tree without comments, docstrings and descriptions
    # module and name of each `from module import name` that may run, sorted; no name for `import module`
    imports: tuple[tuple[str, str], ...]


def parse(content: bytes) -> Parsed:
    """Returns what the source code of a module says. Raises SyntaxError."""
    code: list[str] = []
    imports: set[tuple[str, str]] = set()
    _write(ast.parse(content), code, imports)
    return Parsed(sha256(" ".join(code)), tuple(sorted(imports)))


class ParsedFiles:
    """What was parsed by any process of this user, in a file that is made anew where it is missing or damaged. Safe to
    share among threads.

    Args:
        path: The file; None where there is no place for one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._new = path, 0
        self._known = {} if path is None else _read(path)

    def of(self, content: bytes) -> Parsed:
        """As `parse`."""
        key = sha256(content)
        with _PARSING:
            if (parsed := self._known.pop(key, None)) is None:
                parsed, self._new = parse(content), self._new + 1
            self._known[key] = parsed
        return parsed

    def keep(self) -> None:
        """Writes the file, if something new was parsed. Whoever writes last is kept."""
        with _PARSING:
            if self._path is None or not self._new:
                return
            self._new = 0
            body = json.dumps(dict(list(self._known.items())[-_MOST:])).encode()
            with suppress(OSError):  # a cache on a full disk, or of somebody else
                write_file(self._path, sha256(body).encode() + b"\n" + body, synced=False)


@cache
def parsed_files() -> ParsedFiles:
    """What was parsed by this version of Python and of this module."""
    try:
        rules = sha256(Path(__file__).read_bytes())[:16]
        return ParsedFiles(code_cache() / f"{sys.implementation.cache_tag}-{sys.hexversion:x}-{rules}.json")
    except UsageError:  # there is no home directory
        return ParsedFiles(None)


def _read(path: Path) -> dict[str, Parsed]:
    """What the file says; nothing where it is missing, or not as it was written."""
    with suppress(OSError):
        digest, _, body = path.read_bytes().partition(b"\n")
        if digest == sha256(body).encode():
            return {
                key: Parsed(code, tuple((module, name) for module, name in imports))
                for key, (code, imports) in json.loads(body).items()
            }
    return {}


def _write(node: ast.AST, code: list[str], imports: set[tuple[str, str]], *, runs: bool = True) -> None:
    """Appends a syntax tree to `code`, without its prose, and adds to `imports` what it imports when it `runs`."""
    code.append(type(node).__name__)
    if runs and isinstance(node, ast.Import | ast.ImportFrom):
        imports.update(_imported(node))
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            _write(value, code, imports, runs=runs)
        elif isinstance(value, list):
            code.append("[")
            in_body = field == "body"
            for number, entry in enumerate(value):
                if in_body and number == 0 and _is_docstring(node, entry):
                    continue
                if isinstance(entry, ast.keyword) and entry.arg == "description":
                    continue
                if isinstance(entry, ast.AST):
                    _write(entry, code, imports, runs=runs and not (in_body and _is_for_types(node)))
                else:
                    code.append(repr(entry))
            code.append("]")
        else:
            code.append(repr(value))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif node.module:
        yield from ((node.module, alias.name) for alias in node.names)


def _is_docstring(node: ast.AST, first: ast.AST) -> bool:
    return (
        isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )


def _is_for_types(node: ast.AST) -> bool:
    """Whether a node is `if TYPE_CHECKING:`, whose body never runs."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
