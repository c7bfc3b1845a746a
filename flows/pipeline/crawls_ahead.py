"""Crawls that run beside the one that the run waits for. Sources are concluded in their order all the same, so that
results do not depend on who is first.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress
from almanac.flows.pipeline.acquire import begin_fetching
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import AlmanacError
from almanac.schemas.manifest import Manifest
from almanac.spiders.crawling.crawl import RunningCrawl
from almanac.spiders.selecting.urls import is_on_domains

log = get_logger("almanac.acquire")


class CrawlsAhead:
    """The running crawls of a run: up to `run.crawls`, no two with the same host among their own, since pace is kept
    for each crawl by itself.
    """

    def __init__(self, run: Run, live: Manifest | None) -> None:
        self._run, self._live = run, live
        self._waiting = [source for source in run.declaration.sources if isinstance(source, SiteSource)]
        self._begun: dict[str, tuple[SiteSource, RunningCrawl]] = {}

    def take(self, source: Source) -> RunningCrawl | None:
        """The crawl of a source, once it was begun; None where it was not, and is to be begun by whoever asks. Each is
        given away once.
        """
        if source in self._waiting:
            self._waiting.remove(source)
        return self._begun.pop(source.name)[1] if source.name in self._begun else None

    def on_progress_of(self, source: Source, on_page: OnProgress) -> OnProgress:
        """The progress callback of a crawl of `source` that also begins others while there is room."""

        def begin_and_tell(done: int, total: int) -> None:
            self._begin(source)
            on_page(done, total)

        return begin_and_tell

    def _begin(self, current: Source) -> None:
        for source in list(self._waiting):
            running = [current, *(other for other, crawl in self._begun.values() if crawl.is_running)]
            if len(running) >= self._run.declaration.run.crawls:
                return
            if any(_share_a_host(source, other) for other in running):
                continue
            self._waiting.remove(source)
            try:
                crawl = begin_fetching(self._run, source, self._live)
            except (AlmanacError, OSError):  # raised again when it is the source's turn, unless it can begin then
                continue
            if crawl is not None:
                self._begun[source.name] = source, crawl
                log.info("crawled beside", kb=self._run.kb, source=source.name, beside=current.name)

    def close(self) -> None:
        with ExitStack() as stack:  # each of them, also where one cannot be stopped
            for _, crawl in self._begun.values():
                stack.callback(crawl.stop)


@contextmanager
def crawls_ahead(run: Run, live: Manifest | None) -> Iterator[CrawlsAhead]:
    """Yields the crawls of a run; those that nobody has taken are stopped when the block ends, even by an exception."""
    crawls = CrawlsAhead(run, live)
    try:
        yield crawls
    finally:
        crawls.close()


def _share_a_host(source: Source, other: Source) -> bool:
    if not (isinstance(source, SiteSource) and isinstance(other, SiteSource)):
        return False
    return any(is_on_domains(_url(host), other.domains) for host in source.domains) or any(
        is_on_domains(_url(host), source.domains) for host in other.domains
    )


def _url(host: str) -> str:
    return f"https://[{host}]/" if ":" in host else f"https://{host}/"
