"""Numbers are the same in every notation of their digits, and a text states those that stand in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.query.answering.figures import is_supported, stated_by
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("9,500,000", "9.500.000 ₫"),
        ("9 500 000", "9'500'000"),
        ("9.5 million", "9\u202f500\u202f000"),
        ("9,500,000", "9,5 triệu"),
        ("9.5万円", "９５，０００円"),
        ("1.25 lakh", "₹1,25,000"),
        ("9.5 مليون", "٩٬٥٠٠٬٠٠٠"),
        ("21,50 €", "€21.50"),
        ("1 250", "1.250,00"),
        ("45 €", "45.00"),
        ("25 m2", "25 m²"),
        ("CO2", "CO₂"),
        ("२४", "24"),
        ("on 14 500 people came", "500 people on 14/3"),
        ("May 5,2026", "5 May 2026"),
        # times
        ("9:00", "9h"),
        ("9 a.m.", "09.00 Uhr"),
        ("9 pm", "21:00"),
        ("21 Uhr", "9:00 p.m."),
        ("10:00 bis 18:00", "Di–So 10–18 Uhr"),
        ("7 giờ 30", "7:30"),
        # dates, and the month in words in the passage or in both
        ("14/11/2026", "14 November 2026"),
        ("November 14, 2026", "2026-11-14"),
        ("14 November 2026", "Departures in 2026: 14 November, 21 November"),
        ("2026年11月14日", "2026-11-14"),
        ("1 December", "le 1er décembre"),
        # codes
        ("TO-1101", "Tour code: TO1101"),
        ("3 ngày 2 đêm", "3N2Đ"),
        ("version 1.2.3", "1.2.3"),
    ],
)
def test_same_number_in_two_notations(statement: str, text: str) -> None:
    assert is_supported(statement, stated_by([text]))


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("9,000,000", "9,500,000"),
        ("9.500 ₫", "9.500.000 ₫"),
        ("5 euros", "50 euros, 500, 5.5"),
        ("12.5", "125, 1.25"),
        ("5万円", "95,000円"),
        ("18:00", "17:30"),
        ("6 p.m.", "17:30"),
        ("15/11/2026", "14/11/2026"),
        ("14/12/2026", "14/11/2026 and 05/12/2026"),
        ("14/11/2027", "14/11/2026"),
        ("TO1102", "TO1101"),
        ("555-123-4568", "555-123-4567"),
        ("19.000.000", "9.500.000 for one adult"),
        ("2027", "2026"),
        ("14 days", "fourteen days"),
    ],
)
def test_another_number_is_missing(statement: str, text: str) -> None:
    assert not is_supported(statement, stated_by([text]))


@pytest.mark.parametrize(
    ("statement", "text"),
    [("fifteen days", "fourteen days"), ("14 December", "14 November"), ("15 %", "15 persons"), ("9 p.m.", "9:00")],
)
def test_words_units_and_halves_of_the_day_are_not_compared(statement: str, text: str) -> None:
    assert is_supported(statement, stated_by([text]))


def test_addresses_have_no_numbers_and_texts_are_read_together() -> None:
    assert is_supported("See https://a.test/2026/14 or write to t4@a.test.", frozenset())
    assert is_supported("9 € on 14/11", stated_by(["9 euros", "on 14.11."]))


@given(st.text(st.sampled_from("0123456789 .,:/-–%€hpamT月日年'()[]\n٣९Ⅷ½"), max_size=40) | st.text(max_size=40))
def test_any_text_states_its_own_numbers(text: str) -> None:
    assert is_supported(text, stated_by([text]))


def test_long_texts_are_read_in_linear_time() -> None:
    texts = "9 5 1.2.3 14/11 November 3 to 5, 7 a 8 y 9 ", "1 " * 4, "1-" * 4, "(0" * 4
    assert_linear(lambda text: stated_by([text]), lambda count: "".join(text * count for text in texts), 200)
