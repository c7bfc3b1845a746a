"""Folders and environment variables.

This is the only module that reads the process environment, apart from `${VAR}` in declarations and Prefect's own
variables in flows/.
"""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import cast

from almanac.core.durable import make_folder
from almanac.schemas.errors import NotFound, NothingPublished, StorageError, UsageError
from almanac.schemas.hashing import short_hash

# Disables network access and telemetry of the engines. Has to be set before an engine is imported.
_QUIET_ENGINES = {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "ORT_DISABLE_TELEMETRY": "1",  # of onnxruntime, which Chroma brings: it notes its use and sends that
    "UNSTRUCTURED_DISABLE_NOTICE": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PY_KEY_VALUE_DISABLE_BEARTYPE": "true",  # checks the types of each call of a library that Prefect's server imports
}


_PROJECT = "ALMANAC_PROJECT"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # with one slash, too: Path("s3://bucket") drops the other


def installation() -> Path:
    """Returns the folder of the installed package: code, examples, documentation and lock file. It is only read, except
    that a checkout is also a project.
    """
    return Path(__file__).resolve().parent.parent


def document(name: str) -> str:
    """Returns the path of a documentation page for messages, relative to the current folder where possible."""
    path = installation() / "docs" / name
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@dataclass(frozen=True, slots=True)
class Project:
    """A user's project folder: `knowledge/` contains the declarations, and `data/` is the default data directory."""

    root: Path

    @classmethod
    def locate(cls, option: Path | str | None = None) -> "Project":
        """Returns the project given by the option, else by ALMANAC_PROJECT, else the nearest one with a declaration,
        else the current folder.

        The nearest project is searched from the current folder upwards, up to the home directory.
        """
        chosen = option or os.environ.get(_PROJECT)
        if chosen:
            return cls(_absolute(chosen))
        here = cls(Path.cwd())
        return next((project for project in here._and_above() if project.declarations()), here)

    @property
    def knowledge(self) -> Path:
        return self.root / "knowledge"

    @property
    def data(self) -> Path:
        return self.root / "data"

    def declarations(self) -> list[Path]:
        """Returns the declaration files in `knowledge/`, sorted by name, without overlays and hidden files."""
        from almanac.core.overlays import SUFFIXES, base_of

        paths = (path for suffix in SUFFIXES for path in self.knowledge.glob(f"*{suffix}"))
        return sorted(
            (path for path in paths if path.name[0] != "." and path.is_file() and base_of(path) is None),
            key=lambda path: path.name,
        )

    def require(self) -> None:
        """Raises NotFound where the folder does not exist, UsageError where it is an installation of the package that
        is not a checkout.
        """
        if _is_only_installed(self.root):
            raise UsageError(
                "is the folder in which Almanac is installed, and no project",
                where=str(self.root),
                hint="take another folder: --project DIR",
            )
        if not self.root.is_dir():
            raise NotFound(
                "no such project folder",
                where=str(self.root),
                hint=f"check --project or {_PROJECT}; almanac init NAME --project DIR makes one",
            )

    def _and_above(self) -> Iterator["Project"]:
        try:
            home = Path.home().resolve()
        except RuntimeError:  # this user has no home directory
            home = None
        for folder in (self.root, *self.root.parents):
            if not _is_only_installed(folder):
                yield Project(folder)
            if folder == home:
                return


def use_project(root: Path | str) -> None:
    """Makes a folder the project of this process and of its child processes, by setting ALMANAC_PROJECT."""
    os.environ[_PROJECT] = str(_absolute(root))


def is_store(place: Path | str) -> bool:
    """Whether a place for data is an object store's URL."""
    return str(place).startswith("s3://")


def _absolute(path: Path | str) -> Path:
    try:
        return Path(path).expanduser().resolve()
    except RuntimeError as error:
        raise UsageError(f"no such home directory: {error}", where=str(path), hint="write the whole path") from error


def _is_only_installed(folder: Path) -> bool:
    return folder == installation() and not (folder / "pyproject.toml").is_file()


@dataclass(frozen=True, slots=True)
class DataDir:
    """The data directory: raw pages, processed tables, vectors, indexes, rate limits and Prefect's database.

    Where it is an object store (`url`, as `s3://bucket/prefix`), `root` is a folder of the user's cache: it has a
    working copy of each knowledge base, whose content is fetched and pushed by `core.store.session`. `for_kb` gives
    that of one.
    """

    root: Path
    url: str = ""
    kb: str = ""  # of a store: whose working copy this is

    @classmethod
    def locate(cls, option: Path | str | None = None, project: Project | None = None) -> "DataDir":
        """Returns the data directory given by the option, else by ALMANAC_DATA, else `data/` of the project."""
        if option == "":
            raise UsageError(
                "is empty", where="--data", hint="a variable that is not set? Leave --data out for data/ of the project"
            )
        chosen = option or os.environ.get("ALMANAC_DATA") or (project or Project.locate()).data
        url = str(chosen).rstrip("/")
        if is_store(url):
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
            return cls(_cache() / "stores" / short_hash([endpoint, url]), url)
        if _URL.match(str(chosen)):
            raise UsageError(
                "is neither a folder nor an object store that is known",
                where=str(chosen),
                hint="s3://BUCKET/PREFIX, or the path of a folder",
            )
        return cls(_absolute(chosen))

    @property
    def place(self) -> str:
        """What `locate` takes for this data directory: a path or a URL."""
        return self.url or str(self.root)

    def for_kb(self, kb: str) -> "DataDir":
        """Returns the data directory as a knowledge base has it: in a store its working copy, else this one."""
        return replace(self, root=self.root / kb, kb=kb) if self.url and not self.kb else self

    def raw(self, kb: str, source: str) -> Path:
        return self.for_kb(kb).root / "raw" / kb / source

    def processed(self, kb: str) -> Path:
        return self.for_kb(kb).root / "processed" / kb

    def runs(self, kb: str) -> Path:
        return self.processed(kb) / "runs"

    @property
    def vectors(self) -> Path:
        """The vector store. In an object store each knowledge base has its own: ValueError where none was chosen with
        `for_kb`.
        """
        if self.url and not self.kb:
            raise ValueError("vectors in an object store belong to a knowledge base")
        return self.root / "vectors"

    def raw_folders(self, kb: str) -> list[Path]:
        """Returns the raw folders of all sources of a knowledge base, including sources that are no longer declared;
        sorted.
        """
        return sorted(path for path in self.raw(kb, "_").parent.glob("*") if path.is_dir())

    def index(self, kb: str) -> Path:
        return self.for_kb(kb).root / "index" / kb

    def versions(self, kb: str) -> Path:
        return self.index(kb) / "versions"

    @property
    def limits(self) -> Path:
        return self._common / "limits"

    @property
    def prefect_home(self) -> Path:
        return self._common / "prefect"

    @property
    def _common(self) -> Path:
        """The folder of what all knowledge bases share; no name of a knowledge base begins with a dot."""
        return (self.root.parent if self.kb else self.root) / ".common" if self.url else self.root

    def make_private_folders(self) -> None:
        """Creates the folders of what no reader needs: pages as they were fetched, what is made of them, reports,
        Prefect's database and logs.

        They are their owner's alone, with all that is in them. What readers need, `index/` and `limits/`, has the mode
        that the umask gives it.
        """
        folders = [self.root] if self.url else [self.root / "raw", self.root / "processed"]
        for folder in (*folders, self.prefect_home):
            make_folder(folder, is_private=True)

    def require_there(self, kb: str | None = None) -> None:
        """For what only removes: raises NotFound unless the data directory exists, NothingPublished where it has
        nothing of that knowledge base.
        """
        check = "check --data and ALMANAC_DATA"
        if not self.root.exists():
            raise NotFound("no such data directory", where=self.place, hint=f"{check}; almanac run KB makes one")
        if kb is not None and not any(
            folder.exists() for folder in (self.index(kb), self.raw(kb, "_").parent, self.processed(kb))
        ):
            raise NothingPublished(
                f"nothing of '{kb}' is in this data directory",
                where=self.place,
                hint=f"{check}; almanac run KB fills it",
            )

    def require_writable(self) -> None:
        """Raises StorageError unless files can be created in the data directory; creates it if necessary."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink(missing_ok=True)  # a container that shares the folder may have the same process id
        except OSError as error:
            raise StorageError(
                f"the data directory cannot be written: {'is a file' if self.root.is_file() else error.strerror}",
                where=str(self.root),
                hint="choose another with --data DIR or ALMANAC_DATA, or mend its permissions",
            ) from error


CACHE = "ALMANAC_CACHE"
_CACHE_GB = "ALMANAC_CACHE_GB"


def model_cache() -> Path:
    """Returns the folder of converted models, which all projects of a user share: `models/` of the user's cache."""
    return _cache() / "models"


def prefect_databases() -> Path:
    """Returns the folder of empty databases of Prefect, by its version: `prefect/` of the user's cache."""
    return _cache() / "prefect"


def _cache() -> Path:
    """ALMANAC_CACHE, else almanac/ in XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get(CACHE):
        return _absolute(chosen)
    # The specification of XDG tells to ignore a relative path.
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        caches = Path(shared) if shared.startswith("/") else Path.home() / ".cache"
    except RuntimeError as error:  # this user has no home directory
        raise UsageError(
            "there is no home directory to keep models and working copies in",
            where=CACHE,
            hint=f"choose a folder with {CACHE}=DIR",
        ) from error
    return caches / "almanac"


def cache_bytes() -> int:
    """Returns the bytes that versions and segments fetched from object stores may take: ALMANAC_CACHE_GB, default 50,
    in 10^9 bytes. Raises UsageError.
    """
    text = os.environ.get(_CACHE_GB, "").strip() or "50"
    try:
        size = float(text)
    except ValueError:
        size = -1.0
    if not 0 <= size < 1e9:
        raise UsageError(
            f"must be a number of gigabytes; found {text!r}", where=_CACHE_GB, hint=f"{_CACHE_GB}=50, or 0.5"
        )
    return int(size * 1e9)


def environment(option: str | None = None) -> tuple[str, str]:
    """Returns the environment whose overlay is selected, empty for none, and the option or variable that selected it:
    `--env`, else ALMANAC_ENV.
    """
    return (option, "--env") if option is not None else (os.environ.get("ALMANAC_ENV", ""), "ALMANAC_ENV")


def index_name() -> str | None:
    """Returns INDEX_NAME, the default knowledge base for requests that name none."""
    return os.environ.get("INDEX_NAME", "").strip() or None


def dask_cluster() -> str | None:
    """Returns ALMANAC_DASK, the Dask cluster of runs with `engine: dask`: `tcp://HOST:PORT`, or `local[N]`; None where
    it is not set.
    """
    return os.environ.get("ALMANAC_DASK", "").strip() or None


def quiet_engines() -> None:
    """Disables telemetry, downloads and notices of the engines (Chroma, transformers, OpenVINO, onnxruntime, Great
    Expectations, Prefect).

    Call it before importing any of them.
    """
    os.environ.update(_QUIET_ENGINES)
    # OpenVINO tells a server of each import; no variable stops that, but it does without where this module cannot be
    # imported.
    sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))
    for name in [n for n in os.environ if n.startswith("GX_CLOUD_")]:
        del os.environ[name]
