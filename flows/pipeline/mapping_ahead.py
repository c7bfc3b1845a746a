"""Pages of a site that are mapped while the crawl waits for others.

A crawl keeps one core busy, and mostly waits. The run, which waits for it, maps meanwhile what has arrived, as the step `map_pages` would, and leaves it in its
staging folder, where that step looks for it. What is not mapped when the crawl ends, or changes until then, is mapped as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice

import structlog

from almanac.core.durable import remove
from almanac.flows.pipeline.page_batches import ahead_table, known_pages, map_page, parts_folder, rules_of
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.mapping.pages import PageToMap, StoredPage, pages_to_map
from almanac.spiders.reading.bounded import close_reader
from almanac.spiders.reading.linked_types import type_of_headers
from almanac.spiders.store.journal import Arrivals, Entry
from almanac.transforms.mapped import MappedWriter

log = structlog.get_logger("almanac.map")


@contextmanager
def mapping_ahead(run: Run, source: SiteSource) -> Iterator["MappingAhead"]:
    """Yields what maps pages of the running crawl of a source.

    It maps no documents, whose titles are what links call them, and no pages that are mapped by what listings say: both is known when all have arrived. It maps
    none either where parts of a run that was cut off are left, which have most of the pages.
    """
    with MappedWriter(ahead_table(run, source), rules_of(run, source)) as writer:
        ahead = MappingAhead(run, source, writer)
        try:
            yield ahead
        finally:
            close_reader()
    if ahead.has_failed:
        remove(ahead_table(run, source))
    elif ahead.pages:
        log.info("mapped while pages arrived", kb=run.kb, source=source.name, pages=ahead.pages)


class MappingAhead:
    """Maps one page after the other."""

    def __init__(self, run: Run, source: SiteSource, writer: MappedWriter) -> None:
        self._run, self._source, self._writer = run, source, writer
        self._raw = run.raw(source.name)
        self._known = known_pages(run, source)
        self._arrivals = Arrivals(self._raw.journal_path(run.run_id))
        self._works: Iterator[PageToMap] = iter(())
        self._done: set[str] = set()
        self.has_failed = False
        self._is_over = source.listing is not None or any(parts_folder(run).glob("*.parquet"))

    @property
    def pages(self) -> int:
        """How many it has mapped."""
        return len(self._done)

    def map_one(self) -> bool:
        """Maps the next page that has arrived; returns whether there was one."""
        if self._is_over:
            return False
        try:
            work = next(self._works, None) or next(self._arrived(), None)
            if work is not None and work.key not in self._done and not self._known.knows(work.key):
                self._done.add(work.key)
                mapped, *more = islice(map_page(self._run, self._source, work), 2)
                if mapped.whole and not more:  # a file of so many rows that they come in batches is left to the step: each of them may turn out to be damaged
                    self._writer.add(work.key, mapped)
        except Exception:  # what is wrong with the page, or with the disk, is told by the step that maps it
            self.has_failed = self._is_over = True
            return False
        return work is not None

    def _arrived(self) -> Iterator[PageToMap]:
        entries = (entry for entry in self._arrivals.new() if not entry.links_only and not _is_document(entry))
        stored = (StoredPage(entry.page(b""), entry.sha256, partial(self._raw.body, entry.sha256)) for entry in entries)
        self._works = pages_to_map(stored, self._source, self._run.declaration.language)
        return self._works


def _is_document(entry: Entry) -> bool:
    return bool(entry.file_name) or type_of_headers(entry.content_type, entry.url) is not None
