"""The language that sites are asked for."""

from pathlib import Path

import pytest

from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.store.raw import RawStore
from tests.spiders.hosts import Serve


@pytest.mark.parametrize(
    ("language", "headers", "sent"),
    [
        ("en", {}, "en"),
        ("fr-CA", {}, "fr-CA,fr;q=0.9"),
        ("zh-Hant-TW", {}, "zh-Hant-TW,zh-Hant;q=0.9,zh;q=0.8"),
        ("auto", {}, ""),
        ("de", {"accept-language": "de-AT"}, ""),
    ],
)
def test_the_language_that_sites_are_asked_for_is_the_declared_one(
    language: str, headers: dict[str, str], sent: str
) -> None:
    site = {"name": "s", "kind": "site", "start_urls": ["https://a.test/"], "politeness": {"headers": headers}}
    source = Declaration.model_validate({"name": "kb", "language": language, "sources": [site]}).sources[0]
    other = SiteSource.model_validate(site)
    assert isinstance(source, SiteSource) and source.accept_language == sent
    is_same = sent == other.accept_language
    assert (
        (fetching_of(source) == fetching_of(other))
        is is_same
        is (requester_fingerprint(source) == requester_fingerprint(other))
    )


def test_the_language_goes_with_all_that_a_crawl_asks_for(serve: Serve, tmp_path: Path) -> None:
    """Robots.txt, sitemaps, pages, what is made up, and what was asked before; a page of another language is not taken
    for the same.
    """
    host = serve()
    host.gives("/map.xml", 200, body=f"<urlset><url><loc>{host.base}/a</loc></url></urlset>".encode())
    for path in ("/", "/a"):
        host.answers[path] = [(200, {"ETag": '"1"'}, b"<p>un texte</p>")]
    raw, previous = RawStore(tmp_path), PreviousCrawls()
    for run_id, language in (("r1", "fr-CA"), ("r2", "auto"), ("r3", "de")):
        headers = {"Accept-Language": "de-AT"} if language == "de" else {}
        manners = {"allow_private": True, "headers": headers}
        site = {
            "name": "s",
            "kind": "site",
            "start_urls": [f"{host.base}/"],
            "sitemaps": [f"{host.base}/map.xml"],
            "politeness": manners,
        }
        source = Declaration.model_validate({"name": "kb", "language": language, "sources": [site]}).sources[0]
        assert isinstance(source, SiteSource)
        host.requests.clear()
        assert crawl_site(source, raw, run_id, previous=previous).pages.fetched == 2
        assert {"/robots.txt", "/map.xml", "/", "/a"} < set(host.paths())
        assert {request.headers.get("accept-language") for request in host.requests} == {
            {"fr-CA": "fr-CA,fr;q=0.9", "auto": None, "de": "de-AT"}[language]
        }
        assert not any("if-none-match" in request.headers for request in host.requests)
        previous = PreviousCrawls(concluded=run_id)
