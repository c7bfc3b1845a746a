"""Heron 2 is not Heron 4; a room for 2 is one for three nights, too."""

import pytest

from almanac.query.answering.numbered_names import without_other_numbers
from almanac.schemas.results import Hit
from tests.query.answering import make_hit


def record(number: int, title: str) -> Hit:
    return make_hit(number, f"Price: {number}", title=title, start=None, passage=f"Price: {number}")


def test_a_record_of_the_same_name_with_another_number_is_left_out() -> None:
    two, four, wren, page = record(2, "Heron 2 tent"), record(4, "Heron 4 tent"), record(3, "Wren"), make_hit(5, "Tents.", title="Heron 4")
    assert without_other_numbers("How much is the Heron 2?", [four, two, wren, page]) == [two, wren, page]
    assert without_other_numbers("how much is heron 2", [four, two]) == [two]
    assert without_other_numbers("Which is lighter, Heron 2 or 4?", [four, two]) == [four, two]
    assert without_other_numbers("How much is the tent for 2?", [four, two]) == [four, two]
    assert without_other_numbers("How much is the Heron 3?", [four, two, wren]) == [], "another thing's price answers nothing"
    assert without_other_numbers("How much is the Heron 3?", [wren, four]) == [wren]
    assert without_other_numbers("How much is the Heron 2?", []) == []


@pytest.mark.parametrize(
    ("title", "question"),
    [
        ("Room for 2", "How much is the room for 3 nights?"),
        ("Heron 4", "Is the heron 2 kg or more?"),
        ("Huế 3 ngày 2 đêm", "tour huế 2 người giá bao nhiêu?"),
        ("Wanderung 5 Stunden", "Was kostet die Wanderung 2 Personen?"),
        ("Otter dry bag 60 l", "Does the bag hold 2.5 kg?"),
    ],
)
def test_a_number_that_counts_or_measures_is_no_part_of_a_name(title: str, question: str) -> None:
    assert without_other_numbers(question, [record(1, title)])
