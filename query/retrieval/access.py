"""Which chunks of an open version a caller may see, and which of them pass its filter.

A workspace restricts everything: the rows, the fields that a filter may name, and the values that it may compare. What
only other workspaces have shows in no result and in no refusal. A path that no row has is refused by name, and costs
nobody a column of its own; the declaration is the same for all callers, so a declared field is known without any row.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from cachetools import LRUCache

from almanac.core.coded import Coded
from almanac.core.given_up import require_wanted
from almanac.core.keyed_locks import KeyedLocks
from almanac.index.reader import ChunkSet, OpenVersion
from almanac.query.retrieval.filters import Column, Mask, filter_key, matching_rows, reach
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import sha256

if TYPE_CHECKING:
    from almanac.schemas.declaration import Declaration

_Cached = TypeVar("_Cached")
_ROW_FIELDS = ("source", "document_id", "url", "title", "kind")
_FILTERS = 16  # filters whose matching chunks are cached
_COLUMNS = 32  # fields whose values are cached: four bytes a row, and each distinct value
_DEEPEST = 50  # levels of metadata, as many as a filter may have
_MOST_NAMED, _LONGEST = 40, 80  # names in a refusal, and characters of one
_VERSIONS = 3  # times the rows of the version: all rows together, each workspace's own, and what workspaces share
_MOST = 1000  # workspaces, if each has only a few rows


class WorkspaceCache(Generic[_Cached]):
    """LRU cache by workspace, None for all rows, of values that grow with the rows of a workspace. Safe to share among
    threads.

    The workspaces in it have at most three times the `rows` of the version, so memory is bounded by the version's size,
    whatever callers name. What is made of no rows is not kept.
    """

    def __init__(self, rows: int) -> None:
        self._least = max(rows * _VERSIONS // _MOST, 1)
        self._entries: LRUCache[str | None, tuple[int, _Cached]] = LRUCache(
            max(rows * _VERSIONS, 1), getsizeof=lambda entry: entry[0]
        )
        self._lock, self._making = threading.Lock(), KeyedLocks()

    def get_or_make(
        self, workspace: str | None, make: Callable[[], _Cached], rows_in: Callable[[str | None], int]
    ) -> _Cached:
        """The value of a workspace; made where it is not kept, while others that ask for the same one wait.

        Neither function is kept: they refer to whoever has this cache, and the circle would keep both until garbage is
        collected.
        """
        if (entry := self._cached_entry(workspace)) is not None:
            return entry[1]
        with self._making.lock_of(workspace):
            if (entry := self._cached_entry(workspace)) is not None:  # another thread has made it
                return entry[1]
            require_wanted()
            made, rows = make(), rows_in(workspace)
            if rows:
                with self._lock:
                    self._entries[workspace] = (max(rows, self._least), made)
        return made

    def _cached_entry(self, workspace: str | None) -> tuple[int, _Cached] | None:
        with self._lock:
            return self._entries.get(workspace)


class Access:
    """What callers may see of one open version, as declared. Safe to share among threads."""

    def __init__(self, declaration: "Declaration", opened: "OpenVersion") -> None:
        self._declaration, self._opened = declaration, opened
        self._declared = declaration.retrieve.workspace
        self._workspace_field = None if self._declared is None else self._declared.field
        self._chunks = opened.manifest.counts.chunks
        self._known = WorkspaceCache["KnownFields"](self._chunks)
        self._columns: LRUCache[str, Column] = LRUCache(_COLUMNS)
        # matching chunks by hash of the filter's key: callers repeat the same filters
        self._filters: LRUCache[str, ChunkSet] = LRUCache(_FILTERS)
        self._lock = threading.Lock()  # of these two
        # one column at a time: several take as long together, and hold up every search
        self._building = threading.Lock()

    def require_workspace(self, workspace: str | None) -> None:
        """Raises UsageError for no workspace where the declaration requires one."""
        if workspace is None and self._declared is not None and self._declared.required:
            hint = "--workspace W, `workspace` of a request, or a key that is restricted to one"
            finding = f"{self._declaration.name} answers within a workspace only, and none is named"
            raise UsageError(finding, where="--workspace", hint=hint)

    def visible(self, workspace: str | None, where: dict[str, Any] | None = None) -> ChunkSet | None:
        """The chunks that a caller may see, as `chunks_in`. Raises UsageError also for no workspace where one is
        required.
        """
        self.require_workspace(workspace)
        return self.chunks_in(workspace, where)

    def chunks_in(self, workspace: str | None, where: dict[str, Any] | None = None) -> ChunkSet | None:
        """Ids of the chunks of a workspace that pass a filter; None for all. They are combined by "and", so that no
        filter can widen a workspace. Cached.

        Raises UsageError where the filter is malformed or names an unknown field or operator, or a workspace is given
        and none is declared.
        """
        if workspace is None and where is None:
            return None
        key = sha256(filter_key(workspace, where))  # a filter may be as long as a request
        with self._lock:
            chunk_ids = self._filters.get(key)
        if chunk_ids is None:
            chunk_ids = self._passing(workspace, where)
            with self._lock:
                self._filters[key] = chunk_ids
        return chunk_ids

    def rows_in(self, workspace: str | None) -> int:
        """Number of chunks of a workspace, or of all. Raises as `chunks_in`."""
        ids = self.chunks_in(workspace)
        return self._chunks if ids is None else len(ids)

    def metadata_for(self, workspace: str | None, metadata: dict[str, Any]) -> dict[str, Any]:
        """The metadata of a chunk as a caller of a workspace may see it: of the workspaces that share the chunk, their
        own alone. None sees all.
        """
        field = self._workspace_field or ""
        is_shared = workspace is not None and isinstance(metadata.get(field), list)
        return {**metadata, field: [workspace]} if is_shared else metadata

    def column(self, path: str) -> Column:
        """The column of a field, or of a dotted path into one, of all chunks; built on first use, while others that ask
        for it wait, and kept.
        """
        if (column := self._kept_column(path)) is not None:
            return column
        with self._building:
            if (column := self._kept_column(path)) is not None:  # another thread has built it
                return column
            require_wanted()
            name, *inner = path.split(".")
            # a metadata field takes precedence over a column of the same name
            if name in _ROW_FIELDS and name not in self._opened.metadata_keys:
                built = Column(self._opened.coded_column(name))
            else:
                built = Column(self._opened.coded_metadata(lambda metadata: reach(metadata.get(name), inner)))
            with self._lock:
                self._columns[path] = built
        return built

    def _kept_column(self, path: str) -> Column | None:
        with self._lock:
            return self._columns.get(path)

    def _passing(self, workspace: str | None, where: dict[str, Any] | None) -> ChunkSet:
        masks: list[Mask] = []
        if workspace is not None:
            if self._workspace_field is None:
                hint = "retrieve.workspace names the metadata field that keeps them apart"
                raise UsageError("no workspaces are declared", where="--workspace", hint=hint)
            if not workspace.strip():
                raise UsageError("the workspace is blank", where="--workspace", hint="name one, or leave it out")
            masks.append(matching_rows({self._workspace_field: {"$eq": workspace}}, self.column, self._chunks))
        if where is not None:
            masks.append(matching_rows(where, partial(self._column_for, workspace), self._chunks, *masks))
        return self._opened.ids_where(np.logical_and.reduce(masks))

    def _column_for(self, workspace: str | None, path: str) -> Column:
        """A column as a workspace may see it: of the workspaces that share a chunk its own alone, or a filter would
        tell it with whom it shares.

        Raises UsageError for a path that is not known. To a workspace without a row each is: none has a value, and a
        new tenant's filters are those of others.
        """
        is_there = bool(self.rows_in(workspace)) and self._known_in(workspace).has(path)
        if is_there and (workspace is None or path != self._workspace_field):
            return self.column(path)
        return Column(Coded([([workspace if is_there else None], np.zeros(self._chunks, dtype=np.int32))]))

    def _known_in(self, workspace: str | None) -> "KnownFields":
        """The fields that a filter may name. They are those of the workspace's own rows, so that no refusal tells what
        only another one has.
        """

        def read() -> "KnownFields":
            paths = metadata_paths(self._opened, self.chunks_in(workspace))
            if workspace is not None:  # its rows may share their field with others, which have no part in it
                paths = frozenset(path for path in paths if path.partition(".")[0] != self._workspace_field)
            own = {*_ROW_FIELDS, *filter(None, [self._workspace_field])}
            declared = {
                name for source in self._declaration.sources for name in source.metadata or source.declared_fields()
            }
            return KnownFields(paths | own, frozenset(declared), is_told=workspace is None)

        return self._known.get_or_make(workspace, read, self.rows_in)


@dataclass(frozen=True)
class KnownFields:
    """Fields that a filter may name.

    `paths` are names and dotted paths of which some row has a value, or a null; `declared` are names that are known
    without one; `is_told` is whether these are named in a refusal, too.
    """

    paths: frozenset[str]
    declared: frozenset[str] = frozenset()
    is_told: bool = True

    def has(self, path: str) -> bool:
        """Whether some row has the path. Of one that it has not, no row has a value.

        Raises UsageError for a path that is not known, with those that are. Below a declared field that no row has,
        each path is: there is nothing that it could be held against.
        """
        if path in self.paths:
            return True
        name = path.partition(".")[0]
        if name in self.declared and name not in self.paths:
            return False
        raise UsageError(f"no field '{_cut(path)}' in this version", where="--where", hint=self._there_is(path))

    def _there_is(self, path: str) -> str:
        above = path
        while (above := above.rpartition(".")[0]) and above not in self.paths:
            pass
        if not above:
            names = self.paths | self.declared if self.is_told else self.paths
            return f"fields: {_listed({name for name in names if '.' not in name})}"
        prefix = f"{above}."
        inner = {known.removeprefix(prefix).partition(".")[0] for known in self.paths if known.startswith(prefix)}
        return f"below {_cut(above)}: {_listed(inner)}"


def metadata_paths(opened: "OpenVersion", among: ChunkSet | None = None) -> frozenset[str]:
    """Returns the dotted paths into the metadata of all rows, or of some: `price` and `price.amount`. Keys with a dot
    are left out: no path leads to them.
    """
    names: set[str] = set()
    inner: set[str] = set()
    for batch in opened.batches(["metadata"], among):
        for text in batch.column(0).unique().to_pylist():
            metadata = json.loads(text)
            names.update(metadata)
            for name, value in metadata.items():
                if isinstance(value, dict | list) and "." not in name:
                    inner.update(_below(name, value, _DEEPEST))
    return frozenset(inner.union(name for name in names if "." not in name))


def _below(prefix: str, value: Any, levels: int) -> Iterator[str]:
    """Yields the paths below a value; entries of a list are at the path of the list."""
    if not levels:
        return
    if isinstance(value, list):
        for entry in value:
            yield from _below(prefix, entry, levels - 1)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if "." not in key:
                yield f"{prefix}.{key}"
                yield from _below(f"{prefix}.{key}", inner, levels - 1)


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMED} more" if len(ordered) > _MOST_NAMED else ""
    return (", ".join(_cut(name) for name in ordered[:_MOST_NAMED]) or "none") + more


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
