"""Fingerprints of the code that computes a stage's results: its own modules and the libraries that they import.

Imports are followed from the stage's entry modules, so that no list has to be maintained by hand. Modules are hashed by
their syntax trees without comments, docstrings and descriptions, because rewording changes no result. Libraries count
by version, if the package's modules import them directly. Modules and libraries that affect no result are excluded
below, each with the reason.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from almanac.core.extras import installed_version
from almanac.core.settings import installation
from almanac.schemas.hashing import canonical_json, sha256

_PACKAGE = "almanac"
# Python 3.11 counts the depth of all threads' trees together, and two at once may end in a SystemError.
_PARSING = Lock()
# Own folders and modules that are imported by computing modules but affect no stored result.
EXCLUDED_MODULES = {
    "core.code_fingerprint": "is this module",
    "core.digests": "finds what is equal, as a dictionary would",
    "core.durable": "writes bytes as they are given",
    "core.extras": "says what is not installed",
    "core.logs": "writes log lines",
    "core.mapped": "reads bytes as they are, sooner or later",
    "core.tables": "keeps rows as they are given",
    "schemas.declaration.named_expectations": "checks what is declared; what judges imports the library itself",
    "schemas.errors": "words errors",
    "spiders.store": "keeps pages as they came; their hashes are part of what is compared",
}
# Distributions that are imported by computing modules but affect no result.
EXCLUDED_LIBRARIES = {
    "pydantic": "checks what is declared, which is hashed as it stands",
    "pydantic_core": "as pydantic",
    "jsonschema": "as pydantic",
    "pyarrow": "keeps rows as they are given",
    "cronsim": "reads schedules",
    "psutil": "watches what reading a file takes",
}
# Import names that differ from the name of their distribution.
DISTRIBUTIONS = {
    "Stemmer": "PyStemmer",
    "faiss": "faiss-cpu",
    "markdown_it": "markdown-it-py",
    "pptx": "python-pptx",
    "ruamel": "ruamel.yaml",
}


class _Module(NamedTuple):
    """What a module contributes to a fingerprint."""

    own: frozenset[str]  # modules of the package that it imports
    libraries: frozenset[str]  # import names of third-party libraries
    code: str  # SHA-256 of its syntax tree


@cache
def code_fingerprint(*entries: str) -> str:
    """Returns a 16-character hash of all code that the entry modules depend on, cached for the process.

    `entries` are module names without the package's, such as `transforms.mapped_pages`.
    """
    modules = computing_modules(*entries)
    return sha256(canonical_json([{name: _read(name).code for name in modules}, libraries_of(modules)]))[:16]


def computing_modules(*entries: str) -> list[str]:
    """Returns the entry modules and all modules of the package that they import, directly or indirectly, without the
    excluded ones; sorted.
    """
    modules: set[str] = set()
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        if name not in modules and not _is_excluded(name):
            modules.add(name)
            waiting += _read(name).own
    return sorted(modules)


def libraries_of(modules: Iterable[str]) -> dict[str, str]:
    """Returns distribution → installed version of the libraries that these modules import directly, without the
    excluded ones; sorted by name.
    """
    names = {DISTRIBUTIONS.get(library, library) for module in modules for library in _read(module).libraries}
    return {name: _version(name) for name in sorted(names - EXCLUDED_LIBRARIES.keys())}


def _is_excluded(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in EXCLUDED_MODULES)


@cache
def _read(module: str) -> _Module:
    path = _path(module)
    if path is None:
        raise ModuleNotFoundError(f"no module {_PACKAGE}.{module}", name=module)
    code: list[str] = []
    imports: set[tuple[str, str]] = set()
    with _PARSING:
        _write(ast.parse(path.read_bytes()), code, imports)
    names = {_imported(module, name) for module, name in imports}
    own = frozenset(name.removeprefix(f"{_PACKAGE}.") for name in names if name.startswith(f"{_PACKAGE}."))
    tops = {name.partition(".")[0] for name in names}
    return _Module(own, frozenset(tops - {_PACKAGE} - sys.stdlib_module_names), sha256(" ".join(code)))


def _imported(module: str, name: str) -> str:
    """The module that `from module import name` imports: where the package has one of this name, that one."""
    whole = f"{module}.{name}"
    is_ours = name and whole.startswith(f"{_PACKAGE}.")
    return whole if is_ours and _path(whole.removeprefix(f"{_PACKAGE}.")) is not None else module


@cache
def _version(distribution: str) -> str:
    return installed_version(distribution) or ""  # of an extra: installing it changes what can be read


@cache
def _path(module: str) -> Path | None:
    place = installation().joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _write(node: ast.AST, code: list[str], imports: set[tuple[str, str]], *, runs: bool = True) -> None:
    """Appends a syntax tree to `code`, without its prose, and adds to `imports` what it imports when it `runs`."""
    code.append(type(node).__name__)
    if runs and isinstance(node, ast.Import | ast.ImportFrom):
        imports.update(_names_imported(node))
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


def _names_imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
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
