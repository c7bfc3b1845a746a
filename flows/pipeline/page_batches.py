"""Steps of a run whose pages are mapped by workers: the pages that no earlier run has mapped, staged in batches, and
mapped batch by batch.

A batch is a row group of a staged table. What it yields is a *part*: a file of mapped pages, named by a hash of the
pages and of the rules by which they are mapped. A part that exists is complete, so a batch that runs twice changes
nothing, and a later run finds the parts of one that was cut off. `map_pages` (map.py) then reads the parts in the order
of the pages, as it reads the pages that an earlier run has mapped. What a part lacks, it maps itself.
"""

import pickle
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa

from almanac.core.durable import move, remove
from almanac.core.logs import get_logger
from almanac.core.tables import TableWriter, open_table, read_batches, read_group
from almanac.flows.pipeline.batches import at_batch
from almanac.flows.pipeline.fingerprints import cleaning_of, mapping_of
from almanac.flows.pipeline.handles import PageBatches, Pages
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.hashing import canonical_json, sha256
from almanac.spiders.mapping.pages import PageToMap, StoredPage, page_to_map, pages_to_map, stored_pages
from almanac.spiders.store.journal import CrawlIndex
from almanac.transforms.mapped_pages import Mapped, MappedPages, MappedWriter, clean_extraction

log = get_logger("almanac.map")
_LEAST_PAGES, _MOST_PAGES = 32, 160  # of a batch, 64 on average: a fifth to half a second of work
_WORTH_SHARING = 512
_LISTED_ROWS = 1000
_SCHEMA = pa.schema([("source", pa.string()), ("key", pa.string()), ("page", pa.binary())])


def mapped_table(run: Run, source: Source) -> Path:
    """Where a run leaves what became of the pages of a source."""
    return run.processed / "mapped" / f"{source.name}.parquet"


def parts_folder(run: Run) -> Path:
    """Where parts lie until `map_pages` has read them. A plan leaves nothing in the data directory."""
    return (run.staging if run.is_plan else run.processed / "mapped") / "parts"


def remove_parts(run: Run) -> None:
    """Removes the parts, once nobody needs them: their pages are in the mapped tables, or are those of the live
    version.
    """
    if parts_folder(run).is_dir():
        remove(parts_folder(run))


def rules_of(run: Run, source: Source) -> str:
    """The fingerprint of all that decides what becomes of a stored page."""
    return f"{mapping_of(source, run.declaration.language)} {cleaning_of(run.declaration)}"


def known_pages(run: Run, source: Source) -> MappedPages:
    """The pages that an earlier run has mapped by the same rules; none where everything is to be mapped anew."""
    return MappedPages(mapped_table(run, source), "" if run.scope.full else rules_of(run, source))


def map_page(run: Run, source: Source, work: PageToMap) -> Iterator[Mapped]:
    """Yields what a page becomes, mapped and cleaned, batch by batch of its items."""
    declared = run.declaration
    for extraction in work.read():
        yield clean_extraction(
            extraction, source, declared.clean, language=declared.language, workspace=declared.retrieve.workspace
        )


def is_worth_sharing(run: Run, pages: tuple[Pages, ...]) -> bool:
    """Whether there are so many pages left to map that dividing them into batches pays: new ones, or all of a source
    whose rules have changed.
    """
    counts = {page.source: page.counts for page in pages}
    sources = run.declaration.sources
    return (
        sum(
            counts[source.name].fetched if known_pages(run, source).rows else counts[source.name].present
            for source in sources
        )
        >= _WORTH_SHARING
    )


def stage_pages(run: Run, pages: tuple[Pages, ...]) -> PageBatches:
    """Stages the pages to map, in the order of the sources and of their pages. Parts that none of the batches needs are
    removed.
    """
    table, count, wanted = run.staging / "pages.parquet", 0, set[Path]()
    listed: dict[str, Path] = {}
    with TableWriter(table, _SCHEMA, statistics=False) as writer:
        for source in run.declaration.sources:
            index = run.raw(source.name).index(next(page.crawl for page in pages if page.source == source.name))
            known = known_pages(run, source)
            if isinstance(source, SiteSource) and source.listing is not None:
                listed[source.name] = _stage_listed(run, source, index)
            works = pages_of(run, source, index, listed)
            for batch in _batches(work for work in works if not known.knows(work.key)):
                keys = [work.key for work in batch]
                writer.write(
                    pa.Table.from_arrays(
                        [pa.array([source.name] * len(keys)), pa.array(keys), pa.array(map(_pickled, batch))],
                        schema=_SCHEMA,
                    )
                )
                wanted.add(_part(run, source, keys))
                count += 1
    for path in parts_folder(run).glob("*.parquet"):
        if path not in wanted:
            remove(path)
    return PageBatches(table, writer.rows, count, tuple(listed.items()))


def pages_of(run: Run, source: Source, index: CrawlIndex, listed: Mapping[str, Path]) -> Iterator[PageToMap]:
    """The pages of a source that may yield items, in their order; those `listed` from the table that was made when its
    listing pages were read.
    """
    if source.name not in listed:
        yield from pages_to_map(stored_pages(run.raw(source.name), index), source, run.declaration.language)
        return
    for rows in read_batches(listed[source.name], ["page"], rows=_LISTED_ROWS):
        yield from (_work(run, source, row) for row in rows.column(0).to_pylist())


def _stage_listed(run: Run, source: Source, index: CrawlIndex) -> Path:
    table, works = run.staging / f"listed-{source.name}.parquet", pages_of(run, source, index, {})
    schema = pa.schema([("page", pa.binary())])
    with TableWriter(table, schema, statistics=False) as writer:
        while rows := [_pickled(work) for work in islice(works, _LISTED_ROWS)]:
            writer.write(pa.Table.from_arrays([pa.array(rows, pa.binary())], schema=schema))
    return table


def _batches(works: Iterable[PageToMap]) -> Iterator[list[PageToMap]]:
    """Divides pages into batches. A page's key decides whether a batch ends with it, so that a page more or less
    changes few batches, not all that follow.
    """
    batch: list[PageToMap] = []
    for work in works:
        batch.append(work)
        is_end = len(batch) >= _LEAST_PAGES and int(work.key[:8], 16) % _LEAST_PAGES == 0
        if is_end or len(batch) == _MOST_PAGES:
            yield batch
            batch = []
    if batch:
        yield batch


def _pickled(work: PageToMap) -> bytes:
    """A page and its card, without its body and without the source, which may hold secrets."""
    return pickle.dumps((replace(work.stored.page, body=b""), work.stored.sha256, work.card))


def _part(run: Run, source: Source, keys: list[str]) -> Path:
    mapped_for = run.run_id if run.scope.full else ""  # of a run that maps everything anew, it alone
    return parts_folder(run) / f"{sha256(canonical_json([rules_of(run, source), mapped_for, keys]))}.parquet"


def map_batch(run: Run, batches: PageBatches, number: int) -> int:
    """Maps a batch, unless its part exists; returns the number of its pages."""
    source, keys, rows = _read_batch(run, batches, number)
    part = _part(run, source, keys)
    if part.exists():
        return len(keys)
    first = _work(run, source, rows[0]).page.url
    name = f"batch {number} of {batches.count} of the pages to map: {len(rows)} of source '{source.name}', the first "
    with at_batch(run, f"{name}{first}"):
        # not by process id, of which two machines may have the same
        staged = run.staging / f"part-{secrets.token_hex(8)}.parquet"
        with MappedWriter(staged, rules_of(run, source)) as writer:
            for row in rows:
                work = _work(run, source, row)
                for mapped in map_page(run, source, work):
                    if mapped.whole:
                        writer.add(work.key, mapped)
        move(staged, part)
    log.info("mapped", kb=run.kb, source=source.name, batch=number, of=batches.count, pages=len(keys))
    return len(keys)


def _work(run: Run, source: Source, pickled: bytes) -> PageToMap:
    page, digest, card = pickle.loads(pickled)
    return page_to_map(
        StoredPage(page, digest, partial(run.raw(source.name).body, digest)), source, run.declaration.language, card
    )


def _read_batch(run: Run, batches: PageBatches, number: int) -> tuple[Source, list[str], list[bytes]]:
    rows = read_group(batches.table, number - 1).to_pydict()
    source = next(source for source in run.declaration.sources if source.name == rows["source"][0])
    return source, rows["key"], rows["page"]


class MappedParts:
    """The pages of a source that workers have mapped, asked for in their order. One part is open at a time."""

    def __init__(self, run: Run, source: Source, batches: PageBatches) -> None:
        self._waiting = self._parts(run, source, batches)
        self._keys: frozenset[str] = frozenset()
        self._part: MappedPages | None = None

    def holding(self, key: str) -> MappedPages | None:
        """The part that a page belongs to; None where it belongs to none."""
        while key not in self._keys and (following := next(self._waiting, None)) is not None:
            self._keys, self._part = following
        return self._part if key in self._keys else None

    def _parts(self, run: Run, source: Source, batches: PageBatches) -> Iterator[tuple[frozenset[str], MappedPages]]:
        with open_table(batches.table) as file:
            for number in range(batches.count):
                rows = file.read_row_group(number, columns=["source", "key"]).to_pydict()
                if rows["source"][0] == source.name:
                    yield frozenset(rows["key"]), MappedPages(_part(run, source, rows["key"]), rules_of(run, source))
