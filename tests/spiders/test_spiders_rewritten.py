"""What of a page's markup is read differently from how it is written: raised numbers, ruby, images."""

from typing import Any

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Draft, Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.mapping.readable import readable_text
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.outline import outline
from almanac.spiders.reading.rewritten import rewritten
from almanac.spiders.selecting.selectors import element_text, markup_of
from almanac.transforms.html.page import html_to_markdown
from tests.growth import assert_comparable, assert_linear


def _draft(markup: str, **keys: Any) -> Draft:
    source = SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys})
    page = Page(url="http://x.test/a", body=markup.encode(), content_type="text/html; charset=utf-8")
    return next(draft for extraction in map_pages([page], source, "en") for draft in extraction.drafts)


def _read(markup: str) -> str:
    return readable_text(markup_of(parse_markup(markup)))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("x<sup>2</sup>, 10<sup>-3</sup>, 10<sup>−3</sup>", "x², 10⁻³, 10⁻³"),
        ("H<sub>2</sub>O, SO<sub>4</sub><sup>2-</sup>, <sup>14</sup>C", "H₂O, SO₄²⁻, ¹⁴C"),
        ("x<sup><i>n</i></sup>, x<sub>i</sub>, 2<sup>n-1</sup>, x<sup>a/b</sup>", "xⁿ, xᵢ, 2ⁿ⁻¹, x^(a/b)"),
        (
            "1<sup>er</sup>, 2<sup>nd</sup>, X<sup>e</sup> siècle, n<sup>o</sup> 5, M<sup>me</sup>, V<sub>max</sub>",
            "1er, 2nd, Xe siècle, no 5, Mme, Vmax",
        ),
        ("Acme<sup>TM</sup>", "Acme™"),
        ("<sup>1</sup>/<sub>2</sub> cup, 2<sup>1</sup>&frasl;<sub>3</sub>", "1/2 cup, 2 1/3"),
        (
            'said<sup><a href="#fn1">1</a></sup>, it<sup id="r" class="reference"><a href="#cite-1">[1]</a></sup>'
            ", so<sup>[2]</sup>",
            "said, it, so",
        ),
        ('said<a href="#fn1"><sup>1</sup></a>, it<sup><a href="/x#note" role="doc-noteref">a</a></sup>', "said, it"),
        ("$19<sup>99</sup>, 12<sup>50</sup> €", "$19.99, 12.50 €"),
        (
            '10<span style="font-size:0.6em;vertical-align:super">11</span>, H<span style="vertical-align: SUB">'
            "2</span>O",
            "10¹¹, H₂O",
        ),
        (
            'X<span style="vertical-align:super">e</span> siècle, 10<sup><span style="vertical-align:super">'
            "6</span></sup>",
            "Xe siècle, 10⁶",
        ),
    ],
)
def test_raised_and_lowered_numbers_are_characters(markup: str, text: str) -> None:
    assert _read(f"<p>{markup}</p>") == element_text(parse_markup(f"<p>{markup}</p>").root) == text


def test_what_the_sheet_of_a_page_raises_is_raised() -> None:
    sheet = "<style>.up, span.c9 { font-size: .7em; vertical-align: super }\n.low{vertical-align:sub} </style>"
    prose = (
        "<p>It holds 4 × 10<span class=c9>11</span> stars and H<span class=low>2</span>O<span class=up>, they "
        "say</span>.</p>"
    )
    price = "<b class=price>$12<i class=up>99</i></b>"
    markup = f"<html><head>{sheet}</head><body><main><h1>Sky</h1>{prose}{price}</main></body></html>"
    fields = {"said": {"css": "p"}, "price": {"css": ".price", "type": "price"}}
    assert _draft(markup, yields="records", fields=fields).fields == {
        "said": "It holds 4 × 10¹¹ stars and H₂O, they say.",
        "price": {"amount": "12.99", "currency": "$"},
    }
    body = _draft(markup, yields="documents", body="all").body or ""
    assert "4 × 10¹¹ stars and H₂O, they say." in html_to_markdown(body, "all")


def test_area_is_a_number_with_a_unit() -> None:
    draft = _draft(
        "<h1>Flat</h1><p>52 m<sup>2</sup></p>", yields="records", fields={"area": {"css": "p", "type": "number"}}
    )
    assert draft.fields == {"area": 52.0}


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<ruby>漢字<rt>かんじ</rt></ruby>です", "漢字です"),
        ("<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rp>(</rp><rt>きょう</rt><rp>)</rp></ruby>", "東京"),
        ("<ruby><rb>中<rt>ㄓㄨㄥ<rb>文<rt>ㄨㄣˊ</ruby>", "中文"),
        ("<ruby>\n 漢\n <rt>かん</rt>\n</ruby>字", "漢字"),
        ("<ruby><rb>漢</rb><rb>字</rb><rtc><rt>かん</rt><rt>じ</rt></rtc></ruby>", "漢字"),
    ],
)
def test_ruby_keeps_its_base_everywhere(markup: str, text: str) -> None:
    draft = _draft(
        f"<h1>{markup}</h1><dl><dt>{markup}</dt><dd>x</dd></dl>",
        yields="documents",
        body="all",
        fields={"name": {"css": "dt"}},
    )
    assert (draft.title, draft.fields) == (text, {"name": text})
    assert html_to_markdown(draft.body or "", "all") == f"# {text}\n\n- {text}: x"
    assert [line.text for line in outline(parse_markup(f"<p>{markup}</p>").root)] == [text]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>Before.</p><img src=a alt='A chart of sales'><p>After.</p>", "Before.\n\nA chart of sales\n\nAfter."),
        ("<p>Press <img src=a alt='the red button'> now.</p>", "Press the red button now."),
        ("<p><img src=a alt='A chart of sales'> Sales rose.</p>", "A chart of sales\n\nSales rose."),
        ("<h2><img src=a alt='Our team'></h2>", "Our team"),
        ("<figure><img src=a alt='A cat'><figcaption>A cat</figcaption></figure>", "A cat"),
        ("<figure><picture><source srcset=b><img src=a alt='A dog in snow'></picture><figcaption>Rex</figcaption>" "</figure>", "A dog in snow\n\nRex"),  # noqa: E501
        ("<a href=/lamp><img src=a alt='Red lamp'> Red lamp</a>", "Red lamp"),
        ("<a href=/lamp><img src=a alt='Red lamp'></a>", "Red lamp"),
        ("<a href=/><img src=a alt='Acme, the shop'></a><p>Text</p>", "Text"),
        ("<p>Hi <img class=emoji width=16 height=16 src=a alt='😀'></p>", "Hi 😀"),
        ("<table><tr><td>Wifi</td><td><img width=16 height=16 src=a alt='Yes'></td></tr></table>", "Wifi | Yes"),
        ("<svg role=img><title>Flow of water</title></svg><p>Text</p>", "Flow of water\n\nText"),
        ("<map name=m><area alt='The north' href=/n></map>", "The north"),
        ("<input type=image alt='Search'>", "Search"),
        ("<video src=a>Your browser cannot play this</video><p>Text</p>", "Text"),
        *[
            (f"<p>Text</p><img src=photos/IMG_2034.jpg {attributes}>", "Text")
            for attributes in (
                "alt=''", "alt=IMG_2034", "alt='IMG_2034.jpg'", "alt='DSC00012'", "alt=image", "alt='Acme logo'",
                "alt=null", "alt='Image 3'", "alt='WhatsApp Image 2024-03-05 at 10.00.00 AM (1)'", "alt=Banner",
                "alt='A dot' width=1 height=1",
                "alt='A line' role=presentation", "alt='A bell' class=icon-bell", "alt='A bell' aria-hidden=true",
                "alt='my_holiday_photo'",
            )
        ],
    ],
)  # fmt: skip
def test_image_gives_its_text(markup: str, text: str) -> None:
    assert _read(f"<div>{markup}</div>") == text


def test_images_are_read_in_bodies_and_only_where_nothing_else_is_in_texts() -> None:
    page = (
        "<main><h1>Sales</h1><p>They rose in all of the regions last year.</p><img src=a alt='A chart of sales'>"
        "<p class=b><img src=l alt='Nike'></p></main>"
    )
    draft = _draft(page, yields="documents", body="main", fields={"brand": {"css": ".b"}, "all": {"css": "main"}})
    assert draft.fields == {"brand": "Nike", "all": "Sales They rose in all of the regions last year."}
    assert "\n\nA chart of sales\n\n" in html_to_markdown(draft.body or "", "main")


def test_selectors_run_on_the_page_as_parsed() -> None:
    """Rewriting makes a copy: what is counted or chosen by its place stays where it is."""
    fields = {"marks": {"css": "sup", "many": True}, "second": {"css": "td:nth-child(2)"}}
    page = "<p>x<sup>2</sup><sup>3</sup></p><table><tr><td class=linenos>1</td><td>x</td></tr></table>"
    assert _draft(page, yields="records", fields=fields).fields == {"marks": ["2", "3"], "second": "x"}


def test_a_page_without_anything_to_rewrite_is_not_copied() -> None:
    page = parse_markup("<body><p class=intro>Text <b>here</b></p></body>")
    assert rewritten(page.root) is page.root


def test_control_characters_do_not_break_a_page() -> None:
    page = parse_markup("<p>x<sup>2</sup>\x01 & y<img src=a alt='a\x02 picture'>\x0bz</p>")
    assert readable_text(markup_of(page)) == "x² & y a picture z"


@pytest.mark.parametrize(
    "markup",
    [
        "<sup>1</sup>/<sub>2</sub>",
        "<p><s>$5</s></p>",
        "<img src=a alt='a b'>",
    ],
)
def test_many_of_a_kind_take_linear_time(markup: str) -> None:
    assert_linear(markup_of, lambda count: parse_markup(f"<body>{markup * count}</body>"), 600)


def test_images_of_one_paragraph_cost_little_more_than_those_of_many() -> None:
    """A little more: each text that is written is joined to the one before."""
    images = [f"w{number}<img src=a alt='Cow number {number}'>" for number in range(3000)]
    assert_comparable(
        markup_of, parse_markup(f"<p>{''.join(images)}</p>"), parse_markup(f"<p>{'</p><p>'.join(images)}</p>")
    )
