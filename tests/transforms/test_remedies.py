"""Where the gate refuses or warns, what to declare is named by what was found."""

from pathlib import Path
from typing import Any

import pytest

from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage, LimitReached
from almanac.schemas.declaration import Declaration
from almanac.schemas.manifest import Check, Verdict
from almanac.transforms.remedies import remedies_of


def _declared(**keys: Any) -> Declaration:
    sources = [
        {"name": "shop", "kind": "site", "start_urls": ["http://a.test/"], **keys},
        {"name": "notes", "kind": "files", "glob": "*.md"},
    ]
    return Declaration.model_validate({"name": "kb", "sources": sources}).at(
        Path("/p/knowledge/shop.yaml"), None, handle="shop"
    )


def _refused(*names: str) -> Verdict:
    checks = [
        Check(name=name, value=0.5, limit=0.1, ok=name not in names)
        for name in ("min_items", "max_failed", "max_lost", "max_added", "min_recall")
    ]
    return Verdict(verdict="refused", checks=checks)


def _pages(reason: str, *paths: str, **fields: Any) -> list[FailedPage]:
    return [FailedPage(url=f"http://a.test{path}", reason=reason, **fields) for path in paths]


@pytest.mark.parametrize(
    ("keys", "failures", "says", "silent"),
    [
        (
            {},
            _pages("error", "/t/1", "/t/2", status=403),
            ["2 pages of shop (/t/) answer 403: gone: [403] if", "follow: {deny", "cookies"],
            ["ignore_par"],
        ),
        (
            {"gone": [403]},
            _pages("error", "/t/1", status=401),
            ["1 page of shop (/t/) answer 401: gone: [401, 403] if"],
            ["may have lapsed"],
        ),
        (
            {"politeness": {"cookies": {"s": "1"}}},
            _pages("error", "/1", status=403),
            ["answer 403: politeness: auth, headers and cookies, which"],
            ["a login"],
        ),
        ({}, _pages("error", "/l?sort=a", "/l?sort=b&p=2", "/l", status=403), ["ignore_parameters: [p, sort] if"], []),
        (
            {},
            _pages("error", "/1", status=302, detail="redirects in a circle, back to http://a.test/1"),
            ["cookie: politeness: {cookies: …}"],
            ["answer"],
        ),
        (
            {},
            [*_pages("server_error", "/1", status=503), *_pages("timeout", "/2")],
            ["2 pages of shop (/) failed by", "delay_s"],
            ["answer"],
        ),
        ({}, _pages("gone", "/1", status=404), [], ["shop"]),  # is no failure
    ],
)
def test_pages_that_failed(
    keys: dict[str, Any], failures: list[FailedPage], says: list[str], silent: list[str]
) -> None:
    remedies = "\n".join(
        remedies_of(_declared(**keys), _refused("max_failed"), [CrawlOutcome(source="shop", failures=failures)])
    )
    assert [text for text in says if text not in remedies] == []
    assert [text for text in silent if text in remedies] == []


@pytest.mark.parametrize(
    ("keys", "outcome", "says"),
    [
        (
            {},
            {"vanished": ["http://a.test/t/1"]},
            "no link leads to 1 page of shop (/t/) any more: are pagination, listing and follow.allow still "
            "right? vanish_after: 3",
        ),
        ({}, {"failures": _pages("denied", "/t/1")}, "1 page of shop (/t/) are left out: follow.deny matches them"),
        ({}, {"failures": _pages("noindex", "/1", status=200)}, "politeness: {noindex: false}"),
        ({}, {"failures": _pages("refused_by_robots", "/1")}, "politeness: {robots: false}"),
        ({}, {"failures": _pages("off_site", "/1")}, "allowed_domains"),
        ({}, {"failures": _pages("gone", "/1", status=410)}, "if the site dropped them, the version is right"),
        ({}, {"failures": _pages("gone", "/1", status=200)}, "show what the site shows for a made-up URL"),
        ({"gone": [401, 403]}, {"failures": _pages("gone", "/1", status=403)}, "gone by the declared gone: [401, 403]"),
        (
            {"gone": {"css": ".sold"}},
            {"failures": _pages("gone", "/1", status=200, detail="it has css: .sold")},
            "1 page of shop (/) have an element that the declared gone names",
        ),
    ],
)
def test_items_that_are_lost(keys: dict[str, Any], outcome: dict[str, Any], says: str) -> None:
    (remedy,) = remedies_of(_declared(**keys), _refused("max_lost"), [CrawlOutcome(source="shop", **outcome)])
    assert says in remedy


def test_each_check_that_refuses_or_warns_has_its_own_and_none_that_passes() -> None:
    cut = CrawlOutcome(
        source="shop",
        limits_reached=[
            LimitReached(source="shop", limit="pages", known_urls_not_fetched=1200, folders={"/t/": 1000, "/n/": 200})
        ],
        failures=_pages("error", "/1", status=403),
    )
    warned = Verdict(verdict="passed", checks=[Check(name="complete", value=1200, limit="warn", ok=True)])
    assert remedies_of(_declared(), warned, [cut]) == [
        "limits.pages cut the crawl of shop: 1,200 known URLs were not fetched (/t/ 1,000, /n/ 200); "
        "raise limits: {pages: …}, or leave out what you do not want by follow: {deny: […]}"
    ]
    assert (
        remedies_of(
            _declared(),
            Verdict(verdict="passed", checks=[Check(name="complete", value=0, limit="warn", ok=True)]),
            [cut],
        )
        == []
    )
    added, recall = remedies_of(_declared(), _refused("max_added", "min_recall"), [cut, CrawlOutcome(source="notes")])
    assert "ignore_parameters" in added and recall.startswith("almanac eval shop shows")


def test_a_kept_version_is_asked_by_its_name_and_what_cannot_be_compared_with_has_another_way_out() -> None:
    verdict = Verdict(
        verdict="refused",
        checks=[
            Check(name="compared_with", value="nothing: its tables cannot be read", limit="v0001", ok=False),
            Check(name="min_recall", value=0.5, limit=0.9, ok=False),
            Check(name="max_recall_drop", value="not measured: v0001 of 'kb' has format 5", limit=0.05, ok=False),
        ],
    )
    compared, recall, drop = remedies_of(_declared(), verdict, [], "v0002")
    assert compared.startswith("almanac rollback shop and another run")
    assert recall.startswith("almanac eval shop --version v0002 shows which")
    assert "almanac eval shop --version v0002 shows what the new one finds" in drop


def test_files_that_are_lost() -> None:
    (remedy,) = remedies_of(
        _declared(), _refused("max_lost"), [CrawlOutcome(source="notes", vanished=["2024/a.md", "2024/b.md"])]
    )
    assert remedy.startswith("nothing is left of 2 files of notes (2024/): is glob still right")


def test_a_folder_of_the_site_keeps_its_name() -> None:
    (remedy,) = remedies_of(
        _declared(), _refused("max_lost"), [CrawlOutcome(source="shop", failures=_pages("gone", "/KB/1", status=404))]
    )
    assert "(/KB/)" in remedy
