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
    '<div class="price price--on-sale"><div class="price__sale"><span class="visually-hidden">Regular price</span>'
    "<span>"
    '<s class="price-item price-item--regular">'
    '$20.00 USD</s></span><span class="visually-hidden">Sale price</span><span class="price-item '
    'price-item--sale">$15.00 USD</span></div></div>'
)
SHOPIFY_LIST = (
    '<div class="price-list"><span class="price price--compare"><span class="visually-hidden">Regular price</span>'
    "$20.00</span>"
    '<span class="price price--highlight"><span class="visually-hidden">Sale price</span>$15.00</span></div>'
)
MAGENTO = (
    '<div class="price-box"><p class="old-price"><span class="price-label">Regular Price:</span> <span '
    'class="price" id="old-price-1">$20.00</span></p>'
    '<p class="special-price"><span class="price-label">Special</span> <span class="price">$15.00</span></p></div>'
)
AMAZON = (
    '<div class="p"><span class="a-price a-text-price" data-a-strike="true"><span class="a-offscreen">$20.00</span>'
    '<span aria-hidden="true">$20.00</span></span>'
    '<span class="a-price"><span class="a-offscreen">$15.00</span><span aria-hidden="true">$15<sup>00</sup>'
    "</span></span></div>"
)


@pytest.mark.parametrize(
    ("markup", "css"),
    [
        (WOOCOMMERCE, ".price"),
        (WOOCOMMERCE, ".amount"),
        (SHOPIFY, ".price"),
        (SHOPIFY, ".price-item"),
        (SHOPIFY_LIST, ".price-list"),
        (SHOPIFY_LIST, ".price"),
        (MAGENTO, ".price-box"),
        (MAGENTO, ".price"),
        (AMAZON, ".p"),
        (AMAZON, ".a-offscreen"),
        ('<p class="p"><span style="color: red; text-decoration: line-through">$20</span> $15.00</p>', ".p"),
        ('<p class="p"><span class="text-sm line-through">$20</span> <span>$15.00</span></p>', ".p"),
        (
            '<p class="p"><span class="sr-only">Was</span> <span>$20</span> <span class="sr-only">Now</span> '
            "<span>$15.00</span></p>",
            ".p",
        ),
        (
            '<style>.sale .a { text-decoration: line-through }</style><p class="sale"><b class="a">$20</b> <b '
            'class="b">$15.00</b></p>',
            ".sale",
        ),
        (
            '<style>.sale .a { text-decoration: line-through }</style><p class="sale"><b class="a">$20</b> <b '
            'class="b">$15.00</b></p>',
            ".sale b",
        ),
        ('<p><span class="p"><del>$20</del></span> <span class="p">$15.00</span></p>', ".p"),
        ('<p><span class="p">Was <s>$20</s></span> <span class="p">$15.00</span></p>', ".p"),
        (
            '<style>.a { text-decoration: line-through }</style><p><i class="p"><b class="a">$20</b></i> <i '
            'class="p">$15.00</i></p>',
            ".p",
        ),
        ('<div hidden><b class="p">$3</b></div><p><b class="p"><del>$20</del></b> <b class="p">$15.00</b></p>', ".p"),
    ],
)
def test_the_price_is_the_current_one(markup: str, css: str) -> None:
    """For a price, for a list of prices, and in texts, fields of HTML and bodies."""
    page = f"<main><h1>Lamp</h1><p>A lamp of brass for the table, made by hand.</p>{markup}</main>"
    found = _fields(
        page,
        {"one": _price(css), "all": _price(css, many=True), "text": {"css": css}, "html": {"css": css, "type": "html"}},
    )
    price = {"amount": "15.00", "currency": "$"}
    assert (found["one"], found["all"]) == (price, [price])
    body = html_to_markdown(markup_of(parse_markup(page)), "all")
    assert all("15.00" in text and "20" not in text for text in (found["text"], found["html"], body))


@pytest.mark.parametrize(
    ("markup", "css", "language", "amount"),
    [
        ("<div class='gia'><del>1.290.000</del> <ins>990.000</ins> VNĐ</div>", ".gia", "vi", "990000"),
        (
            "<div class='gia'><span class='gia-cu'>1.290.000₫</span> <strong>990.000₫</strong></div>",
            ".gia",
            "vi",
            "990000",
        ),
        (
            "<p class='x'><span class='sr-only'>Prix barré :</span> <b>59,00 €</b> <span class='sr-only'>Prix "
            ":</span> <b>39,00 €</b></p>",
            ".x",
            "fr",
            "39.00",
        ),
        ("<p class='x'><span>statt</span> <s>59,00 €</s> <b>39,00 €</b></p>", ".x", "de", "39.00"),
        ("<p class='x'><s>￥5,800（税込）</s> ￥3,980（税込）</p>", ".x", "ja", "3980"),
        ("<p class='x'><del>5 990 ₽</del> 3 990 ₽</p>", ".x", "ru", "3990"),
    ],
)
def test_prices_of_other_languages(markup: str, css: str, language: str, amount: str) -> None:
    assert _fields(markup, {"price": _price(css)}, language)["price"]["amount"] == amount


def test_a_rule_that_asks_for_the_old_price_reads_it() -> None:
    assert _fields(WOOCOMMERCE, {"old": _price("del"), "new": _price("ins")})["old"]["amount"] == "20.00"
    fields = {"old": _price(".old-price"), "inner": _price(".old-price .price"), "text": {"css": ".old-price"}}
    found = _fields(MAGENTO, fields)
    assert (found["old"]["amount"], found["inner"]["amount"], found["text"]) == (
        "20.00",
        "20.00",
        "Regular Price: $20.00",
    )
    assert _fields("<p class=before>Was <s>$20</s></p>", {"old": _price(".before")})["old"]["amount"] == "20"


def test_a_class_alone_does_not_make_the_only_price_an_old_one() -> None:
    markup = (
        '<p class="regular-price original-price"><span class="price-label">Regular Price</span> <span '
        'class="price">$59</span></p>'
    )
    assert _fields(f"<div>{markup}</div>", {"price": _price("div")})["price"]["amount"] == "59"


def test_struck_text_that_is_no_price_stays() -> None:
    markup = "<ul><li><s>Buy milk</s></li><li><del>Call 3 people about the tour</del> done</li></ul>"
    assert _fields(markup, {"todo": {"css": "ul"}}) == {"todo": "Buy milk Call 3 people about the tour done"}


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
