"""What computes a result, as one hash: the modules of ours that do it, and the libraries that these call.

From a stage's entry modules, imports are followed through the code itself, so no list has to be kept by hand. Modules count by their syntax trees without
comments, docstrings and descriptions: to reword something changes no result. Libraries count by their versions, as far as our modules import them directly.
What takes part in no result is listed below, once, with the reason.
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
# Folders and modules of ours that compute nothing that is kept, although what computes imports them.
EXCLUDED_MODULES = {
    "core.code_fingerprint": "is this module",
    "core.durable": "writes bytes as they are given",
    "core.tables": "keeps rows as they are given",
    "schemas.errors": "words errors",
    "spiders.store": "keeps pages as they came; their hashes are part of what is compared",
}
# Distributions that our computing modules import and that decide no result.
EXCLUDED_LIBRARIES = {
    "pydantic": "checks what is declared, which is hashed as it stands",
    "pydantic_core": "as pydantic",
    "pyarrow": "keeps rows as they are given",
    "cronsim": "reads schedules",
    "structlog": "writes log lines",
}
# Import names whose distribution is called otherwise.
DISTRIBUTIONS = {"Stemmer": "PyStemmer", "markdown_it": "markdown-it-py", "ruamel": "ruamel.yaml"}


class _Module(NamedTuple):
    """A module: the others of ours that it imports, the import names of libraries, and the hash of its code."""

    own: frozenset[str]
    libraries: frozenset[str]
    code: str


@cache
def code_fingerprint(*entries: str) -> str:
    """A short hash of everything that computes what the entry modules do. `entries` are names of ours without the package's: `transforms.mapped`."""
    modules = computing_modules(*entries)
    return sha256(canonical_json([{name: _read(name).code for name in modules}, libraries_of(modules)]))[:16]


def computing_modules(*entries: str) -> list[str]:
    """The entry modules and all that they import of ours, directly or through one another, but for what is excluded; sorted."""
    found: set[str] = set()
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        if name not in found and not _is_excluded(name):
            found.add(name)
            waiting += _read(name).own
    return sorted(found)


def libraries_of(modules: Iterable[str]) -> dict[str, str]:
    """Distribution → installed version, of the libraries that these modules import directly, but for what is excluded."""
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
        # `from PACKAGE import NAME` names a module where there is one.
        yield from (name if _path((name := f"{node.module}.{alias.name}").removeprefix(f"{_PACKAGE}.")) else node.module for alias in node.names)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _running(node)


def _without_prose(tree: ast.Module) -> ast.Module:
    """The same tree without docstrings and without the descriptions of declared keys; comments are not in it anyway."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
    return tree


def _path(module: str) -> Path | None:
    place = installation().joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
