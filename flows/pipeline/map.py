"""Step: the stored pages of all sources as one table of items. A page that did not change, read by rules that did not
change, is not read again.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from almanac.core.durable import move, remove, write_file
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.flows.pipeline.handles import Duplicates, Items, MappedSource, PageBatches, Pages, Rejects
from almanac.flows.pipeline.page_batches import (
    MappedParts,
    known_pages,
    map_page,
    mapped_table,
    pages_of,
    remove_parts,
    rules_of,
)
from almanac.flows.pipeline.run import Run
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.schemas.crawl_outcome import DECLARE_BODY, TEXTS_REPORTED, SourceTexts
from almanac.schemas.declaration.source import Source
from almanac.schemas.errors import ManyDefects, NoRecords
from almanac.schemas.items import Item, Reject
from almanac.schemas.left_out import CURES, LeftOut
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import PageToMap
from almanac.spiders.reading.bounded import close_reader
from almanac.transforms.assemble import write_items
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.main_texts import MainTexts, WholeRead
from almanac.transforms.mapped_pages import Mapped, MappedPages, MappedWriter, staged_batches
from almanac.transforms.prepare import with_length

MAP_REJECTS = "rejects-map.jsonl"
log = get_logger("almanac.map")
_FEW = 0.01  # share of a source's pages
_Extracted = TypeVar("_Extracted", Item, Reject, WholeRead)


def map_pages(
    run: Run, pages: tuple[Pages, ...], on_page: OnProgress = ignore, batches: PageBatches | None = None
) -> Items:
    """Raw pages → items, cleaned and de-duplicated, in the order of the sources and of their pages; what cannot be an
    item becomes a reject.

    Pages of `batches` that workers have mapped are read from their parts.
    Raises NoRecords where a source's pages give no item at all, or a required field is found on none of them, and
    ManyDefects; the rejects until then are in MAP_REJECTS.
    """
    mapper = _ItemMapper(run, {page.source: page for page in pages}, batches)
    table = run.staging / "items.parquet"
    try:
        write_items(table, mapper.items(on_page))
    except (NoRecords, ManyDefects):
        mapper.write_rejects()  # for the report
        raise
    finally:
        close_reader()
    mapper.keep()
    return mapper.handle(table)


def _require_few(defects: dict[str, str], pages: int) -> None:
    """Raises ManyDefects where more than a page, and more than a hundredth of the pages, failed by a defect: what is
    left would pass for the whole.
    """
    if len(defects) > max(1, pages * _FEW):
        url, reason = next(iter(defects.items()))
        hint = (
            "please report it with the traceback above; until it is mended, `match` or `follow.deny` leaves such "
            "pages out"
        )
        raise ManyDefects(f"{len(defects)} of {pages} pages failed; the first: {reason}", where=url, hint=hint)


class _ItemMapper:
    """Walks through the sources once. What became of each page is staged, and kept for the next run when `keep` is
    called.
    """

    def __init__(self, run: Run, pages: dict[str, Pages], batches: PageBatches | None) -> None:
        self._run = run
        self._pages = pages
        self._page_batches = batches
        self._forgotten = forgotten_urls(run.index_dir)
        self._right: dict[tuple[str, str], str] = {}
        self._redirects: list[tuple[str, str, str]] = []
        self._staged: dict[Path, Path] = {}
        workspace = run.declaration.retrieve.workspace
        self._workspace = None if workspace is None else workspace.field
        self._deduplication = Deduplication(lambda item: self._right.get((item.source, item.url)), self._workspace)
        self._sources: list[MappedSource] = []
        self._rejects: list[Reject] = []
        self._forgotten_items = 0
        self._is_whole = True

    def items(self, on_page: OnProgress) -> Iterator[Item]:
        """The items of the run, each once, in the order of the sources and of their pages."""
        yield from self._deduplication.keep_first(
            item
            for source in self._run.declaration.sources
            for item in with_length(self._mapped(source, on_page), source)
        )

    def keep(self) -> None:
        """Puts what was staged where the next run looks for it, and removes what belongs to sources that are no
        more.
        """
        if self._run.is_plan:
            return
        for staged, place in self._staged.items():
            move(staged, place)
        named = {mapped_table(self._run, source) for source in self._run.declaration.sources}
        for path in self._run.processed.glob("mapped/*.parquet"):
            if path not in named:
                remove(path)
        remove_parts(self._run)

    def handle(self, table: Path) -> Items:
        """What was found, once `items` has been walked through."""
        for mapped_source in self._sources:
            equal = self._deduplication.left_out.get(mapped_source.source, LeftOut())
            mapped_source.texts.left_out.add_all(equal)
            mapped_source.texts.characters -= sum(amount["characters"] for amount in equal.values())
        redirects = self._run.staging / "redirects.json" if self._redirects else None
        if redirects is not None:
            write_file(redirects, json.dumps(self._redirects), synced=False)
        return Items(
            table=table,
            sources=tuple(self._sources),
            extracted=sum(source.extracted - source.texts.without_text for source in self._sources)
            - self._forgotten_items,
            duplicates=Duplicates.write(self._run.staging / "duplicates.jsonl", self._deduplication.duplicates),
            rejects=self.write_rejects(),
            redirects=redirects,
            is_whole=self._is_whole,
        )

    def write_rejects(self) -> Rejects:
        """The rejects so far, in MAP_REJECTS."""
        return Rejects.write(self._run.staging / MAP_REJECTS, [*self._rejects, *self._deduplication.rejects])

    def _mapped(self, source: Source, on_page: OnProgress) -> Iterator[Item]:
        raw, pages = self._run.raw(source.name), self._pages[source.name]
        index = raw.index(pages.crawl)
        self._right |= {(source.name, url): right for url, right in index.right_addresses.items()}
        self._redirects += [(source.name, url, to) for url, to in index.ways_to_pages()]
        matched: Counter[str] = Counter()
        extracted, total = 0, len(index.urls)
        defects: dict[str, str] = {}
        texts, main = (
            SourceTexts(),
            MainTexts(self._workspace) if source.yields == "documents" and source.body == "main" else None,
        )
        works = pages_of(
            self._run, source, index, {} if self._page_batches is None else dict(self._page_batches.listed)
        )
        for number, batch in enumerate(self._batches(source, works), start=1):
            extracted += batch.extracted
            texts.without_text += batch.without_text
            texts.characters += batch.characters
            texts.left_out.add_all(batch.left_out)
            little = [url for url in batch.little if not self._is_forgotten(url)]
            texts.pages_with_little_kept += len(little)
            texts.little_kept += little[: TEXTS_REPORTED - len(texts.little_kept)]
            self._rejects += self._not_forgotten(batch.rejects)
            defects |= {reject.url.partition("#")[0]: reject.reason for reject in batch.rejects if reject.is_defect}
            matched.update(batch.matched)
            on_page(number, total)
            if main is None:
                yield from self._not_forgotten(batch.items)
            else:
                for item, side_blocks, edges in self._not_forgotten(batch.read()):
                    main.note(item, side_blocks, edges)
        _require_few(defects, total)
        unread = [reject for reject in self._rejects if reject.source == source.name and reject.stage == "read"]
        require_matches(
            source,
            matched,
            extracted,
            pages.counts.present,
            raw.pages(pages.crawl),
            unfollowed=pages.unfollowed,
            unread=unread,
        )
        if main is not None:
            yield from self._reduce_main_texts(source, main)
            texts.shared_texts, texts.pages_sharing_text = (
                main.shared_texts[:TEXTS_REPORTED],
                sum(text.pages for text in main.shared_texts),
            )
            texts.characters += main.given_back - sum(amount["characters"] for amount in main.left_out.values())
            texts.left_out.give_back(main.given_back, "prose_beside", "page_furniture")
            texts.left_out.add_all(main.left_out)
        self._sources.append(MappedSource(source.name, extracted, texts))
        self._warn(source, texts)

    def _reduce_main_texts(self, source: Source, main: MainTexts) -> Iterator[Item]:
        """The items of a source of main texts, which are only known once all of its pages are read; from the table that
        was staged meanwhile.
        """

        def pages() -> Iterator[WholeRead]:
            return (
                read
                for batch in staged_batches(self._staged_table(source))
                for read in batch.read()
                if not self._is_forgotten(read[0].url)
            )

        yield from main.reduce_items(
            pages, lambda item, url, document_id: self._deduplication.drop(item, "equal", url, document_id)
        )

    def _warn(self, source: Source, texts: SourceTexts) -> None:
        where = {"kb": self._run.kb, "source": source.name}
        if texts.shared_texts:
            first = texts.shared_texts[0]
            log.warning(
                "different pages have the same main text: each is kept, with the text that it alone has",
                **where, pages=texts.pages_sharing_text, texts=len(texts.shared_texts), most=first.pages,
                examples=first.urls, hint=DECLARE_BODY,
            )  # fmt: skip
        for reason, share in texts.left_out.much(texts.characters).items():
            log.warning(
                "much text is left out on purpose",
                **where,
                reason=reason,
                share=round(share, 3),
                **texts.left_out[reason],
                hint=CURES[reason],
            )
        if texts.pages_with_little_kept:
            log.warning(
                "of some pages extraction kept less than a tenth of what is no navigation",
                **where, pages=texts.pages_with_little_kept, examples=texts.little_kept[:2], hint=DECLARE_BODY,
            )  # fmt: skip

    def _batches(self, source: Source, works: Iterable[PageToMap]) -> Iterator[Mapped]:
        """What each page yields. The table is only written anew where a page was read, or one is no more."""
        run = self._run
        place, staged = mapped_table(run, source), self._staged_table(source)
        known = known_pages(run, source)
        parts = None if self._page_batches is None else MappedParts(run, source, self._page_batches)
        read = 0
        with MappedWriter(staged, rules_of(run, source)) as writer:
            for work in works:
                holding: MappedPages | None = known
                if not known.knows(work.key):
                    read += 1
                    holding = None if parts is None else parts.holding(work.key)
                fresh = partial(map_page, run, source, work)
                for batch in fresh() if holding is None else holding.batches(work.key, work.page.fetched_at, fresh):
                    if batch.whole:
                        writer.add(work.key, batch)
                    self._is_whole &= batch.whole
                    yield batch
        if read or writer.rows != known.rows:
            self._staged[staged] = place

    def _staged_table(self, source: Source) -> Path:
        return self._run.staging / f"mapped-{source.name}.parquet"

    def _not_forgotten(self, extracted: Iterable[_Extracted]) -> list[_Extracted]:
        """A takedown holds for what a file says, too, as long as the file does."""
        extracted = list(extracted)
        left = [
            entry
            for entry in extracted
            if not self._is_forgotten((entry[0] if isinstance(entry, tuple) else entry).url)
        ]
        self._forgotten_items += len(extracted) - len(left)
        return left

    def _is_forgotten(self, url: str) -> bool:
        return url in self._forgotten or url.partition("#")[0] in self._forgotten
