"""JSON and JSON lines in files: arrays, objects, and what is no JSON."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from almanac.schemas.declaration.source import FilesSource
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.raw import RawStore
from tests.spiders.file_reading import only_draft, read_items


def test_entries_of_an_array_are_items(tmp_path: Path) -> None:
    drafts, rejects = read_items(
        tmp_path, {"a.json": '[{"id": "x", "title": "X", "n": [1]}, {"title": 7}, "text"]'}, yields="records"
    )
    assert [(d.url, d.title, d.fields) for d in drafts] == [
        ("a.json#x", "X", {"id": "x", "title": "X", "n": [1]}),
        ("a.json#2", "7", {"title": 7}),
    ]
    assert [(reject.url, reject.reason) for reject in rejects] == [("a.json#3", "entry 3 is a text, not a JSON object")]


def test_an_object_is_one_item_or_holds_several(tmp_path: Path) -> None:
    content = '{"kind": "list", "rows": [{"name": "A"}, {"name": "B"}]}'
    assert only_draft(read_items(tmp_path, {"a.json": content}, yields="records")).url == "a.json"
    drafts, _ = read_items(
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
        only_draft(read_items(tmp_path, {"a.json": content}, yields="records")).fields["t"]
        == "Crème brûlée à partager, déjà prête"
    )


def test_json_lines_account_for_every_line(tmp_path: Path) -> None:
    lines = '\ufeff{"id": 1, "t": "a"}\r\n\r\n[1]\r\n{"id": 2\r\n"x"\r\n{"id": 3, "t": "\u2028"}\r\n'
    drafts, rejects = read_items(tmp_path, {"a.jsonl": lines}, yields="records")
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
    drafts, rejects = read_items(tmp_path, {name: content.encode(encoding)}, yields="records", encoding=encoding)
    assert [draft.fields["t"] for draft in drafts] == [text] and not rejects


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_bad_first_line_costs_one_line(tmp_path: Path, encoding: str) -> None:
    lines = '{"id": 0, broken\n{"id": 1, "t": "ắ"}\n{"id": 2, "t": "b"}\n'
    drafts, rejects = read_items(tmp_path, {"a.jsonl": lines.encode(encoding)}, yields="records")
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
    _, rejects = read_items(
        tmp_path, {"a.jsonl": f'{{"n": {line}}}\n{{}}'.encode("latin-1")}, yields="records", id="{n}"
    )
    assert reason in rejects[0].reason


def test_rows_have_no_text_of_their_own_as_documents() -> None:
    for glob in ("rows.csv", "a/*.JSON", "**/*.jsonl"):
        with pytest.raises(ValidationError, match=r'say which one: body: "\{text\}"'):
            FilesSource.model_validate({"name": "f", "kind": "files", "glob": glob})


def test_a_table_among_notes_is_quarantined_and_the_notes_are_read(tmp_path: Path) -> None:
    drafts, rejects = read_items(tmp_path, {"a.md": "# A", "b.csv": "x\n1\n2\n", "c.json": "{}"})
    assert [draft.url for draft in drafts] == ["a.md"]
    assert [(reject.url, reject.field) for reject in rejects] == [("b.csv", "body"), ("c.json", "body")]


def test_a_file_of_many_rows_comes_in_batches_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {n}}}\n' if n % 7 else "oops\n" for n in range(2500)))
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "a.jsonl", "yields": "records"})
    raw = RawStore(tmp_path / "raw")
    read_files(source, tmp_path, raw, "r1")
    batches = list(map_pages(raw.pages("r1"), source, "en"))
    assert [len(batch.drafts) + len(batch.rejects) for batch in batches] == [1000, 1000, 500]
    assert sum(len(batch.drafts) for batch in batches) == 2142
    require_matches(source, {}, 2500, 1)
