"""The rooms keep to their import rule, and each is the one of this checkout."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent
# Which rooms a room may import; what nobody lists may be imported by nobody.
_MAY_IMPORT = {
    "schemas": set(),
    "spiders": {"schemas"},
    "transforms": {"schemas"},
    "index": {"schemas"},
    "query": {"schemas", "index"},
    "serve": {"schemas", "query"},
    "flows": {"schemas", "spiders", "transforms", "index", "query"},
    "cli": {"schemas", "spiders", "transforms", "index", "query", "serve", "flows"},
}
# Of the index, queries need what reads and what embeds a question: nothing that writes an index.
_READ_SIDE = {
    f"almanac.index.{module}"
    for module in ("analyzer", "embedder", "floors", "lexical_search", "read", "versions", "vocabulary", "mistral_api", "packing", "retry")
}
_PACKAGE = "almanac."


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _room_imports() -> Iterator[tuple[str, Path, str]]:
    for room in _MAY_IMPORT:
        for path in sorted((_ROOT / room).rglob("*.py")):
            for module in _imports(path):
                if module.startswith(_PACKAGE):
                    yield room, path.relative_to(_ROOT), module


def _room_of(module: str) -> str:
    return module.removeprefix(_PACKAGE).partition(".")[0]


def test_rooms_import_only_what_they_may() -> None:
    broken = [f"{path} imports {module}" for room, path, module in _room_imports() if _room_of(module) not in {room, *_MAY_IMPORT[room]}]
    assert broken == []


def test_rooms_are_imported_as_parts_of_the_package() -> None:
    """In the checkout the bare name of a room may be importable, too; where Almanac is installed it is not."""
    places = [*_MAY_IMPORT, "tests", "benchmarks"]
    broken = [f"{path}: {m}" for place in places for path in (_ROOT / place).rglob("*.py") for m in _imports(path) if m.partition(".")[0] in _MAY_IMPORT]
    assert broken == []


def test_queries_import_only_the_read_side_of_the_index() -> None:
    broken = [f"{path} imports {m}" for room, path, m in _room_imports() if room == "query" and _room_of(m) == "index" and m not in _READ_SIDE]
    assert broken == []


@pytest.mark.parametrize("room", _MAY_IMPORT)
def test_each_room_loads_from_this_checkout(room: str) -> None:
    """Checked from another folder, as the console script runs."""
    code = f"import almanac.{room}; print(almanac.{room}.__file__)"
    found = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True).stdout.strip()
    assert Path(found) == _ROOT / room / "__init__.py"


def test_prefect_is_only_known_to_flows() -> None:
    """What can be explained without Prefect does not import it."""
    users = {room for room in _MAY_IMPORT for path in (_ROOT / room).rglob("*.py") for module in _imports(path) if module.partition(".")[0] == "prefect"}
    assert users == {"flows"}


def test_importing_the_command_line_imports_no_engine() -> None:
    """Start-up is paid at every command: `almanac versions` needs no model, no Chroma and no Prefect."""
    code = "import almanac.cli.main, sys; print([m for m in ('torch', 'chromadb', 'prefect', 'scrapy', 'great_expectations', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_every_module_says_what_it_is_for() -> None:
    modules = [p for room in _MAY_IMPORT for p in (_ROOT / room).rglob("*.py")]
    assert [str(p) for p in modules if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))] == []
