"""Dates and times, in the calendars and orders of their languages: what is read, and what is refused."""

from typing import Any

import pytest

from almanac.schemas.declaration.field_rules import Calendar, FieldRule, FieldType
from almanac.schemas.items import Page
from almanac.spiders.mapping.fields import FieldScope, read_field
from almanac.spiders.mapping.values import convert
from almanac.spiders.reading.content import Content


@pytest.mark.parametrize(
    ("text", "language", "calendar", "value"),
    [
        ("3 พฤษภาคม 2567", "th", "buddhist", "2024-05-03"),
        ("5 มี.ค. 2567", "th", "buddhist", "2024-03-05"),
        ("5 มี.ค. 67", "th", "buddhist", "2024-03-05"),
        ("5 มี.ค. 67 เวลา 19.30 น.", "th", "buddhist", "2024-03-05"),
        ("5/3/67 10:30", "th", "buddhist", "2024-03-05"),
        ("05.03.67", "th", "buddhist", "2024-03-05"),
        ("25 มิ.ย. พ.ศ. 2566", "th", "buddhist", "2023-06-25"),
        ("05/03/2567", "th", "buddhist", "2024-03-05"),
        ("1402/12/11", "fa", "jalali", "2024-03-01"),
        ("۱۴۰۲/۱۲/۱۱", "fa-IR", "jalali", "2024-03-01"),
        ("١٤٠٢/١٢/١١", "ps", "jalali", "2024-03-01"),
        ("11/12/1402", "fa", "jalali", "2024-03-01"),
        ("14021211", "fa", "jalali", "2024-03-01"),
        ("1402-12-11T18:30:00+03:30", "fa", "jalali", "2024-03-01T18:30:00+03:30"),
        ("۱۴۰۲/۱۲/۱۵ ساعت ۱۸:۳۰", "fa", "jalali", "2024-03-05T18:30:00"),
        ("۱۱ اسفند ۱۴۰۲", "fa", "jalali", "2024-03-01"),
        ("سه‌شنبه ۱۵ اسفندماه ۱۴۰۲، ۱۸:۳۰", "fa", "jalali", "2024-03-05T18:30:00"),
        ("5 ارديبهشت 1403", "fa", "jalali", "2024-04-24"),
        ("۱۱ حوت ۱۴۰۲", "prs", "jalali", "2024-03-01"),
        ("令和8年12月3日", "ja", "japanese", "2026-12-03"),
        ("令和８年12月5日（土）午後7時30分", "ja-JP", "japanese", "2026-12-05T19:30:00"),
        ("令和元年5月1日", "ja", "japanese", "2019-05-01"),
        ("12月3日（令和8年）", "ja", "japanese", "2026-12-03"),
        ("令和05年12月3日", "ja", "japanese", "2023-12-03"),
        ("昭和 64 年 1 月 7 日", "ja", "japanese", "1989-01-07"),
        ("R8.12.3", "ja", "japanese", "2026-12-03"),
        ("H31/4/30", "ja", "japanese", "2019-04-30"),
        ("中華民國115年12月3日", "zh-TW", "minguo", "2026-12-03"),
        ("民國 99/1/2", "zh-Hant", "minguo", "2010-01-02"),
    ],
)
def test_a_date_of_another_calendar_is_read_where_it_is_declared(
    text: str, language: str, calendar: Calendar, value: str
) -> None:
    assert convert(text, "datetime" if "T" in value else "date", language=language, calendar=calendar) == value
    hint = rf"`calendar: {calendar}`"
    with pytest.raises(ValueError, match=hint):
        convert(text, "date", language=language)


@pytest.mark.parametrize(
    ("text", "calendar"),
    [
        ("5 มี.ค. 18:30", "buddhist"), ("5 มีนาคม เวลา 19 น.", "buddhist"), ("05.03", "buddhist"),
        ("5 มี.ค. 18.30", "buddhist"), ("2024-03-05", "buddhist"),
        ("05/03/2024", "buddhist"),
        ("2024年5月3日", "japanese"), ("令和8年度", "japanese"), ("R8/12", "japanese"), ("12/3/115", "minguo"),
        ("2026年12月3日", "minguo"),
        ("1402/12/30", "jalali"), ("1402/07/31", "jalali"), ("02/12/11", "jalali"), ("1445/08/20 قمری", "jalali"),
        ("1650/01/01", "jalali"), ("۱۱ اسفند", "jalali"), ("1402121", "jalali"), ("2024/03/01", "jalali"),
    ],
)  # fmt: skip
def test_what_is_no_date_of_the_declared_calendar_is_refused(text: str, calendar: Calendar) -> None:
    with pytest.raises(ValueError, match=r"calendar|not a date"):
        convert(text, "date", language="und", calendar=calendar)


def test_a_declared_gregorian_calendar_takes_years_as_they_are() -> None:
    assert convert("1402/12/11", "date", language="fa", calendar="gregorian") == "1402-12-11"
    assert convert("1445/08/20", "date", language="ar", calendar="gregorian") == "1445-08-20"
    assert convert("05/03/24", "date", language="th", calendar="gregorian") == "2024-03-05"
    assert convert("05/03/2024", "date", language="th") == "2024-03-05"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("1. März 2024, 6 Uhr abends", "de"),
        ("1. März 2024, 18–20 Uhr", "de"),
        ("1. März 2024, 25 Uhr", "de"),
        ("14. März, 20 Uhr", "de"),
        ("samedi 14 mars 20h", "fr"),
        ("1 mars 2024 kl. 18-20", "sv"),
        ("14 mars 2026 kl. 19.00", "sv"),
        ("1 marzo 2024 alle ore 21", "it"),
    ],
)
def test_time_that_would_be_read_in_part_is_refused(text: str, language: str) -> None:
    with pytest.raises(ValueError, match="not a date"):
        convert(text, "datetime", language=language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("2026年3月14日 20点", "zh"), ("2026年3月14日 晚上8点", "zh"), ("14 mars 2026, 20 heures", "fr"),
        ("14 mars 2026 à 20h00min", "fr"), ("14 maart 2026, 20 uur", "nl"), ("14 de marzo de 2026, 20 horas", "es"),
        ("14. března 2026 v 20 hodin", "cs"), ("14. března 2026 20:00 hod.", "cs"), ("14 mars 2026 kl. 20:00", "sv"),
        ("14 марта 2026 г. в 20 часов", "ru"), ("14 mars 2026 klockan 20:00", "sv"),
    ],
)  # fmt: skip
def test_hour_is_read_as_the_language_writes_it(text: str, language: str) -> None:
    assert convert(text, "datetime", language=language) == "2026-03-14T20:00:00"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("14 maart, 20 uur", "nl"), ("14. marts kl. 20", "da"), ("14 mars 20 heures", "fr"),
        ("14 marca, godz. 18", "pl"),
        ("14 марта, 19 часов", "ru"), ("14 March at 20", "en"), ("March 14-16", "en"), ("14-16 March", "en"),
        ("14. März, 12 €", "de"), ("14 March 20 €", "en"), ("March 14, 18+", "en"), ("6年3月14日", "ja"),
        ("14 March, £2000", "en"),
    ],
)  # fmt: skip
def test_number_that_does_not_stand_beside_the_month_is_no_year(text: str, language: str) -> None:
    with pytest.raises(ValueError, match="not a date"):
        convert(text, "date", language=language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("March 14, 26", "en"), ("14 Mar '26", "en"), ("14MAR26", "en"), ("14 March 26 at 7pm", "en"),
        ("14. März 26, 19:30 Uhr", "de"), ("Sa., 14.03.26, 19.30 Uhr", "de"), ("14 mars 26 à 20h30", "fr"),
        ("14 мар. 26 г.", "ru"), ("14 de marzo de 26", "es"), ("26年3月14日", "zh"), ("14 मार्च 26", "hi"),
    ],
)  # fmt: skip
def test_year_of_two_digits_beside_its_month_is_read(text: str, language: str) -> None:
    assert convert(text, "date", language=language) == "2026-03-14"


def test_year_that_may_be_hijri_or_gregorian_is_refused() -> None:
    for text in ("١٤٤٥/٠٨/٢٠", "1445/08/20 | 18:30", "1445 08 20"):
        with pytest.raises(ValueError, match=r"no Gregorian one; if it is, declare `calendar: gregorian`"):
            convert(text, "datetime", language="ar")
    assert convert("20 مارس 1445", "date", language="ar") == "1445-03-20"
    assert convert("1445/08/20", "date", language="en") == "1445-08-20"


def test_format_is_taken_literally() -> None:
    assert convert("05/06/2025", "date", date_format="%d/%m/%Y") == "2025-06-05"
    with pytest.raises(ValueError, match="not a date of the form"):
        convert("2025-06-05", "date", date_format="%d/%m/%Y")


@pytest.mark.parametrize(
    ("value", "kind", "unit", "expected"),
    [
        (1709317800, "datetime", "unix", "2024-03-01T18:30:00+00:00"),
        ("1709317800", "datetime", "unix", "2024-03-01T18:30:00+00:00"),
        (1709317800, "date", "unix", "2024-03-01"),
        (1709317800000, "datetime", "unix_ms", "2024-03-01T18:30:00+00:00"),
        ("1709317800123", "datetime", "unix_ms", "2024-03-01T18:30:00.123000+00:00"),
        (999999999, "datetime", "unix", "2001-09-09T01:46:39+00:00"),
    ],
)
def test_unix_times_are_read_where_they_are_declared(value: Any, kind: FieldType, unit: str, expected: str) -> None:
    assert convert(value, kind, date_format=unit) == expected


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        (1709317800000, "unix", "of the form unix_ms"),
        (1709317800, "unix_ms", "it is one of the form unix"),
        (0, "unix", "from 1973 to 2099"),
        (99999999999, "unix", "from 1973 to 2099"),
        ("-1709317800", "unix", "not a Unix time"),
        ("1709317800.5", "unix", "not a Unix time"),
        ("2024-03-01", "unix", "not a Unix time"),
        ("9" * 400, "unix", "not a Unix time"),
        ("1714824000", None, "declare `format: unix`"),
        ("1714824000000", None, "declare `format: unix_ms`"),
    ],
)
def test_what_is_no_unix_time_is_refused_with_what_to_declare(value: Any, unit: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(value, "datetime", date_format=unit)


def test_format_takes_month_names_of_the_language() -> None:
    texts = {"fr": "12 févr. 2024", "he": "12 בפברואר 2024", "pl": "12 lutego 2024", "en": "12 February 2024"}
    for language, text in texts.items():
        assert (
            convert(text, "date", language=language, date_format="%d %b %Y" if language == "fr" else "%d %B %Y")
            == "2024-02-12"
        )
    with pytest.raises(ValueError, match="not a date of the form"):
        convert("février 12 2024", "date", language="fr", date_format="%d %B %Y")


def test_day_and_month_that_nobody_can_tell_apart_are_refused() -> None:
    assert convert("13/04/2024", "date", language="und") == "2024-04-13"
    with pytest.raises(ValueError, match="day or month first"):
        convert("03/04/2024", "date", language="und")
    with pytest.raises(ValueError, match="day or month first"):
        convert("03/04/2024, 6:30 pm", "datetime", language="und")


@pytest.mark.parametrize(
    ("markup", "declared", "expected"),
    [
        ("<time datetime='2026-05-03'>3 May</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        (
            "<p><time datetime='2026-05-03T19:30:00+02:00'> yesterday </time></p>",
            {"css": "p", "type": "datetime"},
            "2026-05-03T19:30:00+02:00",
        ),
        (
            "<time datetime='2026-05-03'>4 May 2026</time>",
            {"css": "time", "type": "date", "format": "%d %B %Y"},
            "2026-05-04",
        ),
        ("<time datetime='19:30'>4 May 2026</time>", {"css": "time", "type": "date"}, "2026-05-04"),
        ("<p><time datetime='2026-05-03'>3 May</time> to 5 May 2026</p>", {"css": "p", "type": "date"}, None),
        ("<time datetime='2026-05-03'>3 May</time>", {"css": "time"}, "3 May"),
        ("<time datetime='2026-05-03T22:00:00.000Z'>4 May 2026</time>", {"css": "time", "type": "date"}, "2026-05-04"),
        ("<time datetime='2026-05-03T22:00:00.000Z'>4 May</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-03T22:00:00Z'>05/03/2026</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-03T22:00:00Z'>03/05/2026</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        (
            "<time datetime='2026-05-03T22:00+02:00[Europe/Paris]'>3 May</time>",
            {"css": "time", "type": "datetime"},
            "2026-05-03T22:00:00+02:00",
        ),
        ("<time datetime='2026-05-03 10:00:00 UTC'>yesterday</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-03T7:00'>3 May</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-32'>3 May 2026</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        (
            "<time datetime='2026-05-03T25:00'>3 May 2026</time>",
            {"css": "time", "type": "datetime"},
            "2026-05-03T00:00:00",
        ),
        (
            "<time datetime='2026-05-03' hidden>3 May</time><time datetime='2026-05-04'>4 May</time>",
            {"css": "time", "type": "date"},
            "2026-05-04",
        ),
        ("<i datetime='2026-05-03'>4 May 2026</i>", {"css": "i", "type": "date"}, "2026-05-04"),
    ],
)
def test_a_time_element_is_read_by_its_machine_readable_date(
    markup: str, declared: dict[str, Any], expected: str | None
) -> None:
    content = Content(Page(url="http://x.test/", body=markup.encode(), content_type="text/html; charset=utf-8"))
    assert read_field("f", FieldRule.model_validate(declared), FieldScope(None, content, "en")).value == expected
