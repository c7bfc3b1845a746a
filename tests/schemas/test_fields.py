"""Field rules that could never hold are found when the declaration is loaded."""

from typing import Any

import pytest
from pydantic import ValidationError

from almanac.schemas.declaration.field_rules import FieldRule, Selector


@pytest.mark.parametrize(
    ("declared", "finding"),
    [
        ({"css": "p", "type": "date", "format": "%d/%Q/%Y"}, "%Q is no strptime directive"),
        ({"css": "p", "type": "date", "format": "%-d/%m/%Y"}, "%d reads 5 as well as 05"),
        ({"css": "p", "type": "date", "format": "%d/%m"}, "has no year"),
        ({"css": "p", "type": "date", "format": "%d/%m/%Y %"}, "no strptime directive"),
        ({"css": "p", "format": "%d/%m/%Y"}, "'format' goes with type: date"),
        ({"css": "p", "calendar": "jalali"}, "'calendar' goes with type: date or type: datetime, and without 'format'"),
        ({"css": "p", "type": "date", "format": "%d/%m/%Y", "calendar": "buddhist"}, "and without 'format'"),
        ({"css": "p", "type": "date", "calendar": "hijri"}, "jalali"),
        ({"css": "p", "yes": ["Auf Lager"]}, "'yes' and 'no' go with type: boolean"),
        ({"css": "p", "type": "boolean", "yes": ["Ja", "Da"], "no": ["ja"]}, "'ja' cannot say both 'yes' and 'no'"),
        (
            {"css": "p", "default": "vast", "one_of": ["small", "large"]},
            "default: 'vast' is not one of 'small', 'large'",
        ),
        ({"const": "EUR", "one_of": ["VND"]}, "const: 'EUR' is not one of 'VND'"),
        ({"css": "p", "type": "integer", "default": "many"}, "default: type: integer needs a whole number"),
        ({"css": "p", "type": "date", "default": "soon"}, "needs an ISO 8601 text"),
        ({"css": "p", "type": "price", "default": "5 EUR"}, "needs {amount: ..., currency: ...}"),
        ({"css": "p", "type": "number", "many": True, "default": [1, "two"]}, "needs a number; found 'two'"),
        (
            {"css": "p", "type": "integer", "one_of": ["1", "2"]},
            "one_of: type: integer gives a whole number; found '1'; write 1, without quotes",
        ),
        (
            {"css": "p", "type": "boolean", "one_of": [True, 0], "default": False},
            "one_of: type: boolean gives true or false; found 0",
        ),
        ({"css": "p", "type": "number", "one_of": [1, "2.5"]}, "found '2.5'; write 2.5, without quotes"),
        ({"css": "p", "type": "boolean", "one_of": ["yes"]}, "one_of: type: boolean gives true or false; found 'yes'"),
        (
            {"css": "p", "type": "text", "one_of": [2024]},
            "one_of: type: text gives a text; found 2024; write '2024', in quotes",
        ),
        ({"css": "p", "one_of": [1, 2]}, "one_of: without a type, it is a text; found 1; write '1', in quotes"),
        ({"css": "p", "type": "date", "one_of": ["1.3.2024"]}, "gives dates such as 2024-05-03; found '1.3.2024'"),
        (
            {"css": "p", "type": "datetime", "one_of": ["2024-03-01"]},
            "gives times such as 2024-05-03T00:00:00; found '2024-03-01'",
        ),
        ({"css": "p", "type": "price", "one_of": [{"amount": 5}]}, 'gives {amount: "12.50", currency: €}'),
        (
            {"css": "p", "process": ["count"], "one_of": ["3"]},
            "process: count gives a whole number; found '3'; write 3, without quotes",
        ),
        ({"css": "p", "from": "json-ld"}, "'from' goes with json"),
        ({"json": "a", "attr": "href"}, "'attr' goes with css or xpath"),
        ({"json": "a", "from": "rdfa"}, "microdata"),
        ({"json": "Ilość"}, "is quoted, in YAML '\"Ilość\"': "),
        ({"json": "oferta.Cena (zł)"}, "is quoted, in YAML 'oferta.\"Cena (zł)\"': "),
        ({"json": "items[?a"}, "not a JMESPath expression: "),
        ({"json": "a", "from": {"script": ""}}, "at least 1 character"),
        ({"css": "p", "pattern": "(a"}, "not a regular expression"),
        ({"const": "x", "fields": {"a": {"css": "b"}}}, "'fields' are read inside matches"),
        ({"css": "p", "pattern": "x", "fields": {"a": {"css": "b"}}}, "'pattern' goes on the rules inside 'fields'"),
    ],
)
def test_rule_that_can_never_hold_is_refused(declared: dict[str, Any], finding: str) -> None:
    with pytest.raises(ValidationError) as caught:
        FieldRule.model_validate(declared)
    assert finding in str(caught.value)


def test_defaults_that_fit_their_type_are_taken() -> None:
    for kind, value in (
        ("integer", 0),
        ("number", 1.5),
        ("boolean", False),
        ("date", "2024-05-03"),
        ("price", {"amount": "0"}),
        ("text", ""),
        ("date", ""),
    ):
        assert FieldRule.model_validate({"css": "p", "type": kind, "default": value}).default == value


@pytest.mark.parametrize(
    "declared",
    [
        {"css": "p", "one_of": ["1", "2", None]},
        {"css": "p", "one_of": ["a", False], "default": False},
        {"css": "p", "type": "integer", "one_of": [1, ""], "default": ""},
        {"css": "p", "type": "integer", "one_of": [10**400]},
        {"css": "p", "type": "integer", "one_of": [1, 2.0]},
        {"css": "p", "type": "boolean", "one_of": [True]},
        {"css": "p", "type": "date", "one_of": ["2024-03-01"]},
        {"css": "p", "type": "price", "one_of": [{"amount": "5", "currency": None}]},
        {"css": "p", "type": "integer", "process": ["join"], "many": True, "one_of": ["1, 2"]},
        {"json": "a", "one_of": [1, "2", True]},
        {"json": "a", "type": "datetime", "format": "unix"},
        {"json": "a", "type": "date", "format": "unix_ms"},
    ],
)
def test_rule_that_can_hold_is_taken(declared: dict[str, Any]) -> None:
    FieldRule.model_validate(declared)


def test_rule_is_reported_as_it_was_written() -> None:
    assert FieldRule.model_validate({"css": "a", "attr": "href"}).rule == "css: a @href"
    assert str(Selector.model_validate({"css": "a", "attr": "href"})) == "css: a @href"
    assert str(Selector.model_validate({"json": "body", "from": {"script": "var data"}})) == "json: body from var data"
    assert (
        FieldRule.model_validate({"json": "offers.price", "from": "json-ld"}).rule == "json: offers.price from json-ld"
    )
    assert (
        FieldRule.model_validate(
            {"each": {"json": "[*]", "from": {"script": "var data"}}, "fields": {"a": {"json": "a"}}}
        ).rule
        == "each: [*] from var data"
    )


def test_only_json_without_an_origin_needs_a_json_page() -> None:
    assert Selector.model_validate({"json": "rows"}).reads_body
    assert not Selector.model_validate({"json": "rows", "from": "microdata"}).reads_body
    assert not FieldRule.model_validate({"each": {"css": "li"}, "fields": {"a": {"json": "a"}}}).reads_body
