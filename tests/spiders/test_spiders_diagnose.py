"""Why a source yields nothing: what is said of pages that scripts draw is a declaration that works."""

import re

import pytest
from ruamel.yaml import YAML

from almanac.schemas.declaration.crawling import Pagination
from almanac.schemas.declaration.field_rules import Selector
from almanac.schemas.declaration.source import FilesSource, SiteSource
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Page, Reject
from almanac.spiders.mapping.diagnose import explain_empty, require_matches
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import find

_SOURCE = SiteSource.model_validate(
    {
        "name": "s",
        "kind": "site",
        "start_urls": ["http://x.test/"],
        "yields": "records",
        "each": {"css": ".card"},
        "fields": {"name": {"css": "b"}},
    }
)
_DRAWN = "<html><body><div id='app'></div>{}</body></html>"


def page(body: str) -> Page:
    return Page(url="http://x.test/p", body=body.encode(), content_type="text/html; charset=utf-8")


@pytest.mark.parametrize(
    "script",
    [
        "<script>var tours = [{id: 1, name: 'Hue'}, {id: 2, name: 'Hoi An'}];</script>",
        '<script id="__NEXT_DATA__" type="application/json">{"props": {"pageProps": {"all tours": [{"id": 1}, '
        '{"id": 2}]}}}</script>',
        """<script>window.__STATE__ = JSON.parse('{"list": [{"the name": "Hue"}, {"the name": "Hoi An"}]}');</script>""",  # noqa: E501
    ],
)
def test_what_is_proposed_finds_the_data(script: str) -> None:
    content = Content(page(_DRAWN.format(script)))
    explanation = explain_empty(content, _SOURCE)
    assert explanation and "without a browser" in explanation and "2 objects" in explanation
    each, field = re.findall(r"\{json: .*?\}(?=$| and|; or)", explanation)
    objects = find(content, Selector.model_validate(YAML(typ="safe").load(each)))[0]
    assert len(objects) == 2
    assert Selector.model_validate(YAML(typ="safe").load(field)).json_


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("<script>fetch('/api/tours?page=' + n)</script>", "The page names /api/tours?page="),
        ("<script src='/app.js'></script>", "network panel"),
    ],
)
def test_data_that_comes_by_a_request_is_said_to(script: str, says: str) -> None:
    explanation = explain_empty(Content(page(_DRAWN.format(script))), _SOURCE)
    assert explanation and says in explanation


def test_data_that_the_page_describes_is_named() -> None:
    site = '{"@type": "Organization", "name": "Pool"}'
    script = (
        f'<script type="application/ld+json">{{"@graph": [{site}, {{"@type": ["FAQPage"], "mainEntity": '
        f'[{{"name": "Why?"}}]}}]}}</script>'
    )
    explanation = explain_empty(Content(page(_DRAWN.format(script))), _SOURCE)
    assert (
        explanation
        and (
            "The page describes a FAQPage in JSON-LD, with the keys mainEntity: read it with fields such as "
            "{json: mainEntity, from: json-ld}"
        )
        in explanation
    )
    assert "JSON-LD" not in (
        explain_empty(Content(page(_DRAWN.format(f'<script type="application/ld+json">{site}</script>'))), _SOURCE)
        or ""
    )


def test_scripts_are_not_blamed_for_a_selector_that_is_wrong() -> None:
    assert explain_empty(Content(page(f"<p>{'A plain page. ' * 50}</p><script>track()</script>")), _SOURCE) is None
    assert explain_empty(Content(page("<p>No script at all.</p>")), _SOURCE) is None


def test_the_finding_tells_of_links_that_were_not_followed() -> None:
    paged = _SOURCE.model_copy(update={"pagination": Pagination(parameter="page")})
    with pytest.raises(
        NoRecords,
        match=(
            r"1 pages yield no item \(each: \.card\)\. 7 links on start pages were not followed: `pagination` is "
            r"declared; add"
        ),
    ):
        require_matches(paged, {}, 0, 1, unfollowed=7)


def test_the_reason_ends_the_finding() -> None:
    stored = [page(_DRAWN.format("<script>var d = [{a: 1}]</script>"))]
    with pytest.raises(
        NoRecords,
        match=(
            r"1 pages yield no item \(each: \.card\)\. http://x\.test/p: the page has no such content without a "
            r"browser"
        ),
    ):
        require_matches(_SOURCE, {}, 0, 1, stored)


def test_documents_that_cannot_be_read_are_no_reason_and_no_crash() -> None:
    source = FilesSource.model_validate(
        {
            "name": "f",
            "kind": "files",
            "glob": "*",
            "fields": {"name": {"css": "h1", "required": True}},
            "yields": "records",
        }
    )
    damaged = Page(url="a.pdf", body=b"%PDF-1.7 and no more", content_type="application/pdf")
    with pytest.raises(
        NoRecords, match=r"required field 'name': css: h1 matched nothing on 1 of 1 items \(1 files\)\n"
    ):
        require_matches(source, {}, 1, 1, [damaged])


def _unread(*reasons: str) -> list[Reject]:
    return [Reject("f", f"{number}.pdf", None, "read", reason) for number, reason in enumerate(reasons, start=1)]


@pytest.mark.parametrize(
    ("seen", "reasons", "says"),
    [
        (1, ["locked"], r"^sources\.f: 1 item cannot be read: 1\.pdf: locked\n"),
        (3, ["locked"] * 3, r"^sources\.f: 3 items cannot be read, such as 1\.pdf: locked\n"),
        (
            3,
            ["damaged", "locked", "locked"],
            r"^sources\.f: 3 items cannot be read; 2 of them, such as 2\.pdf: locked\n",
        ),
        (5, ["locked"], r"matched nothing on 4 of 4 items \(9 files\); 1 item cannot be read: 1\.pdf: locked"),
    ],
)
def test_what_cannot_be_read_is_not_said_to_lack_a_field(seen: int, reasons: list[str], says: str) -> None:
    source = FilesSource.model_validate(
        {
            "name": "f",
            "kind": "files",
            "glob": "*",
            "fields": {"name": {"css": "h1", "required": True}},
            "yields": "records",
        }
    )
    with pytest.raises(NoRecords, match=says):
        require_matches(source, {}, seen, 9, unread=_unread(*reasons))
