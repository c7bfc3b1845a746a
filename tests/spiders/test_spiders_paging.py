"""Pagination in its three forms: where it goes, and that it ends where a page adds nothing."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from almanac.schemas.declaration.crawling import Pagination
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.crawling.chain import Chain, marks_of
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.pagination import numbered_next, stated_next
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Answer
from tests.spiders.test_spiders_crawl import crawled, links, source

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

_LISTING = {"match": "/list$", "each": {"css": "li"}, "link": {"css": "a"}, "fields": {"number": {"css": "b"}}}


def numbered(pages: int, beyond: str, *, parameter: str = "page", first: int = 1) -> Callable[[str], Answer]:
    """A listing of `pages` pages with two cards each, and what it says when it is asked for more."""

    def answer(path: str) -> Answer:
        parts = urlsplit(path)
        if parts.path != "/list":
            return Answer(f"<h1>{path}</h1>") if parts.path.startswith("/i/") else Answer("", 404)
        number = int(parse_qs(parts.query).get(parameter, [str(first)])[0])
        if number >= first + pages:
            if beyond == "last page":
                number = first + pages - 1
            elif beyond == "empty":
                return Answer(f"<p>Page {number}: nothing found</p>")
            else:
                return Answer("", int(beyond))
        cards = "".join(f"<li><a href='/i/{number}-{n}'>x</a><b>{number}</b></li>" for n in range(2))
        # A fresh token each time: the same cards never come in the same bytes.
        return Answer(f"<ul>{cards}</ul><input type=hidden value='{next(tokens)}'>")

    tokens = itertools.count()
    return answer


@pytest.mark.parametrize("beyond", ["404", "empty", "last page"])
def test_numbers_are_tried_until_a_page_adds_nothing(loopback_site: "Site", tmp_path: Path, beyond: str) -> None:
    """However the server says that there is no such page: it is not stored, and counts neither as fetched nor as
    gone.
    """
    site = loopback_site
    site.otherwise = numbered(3, beyond)
    declared: dict[str, Any] = {
        "start_urls": [f"{site.base}/list"],
        "pagination": {"parameter": "page"},
        "listing": _LISTING,
    }
    outcome, stored = crawled(site, tmp_path, **declared, yields="records", fields={"name": {"css": "h1"}})
    assert [path for path in stored if path.startswith("/list")] == ["/list", "/list?page=2", "/list?page=3"]
    assert (outcome.pages.fetched, outcome.pages.gone, outcome.pages.failed, outcome.failures) == (9, 0, 0, [])
    assert [site.requests[f"/list?page={number}"] for number in (4, 5, 1)] == [1, 0, 0]
    mapped = map_pages(
        RawStore(tmp_path).pages("r1"), source(site, **declared, yields="records", fields={"name": {"css": "h1"}}), "en"
    )
    assert sorted(draft.fields["number"] for extraction in mapped for draft in extraction.drafts) == [
        "1",
        "1",
        "2",
        "2",
        "3",
        "3",
    ]


def test_offsets_are_numbers_with_a_step(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    for start, body in ((0, [1, 2]), (2, [3, 4]), (4, [])):
        site.page(
            f"/api?start={start}&size=2", json.dumps({"start": start, "items": body}), content_type="application/json"
        )
    pagination = {"parameter": "start", "first": 0, "step": 2}
    _, stored = crawled(
        site, tmp_path, start_urls=[f"{site.base}/api?start=0&size=2"], pagination=pagination, each={"json": "items"}
    )
    assert stored == ["/api?start=0&size=2", "/api?start=2&size=2"]


def test_page_without_its_number_and_first_page_are_one(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/list", links("/list?page=1", "/list?page=2") + "<li><a href=/i/1>1</a></li>")
    site.page("/list?page=2", links("/list?page=1", "/list") + "<li><a href=/i/2>2</a></li>")
    site.otherwise = lambda path: Answer("x") if path.startswith("/i/") else Answer("", 404)
    keys: dict[str, Any] = {"pagination": {"parameter": "page"}, "listing": _LISTING, "follow": {"allow": ["/list"]}}
    _, stored = crawled(site, tmp_path, start_urls=[f"{site.base}/list"], **keys)
    assert stored == ["/i/1", "/i/2", "/list", "/list?page=2"]


def test_only_start_urls_are_numbered_where_there_is_no_listing(loopback_site: "Site", tmp_path: Path) -> None:
    """What is followed from a page tells whether it adds anything; a counter on it, which is new each time, does
    not.
    """
    site = loopback_site
    site.page("/news", "<p>First</p><p>Visitor 17</p>" + links("/a", "/imprint"))
    site.page("/news?page=2", "<p>Second</p><p>Visitor 18</p>" + links("/b", "/imprint"))
    site.otherwise = lambda path: (
        Answer(f"<p>Visitor 1{path}</p>" + links("/b", f"/imprint{path}")) if path.startswith("/news") else Answer("x")
    )
    outcome, stored = crawled(
        site,
        tmp_path,
        start_urls=[f"{site.base}/news"],
        pagination={"parameter": "page"},
        follow={"allow": ["/a", "/b"]},
    )
    assert stored == ["/a", "/b", "/news", "/news?page=2"]
    assert site.requests["/a?page=2"] == 0 and outcome.finish == "finished"


def test_one_broken_page_does_not_end_a_listing_and_a_broken_server_does(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    answers = numbered(4, "404")
    site.otherwise = lambda path: Answer("", 403) if path == "/list?page=2" else answers(path)
    keys: dict[str, Any] = {
        "start_urls": [f"{site.base}/list"],
        "pagination": {"parameter": "page"},
        "listing": _LISTING,
    }
    outcome, stored = crawled(site, tmp_path / "one", **keys)
    assert "/list?page=4" in stored and (outcome.pages.failed, outcome.pages.fetched) == (1, 9)
    site.otherwise = lambda path: answers(path) if path in ("/list", "/i/1-0", "/i/1-1") else Answer("", 403)
    outcome, stored = crawled(site, tmp_path / "all", **keys)  # or is 403 how it says that there is no such page?
    assert (outcome.pages.failed, outcome.failures, stored) == (0, [], ["/i/1-0", "/i/1-1", "/list"])
    assert [site.requests[f"/list?page={n}"] for n in range(2, 6)] == [2, 2, 2, 1]
    site.otherwise = lambda path: Answer("", 401) if "page=" in path else answers(path)
    outcome, _ = crawled(site, tmp_path / "closed", **keys)
    assert outcome.pages.failed == 3


def test_next_links_that_never_end_end(loopback_site: "Site", tmp_path: Path) -> None:
    """The last page again under ever new addresses, and a circle."""
    site = loopback_site

    def answer(path: str) -> Answer:
        number = int(path.rpartition("=")[2]) if "=" in path else 1
        shown = min(number, 3)
        return Answer(f"<li><a href='/list?i={shown}'>x</a></li><a class=next href='/list?p={number + 1}'>next</a>")

    site.otherwise = answer
    keys: dict[str, Any] = {
        "start_urls": [f"{site.base}/list"],
        "pagination": {"next": {"css": "a.next"}},
        "listing": _LISTING,
    }
    outcome, stored = crawled(site, tmp_path / "1", **keys)
    assert [path for path in stored if "p=" in path] == [
        f"/list?p={n}" for n in range(2, 7)
    ] and outcome.finish == "finished"
    site.otherwise = lambda path: Answer("<li><a href=/i>x</a></li><a class=next href='/list'>next</a>")  # noqa: ARG005
    _, stored = crawled(site, tmp_path / "2", **keys)
    assert stored == ["/i", "/list"]


def test_a_page_without_anything_new_that_links_on_is_not_the_end(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    for number, card in enumerate(["/i/1", "", "/i/1", "/i/4", ""], 1):
        site.page(
            f"/list?p={number}",
            f"<li><a href='{card}'>x</a></li>" * bool(card)
            + f"<a class=next href='/list?p={number + 1}'>next</a>" * (number < 5),
        )
    site.otherwise = lambda path: Answer("x") if path.startswith("/i/") else Answer("", 404)
    keys: dict[str, Any] = {
        "start_urls": [f"{site.base}/list?p=1"],
        "pagination": {"next": {"css": "a.next"}},
        "listing": {**_LISTING, "match": "/list"},
    }
    _, stored = crawled(site, tmp_path, **keys)
    assert stored == ["/i/1", "/i/4", *(f"/list?p={n}" for n in range(1, 6))]


def test_pages_of_a_pagination_do_not_use_up_the_depth(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.otherwise = numbered(30, "404")
    keys: dict[str, Any] = {
        "start_urls": [f"{site.base}/list"],
        "pagination": {"parameter": "page"},
        "listing": _LISTING,
    }
    outcome, _ = crawled(site, tmp_path, limits={"depth": 1}, **keys)
    assert (outcome.pages.fetched, outcome.beyond_depth) == (90, 0)


def test_page_linked_by_its_number_is_still_a_page_of_the_listing(loopback_site: "Site", tmp_path: Path) -> None:
    """A pager names pages 2 to 5 at once; they are met as plain links before the next links come to them."""
    site = loopback_site
    for number in range(1, 6):
        pager = links(*(f"/list?p={n}" for n in range(2, 6)))
        following = f"<a class=next href='/list?p={number + 1}'>next</a>" if number < 5 else ""
        site.page(
            "/list" if number == 1 else f"/list?p={number}",
            f"<li><a href=/i/{number}>{number}</a></li>{pager}{following}",
            delay_s=0.05,
        )
        site.page(f"/i/{number}", "x")
    keys: dict[str, Any] = {
        "pagination": {"next": {"css": "a.next"}},
        "listing": _LISTING,
        "follow": {"allow": ["/list"]},
    }
    _, stored = crawled(site, tmp_path, start_urls=[f"{site.base}/list"], **keys)
    assert [path for path in stored if path.startswith("/i/")] == [f"/i/{n}" for n in range(1, 6)]


@pytest.mark.parametrize(
    ("keys", "first", "second", "adds"),
    [
        ({}, "<p>One</p>", "<p>Two</p>", True),
        ({}, "<p>One</p><p>Page 1 of 9</p>", "<p>One</p><p>Page 2 of 9</p>", False),
        ({}, "<p>One</p><a href='/list?page=2'>2</a>", "<p>One</p><a href='/list?page=3'>3</a>", False),
        ({"match": "/list"}, "<p>One</p>", "<p>Two</p>", True),
        ({"match": "/p/"}, "<p>12:01</p>", "<p>12:02</p>", False),
        (
            {"match": "/p/", "follow": {"allow": ["/p/"]}},
            "<p>12:01</p><a href='/p/1'>1</a>",
            "<p>12:02</p><a href='/p/2'>2</a>",
            True,
        ),
        (
            {"match": "/p/", "follow": {"allow": ["/p/"]}},
            "<p>12:01</p><a href='/p/1'>1</a>",
            "<p>12:02</p><a href='/p/1'>1</a><a href='/q'>q</a>",
            False,
        ),
        ({"each": {"css": "li"}}, "<li>One</li><p>12:01</p>", "<li>One</li><p>12:02</p>", False),
        (
            {},
            '{"page": 1, "at": "12:01", "items": [{"id": 1}]}',
            '{"page": 2, "at": "12:02", "items": [{"id": 1}]}',
            False,
        ),
        (
            {},
            '{"page": 1, "at": "12:01", "items": [{"id": 1}]}',
            '{"page": 2, "at": "12:02", "items": [{"id": 2}]}',
            True,
        ),
        ({}, '{"data": {"rows": [[1, "a"], [2, "b"]]}}', '{"data": {"rows": []}, "at": "12:02"}', False),
        ({}, '{"page": 1, "text": "One"}', '{"page": 2, "text": "Two"}', True),
        ({}, '{"page": 1, "text": "One"}', '{"page": 2, "text": "One"}', False),
        ({}, "[1, 2]", "no JSON", False),
    ],
)
def test_what_a_page_adds_is_what_is_declared(keys: dict[str, Any], first: str, second: str, *, adds: bool) -> None:
    declared = {
        "name": "s",
        "kind": "site",
        "start_urls": ["http://x.test/list"],
        "pagination": {"parameter": "page"},
        **keys,
    }
    policy, chain = UrlPolicy(SiteSource.model_validate(declared)), Chain()
    kind = "text/html" if first.startswith("<") else "application/json"
    pages = [
        Page(url=f"http://x.test/list?page={n}", body=body.encode(), content_type=kind)
        for n, body in enumerate((first, second), 1)
    ]
    assert [chain.adds(marks_of(Content(page), policy)) for page in pages][1] is adds


@pytest.mark.parametrize(
    ("url", "body", "pagination", "following"),
    [
        ("/api", {"next": "/api?page=2"}, {"json": "next"}, "/api?page=2"),
        ("/api", {"next": "?after=x"}, {"json": "next"}, "/api?after=x"),
        ("/api", {"next": 2}, {"json": "next"}, "/api?page=2"),
        ("/api", {"next": None}, {"json": "next"}, None),
        ("/api", {"next": False}, {"json": "next"}, None),
        ("/api", {"next": ""}, {"json": "next"}, None),
        ("/api", {}, {"json": "next"}, None),
        ("/api?p=1&size=9", {"next": 2}, {"json": "next"}, "/api?p=2&size=9"),
        ("/api?size=1&page=1", {"next": 2}, {"json": "next"}, "/api?size=1&page=2"),
        ("/api?category=1", {"next": 2}, {"json": "next"}, "/api?category=1&page=2"),
        ("/api?page=1", {"more": True}, {"json": "more"}, "/api?page=2"),
        ("/api", {"more": True}, {"json": "more", "parameter": "n", "first": 0}, "/api?n=1"),
        ("/api", {"c": "/a+b=="}, {"json": "c", "parameter": "cursor"}, "/api?cursor=%2Fa%2Bb%3D%3D"),
        ("/api", {"links": [{"rel": "next", "href": "/two"}]}, {"json": "links[?rel=='next'].href"}, "/two"),
        ("/api", {"links": []}, {"json": "links[?rel=='next'].href"}, None),
    ],
)
def test_json_says_what_comes_next(
    url: str, body: dict[str, Any], pagination: dict[str, Any], following: str | None
) -> None:
    policy = UrlPolicy(
        SiteSource.model_validate(
            {"name": "s", "kind": "site", "start_urls": ["http://x.test/api"], "pagination": pagination}
        )
    )
    page = Page(url=f"http://x.test{url}", body=json.dumps(body).encode(), content_type="application/json")
    assert policy.next_pages(Content(page)) == ([f"http://x.test{following}"] if following else [])


def test_json_api_is_read_to_its_end(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    for number in (1, 2, 3):
        body = {"items": [{"id": number}], "has_next": number < 3}
        site.page(f"/api?page={number}", json.dumps(body), content_type="application/json")
    keys: dict[str, Any] = {"pagination": {"json": "has_next"}, "each": {"json": "items"}}
    outcome, stored = crawled(site, tmp_path, start_urls=[f"{site.base}/api?page=1"], **keys)
    assert (stored, outcome.pages.gone) == (["/api?page=1", "/api?page=2", "/api?page=3"], 0)


def test_json_that_repeats_itself_ends_and_a_page_it_promised_is_missed(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.otherwise = lambda path: Answer(
        json.dumps({"items": [{"id": 1}], "next": int(path.rpartition("=")[2] if "=" in path else 1) + 1, "now": path})
    )
    keys: dict[str, Any] = {
        "start_urls": [f"{site.base}/api"],
        "pagination": {"json": "next"},
        "each": {"json": "items"},
    }
    site.page("/other", json.dumps({"items": [{"id": 1}], "next": "/lost"}), content_type="application/json")
    inner = site.otherwise
    site.otherwise = lambda path: (
        Answer(inner(path).body, content_type="application/json") if path.startswith("/api") else Answer("", 404)
    )
    _, stored = crawled(site, tmp_path / "1", **keys)
    assert stored == ["/api", "/api?page=2", "/api?page=3", "/api?page=4"]
    outcome, _ = crawled(site, tmp_path / "2", **{**keys, "start_urls": [f"{site.base}/other"]})
    assert outcome.pages.gone == 1


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ({"a": 1}, None),
        (0, "http://x.test/?page=0"),
        (2.0, "http://x.test/?page=2"),
        (2.5, None),
        ("b", "b"),
        ([], None),
    ],
)
def test_odd_values_lead_where_they_say_or_nowhere(value: Any, url: str | None) -> None:
    assert stated_next(value, "http://x.test/", Pagination.model_validate({"json": "n"})) == url


def test_number_that_is_none_has_no_next() -> None:
    assert numbered_next("http://x.test/?page=last", Pagination(parameter="page")) is None


@pytest.mark.parametrize(
    ("pagination", "says"),
    [({"next": {"css": "a"}, "parameter": "p"}, "takes one of"), ({"first": 0}, "go with 'parameter'")],
)
def test_pagination_is_declared_in_one_way(pagination: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SiteSource.model_validate(
            {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "pagination": pagination}
        )
