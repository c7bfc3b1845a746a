"""Fingerprints of the code that computes a stage's results: its own modules and the libraries that they import.

Imports are followed from the stage's entry modules, so that no list has to be maintained by hand. Modules are hashed by their syntax trees without comments,
docstrings and descriptions, because rewording changes no result. Libraries count by version, if the package's modules import them directly. Modules and
libraries that affect no result are excluded below, each with the reason.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from almanac.core.settings import installation
from almanac.schemas.hashing import canonical_json, sha256

_PACKAGE = "almanac"
# Own folders and modules that are imported by computing modules but affect no stored result.
EXCLUDED_MODULES = {
    "core.code_fingerprint": "is this module",
    "core.durable": "writes bytes as they are given",
    "core.tables": "keeps rows as they are given",
    "schemas.errors": "words errors",
    "spiders.store": "keeps pages as they came; their hashes are part of what is compared",
}
# Distributions that are imported by computing modules but affect no result.
EXCLUDED_LIBRARIES = {
    "pydantic": "checks what is declared, which is hashed as it stands",
    "pydantic_core": "as pydantic",
    "pyarrow": "keeps rows as they are given",
    "cronsim": "reads schedules",
    "structlog": "writes log lines",
}
# Import names that differ from the name of their distribution.
DISTRIBUTIONS = {"Stemmer": "PyStemmer", "markdown_it": "markdown-it-py", "ruamel": "ruamel.yaml"}


class _Module(NamedTuple):
    """What a module contributes to a fingerprint."""

    own: frozenset[str]  # modules of the package that it imports
    libraries: frozenset[str]  # import names of third-party libraries
    code: str  # SHA-256 of its syntax tree


@cache
def code_fingerprint(*entries: str) -> str:
    """Returns a 16-character hash of all code that the entry modules depend on, cached for the process.

    `entries` are module names without the package's, such as `transforms.mapped`.
    """
    modules = computing_modules(*entries)
    return sha256(canonical_json([{name: _read(name).code for name in modules}, libraries_of(modules)]))[:16]


def computing_modules(*entries: str) -> list[str]:
    """Returns the entry modules and all modules of the package that they import, directly or indirectly, without the excluded ones; sorted."""
    found: set[str] = set()
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        if name not in found and not _is_excluded(name):
            found.add(name)
            waiting += _read(name).own
    return sorted(found)


def libraries_of(modules: Iterable[str]) -> dict[str, str]:
    """Returns distribution → installed version of the libraries that these modules import directly, without the excluded ones; sorted by name."""
    names = {DISTRIBUTIONS.get(library, library) for module in modules for library in _read(module).libraries}
    return {name: metadata.version(name) for name in sorted(names - EXCLUDED_LIBRARIES.keys())}


def _is_excluded(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in EXCLUDED_MODULES)


@cache
def _read(module: str) -> _Module:
    path = _path(module)
    if path is None:
        raise ModuleNotFoundError(f"no module {_PACKAGE}.{module}", name=module)
    tree = ast.parse(path.read_bytes())
    names = {name for node in _running(tree) for name in _imported(node)}
    own = frozenset(name.removeprefix(f"{_PACKAGE}.") for name in names if name.startswith(f"{_PACKAGE}."))
    tops = {name.partition(".")[0] for name in names}
    return _Module(own, frozenset(tops - {_PACKAGE} - sys.stdlib_module_names), sha256(ast.dump(_without_prose(tree))))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        # NAME in `from PACKAGE import NAME` may be a module.
        yield from (name if _path((name := f"{node.module}.{alias.name}").removeprefix(f"{_PACKAGE}.")) else node.module for alias in node.names)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes that are executed, that is, without those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _running(node)


def _without_prose(tree: ast.Module) -> ast.Module:
    """Removes docstrings and `description=` arguments from a syntax tree, in place; it contains no comments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
    return tree


def _path(module: str) -> Path | None:
    place = installation().joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
