"""Pages of APIs that fail, tell an error or give no JSON, and those of numbers that end: which keep their place."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import Unreachable
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Answer
from tests.spiders.test_spiders_crawl import links, source

if TYPE_CHECKING:
    from tests.spiders.conftest import Site


@pytest.mark.parametrize(
    ("broken", "kind", "detail"),
    [
        ('{"rows": [{"name": "2-', "application/json", "not JSON: "),
        ("<h1>Back soon</h1>", "text/html", "not JSON: "),
        (
            '{"error": {"code": 1, "text": "später"}}',
            "application/json",
            'an error in place of rows: {"code": 1, "text": "später"}',
        ),
        (
            '{"rows": [], "errors": ["too many"], "next": null}',
            "application/json",
            'an error in place of rows: ["too many"]',
        ),
    ],
)
@pytest.mark.parametrize("pagination", [{"json": "next", "parameter": "page"}, {"parameter": "page"}])
def test_an_api_page_that_is_no_json_or_tells_an_error_costs_no_item(
    loopback_site: "Site", tmp_path: Path, broken: str, kind: str, detail: str, pagination: dict[str, str]
) -> None:
    """It has failed: its items stay, and those of the pages that only it leads to, run after run."""
    site, raw = loopback_site, RawStore(tmp_path)
    keys: dict[str, Any] = {
        "pagination": pagination,
        "each": {"json": "rows"},
        "yields": "records",
        "fields": {"name": {"json": "name", "required": True}},
    }
    api, paths = source(site, **keys), ["/", "/?page=2", "/?page=3", "/?page=4"]
    for number, path in enumerate(paths, start=1):
        body = {
            "rows": [{"name": f"{number}-{n}"} for n in range(2)],
            "next": number + 1 if number < len(paths) else None,
        }
        site.page(path, json.dumps(body), content_type="application/json")
    crawl_site(api, raw, "r1")
    names = [
        draft.fields["name"] for extraction in map_pages(raw.pages("r1"), api, "en") for draft in extraction.drafts
    ]
    site.page("/?page=2", broken, content_type=kind)
    for number in (2, 3):
        outcome = crawl_site(api, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert (outcome.pages.failed, outcome.pages.vanished, outcome.kept) == (1, 0, 1)
        assert [(failure.reason, failure.detail[: len(detail)]) for failure in outcome.failures] == [
            ("not_json", detail)
        ]
        again = [
            draft.fields["name"]
            for extraction in map_pages(raw.pages(f"r{number}"), api, "en")
            for draft in extraction.drafts
        ]
        assert sorted(again) == sorted(names) and len(names) == 8


def test_an_api_that_tells_of_errors_beside_its_items_has_them(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    for number in (1, 2):
        body = {
            "rows": [{"name": str(number)}],
            "errors": ["one row is hidden"],
            "error": None,
            "next": 2 if number == 1 else None,
        }
        site.page("/" if number == 1 else f"/?page={number}", json.dumps(body), content_type="application/json")
    site.page("/?page=3", '{"error": null, "errors": [], "rows": []}', content_type="application/json")
    api = source(
        site,
        pagination={"json": "next", "parameter": "page"},
        each={"json": "rows"},
        yields="records",
        fields={"name": {"json": "name"}},
    )
    outcome = crawl_site(api, RawStore(tmp_path), "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=2), [])


def test_cards_that_are_an_error_have_failed_and_a_detail_that_tells_of_one_has_not(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    listing = {"match": "/api", "each": {"json": "rows"}, "link": {"json": "url"}}
    declared = source(
        site, start_urls=[f"{site.base}/api"], listing=listing, yields="records", fields={"name": {"json": "name"}}
    )
    cards, error = (
        json.dumps({"rows": [{"url": f"/{n}"} for n in range(3)], "errors": ["hidden: 1"]}),
        '{"error": "too many requests"}',
    )
    for n in range(3):
        site.page(f"/{n}", json.dumps({"name": str(n), "errors": ["no picture"]}), content_type="application/json")
    for number, body in enumerate([cards, error], start=1):
        site.page("/api", body, content_type="application/json")
        outcome = crawl_site(
            declared, raw, f"r{number}", previous=PreviousCrawls(concluded="r1" if number > 1 else None)
        )
        assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/api", "not_json")] * (
            number - 1
        )
        assert (outcome.pages.present, outcome.pages.vanished) == (4 if number == 1 else 3, 0)
        assert sorted(
            draft.fields["name"]
            for extraction in map_pages(raw.pages(f"r{number}"), declared, "en")
            for draft in extraction.drafts
        ) == ["0", "1", "2"]


@pytest.mark.parametrize("body", ['{"name": "1', "No such thing today"])
def test_an_api_that_answers_nothing_but_no_json_is_worth_another_try(
    loopback_site: "Site", tmp_path: Path, body: str
) -> None:
    site = loopback_site
    site.page("/", body, content_type="application/json")
    with pytest.raises(Unreachable, match="not_json") as caught:
        crawl_site(source(site, yields="records", fields={"name": {"json": "name"}}), RawStore(tmp_path), "r1")
    assert caught.value.hint == f"the rules read JSON: look at what comes, curl {site.base}/"


@pytest.mark.parametrize("beyond", ["", "<p>no more</p>", '{"error": "no such page"}'])
def test_an_api_that_answers_without_json_beyond_its_end_has_no_failed_page(
    loopback_site: "Site", tmp_path: Path, beyond: str
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", '{"rows": [{"name": "1"}]}', content_type="application/json")
    site.otherwise = lambda _: Answer(
        beyond, content_type="text/html" if beyond.startswith("<") else "application/json"
    )
    site.unknown = site.otherwise
    api = source(
        site,
        pagination={"parameter": "page"},
        each={"json": "rows"},
        yields="records",
        fields={"name": {"json": "name"}},
    )
    outcome = crawl_site(api, raw, "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=1), [])


def numbered_api(site: "Site", pages: int, cut: int | None = None) -> SiteSource:
    """An API of `pages` numbered pages with a row each, of which one may be cut short."""
    for number in range(1, pages + 1):
        body = json.dumps({"rows": [{"name": str(number)}]})
        site.page(
            "/" if number == 1 else f"/?page={number}",
            body[:20] if number == cut else body,
            content_type="application/json",
        )
    return source(
        site,
        pagination={"parameter": "page"},
        each={"json": "rows"},
        yields="records",
        fields={"name": {"json": "name"}},
    )


@pytest.mark.parametrize(
    ("beyond", "kind"),
    [("<p>no more</p>", "text/html"), ("No results", "application/json"), ('{"error": "beyond"}', "application/json")],
)
def test_an_api_that_shrinks_loses_the_pages_beyond_its_end(
    loopback_site: "Site", tmp_path: Path, beyond: str, kind: str
) -> None:
    """Whatever it says there, if no later number is a page, a number that was one before is beyond the end, and does
    not fail run after run.
    """
    site, raw = loopback_site, RawStore(tmp_path)
    api = numbered_api(site, 4)
    crawl_site(api, raw, "r1")
    del site.answers["/?page=3"], site.answers["/?page=4"]
    site.otherwise = lambda _: Answer(beyond, content_type=kind)
    seen = []
    for number in (2, 3):
        outcome = crawl_site(api, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        seen.append((outcome.pages.vanished, outcome.kept, outcome.failures, len(raw.index(f"r{number}").urls)))
    assert seen == [(2, 0, [], 2), (0, 0, [], 2)]


def test_without_its_first_page_nothing_shows_where_an_api_ends(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    api = numbered_api(site, 3)
    site.page("/other", '{"rows": [{"name": "other"}]}', content_type="application/json")
    api = api.model_copy(update={"start_urls": [*api.start_urls, f"{site.base}/other"]})
    crawl_site(api, raw, "r1")
    for path in ("/", "/?page=2", "/?page=3"):
        site.page(path, "<h1>Back soon</h1>")
    outcome = crawl_site(api, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.pages.vanished, outcome.kept, outcome.pages.failed) == (0, 3, 3)


@pytest.mark.parametrize("cut", [2, 3])
def test_a_numbered_page_that_is_cut_short_has_failed_also_where_it_is_new_and_the_last(
    loopback_site: "Site", tmp_path: Path, cut: int
) -> None:
    site = loopback_site
    outcome = crawl_site(numbered_api(site, 3, cut), RawStore(tmp_path), "r1")
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/?page={cut}", "not_json")]


def test_a_listing_in_json_that_is_html_now_hides_no_page_whatever_the_rules_of_its_details(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    listing = {"match": "/api", "each": {"json": "rows"}, "link": {"json": "url"}}
    declared = source(
        site, start_urls=[f"{site.base}/api"], listing=listing, yields="records", fields={"name": {"css": "h1"}}
    )
    site.page("/api", json.dumps({"rows": [{"url": f"/{n}"} for n in range(3)]}), content_type="application/json")
    for n in range(3):
        site.page(f"/{n}", f"<h1>{n}</h1>")
    crawl_site(declared, raw, "r1")
    site.page("/api", "<h1>Back soon</h1>")
    for number in (2, 3):
        outcome = crawl_site(declared, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/api", "not_json")]
        assert (outcome.pages.present, outcome.pages.vanished, outcome.kept) == (3, 0, 1)


@pytest.mark.parametrize("fields", [{"name": {"json": "name"}}, {"name": {"json": "name"}, "note": {"css": "h2"}}])
@pytest.mark.parametrize("is_redirect", [True, False])
def test_an_api_that_shows_a_page_to_log_in_has_failed(
    loopback_site: "Site", tmp_path: Path, fields: dict[str, Any], is_redirect: bool
) -> None:
    """Also behind a redirect to a page that yields no item, and where CSS rules read more."""
    site, raw = loopback_site, RawStore(tmp_path)
    api = source(
        site, start_urls=[f"{site.base}/api/{n}" for n in (1, 2)], match="/api/", yields="records", fields=fields
    )
    for n in (1, 2):
        site.page(f"/api/{n}", json.dumps({"name": str(n)}), content_type="application/json")
    crawl_site(api, raw, "r1")
    site.page("/login", "<h1>Log in</h1>")
    site.page(
        "/api/1",
        "" if is_redirect else "<h1>Log in</h1>",
        status=302 if is_redirect else 200,
        headers={"Location": "/login"} if is_redirect else {},
    )
    for number in (2, 3):
        outcome = crawl_site(api, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}"))
        assert [(failure.url, failure.reason) for failure in outcome.failures] == [(f"{site.base}/api/1", "not_json")]
        assert sorted(
            draft.fields["name"]
            for extraction in map_pages(raw.pages(f"r{number}"), api, "en")
            for draft in extraction.drafts
        ) == ["1", "2"]


def test_where_items_are_data_in_pages_nothing_needs_to_be_json(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", '<script type="application/ld+json">{"@type": "Product", "name": "1"}</script>' + links("/data"))
    site.page("/data", "// no data", content_type="application/json")
    keys: dict[str, Any] = {
        "each": {"json": "@", "from": "json-ld"},
        "yields": "records",
        "fields": {"name": {"json": "name"}},
    }
    outcome = crawl_site(source(site, **keys), raw, "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=2), [])


def test_an_html_page_that_leads_to_json_is_no_failed_page(loopback_site: "Site", tmp_path: Path) -> None:
    site, raw = loopback_site, RawStore(tmp_path)
    site.page("/", links("/one"))
    site.page("/one", '{"name": "1"}', content_type="application/json")
    outcome = crawl_site(source(site, yields="records", fields={"name": {"json": "name"}}), raw, "r1")
    assert (outcome.pages, outcome.failures) == (PageCounts(fetched=2), [])
