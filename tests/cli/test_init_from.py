"""`almanac init --from`: what a page, a feed, an API, a file or a folder is declared as, and that the declaration
reads it. Pages are served on loopback.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from almanac.cli.main import run
from almanac.core.load import load_declaration
from almanac.spiders.proposing.proposal import field_name, pattern_of
from almanac.spiders.proposing.rows_to_fields import type_of
from tests.spiders.conftest import Site, _forked_crawls, loopback_site

__all__ = ["_forked_crawls", "loopback_site"]

_RAIN = "<p>It rains in the hills, and the river rises by a metre within a day; the ferry does not run then.</p>"
_CARD = (
    '<li class="item md:w-1"><h3><a href="/p/{0}">Lamp {0}</a></h3><img src="/i/{0}.jpg">'
    '<span class="price">{0}9,50 €</span></li>'
)
_LISTING = (
    "<html lang='de-AT'><title>Lampen: \"alle\" # ${NAME} {x}</title><nav><ul>"
    + "".join(f"<li class='menu'><a href='/{name}'>{name}</a></li>" for name in ("Heim", "Laden", "Kontakt", "Karte"))
    + "<li class='menu'><a href='http://[domain]'>no URL</a></li>"
    + f"</ul></nav><main><h1>Unsere Lampen</h1><ul>{''.join(map(_CARD.format, '1234'))}</ul>"
    "<a href='/lampen?page=2'>2</a></main>"
)
_DETAIL = (
    "<html lang='de-AT'><main><h1>Lamp {0}</h1><table><tr><th>Höhe</th><td>{0}2 cm</td></tr></table>"
    "<p class='preis'>{0}9,50 €</p><p>Eine Lampe aus Glas, die ein ganzes Zimmer hell macht.</p></main>"
)


def _ld(*things: dict[str, Any], heading: str = "") -> str:
    return f"<html lang='en'><script type='application/ld+json'>{json.dumps(things)}</script><h1>{heading}</h1>{_RAIN}"


_SITE = {"@type": "WebSite", "name": "Shop"}
_PRODUCT = {"@type": ["Product"], "name": "Kettle", "sku": "0012", "offers": {"price": "12.50", "priceCurrency": "EUR"}}
_PAGES = {
    "/lampen": _LISTING,
    **{f"/p/{number}": _DETAIL.replace("{0}", str(number)) for number in range(1, 5)},
    "/shop/kettle": _ld(_SITE, _PRODUCT, heading="Kettle"),
    "/faq": _ld({"@type": "FAQPage", "mainEntity": [
        {"@type": "Question", "name": f"Can I: {what}?", "acceptedAnswer": {"text": "<p>Yes.</p>"}}
        for what in ("swim", "row")
    ]}),
    "/news/flood.html": _ld({"@type": "NewsArticle", "headline": "Flood", "datePublished": "2024-05-03T08:00:00Z",
                             "author": [{"@type": "Person", "name": "Ann"}]}, heading="Flood"),
    "/manual/index.html": f"<h1>Manual</h1>{_RAIN}<a href='a.html'>A</a><a href='b.pdf'>B</a><a href='/'>home</a>",
    "/app": "<div id='root'></div><noscript>Turn on JavaScript</noscript><script src='/app.js'></script>",
    "/drawn": "<div id='root'></div><script>window.tours = [{n: 'A', d: 1}, {n: 'B', d: 2}, {n: 'C', d: 3}]</script>",
    "/api?page=1": {
        "meta": {"next": "/api?page=2"},
        "rows": [{"id": n, "name": f"N{n}", "by": {"name": "A"}, "tags": ["x"]} for n in range(3)],
    },
    "/feed": "<rss version='2.0'><channel><item><link>/news/flood.html</link></item></channel></rss>",
    "/robots.txt": "User-agent: *\nDisallow: /secret\nSitemap: {}/map.xml\n",
    "/map.xml": "<urlset><url><loc>{}/manual/index.html</loc></url></urlset>",
    "/secret": "no",
}  # fmt: skip


@pytest.fixture
def site(loopback_site: Site) -> str:
    for path, page in _PAGES.items():
        text = page.replace("{}/", f"{loopback_site.base}/") if isinstance(page, str) else json.dumps(page)
        kinds = {"/robots.txt": "text/plain", "/api?page=1": "application/json"}
        loopback_site.page(path, text, content_type=kinds.get(path, "text/html; charset=utf-8"))
    return loopback_site.base


@pytest.fixture(autouse=True)
def _captured() -> Iterator[None]:
    with patch("almanac.cli.main.reserve_stdout"):
        yield


Propose = Callable[[str], dict[str, Any]]


@pytest.fixture
def propose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Propose:
    """Proposes a declaration, which `validate` and `test-url` accept; gives its first source and its items on the page
    or file.
    """

    def run_json(*arguments: str) -> Any:
        assert run([*arguments, "--json"]) == 0, capsys.readouterr()
        return json.loads(capsys.readouterr().out)

    def declare(origin: str) -> dict[str, Any]:
        run_json("init", "kb", "--folder", str(tmp_path), "--from", origin, "--allow-private")
        declared = str(tmp_path / "kb.yaml")
        assert run_json("validate", declared)["ok"]
        shown = {} if Path(origin).is_dir() else run_json("test-url", declared, origin)
        assert not shown.get("rejects")
        declaration = load_declaration(declared, env="")
        (tmp_path / "kb.yaml").rename(tmp_path / "last.yaml")
        return {
            "declaration": declaration,
            "keys": declaration.sources[0].model_dump(by_alias=True, exclude_unset=True),
            "items": [
                {name: field["value"] for name, field in item["fields"].items()} for item in shown.get("items", [])
            ],
            "shown": shown,
            "text": (tmp_path / "last.yaml").read_text(encoding="utf-8"),
        }

    return declare


def test_cards_are_a_listing_and_the_page_behind_one_is_looked_at(site: str, propose: Propose) -> None:
    proposal = propose(f"{site}/lampen")
    keys = proposal["keys"]
    assert (keys["listing"]["match"], keys["match"]) == (r"/lampen(\?|$)", r"/p/\d+$")
    assert (keys["listing"]["each"], keys["listing"]["link"]) == ({"css": "li.item"}, {"css": "h3 a", "attr": "href"})
    assert keys["pagination"] == {"parameter": "page"}
    assert list(keys["fields"]) == ["name", "price", "hohe", "description"]
    assert (proposal["declaration"].language, keys["yields"]) == ("de-AT", "records")
    assert proposal["declaration"].title == 'Lampen: "alle" # ${NAME} {x}'
    assert proposal["items"][0] == {"price": {"amount": "19.50", "currency": "€"}, "image": f"{site}/i/1.jpg"}
    assert "# 4 cards with links" in proposal["text"]


def test_a_page_of_one_heading_and_a_price_is_a_record(site: str, propose: Propose) -> None:
    [item] = propose(f"{site}/p/2")["items"]
    assert (item["name"], item["price"], item["hohe"]) == ("Lamp 2", {"amount": "29.50", "currency": "€"}, "22 cm")
    assert "ein ganzes Zimmer" in item["description"]


def test_what_a_page_describes_is_its_record(site: str, propose: Propose) -> None:
    proposal = propose(f"{site}/shop/kettle")
    assert (proposal["keys"]["match"], proposal["keys"]["yields"]) == ("/shop/[^/?&]+$", "records")
    [item] = proposal["items"]
    assert (item["name"], item["sku"]) == ("Kettle", "0012")
    assert item["price"] == {"amount": "12.50", "currency": "EUR"}
    assert "# json-ld with 1 Product" in proposal["text"]


def test_questions_are_records_each(site: str, propose: Propose) -> None:
    proposal = propose(f"{site}/faq")
    assert proposal["keys"]["each"] == {"json": "[?\"@type\"=='Question']", "from": "json-ld"}
    assert proposal["items"] == [{"name": f"Can I: {what}?", "answer": "Yes."} for what in ("swim", "row")]


def test_an_article_is_a_document_with_what_is_said_of_it(site: str, propose: Propose) -> None:
    proposal = propose(f"{site}/news/flood.html")
    assert proposal["keys"]["yields"] == "documents"
    assert proposal["items"] == [{"date_published": "2024-05-03T08:00:00+00:00", "author": ["Ann"]}]


def test_a_text_is_a_document_with_what_it_leads_to(site: str, propose: Propose) -> None:
    keys = propose(f"{site}/manual/index.html")["keys"]
    assert keys["sitemaps"] == [f"{site}/map.xml"]
    assert (keys["follow"], keys["fetch"]) == ({"allow": ["/manual/"]}, ["html", "pdf"])


def test_what_scripts_draw_is_read_from_their_data_or_remarked(site: str, propose: Propose) -> None:
    drawn = propose(f"{site}/drawn")
    assert drawn["keys"]["each"] == {"json": "[]", "from": {"script": "tours"}}
    assert drawn["items"][2] == {"n": "C", "d": 3}
    app = propose(f"{site}/app")
    assert "render" not in app["keys"] and "render: true" in app["text"]


def test_an_api_is_read_by_its_keys(site: str, propose: Propose) -> None:
    proposal = propose(f"{site}/api?page=1")
    keys = proposal["keys"]
    assert (keys["each"], keys["id"], keys["pagination"]) == ({"json": "rows[]"}, "{id}", {"json": "meta.next"})
    assert proposal["items"][1] == {"id": 1, "name": "N1", "by": "A", "tags": ["x"]}


def test_a_feed_names_the_documents(site: str, propose: Propose) -> None:
    keys = propose(f"{site}/feed")["keys"]
    assert (keys["sitemaps"], keys["yields"]) == ([f"{site}/feed"], "documents")


def test_what_only_a_person_can_decide_is_a_remark(loopback_site: Site, propose: Propose) -> None:
    czech = "Příliš žluťoučký kůň úpěl ďábelské ódy, a potom šel domů spát, protože byl unavený a měl hlad."
    links = "".join(f"<link rel=alternate hreflang={tag} href=/{tag}>" for tag in ("en", "de"))
    loopback_site.page("/cs", f"<html>{links}<h1>Kůň</h1><p>{czech}</p>".encode("cp1250"), content_type="text/html")
    proposal = propose(f"{loopback_site.base}/cs")
    assert (proposal["declaration"].language, "encoding" in proposal["keys"]) == ("cs", False)
    assert "# encoding: cp1250" in proposal["text"] and "en, de (hreflang)" in proposal["text"]


def test_cards_without_pages_of_their_own_are_items(loopback_site: Site, propose: Propose) -> None:
    cards = "".join(
        f"<div class=v><h2>Nr {n}</h2><p class=prix>{n} €</p><p>plus {n * 7}</p></div>" for n in range(1, 5)
    )
    loopback_site.page("/tarifs", f"<html lang=fr><body>{cards}</body></html>")
    items = propose(f"{loopback_site.base}/tarifs")["items"]
    assert items[1] == {"title": "Nr 2", "price": {"amount": "2", "currency": "€"}, "text": "Nr 2 2 € plus 14"}


def test_rows_of_files_have_the_names_of_their_columns(tmp_path: Path, propose: Propose) -> None:
    table = tmp_path / "a [1]" / "preise.csv"
    table.parent.mkdir()
    rows = [("Nr", "Größe", "שם", "Preis"), *((f"00{n}", "3", "א", f"{n}.249,00 €") for n in range(1, 5))]
    table.write_text("\n".join(";".join(row) for row in rows), encoding="utf-8")
    proposal = propose(str(table))
    assert proposal["items"][0] == {
        "nr": "001", "grosse": 3, "field_3": "א", "preis": {"amount": "1249.00", "currency": "€"}
    }  # fmt: skip
    assert (proposal["keys"]["id"], proposal["keys"]["fields"]["grosse"]["label"]) == ("{nr}", "Größe")
    (table.parent / "note.md").write_text("# A note\n\nSome text.", encoding="utf-8")
    (table.parent / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (table.parent / "odd.json").write_text("[1, 2]")
    proposal = propose(str(table.parent))
    assert [source.name for source in proposal["declaration"].sources] == ["pdf", "md", "csv"]
    assert "broken.pdf cannot be read" in proposal["text"] and "odd.json: no rows with values" in proposal["text"]


@pytest.mark.parametrize(
    ("path", "code", "finding", "hint"),
    [
        ("/gone", 3, "404", "is the address right?"),
        ("/secret", 3, "refused_by_robots", "robots.txt"),
        ("/lampen", 2, "is a loopback address", "--allow-private"),
    ],
)
def test_what_cannot_be_looked_at_is_said(
    site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, code: int, finding: str, hint: str
) -> None:
    allowed = [] if code == 2 else ["--allow-private"]
    assert run(["init", "kb", "--folder", str(tmp_path), "--from", f"{site}{path}", "--json", *allowed]) == code
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["where"] == f"{site}{path}" and finding in error["message"] and hint in error["hint"]
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_overwritten(site: str, tmp_path: Path) -> None:
    (tmp_path / "kb.yaml").write_text("mine")
    assert run(["init", "kb", "--folder", str(tmp_path), "--from", f"{site}/lampen", "--allow-private"]) == 2
    assert (tmp_path / "kb.yaml").read_text() == "mine"


def test_names_and_patterns() -> None:
    assert [field_name(text) for text in ("datePublished", "Prix régulier", "2nd", "שם")] == [
        "date_published", "prix_regulier", "_2nd", ""
    ]  # fmt: skip
    assert pattern_of(["http://h/a/x-1.html", "http://h/a/y.html"]) == r"/a/[^/?&]+\.html$"
    assert pattern_of(["http://h/i?id=1", "http://h/i?id=22"]) == r"/i\?id=\d+$"
    assert pattern_of(["http://h/one", "http://h/two"]) == "://[^/]+/[^/?&]+$"
    assert pattern_of(["http://h/one"]) is None
    assert pattern_of(["http://h/a/b", "http://h/a"]) is None


@pytest.mark.parametrize(
    ("dates", "rule"),
    [
        (["05/12/2026", "22/01/2027"], {"type": "date", "format": "%d/%m/%Y"}),
        (["5/12/2026", "1/22/2027"], {"type": "date", "format": "%m/%d/%Y"}),
        (["05/12/2026", "06/01/2027"], {"type": "date"}),
        (["22.01.2027", "05.12.2026"], {"type": "date"}),
        (["May 5, 2026", "June 6, 2026"], {"type": "date"}),
    ],
)
def test_the_order_of_day_and_month_is_declared_where_one_date_tells_it(dates: list[str], rule: dict[str, str]) -> None:
    assert type_of(dates, "en") == rule
