"""What is declared of the items, in whole runs: one count everywhere, verdicts, what is kept, and what is not done
twice.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.forget_url import forget_url
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.validation_results import prune_results
from almanac.flows.reporting.report_tables import expectation_rows, expectations_line
from almanac.index.versions.version_store import current_version
from almanac.schemas.reports import ExpectationResult
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children

pytestmark = pytest.mark.slow  # whole runs

_DECLARATION = """
name: tours
sources:
  - name: tours
    kind: files
    glob: "tours/*.jsonl"
    yields: records
    id: "{code}"
    fields:
      name: {json: name, required: true}
      code: {json: code, required: true, pattern: "^(TO\\\\d+)$"}
      seats: {json: seats, type: integer}
      price: {json: price, many: true}
      phone: {json: phone}
    text: "{name}. {code}"
validate:
  max_rejected: 90%
  expect: [EXPECT]
"""
_EXPECT = "{field: phone, unique: true}, {field: price, min_length: 1}"
_ROWS: list[dict[str, Any] | str] = [
    {"code": "TO1", "name": "Ha Long", "seats": 10, "price": [1], "phone": "1"},
    {"code": "TO2", "name": "Hoi An", "seats": 12, "price": [2], "phone": "2"},
    {"code": "TO3", "seats": 12, "price": [2], "phone": "3"},  # no name, which is required
    {"code": "TO4", "name": "Hue", "seats": "many", "price": [2], "phone": "4"},  # no whole number
    {"code": "X5", "name": "Sa Pa", "seats": 3, "price": [2], "phone": "5"},  # does not match the pattern
    {"code": "TO1", "name": "Da Lat", "seats": 3, "price": [2], "phone": "6"},  # the id of another one
    {"code": "TO7", "name": "Nha Trang", "seats": 3, "price": [2], "phone": "1"},  # the phone of another one
    {"code": "TO8", "name": "Vung Tau", "seats": 3, "price": [], "phone": "8"},  # no price
    {"code": "TO9", "seats": "few", "price": [], "phone": "9"},  # two faults: it counts for the first
    {"code": "TO1", "name": "Ha Long", "seats": 10, "price": [1], "phone": "1"},  # the first one again
    "not JSON",
]
_BROKEN = {
    ("name", "required: true"): 2,
    ("seats", "type: integer"): 1,
    ("code", "pattern: ^(TO\\d+)$"): 1,
    ("id", "id: unique"): 1,
    ("phone", "unique: true"): 1,
    ("price", "min_length: 1"): 1,
}


class Tours:
    """The tours, a line in a file of its own each, and runs of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = DataDir(folder / "data")
        self.write(*_ROWS)
        self.declare()

    def declare(self, expect: str = _EXPECT) -> None:
        (self.folder / "tours.yaml").write_text(_DECLARATION.replace("EXPECT", expect))

    def write(self, *rows: dict[str, Any] | str) -> None:
        (self.folder / "tours").mkdir(exist_ok=True)
        for number, row in enumerate(rows):
            path = self.folder / "tours" / f"{number:03}.jsonl"
            line = row if isinstance(row, str) else json.dumps(row)
            if not path.is_file() or path.read_text() != line + "\n":
                path.write_text(line + "\n")

    def run(self, **options: Any) -> dict[str, Any]:
        return carry_out(Run(load_declaration(str(self.folder / "tours.yaml"), ""), self.data), **options)

    def rejects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.data.processed("tours") / "rejects.jsonl").read_text().splitlines()]


@pytest.fixture
def tours(tmp_path: Path) -> Iterator[Tours]:
    described, loaded = "almanac.flows.pipeline.run.describe_embedder", "almanac.flows.pipeline.run.load_embedder"
    with without_children(), patch(described, lambda _: INFO), patch(loaded, lambda *_, **__: HashEmbedder()):
        yield Tours(tmp_path)


def _by_rule(results: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(rule["field"], rule["rule"]): rule for rule in results}


def _read_validation(report: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(Path(report["validation_file"]).read_text())
    return results


def test_report_rejects_page_and_counts_agree_on_everything_that_is_declared(tours: Tours) -> None:
    report = tours.run()
    rules, items, rejects = _by_rule(report["expectations"]), report["items"], tours.rejects()
    assert {key: rule["broken"] for key, rule in rules.items() if rule["broken"]} == _BROKEN
    assert {rule["checked"] for rule in rules.values()} == {9}, "all but the duplicate and the line that is no item"
    assert rules["seats", "type: integer"]["also"] == 1
    assert (items["in"], items["deduplicated"], items["quarantined"]) == (11, 1, 8) == (len(_ROWS), 1, len(rejects))
    results = _read_validation(report)
    assert (
        results["by_expectations"]
        == sum(_BROKEN.values())
        == items["quarantined"] - sum(rejected["count"] for rejected in results["otherwise"])
    )
    assert [(rejected["stage"], rejected["count"]) for rejected in results["otherwise"]] == [("read", 1)]
    assert "8 are rejected: 7 for a rule above" in Path(report["validation_page"]).read_text()
    assert {reject["stage"] for reject in rejects} == {"map", "read", "deduplicate", "validate"}
    assert all(
        reject.keys() == {"source", "url", "document_id", "stage", "reason", "field", "value", "rule"}
        for reject in rejects
    )
    (unmatched,) = [reject for reject in rejects if reject["value"] == "X5"]
    assert (unmatched["field"], unmatched["reason"]) == (
        "code",
        "required field is missing: 'X5' does not match the pattern ^(TO\\d+)$",
    )
    samples = _by_rule(results["expectations"])["phone", "unique: true"]["samples"]
    assert [(sample["document_id"], sample["value"]) for sample in samples] == [("TO7", "1")]


def test_an_unchanged_run_keeps_the_results_of_the_run_that_judged(tours: Tours) -> None:
    first = tours.run()
    with patch("almanac.flows.pipeline.validate.validate_items", side_effect=AssertionError("nothing is to be judged")):
        second = tours.run()
        assert second["outcome"] == "unchanged"
        for key in ("expectations", "validation_file", "validation_page"):
            assert second[key] == first[key]
        Path(first["validation_page"]).unlink()
        third = tours.run()
    assert (third["outcome"], third["expectations"]) == ("unchanged", first["expectations"])
    assert third["run_id"] in third["validation_page"]
    assert "8 are rejected: 7 for a rule above" in Path(third["validation_page"]).read_text()


def test_a_run_after_one_change_reports_what_a_fresh_run_reports(tours: Tours, tmp_path: Path) -> None:
    tours.run()
    rows = [*_ROWS[:1], {**_ROWS[1], "name": "Hoi An by night"}, *_ROWS[2:]]  # type: ignore[dict-item]
    tours.write(*rows)
    again = tours.run()
    (tmp_path / "other").mkdir()
    other = Tours(tmp_path / "other")
    other.write(*rows)
    fresh = other.run()
    assert again["items"]["changed"] == 1
    assert again["expectations"] == fresh["expectations"]
    after_change, from_nothing = _read_validation(again), _read_validation(fresh)
    here, there = (str(folder / "tours") for folder in (tours.folder, other.folder))
    assert json.dumps(after_change["expectations"]).replace(here, there) == json.dumps(from_nothing["expectations"])


def test_a_rule_on_a_whole_column_refuses_or_warns(tours: Tours) -> None:
    tours.run()
    mean = "{expectation: expect_column_mean_to_be_between, field: seats, max_value: 5, severity: SEVERITY}"
    count = "{expectation: expect_table_row_count_to_be_between, min_value: 100, severity: warn}"
    tours.declare(f"{_EXPECT}, {mean.replace('SEVERITY', 'refuse')}, {count}")
    refused = tours.run()
    assert (refused["outcome"], refused["exit_code"], current_version(tours.data.index("tours"))) == (
        "gate_refused",
        4,
        "v0001",
    )
    assert [check for check in refused["gate"]["checks"] if not check["ok"]] == [
        {"name": "expect_column_mean_to_be_between seats", "value": 11.0, "limit": 5, "ok": False}
    ]
    assert "refuses the version" in Path(refused["validation_page"]).read_text()
    assert plan(load_declaration(str(tours.folder / "tours.yaml"), ""), tours.data).gate["would_refuse"]
    tours.declare(f"{_EXPECT}, {mean.replace('SEVERITY', 'warn')}, {count}")
    warned = tours.run()
    assert warned["outcome"] in ("unchanged", "published_with_rejects")
    results = [ExpectationResult.model_validate(rule) for rule in warned["expectations"]]
    assert [(rule.expectation, rule.value, rule.ok) for rule in results if rule.severity == "warn"] == [
        ("expect_column_mean_to_be_between", 11.0, False),
        ("expect_table_row_count_to_be_between", 2, False),
    ]
    assert expectations_line(results) == "10 rules judged, 6 broken by 7 items, 2 warned of"
    assert expectation_rows(results)[-1][-1] == "WARNING"


def test_what_cannot_be_judged_on_the_data_is_an_error_of_its_rule_and_breaks_no_item(tours: Tours) -> None:
    tours.declare("{field: phone, min: 0}, {field: name, pattern: H}")
    tours.write(*({"code": f"TO{n}", "name": "Hue", "phone": f"n/a {n}"} for n in range(len(_ROWS))))
    report = tours.run()
    rule = _by_rule(report["expectations"])["phone", "min: 0"]
    assert (rule["broken"], rule["error"]) == (0, f"it needs numbers, and none of {len(_ROWS)} values is one")
    assert (report["outcome"], report["items"]["quarantined"]) == ("gate_refused", 0)


def test_a_takedown_reaches_the_results(tours: Tours) -> None:
    report = tours.run()
    files = [Path(report[key]) for key in ("validation_file", "validation_page")]
    url = tours.rejects()[0]["url"]
    assert all(url in file.read_text() for file in files)
    forget_url(tours.data, load_declaration(str(tours.folder / "tours.yaml"), ""), url)
    left = [
        path
        for path in tours.data.processed("tours").rglob("*")
        if path.is_file() and url.encode() in path.read_bytes()
    ]
    assert left == []
    assert "Expectations of tours" in files[1].read_text()


def test_retention_leaves_the_newest_results_and_those_of_kept_versions(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.runs("kb").mkdir(parents=True)
    for run_id in ("a", "b", "c", "d"):
        for suffix in ("json", "validation.json", "validation.html"):
            (data.runs("kb") / f"{run_id}.{suffix}").write_text("12")
    assert prune_results(data, "kb", 1, {"b"}) == 8
    assert {path.name.partition(".")[0] for path in data.runs("kb").glob("*.validation.*")} == {"b", "d"}
    assert len(list(data.runs("kb").glob("?.json"))) == 4


def test_retention_goes_by_the_order_in_which_runs_ended_not_by_a_clock(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.runs("kb").mkdir(parents=True)
    for run_id in ("2024", "2031", "2025", "1999"):
        (data.runs("kb") / f"{run_id}.validation.json").write_text("12")
    (data.runs("kb") / "order.txt").write_text("\n2031\n\n2024\n\n2025\n")  # the clock was put back; nobody noted 1999
    prune_results(data, "kb", 2, set())
    assert {path.name.partition(".")[0] for path in data.runs("kb").glob("*.validation.*")} == {"2024", "2025"}


def test_where_nothing_is_declared_the_library_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from almanac.schemas.declaration import Declaration\n"
        "from almanac.transforms.validate_items import validate_items\n"
        "declared = Declaration.model_validate({'name': 'kb', 'sources': [{'name': 's', 'kind': 'files', "
        "'glob': '*.md'}]})\n"
        "assert validate_items([], declared).results == []\n"
        "print([name for name in ('great_expectations', 'pandas') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
