"""The job description sent to a crawl's process. Apart from that process, so that importing it does not load Scrapy."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from almanac.spiders.crawling.previous_crawls import PreviousCrawls

STORAGE_FAILED = 74  # exit code of a crawl that could not store its pages (EX_IOERR)
NOT_LOGGED_IN = 77  # exit code of a crawl that was not let in (EX_NOPERM); the error's JSON is the last line of stderr
NO_BROWSER = 69  # exit code of a crawl whose browser does not start (EX_UNAVAILABLE)


class Job(BaseModel):
    """What to crawl and where to store it.

    Attributes:
        source: the declared source as JSON, secrets revealed.
        language: the language of the knowledge base.
        secret_parameters: those of the source, revealed.
        raw: root of the raw store.
        below: root of the store that is read where `raw` lacks a file; None if there is none.
        fetching: fingerprint of the fetching rules.
        only: fetch just these URLs and follow no link; empty crawls the whole site.
        forgotten: URLs that are never requested.
        spares_starts: a start URL is a page, even if it shows what the site shows for a made-up URL.
    """

    source: dict[str, Any]
    language: str = "en"
    secret_parameters: dict[str, dict[str, str]] = {}
    raw: Path
    run_id: str
    below: Path | None = None
    previous: PreviousCrawls = PreviousCrawls()
    fetching: str = ""
    only: list[str] = []
    forgotten: list[str] = []
    spares_starts: bool = True
