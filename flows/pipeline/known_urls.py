"""Looks up URLs in everything that a knowledge base keeps: items, pages, rejects, reports."""

import difflib
import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from almanac.core.logs import get_logger
from almanac.core.settings import DataDir
from almanac.core.tables import DUPLICATES, REJECTS
from almanac.index.upkeep.composition import TABLES
from almanac.index.upkeep.url_content import UrlContent, find_in_tables, table_folders, urls_in_tables
from almanac.schemas.errors import DamagedVersion
from almanac.spiders.selecting.urls import canonical_url
from almanac.spiders.store.raw import RawStore

log = get_logger("almanac.forget")
_NEAREST = 3
_COMPARED = 2000  # URLs that a mistyped one is compared with


def _table_folders(data: DataDir, kb: str) -> list[Path]:
    return [data.processed(kb), *table_folders(data.index(kb))]


def names_of(data: DataDir, kb: str, url: str) -> set[str]:
    """All URLs under which a page may be stored: as given, canonical, and where it redirects to (only if no item has
    the URL itself).
    """
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
    """Items and chunks with these URLs, in all versions, also in rows that they have deleted, and in the tables of the
    latest run.
    """
    content = UrlContent()
    for folder in _table_folders(data, kb):
        try:
            content.add(find_in_tables(folder, urls))
            content.is_whole &= folder == data.processed(kb) or all((folder / name).is_file() for name in TABLES)
        except DamagedVersion as error:
            log.warning("a table cannot be read", kb=kb, folder=str(folder), error=error.message)
            content.is_whole = False
    return content


def known_urls(data: DataDir, kb: str) -> Iterator[str]:
    """All URLs of items, pages, rejects, duplicates and reported losses."""
    for folder in _table_folders(data, kb):
        yield from urls_in_tables(folder)
    for folder in data.raw_folders(kb):
        raw = RawStore(folder)
        for index in map(raw.index, raw.crawls()):
            yield from index.all_urls
            yield from index.further_urls
    lists = [path for name in (REJECTS, DUPLICATES) if (path := data.processed(kb) / name).is_file()]
    texts = [line for path in lists for line in path.read_text(encoding="utf-8", errors="replace").split("\n")]
    for text in [
        *texts,
        *(path.read_text(encoding="utf-8", errors="replace") for path in data.runs(kb).glob("*.json")),
    ]:
        yield from _urls_in(parsed(text))


def _urls_in(value: Any, key: str = "") -> Iterator[str]:
    """The URLs in the JSON of a reject or report."""
    if isinstance(value, list):
        for part in value:
            yield from _urls_in(part, key)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _urls_in(part, name)
    elif isinstance(value, str) and key in ("url", "vanished"):
        yield value


def nearest_urls(url: str, known: Iterable[str]) -> list[str]:
    """The known URLs that are most similar: those with the same last path segment, then close matches among the 2,000
    with the longest common prefix.
    """

    def in_common(other: str) -> int:
        return next((n for n, (a, b) in enumerate(zip(url, other, strict=False)) if a != b), min(len(url), len(other)))

    every = set(known)
    name = url.rstrip("/").rpartition("/")[2]
    same_name = sorted(other for other in every if name and other.rstrip("/").rpartition("/")[2] == name)
    likely = sorted(every, key=lambda other: (-in_common(other), other))[:_COMPARED]
    return list(dict.fromkeys([*same_name, *difflib.get_close_matches(url, likely, _NEAREST, cutoff=0.75)]))[:_NEAREST]


def parsed(text: str) -> Any:
    """The value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
