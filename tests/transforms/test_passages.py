"""A record's passage: labelled lines in the declared order, values as people write them, long texts last and within a
budget.
"""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from almanac.core.passage_parts import lay_out, parts_of
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.declaration.workspace import Workspace
from almanac.schemas.items import Draft, Item
from almanac.transforms.passages import BUDGET, label_of
from almanac.transforms.prepare import prepare_items
from almanac.transforms.written import is_price, written


def _passage(
    fields: dict[str, Any],
    rules: dict[str, Any] | None = None,
    *,
    language: str = "en",
    workspace: str | None = None,
    **source: Any,
) -> str:
    declared = {name: {"json": name, **rule} for name, rule in (rules or {}).items()}
    whole = {
        "name": "s",
        "kind": "files",
        "glob": "x.jsonl",
        "yields": "records",
        "fields": declared,
        "text": "{name}",
        **source,
    }
    declaration = Declaration.model_validate({"name": "kb", "sources": [whole]})
    draft = Draft(
        "s", "record", "7", "http://x/7", "The junk", fields, None, "plain", "raw", "2026-01-01T00:00:00+00:00"
    )
    workspace_field = None if workspace is None else Workspace(field=workspace)
    (item,) = prepare_items([draft], declaration.sources[0], "standard", language=language, workspace=workspace_field)
    assert isinstance(item, Item)
    return item.passage or ""


def test_a_tour_is_written_as_labelled_lines_with_its_long_texts_last() -> None:
    rules: dict[str, Any] = {
        "departure_date": {"type": "date", "format": "%d/%m/%Y", "label": "Departure"},
        "terms": {},
        "price": {"many": True, "fields": {"participant": {"json": "p"}, "amount": {"json": "a", "type": "price"}}},
        "departurePoint": {},
        "name": {},
    }
    fields = {
        "departure_date": "2026-11-14",
        "terms": "If you cancel:\n\n* 15 days: 10%",
        "price": [
            {"participant": "Adult", "amount": {"amount": "9500000", "currency": "₫"}},
            {"participant": "Child 5–11", "amount": {"amount": "4029000", "currency": "₫"}},
        ],
        "departurePoint": "Hà Nội",
        "name": "The junk",
    }
    assert _passage(fields, rules) == (
        "Departure: 14/11/2026\nPrice, adult: 9.500.000 ₫\nPrice, child 5–11: 4.029.000 ₫\nDeparture point: Hà "
        "Nội\nName: The junk\n\n"
        "Terms:\nIf you cancel:\n\n* 15 days: 10%"
    )
    assert (
        _passage(fields, rules, metadata=["departurePoint", "departure_date"])
        == "Departure point: Hà Nội\nDeparture: 14/11/2026"
    )


@pytest.mark.parametrize(
    ("value", "rule", "language", "shown"),
    [
        ({"amount": "9500000", "currency": "VND"}, None, "en", "9.500.000 ₫"),
        ({"amount": "9500000.00", "currency": "₫"}, None, "en", "9.500.000 ₫"),
        ({"amount": "32.00", "currency": "EUR"}, None, "fr", "32,00 €"),
        ({"amount": "32", "currency": "€"}, None, "fr", "32 €"),
        ({"amount": "189.5", "currency": "$"}, None, "en", "$189.50"),
        ({"amount": "189.50", "currency": "CHF"}, None, "en", "CHF 189.50"),
        ({"amount": "12", "currency": "MXN"}, None, "en", "MX$12"),
        ({"amount": "32.50", "currency": "₪"}, None, "he", "32.50 ₪"),
        ({"amount": "32", "currency": "EGP"}, None, "en", "EGP 32"),
        ({"amount": "3200", "currency": "円"}, None, "ja", "3,200円"),
        ({"amount": "50", "currency": "SAR"}, None, "ar", "50 ر.س."),
        ({"amount": "1500", "currency": "kr"}, None, "sv", "1 500 kr"),
        ({"amount": "0", "currency": None}, None, "en", "0"),
        ("2026-11-14", {"type": "date"}, "fr", "14 novembre 2026"),
        ("2026-11-14", {"type": "date", "format": "%d %B %Y"}, "vi", "14 tháng 11, 2026"),
        ("2026-11-14", {"type": "date", "format": "%d/%m/%y %H:%M"}, "en", "November 14, 2026"),
        ("2026-11-14", {"type": "date", "format": "unix_ms"}, "en", "November 14, 2026"),
        ("2026-11-14T18:05:00", {"type": "datetime", "format": "%d/%m/%Y %H:%M"}, "en", "14/11/2026 18:05"),
        ("2026-11-14T18:05:00+02:00", {"type": "datetime"}, "en-GB", "14 November 2026, 18:05 UTC+02:00"),
        ("2026-11-14T18:05:00+00:00", {"type": "datetime"}, "fr", "14 novembre 2026, 18:05 UTC"),
        ("soon", {"type": "date"}, "en", "soon"),
        (True, None, "fr", "oui"),
        (False, None, "und", "no"),
        (4.5, None, "de", "4,5"),
        (1.989e30, None, "en", "1.989E30"),
        (-1.989e30, {"type": "number"}, "fr", "-1,989E30"),
        (1.989e30, None, "hi", "1.989E30"),
        (5e-324, None, "en", "5E-324"),
        (1e16, {"type": "number"}, "en", "10,000,000,000,000,000"),
        (98765432109876543210987654321098765432, None, "en", "98765432109876543210987654321098765432"),
        (10**30, {"type": "integer"}, "de", "1.000.000.000.000.000.000.000.000.000.000"),
        (10**1000, None, "en", "1" + "0" * 1000),
        ({"amount": "1" + "0" * 30, "currency": "€"}, None, "en", "€1,000,000,000,000,000,000,000,000,000,000"),
        ({"amount": "1E+30", "currency": None}, None, "en", "1,000,000,000,000,000,000,000,000,000,000"),
        ({"amount": "0." + "1" * 40, "currency": "$"}, None, "en", "$0." + "1" * 40),
        (1998, {"type": "integer"}, "en", "1998"),
        (12345, {"type": "integer"}, "en", "12,345"),
        (12345, None, "en", "12345"),
        (None, None, "en", ""),
        ("  ", None, "en", ""),
    ],
)
def test_values_are_written_as_people_write_them(
    value: Any, rule: dict[str, Any] | None, language: str, shown: str
) -> None:
    assert written(value, FieldRule.model_validate({"css": "p", **rule}) if rule else None, language) == shown


@given(
    st.one_of(st.integers(), st.floats(), st.decimals().map(lambda number: {"amount": str(number), "currency": "€"})),
    st.sampled_from(["en", "fr", "hi"]),
)
def test_any_number_is_written(value: Any, language: str) -> None:
    """A price of a million digits is none, and is written as the object that it is."""
    if not isinstance(value, dict) or is_price(value):
        assert written(value, None, language)


def test_an_amount_that_nobody_can_write_is_no_price() -> None:
    assert [
        is_price({"amount": amount}) for amount in ("1E+999999", "1E-999999", "NaN", "Infinity", "1E+30", 10**30)
    ] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("departure_date", "Departure date"), ("departurePoint", "Departure point"), ("tourID", "Tour ID"), ("id",
        "ID"),
        ("price-per-night", "Price per night"), ("Room type", "Room type"), ("מחיר", "מחיר"), ("tên_tour", "Tên tour"),
        ("HTMLParser", "HTML parser"),
        ("B2B price", "B2B price"), ("__", "__"),
    ],
)  # fmt: skip
def test_a_label_is_the_name_in_words(name: str, label: str) -> None:
    assert label_of(name) == label


def test_fields_of_a_file_are_shown_whatever_their_shape() -> None:
    fields: dict[str, Any] = {
        "hours": [
            {"day": "Monday", "opens": "9:00", "closes": "17:00"},
            {"day": "Tuesday", "opens": "9:00", "closes": "12:00"},
        ],
        "open": [["Mon", "9:00"], ["Tue", "10:00"]],
        "address": {"street": "12 Rue X", "geo": {"lat": 48.5}},
        "rooms": [{"name": "Deluxe", "beds": 2, "size": 30}, {"name": "Suite", "beds": 3}],
        "times": [{"days": ["Sat", "Sun"], "opens": "10:00", "closes": "5 pm"}],
        "specs": [{"name": "Weight", "value": "2 kg"}],
        "sides": [{"axis": "w", "mm": 414}, {"axis": "h", "mm": 676}],
        "tags": ["a", "b"],
        "none": None,
        "empty": [],
        "Price:": "5",
    }
    assert _passage(fields, text="{address.street}").split("\n") == [
        "Hours, Monday: Opens: 9:00; Closes: 17:00", "Hours, Tuesday: Opens: 9:00; Closes: 12:00",
        "Open: Mon, 9:00; Tue, 10:00", "Address, street: 12 Rue X",
        "Address, geo, lat: 48.5", "Rooms, Deluxe: Beds: 2; Size: 30", "Rooms, Suite: Beds: 3",
        "Times: Days: Sat, Sun; Opens: 10:00; Closes: 5 pm", "Specs, Weight: 2 kg", "Sides, w: 414", "Sides, h: 676",
        "Tags: a, b", "Price: 5",
    ]  # fmt: skip


def test_what_the_text_holds_beyond_the_metadata_stands_at_the_end_and_nothing_twice() -> None:
    fields = {"name": "The junk", "place": "Hà Nội", "story": "Once.", "team": "red"}
    template = "{name}. Boats leave every day. From {place}: {story} {team}"
    passage = _passage(
        fields, {name: {} for name in fields}, text=template, metadata=["place", "team"], workspace="team"
    )
    assert passage == "Place: Hà Nội\n\nStory:\nOnce.\n\nText:\nBoats leave every day."


def test_the_field_that_keeps_workspaces_apart_is_never_shown() -> None:
    fields = {"name": "The junk", "team": "red"}
    assert _passage(fields, {name: {} for name in fields}, text="{name} {team}", workspace="team") == "Name: The junk"
    assert _passage(fields, workspace="team", text=None) == "Name: The junk"
    assert _passage(fields, {name: {} for name in fields}, metadata=["team"], workspace="team") == ""


def test_long_texts_share_the_budget_and_no_line_gives_way_to_them() -> None:
    short = {f"n{number}": f"value {number}" for number in range(100)}
    passage = _passage({"name": "x", "long": "A sentence of it. " * 2000, "mid": "Another sentence. " * 200, **short})
    assert len(passage) <= BUDGET
    assert all(f"N{number}: value {number}\n" in passage for number in range(100))
    assert passage.index("\n\nMid:\n") < passage.index("\n\nLong:\n")
    assert passage.count("Another sentence.") == 200
    assert passage.endswith("A sentence of it. …")
    crowded = _passage(
        {"name": "x", "long": "A sentence of it. " * 2000, **{f"n{number}": "v" * 150 for number in range(100)}}
    )
    assert len(crowded) <= BUDGET
    assert crowded.endswith(": …") and "Long" not in crowded
    for length in range(1, 14):  # whatever is left at the end
        assert len(_passage({"name": "x", **{f"n{number}": "v" * length for number in range(2000)}})) <= BUDGET


_TEXTS = st.text(st.sampled_from("ab: \n*·12"), min_size=1, max_size=40).map(str.strip).filter(bool)
_LABELS = st.text(st.sampled_from("ab, "), min_size=1, max_size=9).map(lambda text: " ".join(text.split())).filter(bool)


@example(lines=[], texts=[("a", "1\n\n1:\n1:\n1")])
@given(
    st.lists(st.tuples(_LABELS, _TEXTS.map(lambda text: " ".join(text.split())))), st.lists(st.tuples(_LABELS, _TEXTS))
)
def test_what_was_laid_out_is_read_again(lines: list[tuple[str, str]], texts: list[tuple[str, str]]) -> None:
    passage = lay_out(lines, texts)
    parts = (
        [(part.label, passage[part.start : part.end].split(), part.is_line) for part in parts_of(passage)]
        if passage
        else []
    )
    assert parts == [
        *((label, value.split(), True) for label, value in lines),
        *((label, value.split(), False) for label, value in texts),
    ]
