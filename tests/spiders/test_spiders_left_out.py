"""What is left out of a page on purpose is tallied: by reason, once, and so that it adds up with what is kept."""

from typing import Any

import pytest

from almanac.schemas.declaration.source import FilesSource, SiteSource
from almanac.schemas.items import Page
from almanac.schemas.left_out import LeftOut
from almanac.spiders.mapping.inspect_url import report_page
from almanac.spiders.mapping.pages import map_pages
from almanac.transforms.mapped_pages import Mapped, clean_extraction

URL = "http://x.test/"
_STORY = (
    "The ferry to the island leaves at nine in the morning from the northern pier, and the crossing takes forty "
    "minutes in calm weather."
)
_ASIDE = (
    "Our newsletter tells you once a month what the harbour office has decided, and what the crews have seen on "
    "their trips to the islands."
)


def source(**keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": [URL], **keys})


def mapped(markup: str, **keys: Any) -> Mapped:
    declared = source(**keys)
    (extraction,) = map_pages(
        [Page(url=URL, body=markup.encode(), content_type="text/html; charset=utf-8")], declared, "en"
    )
    return clean_extraction(extraction, declared, "standard", language="en", workspace=None)


def counted(reason: str, *texts: str) -> LeftOut:
    tally = LeftOut()
    for text in texts:
        tally.add(reason, text)
    return tally


@pytest.mark.parametrize("body", ["main", "all"])
@pytest.mark.parametrize(
    ("hidden", "texts"),
    [
        ("<p hidden>Not <b>yet</b>, please.</p>", ["Not yet, please."]),
        (
            "<div style='display:none'><p>One.</p><p hidden>Two.</p></div><p style='font-size:0'>Three.</p>",
            ["One. Two.", "Three."],
        ),
        ("<div style='visibility:hidden'>Out <b style='visibility:visible'>In</b> again</div>", ["Out again"]),
        ("<template><p>Filled in by scripts.</p></template>", ["Filled in by scripts."]),
        ("<p style='opacity:0;transform:none'>Fades in.</p>", []),
    ],
)
def test_hidden_text_of_a_document_is_tallied_once(hidden: str, texts: list[str], body: str) -> None:
    mapped_page = mapped(
        f"<title>T</title><main><h1>Ferry</h1><p>{_STORY}</p>{hidden}<p>{_STORY[::-1]}</p></main>", body=body
    )
    assert mapped_page.left_out == counted("hidden", *texts)


def test_what_is_read_of_a_hidden_body_is_not_left_out() -> None:
    assert (
        mapped(f"<main><p hidden>{_STORY}</p><p>Seen.</p></main>", body={"css": "main", "hidden": True}).left_out == {}
    )


def test_hidden_text_of_records_is_tallied_where_rules_look() -> None:
    card = "<li class=card><h2>Lamp <span hidden>new in</span></h2><p>12 euros</p></li>"
    keys = {
        "each": {"css": ".card"},
        "fields": {"name": {"css": "h2"}, "twice": {"css": "h2"}, "tags": {"css": ".tag", "many": True}},
    }
    page = f"<p hidden>A menu for phones.</p><ul>{card}<li class=card hidden><h2>Bed</h2></li></ul>"
    assert mapped(page, yields="records", id="{name}", **keys).left_out == counted("hidden", "new in", "Bed")


def test_struck_prices_are_tallied() -> None:
    page = "<h1>Lamp</h1><p class=price><del>20 euros</del> <ins>12 euros</ins></p>"
    assert mapped(page, yields="records", fields={"price": {"css": ".price"}}).left_out == counted(
        "struck_prices", "20 euros"
    )
    both = {"price": {"css": ".price *", "type": "price", "many": True}}
    assert mapped(page, yields="records", fields=both).left_out == counted("struck_prices", "20 euros")


def test_annotations_of_characters_are_tallied() -> None:
    page = "<main><h1>駅</h1><p><ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>です</p></main>"
    assert mapped(page, body="all").left_out == counted("ruby", "かんじ")


def test_what_surrounds_a_main_text_adds_up_with_it() -> None:
    around = ["Home Tours Prices", "Legal notes", _ASIDE]
    menu = f"<nav><ul>{''.join(f'<li><a href=/{word}>{word}</a></li>' for word in around[0].split())}</ul></nav>"
    box = f"<div class=page><article><h1>Ferry</h1>{f'<p>{_STORY}</p>' * 4}</article><div><p>{_ASIDE}</p></div></div>"
    mapped_page = mapped(f"<title>T</title>{menu}{box}<footer><p>Legal notes</p></footer>", body="main")
    assert mapped_page.left_out == {**counted("page_furniture", *around[:2]), **counted("prose_beside", _ASIDE)}
    shown = ["Ferry", *[_STORY] * 4, *around]
    assert (
        abs(
            mapped_page.characters
            + sum(amount["characters"] for amount in mapped_page.left_out.values())
            - sum(map(len, shown))
        )
        < 20
    )


def test_a_feed_is_tallied_by_what_it_is() -> None:
    feed = (
        "<rss version='2.0'><channel><title>News</title><item><title>One</title><link>http://x.test/1</link>"
        "</item></channel></rss>"
    )
    declared = source()
    (extraction,) = map_pages([Page(url=URL, body=feed.encode(), content_type="application/rss+xml")], declared, "en")
    assert (extraction.drafts, list(extraction.left_out)) == ([], ["feed"])


def test_what_is_no_pair_of_a_faq_is_tallied() -> None:
    text = (
        "# Boats\n\nAsk us anything.\n\n## When do they leave?\n\nAt nine.\n\n- From the *north* pier\n\n## May "
        "dogs come?\n\n## Where is it?\n\nHere.\n"
    )
    declared = FilesSource.model_validate({"name": "s", "kind": "files", "glob": "*.md", "format": "faq"})
    (extraction,) = map_pages([Page(url="a.md", body=text.encode(), content_type="text/markdown")], declared, "en")
    assert [draft.title for draft in extraction.drafts] == ["When do they leave?", "Where is it?"]
    assert extraction.left_out == counted("no_pair", "Boats", "Ask us anything.", "May dogs come?")


def test_a_page_report_has_the_tally() -> None:
    page = Page(url=URL, body=f"<main><p>{_STORY}</p><p hidden>Later.</p></main>".encode(), content_type="text/html")
    assert report_page(page, source(), URL, "en").model_dump(mode="json")["left_out"] == {
        "hidden": {"blocks": 1, "characters": 6}
    }


def test_more_than_a_tenth_is_much_but_for_what_nobody_misses() -> None:
    left = LeftOut(
        {name: {"blocks": 1, "characters": 112} for name in ("hidden", "page_furniture", "struck_prices", "duplicates")}
    )
    assert left.much(1000) == {"hidden": pytest.approx(0.1007, abs=0.001)} and left.much(2000) == {}


@pytest.mark.parametrize("body", ["main", "all", {"css": "main"}])
def test_what_is_declared_to_be_dropped_is_tallied_and_nothing_reads_it(body: Any) -> None:
    box = "<aside class=news><p>Our newsletter.</p></aside> behind it"
    page = f"<title>T</title><main><h1>Ferry <i>soon</i></h1><p>{_STORY}</p>{box}<p>{_STORY[::-1]}</p></main>"
    mapped_page = mapped(page, body=body, drop=[".news", {"xpath": "//h1/i"}], fields={"news": {"css": ".news"}})
    (item,) = mapped_page.items
    assert (item.title, item.fields) == ("Ferry", {"news": None})
    assert "newsletter" not in item.text and "soon" not in item.text and "behind it" in item.text
    assert mapped_page.left_out == counted("dropped", "Our newsletter.", "soon")


def test_of_records_nothing_is_read_in_what_is_dropped() -> None:
    cards = "<li class=card>A</li><li class='card gone'>B</li>"
    mapped_page = mapped(
        cards, yields="records", each={"css": ".card"}, id="{n}", fields={"n": {"xpath": "."}}, drop=[".gone"]
    )
    assert [item.fields["n"] for item in mapped_page.items] == ["A"]
    assert mapped_page.left_out == counted("dropped", "B")


def test_what_is_dropped_with_an_element_around_it_is_tallied_once() -> None:
    page = f"<main><p>{_STORY}</p><div class=a>Out <p class=a>and in.</p></div></main>"
    mapped_page = mapped(page, drop=[".a", {"xpath": "//dc:creator"}])
    assert [item.text for item in mapped_page.items] == [_STORY]
    assert mapped_page.left_out == counted("dropped", "Out and in.")
    assert mapped(page, drop=["html"]).left_out == counted("dropped", f"{_STORY}Out and in.")


def test_a_report_has_the_links_that_a_crawl_follows_out_of_what_is_dropped() -> None:
    page = Page(url=URL, body=b"<p>A text.</p><nav><a href=/next>On</a></nav>", content_type="text/html")
    assert report_page(page, source(drop=["nav"]), URL, "en").links.first == [f"{URL}next"]


def test_of_markdown_nothing_is_dropped() -> None:
    page = Page(url=URL, body=b"# A\n\n> quoted", content_type="text/markdown")
    (extraction,) = map_pages([page], source(drop=["blockquote"], fields={"q": {"css": "blockquote"}}), "en")
    assert [draft.fields["q"] for draft in extraction.drafts] == ["quoted"] and not extraction.left_out


@pytest.mark.parametrize(
    "selector",
    [
        {"json": "a"},
        {"css": "a", "attr": "href"},
        "a::text",
        "a::attr(href)",
        {"xpath": "//a/text()"},
        {"xpath": "//a/@href"},
        {"xpath": "count(//a)"},
        {"xpath": "string(//a)"},
    ],
)
def test_what_is_dropped_is_an_element(selector: Any) -> None:
    with pytest.raises(ValueError, match="takes css or xpath, which find elements"):
        source(drop=[selector])
