"""What `almanac doctor` looks at. Each check finds one thing, says whether it is wrong, and if so, what to do."""

import fcntl
import os
import platform
import re
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from almanac.core.durable import exchange, sync_folder
from almanac.core.extras import Extra, how_to_install, missing_package
from almanac.core.settings import DataDir, Project, environment, installation
from almanac.schemas.errors import AlmanacError

_GIB = 2**30
_LEAST_FREE = _GIB  # a first run of some thousand pages, Prefect's database and the engines' temporary files
_SHARED = re.compile(r"nfs|cifs|smb|9p|ceph|gluster|lustre|afs|fuse\.(sshfs|s3fs|gcsfuse|rclone|davfs)")
_LISTED = 8


@dataclass(frozen=True, slots=True)
class Check:
    """`note` is worth knowing and nothing to mend; `wrong` has a hint."""

    name: str
    state: Literal["ok", "note", "wrong"]
    found: str
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(project: Project, data: DataDir) -> list[Check]:
    """All checks, in the order in which one mends. One that fails itself is wrong, and the others go on."""
    looked_at: list[tuple[str, Callable[[], Check]]] = [
        ("python", _python),
        ("packages", _packages),
        ("processor", _processor),
        ("models", _models),
        ("project", lambda: _declarations(project)),
        ("disk", lambda: _disk(data)),
        ("data", lambda: _file_system(data)),
        ("versions", lambda: _versions(project, data)),
        ("sources", lambda: _sources(project)),
        ("chromium", lambda: _browser(project)),
        ("prefect", _prefect),
        ("port", _port),
    ]
    return [_guarded(name, check) for name, check in looked_at]


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except AlmanacError as error:
        return Check(
            name, "wrong", f"{error.where}: {error.message}" if error.where else error.message, error.hint or ""
        )
    except (OSError, ValueError) as error:
        return Check(name, "wrong", str(error), "look at what lies there, and who may read it")


def _python() -> Check:
    machine = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.platform != "linux":
        return Check("python", "wrong", machine, "Linux is what everything is tested for")
    return Check("python", "ok", machine)


def _packages() -> Check:
    """Everything that Almanac needs, and what that needs: wrong where a requirement is not met, a note where versions
    are others than the lock's.
    """
    lock = installation() / "requirements.lock"
    requirements = [
        Requirement(line) for line in lock.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
    ]
    locked: dict[str, str] = {
        canonicalize_name(r.name): str(r.specifier).removeprefix("==")
        for r in requirements
        if r.marker is None or r.marker.evaluate()
    }
    needed = _needed("almanac")
    if unmet := sorted(name for name, wanted in needed.items() if not wanted.is_met):
        summary = _listed(
            f"{name} {needed[name].version or 'missing'}, needed {needed[name].specifier or 'in any version'}"
            for name in unmet
        )
        exact = " ".join(f"{name}=={locked[name]}" if name in locked else name for name in unmet)
        return Check("packages", "wrong", summary, f"{sys.executable} -m pip install {exact}")
    extras = ", ".join(extra for extra in get_args(Extra) if missing_package(extra) is None) or "none"
    summary = (
        f"almanac {needed['almanac'].version} in {installation()}; extras: {extras}; "
        f"{len(needed.keys() & locked.keys())} packages"
    )
    versions = {
        name: wanted.version for name, wanted in needed.items() if wanted.version is not None and name in locked
    }
    if other := [
        f"{name} {version}, locked {locked[name]}"
        for name, version in versions.items()
        if Version(version).public != locked[name]
    ]:
        return Check(
            "packages",
            "note",
            f"{summary}, in other versions than the lock's: {_listed(other)}",
            f"pip install -c {lock} takes those that are tested",
        )
    return Check("packages", "ok", f"{summary}, each at its locked version")


def _listed(findings: Iterable[str]) -> str:
    shown = sorted(findings)
    return "; ".join(shown[:_LISTED]) + (f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else "")


class _Needed(NamedTuple):
    """A package that is needed: its installed version, None where it is missing; what all that need it ask for; whether
    it meets that.
    """

    version: str | None
    specifier: SpecifierSet
    is_met: bool


@cache
def _needed(root: str) -> dict[str, _Needed]:
    """Every package that this one needs, directly or not, by its name."""
    needed: dict[str, _Needed] = {}
    waiting = [Requirement(root)]
    met: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        installed = _installed(name)
        specifier = requirement.specifier & needed[name].specifier if name in needed else requirement.specifier
        version = None if installed is None else installed.version
        needed[name] = _Needed(
            version, specifier, version is not None and specifier.contains(version, prereleases=True)
        )
        if (name, extras) in met:
            continue
        met.add((name, extras))
        for line in (installed.requires or []) if installed else []:
            below = Requirement(line)
            if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append(below)
    return needed


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _processor() -> Check:
    from almanac.index.embedding.precision import has_bfloat16

    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    if has_bfloat16():
        return Check("processor", "ok", f"{cores} cores with native bfloat16: texts are embedded in bfloat16")
    return Check("processor", "note", f"{cores} cores without native bfloat16: texts are embedded in float32")


def _models() -> Check:
    """The bundled models, whose files are compared with their digests."""
    from almanac.index.embedding import four_bits
    from almanac.index.embedding.model_folder import BUNDLED, find_model
    from almanac.schemas.declaration.embed_section import Embed

    _ = find_model(Embed()).path  # raises where the default one is not whole
    files = (four_bits.WEIGHTS, four_bits.TOKENIZER)
    if missing := [file.package for file in files if _installed(file.package) is None]:
        finding = f"{four_bits.MODEL} is not installed: {', '.join(missing)}"
        return Check("models", "note", finding, how_to_install("multilingual"))
    for file in files:
        file.find()
    return Check("models", "ok", f"{' and '.join(BUNDLED)} are installed")


def _declarations(project: Project) -> Check:
    from almanac.core.load import load_as_served
    from almanac.core.namesakes import require_own_name

    project.require()
    broken, paths = [], project.declarations()
    if project.knowledge.is_dir() and not os.access(project.knowledge, os.R_OK | os.X_OK):
        return Check("project", "wrong", f"{project.knowledge} may not be read", "mend its permissions")
    for path in paths:
        try:
            require_own_name(load_as_served(path, environment()[0]), project)
        except AlmanacError as error:
            broken.append(f"{path.name}: {error.message}")
    if broken:
        return Check(
            "project", "wrong", f"{project.root}: {'; '.join(broken)}", "almanac validate KB says where each is wrong"
        )
    if not paths:
        return Check(
            "project",
            "note",
            f"{project.root}: nothing is declared in knowledge/",
            "almanac init NAME writes a commented declaration",
        )
    return Check("project", "ok", f"{project.root}: {', '.join(path.stem for path in paths)}")


def _disk(data: DataDir) -> Check:
    """Free space, beside what the next version takes at most: a copy of the live one, or all its segments anew, and
    what is new.
    """
    there = _nearest(data.root)
    free = shutil.disk_usage(there).free
    largest = max(_live_sizes(data), default=0)
    needed = max(_LEAST_FREE, 2 * largest)
    space = f"{free / _GIB:.1f} GiB free; the largest live version takes {largest / _GIB:.1f} GiB"
    if free < needed:
        return Check(
            "disk",
            "wrong",
            space,
            f"{needed / _GIB:.1f} GiB should be free: almanac prune KB takes away old versions, --data DIR goes "
            "elsewhere",
        )
    return Check("disk", "ok", space)


def _nearest(path: Path) -> Path:
    """A path that is there: this one, or the nearest above it."""
    return next(ancestor for ancestor in (path, *path.parents) if ancestor.exists())


def _live_sizes(data: DataDir) -> Iterator[int]:
    """Bytes of each live version, with its segments."""
    from almanac.index.segments.segment_store import segment_dir
    from almanac.index.versions.version_store import read_manifest, usable_pointer, version_dir

    for index_dir in data.root.glob("index/*/"):
        if version := usable_pointer(index_dir):
            folder = version_dir(index_dir, version)
            try:
                shared = [segment_dir(index_dir, use.segment) for use in read_manifest(index_dir, version).segments]
            except AlmanacError:
                shared = []
            yield sum(map(_size, [folder, *shared]))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _file_system(data: DataDir) -> Check:
    """Tries what every run relies on, in a folder that is gone at once."""
    there = _nearest(data.root)
    mend = "put the data directory on a local disk: --data DIR or ALMANAC_DATA"
    if not there.is_dir():
        return Check("data", "wrong", f"{data.root}: {there} is no folder", mend)
    kind = _kind_of(there)
    place = f"{data.root} on {kind}"
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=there) as name:
            _try_file_system(Path(name))
    except PermissionError as error:
        return Check(
            "data",
            "wrong",
            f"{place}: {error}",
            "mend its permissions, or choose another data directory: --data DIR or ALMANAC_DATA",
        )
    except (OSError, sqlite3.Error) as error:
        return Check("data", "wrong", f"{place}: {error}", mend)
    if _SHARED.search(kind):
        return Check(
            "data",
            "note",
            f"{place}: a file system that machines share; only one of them may write this data directory",
            mend,
        )
    return Check("data", "ok", f"{place}: locks, synced renames, exchanged folders and SQLite work")


def _try_file_system(folder: Path) -> None:
    """Raises OSError or sqlite3.Error where something does not work."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    (folder / "a" / "file").write_bytes(b"x")
    sync_folder(folder)
    exchange(folder / "a", folder / "b")
    if not (folder / "b" / "file").exists():
        raise OSError("folders do not exchange their places")
    with (folder / "lock").open("wb") as first, (folder / "lock").open("wb") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            raise OSError("a lock can be taken twice")
    with sqlite3.connect(folder / "try.sqlite3") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE tried (n INTEGER)")
    database.close()


def _kind_of(folder: Path) -> str:
    """The type of the file system that a folder lies on, as the kernel calls it."""
    kinds = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        kinds[Path(place)] = after.split()[0]
    return next((kinds[place] for place in (folder, *folder.parents) if place in kinds), "an unknown file system")


def _versions(project: Project, data: DataDir) -> Check:
    """Every live version can be read by this Almanac."""
    from almanac.core.load import load_as_served
    from almanac.index.versions.version_store import current_version, read_manifest

    handles = {}
    for path in project.declarations():
        with suppress(AlmanacError):  # said above
            handles[load_as_served(path, environment()[0]).name] = path.stem
    live_versions, unreadable, hints = [], [], []
    for index_dir in sorted(data.root.glob("index/*/")):
        kb = index_dir.name
        try:
            if version := current_version(index_dir):
                live_versions.append(f"{kb} {read_manifest(index_dir, version).version}")
        except AlmanacError as error:
            unreadable.append(error.message)
            error.about(handles.get(kb, "KB"))
            declared = "" if kb in handles else f"; {kb} is not declared in {project.knowledge}"
            hints.append(f"{error.hint}{declared}")
    if unreadable:
        return Check("versions", "wrong", "; ".join(unreadable), "; ".join(dict.fromkeys(hints)))
    return Check("versions", "ok", ", ".join(live_versions) or "nothing is published yet")


def _sources(project: Project) -> Check:
    """Whether what declared sources need is there."""
    from almanac.cli.source_needs import unmet_needs

    unmet, hints, kinds = [], [], set()
    for declaration in _declared(project):
        for source in declaration.sources:
            kinds.add(source.kind)
            for missing, hint in unmet_needs(source, declaration.path.parent):
                unmet.append(f"{source.name} of {declaration.name}: {missing}")
                hints.append(hint)
    if unmet:
        return Check("sources", "wrong", _listed(unmet), "; ".join(dict.fromkeys(hints)))
    return Check(
        "sources", "ok", f"what they need is here: {', '.join(sorted(kinds))}" if kinds else "none is declared"
    )


def _browser(project: Project) -> Check:
    """What sites with `render` are drawn with: wrong where such a site is declared and something is missing, or
    Chromium does not start.
    """
    from almanac.spiders.crawling import chromium

    browser, missing, needing = chromium.find_chromium(), missing_package("render"), list(_rendering(project))
    declared = f"; declared by {', '.join(needing)}"
    if browser is not None and missing is None:
        if needing and (failure := chromium.failure_to_start(browser)) is not None:
            finding, hint = chromium.why_it_does_not_start(failure)
            return Check("chromium", "wrong", finding + declared, hint)
        return Check(
            "chromium",
            "ok",
            browser if chromium.has_sandbox() else f"{browser}, which has no sandbox where root starts it",
        )
    lacks = (
        f"none on PATH; sites with render need one{'' if missing is None else f', and {missing}'}"
        if browser is None
        else f"{browser}; {missing}"
    )
    hint = "; ".join(
        [
            *([chromium.HOW_TO_GET_CHROMIUM] if browser is None else []),
            *([how_to_install("render")] if missing is not None else []),
        ]
    )
    return Check("chromium", "wrong", lacks + declared, hint) if needing else Check("chromium", "note", lacks, hint)


def _rendering(project: Project) -> Iterator[str]:
    """The knowledge bases that have a source with `render`."""
    for declaration in _declared(project):
        if any(getattr(source, "render", None) is not None for source in declaration.sources):
            yield declaration.path.stem


def _declared(project: Project) -> Iterator[Any]:
    """The declarations that can be read."""
    from almanac.core.load import load_as_served

    for path in project.declarations():
        with suppress(AlmanacError):  # said above
            yield load_as_served(path, environment()[0])


def _prefect() -> Check:
    """The server that runs report to."""
    from almanac.flows.server.prefect_api import answers

    chosen = os.environ.get("PREFECT_API_URL")
    if chosen and not answers(f"{chosen}/health"):
        hint = "almanac server starts one; unset it, and each run starts its own"
        return Check("prefect", "wrong", f"PREFECT_API_URL={chosen}, and no Prefect server answers there", hint)
    return Check(
        "prefect",
        "ok",
        f"runs report to {chosen}"
        if chosen
        else "each run starts an API of its own; PREFECT_API_URL names one that is shared",
    )


def _port() -> Check:
    """The port that `almanac server` takes."""
    from almanac.flows.server.prefect_api import answers

    port = os.environ.get("PREFECT_SERVER_API_PORT", "4200")
    if answers(f"http://127.0.0.1:{port}/api/health"):
        return Check("port", "ok", f"a Prefect server answers at http://127.0.0.1:{port}")
    if _is_free(port):
        return Check("port", "ok", f"{port} is free for almanac server")
    return Check(
        "port",
        "wrong",
        f"{port}, which almanac server takes, cannot be listened at",
        "PREFECT_SERVER_API_PORT=N chooses another",
    )


def _is_free(port: str) -> bool:
    try:
        with socket.create_server(("127.0.0.1", int(port))):
            return True
    except (OSError, ValueError, OverflowError):
        return False
