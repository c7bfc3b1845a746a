"""Runs on a site with pages that are none: those that ask not to be indexed, lists of links, pages for whatever is not there, consent walls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, RECORDS, read_table
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.refresh import carry_out
from almanac.flows.pipeline.run import Run
from almanac.spiders.mapping.inspect_url import inspect_url
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.spiders.test_spiders_crawl import links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

_ALL = {"max_lost": None, "max_failed": None, "max_added": None}


class Base:
    """A knowledge base of one site."""

    def __init__(self, folder: Path, site: "Site") -> None:
        self.site, self.declared, self.data = site, folder / "kb.yaml", DataDir(folder / "data")
        self.declare()

    def declare(self, *, gate: dict[str, Any] | None = None, **keys: Any) -> None:
        manners = {"allow_private": True, **keys.pop("politeness", {})}
        source = {"name": "pages", "kind": "site", "start_urls": [f"{self.site.base}/"], "yields": "documents", "body": "all", "politeness": manners, **keys}
        self.declared.write_text(json.dumps({"name": "kb", "sources": [source], "gate": _ALL if gate is None else gate}))

    def run(self) -> dict[str, Any]:
        return carry_out(Run(load_declaration(str(self.declared), ""), self.data))

    def items(self, table: str = DOCUMENTS) -> list[str]:
        return sorted(url.removeprefix(self.site.base) for url in read_table(self.data.processed("kb") / table, ["url"]).column(0).to_pylist())

    def lost(self, report: dict[str, Any]) -> dict[str, str]:
        """Path → reason of the pages that did not become items."""
        return {one["url"].removeprefix(self.site.base): one["reason"] for one in report["sources"][0]["failures"]}

    def inspected(self, path: str) -> Any:
        declaration = load_declaration(str(self.declared), "")
        return inspect_url(declaration.sources[0], f"{self.site.base}{path}", "en")  # type: ignore[arg-type]  # a site


@pytest.fixture
def base(tmp_path: Path, loopback_site: "Site") -> Iterator[Base]:
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
        patch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_: HashEmbedder())
        patch.setattr("almanac.flows.pipeline.plan.count_tokens", lambda *_: None)
        yield Base(tmp_path, loopback_site)


def text(name: str) -> str:
    return f"<p>What {name} has to say stands on this page alone, and nobody else says it: {name}, {name} and {name} once more.</p>"


_NOINDEX = '<html><head><meta name="robots" content="noindex"></head><body>'


def test_a_page_that_asks_not_to_be_indexed_yields_nothing_and_leads_on(base: Base) -> None:
    site = base.site
    site.page("/", text("home") + links("/meta", "/header", "/bot"))
    site.page("/meta", _NOINDEX + text("meta") + links("/behind"), headers={"ETag": '"m"'})
    site.page("/header", text("header"), headers={"X-Robots-Tag": "nosnippet\nNoIndex", "ETag": '"h"'})
    site.page("/bot", text("bot"), headers={"X-Robots-Tag": "googlebot: noindex", "ETag": '"b"'})
    site.page("/behind", text("behind"))
    first = base.run()
    assert (first["outcome"], base.items(), base.lost(first)) == ("published", ["/", "/behind", "/bot"], {"/meta": "noindex", "/header": "noindex"})
    assert (first["pages"]["fetched"], first["pages"]["refused"]) == (3, 2)
    details = {one["detail"] for one in first["sources"][0]["failures"]}
    assert details == {'<meta name="robots">: noindex', "X-Robots-Tag: noindex"}
    # Answered with 304, by a server that does not repeat the header.
    again = base.run()
    assert (again["outcome"], base.lost(again), again["pages"]["unchanged"]) == ("unchanged", base.lost(first), 1)
    planned = plan(load_declaration(str(base.declared), ""), base.data)
    assert {one.reason for one in planned.sources[0].failures} == {"noindex"}

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
    base.declare(gate={"max_lost": 0.1})
    base.run()
    site.page("/a", text("a"), headers={"ETag": '"a2"', "X-Robots-Tag": "noindex"})
    refused = base.run()
    assert (refused["outcome"], refused["items"]["removed"], base.lost(refused)) == ("gate_refused", 1, {"/a": "noindex"})
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
    base.site.page("/", f"{_NOINDEX}<li><b>3 €</b><a href=/i/1>1</a></li><li><b>4 €</b><a href=/i/2>2</a></li><a class=next href=/?p=2>next</a>")
    base.site.page("/?p=2", f"{_NOINDEX}<li><b>5 €</b><a href=/i/3>3</a></li>")
    for n in (1, 2, 3):
        base.site.page(f"/i/{n}", f"<h1>Item {n}</h1>", headers={"X-Robots-Tag": "noindex"} if n == 2 else {})
    listing = {"match": "/$", "each": {"css": "li"}, "link": {"css": "a"}, "fields": {"price": {"css": "b", "required": True}}}
    base.declare(listing=listing, pagination={"next": {"css": "a.next"}}, yields="records", fields={"name": {"css": "h1", "required": True}}, text="{name}")
    report = base.run()
    assert (report["outcome"], base.items(RECORDS), base.lost(report)) == ("published", ["/i/1", "/i/3"], {"/i/2": "noindex"})


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
    site.page("/feed", f"<rss><channel><item><link>{site.base}/a</link></item><item><link>https://elsewhere.test/</link></item></channel></rss>")
    site.page("/sitemap.xml", f"<urlset><url><loc>{site.base}/b</loc></url></urlset>", content_type="application/xml")
    site.page("/a", text("a"))
    site.page("/b", text("b"))
    report = base.run()
    assert (report["outcome"], base.items(), base.lost(report)) == ("published", ["/", "/a", "/b"], {"/feed": "feed", "/sitemap.xml": "sitemap"})
    assert base.run()["outcome"] == "unchanged"
    # Read by other rules, without a request.
    base.declare(body="main")
    site.asked.clear()
    reused = base.run()
    assert (reused["sources"][0]["finish"], base.lost(reused), reused["pages"], site.asked.total()) == ("reused", base.lost(report), reused["pages"], 0)
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
    base.declare(**{"start_urls": [], start: [f"{base.site.base}/feed"]})
    report = base.run()
    assert (report["outcome"], base.items(), base.lost(report)) == ("published", ["/a"], {"/feed": "feed"} if start == "start_urls" else {})
