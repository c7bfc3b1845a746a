"""Runs under a clock that is wrong, is set right, or stands still: order is that of the journals."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, read_table
from almanac.flows.pipeline.acquire import acquire
from almanac.flows.pipeline.earlier_runs import last_run, newest_first
from almanac.flows.pipeline.run import Run
from almanac.flows.reporting.history import history_of
from almanac.index.versions.version_store import read_manifest
from almanac.spiders.store.journal import line_of, values_of
from almanac.spiders.store.raw import RawStore
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.proof.base import LONG
from tests.spiders.test_spiders_crawl import links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

pytestmark = pytest.mark.slow  # whole runs
# In the order of the runs; two in one second, the later with the smaller id.
FUTURE, RIGHT, SAME_SECOND, PAST = (
    "20310101T000000-aaaaaa",
    "20261122T030000-ffffff",
    "20261122T030000-000000",
    "19700101T000000-aaaaaa",
)
_ORDERS = [
    (FUTURE, RIGHT, SAME_SECOND, PAST),
    (PAST, FUTURE, RIGHT, SAME_SECOND),
    (RIGHT, SAME_SECOND, PAST, FUTURE),
]


class Clock:
    """A knowledge base of a site, refreshed at whatever time the clock shows."""

    def __init__(self, folder: Path, site: "Site") -> None:
        self.site = site
        self.declared = folder / "clocked.yaml"
        self.data = DataDir(folder / "data")
        self.raw = RawStore(self.data.raw("clocked", "pages"))
        self.declare()

    def declare(self, vanish_after: int = 2, crawls: int = 10) -> None:
        self.declared.write_text(
            f"name: clocked\nsources:\n  - {{name: pages, kind: site, start_urls: ['{self.site.base}/'], yields: "
            "documents, body: all,"
            f" vanish_after: {vanish_after}, politeness: {{allow_private: true}}}}\n"
            f"gate: {{max_lost: null, max_failed: null}}\nretention: {{crawls: {crawls}, versions: 3}}\n"
        )

    def run(self, run_id: str) -> dict[str, Any]:
        """A run whose id and times are those of the clock."""
        at = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:00:00+00:00"
        with pytest.MonkeyPatch.context() as patch:
            for module in (
                "flows.pipeline.ledger",
                "flows.pipeline.publish_steps",
                "index.versions.publish",
                "index.versions.lock",
            ):
                patch.setattr(f"almanac.{module}.utc_now", lambda: at)

            def acquire_and_stamp(*arguments: Any) -> Any:
                done = acquire(*arguments)
                self._stamp(self.raw.journal_path(run_id), at)  # the crawl's process has a clock of its own
                return done

            patch.setattr("almanac.flows.refresh.acquire", acquire_and_stamp)
            return carry_out(Run(load_declaration(str(self.declared), ""), self.data, run_id=run_id, started_at=at))

    def _stamp(self, journal: Path, at: str) -> None:
        lines = [values_of(line) for line in journal.read_bytes().splitlines(keepends=True)]
        for line in lines:
            if "checked_at" in line and not line["kept"]:
                line.update({"checked_at": at} if line["unchanged"] else {"checked_at": at, "fetched_at": at})
        journal.write_bytes(b"".join(map(line_of, lines)))

    def first_seen(self) -> dict[str, str]:
        """Path of a page → the time at which its content was first seen."""
        columns = read_table(self.data.processed("clocked") / DOCUMENTS, ["url", "fetched_at"]).to_pydict()
        return {
            url.removeprefix(self.site.base): at[:10]
            for url, at in zip(columns["url"], columns["fetched_at"], strict=True)
        }


@pytest.fixture
def clock(tmp_path: Path, loopback_site: "Site") -> Iterator[Clock]:
    site = loopback_site
    site.page("/", links("/1", "/2", "/3"))
    for n in range(1, 4):
        site.page(f"/{n}", f"<p>Page number {n} tells of something.</p>")
    described, loaded = "almanac.flows.pipeline.run.describe_embedder", "almanac.flows.pipeline.run.load_embedder"
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(described, lambda _: INFO)
        patch.setattr(loaded, lambda *_, **__: HashEmbedder())
        yield Clock(tmp_path, site)


@pytest.mark.parametrize("order", [_ORDERS[0], *(pytest.param(order, marks=LONG) for order in _ORDERS[1:])])
def test_pages_keep_their_places_and_vanish_after_as_many_crawls_as_declared(
    clock: Clock, order: tuple[str, ...]
) -> None:
    """One page fails, another loses its link: the first stays, the second goes with the second crawl that misses it."""
    site = clock.site
    first = clock.run(order[0])
    assert first["items"]["added"] == 4
    site.page("/1", status=403)
    site.page("/", links("/1", "/3"))
    missed = clock.run(order[1])
    assert (missed["items"]["removed"], missed["pages"]["vanished"], missed["pages"]["failed"]) == (0, 0, 1)
    gone = clock.run(order[2])
    assert (gone["items"]["removed"], gone["pages"]["vanished"], gone["sources"][0]["vanished"]) == (
        1,
        1,
        [f"{site.base}/2"],
    )
    again = clock.run(order[3])
    assert (
        again["items"]["removed"],
        again["items"]["added"],
        again["pages"]["vanished"],
        again["sources"][0]["kept"],
    ) == (0, 0, 0, 1)


@pytest.mark.parametrize("order", _ORDERS[:1])
def test_retention_removes_the_oldest_crawls_and_the_last_run_is_the_last(clock: Clock, order: tuple[str, ...]) -> None:
    clock.declare(crawls=1)
    for number, run_id in enumerate(order):
        clock.site.page("/1", f"<p>Edition {number} of a page.</p>")
        report = clock.run(run_id)
        assert report["outcome"] == "published"
        last = last_run(clock.data, "clocked")
        assert last is not None and last.run_id == run_id
        assert clock.raw.crawls()[-1] == run_id
    # Kept versions name the crawls that they were made from; the first version is beyond retention, and its crawl with
    # it.
    assert clock.raw.crawls() == list(order[1:])
    assert [report.run_id for report in newest_first(clock.data, "clocked")] == list(reversed(order))
    made = history_of(clock.data, "clocked")
    assert [entry.version for entry in made] == ["v0001", "v0002", "v0003", "v0004"]
    assert [read_manifest(clock.data.index("clocked"), f"v000{n}").run_id for n in (2, 3, 4)] == list(order[1:])


def test_content_keeps_the_time_at_which_it_was_first_seen(clock: Clock) -> None:
    """A later clock changes nothing that is known, and no future time is taken for less than a day ago."""
    site = clock.site
    for n in (2, 3):
        site.page(f"/{n}", f"<p>Page number {n} tells of something.</p>", headers={"ETag": '"e"'})
    clock.run(FUTURE)
    assert set(clock.first_seen().values()) == {"2031-01-01"}
    site.requests.clear()
    site.page("/1", "<p>Another edition of page number 1.</p>")
    clock.run(RIGHT)
    assert set(site.requests) >= {"/", "/1", "/2", "/3"}
    known = {"/": "2031-01-01", "/2": "2031-01-01", "/3": "2031-01-01"}
    assert clock.first_seen() == {**known, "/1": "2026-11-22"}
    site.page("/3", "<p>A third page, and another edition of it.</p>")
    clock.run(PAST)
    assert clock.first_seen() == {**known, "/1": "2026-11-22", "/3": "1970-01-01"}


def test_no_time_in_the_future_is_less_than_a_day_ago(clock: Clock) -> None:
    """Where only later stages changed, the pages of a young crawl are read again; of one from the future, nobody knows
    the age.
    """
    clock.run(FUTURE)
    clock.site.requests.clear()
    clock.declared.write_text(clock.declared.read_text() + "chunk: {by: words, size: 7}\n")
    assert clock.run(SAME_SECOND)["sources"][0]["finish"] == "finished" and clock.site.requests["/1"] == 1


def test_reports_that_nobody_noted_are_older_than_those_that_are(clock: Clock) -> None:
    """Reports of earlier releases, or where the list of runs is lost: then their ids decide."""
    for run_id in (RIGHT, PAST):
        clock.run(run_id)
    noted = clock.data.runs("clocked") / "order.txt"
    right_report = json.loads((clock.data.runs("clocked") / f"{RIGHT}.json").read_bytes())
    (clock.data.runs("clocked") / f"{FUTURE}.json").write_text(json.dumps({**right_report, "run_id": FUTURE}))
    assert [report.run_id for report in newest_first(clock.data, "clocked")] == [PAST, RIGHT, FUTURE]
    noted.write_text(noted.read_text()[:-8])  # torn by a power cut
    clock.run(SAME_SECOND)
    assert [report.run_id for report in newest_first(clock.data, "clocked")] == [SAME_SECOND, RIGHT, FUTURE, PAST]
    noted.unlink()
    assert [report.run_id for report in newest_first(clock.data, "clocked")] == [FUTURE, RIGHT, SAME_SECOND, PAST]
