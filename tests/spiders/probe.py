"""Asks for URLs with the settings of a declared source, in a process of its own: `python -m tests.spiders.probe
JOBFILE`.

A spider without a policy of its own: what becomes of each request is the settings' and the middlewares' doing. Prints
one JSON object for each URL: {url, status, final, reason, detail}. `public` names loopback addresses that are taken for
public ones, for a test machine has no others.
"""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from twisted.python.failure import Failure

from almanac.schemas.declaration.private_hosts import private_kind
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling import addresses
from almanac.spiders.crawling.crawl_settings import settings_for
from almanac.spiders.selecting.urls import is_on_domains


class Probe(scrapy.Spider):
    name = "probe"

    def __init__(self, source: SiteSource, urls: list[str], **keys: Any) -> None:
        super().__init__(**keys)
        self.source = source
        self.urls = urls

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls:
            yield scrapy.Request(
                url, callback=self.arrive, errback=self.fail, dont_filter=True, cb_kwargs={"requested_url": url}
            )

    def refusal_of(self, url: str) -> str | None:
        return None if is_on_domains(url, self.source.domains) else "off_site"

    def claim(self, url: str, way: list[str]) -> bool:  # noqa: ARG002  as the site spider has it
        return True

    def arrive(self, response: Response, requested_url: str) -> None:
        _print_facts(url=requested_url, status=response.status, final=response.url)

    def fail(self, failure: Failure) -> None:
        error: Any = failure.value
        reason = error.reason if hasattr(error, "reason") else type(error).__name__
        # Scrapy puts it there
        _print_facts(url=failure.request.cb_kwargs["requested_url"], reason=reason, detail=str(error))  # type: ignore[attr-defined]


def _print_facts(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _main(job: dict[str, Any]) -> None:
    source = SiteSource.model_validate(
        {**job["source"], "politeness": {**job["source"].get("politeness", {}), "allow_private": True}}
    )
    manners = source.politeness.model_copy(
        update={"allow_private": job["source"].get("politeness", {}).get("allow_private", True)}
    )
    source = source.model_copy(update={"politeness": manners})  # a literal address would have been an error before
    vars(addresses)["private_kind"] = lambda address: None if address in job["public"] else private_kind(address)
    process = AsyncCrawlerProcess(settings_for(source) | job.get("settings", {}))
    process.crawl(Probe, source=source, urls=job["urls"])
    process.start()


if __name__ == "__main__":
    _main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
