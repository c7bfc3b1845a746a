"""Pages of a site that are mapped while the crawl waits for others.

A crawl keeps one core busy, and mostly waits. The run, which waits for it, maps meanwhile what has arrived, as the step
`map_pages` would. When the crawl ends, that becomes a part (page_batches.py), where the step looks for it, and so does
the next run, if this one is cut off. What is not mapped by then, or changes until then, is mapped as ever.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice

import numpy as np

from almanac.core.durable import move, remove
from almanac.core.logs import get_logger
from almanac.flows.pipeline.page_batches import (
    ahead_table,
    known_pages,
    map_page,
    mapped_ahead,
    parts_folder,
    rules_ahead,
)
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.mapping.pages import PageToMap, StoredPage, pages_to_map
from almanac.spiders.reading.bounded import close_reader
from almanac.spiders.reading.linked_types import type_of_headers
from almanac.spiders.store.journal import Arrivals, Entry
from almanac.transforms.mapped import MappedWriter

log = get_logger("almanac.map")
_LARGEST = 1_000_000  # bytes of a page: a megabyte takes a second, in which nothing is told of the crawl
# of a key, by which a page is known as done: of a million pages, one in twenty is taken for another, and left to the
# step
_DIGITS = 6


@contextmanager
def mapping_ahead(run: Run, source: SiteSource) -> Iterator["MappingAhead"]:
    """Yields what maps pages of the running crawl of a source.

    It maps no large pages, no documents, whose titles are what links call them, and no pages that are mapped by what
    listings say: both are known when all have arrived. It maps none either where parts of a run that was cut off are
    left, which have most of the pages. What fails here, fails no run.
    """
    ahead = MappingAhead(run, source)
    try:
        yield ahead
        ahead.keep()
    finally:
        ahead.close()


class MappingAhead:
    """Maps one page after the other."""

    def __init__(self, run: Run, source: SiteSource) -> None:
        self._run, self._source = run, source
        self._raw = run.raw(source.name)
        self._known = known_pages(run, source)
        self._arrivals = Arrivals(self._raw.journal_path(run.run_id))
        self._works: Iterator[PageToMap] = iter(())
        self._is_done = np.zeros(16**_DIGITS, np.bool_)
        self._staged = run.staging / f"ahead-{source.name}.parquet"
        self._open = ExitStack()
        self._writer: MappedWriter | None = None
        self._pages = 0
        # Those of this run's other sources are no sign of one that was cut off.
        others = {ahead_table(run, other) for other in run.declaration.sources if other.name != source.name}
        are_left = any(
            part not in others for part in parts_folder(run).glob("*.parquet") if part != ahead_table(run, source)
        )
        self._is_over = source.listing is not None or are_left or mapped_ahead(run, source).rows > 0

    def map_one(self) -> bool:
        """Maps the next page that has arrived; returns whether there was one."""
        if self._is_over:
            return False
        try:
            work = next(self._works, None) or next(self._arrived(), None)
            if (
                work is not None
                and not self._known.knows(work.key)
                and not self._is_done[place := int(work.key[:_DIGITS], 16)]
            ):
                self._is_done[place] = True
                mapped, *more = islice(map_page(self._run, self._source, work), 2)
                # a file of so many rows that they come in batches is left to the step: each of them may turn out to be
                # damaged
                if mapped.whole and not more:
                    self._writer = self._writer or self._open.enter_context(
                        MappedWriter(self._staged, rules_ahead(self._run, self._source))
                    )
                    self._writer.add(work.key, mapped)
                    self._pages += 1
        except Exception as error:
            self._give_up(error)
            return False
        return work is not None

    def keep(self) -> None:
        """Puts what was mapped where the step looks for it."""
        try:
            self._open.close()
            if self._pages:
                move(self._staged, ahead_table(self._run, self._source))
                log.info("mapped while pages arrived", kb=self._run.kb, source=self._source.name, pages=self._pages)
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """Ends what reads documents, and discards what was not kept."""
        self._discard(InterruptedError())
        close_reader()

    def _give_up(self, error: Exception) -> None:
        """Leaves all pages to the step, which tells what is wrong with one of them, or with the disk."""
        self._is_over = True
        log.warning(
            "pages are mapped when all have arrived",
            kb=self._run.kb,
            source=self._source.name,
            reason=str(error) or type(error).__name__,
        )
        self._discard(error)

    def _discard(self, error: Exception) -> None:
        self._pages = 0
        with suppress(Exception):  # a full disk raises once more
            self._open.__exit__(type(error), error, error.__traceback__)
            if self._staged.exists():
                remove(self._staged, synced=False)

    def _arrived(self) -> Iterator[PageToMap]:
        entries = (
            entry
            for entry in self._arrivals.new()
            if not entry.links_only and entry.size <= _LARGEST and not _is_document(entry)
        )
        stored = (StoredPage(entry.page(b""), entry.sha256, partial(self._raw.body, entry.sha256)) for entry in entries)
        self._works = pages_to_map(stored, self._source, self._run.declaration.language)
        return self._works


def _is_document(entry: Entry) -> bool:
    return bool(entry.file_name) or type_of_headers(entry.content_type, entry.url) is not None
