"""The Solar Hijri calendar: known new years and leap years, and every day once."""

from datetime import date, timedelta

import pytest

from almanac.spiders.mapping.calendars import from_jalali


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ((1304, 1, 1), date(1925, 3, 21)),
        ((1309, 1, 1), date(1930, 3, 21)),
        ((1354, 1, 1), date(1975, 3, 21)),
        ((1357, 11, 22), date(1979, 2, 11)),
        ((1399, 12, 30), date(2021, 3, 20)),
        ((1400, 1, 1), date(2021, 3, 21)),
        ((1402, 12, 11), date(2024, 3, 1)),
        ((1403, 1, 1), date(2024, 3, 20)),
        ((1403, 12, 30), date(2025, 3, 20)),
        ((1404, 1, 1), date(2025, 3, 21)),
        ((1408, 12, 30), date(2030, 3, 20)),
    ],
)
def test_known_days_are_converted(day: tuple[int, int, int], expected: date) -> None:
    assert from_jalali(*day) == expected


def test_leap_years_are_those_of_the_official_calendar() -> None:
    official = {1342, 1346, 1350, 1354, 1358, 1362, 1366, 1370, 1375, 1379, 1383, 1387, 1391, 1395, 1399, 1403, 1408}
    assert {
        year for year in range(1340, 1410) if (from_jalali(year + 1, 1, 1) - from_jalali(year, 1, 1)).days == 366
    } == official


def test_every_day_has_one_date() -> None:
    months = [
        (year, month, 31 if month < 7 else 30 if month < 12 else 29)
        for year in range(1200, 1501)
        for month in range(1, 13)
    ]
    days = [from_jalali(year, month, day) for year, month, last in months for day in (1, last)]
    assert days == sorted(set(days))
    assert {
        from_jalali(year, month, 1) - from_jalali(year, month - 1, 1) for year, month, _ in months if month > 1
    } == {
        timedelta(30),
        timedelta(31),
    }


@pytest.mark.parametrize(
    "day", [(1402, 12, 30), (1402, 7, 31), (1402, 1, 32), (1402, 13, 1), (1402, 1, 0), (1199, 1, 1), (1501, 1, 1)]
)
def test_what_is_no_day_is_refused(day: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="Solar Hijri"):
        from_jalali(*day)
