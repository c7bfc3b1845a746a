"""Texts into values: what is read, and what is refused rather than guessed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.fields import FieldType
from schemas.templates import fill
from spiders.values import convert


@pytest.mark.parametrize(
    ("text", "kind", "language", "value"),
    [
        ("In stock (3 available)", "boolean", "en", True),
        ("Out of stock", "boolean", "en", False),
        ("có", "boolean", "vi", True),
        ("1,234 reviews", "integer", "en", 1234),
        ("1.234", "integer", "fr", 1234),
        ("1,234", "number", "en", 1234.0),
        ("1,234", "number", "fr", 1.234),
        ("−1 234,5", "number", "fr", -1234.5),
        ("1.234.567,89", "number", "vi", 1234567.89),
        ("0.125", "number", "fr", 0.125),
        ("1.200.000 ₫", "price", "vi", {"amount": "1200000", "currency": "₫"}),
        ("Price: £10.66", "price", "en", {"amount": "10.66", "currency": "£"}),
        ("12 mars 2024", "date", "fr", "2024-03-12"),
        ("04/05/2024", "date", "vi", "2024-05-04"),
        ("04/05/2024", "date", "en", "2024-04-05"),
        ("2024-05-04T10:00:00+02:00", "datetime", "en", "2024-05-04T10:00:00+02:00"),
        ("<p>a<p>b", "html", "en", "a\n\nb"),
    ],
)
def test_text_is_read_in_its_language(text: str, kind: FieldType, language: str, value: Any) -> None:
    assert convert(text, kind, language=language) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [("yesterday", "date"), ("March 2024", "date"), ("maybe", "boolean"), ("2 of 3", "integer"),
     ("1.5", "integer"), ("none", "number"), ("on request", "price"), ("/a", "url")],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_and_shown(text: str, kind: FieldType) -> None:
    with pytest.raises(ValueError, match=text.split()[0]):
        convert(text, kind)


def test_format_is_taken_literally() -> None:
    assert convert("05/06/2025", "date", date_format="%d/%m/%Y") == "2025-06-05"
    with pytest.raises(ValueError, match="not a date of the form"):
        convert("2025-06-05", "date", date_format="%d/%m/%Y")


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_integers_survive_grouping(number: int) -> None:
    assert convert(f"{number:,}", "integer") == number
    assert convert(f"{number:,}".replace(",", "\u202f"), "integer", language="fr") == number


@given(st.text(), st.sampled_from(["integer", "number", "price", "boolean", "date", "url", "html", "text"]))
def test_any_text_is_read_or_refused(text: str, kind: FieldType) -> None:
    try:
        convert(text, kind, base_url="http://x.test/")
    except ValueError as error:
        assert str(error)


def test_template_drops_the_separator_of_a_missing_value() -> None:
    assert fill("{title}. {text}", {"title": None, "text": "Body"}) == "Body"
    assert fill("{name}: {price} ({tags})", {"name": "Jar", "price": {"amount": "51.77", "currency": "£"}, "tags": ["a", "b"]}) == "Jar: 51.77 £ (a, b)"
