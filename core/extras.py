"""Extras: packages that a plain installation does without, as pyproject.toml lists them, and what to say where one is
missing.
"""

from functools import cache
from importlib import metadata
from typing import Literal

from packaging.requirements import Requirement

from almanac.core.settings import installation
from almanac.schemas.errors import UsageError

Extra = Literal[
    "dask", "dlt", "mistral", "models", "multilingual", "office", "openai", "postgres", "render", "s3", "sftp"
]


def require_extra(extra: Extra, need: str, where: str | None = None, otherwise: str = "") -> None:
    """Raises UsageError where a package of the extra is not installed, or in a version that does not fit.

    Args:
        extra: Its name.
        need: What needs it, such as `run.engine: dask`.
        where: The key or file concerned.
        otherwise: What else the user could do.
    """
    if (missing := missing_package(extra)) is not None:
        hint = f"{how_to_install(extra)}; or {otherwise}" if otherwise else how_to_install(extra)
        raise UsageError(f"{need} needs the extra '{extra}', and {missing}", where=where, hint=hint)


@cache
def missing_package(extra: Extra) -> str | None:
    """What is said of the first package of an extra that is not installed or does not fit ("torch is not installed");
    None where all do.

    pip heeds the range of such a package only where its extra was asked for. What is installed while the process runs
    goes unnoticed.
    """
    for requirement in map(Requirement, metadata.requires("almanac") or ()):
        marker = requirement.marker
        if marker is None or not marker.evaluate({"extra": extra}) or marker.evaluate({"extra": ""}):
            continue
        if (version := installed_version(requirement.name)) is None:
            return f"{requirement.name} is not installed"
        if not requirement.specifier.contains(version, prereleases=True):
            return f"{requirement.name} {version} does not fit ({requirement.specifier})"
    return None


def how_to_install(extra: Extra) -> str:
    """The command that brings an extra, for hints."""
    return f"make setup in a checkout; else pip install 'almanac[{extra}]' -c {installation() / 'requirements.lock'}"


def installed_version(name: str) -> str | None:
    """The version of an installed distribution; None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
