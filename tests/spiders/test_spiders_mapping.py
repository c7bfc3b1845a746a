"""Mapping, by saved pages: a folder is a page, its declaration and what must come out of it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from almanac.schemas.declaration.source import FilesSource, SiteSource, Source
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Extraction, Page
from almanac.spiders.mapping import fields
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.mapping.values import convert
from almanac.spiders.reading.dialects import as_shown
from almanac.spiders.reading.markdown import title_of

CASES = Path(__file__).parent / "pages"
TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json", ".jsonl": "application/jsonl"}


def site(**keys: Any) -> SiteSource:
    return SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys})


def html(url: str, body: str, **keys: Any) -> Page:
    return Page(url=url, body=body.encode(), content_type="text/html", **keys)


def only(extractions: list[Extraction]) -> Extraction:
    assert len(extractions) == 1
    return extractions[0]


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_saved_page_gives_the_expected_items(case: str) -> None:
    path = next(path for path in (CASES / case).iterdir() if path.stem == "page")
    declared = YAML(typ="safe").load((CASES / case / "declaration.yaml").read_text(encoding="utf-8"))
    source: Source = TypeAdapter(Source).validate_python(declared["source"])
    page = Page(url=declared["url"], body=path.read_bytes(), content_type=TYPES[path.suffix])
    extraction = only(list(map_pages([page], source, declared["language"])))
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    for draft, wanted in zip(extraction.drafts, expected["drafts"], strict=True):
        assert {name: asdict(draft)[name] for name in wanted} == wanted
    assert [reject.as_json() for reject in extraction.rejects] == expected["rejects"]
    assert extraction.matched == expected["matched"]


TOURS = site(
    start_urls=["http://x.test/tours"],
    yields="records",
    listing={"match": "/tours$", "each": {"css": "li"}, "link": {"css": "a"},
             "fields": {"date": {"css": ".d", "type": "date", "format": "%d/%m/%Y"}, "place": {"css": ".p"}}},
    pagination={"next": {"css": "a.next"}},
    fields={"name": {"css": "h1", "required": True}, "place": {"css": ".place"}},
)  # fmt: skip


def test_card_fields_are_carried_to_the_page_that_the_card_links_to() -> None:
    """The detail page's own value wins unless it is empty; a page that no card links to yields nothing."""
    pages = [
        html("http://x.test/about", "<h1>About</h1>"),
        html(
            "http://x.test/tours",
            "<li><a href='/tours/a#top'>A</a><b class=d>05/06/2025</b><i class=p>Huế</i></li><a class=next "
            "href='?page=2'>more</a>",
        ),
        html("http://x.test/tours/a", "<h1>Tour A</h1><p class=place></p>"),
        html(
            "http://x.test/tours/b-new",
            "<h1>Tour B</h1><p class=place>Đà Lạt</p>",
            requested_url="http://x.test/tours/b",
        ),
        html(
            "http://x.test/tours?page=2",
            "<li><a href='/tours/b'>B</a><b class=d>06/06/2025</b><i class=p>elsewhere</i></li>",
        ),
    ]
    drafts = [draft for extraction in map_pages(pages, TOURS, "vi") for draft in extraction.drafts]
    assert [draft.fields for draft in drafts] == [
        {"date": "2025-06-05", "place": "Huế", "name": "Tour A"},
        {"date": "2025-06-06", "place": "Đà Lạt", "name": "Tour B"},
    ]


def test_page_order_does_not_matter_to_cards() -> None:
    pages = [
        html("http://x.test/a", "<h1>A</h1>"),
        html("http://x.test/tours", "<li><a href=/a>A</a><b class=d>05/06/2025</b></li>"),
    ]
    both = [[d.fields for e in map_pages(order, TOURS, "en") for d in e.drafts] for order in (pages, pages[::-1])]
    assert both[0] == both[1] == [[{"date": "2025-06-05", "place": None, "name": "A"}]][0]


def test_hidden_copy_of_a_card_does_not_stand_in_for_the_visible_one() -> None:
    """A stale card that a script left behind, and one in a template, are on many pages. A hidden card leads to its
    page, and nothing in it is read.
    """
    stale = "<div style='display:none'><li><a href=/a>A</a><b class=d>01/01/2020</b><i class=p>old</i></li></div>"
    form = "<template><li><a href='/{id}'>x</a></li></template>"
    shown = (
        "<li><a href=/a>A</a><b class=d>05/06/2025</b></li><li hidden><a href=/b>B</a><b class=d>07/06/2025</b></li>"
    )
    pages = [
        html("http://x.test/tours", stale + form + shown),
        html("http://x.test/a", "<h1>A</h1>"),
        html("http://x.test/b", "<h1>B</h1>"),
    ]
    drafts = [draft for extraction in map_pages(pages, TOURS, "en") for draft in extraction.drafts]
    assert [d.fields for d in drafts] == [
        {"date": "2025-06-05", "place": None, "name": "A"},
        {"date": None, "place": None, "name": "B"},
    ]


def test_an_address_is_where_the_page_says_and_a_list_of_texts_is_one_text() -> None:
    source = site(
        each={"css": "li"},
        yields="records",
        fields={"url": {"css": "a", "attr": "href"}, "name": {"css": "b ::text, a ::text"}},
    )
    extraction = only(
        list(map_pages([html("http://x.test/all/", "<li><a href='p/1'>Tour <i>one</i> day</a></li>")], source, "en"))
    )
    assert [(d.url, d.document_id, d.fields) for d in extraction.drafts] == [
        ("http://x.test/all/p/1", "http://x.test/all/p/1", {"url": "http://x.test/all/p/1", "name": "Tour one day"})
    ]


@pytest.mark.slow
def test_pattern_without_end_costs_its_item_a_second() -> None:
    """The rest of the page goes on."""
    source = site(
        each={"css": "p"}, yields="records", fields={"code": {"css": "b", "pattern": "^(a|aa)+$"}, "name": {"css": "i"}}
    )
    extraction = only(
        list(
            map_pages(
                [html("http://x.test/", f"<p><b>{'a' * 60}b</b><i>1</i></p><p><b>aa</b><i>2</i></p>")], source, "en"
            )
        )
    )
    assert [d.fields["name"] for d in extraction.drafts] == ["2"]
    assert "pattern took longer than 1 s" in extraction.rejects[0].reason
    slow_url = site(yields="records", fields={"code": {"url": "(a|aa)+$"}})
    assert only(list(map_pages([html(f"http://x.test/{'a' * 60}b", "")], slow_url, "en"))).rejects[0].field == "code"


def test_match_selects_the_pages_that_yield_items() -> None:
    source = site(match="/p/\\d+$", yields="records", fields={"name": {"css": "h1"}})
    pages = [html("http://x.test/p/1", "<h1>One</h1>"), html("http://x.test/p/1/reviews", "<h1>Reviews</h1>")]
    assert [d.title for e in map_pages(pages, source, "en") for d in e.drafts] == ["One"]


def test_markdown_and_text_files_are_documents_of_their_own() -> None:
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*"})
    pages = [
        Page(
            url="a/faq.md",
            body="\ufeff---\n# not a heading\n---\n```\n# nor this\n```\n# Questions #\ntext".encode(),
            content_type="text/markdown",
        ),
        Page(url="b.md", body=b"no heading", content_type="text/markdown"),
        Page(url="c.txt", body="Café à la crème, déjà vu, forêt et garçon".encode("cp1252"), content_type="text/plain"),
    ]
    drafts = [draft for extraction in map_pages(pages, source, "en") for draft in extraction.drafts]
    assert [(d.title, d.markup, d.document_id) for d in drafts] == [
        ("Questions", "markdown", "a/faq.md"),
        ("b", "markdown", "b.md"),
        ("c", "plain", "c.txt"),
    ]
    assert drafts[2].body == "Café à la crème, déjà vu, forêt et garçon"
    assert drafts[0].body is not None and drafts[0].body.startswith("---")


_PROSE = (
    "Running text of a note that has eighty letters and more stands here, above whatever comes below it in the file."
)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Intro\n=====\ntext", "Intro"),
        ("- item\n---\n", ""),
        ("## Installation\n\ntext\n\n## Use\n", ""),
        ("Installation\n---\n\ntext", ""),
        (
            "# Guide [to](x.md) `it` :-) \U0001f600 {#guide .top}\r\n\r\n## Installation\r\n",
            "Guide to it :-) \U0001f600",
        ),
        ("```\n# no\n```\n    # nor this\n\n- # nor this\n\n> # nor this\n\n<!--\n# nor this\n-->\n#nor-this\n", ""),
        ("~~~~\n~~~\n# no\n~~~~\n# Yes\n", "Yes"),
        (f"{_PROSE}\n\n## Section\n\n# The only one\n", "The only one"),
        (f"# First\n\n{_PROSE}\n\n# Second\n", "First"),
        (
            "2024-05-03 12:00\nTags: #a #b, and further ones that make this line a long one, longer than a byline "
            "has to be\n\n# First\n\n# References\n",
            "First",
        ),
        (f"{_PROSE}\n\n# Background\n\n# Method\n", ""),  # sections
        ("## Summary\n\n# Background\n\n# Method\n", ""),
        ("# \n\n# Second\n", "Second"),
        ("# ![Logo of Almanac](logo.svg)\n", "Logo of Almanac"),
        (
            '<div align="center">\n  <h1 align="center"><img src="x.png"> The <em>Tool</em></h1>\n</div>\n\n## '
            "Installation\n",
            "The Tool",
        ),
        ("<h1>\n\n**Two** parts\n\n</h1>\n", "Two parts"),
        ("[![badge](a.svg)](b)\n\n# Tool\n\n# API\n", "Tool"),
    ],
)
def test_first_level_heading_is_the_title_of_a_text(text: str, title: str) -> None:
    assert title_of(as_shown(text)) == title


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("my-note_2.md", "my-note_2"),
        ("a/C# and what? 100%.md", "C# and what? 100%"),
        ("Đà Nẵng.md", "Đà Nẵng"),
        ("v1.2 notes.md", "v1.2 notes"),
        ("Release 2.0", "Release 2.0"),
        ("README.md", "README"),
        ("git/README.md", "README"),
        ("posts/my-article/index.md", "index"),
        ("https://x.test/a/C%23%20%C3%A9.md?raw=1", "C# é"),
    ],
)
def test_without_a_first_level_heading_the_title_is_the_name_of_the_file(url: str, title: str) -> None:
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*"})
    page = Page(url=url, body=b"## Installation\n\ntext", content_type="text/markdown")
    assert only(list(map_pages([page], source, "en"))).drafts[0].title == title


def test_json_body_needs_to_say_which_field_is_the_text() -> None:
    source = FilesSource.model_validate(
        {"name": "f", "kind": "files", "glob": "*", "fields": {"text": {"json": "text"}}}
    )
    extraction = only(
        list(
            map_pages(
                [Page(url="a.jsonl", body=b'{"text": "x"}\n' * 3, content_type="application/jsonl")], source, "en"
            )
        )
    )
    assert [(reject.url, reject.field) for reject in extraction.rejects] == [("a.jsonl", "body")]


def test_page_that_should_be_json_and_is_not_is_a_reject() -> None:
    source = site(each={"json": "rows"}, yields="records", fields={"name": {"json": "name"}})
    extraction = only(list(map_pages([html("http://x.test/api", "<h1>Login</h1>")], source, "en")))
    assert extraction.rejects[0].stage == "read" and "not JSON" in extraction.rejects[0].reason


def test_a_file_without_the_json_that_each_reads_is_a_reject() -> None:
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*", "each": {"json": "sections"}})
    pages = [
        Page(url="b.txt", body=b"text", content_type="text/plain"),
        Page(url="c.html", body=b"<h1>Three</h1>", content_type="text/html"),
    ]
    rejects = [reject for extraction in map_pages(pages, source, "en") for reject in extraction.rejects]
    assert [(reject.url, reject.reason[:8]) for reject in rejects] == [("b.txt", "not JSON"), ("c.html", "not JSON")]


def test_rules_for_front_matter_are_empty_on_the_other_files_of_a_folder() -> None:
    """The text of documents is the files' own, so that no file needs to be JSON."""
    source = FilesSource.model_validate(
        {"name": "f", "kind": "files", "glob": "*", "fields": {"tags": {"json": "tags", "many": True}}}
    )
    pages = [
        Page(url="a.md", body=b"---\ntags: [x]\n---\nOne text.\n", content_type="text/markdown"),
        Page(url="b.txt", body="Žluťoučký kůň.\n".encode("cp1250"), content_type="text/plain"),
        Page(url="c.html", body=b"<h1>Three</h1><p>Third text.</p>", content_type="text/html"),
        Page(url="d.txt", body=bytes(range(1, 32)) * 9, content_type="text/plain"),
    ]
    extractions = list(map_pages(pages, source, "cs"))
    assert [[draft.fields["tags"] for draft in extraction.drafts] for extraction in extractions[:3]] == [
        [["x"]],
        [[]],
        [[]],
    ]
    assert [reject.reason[:9] for extraction in extractions for reject in extraction.rejects] == ["not text:"]


def test_items_from_a_script_need_no_json_page() -> None:
    source = site(
        each={"json": "rows", "from": {"script": "window.data"}},
        yields="records",
        fields={"name": {"json": "name", "required": True}},
    )
    pages = [
        html("http://x.test/1", "<script>data = {rows: [{name: 'One'}]}</script>"),
        html("http://x.test/2", "<h1>no data</h1>"),
    ]
    extractions = list(map_pages(pages, source, "en"))
    assert [[d.fields["name"] for d in e.drafts] for e in extractions] == [["One"], []]
    assert [e.rejects for e in extractions] == [[], []]


def test_utf8_bytes_win_over_a_wrong_label() -> None:
    page = Page(url="http://x.test/", body="<h1>Phở bò</h1>".encode(), content_type="text/html; charset=iso-8859-1")
    assert only(list(map_pages([page], site(), "vi"))).drafts[0].title == "Phở bò"


def test_required_field_that_matches_nowhere_means_no_records() -> None:
    source = site(yields="records", fields={"name": {"css": "h1.name", "required": True}})
    require_matches(source, {"name": 1}, 5, 5)
    with pytest.raises(NoRecords, match=r"css: h1\.name matched nothing on 5 of 5 items") as caught:
        require_matches(source, {"name": 0}, 5, 5)
    assert "almanac test-url" in (caught.value.hint or "") and "sources.s.fields.name" in str(caught.value)


def test_pages_without_any_item_mean_no_records() -> None:
    with pytest.raises(NoRecords, match="3 pages yield no item"):
        require_matches(site(match="/p/"), {}, 0, 3)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("xpath", "first", "all_of_them"),
    [
        ("//dd | //dt/text()", "Deep water", ["Deep water", "12 m", "Tide", "9 h"]),
        ("//dt/text() | //dd", "Deep water", ["Deep water", "12 m", "Tide", "9 h"]),
        ("//dl/node()[normalize-space()]", "Deep water", ["Deep water", "12 m", "Tide", "9 h"]),
        ("//dt/@id | //dd", "d", ["d", "12 m", "9 h"]),
    ],
)
def test_a_rule_that_matches_texts_and_elements_reads_both_beside_hidden_parts(
    xpath: str, first: str, all_of_them: list[str], many: bool
) -> None:
    listed = "<dl><dt id=d>Deep water<dd>12 m<dt>Tide<dd>9 h<dd hidden>never</dl><p style='display:none'>hidden</p>"
    source = site(yields="records", fields={"value": {"xpath": xpath, "many": many}})
    (draft,) = only(list(map_pages([html("http://x.test/", listed)], source, "en"))).drafts
    assert draft.fields["value"] == (all_of_them if many else first)


def test_a_defect_in_one_rule_costs_its_item_and_names_page_and_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(value: Any, *rest: Any, **options: Any) -> Any:
        if str(value) == "13":
            raise RecursionError("no end of it")
        return converted(value, *rest, **options)

    converted = convert
    monkeypatch.setattr(fields, "convert", broken)
    rows = Page(url="rows.jsonl", body=b'{"n": 12}\n{"n": 13}\n{"n": 14}\n', content_type="application/jsonl")
    declared = {
        "name": "s",
        "kind": "files",
        "glob": "*",
        "yields": "records",
        "id": "{n}",
        "fields": {"n": {"json": "n", "type": "number"}},
        "text": "{n}",
    }
    extraction = only(list(map_pages([rows], FilesSource.model_validate(declared), "en")))
    (reject,) = extraction.rejects
    assert [draft.fields["n"] for draft in extraction.drafts] == [12, 14]
    assert reject.is_defect and (reject.field, reject.rule, reject.url) == ("n", "json: n", "rows.jsonl#L2")
