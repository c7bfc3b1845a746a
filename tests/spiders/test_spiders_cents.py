"""Cents beside a price, raised, small or in elements of their own: what they are is read, and what they may be is
refused with what settles it.
"""

from typing import Any

import pytest

from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.items import Page
from almanac.spiders.mapping.fields import FieldReading, FieldScope, read_field
from almanac.spiders.mapping.values import convert
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.selectors import parted_number
from tests.growth import assert_linear

UNSEEN = "<style>.vh{position:absolute;clip:rect(0 0 0 0);width:1px;height:1px;overflow:hidden}</style>"


def price_of(markup: str, **rule: Any) -> FieldReading:
    body = f"<html><head>{UNSEEN}</head><body><div class=price-box><div class=x>{markup}</div></div></body></html>"
    content = Content(Page(url="http://x.test/p", body=body.encode(), content_type="text/html; charset=utf-8"))
    declared = {"type": "price", **(rule or {"css": ".x"})}
    return read_field("price", FieldRule.model_validate(declared), FieldScope(None, content, "en"))


@pytest.mark.parametrize(
    ("markup", "amount", "currency"),
    [
        ("$12<sup>.99</sup>", "12.99", "$"),
        ("$12<sup>99</sup>", "12.99", "$"),
        ("<sup>$</sup>12<sup>99</sup>", "12.99", "$"),
        ("$12 <sup>99</sup>", "12.99", "$"),
        ("$12.<sup>99</sup>", "12.99", "$"),
        ("12€<sup>99</sup>", "12.99", "€"),
        ("12<sup>€99</sup>", "12.99", "€"),
        ("12<sup>99€</sup>", "12.99", "€"),
        ("12<sup>,99</sup> €", "12.99", "€"),
        ("€ 12,<sup>-</sup>", "12", "€"),
        ("1.299<sup>50</sup> €", "1299.50", "€"),
        ("12<sup>90</sup> Kč", "12.90", "Kč"),
        ("USD 12<sup>50</sup>", "12.50", "USD"),
        ("<span>12</span><sup>99</sup><span>€</span>", "12.99", "€"),
        ("<strong>12</strong>,<sup>99</sup>€", "12.99", "€"),
        ("12<small>,99</small> €", "12.99", "€"),
        ("<span>12</span><span>.</span><span>99</span> $", "12.99", "$"),
        ("$<!-- -->12<!-- -->.<!-- -->99", "12.99", "$"),
        ("<span>1</span><span>299</span> €", "1299", "€"),
        ("<span>1</span><span>299</span><span>.50</span> €", "1299.50", "€"),
        ("12,99 €<sup>1</sup>", "12.99", "€"),
        ("$12.99<sup>3</sup>", "12.99", "$"),
        ('$45<sup class="footnote-ref">23</sup>', "45", "$"),
        ('$45<sup id="fnref12">12</sup>', "45", "$"),
        ('$45<sup role="doc-noteref">12</sup>', "45", "$"),
        ("<s>$15</s> $12<sup>99</sup>", "12.99", "$"),
        # What screen readers are told, and what they are spared.
        ("<span class=vh>$12.99</span><span aria-hidden=true>$<b>12</b><i>99</i></span>", "12.99", "$"),
        ("<span aria-hidden=true>$<b>12</b><i>99</i></span><span class=vh>$12.99</span>", "12.99", "$"),
        ("<span class=vh>Our price: </span>$12.99", "12.99", "$"),
        ("$12<span class=vh>.</span>99", "12.99", "$"),
        ("$12<span class=sr-only>.</span><sup>99</sup>", "12.99", "$"),
        (
            "<span class=sr-only>12 dollars and 99 cents</span><span aria-hidden=true>$12<sup>99</sup></span>",
            "12.99",
            "dollars",
        ),
    ],
)
def test_cents_are_read_wherever_they_stand(markup: str, amount: str, currency: str) -> None:
    reading = price_of(markup)
    assert (reading.problem, reading.value) == (None, {"amount": amount, "currency": currency})


@pytest.mark.parametrize(
    "markup",
    [
        "<span>12</span><span>99</span>",
        "<span>$</span><span>12</span><span>99</span>",
        "12<small>99</small> €",
        "<span>12</span><span>99 €</span>",
        "<span>9</span><span>5</span> zł",
        "<b>$12</b> <i>99</i>",
        "$<div>12</div><div>99</div>",
        "12<sup>99</sup>",
        "10<sup>6</sup> €",
        "2.4 × 10<sup>6</sup> €",
    ],
)
def test_what_may_be_cents_is_a_reject_that_names_what_settles_it(markup: str) -> None:
    reading = price_of(markup)
    assert reading.value is None
    assert "xpath" in str(reading.problem)


def test_what_the_reject_names_settles_it() -> None:
    parts = "<span>12</span><span>99</span>"
    for rule, amount in (
        ({"xpath": "concat(//div[@class='x']/span[1], '.', //div[@class='x']/span[2])"}, "12.99"),
        ({"xpath": "concat(//div[@class='x']/span[1], //div[@class='x']/span[2])"}, "1299"),
        ({"css": ".x span:first-child"}, "12"),
    ):
        assert price_of(parts, **rule).value == {"amount": amount, "currency": None}
    assert price_of("12 99 €", css=".x", pattern=r"^(\d+)").value == {"amount": "12", "currency": None}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("12€⁹⁹", "12.99"),
        ("12⁹⁹ €/m²", "12.99"),
        ("12,99 €¹²", "12.99"),
        ("$12 . 99", "12.99"),
        ("12 euros et 50 centimes", "12.50"),
        ("$12 99 each", "12"),
        ("1 299 €", "1299"),
        ("12 99 €", None),
        ("from 12 99 € per night", None),
        ("12 99 EUR / m", None),
        ("$12 99 $15 00", None),
        ("12⁹⁹", None),
        ("10⁶ €", None),
        ("12⁹⁹⁹ €", None),
        ("$8₇₅", None),
        ("€5⁻", "5"),
    ],
)
def test_cents_in_a_text(text: str, amount: str | None) -> None:
    if amount is None:
        with pytest.raises(ValueError, match=r"settles|takes a part of the text"):
            convert(text, "price")
    else:
        assert convert(text, "price")["amount"] == amount


@pytest.mark.parametrize("text", ["10⁶", "2⁻³", "12¹"])
def test_number_with_raised_digits_is_refused(text: str) -> None:
    for kind in ("number", "integer"):
        with pytest.raises(ValueError, match="raised digits"):
            convert(text, kind)
    assert convert("25 m²", "number") == 25


def test_thousands_of_numbers_beside_each_other_take_linear_time() -> None:
    def listing(count: int) -> Any:
        page = Page(
            url="http://x.test/p",
            body=f"<main>{'<b>12</b> <i>345</i> ' * count}</main>".encode(),
            content_type="text/html",
        )
        return Content(page).selector.css("main")[0]

    assert_linear(parted_number, listing, 500)
