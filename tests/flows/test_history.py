"""What the control room tells of a knowledge base over its versions, and how long it waits for news of one."""

import xml.etree.ElementTree as ET
from datetime import timedelta
from fnmatch import fnmatch
from pathlib import Path

import pytest
from prefect.events.schemas.automations import AutomationCore, EventTrigger

from almanac.core.durable import write_file
from almanac.core.settings import DataDir
from almanac.flows.reporting.chart import Panel, draw_bars
from almanac.flows.reporting.history import history_of, history_panels, history_rows, seconds
from almanac.flows.server.automations import _crashed, _failed, _gate_refused, _zombie, patience_of
from almanac.schemas.reports import ChunkCounts, ItemCounts, Outcome, Recall, RunReport


def _run(
    data: DataDir, number: int, version: str, outcome: Outcome, *, embedded: int = 0, recall: float | None = None
) -> None:
    report = RunReport(
        kb="small", run_id=f"2026010{number}T030000-abcdef", outcome=outcome, exit_code=0, version=version,
        finished_at=f"2026-01-0{number}T03:01:00+00:00",
        items=ItemCounts(added=number), chunks=ChunkCounts(total=2 * number, embedded=embedded), seconds={"embed": 70.0,
        "build": 5.4},
        recall=None if recall is None else Recall(recall=recall, questions=4),
    )  # fmt: skip
    write_file(data.runs("small") / f"{report.run_id}.json", report.model_dump_json(by_alias=True))


def test_a_version_is_told_by_the_run_that_made_it(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    _run(data, 1, "v0001", "published", embedded=2)
    _run(data, 2, "v0001", "unchanged")
    _run(data, 3, "v0002", "gate_refused", embedded=4, recall=0.75)
    _run(data, 4, "v0002", "gate_refused")
    assert history_rows(history_of(data, "small")) == [
        ("v0002", "2026-01-03 03:01:00", "gate refused", "3", "6", "4", "75 %", "1 min 15 s"),
        ("v0001", "2026-01-01 03:01:00", "published", "1", "2", "2", "–", "1 min 15 s"),
    ]


def test_versions_past_9999_keep_their_order_and_the_latest_thirty_are_told(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    for number in range(9980, 10015):
        report = RunReport(
            kb="small",
            run_id=f"20260101T0{number:05d}-abcdef",
            outcome="published",
            exit_code=0,
            version=f"v{number:04d}",
        )
        write_file(data.runs("small") / f"{report.run_id}.json", report.model_dump_json(by_alias=True))
    versions = [made.version for made in history_of(data, "small")]
    assert (len(versions), versions[0], versions[-1]) == (30, "v9985", "v10014")


@pytest.mark.parametrize("values", [[], [None, None], [0.0, 0.0], [1.0, None, 3.0], list(range(1, 31))], ids=str)
def test_the_chart_is_a_drawing_whatever_there_is_to_draw(values: list[float | None]) -> None:
    drawn = ET.fromstring(
        draw_bars([f"v{n} <&>" for n in range(len(values))], [Panel('a "<title>" & more', values, str)])
    )
    bars = [part for part in drawn.iter("{http://www.w3.org/2000/svg}rect") if part.get("class") in ("b", "l")]
    assert len(bars) == sum(value is not None for value in values)
    assert all(float(bar.get("height", "nan")) >= 1 for bar in bars)


def test_every_measure_has_its_panel(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    _run(data, 1, "v0001", "published")
    assert [panel.title for panel in history_panels(history_of(data, "small"))] == [
        "documents",
        "chunks",
        "embedded",
        "recall",
        "duration",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (75, "1 min 15 s"), (3599.7, "1 h 0 min"), (7384, "2 h 3 min")],
)
def test_a_duration_is_told_as_people_do(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("schedule", "hours"),
    [
        ("0 3 * * *", 25),
        ("0 * * * *", 2),
        ("30 5 * * 1-5", 73),
        ("0 0 1 * *", 31 * 24 + 1),
        ("*/15 8-17 * * *", 15.25 + 0),
    ],
)
def test_a_knowledge_base_may_be_without_success_from_start_to_start_and_an_hour(schedule: str, hours: float) -> None:
    assert patience_of(schedule) == timedelta(hours=hours)


def test_the_rule_for_silent_runs_waits_for_no_event_that_an_alert_waits_for() -> None:
    """Prefect would lose the alert where its database is busy."""
    signs_of_life = _expected(_zombie())
    alerting = [event for alert in (_gate_refused(None), _failed(None), _crashed(None)) for event in _expected(alert)]
    assert not [event for event in alerting for sign in signs_of_life if fnmatch(event, sign)]
    for sign in ("heartbeat", "Published", "Unchanged", "Gate refused", "Failed", "Cancelled", "Running"):
        assert any(fnmatch(f"prefect.flow-run.{sign}", pattern) for pattern in signs_of_life)


def _expected(automation: AutomationCore) -> set[str]:
    assert isinstance(automation.trigger, EventTrigger)
    return automation.trigger.expect
