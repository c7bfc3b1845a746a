"""Catalog of the knowledge bases that can be asked, with one open index of each."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from almanac.core.given_up import GivenUp
from almanac.core.load import find_declaration, load_declaration
from almanac.core.logs import get_logger
from almanac.core.overlays import overlays_of
from almanac.core.settings import DataDir, Project, environment, index_name
from almanac.core.store.readers import StoreState
from almanac.query.naming import SHOWN, choices, choose_default, find_named
from almanac.query.published import Embedders, PublishedIndex, live_version, readable_version
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, NotFound, NothingPublished

_LOOK_S = 0.1  # seconds between two looks at the declaration files, of which each takes as long as a small search
_GIVE_WAY_S = 0.2  # between two looks at whether somebody waits to write an open file
# for which a server is ready later, and what it has embedded by then is not embedded with first answers
_AHEAD_S = 10.0
_log = get_logger("almanac.catalog")
_Stamp = tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class _Declared:
    """State of a declaration file when it was last read.

    `stamp` has path, modification time and size of the file and its overlay. `declaration` is the last valid one,
    `error` the error of the present one.
    """

    stamp: _Stamp
    declaration: Declaration | None = None
    error: AlmanacError | None = None
    index: PublishedIndex | None = None


class Catalog:
    """The knowledge bases that can be asked, and their open indexes. Safe to share among threads.

    Declaration files are read again when they change: by the first request that comes a tenth of a second later. While
    one is invalid, its last valid state applies.

    Args:
        data: Data directory with the published versions. Of an object store, those that are live are fetched now, and
            later ones as they are published.
        names: Names or paths of declarations. Default: all of the project, including those added later. Only bases with
            a published version can be asked.
        env: Environment whose overlay is applied to the bases that have one. Default: ALMANAC_ENV.
        default: Knowledge base for requests that name none. Default: INDEX_NAME, else the only published one.
        project: Project folder. Default: as in `Project.locate`.

    Raises:
        NotFound: There is no such project folder, no declaration of one of the `names`, or no overlay of the
            environment.
        UsageError: The project folder is the one in which Almanac is installed, or one of the `names` is an overlay
            file.
        DeclarationError: The declaration of one of the `names` is invalid.
        StorageError: The object store refuses, or does not answer, and the cache has no version of any knowledge base.
    """

    def __init__(
        self,
        data: DataDir,
        names: Sequence[str] | None = None,
        env: str | None = None,
        default: str | None = None,
        project: Project | None = None,
    ) -> None:
        self.data, self.project = data, project or Project.locate()
        self.project.require()
        self._default = default or index_name()
        self._fixed = None if names is None else [find_declaration(name, self.project) for name in names]
        self._env, asked_by = environment(env)
        self._declared: dict[Path, _Declared] = {}
        self._valid: list[Declaration] = []
        self._look_at = 0.0  # by the clock that `time.monotonic` reads
        self._embedders = Embedders()
        self._reported: dict[str, str] = {}  # by name: the last logged reason why a base cannot be asked
        self._lock = threading.RLock()
        self._is_closed = threading.Event()
        self._begun: list[AlmanacError] | None = []  # errors of a store while the catalog is made; None afterwards
        for path in self.paths() if names is not None else ():
            self._read(path)
            if error := self._declared[path].error:
                raise error
        if self.data.url:
            self._require_versions()
        self._begun = None
        if self._env and not any(self._env in overlays_of(path) for path in self.paths()):
            raise NotFound(
                f"no knowledge base has an overlay '{self._env}'",
                where=asked_by,
                hint="NAME.ENV.yaml beside a declaration makes one",
            )
        threading.Thread(target=self._give_way, name="give-way", daemon=True).start()

    def _require_versions(self) -> None:
        """Fetches what is live in an object store now. Raises its error where nothing can be asked."""
        if not self.names() and self._begun:
            self.close()
            raise self._begun[0]

    def stores(self) -> dict[str, StoreState]:
        """How each knowledge base stands to its object store, by name; empty for a local directory."""
        with self._lock:
            indexes = [declared.index for declared in self._declared.values() if declared.index is not None]
        return {index.declaration.name: state for index in indexes if (state := index.store) is not None}

    def names(self) -> list[str]:
        """Names of the knowledge bases that have a published version now, sorted."""
        return sorted(self._published())

    def undeclared(self) -> dict[str, str]:
        """Live versions in the data directory that no declaration of the project belongs to, by name, sorted. Empty
        where `names` were given.
        """
        if self._fixed is not None:
            return {}
        # With an overlay that names an index of its own, the index of the same file without it is declared, too.
        known = {declaration.name for declaration in self._declarations()} | {path.stem for path in self.paths()}
        names = sorted({pointer.parent.name for pointer in self.data.root.glob("index/*/CURRENT")} - known)
        return {name: self._live(name) for name in names}

    def unreadable(self) -> dict[str, str]:
        """Reasons, with a hint, why declared bases cannot be asked, by name; bases that merely have no version yet are
        left out.
        """
        reasons = {path.stem: error.message for path in self._unread() if (error := self._declared[path].error)}
        for declaration in self._declarations():
            try:
                readable_version(self.data, declaration.name)
            except AlmanacError as error:
                error.about(declaration.handle)
                reasons[declaration.name] = f"{error.message} → {error.hint}"
        return reasons

    def _unread(self) -> list[Path]:
        """Declaration files of which no valid state has been read yet."""
        with self._lock:
            self._declarations()
            return [path for path, declared in self._declared.items() if declared.declaration is None]

    def _live(self, name: str) -> str:
        try:
            return live_version(self.data, name) or "no version"
        except AlmanacError:
            return "a version that is damaged"

    def default(self) -> str:
        """Name of the knowledge base for requests that name none: the `default` of the catalog, else the only published
        one.

        Raises UsageError, with the choices, where the default is not published or several bases are; NothingPublished
        where none is.
        """
        with self._lock:
            return choose_default(self._default, self._declarations(), self.names()).name

    @property
    def default_name(self) -> str | None:
        """What is set as the default, published or not; None where nothing is."""
        return self._default

    def find(self, kb: str) -> Declaration | None:
        """The declaration that a name belongs to, published or not, as `find_named`."""
        return find_named(kb, self._declarations())

    def index(self, kb: str | None) -> PublishedIndex:
        """Index of a knowledge base, by name, handle, file or collection; None gives the default one. It is opened once
        and shared: do not close it.

        Raises NotFound for an undeclared or ambiguous base, NothingPublished before its first version, DamagedVersion
        where its live pointer names a version that does not exist, and the errors of `default`.
        """
        wanted = self.default() if kb is None else kb
        with self._lock:
            declaration = self.find(wanted)
            if declaration is None:
                raise NotFound(f"no knowledge base '{wanted[:SHOWN]}'", where="kb", hint=choices(self.names()))
            if live_version(self.data, declaration.name) is None:
                raise NothingPublished(
                    f"nothing is published for '{declaration.name}' yet",
                    where="kb",
                    hint=f"almanac run {declaration.handle}",
                )
            declared = self._declared[declaration.path]
            if declared.index is None:
                declared.index = PublishedIndex(declaration, self.data, embedders=self._embedders, gives_way=True)
            return declared.index

    def keep_up(self) -> list[str]:
        """Opens and warms the live version of each knowledge base before its first question, and closes unused ones.

        Of small versions, sentences are embedded for up to ten seconds in all; a base of which one cannot be embedded
        can be asked all the same. Returns the names of the bases that can be asked. The reason why another one cannot
        is logged, once.
        """
        ready = self._each(self.names(), PublishedIndex.keep_up)
        until = time.monotonic() + _AHEAD_S
        self._each(ready, lambda index: index.embed_ahead(until), "not_embedded_ahead")
        return ready

    def _each(self, names: list[str], work: Callable[[PublishedIndex], None], failed: str = "not_ready") -> list[str]:
        """Names of the knowledge bases with which something has been done. The error of another one is logged, once, as
        an event called `failed`.
        """
        done = []
        for name in names:
            try:
                work(self.index(name))
                done.append(name)
            except GivenUp:  # no fault of the base
                raise
            except Exception as error:
                self._tell(name, error, failed)
        return done

    def _give_way(self) -> None:
        """Lets go of files that somebody waits to write, such as who restores a backup over them, until the catalog is
        closed.
        """
        while not self._is_closed.wait(_GIVE_WAY_S):
            for declared in [*self._declared.values()]:
                if (index := declared.index) is not None:
                    try:
                        index.give_way()
                    except OSError as error:
                        _log.warning("files cannot be looked at", kb=index.declaration.name, error=str(error))

    def close(self) -> None:
        """Closes every index, each version after the last request that reads it."""
        self._is_closed.set()
        with self._lock:
            for declared in self._declared.values():
                if declared.index is not None:
                    declared.index.close()
            self._declared.clear()
            self._look_at = 0.0

    def _published(self) -> dict[str, Declaration]:
        with self._lock:
            return {
                declaration.name: declaration for declaration in self._declarations() if self._is_published(declaration)
            }

    def _is_published(self, declaration: Declaration) -> bool:
        try:
            return live_version(self.data, declaration.name) is not None
        except AlmanacError as error:
            self._tell(declaration.name, error)
            return False

    def _tell(self, kb: str, error: Exception, event: str = "not_ready") -> None:
        """Logs an error, unless it is the last one logged for this base: each check meets it again."""
        if self._reported.get(kb) != str(error):
            self._reported[kb] = str(error)
            _log.warning(event, kb=kb, error=str(error))

    def _declarations(self) -> list[Declaration]:
        """The valid declarations, brought up to date with their files; one for each name."""
        with self._lock:
            if time.monotonic() >= self._look_at:
                self._look()
                self._look_at = time.monotonic() + _LOOK_S
            return self._valid

    def _look(self) -> None:
        paths = self.paths()
        for gone in self._declared.keys() - set(paths):
            self._close(self._declared.pop(gone))
        for path in paths:
            self._read(path)
        declarations = (self._declared[path].declaration for path in reversed(paths))
        self._valid = list({declaration.name: declaration for declaration in filter(None, declarations)}.values())

    def paths(self) -> list[Path]:
        """Files of the declarations of this catalog, valid or not."""
        if self._fixed is not None:
            return [path.resolve() for path in self._fixed]
        return self.project.declarations()

    def _read(self, path: Path) -> None:
        """Reads a declaration that is new or has changed. An invalid one leaves the last valid state in force."""
        overlay = overlays_of(path).get(self._env) if self._env else None
        stamp = tuple(_stamp(file) for file in (path, overlay) if file is not None)
        known = self._declared.get(path)
        if known is not None and known.stamp == stamp:
            return
        known = self._declared.setdefault(path, _Declared(stamp))
        known.stamp, known.error = stamp, None
        try:
            declaration = load_declaration(str(path), self._env if overlay else "", self.project, to_read=True)
        except AlmanacError as error:
            known.error = error
            _log.warning("declaration_skipped", file=path.name, error=str(error))
            return
        if known.declaration is None or declaration.sha256 != known.declaration.sha256:
            self._close(known)
            known.declaration = declaration
            if self.data.url:
                known.index = self._followed(declaration)

    def _followed(self, declaration: Declaration) -> PublishedIndex:
        """The index of a knowledge base in an object store. While the catalog is made, it has what is published; one
        that is declared later gets it soon.
        """
        index = PublishedIndex(declaration, self.data, embedders=self._embedders, gives_way=True)
        if self._begun is not None:
            try:
                index.follow()
                return index
            except AlmanacError as error:
                error.about(declaration.handle)
                self._begun.append(error)
                self._tell(declaration.name, error)
        index.follow(now=False)
        return index

    def _close(self, declared: _Declared) -> None:
        if declared.index is not None:
            declared.index.close()
            declared.index = None


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (str(path), 0, 0)
    return (str(path), status.st_mtime_ns, status.st_size)
