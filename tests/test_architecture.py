"""The rooms keep to their import rule, and each is the one of this checkout."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent
# Which rooms a room may import; what nobody lists may be imported by nobody.
_GROUND = {"schemas", "core"}
_MAY_IMPORT = {
    "schemas": set(),
    "core": {"schemas"},
    "spiders": _GROUND,
    "transforms": _GROUND,
    "index": _GROUND,
    "query": {*_GROUND, "index"},
    "serve": {*_GROUND, "query"},
    "flows": {*_GROUND, "spiders", "transforms", "index", "query"},
    "cli": {*_GROUND, "spiders", "transforms", "index", "query", "serve", "flows"},
}
# The folders of a room from the ground up; "" are the modules that lie in the room itself. A folder imports only those
# before it.
_FLOORS = {
    "schemas": ("declaration", ""),
    "core": ("", "store"),
    "spiders": ("store", "reading", "selecting", "crawling", "rows", "mapping", "proposing", ""),
    "transforms": ("html", "chunking", ""),
    "index": (
        "api",
        "embedding",
        "vectors",
        "lexical",
        "chroma",
        "segments",
        "versions",
        "build",
        "verify",
        "composing",
        "upkeep",
        "",
    ),
    "query": ("models", "retrieval", "answering", "", "evaluation"),
    "serve": ("page", "", "adapters"),
    "flows": ("pipeline", "reporting", "", "server"),
    "cli": ("",),
}
# Of the index, queries need what reads and what embeds a question: nothing that writes an index.
_READ_SIDE = {
    f"almanac.index.{module}"
    for module in (
        "reader", "versions.version_store",
        "lexical.analyzer", "lexical.lexical_reader",
        "embedding.embedder",
        "embedding.precision", "embedding.score_thresholds",
        "embedding.subword_fertility", "api.api_client", "api.sdks", "api.taken", "api.batching", "api.retry",
    )
}  # fmt: skip
_PACKAGE = "almanac."


@dataclass(frozen=True)
class _Code:
    docstring: str | None
    # module, what is imported from it, and the dots before its name
    imports: tuple[tuple[str, tuple[str, ...], int], ...]


@cache
def _code(path: Path) -> _Code:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports: list[tuple[str, tuple[str, ...], int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, (), 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.append((node.module, tuple(alias.name for alias in node.names), node.level))
    return _Code(ast.get_docstring(tree), tuple(imports))


def _imports(path: Path) -> Iterator[str]:
    return (module for module, _, level in _code(path).imports if not level)


def _room_imports() -> Iterator[tuple[str, Path, str]]:
    for room in _MAY_IMPORT:
        for path in sorted((_ROOT / room).rglob("*.py")):
            for module in _imports(path):
                if module.startswith(_PACKAGE):
                    yield room, path.relative_to(_ROOT), module


def _room_of(module: str) -> str:
    return module.removeprefix(_PACKAGE).partition(".")[0]


def test_rooms_import_only_what_they_may() -> None:
    broken = [
        f"{path} imports {module}"
        for room, path, module in _room_imports()
        if _room_of(module) not in {room, *_MAY_IMPORT[room]}
    ]
    assert broken == []


@cache
def _modules() -> dict[str, Path]:
    """Every module of the package by its name without `almanac.`; a package goes by the name of its folder."""
    paths = [path.relative_to(_ROOT) for room in _MAY_IMPORT for path in (_ROOT / room).rglob("*.py")]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def _imported_modules() -> dict[str, set[str]]:
    """Every module and those of ours that it imports, also where that happens within a function or for its types
    alone.
    """
    modules = _modules()
    arrows: dict[str, set[str]] = {module: set() for module in modules}
    for module, path in modules.items():
        for imported, parts, _ in _code(_ROOT / path).imports:
            names = [
                name if (name := f"{imported}.{part}").removeprefix(_PACKAGE) in modules else imported for part in parts
            ] or [imported]
            arrows[module] |= {name.removeprefix(_PACKAGE) for name in names if name.startswith(_PACKAGE)} - {module}
    return arrows


def _floor(module: str) -> int:
    room, *inner = _modules()[module].parts
    return _FLOORS[room].index(inner[0] if len(inner) > 1 else "")


def test_every_folder_of_a_room_has_its_floor() -> None:
    folders = {(path.parts[0], path.parts[1] if len(path.parts) > 2 else "") for path in _modules().values()}
    assert folders == {(room, folder) for room, floors in _FLOORS.items() for folder in floors}


def test_nothing_points_up_inside_a_room() -> None:
    """Read from its first folder to its last, a room uses only what has been read. A module-level `__init__` counts
    with the room's own modules.
    """
    arrows = [
        (module, other)
        for module, others in _imported_modules().items()
        for other in others
        if _room_of(module) == _room_of(other)
    ]
    assert [f"{module} imports {other}" for module, other in arrows if _floor(other) > _floor(module)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    arrows = _imported_modules()
    left = dict(arrows)
    while free := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in free}
    assert left == {}


def test_the_pipeline_knows_no_prefect() -> None:
    """Neither by name nor through another module: a refresh can be carried out, and explained, without Prefect."""
    code = (
        "import sys, pathlib, importlib\n"
        "for path in sorted(pathlib.Path('flows/pipeline').glob('*.py')):\n"
        "    importlib.import_module(f'almanac.flows.pipeline.{path.stem}')\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] == 'prefect'))"
    )
    named = [
        str(path)
        for path in (_ROOT / "flows" / "pipeline").rglob("*.py")
        for module in _imports(path)
        if module.partition(".")[0] == "prefect"
    ]
    assert named == []
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_rooms_are_imported_as_parts_of_the_package() -> None:
    """In the checkout the bare name of a room may be importable, too; where Almanac is installed it is not."""
    places = [*_MAY_IMPORT, "tests", "benchmarks"]
    broken = [
        f"{path}: {m}"
        for place in places
        for path in (_ROOT / place).rglob("*.py")
        for m in _imports(path)
        if m.partition(".")[0] in _MAY_IMPORT
    ]
    assert broken == []


def test_queries_import_only_the_read_side_of_the_index() -> None:
    broken = [
        f"{path} imports {m}"
        for room, path, m in _room_imports()
        if room == "query" and _room_of(m) == "index" and m not in _READ_SIDE
    ]
    assert broken == []


@pytest.mark.parametrize("room", _MAY_IMPORT)
def test_each_room_loads_from_this_checkout(room: str) -> None:
    """Checked from another folder, as the console script runs."""
    code = f"import almanac.{room}; print(almanac.{room}.__file__)"
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(printed) == _ROOT / room / "__init__.py"


def test_what_searches_loads_no_more_of_ours_than_it_needs() -> None:
    code = "import sys, almanac.query.published; print(sum(one.split('.')[0] == 'almanac' for one in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 90


def test_prefect_is_only_known_to_flows() -> None:
    """What can be explained without Prefect does not import it."""
    users = {
        room
        for room in _MAY_IMPORT
        for path in (_ROOT / room).rglob("*.py")
        for module in _imports(path)
        if module.partition(".")[0] == "prefect"
    }
    assert users == {"flows"}


def test_importing_the_command_line_imports_no_engine() -> None:
    """Start-up is paid at every command: `almanac versions` needs no model, no Chroma and no Prefect."""
    code = (
        "import almanac.cli.main, sys; print([m for m in ('torch', 'chromadb', 'prefect', 'scrapy', "
        "'great_expectations', 'pandas') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_no_two_modules_share_a_name() -> None:
    """So a name can be searched for."""
    paths = [path for place in (*_MAY_IMPORT, "benchmarks") for path in (_ROOT / place).rglob("*.py")]
    counts = Counter(path.stem for path in paths if not path.stem.startswith("__"))
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_module_says_what_it_is_for() -> None:
    modules = [p for room in _MAY_IMPORT for p in (_ROOT / room).rglob("*.py")]
    assert [str(p) for p in modules if not _code(p).docstring] == []
