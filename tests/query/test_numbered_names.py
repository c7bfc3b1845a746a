"""Heron 2 is not Heron 4; a room for 2 is one for three nights, too."""

from collections.abc import Sequence

import pytest

from almanac.query.answering.numbered_names import numbered_names, without_other_numbers
from almanac.schemas.results import Hit
from tests.query.answering import make_hit


def record(number: int, title: str) -> Hit:
    return make_hit(number, f"Price: {number}", title=title, start=None, passage=f"Price: {number}")


def kept(question: str, hits: Sequence[Hit], language: str | None = "en") -> Sequence[Hit]:
    return without_other_numbers(question, numbered_names(question, language), hits)


def test_a_record_of_the_same_name_with_another_number_is_left_out() -> None:
    two, four, wren, page = (
        record(2, "Heron 2 tent"),
        record(4, "Heron 4 tent"),
        record(3, "Wren"),
        make_hit(5, "Tents.", title="Heron 4"),
    )
    assert kept("How much is the Heron 2?", [four, two, wren, page]) == [two, wren, page]
    assert kept("how much is heron 2", [four, two]) == [two]
    assert kept("Which is lighter, Heron 2 or 4?", [four, two]) == [four, two]
    assert kept("How much is the tent for 2?", [four, two]) == [four, two]
    assert kept("How much is the Heron 3?", [four, two, wren]) == [], "another thing's price answers nothing"
    assert kept("How much is the Heron 3?", [wren, four]) == [wren]
    assert kept("How much is the Heron 2?", []) == []
    assert kept("How much is the Peugeot 3008?", [record(1, "Peugeot 2008")]) == []


@pytest.mark.parametrize(
    ("title", "question", "language"),
    [
        ("Room for 2", "How much is the room for 3 nights?", "en"),
        ("Heron 4", "Is the heron 2 kg or more?", "en"),
        ("Huế 3 ngày 2 đêm", "tour huế 2 người giá bao nhiêu?", "vi"),
        ("Wanderung 5 Stunden", "Was kostet die Wanderung 2 Personen?", "de"),
        ("Otter dry bag 60 l", "Does the bag hold 2.5 kg?", "en"),
        ("Opening hours May 2024", "When does the shop open on May 5?", "en"),
        ("Christmas market, December 24", "What events are there in December 2024?", "en"),
        ("Over 65 discount", "Is there a discount for seniors over 60?", "en"),
        ("The 39 Steps", "Are the 3 rooms free?", "en"),
        ("Best 10 hotels", "which is the best 5 star hotel", "en"),
        ("Events Since 1990", "Events since 2019?", "en"),
        ("Ticket For 4", "Price for 2 adults?", "en"),
        ("Workshop: Kids Aged 6 and up", "Is it fit for kids aged 8?", "en"),
        ("Weltausstellung 2015", "Was zeigte die Weltausstellung 2020?", "de"),
        ("Übernachtung 4 Erwachsene", "Was kostet die Übernachtung 2 Erwachsene?", "de"),
        ("Yogakurs 1: Anfänger", "Was kostet der Yogakurs 2026?", "de"),
        ("Weinfest 12. bis 14. September", "Wann ist das Weinfest 2026?", "de"),
        ("Weinfest 2026", "Gibt es für das Weinfest 2 Karten?", "de"),
        ("Nocleg 4 osoby", "ile kosztuje nocleg 2 osoby?", "pl"),
        ("צימר 2 אנשים", "כמה עולה צימר 4 אנשים?", "he"),
        ("Chumba 2", "Bei ya chumba 4?", "sw"),
        ("Heron 4", "Heron 2?", None),
    ],
)
def test_a_number_that_counts_or_measures_is_no_part_of_a_name(title: str, question: str, language: str | None) -> None:
    assert kept(question, [record(1, title)], language)
