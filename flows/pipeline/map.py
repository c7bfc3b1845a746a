"""Step: the stored pages of all sources as one table of items. A page that did not change, read by rules that did not change, is not read again."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from almanac.core.durable import move, remove, write_file
from almanac.core.progress import OnProgress, ignore
from almanac.flows.pipeline.fingerprints import cleaning_of, mapping_of
from almanac.flows.pipeline.handles import Duplicates, Items, MappedSource, Pages, Rejects
from almanac.flows.pipeline.run import Run
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.schemas.declaration.source import Source
from almanac.schemas.items import Item, Reject
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import PageToMap, pages_to_map, stored_pages
from almanac.spiders.store.journal import CrawlIndex
from almanac.transforms.assemble import write_items
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.mapped import Mapped, MappedPages, MappedWriter, clean_extraction

_Found = TypeVar("_Found", Item, Reject)


def map_pages(run: Run, pages: tuple[Pages, ...], on_page: OnProgress = ignore) -> Items:
    """Raw pages → items, cleaned and de-duplicated, in the order of the sources and of their pages; what cannot be an item becomes a reject.

    Raises NoRecords where a source's pages give no item at all, or a required field is found on none of them.
    """
    mapper = _ItemMapper(run, {one.source: one for one in pages})
    table = run.staging / "items.parquet"
    write_items(table, mapper.items(on_page))
    mapper.keep()
    return mapper.handle(table)


class _ItemMapper:
    """Walks through the sources once. What became of each page is staged, and kept for the next run when `keep` is called."""

    def __init__(self, run: Run, pages: dict[str, Pages]) -> None:
        self._run = run
        self._pages = pages
        self._forgotten = forgotten_urls(run.index_dir)
        self._right: dict[tuple[str, str], str] = {}
        self._redirects: list[tuple[str, str, str]] = []
        self._staged: dict[Path, Path] = {}
        self._deduplication = Deduplication(lambda item: self._right.get((item.source, item.url)))
        self._sources: list[MappedSource] = []
        self._rejects: list[Reject] = []
        self._forgotten_items = 0
        self._is_whole = True

    def items(self, on_page: OnProgress) -> Iterator[Item]:
        """The items of the run, each once, in the order of the sources and of their pages."""
        yield from self._deduplication.kept(item for source in self._run.declaration.sources for item in self._mapped(source, on_page))

    def keep(self) -> None:
        """Puts what was staged where the next run looks for it, and removes what belongs to sources that are no more."""
        if self._run.is_plan:
            return
        for staged, place in self._staged.items():
            move(staged, place)
        named = {_table_of(self._run, source) for source in self._run.declaration.sources}
        for path in self._run.processed.glob("mapped/*.parquet"):
            if path not in named:
                remove(path)

    def handle(self, table: Path) -> Items:
        """What was found, once `items` has been walked through."""
        redirects = self._run.staging / "redirects.json" if self._redirects else None
        if redirects is not None:
            write_file(redirects, json.dumps(self._redirects), synced=False)
        return Items(
            table=table,
            sources=tuple(self._sources),
            found=sum(one.found - one.without_text for one in self._sources) - self._forgotten_items,
            duplicates=Duplicates.write(self._run.staging / "duplicates.jsonl", self._deduplication.duplicates),
            rejects=Rejects.write(self._run.staging / "rejects-map.jsonl", [*self._rejects, *self._deduplication.rejects]),
            redirects=redirects,
            is_whole=self._is_whole,
        )

    def _mapped(self, source: Source, on_page: OnProgress) -> Iterator[Item]:
        raw, pages = self._run.raw(source.name), self._pages[source.name]
        index = raw.index(pages.crawl)
        self._right |= {(source.name, url): right for url, right in index.right_addresses.items()}
        self._redirects += [(source.name, url, to) for url, to in _redirects(index)]
        matched: Counter[str] = Counter()
        found = without_text = 0
        works = pages_to_map(stored_pages(raw, pages.crawl), source, self._run.declaration.language)
        for number, batch in enumerate(self._batches(source, works), start=1):
            found += batch.found
            without_text += batch.without_text
            self._rejects += self._not_forgotten(batch.rejects)
            matched.update(batch.matched)
            on_page(number, len(index.urls))
            yield from self._not_forgotten(batch.items)
        require_matches(source, matched, found, pages.counts.present, raw.pages(pages.crawl), unfollowed=pages.unfollowed)
        self._sources.append(MappedSource(source.name, found, without_text))

    def _batches(self, source: Source, works: Iterable[PageToMap]) -> Iterator[Mapped]:
        """What each page yields. The table is only written anew where a page was read, or one is no more."""
        run = self._run
        place, staged = _table_of(run, source), run.staging / f"mapped-{source.name}.parquet"
        stages = f"{mapping_of(source, run.declaration.language)} {cleaning_of(run.declaration)}"
        known = MappedPages(place, "" if run.scope.full else stages)
        read = 0
        with MappedWriter(staged, stages) as writer:
            for work in works:
                read += not known.knows(work.key)
                fresh = partial(self._read, work, source)
                for batch in known.batches(work.key, work.page.fetched_at, fresh):
                    if batch.whole:
                        writer.add(work.key, batch)
                    self._is_whole &= batch.whole
                    yield batch
        if read or writer.rows != known.rows:
            self._staged[staged] = place

    def _read(self, work: PageToMap, source: Source) -> Iterator[Mapped]:
        for extraction in work.read():
            yield clean_extraction(extraction, source, self._run.declaration.clean)

    def _not_forgotten(self, found: Iterable[_Found]) -> list[_Found]:
        """A takedown holds for what a file says, too, as long as the file does."""
        found = list(found)
        left = [one for one in found if one.url not in self._forgotten and one.url.partition("#")[0] not in self._forgotten]
        self._forgotten_items += len(found) - len(left)
        return left


def _redirects(index: CrawlIndex) -> Iterator[tuple[str, str]]:
    """URLs that led to another one, and which."""
    for entry in index.in_order():
        for url in {entry.requested_url, *entry.redirects, *index.aliases(entry)} - {entry.url}:
            yield url, entry.url


def _table_of(run: Run, source: Source) -> Path:
    return run.processed / "mapped" / f"{source.name}.parquet"
