"""Sitemaps: what each form names, what broken ones still give, and how a crawl goes by them."""

import gzip
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import NoRecords, Unreachable
from almanac.spiders.crawling import sitemaps
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.sitemaps import read_sitemap
from almanac.spiders.reading import link_lists
from almanac.spiders.selecting.links import Link, UrlPolicy
from almanac.spiders.store.raw import RawStore
from tests.reference.journey import CONTENT
from tests.spiders.test_spiders_crawl import crawled, links, source

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

_BASE = "http://x.test/sitemap.xml"
_NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_COLLECTED = CONTENT / "adv_sitemaps/crawler-commons/src/test/resources/sitemaps"


def _zipped(content: bytes) -> bytes:
    """Without the time, which would give a test another name in each process."""
    return gzip.compress(content, mtime=0)


def urlset(*urls: str, attributes: str = _NS) -> str:
    return (
        f"<?xml version='1.0' encoding='UTF-8'?><urlset {attributes}>"
        + "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        + "</urlset>"
    )


def index(*urls: str) -> str:
    return f"<sitemapindex {_NS}>" + "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls) + "</sitemapindex>"


def pages(body: str | bytes) -> list[str]:
    return read_sitemap(body.encode() if isinstance(body, str) else body, _BASE).pages


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (urlset("http://x.test/1", "http://x.test/2"), ["http://x.test/1", "http://x.test/2"]),
        (urlset("\n  http://x.test/1\n"), ["http://x.test/1"]),
        (urlset("http://x.test/é?a=1&amp;b=2"), ["http://x.test/é?a=1&b=2"]),
        (urlset("http://x.test/?a=1&b=2&copy=3"), ["http://x.test/?a=1&b=2&copy=3"]),
        (urlset("<![CDATA[http://x.test/?a=1&b=2]]>"), ["http://x.test/?a=1&b=2"]),
        (urlset("/path", "nothing of the kind"), ["http://x.test/path"]),
        (urlset("http://x.test/1", attributes="xmlns='http://wrong.test/'"), ["http://x.test/1"]),
        (
            "<s:urlset xmlns:s='http://s.test/'><s:url><s:loc>http://x.test/1</s:loc></s:url></s:urlset>",
            ["http://x.test/1"],
        ),
        ("<s:urlset><s:url><s:loc>http://x.test/1</s:loc></s:url></s:urlset>", ["http://x.test/1"]),
        ("\ufeff\n \n" + urlset("http://x.test/1"), ["http://x.test/1"]),
        (urlset("http://x.test/1", "http://x.test/2")[:-21], ["http://x.test/1"]),  # the other one may go on
        (
            "<urlset><url><loc>http://x.test/1</loc></ur><url><loc>http://x.test/2</loc></url></urlset>",
            ["http://x.test/1", "http://x.test/2"],
        ),
        (
            "<urlset><url><image:image><image:loc>http://x.test/i.jpg</image:loc></image:image><loc>"
            "http://x.test/1</loc></url></urlset>",
            ["http://x.test/1"],
        ),
        ("<urlset><!-- <url><loc>http://x.test/0</loc></url> --><url><lastmod>2020</lastmod></url></urlset>", []),
        ("\ufeffhttp://x.test/1\r\nhttp://x.test/2\r\n\r\n# no URL\r\n", ["http://x.test/1", "http://x.test/2"]),
        (_zipped(urlset("http://x.test/1").encode()), ["http://x.test/1"]),
        (_zipped(_zipped(b"http://x.test/1")), ["http://x.test/1"]),
        (_zipped(b"http://x.test/1\n") + _zipped(b"http://x.test/2"), ["http://x.test/1", "http://x.test/2"]),
        (_zipped(b"http://x.test/1\n" * 3)[:-8], ["http://x.test/1"] * 3),
        (urlset("http://x.test/é").replace("UTF-8", "UTF-16").encode("utf-16"), ["http://x.test/é"]),
        (
            "<rss><channel><link>http://x.test/</link><item><title>A</title><link>http://x.test/1</link></item>"
            "</channel></rss>",
            ["http://x.test/1"],
        ),
        (
            "<rss><item><guid>http://x.test/g</guid><link>http://x.test/1</link></item><item><guid>"
            "http://x.test/2</guid></item></rss>",
            ["http://x.test/1", "http://x.test/2"],
        ),
        ("<rss><item><guid isPermaLink='false'>http://x.test/g</guid></item></rss>", []),
        (
            "<feed xmlns='http://www.w3.org/2005/Atom'><link href='http://x.test/'/><entry><link rel='edit' "
            "href='http://x.test/e'/>"
            "<link href='http://x.test/1'/><link rel='alternate' href='http://x.test/1.html'/></entry></feed>",
            ["http://x.test/1"],
        ),
        (
            "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://x.test/base/'><entry><link href='../p/1'/>"
            "</entry>"
            "<entry xml:base='sub/'><link href='2'/></entry><entry><link href='mailto:a@x.test'/><link "
            "href='?n=3'/></entry></feed>",
            ["http://x.test/p/1", "http://x.test/base/sub/2", "http://x.test/base/?n=3"],
        ),
        (
            "<feed><entry><link href='p/1'/></entry><entry><link href='http://[bad'/></entry></feed>",
            ["http://x.test/p/1"],
        ),
        ("<rss><item><link>p/1</link></item><item><guid>17</guid></item></rss>", ["http://x.test/p/1"]),
    ],
)
def test_each_form_gives_its_pages(body: str | bytes, named: list[str]) -> None:
    assert pages(body) == named


def test_an_index_names_sitemaps_even_without_loc() -> None:
    sitemap = read_sitemap(
        (
            f"<sitemapindex><sitemap>\n{_BASE}?a=1&amp;b=2\n</sitemap><sitemap><loc>/b.xml</loc></sitemap>"
            "</sitemapindex>"
        ).encode(),
        _BASE,
    )
    assert (sitemap.sitemaps, sitemap.pages) == ([f"{_BASE}?a=1&b=2", "http://x.test/b.xml"], [])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"<html><body><a href='/x'>x</a></body></html>",
        b"<",
        b"\x1f\x8b\x08\x00garbage",
        b"\x89PNG\r\n\x1a\n\0\0",
    ],
)
def test_what_is_no_sitemap_is_said(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"sitemap|gzip"):
        pages(body)


@pytest.mark.parametrize("is_xml", [True, False])
def test_a_compressed_sitemap_that_was_cut_says_so_and_gives_no_half_url(is_xml: bool) -> None:
    urls = [f"http://x.test/{n:x}-{n * 7919 % 1000:03d}" for n in range(2000)]
    packed = gzip.compress((urlset(*urls) if is_xml else "\n".join(urls)).encode(), mtime=0)
    assert not read_sitemap(packed, _BASE).is_cut
    for length in (len(packed) // 3, len(packed) // 2, len(packed) - 20):
        sitemap = read_sitemap(packed[:length], _BASE)
        assert sitemap.is_cut and sitemap.pages == urls[: len(sitemap.pages)] and 100 < len(sitemap.pages) < 2000


@pytest.mark.parametrize("end", ["", "<url><loc>http://x.test/9", "<url><loc>http://x.test/9</lo", "<url>", "</ur"])
def test_xml_without_its_end_is_cut(end: str) -> None:
    """Whoever made it stopped in the middle, and it arrived as it was made."""
    whole = urlset("http://x.test/1", "http://x.test/2")
    assert not read_sitemap(whole.encode(), _BASE).is_cut and not read_sitemap(b"<urlset/>", _BASE).is_cut
    assert not read_sitemap(whole.replace("urlset", "s:urlset").encode() + b"\n<!-- made in 3 s -->", _BASE).is_cut
    sitemap = read_sitemap(whole.replace("</urlset>", end).encode(), _BASE)
    assert (
        sitemap.is_cut
        and "http://x.test/1" in sitemap.pages
        and {*sitemap.pages} <= {"http://x.test/1", "http://x.test/2"}
    )


@pytest.mark.parametrize(
    "end", ["</urlset xmlns='http://s.test/'>", "</sitemapindex>", "</urlset_>\n", "</x:urlset\n>"]
)
def test_xml_that_is_closed_with_another_end_tag_is_whole(end: str) -> None:
    sitemap = read_sitemap(urlset("http://x.test/1", "http://x.test/2").replace("</urlset>", end).encode(), _BASE)
    assert (sitemap.is_cut, sitemap.pages) == (False, ["http://x.test/1", "http://x.test/2"])


def test_feeds_without_their_end_are_cut() -> None:
    """In RSS 1.0, elements whose names begin as the root's prefix are none of its ends; RSS 2.0 is often left open
    behind its channel.
    """
    sequence = "<channel><items><rdf:Seq><rdf:li rdf:resource='http://x.test/1'/></rdf:Seq></items></channel>"
    rdf = (
        f"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>{sequence}"
    )
    rdf += "<item rdf:about='http://x.test/1'><link>http://x.test/1</link></item>"
    assert [
        read_sitemap((rdf + end).encode(), _BASE).is_cut for end in ("</rdf:RDF>", "", "<item><link>http://x.test/ha")
    ] == [False, True, True]
    rss = "<rss><channel><item><link>http://x.test/1</link></item>"
    assert [
        read_sitemap((rss + end).encode(), _BASE).is_cut for end in ("</channel>", "", "</chan", "<item><link>x</link>")
    ] == [False, True, True, True]


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_sitemap_that_is_cut_short_lets_no_page_vanish(
    loopback_site: "Site", tmp_path: Path, is_packed: bool
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    paths = [f"/{n}" for n in range(30)]
    for path in paths:
        site.page(path, f"<p>page {path}</p>")
    written = urlset(*(site.base + path for path in paths)).encode()
    packed = gzip.compress(written, 0) if is_packed else written
    kind = "application/gzip" if is_packed else "application/xml"
    site.page("/s.xml.gz", packed, content_type=kind)
    declared = source(site, start_urls=[], sitemaps=[f"{site.base}/s.xml.gz"])
    assert crawl_site(declared, raw, "r1").pages.fetched == 30
    site.page("/s.xml.gz", packed[: len(packed) // 2], content_type=kind)
    for number in (2, 3):
        outcome = crawl_site(declared, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert outcome.pages.vanished == 0 and 0 < outcome.kept < 30 and outcome.pages.fetched + outcome.kept == 30
        assert [(failure.reason, failure.detail.partition(",")[0]) for failure in outcome.failures] == [
            ("error", "sitemap: it is cut short")
        ]


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_sitemap_that_is_cut_short_in_each_crawl_lets_no_page_vanish(
    loopback_site: "Site", tmp_path: Path, is_packed: bool
) -> None:
    """What a crawl read of it before its cut are pages that the next one may not come to."""
    site, raw = loopback_site, RawStore(tmp_path)
    declared, paths = source(site, start_urls=[], sitemaps=[f"{site.base}/s.xml"]), [f"/{n}" for n in range(20)]
    for path in paths:
        site.page(path, f"<p>page {path}</p>")
    previous = PreviousCrawls()
    for number, named in enumerate((20, 10, 5), 1):
        written = urlset(*(site.base + path for path in paths[:named])).removesuffix("</urlset>").encode()
        packed = gzip.compress(written, 0)[:-10]
        site.page(
            "/s.xml",
            packed if is_packed else written,
            content_type="application/gzip" if is_packed else "application/xml",
        )
        outcome = crawl_site(declared, raw, f"r{number}", previous=previous)
        previous = PreviousCrawls(concluded=f"r{number}")
        assert outcome.pages.vanished == 0
        assert len(raw.index(f"r{number}").urls) == len(raw.index("r1").urls) >= 19


def test_entities_are_neither_expanded_nor_read_from_elsewhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("http://x.test/secret")
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    head = f"<!DOCTYPE urlset [<!ENTITY l0 'lol'>{laughs}<!ENTITY file SYSTEM '{secret.as_uri()}'>]>"
    named = pages(
        f"{head}<urlset><url><loc>http://x.test/&l9;</loc></url><url><loc>&file;</loc></url><url><loc>"
        "http://x.test/1</loc></url></urlset>"
    )
    assert named == ["http://x.test/&l9;", "http://x.test/1"]


def test_size_and_number_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "MAX_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        pages(gzip.compress(b"<urlset>" + b" " * (4 << 20)))
    for module in (sitemaps, link_lists):
        monkeypatch.setattr(module, "MAX_URLS", 2)
    for body in (
        urlset("http://x.test/1", "http://x.test/2", "http://x.test/3"),
        "http://x.test/1\nhttp://x.test/2\nhttp://x.test/3",
    ):
        sitemap = read_sitemap(body.encode(), _BASE)
        assert (sitemap.pages, sitemap.left) == (["http://x.test/1", "http://x.test/2"], 1)


@pytest.mark.slow
def test_what_is_too_deep_too_much_or_too_many_is_refused_and_told() -> None:
    frontier = Frontier(
        UrlPolicy(SiteSource.model_validate({"name": "s", "kind": "site", "sitemaps": [_BASE], "limits": {"pages": 1}}))
    )
    assert [frontier.add_sitemap(f"{_BASE}?{n}", depth) for n, depth in enumerate([0, 3, 4])] == [True, True, False]
    assert sum(frontier.add_sitemap(f"{_BASE}?n={n}") for n in range(1200)) == sitemaps.MAX_SITEMAPS - 2
    for n in range(12_000):
        frontier.add_links([Link(f"http://x.test/{n}", "link")], Waiting("http://x.test/"), None)
    assert (len(frontier), frontier.unqueued) == (10_000, 2_000)


@pytest.mark.skipif(not _COLLECTED.is_dir(), reason=f"collected sitemaps are not at {_COLLECTED}")
def test_collected_sitemaps_give_as_much_as_other_readers_find() -> None:
    """The numbers are those that the tests of crawler-commons state for these files, where they state one, and else a
    count by hand.
    """
    sitemaps_by_name = {path.name: read_sitemap(path.read_bytes(), _BASE) for path in _COLLECTED.rglob("*.*")}
    counts = Counter({name: len(sitemap.pages) + len(sitemap.sitemaps) for name, sitemap in sitemaps_by_name.items()})
    assert counts["atom.xml"] == counts["sitemap-images.xml"] == counts["sitemap-videos-tvshow.xml"] == 1
    assert (
        counts["sitemap.ns.xml"]
        == counts["sitemap.badns.xml"]
        == counts["sitemap.txt"]
        == counts["sitemap-with-bom.txt"]
        == counts["sitemap-news.xml"]
        == 2
    )
    assert (
        counts["sitemap-mobile.xml"]
        == counts["sitemap-links.xml"]
        == counts["sitemap-videos.xml"]
        == counts["shinpaideshou-news-sitemap.xml"]
        == 3
    )
    assert (counts["xmlSitemap.gz"], counts["sitemap.txt.gz"], len(sitemaps_by_name["sitemap.index.xml"].sitemaps)) == (
        5,
        5,
        15,
    )
    assert not any(url.endswith((".jpg", ".jpeg")) for sitemap in sitemaps_by_name.values() for url in sitemap.pages)


def test_a_declared_sitemap_is_the_whole_road(loopback_site: "Site", tmp_path: Path) -> None:
    """Nested, zipped, in a circle, and off the domains; its pages' links are not followed, and it is no page itself."""
    site = loopback_site
    base = site.base
    site.page("/robots.txt", "User-agent: *\nDisallow: /private\n", content_type="text/plain")
    site.page(
        "/sitemap.xml",
        index(
            f"{base}/a.xml.gz",
            f"{base}/moved.xml",
            f"{base}/sitemap.xml",
            "http://127.0.0.2:9/c.xml",
            f"{base}/gone.xml",
        ),
    )
    site.page(
        "/a.xml.gz",
        gzip.compress(
            urlset(f"{base}/1", f"{base}/2#top", f"{base}/login", "http://127.0.0.2:9/", f"{base}/p.pdf").encode()
        ),
        content_type="application/gzip",
    )
    site.page("/moved.xml", status=301, headers={"Location": "/b.txt"})
    site.page("/b.txt", f"{base}/2\n{base}/3\n{base}/private/4\n{base}/gone\n", content_type="text/plain")
    for path in ("/1", "/2", "/3", "/login", "/linked"):
        site.page(path, links("/linked", "/sitemap.xml"))
    outcome, stored = crawled(
        site, tmp_path, start_urls=[], sitemaps=[f"{base}/sitemap.xml"], follow={"deny": ["login"]}
    )
    assert stored == ["/1", "/2", "/3"]
    assert outcome.pages.model_dump() == {
        "fetched": 3,
        "unchanged": 0,
        "failed": 1,
        "gone": 1,
        "vanished": 0,
        "refused": 2,
    }
    reasons = {failure.url.removeprefix(base): failure.reason for failure in outcome.failures}
    assert reasons == {
        "/gone.xml": "error",
        "/gone": "gone",
        "/private/4": "refused_by_robots",
        "http://127.0.0.2:9/c.xml": "off_site",
    }
    assert site.requests["/sitemap.xml"] == site.requests["/2"] == 1
    assert (outcome.finish, site.requests["/linked"], site.requests["/p.pdf"]) == ("finished", 0, 0)


def test_allow_holds_for_sitemaps_and_opens_the_links(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/s.xml", urlset(f"{site.base}/a/1", f"{site.base}/b/1"))
    site.page("/a/1", links("/a/2", "/b/2"))
    site.page("/a/2", "x")
    _, stored = crawled(site, tmp_path, start_urls=[], sitemaps=[f"{site.base}/s.xml"], follow={"allow": ["/a/"]})
    assert stored == ["/a/1", "/a/2"]


def test_a_sitemap_beside_start_urls_adds_to_a_free_crawl(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/s.xml", urlset(f"{site.base}/orphan"))
    site.page("/", links("/1"))
    site.page("/1", "x")
    site.page("/orphan", "x")
    site.page("/deep.xml", index(f"{site.base}/deep.xml?1"))
    for n in range(1, 6):
        site.page(f"/deep.xml?{n}", index(f"{site.base}/deep.xml?{n + 1}"))
    outcome, stored = crawled(
        site, tmp_path, sitemaps=[f"{site.base}/s.xml", f"{site.base}/none.xml", f"{site.base}/deep.xml"]
    )
    assert stored == ["/", "/1", "/orphan"]
    assert [failure.url.removeprefix(site.base) for failure in outcome.failures] == ["/none.xml", "/deep.xml?4"]


def test_large_index_is_read_no_further_than_the_page_limit_needs(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/s.xml", index(*(f"{site.base}/s{n}.xml" for n in range(50))))
    for n in range(50):
        site.page(f"/s{n}.xml", urlset(*(f"{site.base}/{n}-{m}" for m in range(20))), delay_s=0.02)
        for m in range(20):
            site.page(f"/{n}-{m}", "x")
    outcome, stored = crawled(site, tmp_path, start_urls=[], sitemaps=[f"{site.base}/s.xml"], limits={"pages": 10})
    assert (len(stored), outcome.finish) == (10, "pages")
    assert sum(site.requests[f"/s{n}.xml"] for n in range(50)) < 20


def test_sitemaps_that_give_nothing_are_explained(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/off.xml", urlset("http://elsewhere.test/1"))
    site.page("/broken.xml", status=500)
    with pytest.raises(NoRecords, match="name no page that may be fetched"):
        crawled(site, tmp_path, start_urls=[], sitemaps=[f"{site.base}/off.xml"])
    with pytest.raises(NoRecords, match=r"/none\.xml: error \(status 404\), sitemap: answered 404") as caught:
        crawled(site, tmp_path, start_urls=[], sitemaps=[f"{site.base}/none.xml"])
    assert caught.value.hint == f"curl -I {site.base}/none.xml"
    with pytest.raises(Unreachable, match="server_error"):
        crawled(site, tmp_path, start_urls=[], sitemaps=[f"{site.base}/broken.xml"])
