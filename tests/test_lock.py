"""The lock is what is installed, and it covers what is declared."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

_ROOT = Path(__file__).resolve().parent.parent


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _locked() -> dict[str, str]:
    lines = (_ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return {_normal(name): version for name, _, version in (line.partition("==") for line in lines if line and not line.startswith("#"))}


def test_installed_versions_are_the_locked_public_ones() -> None:
    installed = {_normal(d.metadata["Name"]): Version(d.version).public for d in distributions()}
    assert {name: installed.get(name) for name in _locked()} == _locked()


def test_the_lock_satisfies_every_declared_dependency() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]
    locked = _locked()
    assert [str(r) for r in declared if _normal(r.name) not in locked or not r.specifier.contains(locked[_normal(r.name)])] == []
