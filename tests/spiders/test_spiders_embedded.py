"""Data inside pages: what `from` finds, and that nothing a page does to its scripts is more than nothing found."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.items import Page
from almanac.spiders.mapping.fields import FieldReading, FieldScope, read_field, read_fields
from almanac.spiders.reading.content import Content, parse_json
from almanac.spiders.selecting.embedded import find
from almanac.spiders.selecting.scripts import named_data
from tests.growth import assert_comparable, assert_linear


def page(body: str, **keys: Any) -> Content:
    return Content(Page(url="http://x.test/p", body=body.encode(), content_type="text/html; charset=utf-8", **keys))


def value_of(content: Content, **declared: Any) -> Any:
    return read_field("f", FieldRule.model_validate(declared), FieldScope(None, content, "en")).value


def script(text: str, name: str) -> Any:
    return named_data([(None, text)], name)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('window.data = {"a": 1};', "window.data", {"a": 1}),
        ("var data=[{a:1,},];", "data", [{"a": 1}]),
        ("const\tdata\n= {a: .5, b: 0x10, c: 'it\\'s', d: undefined, e: !0, f: NaN} // end", "var data",
         {"a": 0.5, "b": 16, "c": "it's", "d": None, "e": True, "f": None}),
        ("window['__S__']={u:'http://x//y', \"k\": \"he said 'x'\"}", "__S__", {"u": "http://x//y",
        "k": "he said 'x'"}),
        ('window.__S__ = JSON.parse("{\\"a\\": \\"\\\\u00e9\\"}")', "window.__S__", {"a": "é"}),
        ("window.__S__ = JSON.parse('{\"a\":\"it\\'s\"}')", "__S__", {"a": "it's"}),
        ("app.state = {a:'\\x41'}", "app.state", {"a": "A"}),
        ("window.d = window.d || {}; d.rows = [1]; d['k'] = 'v'; d.rows.push({b: 2}); d.deep.er = true", "d",
         {"rows": [1, {"b": 2}], "k": "v", "deep": {"er": True}}),
        ("let price = 12.50; other = 3", "price", 12.5),
        ("title = 'a \\u201cb\\u201d';", "title", "a “b”"),
        ("/* d = 1; */ // d = 2\n'd = 3'; d = [4]", "d", [4]),
        ("re = /['\"]/;\nd = {a: 1}", "d", {"a": 1}),
        ("d = load({a: 1}); d = {ok: 1}", "d", {"ok": 1}),
        ("d = {a: 1}; function f(d = {}) {}", "d", {"a": 1}),
        ("var u = /https?:\\/\\//.test(x); var d = {a: 1};", "d", {"a": 1}),
        ("var u=/[\"/]/.test(x);var d={a:1};var z=\"q\"", "d", {"a": 1}),
        ("x = 4 / 2; d = {a: 1}; y = 3 / 1", "d", {"a": 1}),
        ("d = {}; d.a.b.push(1)", "d", {"a": {"b": [1]}}),
        ("d = Object.freeze({a: '\\u{1F600}\\u{e9}\\\\u{41}'})", "d", {"a": "😀é\\u{41}"}),
        ("mydata = {a: 1}; x.data = {a: 2}; if (data == {}) {}; data => ({})", "data", None),
        ("data = {a: [1, 2", "data", None),
        ("data = function() { return {a: 1} }", "data", None),
    ],
)  # fmt: skip
def test_assigned_data_is_read_without_being_run(text: str, name: str, value: Any) -> None:
    assert script(text, name) == value


def test_script_element_is_found_by_its_id() -> None:
    scripts = [(None, "var __NEXT_DATA__ = {a: 1}"), ("__NEXT_DATA__", '{"b": 2}')]
    assert named_data(scripts, "__NEXT_DATA__") == named_data(scripts, "#__NEXT_DATA__") == {"b": 2}
    assert named_data(scripts[:1], "#__NEXT_DATA__") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "piece", "end", "count"),
    [
        ("", "'", "data={a:1", 100_000),
        ("", "/*", "", 200_000),
        ("", "data.a ", "", 50_000),
        ("data", ".a", "", 100_000),
        ("data=", "[", "", 200_000),
        ("data={a:'", "x\\'", "", 100_000),
        ('x="', '\\"', "", 200_000),
        ("", 'data="\\"', "", 50_000),
        ("", "=/[", "", 200_000),
        ("data; ", "/* ", "", 80_000),
        ("data; ", "`\\", "", 80_000),
        ("data; ", "JSON.parse(", "", 50_000),
        ("data; var data = JSON.parse(", "JSON.parse(", "", 50_000),
    ],
)
def test_hostile_script_takes_linear_time(start: str, piece: str, end: str, count: int) -> None:
    def read(text: str) -> None:
        assert script(text, "data") is None

    assert_linear(read, lambda pieces: start + piece * pieces + end, count)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["data={a:", "data=["])
def test_openings_that_each_may_hold_the_data_are_tried_up_to_a_limit(piece: str) -> None:
    entries = json.dumps([{"name": f"Item {number}", "price": number} for number in range(10_000)])
    assert_comparable(lambda text: script(text, "data"), piece * 50_000, f"data = {entries};", times=400)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
        lambda t: st.lists(t) | st.dictionaries(st.text(), t),
        max_leaves=10,
    )
)
@example("??")
@example("||")
def test_any_json_in_a_script_is_read_as_it_is(value: Any) -> None:
    assert script(f"x = 1; var data = {json.dumps([value])}; y = 2;", "data") == json.loads(
        json.dumps([value]).encode("utf-8", "replace")
    )


def test_what_describes_the_site_comes_last_and_filters_search_all() -> None:
    content = page(
        '<script type="application/ld+json">[{"@type": "Organization", "name": "Shop"}, {"@type": "Product", '
        '"name": "Anvil", "sku": "A"}]</script>'
        '<script type="application/ld+json">{"@type": "Product", "name": "Hammer", "sku": ""}</script>'
    )
    assert value_of(content, json="name", **{"from": "json-ld"}) == "Anvil"
    assert value_of(content, json="sku", **{"from": "json-ld"}) == "A"
    assert value_of(content, json="""[?"@type"=='Product'].name""", many=True, **{"from": "json-ld"}) == [
        "Anvil",
        "Hammer",
    ]
    assert value_of(content, json="""[?"@type"=='Recipe'].name""", many=True, **{"from": "json-ld"}) == []
    assert [
        node["name"]
        for node in find(content, Selector.model_validate({"json": """[?"@type"=='Product']""", "from": "json-ld"}))[0]
    ] == ["Anvil", "Hammer"]


SHOP = {
    "@type": "Organization",
    "@id": "#org",
    "name": "Smith's",
    "description": "Since 1890",
    "url": "https://x.test/",
    "brand": {"name": "own"},
}
CRUMBS = {"@type": "BreadcrumbList", "itemListElement": [{"@type": "ListItem", "name": "Tools"}]}
ANVIL = {"@type": "Product", "@id": "#p", "name": "Anvil", "offers": {"@id": "#o"}}
OFFER = {"@type": "Offer", "@id": "#o", "price": "39.00", "priceCurrency": "EUR"}


def readings_of(things: Any, **rules: str | dict[str, Any]) -> dict[str, FieldReading]:
    content = page(f"<script type='application/ld+json'>{json.dumps(things)}</script>")
    declared = {
        name: {"from": "json-ld", **(rule if isinstance(rule, dict) else {"json": rule})}
        for name, rule in rules.items()
    }
    return read_fields(
        {name: FieldRule.model_validate(rule) for name, rule in declared.items()}, FieldScope(None, content, "en")
    )


@pytest.mark.parametrize(
    "hold", [lambda things: things, lambda things: {"@context": "https://schema.org", "@graph": things}]
)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_fields_of_a_record_come_from_one_thing(order: tuple[int, ...], hold: Any) -> None:
    things = [SHOP, CRUMBS, ANVIL, OFFER]
    read = readings_of(
        hold([things[at] for at in order]),
        name="name",
        price="offers.price",
        about="description",
        crumb="itemListElement[0].name",
    )
    assert {name: reading.value for name, reading in read.items()} == {
        "name": "Anvil",
        "price": "39.00",
        "about": None,
        "crumb": None,
    }
    assert read["name"].thing == read["price"].thing == f"Product, {1 + order.index(2)} of 4"
    advice = "and {} has this one: where that is meant, write [?\"@type\"=='{}'] | [0] | {}"
    assert str(read["about"].note).endswith(advice.format("Organization", "Organization", "description"))
    assert str(read["crumb"].note).endswith(
        advice.format("BreadcrumbList", "BreadcrumbList", "itemListElement[0].name")
    )
    named = readings_of(hold(things), name="name", crumb=str(read["crumb"].note).partition("write ")[2])
    assert (named["name"].value, named["crumb"].value, named["crumb"].thing) == ("Anvil", "Tools", None)


def test_thing_with_the_required_fields_counts_before_one_with_more_fields() -> None:
    event = {"@type": "Event", "name": "Fair", "startDate": "2026-05-01"}
    fields: dict[str, Any] = {"name": "name", "about": "description", "brand": "brand.name"}
    offer = {"@type": "Product", "name": "Vice", "description": "Steel", "brand": {"name": "Voss"}}
    assert readings_of([offer, event], **fields, start="startDate")["name"].value == "Vice"
    assert readings_of([offer, event], **fields, start={"json": "startDate", "required": True})["name"].value == "Fair"
    missing = readings_of(
        [offer, SHOP], name="name", link={"json": "sameAs", "required": True}, url={"json": "url", "required": True}
    )
    assert (missing["name"].value, missing["url"].value, missing["link"].problem) == (
        "Smith's",
        "https://x.test/",
        "required field is missing",
    )


def test_objects_of_one_id_and_type_are_one_thing() -> None:
    rated = {"@type": "Product", "@id": "#p", "name": "other name", "aggregateRating": {"ratingValue": 4.5}}
    read = readings_of([ANVIL, OFFER, rated], name="name", price="offers.price", rating="aggregateRating.ratingValue")
    assert [reading.value for reading in read.values()] == ["Anvil", "39.00", 4.5]
    assert (
        readings_of([{"@type": "WebPage", "@id": "#p", "name": "Page"}, ANVIL], name="name", price="offers")[
            "name"
        ].value
        == "Anvil"
    )


def test_several_things_with_as_many_fields_are_told() -> None:
    things = [{"@type": "Product", "name": name, "sku": name.lower()} for name in ("Anvil", "Vice")]
    read = readings_of(things, name="name", sku="sku")
    assert [reading.value for reading in read.values()] == ["Anvil", "anvil"]
    assert read["sku"].thing == "Product, 1 of 2 (the first of 2 that hold as many of the fields)"


def test_nested_fields_come_from_the_thing_of_their_record() -> None:
    things = [
        {"@type": "Review", "name": "Fine", "offers": None, "brand": {"name": "x"}},
        {**ANVIL, "sku": "A", "brand": {"name": "Voss"}},
    ]
    nested = {"each": {"json": "brand", "from": "json-ld"}, "fields": {"name": {"json": "name"}}}
    content = page(f"<script type='application/ld+json'>{json.dumps(things)}</script>")
    rules = {"sku": {"json": "sku", "from": "json-ld"}, "name": {"json": "name", "from": "json-ld"}, "brand": nested}
    read = read_fields(
        {name: FieldRule.model_validate(rule) for name, rule in rules.items()}, FieldScope(None, content, "en")
    )
    assert [reading.value for reading in read.values()] == ["A", "Anvil", {"name": "Voss"}]
    assert read["brand"].thing == "Product, 2 of 2"


def test_item_that_is_a_thing_is_read_from_itself() -> None:
    things = [{"@type": "Product", "name": name, "offers": {"@id": f"#{name}"}} for name in ("Anvil", "Vice")]
    offers = [{"@type": "Offer", "@id": f"#{name}", "price": price} for name, price in (("Anvil", 5), ("Vice", 6))]
    content = page(f"<script type='application/ld+json'>{json.dumps([*things, *offers])}</script>")
    (nodes,) = find(content, Selector.model_validate({"json": """[?"@type"=='Product']""", "from": "json-ld"}))
    rules = {
        name: FieldRule.model_validate({"json": path, "from": "json-ld"})
        for name, path in (("name", "name"), ("price", "offers.price"))
    }
    read = [read_fields(rules, FieldScope(node, content, "en")) for node in nodes]
    assert [[reading.value for reading in fields.values()] for fields in read] == [["Anvil", 5], ["Vice", 6]]


def test_microdata_of_two_things_is_not_mixed() -> None:
    markup = ("<div itemscope itemtype='https://schema.org/BreadcrumbList'><b itemprop=name>Tools</b></div>"
              "<div itemscope itemtype='https://schema.org/Product'><b itemprop=name>Anvil</b><i " "itemprop=price>5</i></div>")  # fmt: skip  # noqa: E501
    rules = {name: FieldRule.model_validate({"json": name, "from": "microdata"}) for name in ("name", "price")}
    read = read_fields(rules, FieldScope(None, page(markup), "en"))
    assert [(reading.value, reading.thing) for reading in read.values()] == [
        ("Anvil", "Product, 2 of 2"),
        ("5", "Product, 2 of 2"),
    ]


def test_several_products_of_a_page_are_not_each_of_its_cards() -> None:
    cards = "<div class=c><h2>A</h2></div><div class=c><h2>B</h2></div>"
    things = '[{"@type": "Product", "name": "A", "brand": "X"}, {"@type": "Product", "name": "B", "brand": "X"}]'
    content = page(f'<script type="application/ld+json">{things}</script>{cards}')
    scopes = [FieldScope(node, content, "en") for node in content.selector.css(".c")]
    for name, values in (("name", [None, None]), ("brand", ["X", "X"])):
        rule = FieldRule.model_validate({"json": name, "from": "json-ld"})
        assert [read_field("f", rule, scope).value for scope in scopes] == values
        (read,) = read_fields({"f": rule}, scopes[1]).values()
        assert (read.thing, read.note and "differ" in read.note) == (
            (None, True) if name == "name" else ("Product, 1 of 2", None)
        )


def test_thousands_of_cards_beside_as_many_things_take_linear_time() -> None:
    rule = FieldRule.model_validate({"json": "name", "from": "json-ld"})

    def cards(count: int) -> list[FieldScope]:
        things = json.dumps([{"@type": "Product", "name": f"Kettle {number}"} for number in range(count)])
        content = page(f"<script type='application/ld+json'>{things}</script>{'<p>A</p>' * count}")
        return [FieldScope(node, content, "en") for node in content.selector.css("p")]

    assert_linear(lambda scopes: [read_fields({"f": rule}, scope) for scope in scopes], cards, 150)


@pytest.mark.parametrize(("offers", "price"), [('{"price": 5}', 5), ('[{"price": 6}, {"price": 7}]', 6)])
@pytest.mark.parametrize("expression", ["offers.price", "offers[0].price"])
def test_one_thing_and_a_list_of_one_are_the_same(offers: str, price: int, expression: str) -> None:
    content = page(f'<script type="application/ld+json">{{"@type": "Product", "offers": {offers}}}</script>')
    assert value_of(content, json=expression, **{"from": "json-ld"}) == price


_PRODUCTS = [
    {"@type": "Product", "name": "Lampe de chevet", "sku": "L1", "offers": {"@type": "Offer", "price": "9.50"}},
    {"@type": "Product", "name": "Đèn ngủ", "sku": "Đ2", "offers": {"@type": "Offer", "price": "120000"}},
]


@pytest.mark.parametrize("product", _PRODUCTS)
@pytest.mark.parametrize(
    "hold",
    [
        lambda thing: {"@type": "WebPage", "name": "Page", "mainEntity": thing},
        lambda thing: {"@type": "WebPage", "name": "Page", "mainEntity": [{"@id": "#other"}, thing]},
        lambda thing: {"@type": "WebPage", "name": "Page", "mainEntity": {"@type": "ItemPage", "mainEntity": thing}},
        lambda thing: {"@type": "Thing", "mainEntityOfPage": thing},
        lambda thing: {
            "@graph": [
                {"@type": "WebSite", "name": "Shop"},
                {"@type": "WebPage", "name": "Page", "mainEntity": {"@graph": [thing]}},
            ]
        },
        lambda thing: {"@graph": [{"@type": "WebSite", "name": "Shop"}, {"@graph": [{"@graph": [thing]}]}]},
        lambda thing: {
            "@graph": [
                {"@type": "WebPage", "name": "Page", "mainEntity": {"@id": "#p"}},
                {"@type": "Thing", "mainEntity": {**thing, "@id": "#p"}},
            ]
        },
        lambda thing: {
            **thing,
            "mainEntityOfPage": {"@type": "WebPage", "@id": "http://x.test/p", "sku": "of the page"},
        },
    ],
)
def test_what_a_page_is_about_is_found_wherever_it_is_held(product: Any, hold: Any) -> None:
    content = page(f"<script type='application/ld+json'>{json.dumps(hold(product))}</script>")
    assert value_of(content, json="sku", **{"from": "json-ld"}) == product["sku"]
    assert value_of(content, json="offers.price", **{"from": "json-ld"}) == product["offers"]["price"]
    assert value_of(content, json="""[?"@type"=='Product'] | [0].name""", **{"from": "json-ld"}) == product["name"]
    (nodes,) = find(content, Selector.model_validate({"json": """[?"@type"=='Product']""", "from": "json-ld"}))
    assert [node["sku"] for node in nodes] == [product["sku"]]


def test_what_a_page_says_of_itself_comes_before_what_it_is_about() -> None:
    data = {
        "@type": "FAQPage",
        "name": "Fragen",
        "mainEntity": [{"@type": "Question", "name": "Wann?"}, {"@type": "Question", "name": "Wo?"}],
    }
    content = page(f"<script type='application/ld+json'>{json.dumps(data)}</script><div class=card>x</div>")
    assert value_of(content, json="name", **{"from": "json-ld"}) == "Fragen"
    card = content.selector.css(".card")[0]
    assert find(content, Selector.model_validate({"json": "name", "from": "json-ld"}), card) == ["Fragen"]
    assert find(content, Selector.model_validate({"json": "acceptedAnswer", "from": "json-ld"}), card) == []
    microdata = page("<div itemscope itemtype='https://schema.org/WebPage'><div itemprop=mainEntity itemscope " "itemtype='https://schema.org/Product'>"
                     "<b itemprop=sku>L1</b></div></div>")  # fmt: skip
    assert value_of(microdata, json="sku", **{"from": "microdata"}) == "L1"


@pytest.mark.parametrize("origin", ["json-ld", "microdata", "opengraph", {"script": "data"}])
def test_page_without_such_data_has_no_match(origin: Any) -> None:
    for body in (
        "",
        "<p>text</p>",
        "<script>data = {</script><script type='application/ld+json'>{</script><p itemscope itemref='x'><b id=x "
        "itemscope itemprop=y itemref='x'>",
    ):
        assert value_of(page(body), json="name", default="none", **{"from": origin}) == "none"


def test_embedded_data_is_read_once_for_a_page() -> None:
    content = page('<script type="application/ld+json">{"a": {"b": 1}}</script>')
    where = Selector.model_validate({"json": "a", "from": "json-ld"})
    assert find(content, where)[0] is find(content, where)[0]


def test_header_row_is_no_entry_where_a_constant_stands_beside_what_is_read() -> None:
    amount = {"css": "td:nth-child(2)", "type": "price", "required": True}
    fields = {"who": {"css": "td"}, "amount": amount, "market": {"const": "VN"}}
    table = page("<table><tr><th>Who<th>Price</tr><tr><td>Adult<td>£5</tr></table>")
    prices = value_of(table, each={"css": "tr"}, many=True, fields=fields)
    assert prices == [{"who": "Adult", "amount": {"amount": "5", "currency": "£"}, "market": "VN"}]


def test_json_nested_without_end_is_no_json() -> None:
    assert parse_json('{"a": ' + "[" * 90 + "]" * 90 + "}")
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json('{"a": ' + "[" * 500 + "]" * 500 + "}")
