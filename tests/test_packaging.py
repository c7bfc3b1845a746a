"""What a build holds: all that is here, or it fails and says what it would lack."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from almanac.cli.main import run
from tests.conftest import ROOT

_ROOMS = (
    "cli",
    "core",
    "flows",
    "index",
    "query",
    "schemas",
    "serve",
    "spiders",
    "transforms",
    "knowledge",
    "examples",
)
_FILES = ("pyproject.toml", "setup.py", "README.md", "NOTICE", "requirements.lock", "docs")
Build = Callable[[Path], tuple[set[str], str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what is built, which no repository knows."""
    (tmp_path / "source").mkdir()
    for name in (*_ROOMS, *_FILES):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / "source" / name)
    return tmp_path / "source"


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Builds a wheel: the names of the files in it, and what was printed."""

    def built(source: Path) -> tuple[set[str], str]:
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        code = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
        done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
        names: set[str] = set()
        for wheel in out.glob("*.whl"):
            with ZipFile(wheel) as file:
                names |= set(file.namelist())
        assert (done.returncode == 0) is bool(names), done.stderr
        return names, done.stdout + done.stderr

    return built


@pytest.mark.slow
def test_a_wheel_holds_every_file_of_every_room_and_nothing_else(source: Path, build: Build) -> None:
    names, _ = build(source)
    ours = {path for path in names if ".dist-info/" not in path}
    wanted = [
        path
        for room in _ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    pages = [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/reference").glob("*.md"),
        ROOT / "NOTICE",
        ROOT / "requirements.lock",
    ]
    assert ours == {f"almanac/{path.relative_to(ROOT).as_posix()}" for path in (*wanted, *pages)}


@pytest.mark.slow
def test_a_build_that_would_lack_a_file_fails_and_names_it(source: Path, build: Build) -> None:
    (source / "query" / "answering" / "prompts" / "new.txt").write_text("not listed")
    (source / "serve" / "page" / "static" / "app.js").unlink()
    (source / "transforms" / "mapped_pages.py").unlink()
    names, output = build(source)
    assert names == set()
    assert "query/answering/prompts/new.txt: is in no package" in output
    assert "almanac.serve.page: nothing matches 'static/app.js'" in output
    assert "imports almanac.transforms.mapped_pages, which is not there" in output


@pytest.mark.slow
def test_what_an_earlier_build_left_does_not_ship(source: Path, build: Build) -> None:
    left = source / "build" / "lib" / "almanac" / "query" / "gone.py"
    left.parent.mkdir(parents=True)
    left.write_text("raise SystemExit")
    names, _ = build(source)
    assert names
    assert "almanac/query/gone.py" not in names


def test_the_version_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """In the metadata, in pyproject.toml, on top of the changelog, and as the command prints it."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changed = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"almanac {declared}, versions of format ")
    assert changed is not None
    assert version("almanac") == declared == changed[1]
