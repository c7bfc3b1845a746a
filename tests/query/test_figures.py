"""Figures are the same in every notation, and a text states those that stand in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.query.answering.figures import Stated, figures_of
from tests.growth import assert_linear


def _missing(said: str, *texts: str) -> list[str]:
    stated = Stated(texts)
    return [figure.text for figure in figures_of(said) if not stated.has(figure)]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("9,500,000", "9.500.000 ₫"),
        ("9 500 000", "9'500'000"),
        ("9.5 million", "9\u202f500\u202f000"),
        ("9,5 Mio.", "9500000"),
        ("9,5 triệu đồng", "9.500.000đ"),
        ("950k", "950.000"),
        ("9.5万円", "95,000円"),
        ("9万5千円", "９５，０００円"),
        ("1.25 lakh", "₹1,25,000"),
        ("95 тыс.", "95 000"),
        ("9.5 مليون", "٩٬٥٠٠٬٠٠٠"),
        ("21,50 €", "€21.50"),
        ("45 €", "45.00"),
        ("2½ hours", "2.5 hours"),
        ("12 triệu 500 nghìn", "12.500.000"),
        ("25 people", "twenty-five people"),
        ("le 17e siècle", "le XVIIe siècle"),
        ("25 m2", "25 m²"),
        ("CO2", "CO₂"),
        ("15 %", "15 Prozent"),
        ("15 phần trăm", "１５％"),
        ("15 %", "Rabatt (%) | 15"),
        ("२४", "24"),
        # times
        ("9:00", "9h"),
        ("9 a.m.", "09.00 Uhr"),
        ("9 pm", "21:00"),
        ("21 Uhr", "9:00 p.m."),
        ("8 giờ tối", "20:00"),
        ("7 giờ 30", "7:30"),
        ("9:30 sáng", "9h30"),
        ("17:30", "午後5時30分"),
        ("5 مساءً", "17:00"),
        ("10:00 bis 18:00", "Di–So 10–18 Uhr"),
        ("from 10 to 6 p.m.", "10am–6pm"),
        ("9 to 5 pm", "09:00-17:00"),
        ("9:00 to 5:00", "9 a.m. to 5 p.m."),
        ("2 hours 30 minutes", "Durée : 2h30"),
        ("9 o'clock", "nine in the morning, at 9:00"),
        # dates
        ("14/11/2026", "14 November 2026"),
        ("November 14, 2026", "2026-11-14"),
        ("le 14 novembre", "14.11.2026"),
        ("14.11.", "14. November"),
        ("14/11", "ngày 14 tháng 11 năm 2026"),
        ("14 בנובמבר", "2026-11-14T09:00:00+02:00"),
        ("14 نوفمبر 2026", "١٤/١١/٢٠٢٦"),
        ("११ नवंबर", "11/11/2026"),
        ("2026年11月14日", "14 ноября 2026"),
        ("7, 14 y 21 de noviembre", "07/11, 14/11, 21/11"),
        ("November 14–17, 2026", "14.11.2026, 15.11.2026, 17.11.2026"),
        ("on the 14th", "14 November"),
        ("14 November 2026", "Departures in 2026: 14 November, 21 November"),
        ("1er décembre", "December 1"),
        ("11/14/2026", "14 November 2026"),
        ("tháng 11", "in November"),
        # numbers in words, codes, telephones
        ("14 days", "fourteen days"),
        ("2 כבלים ו-3 מתאמים", "שני כבלים ושלושה מתאמים"),
        ("2 million", "two million"),
        ("TO-1101", "Tour code: TO1101"),
        ("TO 1101", "TO1101"),
        ("3 ngày 2 đêm", "3N2Đ"),
        ("16 GB", "16GB"),
        ("+84 28 3822 9999", "(028) 3822-9999"),
        ("version 1.2.3", "1.2.3"),
        ("open 24/7", "24/7"),
        ("children under 5", "Children under 5 may enter."),
        ("l'une des 12 chambres", "12 rooms"),
        ("l'un des 1900 habitants", "1,900 inhabitants"),
        ("des 12 000 habitants", "12.000 Einwohner"),
        ("tem 25% de desconto", "25% off"),
        ("custa e tem 9,50", "9.50"),
        ("10%, children under 12", "Children under 12: 10% off"),
        ("30 € for children of 5 to 11", "Price, child 5–11: 30 €"),
        ("4 adults, 10,50 €", "Adults 4: 10,50 €"),
        ("May 5,2026", "5 May 2026"),
        ("call 5551234567", "555-123-4567"),
        ("(555) 123-4567", "5551234567"),
        ("978-3-16-148410-0", "9783161484100"),
        ("room B12", "Room B 12"),
    ],
)
def test_same_figure_in_two_notations(said: str, text: str) -> None:
    assert not _missing(said, text)
    assert figures_of(said)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("9,000,000", "9,500,000"),
        ("5万円", "95,000円"),
        ("9:00 p.m.", "9:00"),
        ("18:00", "17:30"),
        ("15/11/2026", "14/11/2026"),
        ("14/11/2027", "14/11/2026"),
        ("14 November 2027", "14/11/2026 and 03/01/2027"),
        ("14 December", "14 November"),
        ("15 %", "from 15 persons on"),
        ("TO1102", "TO1101"),
        ("1101 euros", "TO1101"),
        ("9 euros", "9:30"),
        ("555-123-4568", "555-123-4567"),
        ("19 Dec", "des 12 chambres, 19.30"),
        ("5 days", "3 days"),
        ("03-555-4321", "03-555-1234"),
        ("19.000.000", "9.500.000 for one adult"),
        ("2027", "2026"),
    ],
)
def test_another_figure_is_missing(said: str, text: str) -> None:
    assert len(_missing(said, text)) == 1


def test_addresses_and_words_are_no_figures() -> None:
    assert not figures_of("See https://a.test/2026/14 or write to t4@a.test, two of you in May.")


def test_all_texts_are_read_together() -> None:
    assert not _missing("9 € on 14/11", "9 euros", "on November 14")


@given(st.text(st.sampled_from("0123456789 .,:/-–%€hpamT月日年'()[]\n٣९Ⅷ½"), max_size=40) | st.text(max_size=40))
def test_any_text_states_its_own_figures(text: str) -> None:
    assert not _missing(text, text)


def test_long_texts_are_read_in_linear_time() -> None:
    texts = "9 5 1.2.3 14/11 November 3 to 5, 7 a 8 y 9 ", "1 " * 4, "1-" * 4, "(0" * 4
    assert_linear(figures_of, lambda count: "".join(text * count for text in texts), 200)
