"""Runs on a site with pages that are none: those that ask not to be indexed, lists of links, pages for whatever is not
there.
"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, RECORDS, read_table
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import NoRecords
from almanac.spiders.mapping.inspect_url import inspect_url
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.spiders.conftest import Answer
from tests.spiders.test_spiders_crawl import links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

pytestmark = pytest.mark.slow  # whole runs
_ALL = {"max_lost": None, "max_failed": None, "max_added": None}


class Base:
    """A knowledge base of one site."""

    def __init__(self, folder: Path, site: "Site") -> None:
        self.site, self.declared, self.data = site, folder / "kb.yaml", DataDir(folder / "data")
        self.declare()

    def declare(self, *, gate: dict[str, Any] | None = None, **keys: Any) -> None:
        manners = {"allow_private": True, **keys.pop("politeness", {})}
        source = {
            "name": "pages",
            "kind": "site",
            "start_urls": [f"{self.site.base}/"],
            "yields": "documents",
            "body": "all",
            "politeness": manners,
            **keys,
        }
        self.declared.write_text(
            json.dumps(
                {
                    "name": "kb",
                    "sources": [source],
                    "validate": {"max_rejected": 1},
                    "gate": _ALL if gate is None else gate,
                }
            )
        )

    def run(self) -> dict[str, Any]:
        return carry_out(Run(load_declaration(str(self.declared), ""), self.data))

    def items(self, table: str = DOCUMENTS) -> list[str]:
        return sorted(
            url.removeprefix(self.site.base)
            for url in read_table(self.data.processed("kb") / table, ["url"]).column(0).to_pylist()
        )

    def lost(self, report: dict[str, Any]) -> dict[str, str]:
        """Path → reason of the pages that did not become items."""
        return {
            failure["url"].removeprefix(self.site.base): failure["reason"]
            for failure in report["sources"][0]["failures"]
        }

    def inspected(self, path: str) -> Any:
        declaration = load_declaration(str(self.declared), "")
        return inspect_url(declaration.sources[0], f"{self.site.base}{path}", "en")  # type: ignore[arg-type]  # a site


@pytest.fixture
def base(tmp_path: Path, loopback_site: "Site") -> Iterator[Base]:
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
        patch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
        patch.setattr("almanac.flows.pipeline.plan.count_tokens", lambda *_: None)
        yield Base(tmp_path, loopback_site)


def text(name: str) -> str:
    return (
        f"<p>What {name} has to say stands on this page alone, and nobody else says it: {name}, {name} and {name} "
        "once more.</p>"
    )


_NOINDEX = '<html><head><meta name="robots" content="noindex"></head><body>'


def test_a_page_that_sends_its_visitors_on_yields_nothing_and_leads_on(base: Base) -> None:
    site = base.site
    site.page("/", text("/") + links("/old", "/late", "/ticker", "/shown"))
    site.page("/old", '<meta http-equiv="refresh" content="0; url=/new"><p>This page has moved.</p>')
    site.page("/new", text("/new"))
    site.page("/late", f'<meta http-equiv="refresh" content="30; url=/new">{text("/late")}')
    site.page("/ticker", f'<meta http-equiv="refresh" content="0; url=/ticker#now">{text("/ticker")}')
    site.page("/shown", f'<pre>&lt;meta http-equiv="refresh" content="0; url=/new"&gt;</pre>{text("/shown")}')
    report = base.run()
    assert (report["outcome"], base.items(), base.lost(report)) == (
        "published",
        ["/", "/late", "/new", "/shown", "/ticker"],
        {"/old": "forwards"},
    )
    assert report["pages"]["refused"] == 1 and "/new at once" in report["sources"][0]["failures"][0]["detail"]


def test_a_page_that_asks_not_to_be_indexed_yields_nothing_and_leads_on(base: Base) -> None:
    site = base.site
    site.page("/", text("home") + links("/meta", "/header", "/bot"))
    site.page("/meta", _NOINDEX + text("meta") + links("/behind"), headers={"ETag": '"m"'})
    site.page("/header", text("header"), headers={"X-Robots-Tag": "nosnippet\nNoIndex", "ETag": '"h"'})
    site.page("/bot", text("bot"), headers={"X-Robots-Tag": "googlebot: noindex", "ETag": '"b"'})
    site.page("/behind", text("behind"))
    first = base.run()
    assert (first["outcome"], base.items(), base.lost(first)) == (
        "published",
        ["/", "/behind", "/bot"],
        {"/meta": "noindex", "/header": "noindex"},
    )
    assert (first["pages"]["fetched"], first["pages"]["refused"]) == (3, 2)
    details = {failure["detail"] for failure in first["sources"][0]["failures"]}
    assert details == {'<meta name="robots">: noindex', "X-Robots-Tag: noindex"}
    # Answered with 304, by a server that does not repeat the header.
    again = base.run()
    assert (again["outcome"], base.lost(again), again["pages"]["unchanged"]) == ("unchanged", base.lost(first), 1)
    planned = plan(load_declaration(str(base.declared), ""), base.data)
    assert {failure.reason for failure in planned.sources[0].failures} == {"noindex"}

    site.page("/header", text("header"), headers={"ETag": '"h"'})  # the same bytes
    assert base.run()["items"]["added"] == 1
    # Declared off, nothing is left out.
    base.declare(politeness={"noindex": False})
    off = base.run()
    assert (base.items(), base.lost(off)) == (["/", "/behind", "/bot", "/header", "/meta"], {})


def test_an_indexed_page_that_becomes_noindex_is_removed_and_the_gate_sees_it(base: Base) -> None:
    site = base.site
    site.page("/", text("home") + links("/a", "/b"))
    site.page("/a", text("a"), headers={"ETag": '"a"'})
    site.page("/b", text("b"))
    base.declare(gate={"max_lost": 0.1, "at_least": 3})
    base.run()
    site.page("/a", text("a"), headers={"ETag": '"a2"', "X-Robots-Tag": "noindex"})
    refused = base.run()
    assert (refused["outcome"], refused["items"]["removed"], base.lost(refused)) == (
        "gate_refused",
        1,
        {"/a": "noindex"},
    )
    base.declare()
    assert (base.run()["items"]["removed"], base.items()) == (1, ["/", "/b"])
    site.page("/a", text("a"), status=500)  # kept as it was, which is not indexed
    failed = base.run()
    assert (failed["outcome"], base.items()) == ("unchanged", ["/", "/b"])


def test_a_page_that_asks_not_to_be_followed_is_indexed_and_leads_nowhere(base: Base) -> None:
    base.site.page("/", text("home") + links("/a"))
    base.site.page("/a", text("a") + links("/b"), headers={"X-Robots-Tag": "nofollow"})
    base.site.page("/b", text("b"))
    report = base.run()
    assert (base.items(), report["sources"][0]["nofollow"]) == (["/", "/a"], 1)
    base.declare(politeness={"noindex": False})
    base.run()
    assert base.items() == ["/", "/a", "/b"]


def test_the_cards_of_a_listing_that_is_not_to_be_indexed_go_on_to_their_pages(base: Base) -> None:
    base.site.page(
        "/",
        f"{_NOINDEX}<li><b>3 €</b><a href=/i/1>1</a></li><li><b>4 €</b><a href=/i/2>2</a></li><a class=next "
        "href=/?p=2>next</a>",
    )
    base.site.page("/?p=2", f"{_NOINDEX}<li><b>5 €</b><a href=/i/3>3</a></li>")
    for n in (1, 2, 3):
        base.site.page(f"/i/{n}", f"<h1>Item {n}</h1>", headers={"X-Robots-Tag": "noindex"} if n == 2 else {})
    listing = {
        "match": "/$",
        "each": {"css": "li"},
        "link": {"css": "a"},
        "fields": {"price": {"css": "b", "required": True}},
    }
    base.declare(
        listing=listing,
        pagination={"next": {"css": "a.next"}},
        yields="records",
        fields={"name": {"css": "h1", "required": True}},
        text="{name}",
    )
    report = base.run()
    assert (report["outcome"], base.items(RECORDS), base.lost(report)) == (
        "published",
        ["/i/1", "/i/3"],
        {"/i/2": "noindex"},
    )


def test_a_site_that_is_not_to_be_indexed_at_all_ends_the_run_with_the_remedy(base: Base) -> None:
    base.site.page("/", text("home") + links("/a"), headers={"X-Robots-Tag": "none"})
    report = base.run()
    assert (report["outcome"], report["exit_code"]) == ("no_records", 3)
    assert "noindex" in report["error"]["message"] and "politeness: {noindex: false}" in report["error"]["hint"]


def test_test_url_says_why_a_page_yields_nothing(base: Base) -> None:
    base.site.page("/a", _NOINDEX + text("a") + links("/b"))
    report = base.inspected("/a")
    assert (report.withheld, report.items, report.links.count) == ('noindex: <meta name="robots">: noindex', [], 1)


def test_feeds_and_sitemaps_that_a_crawl_meets_lead_on_and_are_counted(base: Base) -> None:
    site = base.site
    site.page("/", text("home") + links("/feed", "/sitemap.xml"))
    site.page(
        "/feed",
        f"<rss><channel><item><link>{site.base}/a</link></item><item><link>https://elsewhere.test/</link></item>"
        "</channel></rss>",
    )
    site.page("/sitemap.xml", f"<urlset><url><loc>{site.base}/b</loc></url></urlset>", content_type="application/xml")
    site.page("/a", text("a"))
    site.page("/b", text("b"))
    report = base.run()
    assert (report["outcome"], base.items(), base.lost(report)) == (
        "published",
        ["/", "/a", "/b"],
        {"/feed": "feed", "/sitemap.xml": "sitemap"},
    )
    assert base.run()["outcome"] == "unchanged"
    # Read by other rules, without a request.
    base.declare(body="main")
    site.requests.clear()
    reused = base.run()
    assert (reused["sources"][0]["finish"], base.lost(reused), reused["pages"], site.requests.total()) == (
        "reused",
        base.lost(report),
        reused["pages"],
        0,
    )
    assert (reused["pages"]["unchanged"], reused["pages"]["refused"]) == (3, 2)


@pytest.mark.parametrize("start", ["start_urls", "sitemaps"])
@pytest.mark.parametrize("kind", ["RSS", "JSON Feed"])
def test_a_feed_may_be_where_a_crawl_starts(base: Base, start: str, kind: str) -> None:
    url = f"{base.site.base}/a"
    body = f"<rss><channel><item><link>{url}</link></item></channel></rss>"
    if kind == "JSON Feed":
        body = json.dumps({"version": "https://jsonfeed.org/version/1", "items": [{"url": url}]})
    base.site.page("/feed", body, content_type="application/json" if kind == "JSON Feed" else "text/xml")
    base.site.page("/a", text("a"))
    keys: dict[str, Any] = {"start_urls": [], start: [f"{base.site.base}/feed"]}
    base.declare(**keys)
    report = base.run()
    assert (report["outcome"], base.items(), base.lost(report)) == (
        "published",
        ["/a"],
        {"/feed": "feed"} if start == "start_urls" else {},
    )


def _soft(made: Callable[[str], str]) -> Callable[[str], Answer]:
    return lambda path: (
        Answer("no robots", 404) if path == "/robots.txt" else Answer(made(path), headers={"ETag": f'"{path}"'})
    )


def _not_found(path: str) -> str:
    now, nonce = datetime.now(UTC), uuid4().hex
    nav = "<nav>Tours · Hotels · a b c</nav>"
    noise = f"<i>{nonce} {now.timestamp()} 1.{now.microsecond} ms</i>"
    return (
        f"<title>{path}</title>{nav}<h1>Nicht gefunden</h1><p>„{path}“ gibt es nicht ({now:%H:%M:%S.%f}).</p>"
        f"<script>x='{nonce}'</script>{noise}"
    )


def test_pages_that_show_what_a_made_up_url_shows_are_gone(base: Base) -> None:
    site = base.site
    site.otherwise = site.unknown = _soft(_not_found)
    site.page("/", text("home") + links("/a", "/b", "/tours/c.html", "/d?id=7"))
    for path in ("/a", "/b", "/tours/c.html", "/d?id=7"):
        site.page(path, text(path), headers={"ETag": f'"real {path}"'})
    first = base.run()
    assert (first["pages"]["fetched"], first["pages"]["gone"], len(base.items())) == (5, 0, 5)
    made_up = first["sources"][0]["unknown_urls"][0]
    assert made_up["shows"] is None and site.made_up == {made_up["url"].removeprefix(site.base): 1}
    assert base.run()["outcome"] == "unchanged"

    for path in ("/a", "/tours/c.html", "/d?id=7"):
        del site.answers[path]
    base.declare(gate={"max_lost": 0.5})
    refused = base.run()
    assert (refused["outcome"], refused["pages"]["gone"], refused["items"]["removed"]) == ("gate_refused", 3, 3)
    base.declare()
    lost = base.run()
    assert (base.items(), base.lost(lost)) == (["/", "/b"], dict.fromkeys(("/a", "/tours/c.html", "/d?id=7"), "gone"))
    assert lost["sources"][0]["unknown_urls"][0]["pages"] == 3
    assert base.run()["outcome"] == "unchanged"


def test_pages_that_have_a_declared_element_are_gone_by_it(base: Base) -> None:
    site = base.site
    site.page("/", text("home") + links("/a", "/b") + "<p class=sold-out>Sold out: two of ours</p>")
    site.page("/a", text("a") + links("/c"))
    site.page("/b", text("b") + "<p class=sold-out hidden>Sold out</p>")
    site.page("/c", text("c"))
    declared: dict[str, Any] = {"gone": {"css": ".sold-out"}}
    base.declare(**declared)
    first = base.run()
    assert (first["pages"]["gone"], base.items()) == (0, ["/", "/a", "/b", "/c"])  # a start page leads to others

    site.page("/a", text("a") + "<p class=sold-out>Sold out</p>")  # and leads to /c no more
    gone = base.run()
    (failure,) = gone["sources"][0]["failures"]
    assert (failure["reason"], failure["detail"], base.items()) == ("gone", "it has css: .sold-out", ["/", "/b"])
    assert base.run()["outcome"] == "unchanged"
    source = load_declaration(str(base.declared)).sources[0]
    with pytest.raises(NoRecords, match=r"/a: gone \(status 200\), it has css: \.sold-out"):
        inspect_url(source, f"{site.base}/a", "en")  # type: ignore[arg-type]


@pytest.mark.parametrize("start", ["/", "/shop"])
def test_a_site_that_shows_its_home_page_for_every_url_keeps_that_page(base: Base, start: str) -> None:
    site = base.site
    home = text("home") + links("/", "/a", "/dead", "/dead/too")
    site.otherwise = site.unknown = _soft(lambda _: home)
    site.page("/", home)
    site.page("/shop", text("shop") + links("/"))
    site.page("/a", text("a"))
    base.declare(start_urls=[f"{site.base}{start}"])
    report = base.run()
    assert (base.items(), base.lost(report)) == (sorted({"/", "/a", start}), {"/dead": "gone", "/dead/too": "gone"})
    assert report["sources"][0]["unknown_urls"][0]["shows"] == (f"{site.base}/" if start == "/" else None)


def test_test_url_tells_a_page_that_is_gone(base: Base) -> None:
    base.site.otherwise = base.site.unknown = _soft(_not_found)
    base.site.page("/a", text("a"))
    assert len(base.inspected("/a").items) == 1
    with pytest.raises(NoRecords, match=r"/b: gone \(status 200\), it shows what the site shows for http"):
        base.inspected("/b")


def test_a_real_404_says_all(base: Base) -> None:
    base.site.page("/", text("home") + links("/a", "/b"))
    base.site.page("/a", text("same"))
    base.site.page("/b", text("same"))
    report = base.run()
    assert (report["pages"]["fetched"], report["items"]["deduplicated"], report["sources"][0]["unknown_urls"]) == (
        3,
        1,
        [],
    )
    assert list(base.site.made_up.values()) == [1]


def test_a_part_of_a_site_may_answer_with_a_page_what_the_rest_answers_with_404(base: Base) -> None:
    """A folder, or a page that is asked with a query. The folder's own page stays, though it is what an unknown name of
    the folder shows.
    """
    site = base.site
    shop = text("shop") + links("/shop/1", "/shop/2", "/shop/3")

    def unknown(path: str) -> Answer:
        if path.startswith("/item.php?"):
            # without <body>
            return Answer(
                f"<title>Shop</title><main><h1>No such thing</h1><p>Thing {path.rpartition('=')[2]} was not "
                "found.</p></main>"
            )
        if path.startswith("/list?"):
            return Answer(text("first page of the list"))
        return Answer(shop) if path.startswith("/shop/") else Answer("Not found", 404)

    site.otherwise = site.unknown = unknown
    site.page(
        "/",
        text("home")
        + links(
            "/about",
            "/shop/",
            "/shop/1",
            "/shop/2",
            "/item.php?lang=en&id=7",
            "/item.php?lang=en&id=8",
            "/list?p=1",
            "/blog/a",
        ),
    )
    for path in ("/about", "/shop/2", "/item.php?lang=en&id=7", "/blog/a"):
        site.page(path, text(path))
    site.page("/shop/", shop)
    site.page("/list?p=1", text("first page of the list"))
    report = base.run()
    assert base.lost(report) == {"/item.php?lang=en&id=8": "gone", "/shop/1": "gone", "/shop/3": "gone"}
    assert base.items() == ["/", "/about", "/blog/a", "/item.php?lang=en&id=7", "/list?p=1", "/shop/", "/shop/2"]
    assert set(site.made_up.values()) == {1} and len(site.made_up) == 5
    unknown_pages = {
        unknown["url"].removeprefix(site.base).partition("no-such")[0].rstrip("0123456789"): unknown["pages"]
        for unknown in report["sources"][0]["unknown_urls"]
    }
    assert unknown_pages == {"/shop/": 2, "/item.php?lang=en&id=": 1, "/list?p=": 0}


def test_only_the_first_places_of_a_host_are_asked(base: Base) -> None:
    site = base.site
    folders = [f"/f{number}/a" for number in range(30)]
    site.page("/", text("home") + links(*folders))
    for path in folders:
        site.page(path, text(path))
    assert base.run()["pages"]["fetched"] == 31
    assert len(site.made_up) == 21


def test_where_a_host_does_not_answer_the_made_up_url_what_it_said_last_holds(base: Base) -> None:
    site = base.site
    site.otherwise = site.unknown = _soft(_not_found)
    site.page("/", text("home") + links("/a", "/dead"))
    site.page("/a", text("a"))
    first = base.run()
    assert (base.items(), base.lost(first)) == (["/", "/a"], {"/dead": "gone"})
    site.unknown = lambda _: Answer("down", 503)
    second = base.run()
    assert (second["outcome"], base.lost(second)) == ("unchanged", {"/dead": "gone"})


def test_pages_that_differ_in_what_the_rules_read_are_not_the_same(base: Base) -> None:
    """A page that scripts draw shows nothing else of its own."""

    def page(path: str) -> str:
        name = {"/item/1": "A chair", "/item/2": "A table"}.get(path, "?")
        return f"<h1>Our shop</h1><p>Please wait a moment.</p><script>var data = {{'name': '{name}'}};</script>"

    site = base.site
    site.otherwise = site.unknown = _soft(page)
    site.page("/", links("/item/1", "/item/2", "/item/3"))
    rules: dict[str, Any] = {"match": "/item/", "yields": "records", "text": "{name}"}
    base.declare(fields={"name": {"json": "name", "from": {"script": "data"}}}, **rules)
    report = base.run()
    made_up = report["sources"][0]["unknown_urls"][0]["url"]
    assert "/item/" in made_up
    assert (base.items(RECORDS), base.lost(report)) == (["/item/1", "/item/2"], {"/item/3": "gone"})


def test_the_made_up_url_is_asked_for_as_the_declaration_allows(base: Base) -> None:
    site = base.site
    site.otherwise = site.unknown = _soft(_not_found)
    site.page("/robots.txt", "User-agent: *\nDisallow: /private/\n", content_type="text/plain")
    site.page("/docs/", text("docs") + links("/docs/a", "/docs/dead", "/blog/b"))
    site.page("/docs/a", text("a"))
    base.declare(start_urls=[f"{site.base}/docs/"], follow={"allow": ["/docs/"], "deny": ["secret"]})
    report = base.run()
    assert (base.items(), base.lost(report)) == (["/docs/", "/docs/a"], {"/docs/dead": "gone"})
    assert all(path.startswith("/docs/") for path in {*site.requests, *site.made_up} - {"/robots.txt"})


def test_unknown_urls_that_redirect_are_told_by_where_they_lead(base: Base) -> None:
    """The page that they lead to stays; what is moved to a not-found page of its own does not."""
    site = base.site

    def answer(path: str) -> Answer:
        if path.startswith("/error"):
            return Answer(f"<h1>Sorry</h1><p>We do not have {path.partition('=')[2]}.</p>")
        return Answer(status=404 if path == "/robots.txt" else 302, headers={"Location": f"/error?from={path[1:]}"})

    site.otherwise = site.unknown = answer
    site.page("/", text("home") + links("/a", "/dead"))
    site.page("/a", text("a"))
    report = base.run()
    assert (base.items(), base.lost(report)) == (["/", "/a"], {"/dead": "gone"})


def test_pages_that_only_differ_by_the_number_in_their_url_are_pages(base: Base) -> None:
    """A site that has a page for each number shows one for a made-up number, too."""
    site = base.site
    site.otherwise = site.unknown = lambda path: Answer(
        f"<h1>Tour {path[6:]}</h1><p>All about tour {path[6:]}.</p>", 200 if path[6:].isdigit() else 404
    )
    site.page("/", links("/tour/1", "/tour/2"))
    base.declare(match="/tour/")
    report = base.run()
    assert (report["outcome"], base.items(), len(site.made_up)) == ("published", ["/tour/1", "/tour/2"], 1)

    site.otherwise = site.unknown = lambda path: Answer(
        f"<h1>Tour {path[6:]}</h1><p>không tìm thấy</p>", 200 if path[6:].isdigit() else 404
    )
    site.page("/tour/1", "<h1>Tour 1</h1>" + text("one"))
    assert base.lost(base.run()) == {"/tour/2": "gone"}


def test_a_site_that_has_a_page_for_whatever_it_is_asked_for_keeps_them_all(base: Base) -> None:
    """They differ in their own URL alone, as copies of a not-found page do; but there is no other page."""
    site = base.site
    site.otherwise = site.unknown = lambda path: Answer(
        f"<p>A page of its own for {path}, with enough to read.</p>", headers={"ETag": path}
    )
    paths = [f"/{letter}/page-{n}" for letter in "ab" for n in range(60)]
    site.page("/", text("home") + links(*paths))
    base.declare(limits={"pages": 90})
    report = base.run()
    assert (report["pages"]["fetched"], report["pages"]["gone"], len(base.items())) == (90, 0, 90)
    base.declare()
    # 89 have not changed, which tells of no others
    assert (base.run()["items"]["added"], base.items()) == (31, sorted(["/", *paths]))
