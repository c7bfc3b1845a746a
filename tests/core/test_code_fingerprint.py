"""Fingerprints follow what computes: our code and the libraries that it calls, and nothing else."""

import ast
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.metadata import packages_distributions
from importlib.metadata import version as installed
from pathlib import Path

import pytest

from almanac.core import code_fingerprint as subject
from almanac.core.code_fingerprint import (
    DISTRIBUTIONS,
    EXCLUDED_LIBRARIES,
    EXCLUDED_MODULES,
    code_fingerprint,
    computing_modules,
    libraries_of,
)
from almanac.core.settings import installation
from almanac.flows.pipeline.fingerprints import CHUNKING, CLEANING, MAPPING, VALIDATION
from almanac.flows.pipeline.worker import _BATCHES
from almanac.index.lexical.lexical_facts import ANALYSIS

_STAGES = {"mapping": MAPPING, "cleaning": CLEANING, "validation": VALIDATION, "chunker": CHUNKING, "lexical": ANALYSIS}
Fingerprints = Callable[[], dict[str, str]]


@pytest.fixture
def fingerprints() -> Fingerprints:
    """The fingerprint of each stage, found out anew."""

    def compute_anew() -> dict[str, str]:
        _forget_what_was_read()
        return _of_what_is_read()

    return compute_anew


def _forget_what_was_read() -> None:
    subject._read.cache_clear()
    subject._path.cache_clear()


def _of_what_is_read() -> dict[str, str]:
    subject._version.cache_clear()
    code_fingerprint.cache_clear()
    return {name: code_fingerprint(*entries) for name, entries in _STAGES.items()}


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """The fingerprint of each stage before anything is changed: found out once, since reading all code takes a
    second.
    """
    return _of_what_is_read()


@pytest.fixture(autouse=True)
def _leave_nothing_behind() -> object:
    yield
    subject._version.cache_clear()
    code_fingerprint.cache_clear()


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("library", "stages"),
    [
        ("chardet", {"mapping"}),
        ("w3lib", {"mapping"}),
        ("extruct", {"mapping"}),
        ("chompjs", {"mapping"}),
        ("inscriptis", {"mapping"}),
        ("dateparser", {"mapping"}),
        ("markdown-it-py", {"mapping", "chunker"}),
        ("trafilatura", {"cleaning"}),
        ("great_expectations", {"validation"}),
        ("sentencex", {"chunker"}),
        ("PyStemmer", {"lexical"}),
        *(
            (library, set())
            for library in (
                "pydantic",
                "structlog",
                "mistralai",
                "pyarrow",
                "prefect",
                "chromadb",
                "sentence-transformers",
                "torch",
                "openvino",
                "httpx",
            )
        ),
    ],
)
def test_another_library_invalidates_the_stages_that_call_it(
    before: dict[str, str], monkeypatch: pytest.MonkeyPatch, library: str, stages: set[str]
) -> None:
    """The code stays as it was read: of libraries, only their versions are asked for anew."""
    monkeypatch.setattr(metadata, "version", lambda name: "999" if name == library else installed(name))
    assert _changed(before, _of_what_is_read()) == stages


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the code, which the fingerprints are made from."""
    for room in ("core", "schemas", "spiders", "transforms", "index"):
        shutil.copytree(installation() / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(subject, "installation", lambda: tmp_path)
    yield tmp_path
    _forget_what_was_read()


@pytest.mark.parametrize(
    ("module", "old", "new", "stages"),
    [
        ("spiders/mapping/prices.py", '"""', '"""Reworded. ', set()),
        ("spiders/mapping/prices.py", "\nimport ", "\n# A comment.\n\nimport ", set()),
        ("schemas/declaration/field_rules.py", 'description="', 'description="Reworded: ', set()),
        ("spiders/selecting/pagination.py", "return None", "return 0", {"mapping"}),
        ("spiders/reading/currencies.py", "return None", "return 0", {"mapping"}),
        ("spiders/store/raw.py", "return None", "return 0", set()),
        ("transforms/clean.py", '"NFC"', '"NFD"', {"cleaning"}),
        ("transforms/chunking/windows.py", "limits.overlap", "limits.size", {"chunker"}),
        ("core/templates.py", '"yes"', '"oui"', {"mapping", "cleaning", "chunker"}),
        ("index/lexical/analyzer.py", "casefold", "lower", {"lexical"}),
        ("index/embedding/embedder.py", "return", "yield", set()),
    ],
)
def test_changed_code_invalidates_the_stages_that_run_it_and_changed_words_none(
    before: dict[str, str], fingerprints: Fingerprints, copy: Path, module: str, old: str, new: str, stages: set[str]
) -> None:
    text = (copy / module).read_text(encoding="utf-8")
    (copy / module).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert old in text, "the change changes something"
    assert _changed(before, fingerprints()) == stages


def test_a_module_that_is_only_imported_for_types_does_not_count(
    before: dict[str, str], fingerprints: Fingerprints, copy: Path
) -> None:
    module = copy / "transforms" / "clean.py"
    code_of_types = (
        "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n    from almanac.index import "
        "reader\n"
    )
    module.write_text(module.read_text() + code_of_types)
    fingerprints()
    assert "index.reader" not in computing_modules(*CLEANING)
    assert "torch" not in libraries_of(computing_modules(*CLEANING))
    assert _changed(before, fingerprints()) == {"cleaning"}, "its code is another one all the same"


def test_every_library_is_known_by_the_distribution_that_holds_it() -> None:
    """The whole list, against what is installed: an import name that is called otherwise must stand in DISTRIBUTIONS,
    and nothing else may.
    """
    modules = computing_modules(*(entry for entries in _STAGES.values() for entry in entries), *_BATCHES)
    names = {name for module in modules for name in subject._read(module).libraries}
    held = packages_distributions()
    wrong = {
        name: held[name]
        for name in names & held.keys()
        if _normal(DISTRIBUTIONS.get(name, name)) not in map(_normal, held[name])
    }
    assert wrong == {}
    assert DISTRIBUTIONS.keys() <= names
    assert {name: library for name, library in DISTRIBUTIONS.items() if _normal(name) == _normal(library)} == {}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_of_a_computing_module_counts_or_is_excluded() -> None:
    """Read from the files by another way than the fingerprints go: nothing that computes is missing."""
    modules = computing_modules(*(entry for entries in _STAGES.values() for entry in entries))
    imported: set[str] = set()
    for module in modules:
        place = installation().joinpath(*module.split("."))
        path = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    own = {name.removeprefix("almanac.") for name in imported if name.startswith("almanac.")}
    left_out = {
        name
        for name in own
        if name not in modules and not any(name == known or name.startswith(f"{known}.") for known in EXCLUDED_MODULES)
    }
    # their modules count
    packages = {name for name in left_out if (installation().joinpath(*name.split(".")) / "__init__.py").is_file()}
    assert left_out - packages == {"index.lexical"} & left_out
    libraries = {
        DISTRIBUTIONS.get(top, top)
        for name in imported
        if (top := name.partition(".")[0]) not in sys.stdlib_module_names
    } - {"almanac"}
    assert libraries - EXCLUDED_LIBRARIES.keys() == libraries_of(modules).keys()


def test_no_module_is_excluded_that_nobody_imports() -> None:
    """An exclusion that is not needed hides the next one that would be."""
    modules = computing_modules(
        *(entry for entries in _STAGES.values() for entry in entries), "index.chroma.chroma_rows"
    )
    own = {name for module in modules for name in subject._read(module).own}
    assert {
        excluded
        for excluded in EXCLUDED_MODULES
        if not any(name == excluded or name.startswith(f"{excluded}.") for name in own)
    } == set()
