"""What each room weighs. Nothing here may grow without being said: a room that got lighter is noted as light as it is.

Columns of the table: lines of the modules, the modules, numbers that are constants of a module, regular expressions
that are compiled, imports of names that a library calls private, attributes of a library that are replaced, and names
that say nothing of what they hold (`_VAGUE`). `python -m tests.test_weight` prints it as it is now.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parent.parent
_ROOMS = ("schemas", "core", "spiders", "transforms", "index", "query", "serve", "flows", "cli", "benchmarks", "tests")
_COLUMNS = 120
_VAGUE = frozenset(("of", "one", "told", "found", "said", "asked", "beside", "ahead", "kept"))


class Weight(NamedTuple):
    """What a room weighs."""

    lines: int
    modules: int
    constants: int
    regexes: int
    private: int
    replaced: int
    vague: int


# Lines in hundreds, begun ones counted.
_NOTED = {
    "schemas": Weight(57, 46, 9, 25, 0, 0, 3),
    "core": Weight(61, 53, 47, 20, 0, 5, 0),
    "spiders": Weight(255, 170, 223, 247, 0, 1, 1),
    "transforms": Weight(65, 46, 63, 46, 0, 0, 0),
    "index": Weight(113, 88, 118, 34, 0, 0, 4),
    "query": Weight(64, 43, 105, 34, 0, 0, 0),
    "serve": Weight(37, 23, 27, 2, 0, 1, 0),
    "flows": Weight(82, 56, 67, 1, 0, 1, 0),
    "cli": Weight(39, 22, 15, 3, 0, 3, 1),
    "benchmarks": Weight(37, 19, 39, 2, 0, 0, 0),
    "tests": Weight(639, 369, 81, 21, 4, 11, 0),
}
# The longest lines that no formatter can break: texts of tests, and tables of words.
_LONG_LINES = 75


def test_no_room_grows_and_lighter_ones_are_noted() -> None:
    weights = {room: _weigh(room) for room in _ROOMS}
    heavier = [
        room for room in _ROOMS if any(now > noted for now, noted in zip(weights[room], _NOTED[room], strict=True))
    ]
    assert not heavier, f"heavier than noted in _NOTED, or to be noted with a reason:\n{_table(weights, heavier)}"
    lighter = [room for room in _ROOMS if weights[room] != _NOTED[room]]
    assert not lighter, f"lighter than noted; lower _NOTED to\n{_table(weights, lighter)}"


def test_lines_end_at_120_columns() -> None:
    longer = [path for room in _ROOMS for path in _modules(room) for line in _lines(path) if len(line) > _COLUMNS]
    assert len(longer) <= _LONG_LINES, sorted({str(path.relative_to(_ROOT)) for path in longer})


def _weigh(room: str) -> Weight:
    paths = list(_modules(room))
    trees = [ast.parse(path.read_bytes()) for path in paths]
    return Weight(
        lines=-(-sum(len(_lines(path)) for path in paths) // 100),
        modules=len(paths),
        constants=sum(_constants(tree) for tree in trees),
        regexes=sum(_is_call(node, "re.compile", "regex.compile") for tree in trees for node in ast.walk(tree)),
        private=sum(_private_imports(tree) for tree in trees),
        replaced=sum(_replaced(tree) for tree in trees),
        vague=sum(_given_name(node).strip("_").lower() in _VAGUE for tree in trees for node in ast.walk(tree)),
    )


def _given_name(node: ast.AST) -> str:
    """The name of a function, class, argument or variable, where it gets it; else an empty text."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return name
    return ""


def _modules(room: str) -> Iterator[Path]:
    yield from sorted((_ROOT / room).rglob("*.py"))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _constants(tree: ast.Module) -> int:
    """The numbers that names of the module stand for: `_A, _B = 1, 2 * 3` are two."""
    values = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    nodes = [node for value in values for node in (value.elts if isinstance(value, ast.Tuple) else [value])]
    return sum(_is_number(node) for node in nodes)


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _private_imports(tree: ast.Module) -> int:
    """Of other packages: a module, or a name in one, that begins with one underscore."""
    return sum(bool(re.search(r"(^|\.)_(?!_)", path)) for path, _ in _foreign_imports(tree))


def _foreign_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What is imported from other packages, by its whole path, and its name here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.partition(".")[0] not in ("almanac", "tests", ""):
                yield from ((f"{module}.{alias.name}", alias.asname or alias.name) for alias in node.names)


def _replaced(tree: ast.Module) -> int:
    """Attributes that are set on what is imported from other packages, or on anything by `setattr` and `vars`."""
    foreign = {name for _, name in _foreign_imports(tree)}
    count = 0
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for assigned in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(assigned, ast.Attribute):
                    count += ast.unparse(assigned.value) in foreign
                elif isinstance(assigned, ast.Subscript):
                    count += _is_call(assigned.value, "vars")
        count += _is_call(node, "setattr")
    return count


def _is_call(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in names


def _table(weights: dict[str, Weight], rooms: list[str]) -> str:
    return "\n".join(f'    "{room}": Weight({", ".join(map(str, weights[room]))}),' for room in rooms)


if __name__ == "__main__":
    sys.stdout.write(_table({room: _weigh(room) for room in _ROOMS}, list(_ROOMS)) + "\n")
