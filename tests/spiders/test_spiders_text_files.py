"""Markdown and plain text in files: front matter, parts and paragraphs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.spiders.reading.front_matter import split_front_matter
from tests.spiders.file_reading import only_draft, read_items


def test_front_matter_gives_the_fields_and_is_no_text(tmp_path: Path) -> None:
    head = "---\ntitle: Notes on Đà Nẵng\nupdated: 2024-05-03\ntags: [a, b]\nby: {name: Linh}\nurl: /notes/\n---\n"
    draft = only_draft(read_items(tmp_path, {"n.md": f"{head}# Another title\n\nText.\n"}))
    assert (draft.title, draft.body, draft.markup, draft.url) == (
        "Notes on Đà Nẵng",
        "# Another title\n\nText.\n",
        "markdown",
        "n.md",
    )
    assert draft.fields == {
        "title": "Notes on Đà Nẵng",
        "updated": "2024-05-03",
        "tags": ["a", "b"],
        "by": {"name": "Linh"},
        "url": "/notes/",
    }


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_front_matter_is_read_whatever_ends_its_lines(tmp_path: Path, end: str) -> None:
    draft = only_draft(
        read_items(
            tmp_path,
            {
                "n.md": "---\ntitle: Notes\ntags: [a, b]\n---\n\n[[Page|Shown]].\n\n```\n[[ code ]]\n```\n".replace(
                    "\n", end
                )
            },
        )
    )
    assert draft.fields == {"title": "Notes", "tags": ["a", "b"]}
    assert (draft.body or "").split() == ["Shown.", "```", "[[", "code", "]]", "```"]


def test_declared_rules_read_front_matter_and_the_rendered_text(tmp_path: Path) -> None:
    text = (
        "---\nsku: A-1\n---\n# Lamp\n\n**Price**: 12,50 €\n\n## Sizes\n\n| size | cm |\n|---|---|\n| S | 10 |\n| "
        "L | 20 |\n\n~~old~~\n"
    )
    fields = {
        "sku": {"json": "sku", "required": True},
        "name": {"css": "h1"},
        "price": {"xpath": "//p[strong='Price']", "pattern": ":(.*)", "type": "price"},
        "sizes": {
            "each": {"css": "tbody tr"},
            "many": True,
            "fields": {"size": {"css": "td"}, "cm": {"css": "td:nth-child(2)", "type": "integer"}},
        },
        "old": {"css": "s"},
    }
    draft = only_draft(read_items(tmp_path, {"a.md": text}, yields="records", fields=fields, id="{sku}"))
    assert draft.fields["sizes"] == [{"size": "S", "cm": 10}, {"size": "L", "cm": 20}]
    assert (draft.fields["sku"], draft.fields["name"], draft.fields["price"]["amount"], draft.fields["old"]) == (
        "A-1",
        "Lamp",
        "12.50",
        "old",
    )


def test_a_title_in_front_matter_is_the_title_unless_another_is_declared(tmp_path: Path) -> None:
    note: dict[str, bytes | str] = {"a.md": "---\ntitle: Said\n---\n# Heading\n"}
    assert only_draft(read_items(tmp_path, note, fields={"x": {"css": "h1"}})).title == "Said"
    assert only_draft(read_items(tmp_path, note, fields={"x": {"css": "h1"}}, title="{x}")).title == "Heading"


def test_parts_of_a_markdown_file_are_items_that_share_its_front_matter(tmp_path: Path) -> None:
    fields = {"name": {"css": "li strong, strong"}, "place": {"json": "place"}}
    drafts, _ = read_items(
        tmp_path,
        {"a.md": "---\nplace: Huế\n---\n- **A**: x\n- **B**: y\n"},
        yields="records",
        each={"css": "li"},
        fields=fields,
    )
    assert [(draft.url, draft.fields) for draft in drafts] == [
        ("a.md#1", {"name": "A", "place": "Huế"}),
        ("a.md#2", {"name": "B", "place": "Huế"}),
    ]


@pytest.mark.parametrize(
    ("text", "values", "rest"),
    [
        ("+++\ntitle = 'T'\nday = 2024-05-03\n+++\nx", {"title": "T", "day": "2024-05-03"}, "x"),
        (f"---\nid: {'12' * 20}\n---\nx", {"id": "12" * 20}, "x"),
        ("---\r\ntitle: x\r\n---\r\nbody\r\n", {"title": "x"}, "body\r\n"),
        # no YAML
        (
            "---\ntitle: Ajax: an intro\ntags: [a]\nby:\n  - me\n---\nx",
            {"title": "Ajax: an intro", "tags": ["a"], "by": ["me"]},
            "x",
        ),
        ("\n\n---\na: 1\n---\nx", {}, "\n\n---\na: 1\n---\nx"),  # only from the first line on
        ("---\n@tags: a\nname:b\n---\nx", {"@tags": "a", "name": "b"}, "x"),
        (
            "---\na: &x [1, .inf]\nb: *x\nc: no\n1: 2\n...\nx",
            {"a": [1, "Infinity"], "b": [1, "Infinity"], "c": "no", "1": 2},
            "x",
        ),
        ("---\ntitle:foo\nlayout:post\n---\nx", {"title": "foo", "layout": "post"}, "x"),
        ("---\n10:30 start\n11:30 end\n---\nx", {}, "---\n10:30 start\n11:30 end\n---\nx"),
        ("---\nA line of prose\n---\nx", {}, "---\nA line of prose\n---\nx"),
        (
            "---\ntitle: [Draft] A\nby: @linh\nto:\n  - b: c: d\n  - @e\nin:\n  f: g: h\nday: 2024-13-45\n---\nx",
            {"title": "[Draft] A", "by": "@linh", "to": ["b: c: d", "@e"], "in": {"f": "g: h"}, "day": "2024-13-45"},
            "x",
        ),
        ('---\na: "b" and c\nd: {{ e }}\nf: 1\n---\nx', {"a": '"b" and c', "d": "{{ e }}", "f": 1}, "x"),
        ("---\nProse after a break.\n\nx", {}, "---\nProse after a break.\n\nx"),
        ("---\nNote: prose.\n\nx", {}, "---\nNote: prose.\n\nx"),
        ("---\n\nNote: prose.\n\nMore: of it.\nx\n\n---\ny", {}, "---\n\nNote: prose.\n\nMore: of it.\nx\n\n---\ny"),
        ("---\nWarning: prose\nin two lines.\n---\nx", {}, "---\nWarning: prose\nin two lines.\n---\nx"),
        ("+++\nprose\n+++\nx", {}, "+++\nprose\n+++\nx"),
        ("---\n---\nx", {}, "x"),
        ("---\nnull: ~\ntrue: 1\n---\nx", {"null": None, "true": 1}, "x"),
        ("text\n---\na: 1\n---\n", {}, "text\n---\na: 1\n---\n"),
        ("---\ntitle: x\n---", {"title": "x"}, ""),
    ],
)
def test_what_is_front_matter_and_what_is_text(text: str, values: dict[str, Any], rest: str) -> None:
    front_matter, below = split_front_matter(text)
    assert (front_matter, below) == (values, rest)


_ALIASES = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            '---\ntags: [a]\ntitle: "Open\n---\nx',
            "line 3: no YAML at 'title: \"Open': found unexpected end",
        ),
        ("---\ntags: [a, b\ntitle: x\n---\nx", r"line 2: no YAML at 'tags: \[a, b': expected"),
        ("---\ntags: [#a, #b]\n---\nx", "line 2: no YAML at .*: .*; quote texts"),
        ('---\nTitle: "Open\nTags: a\n---\nx', "line 2: no YAML at 'Title: "),
        ("---\ntags:\n\t- a\n---\nx", "line 3: no YAML at '- a': .*; .* indent by spaces"),
        ("---\na: 1\nb: 2\na: 3\n---\nx", "line 4: no YAML at 'a: 3': found duplicate key \"a\""),
        ("---\r\ntitle: x\r\nno key\r\n---\r\nx", "line 3: no YAML at 'no key': "),
        ("---\ntitle: x\n  sub: y\n---\nx", "line 3: no YAML at 'sub: y': mapping values are not allowed here"),
        (
            "---\ntitle: x\n\n# Heading\n\ntext\n\n---\n\nx",
            "line 6: no YAML at 'text': .* end the block with a line ---",
        ),
        (
            "---\ntitle: x\ntags: [a]\n\nProse.\n",
            "line 1: the block is opened and not closed: end it with a line ---",
        ),
        ("+++\ntitle = 'x'\n\nProse.\n", r"line 1: .*end it with a line \+\+\+"),
        ("+++\nday = 2024-05-03\ntitle = x\n+++\nx", "line 3: no TOML: Invalid value; in TOML"),
        ('---\n# comment\ntitle: "Open\nday: 1\n---\nx', "line 3: no YAML at 'title: "),
        (f"---\nl0: &l0 [x]\n{_ALIASES}---\nx", "more than 10,000 values, with those of each alias"),
        (f"---\na: {'x' * 70_000}\n---\nx", "not closed within 65,536 characters"),
    ],
)
def test_broken_front_matter_is_a_reject_with_its_line_and_the_files_beside_it_are_read(
    tmp_path: Path, text: str, finding: str
) -> None:
    drafts, rejects = read_items(tmp_path, {"a.md": "---\ntitle: A\n---\nx", "b.md": text, "c.md": "# C\n"})
    assert [draft.title for draft in drafts] == ["A", "C"]
    assert [(reject.url, reject.stage) for reject in rejects] == [("b.md", "read")]
    assert re.match(f"front matter, .*{finding}", rejects[0].reason)


@given(st.text("ab:-[]{}\"'#|>&*! \t\n", max_size=60), st.sampled_from(["---", "+++"]))
def test_any_front_matter_is_read_or_refused(block: str, mark: str) -> None:
    try:
        values, below = split_front_matter(f"{mark}\n{block}\n{mark}\ntext")
    except ValueError as error:
        assert str(error).startswith("front matter, line ")
    else:
        assert below.endswith("text") and json.dumps(values)


def test_plain_text_is_read_in_paragraphs(tmp_path: Path) -> None:
    draft = only_draft(
        read_items(
            tmp_path,
            {"a.txt": "First <b>\nparagraph.\n\n\nSecond & last."},
            fields={"second": {"css": "p:nth-of-type(2)"}},
        )
    )
    assert (draft.title, draft.fields["second"], draft.markup) == ("a", "Second & last.", "plain")


def test_records_of_text_need_declared_fields(tmp_path: Path) -> None:
    drafts, rejects = read_items(tmp_path, {"a.md": "---\nsku: A\n---\nx", "b.txt": "prose"}, yields="records")
    assert [draft.fields for draft in drafts] == [{"sku": "A"}]
    assert [(reject.url, reject.reason) for reject in rejects] == [
        ("b.txt", "a record has fields, and plain names none: declare fields, or yields: documents")
    ]


def test_an_id_that_no_column_has_says_what_there_is(tmp_path: Path) -> None:
    _, rejects = read_items(tmp_path, {"a.csv": "sku,name\n1,x\n"}, yields="records", id="{SKU}")
    assert [reject.reason for reject in rejects] == ["the id {SKU} is empty; there is sku, name"]
