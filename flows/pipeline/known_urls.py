"""Which URLs a knowledge base has heard of, and where: items, pages, rejects, reports."""

import difflib
import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import structlog

from almanac.core.settings import DataDir
from almanac.index.upkeep.takedown import UrlContent, find_in_tables, versions_to_clean
from almanac.index.upkeep.takedown import known_urls as urls_of_items
from almanac.index.versions.store import version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.spiders.selecting.urls import canonical_url
from almanac.spiders.store.raw import RawStore

log = structlog.get_logger("almanac.forget")
_NEAREST = 3
_COMPARED = 2000  # URLs that a mistyped one is compared with


def _table_folders(data: DataDir, kb: str) -> list[Path]:
    index_dir = data.index(kb)
    return [data.processed(kb), *(version_dir(index_dir, version) for version in versions_to_clean(index_dir))]


def names_of(data: DataDir, kb: str, url: str) -> set[str]:
    """What the page is known by: the URL in its one spelling, too, and where it leads to, unless items stand under the URL itself."""
    names = {url}
    try:
        names.add(canonical_url(url) + (f"#{fragment}" if (fragment := url.partition("#")[2]) else ""))
    except ValueError:
        return names  # a file
    if not find_items(data, kb, names).items:
        for folder in data.raw_folders(kb):
            raw = RawStore(folder)
            for index in map(raw.index, raw.crawls()):
                names |= {entry.url for name in set(names) if (entry := index.leading_on(name)) is not None}
    return names


def find_items(data: DataDir, kb: str, urls: Collection[str]) -> UrlContent:
    """What stands under these URLs, in all versions and in what the latest run found."""
    found = UrlContent()
    for folder in _table_folders(data, kb):
        try:
            found.add(find_in_tables(folder, urls))
        except DamagedVersion as error:
            log.warning("a table cannot be read", kb=kb, folder=str(folder), error=error.message)
    return found


def known_urls(data: DataDir, kb: str) -> Iterator[str]:
    """URLs of items and of pages, of rejects and of what was reported as missing."""
    for folder in _table_folders(data, kb):
        yield from urls_of_items(folder)
    for folder in data.raw_folders(kb):
        raw = RawStore(folder)
        for index in map(raw.index, raw.crawls()):
            yield from index.all_urls
            yield from index.further_urls
    texts = [line for path in data.processed(kb).glob("rejects.jsonl") for line in path.read_text(encoding="utf-8").split("\n")]
    for text in [*texts, *(path.read_text(encoding="utf-8") for path in data.runs(kb).glob("*.json"))]:
        yield from _urls_in(parsed(text))


def _urls_in(value: Any, key: str = "") -> Iterator[str]:
    """The URLs that a reject or a report names."""
    if isinstance(value, list):
        for one in value:
            yield from _urls_in(one, key)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _urls_in(one, name)
    elif isinstance(value, str) and key in ("url", "vanished"):
        yield value


def nearest_urls(url: str, known: Iterable[str]) -> list[str]:
    """The known URLs that are most like it: of the same last part, or of nearly the same letters. Of very many, only those with the longest common
    beginning are looked at."""

    def in_common(other: str) -> int:
        return next((n for n, (a, b) in enumerate(zip(url, other, strict=False)) if a != b), min(len(url), len(other)))

    every = set(known)
    name = url.rstrip("/").rpartition("/")[2]
    same_name = sorted(other for other in every if name and other.rstrip("/").rpartition("/")[2] == name)
    likely = sorted(every, key=lambda other: (-in_common(other), other))[:_COMPARED]
    return list(dict.fromkeys([*same_name, *difflib.get_close_matches(url, likely, _NEAREST, cutoff=0.75)]))[:_NEAREST]


def parsed(text: str) -> Any:
    """What JSON text says; None where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None
