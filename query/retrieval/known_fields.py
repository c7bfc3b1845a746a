"""The fields that a filter may name: a path that no row has is refused by name, and costs nobody a column of its own.

A caller of a workspace is held to the rows that it sees. The declaration is the same for all callers, so a declared
field is known without any row, too; it is named in a refusal only to those who see every row.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from almanac.index.chunk_set import ChunkSet
from almanac.index.reader import OpenVersion
from almanac.schemas.errors import UsageError

_DEEPEST = 50  # levels of metadata, as many as a filter may have
_MOST_NAMED = 40  # names in a refusal
_LONGEST = 80  # characters of a name in a refusal


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
            return (
                "fields: "
                f"{_listed({one for one in (*self.paths, *(self.declared if self.is_told else ())) if '.' not in one})}"
            )
        inner = {one.removeprefix(f"{above}.").partition(".")[0] for one in self.paths if one.startswith(f"{above}.")}
        return f"below {_cut(above)}: {_listed(inner)}"


def metadata_paths(opened: OpenVersion, among: ChunkSet | None = None) -> frozenset[str]:
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
