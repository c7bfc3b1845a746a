"""Several sites of a knowledge base: crawled side by side where they have hosts of their own, and with the result that
one after another gives.
"""

import json
import os
import re
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import read_table
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.plan import survey
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.survey import Survey
from almanac.schemas.errors import Unreachable
from tests.processes import children_of
from tests.spiders.conftest import Answer, loopback_site
from tests.spiders.test_spiders_crawl import links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

__all__ = ["loopback_site"]
pytestmark = pytest.mark.slow
_PATIENCE_S = 30


class Two:
    """A knowledge base of two sources, `first` and `second`, of pages on one server that is called by two names."""

    def __init__(self, folder: Path, site: "Site") -> None:
        self.site, self.folder, self.data = site, folder, DataDir(folder / "data")
        for source in ("first", "second"):
            site.page(f"/{source}/", links(*(f"/{source}/{n}" for n in range(5))))
            for n in range(5):
                site.page(
                    f"/{source}/{n}",
                    f"<h1>{source} {n}</h1><p>What page {n} of the {source} source says is said by no other.</p>",
                )

    def survey(
        self,
        *,
        hosts: tuple[str, str] = ("127.0.0.1", "localhost"),
        paths: tuple[str, str] = ("/first/", "/second/"),
        crawls: int = 4,
    ) -> Survey:
        sources = [
            self._source(name, host, path) for name, host, path in zip(("first", "second"), hosts, paths, strict=True)
        ]
        declared = {"name": "kb", "sources": sources, "run": {"crawls": crawls}, "validate": {"max_rejected": 1}}
        (self.folder / "kb.yaml").write_text(json.dumps(declared))
        return survey(Ledger(Run(load_declaration(str(self.folder / "kb.yaml"), ""), self.data)))

    def _source(self, name: str, host: str, path: str) -> dict[str, Any]:
        start = self.site.base.replace("127.0.0.1", host) + path
        manners = {"allow_private": True, "robots": False, "delay_s": 0}
        return {
            "name": name,
            "kind": "site",
            "start_urls": [start],
            "match": "/[0-9]$",
            "yields": "documents",
            "body": "all",
            "politeness": manners,
        }

    def count_requests(self, path: str) -> int:
        return sum(count for url_path, count in self.site.requests.items() if re.fullmatch(f"{path}[0-9]?", url_path))

    def first_waits(self, until_second: Event) -> list[bool]:
        """Lets the last page of the first source wait for the second source; whether that came is noted in the list."""
        came: list[bool] = []

        def answer(path: str) -> Answer:
            if path == "/first/4":
                came.append(until_second.wait(_PATIENCE_S))
            elif path == "/second/0":
                until_second.set()
            return pages.get(path, Answer(status=404))

        pages = {path: self.site.answers.pop(path) for path in ("/first/4", "/second/0")}
        self.site.otherwise = answer
        return came


@pytest.fixture
def two(tmp_path: Path, loopback_site: "Site") -> Two:
    return Two(tmp_path, loopback_site)


def _items(surveyed: Survey) -> list[tuple[str, str]]:
    assert surveyed.items is not None
    table = read_table(surveyed.items.table, ["source", "url"])
    return list(
        zip(
            table.column("source").to_pylist(),
            (url.rpartition("/")[2] for url in table.column("url").to_pylist()),
            strict=True,
        )
    )


def test_sites_of_different_hosts_are_crawled_side_by_side_and_keep_their_order(two: Two) -> None:
    came = two.first_waits(Event())
    surveyed = two.survey()
    assert came == [True]
    assert [pages.source for pages in surveyed.pages] == ["first", "second"]
    assert _items(surveyed) == [(source, str(n)) for source in ("first", "second") for n in range(5)]
    assert max(two.site.requests.values()) == 1


@pytest.mark.parametrize("differently", [{"crawls": 1}, {"hosts": ("127.0.0.1", "127.0.0.1")}])
def test_one_after_another_where_so_declared_and_where_they_share_a_host(two: Two, differently: dict[str, Any]) -> None:
    two.site.page("/first/4", "<p>The last page of the first source takes its time.</p>", delay_s=2.5)
    seen: list[int] = []
    page = two.site.answers.pop("/second/0")

    def answer(path: str) -> Answer:
        if path != "/second/0":
            return Answer(status=404)
        seen.append(two.count_requests("/first/"))
        return page

    two.site.otherwise = answer
    surveyed = two.survey(**differently)
    assert len(_items(surveyed)) == 10
    assert seen == [6]
    assert two.count_requests("/second/") == 6


def test_a_site_that_cannot_be_reached_ends_the_crawl_beside_it_and_the_next_run_goes_on_from_there(two: Two) -> None:
    for n in range(5):
        two.site.page(f"/second/{n}", f"<p>What page {n} says comes late, and is said by no other.</p>", delay_s=0.2)
    two.site.page("/gone/", "", status=500, delay_s=1.5)
    before = set(children_of(os.getpid()))
    with pytest.raises(Unreachable, match="first"):
        two.survey(paths=("/gone/", "/second/"))
    assert set(children_of(os.getpid())) <= before
    surveyed = two.survey()
    assert len(_items(surveyed)) == 10
    assert two.count_requests("/second/") <= 12


def test_what_is_wrong_with_a_site_is_told_when_it_is_its_turn(two: Two) -> None:
    two.site.page("/second/", "", status=503)
    with pytest.raises(Unreachable, match="second"):
        two.survey()
    assert two.count_requests("/first/") == 6
