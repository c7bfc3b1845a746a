"""What a run leaves out on purpose is in its report, beside what it keeps, also where nothing is read again; much of it
is a warning.
"""

from pathlib import Path
from typing import Any

import pytest

from almanac.cli.author import test_url as show_url
from almanac.cli.run_report import show_report
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.artifacts import show_summary
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.reporting.report_tables import summary_line
from almanac.schemas.reports import RunReport
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder

_STORY = (
    "The ferry to the island leaves at nine in the morning from the northern pier, and the crossing takes forty "
    "minutes in calm weather."
)
_HIDDEN = "Members of the crew meet at eight behind the harbour office, where the doors are open all year round."


def _page(number: int, hidden: str) -> str:
    return (
        f"<title>Day {number}</title><nav><a href=/>Home</a></nav><main><h1>Day {number}</h1><p>{_STORY} Day "
        f"{number}.</p><p hidden>{hidden}</p></main>"
    )


def test_left_out_text_is_reported_by_run_and_plan_and_stays_so_in_later_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
    monkeypatch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
    for number in range(3):
        (tmp_path / f"{number}.html").write_text(_page(number, _HIDDEN))
    declared = tmp_path / "days.yaml"
    declared.write_text("name: days\nsources:\n  - {name: pages, kind: files, glob: '*.html', format: html}\n")
    data = DataDir(tmp_path / "data")

    def ran() -> RunReport:
        return RunReport.model_validate(carry_out(Run(load_declaration(str(declared), ""), data)))

    def counted(report: Any) -> Any:
        return report.sources[0].characters, report.sources[0].left_out

    left = {"hidden": {"blocks": 3, "characters": 3 * len(_HIDDEN)}, "page_furniture": {"blocks": 3, "characters": 12}}
    planned, first = plan(load_declaration(str(declared), ""), data), ran()
    assert counted(first) == counted(planned) == (3 * len(f"# Day 0 {_STORY} Day 0."), left)
    again = ran()
    assert (again.outcome, counted(again)) == ("unchanged", counted(first))
    (tmp_path / "0.html").write_text(_page(0, ""))
    assert ran().sources[0].left_out == {
        "hidden": {"blocks": 2, "characters": 2 * len(_HIDDEN)},
        "page_furniture": left["page_furniture"],
    }
    (tmp_path / "4.html").write_text(_page(1, _HIDDEN))
    assert ran().sources[0].left_out["duplicates"]["blocks"] == 1
    tables: dict[str, tuple[list[dict[str, Any]], str]] = {}
    monkeypatch.setattr(
        "almanac.flows.artifacts._table", lambda _kb, what, rows, caption: tables.update({what: (rows, caption)})
    )
    show_summary(first)
    rows, caption = tables["left out"]
    assert [(row["reason"], row["blocks"]) for row in rows] == [
        ("hidden", 3),
        ("page furniture", 3),
    ] and "`hidden: true`" in caption
    show_report(first, "days")
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "Text that is left out on purpose" in printed
        and "is left out as hidden; if it is meant, `hidden: true` reads it" in printed
    )
    assert "% of pages left out as hidden" in summary_line(first)


@pytest.mark.parametrize(
    ("name", "text", "is_said"), [("day.html", _page(1, _HIDDEN), True), ("day.md", f"# Day 1\n\n{_STORY}\n", False)]
)
def test_test_url_speaks_of_page_furniture_where_a_run_looks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, is_said: bool
) -> None:
    (tmp_path / name).write_text(text)
    declared = tmp_path / "days.yaml"
    declared.write_text("name: days\nsources:\n  - {name: pages, kind: files, glob: '*.*m*'}\n")
    show_url(str(declared), str(tmp_path / name))
    printed = capsys.readouterr().out
    assert ("one page does not tell page furniture" in printed, "left out as hidden" in printed) == (is_said, is_said)
