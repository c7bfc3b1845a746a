"""From the stored pages of all sources to one stream of items: mapped, or taken as they were where page and rules did not change."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from almanac.core.durable import move, remove
from almanac.core.fingerprints import cleaning_of, mapping_of
from almanac.flows.pipeline.run import OnProgress, Run
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.schemas.declaration.source import Source
from almanac.schemas.items import Item, Reject
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import PageWork, stored_pages, works_of
from almanac.spiders.store.journal import CrawlIndex
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.mapped import Mapped, MappedPages, MappedWriter, clean_extraction

_Found = TypeVar("_Found", Item, Reject)


class Gathering:
    """Walks through the sources once. What became of each page is staged, and kept for the next run when `keep` is called."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._forgotten = forgotten_urls(run.index_dir)
        self._right: dict[tuple[str, str], str] = {}
        self._staged: dict[Path, Path] = {}
        self._deduplication = Deduplication(lambda item: self._right.get((item.source, item.url)))

    def items(self, on_page: OnProgress) -> Iterator[Item]:
        """The items of the run, each once, in the order of the sources and of their pages."""
        yield from self._deduplication.kept(item for source in self._run.declaration.sources for item in self._mapped(source, on_page))
        self._run.rejects += self._deduplication.rejects
        self._run.report.items.deduplicated = self._deduplication.duplicates

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

    def _mapped(self, source: Source, on_page: OnProgress) -> Iterator[Item]:
        run = self._run
        raw, outcome = run.raw(source.name), run.outcome_of(source.name)
        index = raw.index(outcome.crawl)
        self._right |= {(source.name, url): right for url, right in index.right_addresses.items()}
        run.led_to |= {(source.name, url): to for url, to in _redirects(index)}
        matched: Counter[str] = Counter()
        found = 0
        works = works_of(stored_pages(raw, outcome.crawl), source, run.declaration.language)
        for number, batch in enumerate(self._batches(source, works), start=1):
            found += batch.found
            outcome.without_text += batch.without_text
            run.report.items.in_ += batch.found - batch.without_text
            run.rejects += self._not_forgotten(batch.rejects)
            matched.update(batch.matched)
            on_page(number, len(index.urls))
            yield from self._not_forgotten(batch.items)
        require_matches(source, matched, found, outcome.pages.present, raw.pages(outcome.crawl))

    def _batches(self, source: Source, works: Iterable[PageWork]) -> Iterator[Mapped]:
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
                    else:
                        run.report.inputs = ""  # of this run's pages nobody may conclude that nothing changed
                    yield batch
        if read or writer.rows != known.rows:
            self._staged[staged] = place

    def _read(self, work: PageWork, source: Source) -> Iterator[Mapped]:
        for extraction in work.read():
            yield clean_extraction(extraction, source, self._run.declaration.clean)

    def _not_forgotten(self, found: Iterable[_Found]) -> list[_Found]:
        """A takedown holds for what a file says, too, as long as the file does."""
        found = list(found)
        left = [one for one in found if one.url not in self._forgotten and one.url.partition("#")[0] not in self._forgotten]
        self._run.report.items.in_ -= len(found) - len(left)
        return left


def _redirects(index: CrawlIndex) -> Iterator[tuple[str, str]]:
    """URLs that led to another one, and which."""
    for entry in index.in_order():
        for url in {entry.requested_url, *entry.redirects, *index.aliases(entry)} - {entry.url}:
            yield url, entry.url


def _table_of(run: Run, source: Source) -> Path:
    return run.processed / "mapped" / f"{source.name}.parquet"
