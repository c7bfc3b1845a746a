"""What no visitor of a page sees is not read, whatever hides it; what a control opens, or a script brings in, is."""

from typing import Any

import pytest

from almanac.schemas.declaration.source import FilesSource, SiteSource
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Extraction, Page
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.inspect_url import report_page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.selecting.selectors import as_read, element_text
from tests.growth import assert_comparable

URL = "http://x.test/"
SCREEN_READER = "position:absolute;width:1px;height:1px;overflow:hidden;clip:rect(0,0,0,0)"


def page(markup: str) -> Page:
    return Page(url=URL, body=markup.encode(), content_type="text/html; charset=utf-8")


def site(**keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": [URL], **keys})


def mapped(markup: str, **keys: Any) -> Extraction:
    (extraction,) = map_pages([page(markup)], site(**keys), "en")
    return extraction


def fields(markup: str, **rules: Any) -> dict[str, Any]:
    (draft,) = mapped(markup, yields="records", fields=rules).drafts
    return draft.fields


def shown(markup: str) -> str:
    """The text of the page as a visitor sees it."""
    root = as_read(parse_markup(markup).root)
    return element_text(root)


def test_comments_and_instructions_are_no_matches() -> None:
    markup = "<?pi data?><p hidden>no</p><div class=d>one<!-- two --><b>three</b></div><!-- four -->"
    parts: dict[str, Any] = {"xpath": "//div/node()", "many": True}
    assert fields(markup, parts=parts, note={"xpath": "//comment()"}, pi={"xpath": "//processing-instruction()"}) == {
        "parts": ["one", "three"],
        "note": None,
        "pi": None,
    }


@pytest.mark.parametrize(
    "hiding",
    [
        "hidden",
        'hidden="hidden"',
        'style="display:none"',
        'style="color: red; DISPLAY : NONE !important"',
        'style="visibility:hidden"',
        'style="visibility: collapse"',
        'style="font-size:0"',
        'style="font-size: 0px; line-height: 0"',
        'style="font-size:1px"',
        'style="font: 0/0 a"',
        'style="position:absolute;left:-9999px"',
        'style="position:fixed; top: -999em"',
        'style="text-indent:-9999px"',
        'style="margin-left:-10000px"',
        'style="transform: translateX(-9999px)"',
        'style="transform:translate(-200vw, 0)"',
        'style="translate: -9999px"',
        'style="clip-path: inset(50%); position: absolute"',
        f'style="{SCREEN_READER}"',
        'style="width:0;height:0;overflow:hidden"',
        'style="content-visibility:hidden"',
        "popover",
        'class="gone"',
        'class="far"',
        'class="a1 reader"',
        'id="bait"',
    ],
)
@pytest.mark.parametrize("tag", ["p", "span"])
def test_hidden_text_is_in_no_body_and_no_field(hiding: str, tag: str) -> None:
    sheet = (
        f"<style>.gone{{display:none}} .far{{position:absolute;left:-5000px}} .reader{{{SCREEN_READER}}} "
        f"#bait{{visibility:hidden}}</style>"
    )
    markup = (
        f"{sheet}<main><h1>Tour</h1><div class=price>149 <{tag} {hiding}>or <b>199 euros</b></{tag}> euros</div></main>"
    )
    assert shown(markup) == "Tour 149 euros"
    field_values = fields(
        markup,
        text={"css": ".price"},
        html={"css": ".price", "type": "html"},
        texts={"css": ".price ::text", "many": True},
        joined={"xpath": "normalize-space(//div[@class='price'])"},
        bold={"css": ".price b"},
        lines={"css": ".price", "process": ["split"], "many": True},
    )
    texts = [" ".join(str(field_values[name]).split()) for name in ("text", "html", "joined")]
    assert texts == ["149 euros"] * 3 and field_values["bold"] is None and "199" not in str(field_values)
    for body in ("main", "all", {"css": ".price"}):
        (draft,) = mapped(markup, body=body).drafts
        assert draft.body is not None and "149" in draft.body and "199" not in draft.body


@pytest.mark.parametrize(
    "showing",
    [
        "<div style='visibility:hidden'>no<b style='visibility:visible'>199</b></div>",
        "<div style='font-size:0'>no<b style='font-size:16px'>199</b></div>",
        "<link rel=stylesheet href=/x.css><div style='font-size:0'>no<span class=cell>199</span></div>",
    ],
)
def test_a_child_may_undo_what_it_inherits(showing: str) -> None:
    assert shown(f"<p>149</p>{showing}") == "149 199"


@pytest.mark.parametrize(
    ("sheet", "is_shown"),
    [
        (".p{display:none}", False),
        ("p.p{display:none}", False),
        (".q, #x{display:none}", False),
        (".p{display:none} p{display:block}", False),
        ("#x{display:none} .p{display:block}", False),
        (".p{display:none} .p{display:block}", True),
        (".p{display:none !important} .p{display:block}", False),
        (".p{display:none} .box:hover .p{display:block}", False),
        (".p{display:none} .p.on{display:block}", True),
        (".p.on{display:block} .p{display:none}", True),
        (".p{display:none} .t:checked ~ .p{display:block}", True),
        (".p{display:none} @media (min-width: 600px){.p{display:block}}", True),
        (".p{display:none} .box .p{display:none}", False),
        ("@media print{.p{display:none}}", True),
        (".p{display:none} @media print{.p{display:block}}", False),
        (".p{display:none} @media only print, print and (color){.p{display:block}}", False),
        (".p{display:none} @layer print{.p{display:block}}", True),
        (".p{display:none} @media print, screen{.p{display:block}}", True),
        (".p{display:none} p:not(.p){display:block}", False),
        (".p{display:none} p:NOT(.q, :is(.r, .p)){display:block}", False),
        (".p{display:none} .p:not(.q){display:block}", True),
        (".p:not(.on){display:none}", True),
        (".box .p{display:none}", True),
        ("div p:nth-child(2){display:none}", True),
        ("<!-- .p{display:none} -->", False),
        ("/* .p{display:none} */", True),
        (".p{display:none", False),
        (".p{} } .p{display:none}", True),
        (".p{color:red;;:;display:none}", False),
        (".p:hover{display:none}", True),
        (".p::before{display:none}", True),
        ("\x00{}[}]{;(@@@ \\", True),
    ],
)
def test_plain_rules_of_style_elements_hide_unless_another_rule_contradicts(sheet: str, is_shown: bool) -> None:
    assert (
        "199"
        in shown(
            f"<html class=no-js><head><style>{sheet}</style></head><body><div class=box><p id=x class='p on'>"
            "199</p></div>"
        )
    ) is is_shown


@pytest.mark.parametrize("media", ["screen, projection", "only screen", "ALL", "print, Screen", ""])
def test_a_style_element_for_screens_counts(media: str) -> None:
    assert shown(f"<style media='{media}'>.p{{display:none}}</style><p class=p>199</p><p>149</p>") == "149"


def test_a_style_attribute_wins_over_rules_and_loses_to_important_ones() -> None:
    rules = (
        "<style>.a{display:none} .b{display:none!important} [hidden]{display:none} .c{display:block!important}</style>"
    )
    assert (
        shown(
            f"{rules}<p class=a style='display:block'>1</p><p class=b style='display:block'>2</p><p class=c "
            "hidden style='display:none'>3</p>"
        )
        == "1 3"
    )


@pytest.mark.parametrize("attributes", ["media=print", "type=text/x-template", "media='(max-width: 500px)'"])
def test_a_style_element_for_others_does_not_count(attributes: str) -> None:
    assert shown(f"<style {attributes}>p{{display:none}}</style><p>199</p>") == "199"
    assert shown("<noscript><style>p{display:none}</style></noscript><p>199</p>") == "199"


@pytest.mark.parametrize(
    "markup",
    [
        "<details><summary>More</summary><p>ANSWER</p></details>",
        "<style>details:not([open])>p{display:none}</style><details><summary>More</summary><p>ANSWER</p></details>",
        "<button aria-controls=a1>How?</button><div id=a1 style='display:none'>ANSWER</div>",
        "<a href='#a1'>More</a><p>x</p><div id=a1 hidden>ANSWER</div>",
        "<link rel=canonical href='http://x.test/a'><a href='http://x.test/a#a1'>More</a><p>x</p><div id=a1 "
        "hidden>ANSWER</div>",
        "<button data-bs-target='#a1'>More</button><p>x</p><div id=a1 hidden>ANSWER</div>",
        "<button data-target='.a1'>More</button><p>x</p><div class='b a1' hidden>ANSWER</div>",
        "<a data-toggle=tab data-tab='a1'>More</a><p>x</p><div id=a1 hidden>ANSWER</div>",
        "<button onclick=\"toggle('a1')\">More</button><p>x</p><div id=a1 hidden>ANSWER</div>",
        "<a href=\"javascript:show('a1')\">More</a><p>x</p><div id=a1 hidden>ANSWER</div>",
        "<div role=tabpanel style='display:none'>ANSWER</div>",
        "<div hidden=until-found>ANSWER</div>",
        "<button commandfor=d command=show-modal>Sizes</button><dialog id=d>ANSWER</dialog>",
        "<button popovertarget=d>Sizes</button><div popover id=d>ANSWER</div>",
        "<dialog open>ANSWER</dialog>",
        "<button id=b1>More</button><p>x</p><div role=region id=r aria-labelledby=b1 hidden>ANSWER</div>",
        "<style>.t~.c{display:none} .t:checked~.c{display:block}</style><input type=checkbox id=t class=t><label "
        "for=t>Q</label><div class=c>ANSWER</div>",
        "<style>.m ul{display:none} .m:hover ul{display:block}</style><div class=m>Menu<ul><li>ANSWER</ul></div>",
        "<button aria-controls=o>More</button><div id=o hidden><p>x</p><button aria-controls=i>Even more</button>"
        "<p>y</p><p id=i hidden>ANSWER</p></div>",
        "<h3><button>How?</button></h3><div hidden>ANSWER</div>",
        "<button class=q>A</button><div style='display:none'>ANSWER</div><button class=q>B</button><div "
        "style='display:none'>C</div>",
        "<dl><dt>Term</dt><dd hidden>ANSWER</dd></dl>",
        "<div class=q>How do I pay?</div><div class=a style='display:none'>ANSWER</div><div class=q>And "
        "when?</div><div class=a style='display:none'>Now</div>",
        "<ul><li class=c>1</li><li class=c>2</li><li class=c hidden>ANSWER</li></ul><p><button>Show more</button></p>",
    ],
)
def test_what_a_control_opens_stays(markup: str) -> None:
    """In the copy that is read, nothing says any more that it is hidden: what reads it later would believe it."""
    copy = as_read(parse_markup(f"<h1>Title</h1><p>Some text.</p>{markup}").root)
    assert "ANSWER" in element_text(copy)
    assert not copy.xpath(
        "//*[contains(., 'ANSWER')][@hidden and not(@hidden='until-found') or contains(@style, 'none')]"
    )


@pytest.mark.parametrize(
    "markup",
    [
        "<h2>What does it cost?</h2><p hidden>199 euros</p><p>149 euros</p>",
        "<p>What does it cost?</p><p hidden>199 euros</p><p>149 euros</p>",
        "<button>Buy</button><div hidden>199 euros</div>",
        "<h2>Price</h2><p hidden>199 euros</p>",
        "<p>149 euros</p><p hidden>199 euros</p><button>Book</button>",
        "<button aria-controls=x hidden>More</button><p id=x hidden>199 euros</p>",
        "<button aria-controls=x>More</button><div id=x hidden><p>149</p><p style='display:none'>199 euros</p></div>",
        "<a href='#other'>More</a><p id=x hidden>199 euros</p>",
        "<link rel=canonical href='/a'><a href='/b#x'>More</a><p id=x hidden>199 euros</p>",
        "<dialog id=d>199 euros</dialog>",
        "<template><p>199 euros</p></template><noscript>199 euros</noscript>",
        "<style>.q{opacity:0}</style><p class=q>199 euros</p>",
    ],
)
def test_what_nothing_opens_is_hidden_beside_controls_too(markup: str) -> None:
    assert "199" not in shown(f"<h1>Tour</h1><p>Three days in the hills, with a guide.</p>{markup}")


LONG = "<p>" + "A long text about the hills and their people. " * 40 + "</p>"


@pytest.mark.parametrize(
    "markup",
    [
        "<html style='display:none'><body>{}",
        "<style>html,body{{display:none!important}}</style><body>{}",
        "<style amp-boilerplate>body{{visibility:hidden;animation:-amp-start 8s steps(1,end) 0s 1 normal both}}</style>"
        "<noscript><style amp-boilerplate>body{{animation:none}}</style></noscript><body>{}",
        "<html class=async-hide><style>.async-hide{{opacity:0 !important}}</style><body>{}",
        "<style>#app{{opacity:0}}</style><nav>Home Tours</nav><div id=app><main>{}</main></div>",
        "<style>.content{{display:none}}</style><p>Please wait</p><div class=content>{}</div>",
        "<style>[data-aos]{{opacity:0}}</style><h1>T</h1><p>short</p><section data-aos=fade-up>{}</section>",
        "<style>.in{{opacity:0;transition:opacity .5s}}</style><h1>T</h1><section class=in>{}</section>",
        "<style>.wow{{visibility:hidden}}</style><h1>T</h1><section class=wow>{}</section>",
        "<style>.m{{opacity:0;transform:translateY(20px)}}</style><h1>T</h1><section class=m>{}</section>",
        "<style>[v-cloak]{{display:none}}</style><h1>T</h1><section v-cloak>{}</section>",
        "<style>.p{{visibility:hidden}}</style><div class=p><h1>T</h1>{}</div><footer>"
        + "Imprint and contact. " * 30
        + "</footer>",
        "<noscript><div></noscript><h1>T</h1>{}",
        "<style>*{{visibility:hidden}}</style>{}",
    ],
)
def test_hiding_that_scripts_undo_is_not_believed(markup: str) -> None:
    assert "about the hills" in shown(markup.format(LONG))


@pytest.mark.parametrize(
    "style",
    [
        "opacity:0",
        "opacity: 0.0",
        "opacity:0%",
        "opacity:0.001",
        "OPACITY : 0 !important",
        "opacity:0;transform:translateY(20px)",
        "-webkit-transform:translate3d(0, 20px, 0) scale3d(1, 1, 1);opacity:0",
        "opacity:0.001;transform:perspective(1200px) translateY(50px)",
        "opacity:0;visibility:hidden",
        "visibility: hidden; opacity: 0; transition: all .3s",
        "opacity:0;will-change:transform,opacity",
    ],
)
def test_what_a_style_attribute_makes_transparent_is_faded_in_by_scripts(style: str) -> None:
    card = f'<div class=card style="{style}"><h2>Pass</h2><p>It costs 199 euros.</p></div>'
    assert (
        shown(f"<h1>Tours</h1><p>Three days in the hills.</p>{card}")
        == "Tours Three days in the hills. Pass It costs 199 euros."
    )
    assert fields(card, title={"css": "h2"}, price={"css": ".card p"}) == {
        "title": "Pass",
        "price": "It costs 199 euros.",
    }
    (draft,) = mapped(
        f"<nav><a href=/>Home</a></nav>{card}",
        yields="records",
        each={"css": ".card"},
        fields={"title": {"css": "h2"}},
        id="{title}",
    ).drafts
    assert draft.title == "Pass"


@pytest.mark.parametrize(
    "also", ["display:none", "position:absolute;left:-9999px", "font-size:0", "width:0;height:0;overflow:hidden"]
)
def test_what_is_transparent_and_hidden_in_another_way_is_hidden(also: str) -> None:
    assert shown(f'<p>Seen.</p><p style="opacity:0;{also}">199 euros</p>') == "Seen."


@pytest.mark.parametrize(
    "formula", ["<math><mi>x</mi></math>", '<script type="math/tex">x</script>', '<span class="katex">x</span>']
)
def test_a_formula_in_hidden_text_does_not_show_it(formula: str) -> None:
    hiding = "<style>.n{position:absolute;width:1px;height:1px;overflow:hidden;clip:rect(0,0,0,0)}</style>"
    for way in ("hidden", "style='display:none'", "class=n"):
        assert shown(f"{hiding}<p>Seen.</p><div {way}><p>{formula}</p> costs 199 euros</div>") == "Seen."
        assert shown(f"{hiding}<p>Seen.</p><div {way}>{formula}<!-- --> costs 199 euros</div>") == "Seen."


def test_what_is_drawn_for_a_formula_does_not_hide_its_source() -> None:
    for source in ("<math><mi>y</mi></math>", '<script type="math/tex">y</script>'):
        assert shown(f"<p>So <span style='display:none'> {source} </span> is.</p>") == "So y is."


def test_pictures_and_formulas_and_data_are_left_alone() -> None:
    tree = as_read(
        parse_markup(
            "<p>x</p><style>.l{opacity:0}</style><img class=l alt=A><span style='display:none'><math><mi>y</mi>"
            "</math></span>"
        ).root
    )
    assert tree.xpath("//img/@alt") == ["A"] and tree.xpath("//mi")
    data = (
        "<p>x</p><div hidden><input type=hidden name=id value=7><i data-price=9 class=d></i><script id=s "
        'type="application/json">{"n": 1}</script></div>'
    )
    got = fields(
        data,
        value={"css": "input", "attr": "value"},
        price={"css": ".d::attr(data-price)"},
        id={"xpath": "//input/@value"},
        n={"json": "n", "from": {"script": "#s"}},
        raw={"css": "script::text"},
    )
    assert got == {"value": "7", "price": "9", "id": "7", "n": 1, "raw": '{"n": 1}'}


def test_hidden_elements_keep_their_place_for_selectors() -> None:
    row = "<table><tr><td hidden>0</td><td>Huế</td><td style='display:none'>9</td><td>149</td></tr></table>"
    rules = {
        "place": {"css": "td:nth-child(2)"},
        "price": {"xpath": "//td[4]"},
        "all": {"css": "td", "many": True},
        "count": {"css": "td", "process": ["count"]},
    }
    assert fields(row, **rules) == {"place": "Huế", "price": "149", "all": ["Huế", "149"], "count": 2}


def test_what_is_hidden_from_screen_readers_only_is_read_unless_it_repeats_something() -> None:
    assert shown("<p>Price <span aria-hidden=true>149</span></p>") == "Price 149"
    slides = "<i class=s>1</i><i class=s>2</i><i class=s aria-hidden=true>1</i><i class=s aria-hidden=true>3</i>"
    assert fields(slides, each={"css": ".s", "many": True})["each"] == ["1", "2", "3"]


def test_a_title_is_one_that_visitors_see() -> None:
    (draft,) = mapped(
        "<title>Site</title><h1 hidden>Buy cheap</h1><h1>Tour <span style='display:none'>199</span></h1><p>x</p>"
    ).drafts
    assert draft.title == "Tour"


def test_questions_and_answers_are_those_that_visitors_can_open() -> None:
    markup = (
        "<style>.a{display:none}</style><body><main><h3><button aria-controls=a1>How do I pay?</button></h3>"
        "<div id=a1 class=a>By card. <i hidden>Or 199 euros.</i></div>"
        "<h3>What does it cost?</h3><p style='display:none'>199 euros.</p><p>149 euros.</p><div hidden><h3>Is "
        "it 199?</h3><p>Yes.</p></div></main>"
    )
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*", "format": "faq"})
    (extraction,) = map_pages([Page(url="faq.html", body=markup.encode(), content_type="text/html")], source, "en")
    assert [(d.fields["question"], d.fields["answer"]) for d in extraction.drafts] == [
        ("How do I pay?", "By card."),
        ("What does it cost?", "149 euros."),
    ]


def test_a_field_of_html_from_data_is_read_as_visitors_see_it() -> None:
    data = '<script id=s type="application/json">{"d": "<p>149</p><p style=\\"display:none\\">199</p>"}</script>'
    assert fields(data, d={"json": "d", "from": {"script": "#s"}, "type": "html"}) == {"d": "149"}


HIDDEN_CODE = "<h1>T</h1><span class=sku hidden>A12</span>"


def test_a_rule_that_finds_only_hidden_matches_says_so_and_how_to_read_them() -> None:
    (reject,) = mapped(HIDDEN_CODE, yields="records", fields={"sku": {"css": ".sku", "required": True}}).rejects
    assert reject.field == "sku" and reject.breaks == {"sku": "required: true"}
    assert "hidden from visitors (hidden)" in reject.reason and "`hidden: true`" in reject.reason
    (reject,) = mapped(HIDDEN_CODE, body={"css": ".sku"}).rejects
    assert reject.field == "body" and reject.rule == "body: css: .sku" and "hidden from visitors" in reject.reason
    (reject,) = mapped(HIDDEN_CODE, yields="records", each={"css": ".sku"}, fields={"a": {"css": "b"}}).rejects
    assert reject.field == "each" and "hidden from visitors" in reject.reason
    source = site(yields="records", fields={"sku": {"css": ".sku", "required": True}})
    with pytest.raises(NoRecords, match="hidden from visitors"):
        require_matches(source, {"sku": 0}, 1, 1, [page(HIDDEN_CODE)])


def test_a_page_report_notes_what_was_left_out_as_hidden() -> None:
    source = site(yields="records", fields={"sku": {"css": ".sku"}, "none": {"css": ".none"}, "name": {"css": "h1"}})
    (item,) = report_page(page(HIDDEN_CODE), source, URL, "en").items
    note = item.fields["sku"].note
    assert note is not None and "hidden from visitors" in note and not item.fields["sku"].matched
    assert item.fields["none"].note is None and item.fields["name"].note is None


def test_a_hidden_element_is_read_where_the_rule_asks_for_it() -> None:
    sku = {"css": ".sku", "hidden": True}
    assert fields(HIDDEN_CODE, sku=sku, html={**sku, "type": "html"}, text={"css": ".sku::text", "hidden": True}) == {
        "sku": "A12",
        "html": "A12",
        "text": "A12",
    }
    (draft,) = mapped(HIDDEN_CODE, body=sku).drafts
    assert draft.body is not None and "A12" in draft.body
    (draft,) = mapped(HIDDEN_CODE, yields="records", each=sku, fields={"code": {"xpath": ".", "hidden": True}}).drafts
    assert draft.fields == {"code": "A12"}


@pytest.mark.parametrize(
    "rule", [{"json": "a", "hidden": True}, {"url": "(a)", "hidden": True}, {"const": 1, "hidden": True}]
)
def test_only_markup_can_be_hidden(rule: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'hidden' goes with css or xpath"):
        site(yields="records", fields={"f": rule})


@pytest.mark.slow
@pytest.mark.parametrize(
    "markup",
    [
        "<style>" + ".a{display:none}" * 30_000 + "</style>",
        "<style>" + "*{display:none}" * 4_000 + "</style>",
        "<style>.q .a .a .a .a .a .a .z{display:none}</style>" + "<div class=a>" * 200 + "<p class=z>x</p>" * 300,
        "<style>.a ~ .a ~ .q{display:none} p:nth-last-of-type(3n+1){display:none}</style>",
        "<style>div:has(.q){display:none}</style>" + "<div>" * 100,
        "<style>" + ":is(" * 900 + "a" + ")" * 900 + "{display:none} a:not(" + "(" * 20_000 + "</style>",
        "<style>" + "font:" * 50_000 + "@media (" + "0" * 10_000 + "px <= width){.a{display:none}}</style>",
        "<p style='" + "display:none;" * 50_000 + "'>x</p>",
        "".join(f"<a href='#i{n}'>x</a><p id=i{n} hidden>y</p>" for n in range(5_000)),
    ],
)
def test_no_style_sheet_is_costly_or_fails(markup: str) -> None:
    """Plain is a page as long, whose sheet has one rule."""

    def read(root: Any) -> None:
        assert "text" in element_text(as_read(root))

    paragraph = "<p class='a b'>text</p>"
    plain = "<style>.q{display:none}</style>" + paragraph * (2_000 + len(markup) // len(paragraph))
    assert_comparable(read, parse_markup(markup + paragraph * 2_000).root, parse_markup(plain).root, times=100)


def test_the_whole_text_around_a_removed_element_is_kept() -> None:
    assert shown("<p>a<i hidden>x</i>b<i>c</i><i hidden>y</i>d</p><!-- c --><p hidden>z</p>tail") == "abcd tail"


def test_xml_has_no_hidden_elements() -> None:
    root = parse_markup("<r><p hidden='hidden' style='display:none'>x</p></r>", "xml").root
    assert as_read(root) is root
