"""Tables in files, CSV and TSV: dialects, encodings, headers, and rows that are broken."""

from pathlib import Path

import pytest

from almanac.spiders.reading.delimited import read_rows
from tests.growth import assert_linear
from tests.spiders.file_reading import only_draft, read_items


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
    drafts, rejects = read_items(
        tmp_path, {"menu.csv": content.encode(encoding)}, yields="records", id="{code}", title="{name}"
    )
    assert [(d.url, d.document_id, d.title, d.fields) for d in drafts] == [
        ("menu.csv#1", "1", "Phở", {"code": "1", "name": "Phở", "note": None}),
        ("menu.csv#2", "2", "Bún", {"code": "2", "name": "Bún", "note": "a, b\nc"}),
    ]
    assert rejects == []


def test_western_tables_without_unicode_are_read(tmp_path: Path) -> None:
    drafts, _ = read_items(
        tmp_path,
        {"a.csv": "id;libellé;prix\n1;Crème brûlée;4,50 €\n2;Forêt-noire à partager;12 €\n".encode("cp1252")},
        yields="records",
    )
    assert [draft.fields["libellé"] for draft in drafts] == ["Crème brûlée", "Forêt-noire à partager"]


def test_a_tab_separated_file_is_no_comma_separated_one(tmp_path: Path) -> None:
    assert only_draft(read_items(tmp_path, {"a.tsv": "name, first\tage\nDoe, Jane\t4\n"}, yields="records")).fields == {
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
    draft = only_draft(read_items(tmp_path, {"a.csv": table}, yields="records", fields=fields, id="{name}"))
    assert draft.fields == {"name": "Jam", "price": {"amount": "3.20", "currency": "€"}, "again": "2", "third": "3"}


def test_a_bad_row_is_quarantined_by_its_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    content = 'id,name\n1,"two\nlines"\n2\n3,a,b\n4,"x" y\n5,ok\n6,"never closed\n7,ok\n'
    drafts, rejects = read_items(tmp_path, {"a.csv": content}, yields="records")
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
    drafts, rejects = read_items(
        tmp_path, {"a.csv": f'id,t\n{good[5]}\n6,"open\n{good[7]}\n{good[8]}\n'}, yields="records"
    )
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
    drafts, rejects = read_items(
        tmp_path, {"a.csv": 'id,t\n1,"first\nhe said "hi", ok"\n2,"x"\n3,a\rb\n'}, yields="records"
    )
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
    drafts, _ = read_items(tmp_path, {"a.csv": "id,n\n7,a\n7,b\n,c\n"}, yields="records")
    assert [draft.document_id for draft in drafts] == ["a.csv#7", "a.csv#L3", "a.csv#L4"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "id,n\n7,a\n"), ("a.json", '[{"id": 7, "n": "a"}]'), ("a.jsonl", '{"id": 7, "n": "a"}\n')],
)
def test_a_row_that_has_an_id_keeps_it_whether_or_not_fields_are_declared(
    tmp_path: Path, name: str, content: str
) -> None:
    assert only_draft(read_items(tmp_path, {name: content}, yields="records")).document_id == f"{name}#7"
    assert (
        only_draft(read_items(tmp_path, {name: content}, yields="records", fields={"n": {"json": "n"}})).document_id
        == f"{name}#7"
    )


def test_a_second_row_with_a_declared_id_says_its_line(tmp_path: Path) -> None:
    drafts, _ = read_items(tmp_path, {"a.csv": "sku,n\nA6,a\nB,b\nA6,c\n"}, yields="records", id="{sku}")
    assert [(draft.document_id, draft.url) for draft in drafts] == [
        ("A6", "a.csv#A6"),
        ("B", "a.csv#B"),
        ("A6", "a.csv#L4"),
    ]
