"""Removes data from the raw store: crawls that are no longer needed, and pages that were taken down.

Journals are removed before the bodies that they name. If the process is killed in between, an unreferenced body remains
and the next call removes it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from almanac.core.durable import remove, write_file
from almanac.spiders.store.journal import line_of, values_of

_ADDRESSES = ("url", "requested_url", "canonical", "alias", "of")


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many crawls and bodies were removed, and the bytes they took on disk (compressed)."""

    crawls: int = 0
    bodies: int = 0
    bytes: int = 0


def prune_crawls(root: Path, crawls: set[str], bodies: set[str]) -> Pruned:
    """Implements `RawStore.prune`."""
    gone = [path for path in sorted((root / "crawls").glob("*.json*")) if path.name.partition(".")[0] not in crawls]
    freed = sum(path.stat().st_size for path in gone)
    for path in gone:  # journal before stats: stats alone are no crawl, but a journal alone is one that was cut off
        remove(path)
    unnamed = _unnamed(root, bodies)
    freed += sum(path.stat().st_size for path in unnamed)
    for path in [*unnamed, *_strays(root)]:
        remove(path, synced=False)
    return Pruned(sum(path.suffix == ".jsonl" for path in gone), len(unnamed), freed)


def forget_urls(root: Path, urls: frozenset[str]) -> int:
    """Implements `RawStore.forget`."""
    for path in sorted((root / "crawls").glob("*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        left = [
            _without_card(line, values, urls)
            for line in lines
            if (values := values_of(line)) and not _names(values, urls)
        ]
        if left != lines:
            write_file(path, b"".join(left))
    for path in sorted((root / "crawls").glob("*.stats.json")):
        _forget_in_stats(path, urls)
    unnamed = _unnamed(root, set())
    for path in [*unnamed, *_strays(root)]:
        remove(path)
    return len(unnamed)


def _names(values: dict[str, Any], urls: frozenset[str]) -> bool:
    """Whether a journal line mentions one of the URLs: as page, alias, canonical URL or redirect."""
    return any(values.get(key) in urls for key in _ADDRESSES) or not urls.isdisjoint(values.get("redirects") or ())


def _without_card(line: bytes, values: dict[str, Any], urls: frozenset[str]) -> bytes:
    """The line, with `card` emptied if the page's card was on one of the URLs."""
    return line if urls.isdisjoint(values.get("card") or ()) else line_of({**values, "card": []})


def _forget_in_stats(path: Path, urls: frozenset[str]) -> None:
    try:
        before = json.loads(path.read_bytes())
    except ValueError:  # damaged: it cannot be searched for the URLs, so all of it goes
        remove(path)
        return
    after = _without(before, urls)
    if after != before:
        write_file(path, json.dumps(after, indent=1))


def _without(value: Any, urls: frozenset[str]) -> Any:
    """The JSON value without the entries of lists and objects that mention one of the URLs; a text that contains one
    becomes empty.
    """
    if isinstance(value, list):
        return [_without(entry, urls) for entry in value if not _is_of(entry, urls)]
    if isinstance(value, dict):
        return {
            key: _without(entry, urls)
            for key, entry in value.items()
            if key not in urls and not (isinstance(entry, str) and entry in urls)
        }
    return "" if isinstance(value, str) and any(url in value for url in urls) else value


def _is_of(value: Any, urls: frozenset[str]) -> bool:
    return value in urls if isinstance(value, str) else isinstance(value, dict) and _names(value, urls)


def _unnamed(root: Path, bodies: set[str]) -> list[Path]:
    """Paths of the bodies that neither a journal nor `bodies` names."""
    named = bodies | {digest for path in (root / "crawls").glob("*.jsonl") for digest in _digests(path)}
    return [
        path
        for path in sorted((root / "bodies").glob("*/*.gz"))
        if not path.name.startswith(".") and path.name.partition(".")[0] not in named
    ]


def _digests(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for line in file:
            values = values_of(line)
            yield from (
                digest for digest in (values.get("sha256"), *(values.get("card") or ())) if isinstance(digest, str)
            )


def _strays(root: Path) -> list[Path]:
    """Temporary files that killed processes left behind: whoever removes something is the only writer."""
    return [path for pattern in ("bodies/*/.*.tmp", "crawls/.*.tmp") for path in root.glob(pattern)]
