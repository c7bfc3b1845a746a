"""A page that says something else under every URL, and pages that say the same: the gate on texts, and the list of what
was dropped.
"""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.cli.run_report import show_report
from almanac.core.durable import write_file
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import text_lengths
from almanac.flows.outcome import describe_run
from almanac.flows.pipeline import compare as compare_step
from almanac.flows.pipeline.forget_url import forget_url
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.reporting.report_tables import duplicate_rows, rules_note
from almanac.index.segments import version_tables as version_tables
from almanac.index.versions.publish import publish
from almanac.index.versions.version_store import current_version
from almanac.schemas.errors import GateRefused
from almanac.schemas.items import Duplicate
from almanac.schemas.reports import ItemCounts, PlanResult, RunReport
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.spiders.test_spiders_crawl import links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

pytestmark = pytest.mark.slow  # whole runs
_NUMBERS = range(1, 13)
_SITE = """name: shop
sources:
  - {{name: pages, kind: site, start_urls: ["{base}/"], match: "/p/", politeness: {{allow_private: true}}, {yields}}}
gate: {{{gate}}}
"""
_FILES = """name: shop
sources:
  - {{name: pages, kind: files, glob: "p/*.html", format: html, {yields}}}
gate: {{{gate}}}
"""
_DOCUMENTS = "body: {css: main}"
_RECORDS = "yields: records, fields: {name: {css: h1, required: true}, story: {css: main}}, text: '{name}. {story}'"


def story(number: int, words: int = 60) -> str:
    return " ".join(f"word{number}x{n}" for n in range(words))


class Shop:
    """A shop of twelve pages, in files or on a site on loopback, and runs of its knowledge base."""

    def __init__(self, folder: Path, site: "Site | None" = None) -> None:
        self.site = site
        self.folder = folder
        self.declared = folder / "shop.yaml"
        self.data = DataDir(folder / "data")
        self.declare()
        if site is not None:
            site.page("/", links(*(f"/p/{n}" for n in _NUMBERS)))
        self.serve(lambda number: f"<h1>Product {number}</h1><main>{story(number)}</main>")

    def declare(self, yields: str = _DOCUMENTS, gate: str = "") -> None:
        base = self.site.base if self.site is not None else ""
        self.declared.write_text((_SITE if base else _FILES).format(base=base, yields=yields, gate=gate))

    def serve(self, page: Callable[[int], str], only: "range | list[int]" = _NUMBERS) -> None:
        for number in only:
            if self.site is not None:
                self.site.page(f"/p/{number}", page(number))
            else:
                write_file(self.folder / "p" / f"{number:02d}.html", page(number))

    def run(self) -> RunReport:
        return RunReport.model_validate(carry_out(Run(load_declaration(str(self.declared), ""), self.data)))

    def plan(self) -> PlanResult:
        return plan(load_declaration(str(self.declared), ""), self.data)

    @property
    def live(self) -> str | None:
        return current_version(self.data.index("shop"))

    def listed(self) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in (self.data.processed("shop") / "duplicates.jsonl").read_text().splitlines()
        ]


@pytest.fixture
def small_embedder() -> Iterator[None]:
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
        patch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
        yield


@pytest.fixture
def shop(tmp_path: Path, small_embedder: None) -> Shop:  # noqa: ARG001
    return Shop(tmp_path)


@pytest.fixture
def site_shop(tmp_path: Path, loopback_site: "Site", small_embedder: None) -> Shop:  # noqa: ARG001
    return Shop(tmp_path, loopback_site)


def maintenance(number: int) -> str:
    return f"<h1>Sorry</h1><main>We are under maintenance, reference {number * 7919:x}</main>"


def refused(report: RunReport) -> dict[str, Any]:
    assert report.gate is not None
    return {check.name: check.value for check in report.gate.checks if not check.ok}


@pytest.mark.parametrize(("kind", "yields"), [("site", _DOCUMENTS), ("files", _DOCUMENTS), ("files", _RECORDS)])
def test_a_maintenance_page_that_differs_at_every_url_replaces_nothing(
    request: pytest.FixtureRequest, kind: str, yields: str
) -> None:
    shop: Shop = request.getfixturevalue("site_shop" if kind == "site" else "shop")
    shop.declare(yields)
    first = shop.run()
    assert (first.outcome, first.items.added) == ("published", 12)
    shop.serve(maintenance)
    planned = shop.plan()
    assert (planned.gate["would_refuse"], [c["name"] for c in planned.gate["checks"] if not c["ok"]]) == (
        True,
        ["max_shrunk"],
    )
    report = shop.run()
    assert (report.outcome, report.exit_code, shop.live, report.version) == ("gate_refused", 4, "v0001", "v0002")
    assert refused(report) == {"max_shrunk": 1.0} and rules_note(report) is None
    with pytest.raises(GateRefused, match=r"max_shrunk 1\.0"):
        publish(shop.data.index("shop"), "v0002")
    publish(shop.data.index("shop"), "v0002", override="it is the new shop")
    assert shop.live == "v0002"


def test_after_the_maintenance_all_is_as_it_was(shop: Shop) -> None:
    shop.run()
    shop.serve(maintenance)
    assert shop.run().outcome == "gate_refused"
    shop.serve(lambda number: f"<h1>Product {number}</h1><main>{story(number)}</main>")
    after = shop.run()
    assert (after.outcome, after.version, after.items.unchanged) == ("unchanged", "v0001", 12)
    # The same page at every URL is one item, and eleven are lost.
    shop.serve(lambda _: "<main>We are under maintenance</main>")
    same = shop.run()
    assert refused(same) == {"max_lost": round(11 / 12, 6), "max_shrunk": 1.0} and same.items.deduplicated == 11


def test_texts_are_counted_at_half_of_their_length_and_where_they_moved(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve, one shortened is 8.3 %, two are 16.7 %; a text of half the length has not shrunk, one that moved has
    not changed.
    """
    shop.declare(gate="max_changed: 40%, at_least: 12")
    shop.run()
    read: list[int] = []

    def noted(path: Path, rows: Collection[int]) -> dict[int, int]:
        read.append(len(rows))
        return text_lengths(path, rows)

    monkeypatch.setattr(compare_step, "text_lengths", noted)
    monkeypatch.setattr(version_tables, "text_lengths", noted)
    shop.serve(lambda number: f"<main>{story(number, 29)}</main>", [1])
    shop.serve(lambda number: f"<main>{story(number, 31)}</main>", [2, 3])
    (shop.folder / "p" / "04.html").rename(shop.folder / "p" / "four.html")
    second = shop.run()
    assert (second.outcome, second.items.changed, second.items.moved) == ("published", 3, 1)
    assert second.gate is not None
    assert {c.name: c.value for c in second.gate.checks if c.name in ("max_shrunk", "max_changed")} == {
        "max_shrunk": 0.083333,
        "max_changed": 0.25,
    }
    assert read == [3, 3]  # the rows of changed items, of documents alone: no table is opened for nothing
    read.clear()
    shop.serve(lambda number: f"<main>{story(number, 5)}</main>", [5, 6])
    assert refused(shop.run()) == {"max_shrunk": 0.166667}
    shop.serve(lambda number: f"<main>{story(number + 100)}</main>", [5, 6, 7, 8, 9])
    assert refused(shop.run()) == {"max_changed": 0.416667}
    read.clear()
    shop.declare(gate="max_changed: null, at_least: 12")
    assert shop.run().outcome == "published"
    read.clear()
    assert shop.run().outcome == "unchanged" and read == []


def test_a_declaration_that_takes_less_of_a_page_is_refused_and_the_reason_is_named(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.run()
    shop.declare("body: {css: h1}")
    report = shop.run()
    assert refused(report) == {"max_shrunk": 1.0} and report.stages_changed == ["mapping"]
    reason = "the rules of mapping differ from those of v0001, by the declaration or by another release of Almanac"
    note = f"{reason}; that alone can shorten texts, change them and lose items"
    assert rules_note(report) == note and note in describe_run(report)
    show_report(report, "shop")
    printed = capsys.readouterr().out
    assert (
        f"→ {note}\n" in printed
        and 'almanac publish shop v0002 --override-gate "why"' in printed
        and "max_shrunk" in printed
    )


def test_what_is_dropped_is_listed_with_what_it_equals_also_where_nothing_changed(shop: Shop) -> None:
    shop.serve(lambda _: f"<main>{story(1)}</main>", [2, 3])
    equals = {"url": "01.html", "document_id": "01.html"}
    expected = [
        {"source": "pages", "url": f"0{n}.html", "document_id": f"0{n}.html", "reason": "equal", "equals": equals}
        for n in (2, 3)
    ]
    reports = [shop.run(), shop.run(), shop.run()]
    assert [report.outcome for report in reports] == ["published", "unchanged", "unchanged"]
    for report in reports:
        assert report.items.deduplicated == len(report.duplicates) == 2
        assert [duplicate.as_json() for duplicate in report.duplicates] == expected == shop.listed()
        assert report.duplicates_file == str(shop.data.processed("shop") / "duplicates.jsonl")
    # A list that was tampered with is made anew, and so is one of an older state.
    (shop.data.processed("shop") / "duplicates.jsonl").unlink()
    assert len(shop.run().duplicates) == 2 and shop.listed() == expected
    forget_url(shop.data, load_declaration(str(shop.declared), ""), "03.html")
    assert shop.listed() == expected[:1]
    assert not [path for path in shop.data.runs("shop").glob("*.json") if "03.html" in path.read_text()]
    forget_url(shop.data, load_declaration(str(shop.declared), ""), "01.html")
    assert shop.listed() == []
    after = shop.run()
    assert (after.items.deduplicated, after.duplicates, after.duplicates_file) == (0, [], None)


def test_a_long_list_is_bounded_on_the_terminal_and_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    dropped = [Duplicate("pages", f"u?{n}", f"u?{n}", "equal", {"url": "u", "document_id": "u"}) for n in range(100)]
    same_url = Duplicate("rows", "rows.jsonl", "b", "equal", {"url": "rows.jsonl", "document_id": "a"})
    report = RunReport(
        kb="kb",
        run_id="r",
        outcome="published",
        exit_code=0,
        items=ItemCounts(deduplicated=1234),
        duplicates=[same_url, *dropped],
        duplicates_file="d.jsonl",
    )
    assert duplicate_rows(report)[:2] == [("rows", "rows.jsonl (b)", "rows.jsonl (a)"), ("pages", "u?0", "u")]
    show_report(report, "kb")
    printed = capsys.readouterr().out
    assert "u?8" in printed and "u?9" not in printed and "and 1,224 more: d.jsonl" in printed
