"""A struck price is not the price: neither in fields, nor in bodies, unless a selector asks for it."""

from typing import Any

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.selecting.selectors import markup_of
from almanac.transforms.html.page import html_to_markdown


def _fields(markup: str, fields: dict[str, Any], language: str = "en") -> dict[str, Any]:
    source = SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "yields": "records", "fields": fields}
    )
    page = Page(url="http://x.test/a", body=markup.encode(), content_type="text/html; charset=utf-8")
    return next(draft.fields for extraction in map_pages([page], source, language) for draft in extraction.drafts)


def _price(css: str, **keys: Any) -> dict[str, Any]:
    return {"css": css, "type": "price", **keys}


WOOCOMMERCE = (
    '<p class="price"><del aria-hidden="true"><span class="woocommerce-Price-amount amount"><bdi>'
    '<span class="woocommerce-Price-currencySymbol">&#36;</span>20.00'
    '</bdi></span></del> <span class="screen-reader-text">Original price was: &#36;20.00.</span><ins '
    'aria-hidden="true">'
    '<span class="woocommerce-Price-amount amount">'
    '<bdi><span class="woocommerce-Price-currencySymbol">&#36;</span>15.00</bdi></span></ins>'
    '<span class="screen-reader-text">Current price is: &#36;15.00.</span></p>'
)
SHOPIFY = (
    '<div class="price"><span class="visually-hidden">Regular price</span><span><s class="price-item">$20.00 USD</s>'
    '</span><span class="visually-hidden">Sale price</span><span class="price-item">$15.00 USD</span></div>'
)


@pytest.mark.parametrize(
    ("markup", "css"),
    [
        (WOOCOMMERCE, ".price"),
        (WOOCOMMERCE, ".amount"),
        (SHOPIFY, ".price"),
        (SHOPIFY, ".price-item"),
        ('<p class="p"><span style="color: red; text-decoration: line-through">$20</span> $15.00</p>', ".p"),
        ('<p><span class="p"><del>$20</del></span> <span class="p">$15.00</span></p>', ".p"),
        ('<div hidden><b class="p">$3</b></div><p><b class="p"><del>$20</del></b> <b class="p">$15.00</b></p>', ".p"),
    ],
)
def test_the_price_is_the_current_one(markup: str, css: str) -> None:
    """For a price, for a list of prices, and in texts, fields of HTML and bodies."""
    page = f"<main><h1>Lamp</h1><p>A lamp of brass for the table, made by hand.</p>{markup}</main>"
    fields = _fields(
        page,
        {"one": _price(css), "all": _price(css, many=True), "text": {"css": css}, "html": {"css": css, "type": "html"}},
    )
    price = {"amount": "15.00", "currency": "$"}
    assert (fields["one"], fields["all"]) == (price, [price])
    body = html_to_markdown(markup_of(parse_markup(page)), "all")
    assert all("15.00" in text and "20" not in text for text in (fields["text"], fields["html"], body))


@pytest.mark.parametrize(
    ("markup", "css", "language", "amount"),
    [
        ("<div class='gia'><del>1.290.000</del> <ins>990.000</ins> VNĐ</div>", ".gia", "vi", "990000"),
        ("<p class='x'><s>￥5,800（税込）</s> ￥3,980（税込）</p>", ".x", "ja", "3980"),
        ("<p class='x'><del>5 990 ₽</del> 3 990 ₽</p>", ".x", "ru", "3990"),
    ],
)
def test_prices_of_other_languages(markup: str, css: str, language: str, amount: str) -> None:
    assert _fields(markup, {"price": _price(css)}, language)["price"]["amount"] == amount


def test_a_rule_that_asks_for_the_old_price_reads_it() -> None:
    assert _fields(WOOCOMMERCE, {"old": _price("del"), "new": _price("ins")})["old"]["amount"] == "20.00"
    assert _fields("<p class=before><s>$20</s></p>", {"old": _price(".before")})["old"]["amount"] == "20"


def test_what_a_class_calls_an_older_price_is_a_matter_of_selectors() -> None:
    markup = '<p><b class="old-price">$20</b> <b class="price">$15</b></p>'
    assert _fields(markup, {"price": _price("b"), "now": _price("b:not(.old-price)")}) == {
        "price": {"amount": "20", "currency": "$"},
        "now": {"amount": "15", "currency": "$"},
    }


def test_struck_text_that_is_no_price_stays() -> None:
    markup = "<ul><li><s>Buy milk</s></li><li><del>Call 3 people about the tour</del> done</li></ul>"
    assert _fields(markup, {"todo": {"css": "ul"}}) == {"todo": "Buy milk Call 3 people about the tour done"}


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            "<s>$18</s> <b>Now only $18 for members until Sunday</b>",
            "Now only $18 for members until Sunday",
        ),
        (
            "<div><del>$100</del>\n<p>Orders over $100 are delivered free</p></div>",
            "Orders over $100 are delivered free",
        ),
        ("Fee <del>10 EUR</del> <ins>10 EUR per person and day</ins>", "Fee 10 EUR per person and day"),
        ("<del>$9</del> <ins class=sr-only>$9 per person and day</ins>", "$9 per person and day"),
        ("Open until <del>18</del> <b>Closed from 18 on Mondays</b>", "Open until Closed from 18 on Mondays"),
        (WOOCOMMERCE, "$15.00 Current price is: $15.00."),
        ("<s>$9</s> $8<span class=sr-only>.</span>50 a day", "$8.50 a day"),
    ],
)
def test_what_follows_a_struck_price_stays(markup: str, text: str) -> None:
    """But what tells screen readers the struck price."""
    shown = _fields(f"<main>{markup}</main>", {"text": {"css": "main"}})["text"]
    assert " ".join(shown.split()) == text


def test_rows_that_are_struck_out_stay_rows() -> None:
    """A departure that was cancelled is still a row of its table."""
    markup = (
        "<table><tr style='text-decoration: line-through'><td>12/05</td><td>100 €</td></tr><tr><td>19/05</td><td>"
        "90 €</td></tr></table>"
    )
    rows = {"each": {"css": "tr"}, "many": True, "fields": {"day": {"css": "td"}, "price": _price("td:nth-child(2)")}}
    assert [row["price"]["amount"] for row in _fields(markup, {"rows": rows})["rows"]] == ["100", "90"]


def test_a_body_does_not_state_a_struck_price_even_if_there_is_no_other() -> None:
    page = parse_markup(
        "<main><h1>Lamp</h1><p>A lamp of brass for the table, made by hand.</p><p><del>$20</del> Sold out</p></main>"
    )
    assert "20" not in html_to_markdown(markup_of(page), "main")
