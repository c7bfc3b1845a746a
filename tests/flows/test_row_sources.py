"""Rows from where they are to what is served: published, refreshed, planned, shown and taken down."""

import json
import sqlite3
from pathlib import Path

from tests.conftest import Almanac

_DECLARED = """
name: boats
language: en
sources:
  - {name: fleet, kind: sql, url: "sqlite:///fleet.db", query: select * from boats, id: id, cursor: changed,
     text: "{name}. {about}", metadata: [name]}
  - {name: crew, kind: command, command: [cat, crew.jsonl], id: id, fields: {name: {json: name}}}
gate: {max_lost: 0.9}
"""


def _run(almanac: Almanac, path: Path) -> dict[str, int]:
    done = almanac("run", str(path), "--json")
    assert done.code in (0, 5), done.stderr
    counts: dict[str, int] = done.json["items"]
    return counts


def test_rows_are_published_refreshed_and_taken_down(almanac: Almanac, tmp_path: Path) -> None:
    path = tmp_path / "boats.yaml"
    path.write_text(_DECLARED)
    (tmp_path / "crew.jsonl").write_text('{"id": "a", "name": "Ahab"}\n{"id": "i", "name": "Ishmael"}\nnot a row\n')
    with sqlite3.connect(tmp_path / "fleet.db") as boats:
        boats.execute("create table boats (id integer primary key, name text, about text, changed text)")
        boats.execute("insert into boats values (1, 'Pequod', 'A whaler of Nantucket.', '2026-01-01')")
        boats.execute("insert into boats values (2, 'Rachel', 'She looks for her children.', '2026-01-01')")
    shown = almanac("test-source", str(path), "fleet", "--rows", "1", "--json")
    assert [item["document_id"] for item in shown.json["items"]] == ["1"]
    first = _run(almanac, path)
    assert (first["added"], first["quarantined"]) == (4, 1)
    with sqlite3.connect(tmp_path / "fleet.db") as boats:
        boats.execute("update boats set about = 'She found another orphan.', changed = '2026-01-02' where id = 2")
        boats.execute("delete from boats where id = 1")
    planned = almanac("plan", str(path), "--json").json["items"]
    second = _run(almanac, path)
    for counts in (planned, second):
        assert (counts["added"], counts["changed"], counts["removed"], counts["unchanged"]) == (0, 1, 1, 2)
    hit = almanac("search", str(path), "who found an orphan", "--json").json["hits"][0]
    assert (hit["url"], hit["document_id"]) == ("fleet#2", "2")
    assert almanac("forget", str(path), "crew#a").code == 0
    third = _run(almanac, path)
    assert (third["added"], third["unchanged"]) == (0, 2)
    rejects = (almanac.data / "processed" / "boats" / "rejects.jsonl").read_text().splitlines()
    assert any("not JSON" in json.loads(line)["reason"] for line in rejects)
