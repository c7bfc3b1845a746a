"""Field rules that could never hold are found when the declaration is loaded."""

from typing import Any

import pytest
from pydantic import ValidationError

from almanac.schemas.declaration.fields import FieldRule, Selector


@pytest.mark.parametrize(
    ("declared", "finding"),
    [
        ({"css": "p", "type": "date", "format": "%d/%Q/%Y"}, "%Q is no strptime directive"),
        ({"css": "p", "type": "date", "format": "%-d/%m/%Y"}, "%d reads 5 as well as 05"),
        ({"css": "p", "type": "date", "format": "%d/%m"}, "has no year"),
        ({"css": "p", "type": "date", "format": "%d/%m/%Y %"}, "no strptime directive"),
        ({"css": "p", "format": "%d/%m/%Y"}, "'format' goes with type: date"),
        ({"css": "p", "default": "vast", "one_of": ["small", "large"]}, "default: 'vast' is not one of small, large"),
        ({"const": "EUR", "one_of": ["VND"]}, "const: 'EUR' is not one of VND"),
        ({"css": "p", "type": "integer", "default": "many"}, "default: type: integer needs a whole number"),
        ({"css": "p", "type": "date", "default": "soon"}, "needs an ISO 8601 text"),
        ({"css": "p", "type": "price", "default": "5 EUR"}, "needs {amount: ..., currency: ...}"),
        ({"css": "p", "type": "number", "many": True, "default": [1, "two"]}, "needs a number; found 'two'"),
        ({"css": "p", "from": "json-ld"}, "'from' goes with json"),
        ({"json": "a", "attr": "href"}, "'attr' goes with css or xpath"),
        ({"json": "a", "from": "rdfa"}, "microdata"),
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
    for kind, value in (("integer", 0), ("number", 1.5), ("boolean", False), ("date", "2024-05-03"), ("price", {"amount": "0"}), ("text", ""), ("date", "")):
        assert FieldRule.model_validate({"css": "p", "type": kind, "default": value}).default == value


def test_rule_is_reported_as_it_was_written() -> None:
    assert FieldRule.model_validate({"css": "a", "attr": "href"}).rule == "css: a @href"
    assert FieldRule.model_validate({"json": "offers.price", "from": "json-ld"}).rule == "json: offers.price from json-ld"
    assert FieldRule.model_validate({"each": {"json": "[*]", "from": {"script": "var data"}}, "fields": {"a": {"json": "a"}}}).rule == "each: [*] from var data"


def test_only_json_without_an_origin_needs_a_json_page() -> None:
    assert Selector.model_validate({"json": "rows"}).reads_body
    assert not Selector.model_validate({"json": "rows", "from": "microdata"}).reads_body
    assert not FieldRule.model_validate({"each": {"css": "li"}, "fields": {"a": {"json": "a"}}}).reads_body
