"""What a crawl's process is told. Apart from that process, so that whoever starts one need not load Scrapy."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from almanac.spiders.crawling.previous_crawls import PreviousCrawls

STORAGE_FAILED = 74  # the exit code that says so: EX_IOERR


class Job(BaseModel):
    """What to crawl, and where its pages go. `below` is the store that is read where `raw` has nothing, `fetching` the fingerprint of what
    was declared for fetching. With `only`, these URLs are fetched and no link is followed; `forgotten` ones are never asked for."""

    source: dict[str, Any]
    raw: Path
    run_id: str
    below: Path | None = None
    previous: PreviousCrawls = PreviousCrawls()
    fetching: str = ""
    only: list[str] = []
    forgotten: list[str] = []
