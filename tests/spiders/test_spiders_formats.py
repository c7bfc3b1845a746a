"""Files of every format, from bytes on disk to items: what each gives, what becomes of a broken one."""

import json
import re
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.items import PAGE_BREAK, Draft, Reject
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.delimited import read_rows
from almanac.spiders.reading.formats import format_of
from almanac.spiders.reading.front_matter import split_front_matter
from almanac.spiders.store.raw import RawStore
from tests.growth import assert_linear
from tests.spiders.files import arabic_pdf, column, docx, paragraph, pdf, table


def read(folder: Path, files: dict[str, bytes | str], **keys: Any) -> tuple[list[Draft], list[Reject]]:
    """Writes the files, reads them as a source declares, and gives drafts and rejects."""
    (folder / "in").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "in" / name).write_bytes(content.encode() if isinstance(content, str) else content)
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*", **keys})
    raw = RawStore(folder / "raw")
    outcome = read_files(source, folder, raw, "r1")
    assert outcome.pages.fetched == len(files)
    extractions = list(map_pages(raw.pages("r1"), source, "en"))
    return [draft for extraction in extractions for draft in extraction.drafts], [
        reject for extraction in extractions for reject in extraction.rejects
    ]


def only_draft(drafts_and_rejects: tuple[list[Draft], list[Reject]]) -> Draft:
    drafts, rejects = drafts_and_rejects
    assert (len(drafts), rejects) == (1, [])
    return drafts[0]


# Tables


@pytest.mark.parametrize(
    "content",
    [
        "code,name,note\n1,Phở,\n2,Bún,\"a, b\nc\"\n",
        "\ufeffcode;name;note\r\n1;Phở;\r\n2;Bún;\"a, b\nc\"\r\n",
        "code\tname\tnote\n1\tPhở\t\n2\tBún\t\"a, b\nc\"",
        "code|name|note\r1|Phở|\r2|Bún|\"a, b\nc\"\r",
        "sep=;\ncode;name;note\n1;Phở;\n2;Bún;\"a, b\nc\"\n",
        "\n\ncode,name,note,\n1,Phở,,\n,,,\n2,Bún,\"a, b\nc\",\n",
        "code,name,note,\n1,Phở,\n2,Bún,\"a, b\nc\"\n",
        "code, name, note\n1, Phở,\n2, \"Bún\", \"a, b\nc\"\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_dialects_and_encodings_of_a_table_give_the_same_rows(tmp_path: Path, content: str, encoding: str) -> None:
    drafts, rejects = read(
        tmp_path, {"menu.csv": content.encode(encoding)}, yields="records", id="{code}", title="{name}"
    )
    assert [(d.url, d.document_id, d.title, d.fields) for d in drafts] == [
        ("menu.csv#1", "1", "Phở", {"code": "1", "name": "Phở", "note": None}),
        ("menu.csv#2", "2", "Bún", {"code": "2", "name": "Bún", "note": "a, b\nc"}),
    ]
    assert rejects == []


def test_western_tables_without_unicode_are_read(tmp_path: Path) -> None:
    drafts, _ = read(
        tmp_path,
        {"a.csv": "id;libellé;prix\n1;Crème brûlée;4,50 €\n2;Forêt-noire à partager;12 €\n".encode("cp1252")},
        yields="records",
    )
    assert [draft.fields["libellé"] for draft in drafts] == ["Crème brûlée", "Forêt-noire à partager"]


def test_a_tab_separated_file_is_no_comma_separated_one(tmp_path: Path) -> None:
    assert only_draft(read(tmp_path, {"a.tsv": "name, first\tage\nDoe, Jane\t4\n"}, yields="records")).fields == {
        "name, first": "Doe, Jane",
        "age": "4",
    }


def test_columns_are_read_by_their_headers(tmp_path: Path) -> None:
    fields = {
        "name": {"json": '"Product name"', "required": True},
        "price": {"json": '"Prix (€)"', "type": "price"},
        "again": {"json": "x_2"},
        "third": {"json": "column_5"},
    }
    table = '"Product  name",Prix (€),x,x,\nJam,"3,20 €",1,2,3\n'
    draft = only_draft(read(tmp_path, {"a.csv": table}, yields="records", fields=fields, id="{name}"))
    assert draft.fields == {"name": "Jam", "price": {"amount": "3.20", "currency": "€"}, "again": "2", "third": "3"}


def test_a_bad_row_is_quarantined_by_its_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    content = 'id,name\n1,"two\nlines"\n2\n3,a,b\n4,"x" y\n5,ok\n6,"never closed\n7,ok\n'
    drafts, rejects = read(tmp_path, {"a.csv": content}, yields="records")
    assert [draft.document_id for draft in drafts] == ["a.csv#1", "a.csv#5", "a.csv#7"]
    assert [(reject.stage, reject.url, reject.reason) for reject in rejects] == [
        ("read", "a.csv#L4", "line 4: cells: 1, columns: 2"),
        ("read", "a.csv#L5", "line 5: cells: 3, columns: 2"),
        ("read", "a.csv#L6", "line 6: text stands after a closing quote"),
        ("read", "a.csv#L8", "line 8: a quote is opened and never closed"),
    ]


@pytest.mark.parametrize("row", ['{n},"row {n}"', '"{n}","row {n}"'])
def test_a_quote_that_is_never_closed_swallows_no_row(tmp_path: Path, row: str) -> None:
    good = {n: row.format(n=n) for n in (5, 7, 8)}
    drafts, rejects = read(tmp_path, {"a.csv": f'id,t\n{good[5]}\n6,"open\n{good[7]}\n{good[8]}\n'}, yields="records")
    assert [draft.fields["t"] for draft in drafts] == ["row 5", "row 7", "row 8"]
    assert [reject.reason for reject in rejects] == ["line 3: a quote is opened and never closed"]


@pytest.mark.parametrize("closing", ['1003,again"', '1003,"again'])
def test_a_quote_that_another_one_closes_far_below_swallows_no_row(closing: str) -> None:
    rows = list(
        read_rows("id,t\n1,a\n" + '2,"open\n' + "".join(f"{n},row\n" for n in range(3, 1003)) + f"{closing}\n1004,b\n")
    )
    assert len(rows) == 1004
    assert [row.line for row in rows if row.problem] == ([3] if closing.endswith('"') else [3, 1004])


def test_a_long_text_in_a_cell_is_a_text() -> None:
    text = "\n".join(["Dear Ann, hello", "we met in Huế, Vinh and Hội An,", "it rained.", ""] * 5)
    assert [row.values for row in read_rows(f'id,t\n1,"{text}"\n')] == [{"id": "1", "t": text}]


def test_a_quoted_word_in_a_cell_of_several_lines_spoils_its_own_row_only(tmp_path: Path) -> None:
    drafts, rejects = read(tmp_path, {"a.csv": 'id,t\n1,"first\nhe said "hi", ok"\n2,"x"\n3,a\rb\n'}, yields="records")
    assert [draft.fields["id"] for draft in drafts] == ["2"]
    assert [reject.reason for reject in rejects] == [
        "line 2: text stands after a closing quote",
        "line 5: a carriage return stands in a cell without quotes",
    ]


def test_a_huge_cell_and_a_table_of_open_quotes_take_linear_time() -> None:
    assert [len(row.values["b"] or "") for row in read_rows(f'a,b\n1,"{"x" * 3_000_000}"\n')] == [3_000_000]
    assert len(list(read_rows("a,b\n" + '1,"x\n' * 20_001))) == 20_001
    assert_linear(lambda text: list(read_rows(text)), lambda length: f'a,b\n1,"{"x" * length}"\n', 1_000_000)
    assert_linear(lambda text: list(read_rows(text)), lambda rows: "a,b\n" + '1,"x\n' * rows, 6_000)


def test_rows_without_an_id_are_told_apart_by_their_line(tmp_path: Path) -> None:
    drafts, _ = read(tmp_path, {"a.csv": "id,n\n7,a\n7,b\n,c\n"}, yields="records")
    assert [draft.document_id for draft in drafts] == ["a.csv#7", "a.csv#L3", "a.csv#L4"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "id,n\n7,a\n"), ("a.json", '[{"id": 7, "n": "a"}]'), ("a.jsonl", '{"id": 7, "n": "a"}\n')],
)
def test_a_row_that_has_an_id_keeps_it_whether_or_not_fields_are_declared(
    tmp_path: Path, name: str, content: str
) -> None:
    assert only_draft(read(tmp_path, {name: content}, yields="records")).document_id == f"{name}#7"
    assert (
        only_draft(read(tmp_path, {name: content}, yields="records", fields={"n": {"json": "n"}})).document_id
        == f"{name}#7"
    )


def test_a_second_row_with_a_declared_id_says_its_line(tmp_path: Path) -> None:
    drafts, _ = read(tmp_path, {"a.csv": "sku,n\nA6,a\nB,b\nA6,c\n"}, yields="records", id="{sku}")
    assert [(draft.document_id, draft.url) for draft in drafts] == [
        ("A6", "a.csv#A6"),
        ("B", "a.csv#B"),
        ("A6", "a.csv#L4"),
    ]


# JSON


def test_entries_of_an_array_are_items(tmp_path: Path) -> None:
    drafts, rejects = read(
        tmp_path, {"a.json": '[{"id": "x", "title": "X", "n": [1]}, {"title": 7}, "text"]'}, yields="records"
    )
    assert [(d.url, d.title, d.fields) for d in drafts] == [
        ("a.json#x", "X", {"id": "x", "title": "X", "n": [1]}),
        ("a.json#2", "7", {"title": 7}),
    ]
    assert [(reject.url, reject.reason) for reject in rejects] == [("a.json#3", "entry 3 is a text, not a JSON object")]


def test_an_object_is_one_item_or_holds_several(tmp_path: Path) -> None:
    content = '{"kind": "list", "rows": [{"name": "A"}, {"name": "B"}]}'
    assert only_draft(read(tmp_path, {"a.json": content}, yields="records")).url == "a.json"
    drafts, _ = read(
        tmp_path,
        {"a.json": content},
        yields="records",
        each={"json": "rows"},
        fields={"name": {"json": "name"}},
        id="{name}",
    )
    assert [(draft.url, draft.fields) for draft in drafts] == [("a.json#A", {"name": "A"}), ("a.json#B", {"name": "B"})]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252"])
def test_json_in_other_encodings_is_read(tmp_path: Path, encoding: str) -> None:
    content = '[{"id": "x", "t": "Crème brûlée à partager, déjà prête"}]'.encode(encoding)
    assert (
        only_draft(read(tmp_path, {"a.json": content}, yields="records")).fields["t"]
        == "Crème brûlée à partager, déjà prête"
    )


def test_json_lines_account_for_every_line(tmp_path: Path) -> None:
    lines = '\ufeff{"id": 1, "t": "a"}\r\n\r\n[1]\r\n{"id": 2\r\n"x"\r\n{"id": 3, "t": "\u2028"}\r\n'
    drafts, rejects = read(tmp_path, {"a.jsonl": lines}, yields="records")
    assert [(draft.url, draft.fields["t"]) for draft in drafts] == [("a.jsonl#1", "a"), ("a.jsonl#3", "\u2028")]
    assert [reject.url for reject in rejects] == ["a.jsonl#L3", "a.jsonl#L4", "a.jsonl#L5"]
    assert rejects[0].reason == "line 3 is a list, not a JSON object" and rejects[1].reason.startswith(
        "line 4 is not JSON"
    )


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv"])
@pytest.mark.parametrize("encoding", ["cp1250", "iso2022_jp"])
def test_rows_are_decoded_as_declared(tmp_path: Path, name: str, encoding: str) -> None:
    text = {"cp1250": "Łódź", "iso2022_jp": "日本"}[encoding]
    content = f"id,t\n1,{text}\n" if name == "a.csv" else json.dumps({"id": 1, "t": text}, ensure_ascii=False)
    drafts, rejects = read(tmp_path, {name: content.encode(encoding)}, yields="records", encoding=encoding)
    assert [draft.fields["t"] for draft in drafts] == [text] and not rejects


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_bad_first_line_costs_one_line(tmp_path: Path, encoding: str) -> None:
    lines = '{"id": 0, broken\n{"id": 1, "t": "ắ"}\n{"id": 2, "t": "b"}\n'
    drafts, rejects = read(tmp_path, {"a.jsonl": lines.encode(encoding)}, yields="records")
    assert [draft.fields for draft in drafts] == [{"id": 1, "t": "ắ"}, {"id": 2, "t": "b"}]
    assert [reject.url for reject in rejects] == ["a.jsonl#L1"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1e400", "1e400 is too large a number"),
        ("9" * 5000, "a number of 5000 digits is too large"),
        ("\xe9", "is not UTF-8"),
        ("NaN", "NaN is not JSON"),
    ],
)
def test_what_no_json_is_says_so_in_plain_words(tmp_path: Path, line: str, reason: str) -> None:
    _, rejects = read(tmp_path, {"a.jsonl": f'{{"n": {line}}}\n{{}}'.encode("latin-1")}, yields="records", id="{n}")
    assert reason in rejects[0].reason


def test_rows_have_no_text_of_their_own_as_documents() -> None:
    for glob in ("rows.csv", "a/*.JSON", "**/*.jsonl"):
        with pytest.raises(ValidationError, match=r'say which one: body: "\{text\}"'):
            FilesSource.model_validate({"name": "f", "kind": "files", "glob": glob})


def test_a_table_among_notes_is_quarantined_and_the_notes_are_read(tmp_path: Path) -> None:
    drafts, rejects = read(tmp_path, {"a.md": "# A", "b.csv": "x\n1\n2\n", "c.json": "{}"})
    assert [draft.url for draft in drafts] == ["a.md"]
    assert [(reject.url, reject.field) for reject in rejects] == [("b.csv", "body"), ("c.json", "body")]


# Markdown and text


def test_front_matter_gives_the_fields_and_is_no_text(tmp_path: Path) -> None:
    head = "---\ntitle: Notes on Đà Nẵng\nupdated: 2024-05-03\ntags: [a, b]\nby: {name: Linh}\nurl: /notes/\n---\n"
    draft = only_draft(read(tmp_path, {"n.md": f"{head}# Another title\n\nText.\n"}))
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
        read(
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
    draft = only_draft(read(tmp_path, {"a.md": text}, yields="records", fields=fields, id="{sku}"))
    assert draft.fields["sizes"] == [{"size": "S", "cm": 10}, {"size": "L", "cm": 20}]
    assert (draft.fields["sku"], draft.fields["name"], draft.fields["price"]["amount"], draft.fields["old"]) == (
        "A-1",
        "Lamp",
        "12.50",
        "old",
    )


def test_a_title_in_front_matter_is_the_title_unless_another_is_declared(tmp_path: Path) -> None:
    note: dict[str, bytes | str] = {"a.md": "---\ntitle: Said\n---\n# Heading\n"}
    assert only_draft(read(tmp_path, note, fields={"x": {"css": "h1"}})).title == "Said"
    assert only_draft(read(tmp_path, note, fields={"x": {"css": "h1"}}, title="{x}")).title == "Heading"


def test_parts_of_a_markdown_file_are_items_that_share_its_front_matter(tmp_path: Path) -> None:
    fields = {"name": {"css": "li strong, strong"}, "place": {"json": "place"}}
    drafts, _ = read(
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
    drafts, rejects = read(tmp_path, {"a.md": "---\ntitle: A\n---\nx", "b.md": text, "c.md": "# C\n"})
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
        read(
            tmp_path,
            {"a.txt": "First <b>\nparagraph.\n\n\nSecond & last."},
            fields={"second": {"css": "p:nth-of-type(2)"}},
        )
    )
    assert (draft.title, draft.fields["second"], draft.markup) == ("a", "Second & last.", "plain")


def test_records_of_text_need_declared_fields(tmp_path: Path) -> None:
    drafts, rejects = read(tmp_path, {"a.md": "---\nsku: A\n---\nx", "b.txt": "prose"}, yields="records")
    assert [draft.fields for draft in drafts] == [{"sku": "A"}]
    assert [(reject.url, reject.reason) for reject in rejects] == [
        ("b.txt", "a record has fields, and plain names none: declare fields, or yields: documents")
    ]


def test_an_id_that_no_column_has_says_what_there_is(tmp_path: Path) -> None:
    _, rejects = read(tmp_path, {"a.csv": "sku,name\n1,x\n"}, yields="records", id="{SKU}")
    assert [reject.reason for reject in rejects] == ["the id {SKU} is empty; there is sku, name"]


# HTML, PDF, DOCX


def test_html_files_are_read_like_pages_and_named_like_files(tmp_path: Path) -> None:
    drafts, _ = read(
        tmp_path,
        {
            "a.html": "<title>T</title><p>x</p>",
            "b.HTM": "<p>only text</p>",
            "c.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'><h1>X</h1></html>",
        },
    )
    assert [(draft.title, draft.markup) for draft in drafts] == [("T", "html"), ("b", "html"), ("X", "html")]


def test_a_pdf_is_read_in_paragraphs(tmp_path: Path) -> None:
    page = column([
        "A walk in the woods is a fine thing to do on a long sum-",
        "mer day, when the light is low and the well-known paths", "are dry.", "",
        "**Where to walk", "Bring these, for there is nothing to be had on the way:", "\u2022 water", "\u2022 bread",
        "In spring the ways are wet. They go on for miles and no", "one walks on them before",
    ])  # fmt: skip
    rest = column(["the month of May. Then", "all do."])
    draft = only_draft(read(tmp_path, {"walks.pdf": pdf([page, rest], title="Walks and woods")}))
    assert draft.body is not None and draft.body.split("\n\n") == [
        f"{PAGE_BREAK}page=1\nA walk in the woods is a fine thing to do on a long summer day, when the light is "
        "low and the well-known paths are dry.",
        "Where to walk",
        "Bring these, for there is nothing to be had on the way:",
        "\u2022 water\n\u2022 bread",
        "In spring the ways are wet. They go on for miles and no one walks on them before the month of May. Then "
        "all do.",
    ]
    assert (draft.title, draft.markup) == ("Walks and woods", "paged")


def test_numbers_and_letters_inside_a_sentence_begin_no_list(tmp_path: Path) -> None:
    page = column([
        "The large basin is two metres deep and the small one 1,80",
        "m. Both are open to everybody who can swim well, until the",
        "12. March of the year and not a day longer than that.", "",
        "You need all of these to be let in on a normal day, sir:",
        "a. a ticket for the day that you are here on, whatever it", "cost",
        "b. a cap", "c. a towel",
    ])  # fmt: skip
    body = only_draft(read(tmp_path, {"a.pdf": pdf([page])})).body
    assert body is not None and body.removeprefix(f"{PAGE_BREAK}page=1\n").split("\n\n") == [
        "The large basin is two metres deep and the small one 1,80 m. Both are open to everybody who can swim "
        "well, until the 12. March of the year"
        " and not a day longer than that.",
        "You need all of these to be let in on a normal day, sir:",
        "a. a ticket for the day that you are here on, whatever it cost\nb. a cap\nc. a towel",
    ]


def _glyphs(text: str) -> list[str]:
    return re.findall("ل[اأإآ]|.", text)


def test_letters_of_one_glyph_keep_their_order_in_a_pdf(tmp_path: Path) -> None:
    text = "يجب الاستحمام قبل دخول الماء، والأطفال لا يدخلون بلا شخص بالغ إلا إذا سأل المال والآل"
    assert (
        only_draft(read(tmp_path, {"a.pdf": arabic_pdf([(520, 700, _glyphs(text))])})).body
        == f"{PAGE_BREAK}page=1\n{text}"
    )


def test_a_pdf_that_is_read_from_right_to_left_is_read_in_paragraphs(tmp_path: Path) -> None:
    lines = [
        *(
            "يمنع الركض على حافة المسبح ويجب الاستحمام قبل دخول الماء",
            "الدافئ.",
            "الأطفال دون سن العاشرة يدخلون برفقة شخص بالغ يعرف السباحة",
            "وينتظر معهم",
        ),
        *("", "ساعات العمل", "من السبت إلى الخميس"),
    ]
    made = arabic_pdf([(520, 700 - 14 * number, _glyphs(line)) for number, line in enumerate(lines) if line])
    body = only_draft(read(tmp_path, {"a.pdf": made})).body
    assert body is not None and body.removeprefix(f"{PAGE_BREAK}page=1\n").split("\n\n") == [
        " ".join(lines[:2]),
        " ".join(lines[2:4]),
        *lines[5:],
    ]


def test_columns_from_right_to_left_are_read_one_after_the_other(tmp_path: Path) -> None:
    first = [
        "يمنع الركض على حافة المسبح وفي",
        "الممرات كلها ويجب الاستحمام قبل",
        "دخول الماء ولا يسمح بإدخال الطعام",
        "إلى منطقة السباحة في أي وقت كان.",
    ]
    second = [
        "الأطفال دون سن العاشرة يدخلون مع",
        "شخص بالغ يعرف السباحة وينتظرهم",
        "عند الحافة طوال الوقت ولا يتركهم",
        "وحدهم في الماء ولو مدة قصيرة.",
    ]
    rows = enumerate(zip(first, second, strict=True))
    lines = [
        (right, 700 - 14 * number, _glyphs(line))
        for number, row in rows
        for right, line in zip((540, 270), row, strict=True)
    ]
    body = only_draft(read(tmp_path, {"a.pdf": arabic_pdf(lines)})).body
    assert body is not None and body.removeprefix(f"{PAGE_BREAK}page=1\n").split("\n\n") == [
        " ".join(first),
        " ".join(second),
    ]


def test_page_numbers_of_a_pdf_are_left_out_and_running_titles_stay(tmp_path: Path) -> None:
    words = ("one", "two", "three", "four")
    pages = [
        [
            (250, 800, 9, "Annual report"),
            (72, 700, 11, f"What chapter {word} says."),
            (290, 30, 9, f"Page {number} of 4"),
        ]
        for number, word in enumerate(words, start=1)
    ]
    draft = only_draft(read(tmp_path, {"a.pdf": pdf(pages)}))
    assert draft.body == "\n".join(
        f"{PAGE_BREAK}page={page}\nAnnual report\n\nWhat chapter {word} says."
        for page, word in enumerate(words, start=1)
    )


@pytest.mark.parametrize(
    ("lines", "named", "title"),
    [
        (
            [(72, 760, 24, "The big title"), *column(["Text below it."] * 4, top=700)],
            "Brochure of the year",
            "The big title",
        ),
        (column(["A short first line", "", "Text below it that is long enough."]), "Review", "A short first line"),
        (column(["Some text of one size."] * 3), "Named by hand", "Named by hand"),
        (column(["First."]), "Microsoft Word - a.docx", "First."),
    ],
)
def test_titles_of_pdfs(tmp_path: Path, lines: list[tuple[float, float, float, str]], named: str, title: str) -> None:
    assert only_draft(read(tmp_path, {"a.pdf": pdf([lines], title=named)})).title == title


def test_a_docx_file_is_read_with_headings_lists_and_tables(tmp_path: Path) -> None:
    body = (
        paragraph("Guide", "Heading1")
        + paragraph("Hello &amp; welcome.")
        + table([["size", "cm"], ["S", "10"]])
        + paragraph("More", "Heading2")
        + paragraph("x")
    )
    file = docx(body, word__vbaProject="macro")
    fields = {"name": {"css": "h1"}, "sizes": {"css": "table tr:nth-child(2) td", "many": True}}
    draft = only_draft(read(tmp_path, {"guide.docx": file}, fields=fields))
    assert draft.body == "\n# Guide\n\nHello & welcome.\n\n| size | cm |\n| --- | --- |\n| S | 10 |\n\n## More\n\nx"
    assert (draft.title, draft.markup, draft.fields) == ("Guide", "paged", {"name": "Guide", "sizes": ["S", "10"]})


def _bomb() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as part:
        for _ in range(65):
            part.write(bytes(4 << 20))
    return out.getvalue()


def _locked_pdf() -> bytes:
    keys = b"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%b> /U <%b> >> /ID [<00><00>] /Root" % (
        b"11" * 32,
        b"22" * 32,
    )
    return pdf([column(["secret"])]).replace(b"/Root", keys)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", pdf([[]]), "no text layer: its 1 pages are pictures"),
        ("a.pdf", b"%PDF-1.7 and no more", "damaged PDF file"),
        ("a.pdf", b"", "the file is empty"),
        ("a.pdf", _locked_pdf(), "the file needs a password"),
        ("a.docx", docx(paragraph("x"))[:300], "damaged DOCX file"),
        ("a.docx", b"PK\x03\x04", "damaged DOCX file"),
        ("a.docx", docx("<w:p><w:r>"), "damaged DOCX file"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "in an old format of Office, or needs a password"),
        ("a.docx", _bomb(), "too large once unpacked"),
        ("a.json", "{", "not JSON"),
        ("a.csv", "", "no header row: the file is empty"),
        ("a.csv", bytes(range(32)) * 100, "not text"),
        ("a.txt", b"\x7fELF\x02\x01" + bytes(3000), "not text"),
        ("a.md", bytes(range(256)) * 20, "not text"),
    ],
)  # fmt: skip
def test_a_broken_file_is_quarantined_with_its_reason_and_the_rest_goes_on(
    tmp_path: Path, name: str, content: bytes | str, reason: str
) -> None:
    drafts, rejects = read(tmp_path, {name: content, "z.md": "# Fine"}, body="{title}")
    assert [draft.url for draft in drafts] == ["z.md"]
    assert [(reject.url, reject.stage) for reject in rejects] == [(name, "read")] and reason in rejects[0].reason


@pytest.mark.parametrize(
    ("name", "content", "format_name"),
    [
        ("a.txt", pdf([column(["x"])]), "pdf"),
        ("a.md", docx(paragraph("x")), "docx"),
        ("a.md", "\ufeff<?xml version='1.0'?>\n<!-- saved -->\n<!DOCTYPE html>\n<p>x", "html"),
        ("a.md", '<div align="center">\n\n# A readme\n', "markdown"),
        ("a.txt", "<htmlish> is no tag", "text"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a.json", '{"a":\n1}\n', "json"),
        ("a.jsonl", '[\n{"a": 1},\n{"a": 2}]', "json"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "jsonl"),
        ("a.jsonl", '{"a": oops\n{"a": 2}\n', "jsonl"),
        ("a.jsonl", '[\n{"a": 1}\n]', "json"),
        ("a.json", '{"a": oops\n{"a": 2}\n{"a": 3}\n', "jsonl"),
        ("a.json", '{"a": 1}\n{"a": 2}\n'.encode("utf-16"), "jsonl"),
        ("a.html", "# no tag at all", "html"),
        ("A.MDX", "x", "markdown"),
        ("a.qmd", "---\ntitle: x\n---\ny", "markdown"),
    ],
)
def test_a_name_that_lies_is_seen_through(name: str, content: bytes | str, format_name: str) -> None:
    assert format_of(name, content.encode() if isinstance(content, str) else content) == format_name


# Questions and answers


def test_pairs_are_items_with_addresses_of_their_own(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "a.md": "# FAQ\n## Où ?\nIci.\n",
        "b.html": "<h1>FAQ</h1><dl><dt>Quand ?<dd>Demain.</dl>",
        "c.docx": docx(paragraph("Why?", "Heading1") + paragraph("So.")),
    }
    drafts, rejects = read(tmp_path, {**files, "d.md": "No question."}, format="faq", yields="records")
    assert [(draft.url, draft.document_id, draft.title, draft.fields) for draft in drafts] == [
        ("a.md#où", "a.md#où", "Où ?", {"question": "Où ?", "answer": "Ici."}),
        ("b.html#quand", "b.html#quand", "Quand ?", {"question": "Quand ?", "answer": "Demain."}),
        ("c.docx#why", "c.docx#why", "Why?", {"question": "Why?", "answer": "So."}),
    ]
    assert [(reject.url, reject.reason[:40]) for reject in rejects] == [
        ("d.md", "no question with an answer found: headin")
    ]


def test_pairs_as_documents_and_by_declared_rules(tmp_path: Path) -> None:
    text = "# FAQ\n## Tickets\n### How?\nOnline.\n### Why?\nSo.\n"
    drafts, _ = read(
        tmp_path, {"a.md": text}, format="faq", fields={"at": {"json": "number"}, "part": {"json": "section"}}
    )
    assert [(draft.body, draft.title, draft.fields) for draft in drafts] == [
        ("How?\n\nOnline.", "How?", {"at": 1, "part": "Tickets"}),
        ("Why?\n\nSo.", "Why?", {"at": 2, "part": "Tickets"}),
    ]


@pytest.mark.parametrize(
    "page",
    ["<dl><dt>How?<dd>Online.</dl>", "<details><summary>How?</summary>Online.</details>", "<h2>How?</h2><p>Online."],
)
def test_pairs_of_a_page_are_read_by_rules_on_json_alone(tmp_path: Path, page: str) -> None:
    rules = {"q": {"json": "question", "required": True}, "a": {"json": "answer", "required": True}}
    assert only_draft(read(tmp_path, {"a.html": page}, format="faq", yields="records", fields=rules)).fields == {
        "q": "How?",
        "a": "Online.",
    }


def test_pairs_of_a_page_leave_it_whole_for_declared_rules(tmp_path: Path) -> None:
    page = "<details><summary>Why <b>me</b>?</summary><p>So.</p></details>"
    assert only_draft(read(tmp_path, {"a.html": page}, format="faq", fields={"s": {"css": "summary"}})).fields == {
        "s": "Why me?"
    }


@pytest.mark.parametrize("kind", ["application/ld+json; charset=utf-8", "application/LD+JSON"])
def test_pairs_in_structured_data_are_read_as_shops_write_it(tmp_path: Path, kind: str) -> None:
    data = (
        '{"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": "Why?", "acceptedAnswer": {"text": '
        '"So."}},]}'
    )
    draft = only_draft(read(tmp_path, {"a.html": f'<script type="{kind}">{data}</script>'}, format="faq"))
    assert draft.body == "Why?\n\nSo."


# Accounting


def test_a_file_of_many_rows_comes_in_batches_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {n}}}\n' if n % 7 else "oops\n" for n in range(2500)))
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "a.jsonl", "yields": "records"})
    raw = RawStore(tmp_path / "raw")
    read_files(source, tmp_path, raw, "r1")
    batches = list(map_pages(raw.pages("r1"), source, "en"))
    assert [len(batch.drafts) + len(batch.rejects) for batch in batches] == [1000, 1000, 500]
    assert sum(len(batch.drafts) for batch in batches) == 2142
    require_matches(source, {}, 2500, 1)
