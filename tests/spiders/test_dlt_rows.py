"""Sources of dlt as rows: those of docs/sources.md, which read what is new."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import TypeAdapter

from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import RowSource
from almanac.schemas.errors import OperationalError
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.rows.read_rows import read_rows
from almanac.spiders.store.raw import RawStore
from tests.conftest import ROOT

pytest.importorskip("dlt")
pytestmark = pytest.mark.slow
_BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/sources.md").read_text("utf-8"), re.DOTALL)


class _Reader:
    """Reads what a function of the recipe gives, again and again."""

    def __init__(self, folder: Path, function: str, arguments: dict[str, Any]) -> None:
        (folder / "doors.py").write_text(next(block for block in _BLOCKS if "import dlt" in block))
        declared = {"name": "s", "kind": "rows", "id": "id", "from": f"doors:{function}", "with": arguments}
        self.source = TypeAdapter[RowSource](RowSource).validate_python({**declared, "complete": False})
        self.folder, self.raw, self.runs = folder, RawStore(folder / "raw"), 0

    def read(self, **options: Any) -> CrawlOutcome:
        self.runs += 1
        before = f"r{self.runs - 1}" if self.runs > 1 else None
        previous = PreviousCrawls(concluded=before, **options)
        return read_rows(self.source, self.folder, self.raw, f"r{self.runs}", previous=previous)

    def rows(self) -> dict[int, Any]:
        lines = [json.loads(line) for page in self.raw.pages(f"r{self.runs}") for line in page.body.splitlines()]
        return {row["id"]: row for row in lines}


def test_a_table_is_read_from_where_the_last_reading_ended(tmp_path: Path) -> None:
    """And not from where one ended that failed."""
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("create table boats (id integer primary key, name text, changed timestamp)")
        shop.executemany(
            "insert into boats values (?, 'Boat', ?)", [(n, f"2026-01-{n:02} 00:00:00") for n in (1, 2, 3)]
        )
    reader = _Reader(tmp_path, "boats", {"url": f"sqlite:///{tmp_path}/shop.db"})
    assert reader.read().pages.fetched == 3
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("update boats set name = 'Unseen' where id = 1")  # its cursor says nothing of it
        shop.execute("update boats set name = 'Raft', changed = '2026-02-01 00:00:00' where id = 2")
        shop.execute("insert into boats values (4, 'Raft', '2026-02-02 00:00:00')")
    whole = reader.source
    reader.source = whole.model_copy(update={"limits": whole.limits.model_copy(update={"rows": 1})})
    with pytest.raises(OperationalError, match="more than 1 rows"):
        reader.read()
    reader.source, reader.runs = whole, 1
    assert reader.read().pages.fetched == 2
    assert {key: row["name"] for key, row in reader.rows().items()} == {1: "Boat", 2: "Raft", 3: "Boat", 4: "Raft"}
    assert reader.read().pages.fetched == 0
    assert reader.read(afresh=True).pages.fetched == 1 and reader.rows()[1]["name"] == "Unseen"
    assert not list(tmp_path.rglob(".dlt"))


@pytest.fixture
def posts() -> Iterator[tuple[str, list[dict[str, Any]], list[str]]]:
    """An API of posts: its address, what it has, what was asked for."""
    has: list[dict[str, Any]] = [{"id": number, "changed": f"2026-01-{2 + number:02}"} for number in range(7)]
    cursors: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def do_GET(self) -> None:
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            cursors.append(query["since"])
            changed_posts = [post for post in has if post["changed"] >= query["since"]]
            first = 5 * (int(query["page"]) - 1)
            body = json.dumps({"items": changed_posts[first : first + 5]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", has, cursors
    server.shutdown()
    server.server_close()


def test_an_api_is_asked_for_what_is_new(tmp_path: Path, posts: Any) -> None:
    base, has, cursors = posts
    reader = _Reader(tmp_path, "posts", {"base": base})
    assert reader.read().pages.fetched == 7 and set(cursors) == {"2026-01-01"}
    cursors.clear()
    has[3] |= {"changed": "2026-03-01", "title": "New"}
    assert reader.read().pages.fetched == 1 and set(cursors) == {"2026-01-08"}
    assert reader.rows()[3]["title"] == "New" and len(reader.rows()) == 7


def test_files_that_are_new_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    os.utime(folder / "a.jsonl", (1_700_000_000, 1_700_000_000))
    reader = _Reader(tmp_path, "lines", {"folder": folder.as_uri()})
    assert reader.read().pages.fetched == 2
    (folder / "b.jsonl").write_text('{"id": 3}\n')
    assert reader.read().pages.fetched == 1 and reader.rows().keys() == {1, 2, 3}
    assert reader.read().pages.fetched == 0
