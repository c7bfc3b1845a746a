"""Blocks that most pages of a site have at the same place are left out of their texts, counted, and nothing else is."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from almanac.schemas.items import Item
from almanac.schemas.left_out import LeftOut
from almanac.transforms.html.blocks_beside import marked_page
from almanac.transforms.html.edges import Edges, edges_of
from almanac.transforms.html.page import html_to_markdown
from almanac.transforms.page_furniture import LEAST, PageFurniture

_MENU = ["Home", "About", "Documentation", "Download", "License", "Support"]
_RIVERS = [
    f"{river} river"
    for river in (
        "Adige",
        "Brenta",
        "Cher",
        "Drau",
        "Ems",
        "Fulda",
        "Gail",
        "Havel",
        "Inn",
        "Jagst",
        "Kocher",
        "Lahn",
        "Main",
        "Oder",
    )
]

Page = tuple[Item, Edges]


def _page(url: str, html: str, text: str | None = None, workspace: str = "") -> Page:
    """A page as a run notes it: of the text given, or with its main text."""
    text = html_to_markdown(html, "main") if text is None else text
    item = Item(
        "docs",
        "document",
        url,
        f"http://127.0.0.1{url}",
        url,
        text,
        {},
        {"tenant": workspace},
        "raw",
        "2026-01-01T00:00:00+00:00",
    )
    return item, edges_of(marked_page(html))


def _texts(
    pages: list[Page], left_out: LeftOut | None = None, workspace: str | None = None, *, keeps_one: bool = False
) -> dict[str, str]:
    """The texts without furniture; with `keeps_one`, as a run leaves them, each block of it stays in one."""
    furniture = PageFurniture(workspace)
    for item, edges in pages:
        furniture.note(item, edges)
    furniture.settle()
    for item, edges in pages if keeps_one else ():
        furniture.spare(item, edges)
    bare = [(furniture.without(item, edges, left_out), edges) for item, edges in pages]
    assert all(furniture.without(item, edges) == item for item, edges in bare)  # once is enough
    return {item.document_id: item.text for item, _ in bare}


def _prose(seed: object, sentences: int = 3) -> str:
    dice = random.Random(str(seed))
    rivers = [dice.sample(_RIVERS, 3) for _ in range(sentences)]
    return " ".join(
        f"The {first} carries {dice.randrange(10**6)} barges from the {second} to the {third}."
        for first, second, third in rivers
    )


def _site(page: str, content: str, tagline: str = "Deep. Wide. Navigable. Take any two.") -> str:
    """A page of a site without <header> or <nav>: a logo, a tagline, a menu in which the page itself is no link, a form
    to search by, the content.
    """
    menu = "".join(
        f"<li>{name}" if name == page else f"<li><a href='/{name.lower()}.html'>{name}</a>" for name in _MENU
    )
    search = (
        "<form><select name=s><option>Search Documentation<option>Search Changelog</select><input name=q><input "
        "type=submit value=Go></form>"
    )
    return f"""<html><head><title>{page}</title></head><body><div class=nosearch><a href="/index.html"><img alt="Rivers" src="/logo.gif"></a>
    <div class="tagline">{tagline}</div><div class="bar mainmenu"><ul>{menu}</ul></div><div class="searchmenu" id="s">{search}</div></div>
    <div class=fancy><div class=fancy_title>{page}</div></div>{content}</body></html>"""  # noqa: E501


@pytest.mark.slow
def test_a_header_in_boxes_is_left_out_of_each_page_of_a_site_and_counted() -> None:
    pages, own = [], {}
    for number, name in enumerate([*_MENU, *_RIVERS]):
        rest = (
            f"<pre>int sail({number});</pre><p>{_prose(name)}</p>"
            if number % 2
            else f"<p>{_prose(name)}</p><ul><li>{_prose(1)}<li>{_prose(2)}</ul>"
        )
        pages.append(_page(f"/{name}.html", _site(name, f"<h2>{number}. Overview</h2>{rest}")))
        code, items = (
            f"```\nint sail({number});\n```\n\n{_prose(name)}",
            f"{_prose(name)}\n\n- {_prose(1)}\n- {_prose(2)}",
        )
        own[f"/{name}.html"] = (
            f"{name}\n\n## {number}. Overview\n\n{code}" if number % 2 else f"## {number}. Overview\n\n{items}"
        )
    # a page alone does not tell
    assert all(item.text.startswith("Deep. Wide. Navigable. Take any two.\n\n") for item, _ in pages)
    left_out = LeftOut()
    assert _texts(pages, left_out) == own
    search = len("Search DocumentationSearch Changelog")
    assert left_out == {
        "page_furniture": {"blocks": 40, "characters": 20 * len("Deep. Wide. Navigable. Take any two.") + 10 * search}
    }


def _shop(number: int, *own: str) -> Page:
    """A page whose text begins and ends where the site's does."""
    blocks = ["Ferry & Sons, shipwrights", *own, "Open Monday to Friday"]
    return _page(f"/boats/{number}", "".join(f"<p>{block}</p>" for block in blocks), "\n\n".join(blocks))


def test_what_differs_from_page_to_page_stays_at_whatever_place_it_stands() -> None:
    own = [(_prose(number), "In stock" if number % 8 else "Sold out") for number in range(30)]
    assert list(_texts([_shop(number, *blocks) for number, blocks in enumerate(own)]).values()) == [
        "\n\n".join(blocks) for blocks in own
    ]


def test_a_sentence_that_all_pages_have_at_varying_places_stays() -> None:
    own = [[_prose(number, 1), _prose((number, 2), 1), _prose((number, 3), 1)] for number in range(30)]
    for number, blocks in enumerate(own):
        blocks.insert(number % 3, "Prices include tax.")
    texts = _texts([_shop(number, *blocks) for number, blocks in enumerate(own)])
    assert [text.count("Prices include tax.") for text in texts.values()] == [1] * 30


@pytest.mark.parametrize("count", [LEAST - 1, LEAST])
def test_few_pages_tell_nothing(count: int) -> None:
    texts = _texts([_shop(number, _prose(number)) for number in range(count)])
    assert ["Open Monday" in text for text in texts.values()] == [count < LEAST] * count


def test_sections_in_folders_have_headers_of_their_own() -> None:
    frames = {
        "en": ("Harbours of the world", "Ask the harbour master"),
        "fr": ("Les ports du monde", "Demandez au capitaine"),
    }
    pages = []
    for language, (header, footer) in frames.items():
        for number in range(12):
            own = _prose((language, number))
            html = f"<div><div>{header}</div><div>{own}</div><div>{footer}</div></div>"
            pages.append(_page(f"/{language}/{number}", html, f"{header}\n\n{own}\n\n{footer}"))
    assert _texts(pages) == {
        f"/{language}/{number}": _prose((language, number)) for language in frames for number in range(12)
    }


def test_pages_of_two_templates_in_one_folder_have_headers_of_their_own() -> None:
    headers = {
        "manual": ["Manual", "Release 4", "For captains"],
        "blog": ["Log book", "From the crew", "Letters welcome"],
    }
    pages = []
    for name, header in headers.items():
        for number in range(40 if name == "blog" else 15):
            own = _prose((name, number))
            html = "".join(f"<div>{block}</div>" for block in (*header, own, "Same port for all"))
            pages.append(_page(f"/?{name}={number}", html, "\n\n".join([*header[number % 2 :], own])))
    assert _texts(pages) == {
        f"/?{name}={number}": _prose((name, number))
        for name in headers
        for number in range(40 if name == "blog" else 15)
    }


def test_pages_that_only_begin_or_end_alike_are_no_group() -> None:
    """Twelve letters of fifty begin with the same words, and twelve pages were changed on the same day."""
    pages = []
    for number in range(50):
        first = "Dear harbour master," if number < 12 else _prose((number, 1), 1)
        last = "Last changed on 3 May" if number > 37 else f"Last changed on {number} June"
        html = f"<div>Letters</div><div>Archive</div><div>Port</div><p>{first}</p><p>{_prose(number)}</p><p>{last}</p>"
        pages.append(_page(f"/{number}", html, f"{first}\n\n{_prose(number)}\n\n{last}"))
    assert _texts(pages) == {item.document_id: item.text for item, _ in pages}


def test_a_heading_stays_with_the_text_below_it() -> None:
    pages, bare = [], {}
    for number in range(20):
        own = "" if number % 2 else "## Of this boat"
        html = (
            f"<h1>Boats</h1><h2>Description</h2>{'<h2>Of this boat</h2>' if own else ''}<p>{_prose(number)}</p>"
            f"<h2>{number} notes</h2><p>Ask us</p>"
        )
        blocks = ["# Boats", "## Description", *([own] if own else []), _prose(number), f"## {number} notes", "Ask us"]
        pages.append(_page(f"/{number}", html, "\n\n".join(blocks)))
        bare[f"/{number}"] = "\n\n".join(blocks[2 if own else 1 :])
    assert _texts(pages) == bare


def test_a_title_that_is_also_an_entry_of_the_menu_stays() -> None:
    pages = []
    for name in _RIVERS[:14]:
        menu = "".join(f"<li><a href='/{river}'>{river}</a>" for river in _RIVERS[:14])
        pages.append(
            _page(f"/{name}", f"<ul>{menu}</ul><div>{name}</div><p>{_prose(name)}</p>", f"{name}\n\n{_prose(name)}")
        )
    assert _texts(pages) == {item.document_id: item.text for item, _ in pages}


def test_a_page_of_nothing_but_furniture_keeps_its_text() -> None:
    pages = [_shop(number, _prose(number)) for number in range(20)]
    html = "<div><div>Ferry & Sons, shipwrights</div><h1>Opening hours</h1><div>Open Monday to Friday</div></div>"
    titled = _page("/hours", html, "# Opening hours\n\nOpen Monday to Friday")
    plain = _page(
        "/all", html.replace("<h1>Opening hours</h1>", ""), "Ferry & Sons, shipwrights\n\nOpen Monday to Friday"
    )
    texts = _texts([*pages, titled, plain])
    assert texts["/hours"] == "# Opening hours\n\nOpen Monday to Friday"
    assert texts["/all"] == "Ferry & Sons, shipwrights\n\nOpen Monday to Friday"


def test_of_what_all_pages_say_one_keeps_each_block_that_is_no_menu() -> None:
    blocks = ["## Included", "Lunch", "Price includes VAT"]
    menu = "".join(
        f"<li><a href='/{name}'>{name}</a>" for name in ("Quiet boats", "Find in the catalogue", "Sign in to order")
    )
    below = "<h2>Included</h2><p>Lunch</p><p>Price includes VAT</p>"
    own = {f"/tours/{number}": _prose(number) for number in range(5, 25)}
    row = "- Quiet boats\n- Find in the catalogue\n- Sign in to order"
    pages = [
        _page(url, f"<ul>{menu}</ul><p>{text}</p>{below}", "\n\n".join([row, text, *blocks]))
        for url, text in own.items()
    ]
    texts = _texts(pages, keeps_one=True)
    assert texts["/tours/5"] == "\n\n".join([_prose(5), *blocks]) and texts["/tours/24"] == _prose(24)
    assert [name for name, text in texts.items() if "Lunch" in text] == ["/tours/5"]
    for order in _orders(pages):
        assert _texts(order, keeps_one=True) == texts


def test_lists_and_tables_are_left_out_whole_or_not_at_all() -> None:
    pages, whole = [], {}
    for number in range(20):
        rows = f"<table><tr><td>Maker</td><td>Ferry</td></tr><tr><td>Length</td><td>{number} m</td></tr></table>"
        text = f"Maker | Ferry\nLength | {number} m\n\n{_prose(number)}"
        pages.append(
            _page(
                f"/{number}",
                f"<ul><li>Boats</li><li>Oars</li></ul>{rows}<p>{_prose(number)}</p>",
                f"- Boats\n- Oars\n\n{text}",
            )
        )
        whole[f"/{number}"] = text
    assert _texts(pages) == whole


def test_workspaces_are_not_compared() -> None:
    html = [f"<div>Port of call</div><p>{_prose(number)}</p>" for number in range(3 * LEAST - 3)]
    pages = [
        _page(f"/{number}", page, f"Port of call\n\n{_prose(number)}", f"team{number % 3}")
        for number, page in enumerate(html)
    ]
    assert all(text.startswith("Port of call") for text in _texts(pages, workspace="tenant").values())
    assert not any(text.startswith("Port of call") for text in _texts(pages).values())


def test_neither_order_nor_one_page_more_changes_the_others() -> None:
    pages = [_shop(number, _prose(number)) for number in range(40)]
    texts = _texts(pages)
    for order in _orders(pages):
        assert _texts(order) == texts
    other = _page("/boats/new", f"<div><p>{_prose('new')}</p></div>", _prose("new"))
    assert _texts([*pages, other]) == {**texts, "/boats/new": _prose("new")}
    assert _texts(pages[1:]) == {name: text for name, text in texts.items() if name != "/boats/0"}


def test_an_item_whose_declared_url_is_none_ends_no_run() -> None:
    html = f"<p>{_prose(1)}</p>"
    item, edges = _page("/a", html)
    assert _texts([(replace(item, url="http://[1/"), edges)] * LEAST) == {"/a": item.text}


def _orders(pages: list[Page]) -> Iterator[list[Page]]:
    for seed in range(3):
        yield random.Random(seed).sample(pages, len(pages))
