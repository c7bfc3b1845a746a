"""Takedown of a URL: erases it from raw pages, tables, every kept version, and the vectors that nothing else needs."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from almanac.core.clock import utc_now
from almanac.core.digests import digests_of
from almanac.core.durable import REMOVED, TEMPORARY, remove, sweep, write_file
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir
from almanac.core.tables import DUPLICATES, REJECTS
from almanac.flows.pipeline.known_urls import find_items, known_urls, names_of, nearest_urls, parsed
from almanac.flows.pipeline.state import change_state
from almanac.flows.pipeline.validation_results import is_results, write_results
from almanac.index.chroma.leftover import remove_leftovers
from almanac.index.segments.segment_store import remove_unnamed_segments
from almanac.index.upkeep.erase import forget_in_version
from almanac.index.upkeep.prune import needed_keys
from almanac.index.upkeep.takedown import Takedown, note_takedown, takedowns
from almanac.index.upkeep.url_content import UrlContent, forget_in_tables, versions_to_clean
from almanac.index.vectors.retention import forget_vectors, vectors_in_use, vectors_unused
from almanac.index.versions.lock import Lease
from almanac.index.versions.version_store import usable_pointer
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, DamagedVersion, NotFound, OperationalError, RunLocked, StorageError
from almanac.schemas.reports import ForgetResult
from almanac.spiders.rows.read_rows import forget_rows
from almanac.spiders.store.raw import RawStore

log = get_logger("almanac.forget")
_PATIENCE_S = 10.0  # for runs of other knowledge bases that use vectors


def forget_url(
    data: DataDir,
    declaration: Declaration,
    url: str,
    why: str | None = None,
    *,
    anyway: bool = False,
    lease: Lease | None = None,
) -> ForgetResult:
    """Erases the page or item at a URL, and denies the URL to all later runs. The caller holds the writer lock.

    After a kill, the next takedown or run completes it; repeating it changes nothing. Raises NotFound for an unknown
    URL, unless `anyway`. Raises DamagedVersion or RunLocked if a part could not be erased; everything else is erased by
    then.
    """
    complete_takedowns(data, declaration, lease=lease, but=url)
    takedown = _takedown(data, declaration.name, url, why, anyway)
    note_takedown(data.index(declaration.name), takedown)
    return _carry_out(data, declaration, takedown, lease)


def _takedown(data: DataDir, kb: str, url: str, why: str | None, anyway: bool) -> Takedown:
    """Collects what has to be erased. An earlier takedown of the same URL is continued."""
    before = next((takedown for takedown in takedowns(data.index(kb)) if url in takedown.urls), None)
    urls = sorted({*names_of(data, kb, url), *(before.urls if before else ())})
    content = find_items(data, kb, urls)
    if before is not None:
        return before.model_copy(
            update={
                "urls": urls,
                "why": why or before.why,
                "keys": sorted({*before.keys, *content.keys}),
                "done_at": None,
            }
        )
    if (
        not anyway
        and not content.items
        and not content.chunks
        and content.is_whole
        and set(known_urls(data, kb)).isdisjoint(urls)
    ):
        nearest = nearest_urls(url, known_urls(data, kb))
        hint = (
            f"known and near: {', '.join(nearest)}"
            if nearest
            else "almanac export KB documents, or records, lists the URLs that there are"
        )
        hint += "; --anyway denies a URL of which nothing is known"
        raise NotFound(f"nothing is known of {url}", where=kb, hint=hint)
    return Takedown(url=url, urls=urls, at=utc_now(), why=why, keys=sorted(content.keys))


def complete_takedowns(
    data: DataDir, declaration: Declaration, *, lease: Lease | None = None, but: str | None = None
) -> None:
    """Completes interrupted takedowns, but for that of the URL `but`. A takedown that still cannot be completed is
    logged, and tried again next time.
    """
    for takedown in takedowns(data.index(declaration.name)):
        if takedown.done_at is None and but not in takedown.urls:
            try:
                _carry_out(data, declaration, takedown, lease)
            except (DamagedVersion, RunLocked) as error:
                if lease:
                    lease.require_held()
                log.warning("a takedown is not complete yet", kb=declaration.name, url=takedown.url, error=str(error))


def _carry_out(data: DataDir, declaration: Declaration, takedown: Takedown, lease: Lease | None) -> ForgetResult:
    kb = declaration.name
    versions, erased, failures = _erase_from_versions(data, declaration, takedown, lease)
    erased.add(forget_in_tables(data.processed(kb), takedown.urls))
    _erase_from_processed(data, kb, takedown.urls)
    for folder in data.raw_folders(kb):
        forget_rows(RawStore(folder), folder.name, takedown.urls)
    pages = sum(
        RawStore(folder).forget({url.partition("#")[0] for url in takedown.urls}) for folder in data.raw_folders(kb)
    )
    if failures:
        raise _not_erased(takedown.url, failures, usable_pointer(data.index(kb)))
    vectors = _erase_vectors(data, takedown)
    done = takedown.model_copy(update={"keys": [], "done_at": utc_now()})
    note_takedown(data.index(kb), done)
    return ForgetResult(
        kb=kb,
        url=takedown.url,
        versions=versions,
        items=len(erased.items),
        chunks=len(erased.chunks),
        vectors=vectors,
        pages=pages,
    )


def _erase_from_versions(
    data: DataDir, declaration: Declaration, takedown: Takedown, lease: Lease | None
) -> tuple[list[str], UrlContent, dict[str, AlmanacError]]:
    kb = declaration.name
    cleaned, erased, failures = [], UrlContent(), dict[str, AlmanacError]()
    with vectors_in_use(data.vectors):
        for version in versions_to_clean(data.index(kb)):
            try:
                content = forget_in_version(
                    data.index(kb), version, takedown, data.vectors, declaration.embed, lease=lease
                )
            except (DamagedVersion, StorageError, OperationalError) as error:
                failures[version] = error
                continue
            erased.add(content)
            if content.items or content.chunks:
                cleaned.append(version)
                log.info("forgotten", kb=kb, version=version, items=len(content.items), chunks=len(content.chunks))
        remove_unnamed_segments(data.index(kb), at_once=True)  # what is left of them has the content
        remove_leftovers(data.index(kb))
    return cleaned, erased, failures


def _not_erased(url: str, failures: Mapping[str, AlmanacError], live: str | None) -> DamagedVersion:
    """The error for versions that still have the content, by name, because they cannot be built without it. `live` is
    the live version.
    """
    names, first = ", ".join(failures), next(iter(failures.values()))
    if live is not None and live in failures:
        return DamagedVersion(
            f"{url} IS STILL IN THE LIVE VERSION {live}, and is served: it cannot be built again without it: "
            f"{failures[live].message}",
            where=failures[live].where,
            hint=(
                "almanac run KB publishes a version without it; then almanac forget KB URL again, for what is "
                f"kept: {names}"
            ),
        )
    return DamagedVersion(
        f"{url} is not served any more, and is still in versions that are kept and cannot be built again: "
        f"{names}; the first: {first.message}",
        where=first.where,
        hint=(
            "remove the folders of these versions, or bring their files back from a backup; then almanac forget "
            "KB URL again"
        ),
    )


def _erase_vectors(data: DataDir, takedown: Takedown) -> int:
    """Erases the vectors of texts that no other item of any knowledge base has; returns their number."""
    with vectors_unused(data.vectors, patience_s=_PATIENCE_S) as unused:
        if not unused:
            raise RunLocked(
                f"{takedown.url} is erased but for its vectors, which a run of another knowledge base may be using",
                where=str(data.vectors),
                hint="wait for that run; the next takedown or run completes this one",
            )
        keys = pa.array(takedown.keys, pa.string())
        needed = needed_keys(data, overlook_unreadable=True)
        assert needed is not None
        return forget_vectors(data.vectors, keys.filter(pa.array(~needed.has(digests_of(keys)))))


def _erase_from_processed(data: DataDir, kb: str, urls: Collection[str]) -> None:
    """Erases the URLs from mapped pages, staged files, rejects, duplicates, reports and the recorded state."""
    processed = data.processed(kb)
    for path in [*processed.glob("mapped*"), *processed.glob(".staging"), *processed.glob(REMOVED)]:
        remove(path)
    sweep(processed.rglob(TEMPORARY))
    for path in (path for name in (REJECTS, DUPLICATES) if (path := processed / name).is_file()):
        lines = [f"{line}\n" for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line]
        kept_lines = [line for line in lines if not _speaks_of(parsed(line), urls)]
        if kept_lines != lines:
            write_file(path, "".join(kept_lines))
    for report in sorted(data.runs(kb).glob("*.json")):
        before = parsed(report.read_text(encoding="utf-8", errors="replace"))
        after = _without(before, urls)
        if after == before:
            continue
        if is_results(report):
            write_results(report, after)
        else:
            write_file(report, json.dumps(after, ensure_ascii=False, indent=1))
    change_state(processed, lambda state: _without(state, urls))


def _without(value: Any, urls: Collection[str]) -> Any:
    """The JSON value without list entries about these URLs; within texts a placeholder replaces them."""
    if isinstance(value, list):
        return [_without(part, urls) for part in value if part not in urls and not _speaks_of(part, urls)]
    if isinstance(value, dict):
        return {key: _without(part, urls) for key, part in value.items()}
    if isinstance(value, str):
        for url in urls:
            value = re.sub(rf"{re.escape(url)}(?![\w/%.?&=~+-])", "(forgotten)", value) if url in value else value
    return value


def _speaks_of(entry: Any, urls: Collection[str]) -> bool:
    if not isinstance(entry, dict):
        return False
    url = entry.get("url")
    return (isinstance(url, str) and (url in urls or url.partition("#")[0] in urls)) or _speaks_of(
        entry.get("equals"), urls
    )
