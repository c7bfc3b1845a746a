"""Ages by a clock that may have been wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from almanac.core.clock import age_of, utc_now


@pytest.mark.parametrize(
    ("hours", "known"), [(0, True), (30, True), (500_000, True), (-0.05, True), (-0.2, False), (-40_000, False)]
)
def test_a_time_in_the_future_has_no_age(hours: float, known: bool) -> None:
    """A clock that was adjusted by a few minutes is no reason to doubt; the age is never negative."""
    age = age_of((datetime.now(UTC) - timedelta(hours=hours)).isoformat())
    assert (age is not None) is known
    assert age is None or abs(age - timedelta(hours=max(hours, 0))) < timedelta(minutes=1)


@pytest.mark.parametrize("stamp", ["", "yesterday", "2026-13-01T00:00:00+00:00"])
def test_what_is_no_time_has_no_age(stamp: str) -> None:
    assert age_of(stamp) is None


def test_a_time_without_a_zone_is_in_utc() -> None:
    age = age_of(utc_now().removesuffix("+00:00"))
    assert age is not None and age < timedelta(minutes=1)
