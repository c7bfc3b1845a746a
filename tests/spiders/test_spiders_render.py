"""What `render` of a site may say, and what becomes of it where nothing can draw; no browser is needed for that."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from almanac.cli import checks
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, Project
from almanac.flows.pipeline.fingerprints import mapping_of
from almanac.schemas.declaration.render import Click, Render
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DeclarationError, OperationalError, UsageError
from almanac.schemas.items import Page
from almanac.spiders.crawling import crawl_start as start
from almanac.spiders.crawling.crawl import fetch_site
from almanac.spiders.crawling.crawl_settings import settings_for
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.mapping.diagnose import explain_empty
from almanac.spiders.reading.content import Content
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Site

_DRAWS = "almanac.spiders.crawling.drawn_pages.DrawnPages"


def source_of(start: str = "http://x.test/", **keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "shop", "kind": "site", "start_urls": [start], **keys})


def test_true_stands_for_the_defaults_and_a_string_for_one_click() -> None:
    assert source_of(render=True).render == source_of(render={}).render == Render()
    assert source_of(render=False).render is source_of().render is None
    render = source_of(render={"click": ["css=.a", {"on": "xpath=//b[1]", "times": 3}]}).render
    assert render is not None and render.click == [Click(on="css=.a"), Click(on="xpath=//b[1]", times=3)]
    assert [
        _DRAWS in settings_for(declared)["DOWNLOADER_MIDDLEWARES"] for declared in (source_of(), source_of(render=True))
    ] == [
        False,
        True,
    ]
    assert len({fetching_of(source_of(render=render)) for render in (False, True, {"scroll": 1})}) == 3


def test_another_waiting_time_makes_no_other_page() -> None:
    short, long, further = (
        source_of(render={"timeout_s": seconds, "scroll": scroll}) for seconds, scroll in ((10, 0), (20, 0), (10, 1))
    )
    assert requester_fingerprint(short) == requester_fingerprint(long) != requester_fingerprint(further)
    assert len({mapping_of(source, "en") for source in (short, long, further, source_of())}) == 1, (
        "pages that are the same are mapped once"
    )
    assert fetching_of(short) != fetching_of(long), "a page that came too late may come now"


@pytest.mark.parametrize(
    ("render", "says"),
    [
        ("{wait_for: .card}", 'must be "css=…" or "xpath=…"'),
        ('{wait_for: "text=Buy"}', 'must be "css=…" or "xpath=…"'),
        ('{wait_for: "css="}', 'must be "css=…" or "xpath=…"'),
        ('{wait_for: "css=.card["}', "not a CSS selector"),
        ('{wait_for: "css=.card::text"}', "have no place here"),
        ('{wait_for: "css=.card >> nth=1"}', "not a CSS selector"),
        ('{wait_for: "xpath=//a["}', "not an XPath expression"),
        ("{timeout_s: 0}", "greater than 0"),
        ("{timeout_s: .inf}", "finite"),
        ("{scroll: -1}", "greater than or equal to 0"),
        ("{click: [{on: css=.more, times: 1000}]}", "less than or equal to 100"),
        ("{block: [script]}", "'image', 'font', 'media' or 'stylesheet'"),
        ("{waitfor: css=.card}", "did you mean wait_for?"),
        ("sometimes", "must be true, or keys such as"),
    ],
)
def test_nonsense_is_refused_with_its_line(render: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"name: shop\nsources:\n  - name: s\n    kind: site\n    start_urls: [http://x.test/]\n    render: {render}\n",
        encoding="utf-8",
    )
    with pytest.raises(DeclarationError) as refused:
        load_declaration(str(path))
    assert f"{path}:6" in str(refused.value)
    assert says in str(refused.value)


def test_without_chromium_a_crawl_ends_before_it_begins_and_doctor_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "knowledge").mkdir()
    declared = (
        "name: shop\nsources:\n  - name: s\n    kind: site\n    start_urls: [http://x.test/]\n    yields: documents\n"
    )
    (tmp_path / "knowledge" / "shop.yaml").write_text(declared, encoding="utf-8")
    assert _chromium(tmp_path).state == "note"
    (tmp_path / "knowledge" / "shop.yaml").write_text(f"{declared}    render: true\n", encoding="utf-8")
    check = _chromium(tmp_path)
    assert (check.state, "declared by shop" in check.found, "apt install chromium" in check.hint) == (
        "wrong",
        True,
        True,
    )
    with pytest.raises(
        UsageError, match=r"sources\.shop\.render: pages are drawn by Chromium, and there is none on PATH"
    ) as refused:
        fetch_site(source_of(render=True), RawStore(tmp_path / "raw"), "r1")
    assert refused.value.exit_code == 2
    assert not (tmp_path / "raw").exists()


@pytest.mark.slow
def test_a_chromium_that_gets_no_sandbox_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loopback_site: Site
) -> None:
    """Where users may make no namespaces and there is no setuid helper; root has none either way, so one that says so
    stands in for it.
    """
    (tmp_path / "chromium").write_text(
        "#!/bin/sh\necho 'ERROR: No usable sandbox! If this is a Debian system, …' >&2\nexit 1\n", encoding="utf-8"
    )
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "knowledge").mkdir()
    declared = (
        "name: shop\nsources:\n  - name: s\n    kind: site\n    start_urls: [http://x.test/]\n    yields: "
        "documents\n    render: true\n"
    )
    (tmp_path / "knowledge" / "shop.yaml").write_text(declared, encoding="utf-8")
    check = _chromium(tmp_path)
    assert (
        check.state,
        "no sandbox for it; declared by shop" in check.found,
        "apt install chromium-sandbox" in check.hint,
    ) == ("wrong", True, True)
    loopback_site.page("/", "<p>x</p>")
    # started, not forked: a fork of the tests' threads crashed here once
    monkeypatch.setattr(start, "subprocess", subprocess)
    with pytest.raises(
        OperationalError, match=rf"Chromium does not start: this system gives user {os.geteuid()} no sandbox for it"
    ) as failed:
        fetch_site(
            source_of(loopback_site.base, render=True, politeness={"allow_private": True}),
            RawStore(tmp_path / "raw"),
            "r1",
        )
    assert "apt install chromium-sandbox" in str(failed.value.hint)


def _chromium(folder: Path) -> checks.Check:
    return next(
        check for check in checks.examine(Project(folder), DataDir(folder / "data")) if check.name == "chromium"
    )


@pytest.mark.parametrize(
    "script",
    ["<script>var d = [{a: 1}]</script>", "<script>fetch('/api/tours')</script>", "<script src='/app.js'></script>"],
)
@pytest.mark.parametrize(
    ("rules", "proposes"),
    [
        ({"each": {"css": ".card"}, "fields": {"name": {"css": "b"}}}, 'render: {wait_for: "css=.card"}'),
        ({"fields": {"name": {"xpath": "//h1[@class='name']"}}}, "render: {wait_for: \"xpath=//h1[@class='name']\"}"),
        ({"fields": {"name": {"css": "b::text"}}}, "render: true"),
    ],
)
def test_drawing_is_proposed_beside_the_data_of_the_page(script: str, rules: dict[str, Any], proposes: str) -> None:
    page = Page(url="http://x.test/p", body=f"<html><body>{script}</body></html>".encode(), content_type="text/html")
    source = source_of(yields="records", **rules)
    assert (explain_empty(Content(page), source) or "").endswith(f"; or have Chromium draw it, with {proposes}")
    drawn = Page(url=page.url, body=page.body, content_type=page.content_type, rendered="Chromium 1")
    assert explain_empty(Content(drawn), source) is None, "what scripts put there is there"
