"""The child process of a crawl: `python -m almanac.spiders.crawling.crawl_process`, with the job on stdin.

A process per crawl, because Twisted's reactor cannot be started twice. Progress goes to stdout as JSON lines, warnings
to stderr, the outcome to the stats file that the job names. Scrapy exits with 0 on most failures, so a crawl without a
stats file counts as failed.
"""

import json
import sys
import time

from scrapy.crawler import AsyncCrawlerProcess

from almanac.core.durable import write_file
from almanac.core.lifetime import job_of_parent
from almanac.schemas.declaration.secret_parameters import SecretParameters
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import StorageError
from almanac.spiders.crawling.chromium import DOES_NOT_START
from almanac.spiders.crawling.crawl_job import NO_BROWSER, NOT_LOGGED_IN, STORAGE_FAILED, Job
from almanac.spiders.crawling.crawl_settings import settings_for
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.site_spider import SiteSpider
from almanac.spiders.crawling.stats import read_stats
from almanac.spiders.store.journal import Head
from almanac.spiders.store.raw import RawStore

_PROGRESS_EVERY_S = 0.2


class Progress:
    """Writes `{done, queued}` JSON lines to stdout, at most five per second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, done: int, queued: int) -> None:
        if time.monotonic() >= self._next or not queued:
            self._next = time.monotonic() + _PROGRESS_EVERY_S
            sys.stdout.write(json.dumps({"done": done, "queued": queued}) + "\n")
            sys.stdout.flush()


def crawl(job: Job) -> int:
    """Runs the job's crawl, and writes the stats file if it was not stopped from outside. Returns the exit code."""
    source = SiteSource.model_validate(job.source)
    source.ask_in(job.language)
    source.keep_secret(SecretParameters.from_revealed(job.secret_parameters))
    raw = RawStore(job.raw, job.below)
    head = Head(requester_fingerprint(source), job.fetching)
    pages = PreviousPages(raw, job.run_id, job.previous, head.requester)
    with raw.journal(job.run_id, head) as journal:
        process = AsyncCrawlerProcess(settings_for(source))
        crawler = process.create_crawler(SiteSpider)
        job_options = {"only": job.only, "forgotten": job.forgotten, "spares_starts": job.spares_starts}
        process.crawl(
            crawler,
            source=source,
            journal=journal,
            previous=pages,
            progress=Progress(),
            **job_options,
            shown_for_unknown=_shown_for_unknown(raw, job),
        )
        process.start()
    spider = crawler.spider
    if not isinstance(spider, SiteSpider):
        return 1
    if spider.fatal is not None:
        is_storage = isinstance(spider.fatal, StorageError)
        sys.stderr.write(f"{spider.fatal if is_storage else json.dumps(spider.fatal.as_json())}\n")
        return STORAGE_FAILED if is_storage else NOT_LOGGED_IN
    reason = crawler.stats.get_value("finish_reason") if crawler.stats else None
    if reason not in ("finished", "closespider_timeout"):
        sys.stderr.write(f"the crawl was stopped: {reason}\n")
        return NO_BROWSER if str(reason).startswith(DOES_NOT_START) else 1
    write_file(raw.stats_path(job.run_id), spider.finished(reason).model_dump_json(indent=1))
    return 0


def _shown_for_unknown(raw: RawStore, job: Job) -> dict[str, str]:
    stats = read_stats(raw, job.previous.concluded) if job.previous.concluded else None
    return {} if stats is None else stats.shown_for_unknown


if __name__ == "__main__":
    sys.exit(crawl(Job.model_validate_json(job_of_parent())))
