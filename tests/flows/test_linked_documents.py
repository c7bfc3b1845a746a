"""Runs on a site whose pages link to documents: what is published, what is left out and told, and what a refresh
costs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.tables import DOCUMENTS, read_table
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.reporting.report_tables import not_fetched_rows, plan_rows, summary_rows
from almanac.schemas.reports import RunReport
from almanac.schemas.scope import Scope
from almanac.spiders.mapping.pages import StoredPage
from tests.flows.commands import carry_out
from tests.flows.test_withheld_pages import Base, base
from tests.spiders.test_spiders_linked_documents import FETCH, note, report

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

__all__ = ["base"]  # the fixture
pytestmark = pytest.mark.slow  # whole runs
_PDF = "application/pdf"


@pytest.fixture
def site(loopback_site: "Site") -> Iterator["Site"]:
    named = "<a href=/a.pdf>Budget of the year</a><a href=/b.docx>Minutes</a><a href=/c.pdf>Torn</a>"
    loopback_site.page("/", f"<h1>Council</h1><p>Minutes and reports.</p>{named}")
    loopback_site.page("/a.pdf", report("The budget is balanced and"), content_type=_PDF, headers={"ETag": '"1"'})
    loopback_site.page("/b.docx", note("The council met on Monday."), content_type="application/octet-stream")
    loopback_site.page("/c.pdf", b"%PDF-1.4 torn", content_type=_PDF)
    yield loopback_site


def test_documents_are_published_and_a_refresh_reads_only_what_changed(
    site: "Site", base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.declare(fetch=FETCH)
    first = base.run()
    assert (base.items(), first["items"]["quarantined"], first["sources"][0]["not_fetched"]) == (
        ["/", "/a.pdf", "/b.docx"],
        1,
        [],
    )
    rows = read_table(base.data.processed("kb") / DOCUMENTS, ["url", "title"]).to_pylist()
    assert {row["url"].removeprefix(site.base): row["title"] for row in rows}["/a.pdf"] == "Budget of the year"
    read: list[str] = []
    really_open = StoredPage.content

    def noted(stored: StoredPage, *arguments: Any) -> Any:
        read.append(stored.page.url.removeprefix(site.base))
        return really_open(stored, *arguments)

    monkeypatch.setattr(StoredPage, "content", noted)
    site.page("/b.docx", note("The council met on Tuesday."), content_type="application/octet-stream")
    second = base.run()
    assert (second["items"]["changed"], second["items"]["unchanged"], second["pages"]["unchanged"], read) == (
        1,
        2,
        1,
        ["/b.docx"],
    )
    assert site.sent["/a.pdf"] == 1
    full = carry_out(Run(load_declaration(str(base.declared), ""), base.data, Scope(full=True)))
    assert (full["outcome"], full["version"]) == ("unchanged", second["version"])
    site.page("/a.pdf", status=404)
    assert base.run()["items"]["removed"] == 1 and base.items() == ["/", "/b.docx"]


def test_what_is_left_out_is_told_by_plan_and_run(site: "Site", base: Base) -> None:
    planned = plan(load_declaration(str(base.declared), ""), base.data)
    ran = RunReport.model_validate(base.run())
    expected = [
        ("pages", "pdf", 2, "fetch: [html, pdf]", f"{site.base}/a.pdf {site.base}/c.pdf"),
        ("pages", "docx", 1, "fetch: [html, docx]", f"{site.base}/b.docx"),
    ]
    assert not_fetched_rows(planned.sources) == not_fetched_rows(ran.sources) == expected
    for rows in (plan_rows(planned), summary_rows(ran)):
        assert [row for row in rows if "not fetched" in row[0]] == [
            ("files not fetched: pdf", 2),
            ("files not fetched: docx", 1),
        ]
    assert base.items() == ["/"] and site.requests["/a.pdf"] == 0
