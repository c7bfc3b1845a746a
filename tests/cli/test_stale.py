"""When a knowledge base with a schedule is called stale."""

from datetime import UTC, datetime, timedelta

import pytest

from almanac.cli.operate import _schedule
from almanac.schemas.reports import RunReport

_DAILY = f"{(datetime.now(UTC) - timedelta(hours=12)):%M %H} * * *"  # due half a day ago


@pytest.mark.parametrize(
    ("hours", "exit_code", "stale"), [(1, 0, False), (1, 4, True), (30, 0, True), (-40_000, 0, True), (-0.02, 0, False)]
)
def test_a_missed_start_a_bad_end_or_a_time_still_to_come_is_stale(hours: float, exit_code: int, stale: bool) -> None:
    """A run that began in the future, by a clock that was ahead, would otherwise never be missed."""
    at = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="seconds")
    last = RunReport(kb="kb", run_id="r", outcome="published", exit_code=exit_code, started_at=at)
    assert _schedule(_DAILY, last)[1] is stale
    assert _schedule(None, last) == (None, None)


def test_a_run_that_began_in_the_second_of_its_schedule_is_not_stale() -> None:
    at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
    last = RunReport(kb="kb", run_id="r", outcome="published", exit_code=0, started_at=at.isoformat(timespec="seconds"))
    assert _schedule(f"{at:%M %H} * * *", last)[1] is False
