"""Rows of functions, databases and programs: read whole or by what changed, in one transaction, each accounted for."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from almanac.core.lifetime import process_start
from almanac.core.row_table import ROWS, RowTable
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.row_sources import RowLimits
from almanac.schemas.declaration.source import RowSource
from almanac.schemas.errors import DeclarationError, NoRecords, OperationalError, Unreachable
from almanac.schemas.items import Draft, Page, Reject
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.mapping.item_mapping import map_page
from almanac.spiders.reading.content import Content
from almanac.spiders.rows.read_rows import first_rows, forget_rows, read_rows
from almanac.spiders.store.raw import RawStore

_BOATS = [{"id": number, "name": f"Boat {number}", "changed": f"2026-01-{1 + number % 28:02}"} for number in range(40)]


def _source(**keys: Any) -> RowSource:
    source: RowSource = TypeAdapter[RowSource](RowSource).validate_python({"name": "boats", "id": "id", **keys})
    return source


def _prints(*lines: Any, code: int = 0, **keys: Any) -> RowSource:
    """A program that prints these rows, or texts, and ends with this code."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    script = f"import sys\nfor line in {texts!r}: print(line)\nprint('so it was', file=sys.stderr)\nsys.exit({code})"
    return _source(kind="command", command=[sys.executable, "-c", script], **keys)


def _mapped(page: Page, source: RowSource) -> Iterator[Draft | Reject]:
    page_items = map_page(Content.from_page(page, source, "en"), source, "en")
    yield from (
        item for mapped_item in page_items.items for item in (mapped_item.draft, mapped_item.reject) if item is not None
    )
    yield from page_items.rejects


def _closes_and_stays() -> RowSource:
    script = "import os, time; print('{\"id\": 1}', flush=True); os.close(1); time.sleep(60)"
    return _source(kind="command", command=[sys.executable, "-c", script], limits={"seconds": 1})


class _Reader:
    """Reads a source again and again, as runs do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.raw, self.runs = folder, RawStore(folder / "raw"), 0

    def read(self, source: RowSource, **options: Any) -> CrawlOutcome:
        self.runs += 1
        before = f"run{self.runs - 1}" if self.runs > 1 else None
        previous = PreviousCrawls(concluded=before, **options)
        return read_rows(source, self.folder, self.raw, f"run{self.runs}", previous=previous)

    def items(self, source: RowSource) -> list[Draft | Reject]:
        pages = self.raw.pages(f"run{self.runs}")
        return [item for page in pages for item in _mapped(page, source)]

    def ids(self, source: RowSource) -> list[str]:
        return sorted(item.document_id for item in self.items(source) if isinstance(item, Draft))


@pytest.fixture
def reader(tmp_path: Path) -> _Reader:
    return _Reader(tmp_path)


def test_rows_of_a_program_are_items_and_what_is_none_is_a_reject(reader: _Reader) -> None:
    source = _prints({"id": 7, "name": "Junk"}, {"id": "a b", "url": "https://b.example/a"}, "nonsense", {"x": 1}, 5)
    outcome = reader.read(source)
    items = reader.items(source)
    drafts = [(item.document_id, item.url) for item in items if isinstance(item, Draft)]
    assert drafts == [("7", "boats#7"), ("a b", "https://b.example/a")]
    reasons = [item.reason for item in items if isinstance(item, Reject)]
    assert [part in reason for part, reason in zip(["not JSON", "{id} is empty", "a number"], reasons, strict=True)]
    assert outcome.pages.fetched == 5


def test_a_second_row_of_an_id_is_a_reject_where_all_rows_are_given(reader: _Reader) -> None:
    source = _prints({"id": 1, "name": "first"}, {"id": 1, "name": "second"})
    reader.read(source)
    assert sorted(item.fields["name"] for item in reader.items(source) if isinstance(item, Draft)) == [
        "first",
        "second",
    ]
    changes = _prints({"id": 1, "name": "third"}, {"id": 1, "name": "fourth"}, complete=False)
    reader.read(changes)
    assert [item.fields["name"] for item in reader.items(changes) if isinstance(item, Draft)] == ["fourth"]


def test_rows_that_are_missing_are_gone_and_those_that_did_not_change_are_not_stored_again(reader: _Reader) -> None:
    reader.read(_prints(*_BOATS))
    changed = [{**boat, "name": "Raft"} if boat["id"] == 3 else boat for boat in _BOATS if boat["id"] not in (5, 6)]
    outcome = reader.read(_prints(*changed))
    assert (outcome.pages.fetched, outcome.pages.unchanged, outcome.pages.vanished) == (1, 37, 2)
    assert outcome.vanished == ["boats#5", "boats#6"]
    assert len(reader.ids(_prints())) == 38


def test_what_is_said_to_be_gone_is_gone(reader: _Reader) -> None:
    source = _prints({"id": 1}, {"id": 2, "off": False}, {"id": 3, "off": "2026-01-01"}, gone="off")
    reader.read(source)
    assert reader.ids(source) == ["1", "2"]
    outcome = reader.read(_prints({"gone": 1}, {"id": 4}, complete=False))
    assert reader.ids(source) == ["2", "4"]
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [("boats#1", "gone")]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (_prints({"id": 9}, code=3), OperationalError, "exit code 3: so it was"),
        (_source(kind="command", command=["no-such-program-here"]), OperationalError, "cannot be run"),
        (_prints(), NoRecords, "no row"),
        (_prints({"id": 1}, {"id": 2}, limits={"rows": 1}), OperationalError, "more than 1 rows"),
        (_source(kind="command", command=["sleep", "60"], limits={"seconds": 1}), OperationalError, "within 1 s"),
        (_closes_and_stays(), OperationalError, "within 1 s"),
        (_source(kind="rows", **{"from": "no_such_module:rows"}), DeclarationError, "no_such_module"),
        (_source(kind="rows", **{"from": "json:nothing"}), DeclarationError, "nothing"),
        (_source(kind="rows", **{"from": "no-such-entry-point"}), DeclarationError, "no package brings a source"),
        (_source(kind="sql", url="sqlite:///none.db", query="select 1 id"), OperationalError, "no file none.db"),
        (_source(kind="sql", url="nonsense", query="select 1 id"), DeclarationError, "no address|not the address"),
    ],
)
def test_what_fails_says_why_and_leaves_the_rows_of_before(
    reader: _Reader, source: RowSource, error: type[Exception], message: str
) -> None:
    reader.read(_prints(*_BOATS))
    with pytest.raises(error, match=message):
        reader.read(source)
    with RowTable(reader.raw.root / ROWS) as table:
        assert len(table) == len(_BOATS)


def test_what_a_program_has_started_ends_with_it(reader: _Reader) -> None:
    script = "sleep 300 & echo $! > child; echo '{\"id\": 1}'"
    with pytest.raises(OperationalError, match="within 10 s"):  # the one behind holds its output open
        reader.read(_source(kind="command", command=["sh", "-c", script], limits={"seconds": 10}))
    child = int((reader.folder / "child").read_text())
    ended = time.monotonic() + 10
    while time.monotonic() < ended and process_start(child) is not None:
        time.sleep(0.05)
    assert process_start(child) is None


def test_a_row_that_is_too_large_is_left_out_and_the_others_are_taken(reader: _Reader) -> None:
    source = _prints({"id": 1}, {"id": 2, "text": "x" * 5000}, {"id": 3}, limits={"bytes_per_row": 1000})
    outcome = reader.read(source)
    assert reader.ids(source) == ["1", "3"]
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [("boats#row 2", "too_large")]
    assert outcome.pages.refused == 1


def test_a_reading_that_is_killed_changes_nothing(reader: _Reader) -> None:
    reader.read(_prints(*_BOATS))
    code = (
        "import os, sys; from pathlib import Path; from almanac.core.row_table import RowTable\n"
        "with RowTable(Path(sys.argv[1])) as table, table.reading():\n"
        "    [table.put(str(n), b'{}') for n in range(100000)]; os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(reader.raw.root / ROWS)], check=False)
    assert killed.returncode == -9
    outcome = reader.read(_prints(*_BOATS))
    assert (outcome.pages.fetched, outcome.pages.unchanged) == (0, len(_BOATS))


def test_a_row_that_comes_or_goes_changes_its_own_page(tmp_path: Path) -> None:
    with RowTable(tmp_path / ROWS) as table:
        with table.reading():
            for number in range(5000):
                table.put(f"{number:05}", b'{"id": %d}' % number)
        before = dict(table.pages())
        with table.reading():
            table.put("02500a", b'{"id": "new"}')
            table.drop("04000")
        after = dict(table.pages())
    assert len(before) > 8
    assert b"".join(after.values()).count(b"\n") == 5000
    assert sum(before.get(first) != body for first, body in after.items()) <= 3


def test_a_takedown_leaves_nothing_of_a_row(reader: _Reader) -> None:
    rows = [
        {"id": 1, "name": "Secret junk"},
        {"id": 2, "url": "https://b.example/2", "name": "Hidden raft"},
        {"id": 3},
    ]
    source = _prints(*rows)
    reader.read(source)
    forget_rows(reader.raw, "boats", {"boats#1", "https://b.example/2"})
    left = b"".join(path.read_bytes() for path in reader.raw.root.rglob("*") if path.is_file())
    assert b"Secret junk" not in left
    assert b"Hidden raft" not in left
    outcome = read_rows(source, reader.folder, reader.raw, "next", forgotten={"boats#1"})
    assert (outcome.pages.fetched, outcome.pages.unchanged) == (2, 1)  # the other one is denied by its URL, later


def test_a_function_gives_rows_with_values_of_python(reader: _Reader) -> None:
    (reader.folder / "given.py").write_text(
        "import datetime, decimal, uuid\n"
        "def rows(n):\n"
        "    print('what is printed is no row')\n"
        "    yield [{'id': i, 'day': datetime.date(2026, 1, 2), 'price': decimal.Decimal('12.90')} for i in range(n)]\n"
        "    yield {'id': uuid.UUID(int=1), 'exact': decimal.Decimal('0.1234567890123456789'), 'odd': float('nan')}\n"
        "    yield {'id': 'bytes', 'image': b'x'}\n"
    )
    source = _source(kind="rows", **{"from": "given:rows", "with": {"n": 2}})
    outcome = reader.read(source)
    fields = {item.document_id: item.fields for item in reader.items(source) if isinstance(item, Draft)}
    assert fields["0"] == {"id": 0, "day": "2026-01-02", "price": 12.9}
    assert fields["00000000-0000-0000-0000-000000000001"]["exact"] == "0.1234567890123456789"
    assert [failure.detail for failure in outcome.failures if "bytes are no text" in failure.detail]
    assert first_rows(source, reader.folder, reader.raw, 1).body.count(b"{") == 1


def _database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("create table boats (id integer primary key, name text, changed text)")
    connection.executemany("insert into boats values (:id, :name, :changed)", _BOATS)
    connection.commit()
    return connection


def test_a_cursor_asks_for_what_changed_and_ids_tell_what_is_gone(reader: _Reader) -> None:
    boats = _database(reader.folder / "boats.db")
    query = "select id, name, changed from boats -- of '12:30'"
    source = _source(kind="sql", url="sqlite:///boats.db", query=query, cursor="changed")
    assert reader.read(source).pages.fetched == len(_BOATS)
    boats.execute("update boats set name = 'unnoticed' where id = 1")
    boats.execute("update boats set name = 'Raft', changed = '2026-02-01' where id = 2")
    boats.execute("delete from boats where id = 3")
    boats.commit()
    outcome = reader.read(source)
    assert (outcome.pages.fetched, outcome.pages.vanished) == (1, 1)
    assert outcome.vanished == ["boats#3"]
    small = source.model_copy(update={"limits": RowLimits(bytes_per_row=100)})  # of a row, and not of the list of ids
    assert reader.read(small).pages.vanished == 0
    assert reader.read(source, afresh=True).pages.fetched == 1  # with --full, the one without a new cursor
    boats.execute("alter table boats add column crew integer default 4")
    boats.commit()
    wider = _source(kind="sql", url="sqlite:///boats.db", query="select * from boats", cursor="changed")
    reader.read(wider)
    boats.execute("alter table boats add column beam integer default 2")
    boats.commit()
    assert reader.read(wider).pages.fetched == len(_BOATS) - 1  # each row has a column more


def test_a_query_reads_and_never_writes(reader: _Reader) -> None:
    _database(reader.folder / "boats.db").close()
    source = _source(kind="sql", url="sqlite:///boats.db", query="delete from boats returning id")
    with pytest.raises(OperationalError):
        reader.read(source)
    with sqlite3.connect(reader.folder / "boats.db") as boats:
        assert boats.execute("select count(*) from boats").fetchone() == (len(_BOATS),)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"id": "sku"}, "id: the query gives no column 'sku'"),
        ({"cursor": "chnaged"}, "did you mean 'changed'|changed"),
    ],
)
def test_columns_that_the_query_does_not_give_are_named(reader: _Reader, keys: dict[str, Any], message: str) -> None:
    _database(reader.folder / "boats.db").close()
    with pytest.raises(DeclarationError, match=message):
        reader.read(_source(**{"kind": "sql", "url": "sqlite:///boats.db", "query": "select * from boats", **keys}))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"kind": "command", "command": ["x"], "id": "nothing at all"}, "must be"),
        ({"kind": "command", "command": ["x"], "each": {"css": "p"}}, "each: is for pages"),
        ({"kind": "command", "command": ["x"], "yields": "documents"}, "which one is the text"),
        ({"kind": "sql", "url": "sqlite://"}, "query"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _source(**keys)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    """The URL of a real server of this machine's, with an empty database."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("no PostgreSQL is installed here")
    data, user = tmp_path / "pg", "postgres" if os.getuid() == 0 else None  # it refuses to be root's
    data.mkdir(mode=0o700)
    if user is not None:
        for folder in [tmp_path, *list(tmp_path.parents)[:3]]:
            folder.chmod(folder.stat().st_mode | 0o011)
        shutil.chown(data, user)
    as_user: dict[str, Any] = {"user": user, "cwd": "/", "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    made: list[Any] = [folders[-1] / "initdb", "-D", data, "-A", "trust", "-U", "shop", "--no-sync"]
    subprocess.run(made, check=True, **as_user)
    with subprocess.Popen([folders[-1] / "postgres", "-D", data, "-k", data, "-h", ""], **as_user) as server:
        while not (data / ".s.PGSQL.5432").exists():
            assert server.poll() is None
            time.sleep(0.1)
        try:
            yield f"postgresql+psycopg://shop:hush@/postgres?host={data}"
        finally:
            server.send_signal(signal.SIGQUIT)


@pytest.mark.slow
def test_rows_of_postgresql(reader: _Reader, postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres.replace("+psycopg", ""), autocommit=True) as shop:
        shop.execute(
            "create table boats (id uuid primary key default gen_random_uuid(), name text, price numeric(10,2), "
            "tags text[], more jsonb, changed timestamptz default '2026-10-25 00:30+00')"
        )
        shop.execute(
            "insert into boats (name, price, tags, more) select 'Boat ' || n, n / 4.0, array['a', 'b'], "
            "jsonb_build_object('crew', n) from generate_series(1, 20000) n"
        )
        shop.execute("create sequence counter")
        source = _source(kind="sql", url=postgres, query="select * from boats;", cursor="changed")
        assert reader.read(source).pages.fetched == 20000
        boat = next(
            item for item in reader.items(source) if isinstance(item, Draft) and item.fields["name"] == "Boat 7"
        )
        assert (boat.fields["price"], boat.fields["tags"], boat.fields["more"]) == (1.75, ["a", "b"], {"crew": 7})
        shop.execute("update boats set name = 'Raft', changed = now() where name = 'Boat 7'")
        shop.execute("delete from boats where name = 'Boat 8'")
        again = reader.read(source)
        assert (again.pages.fetched, again.pages.vanished) == (1, 1)
        third = reader.read(source)
        assert (third.pages.fetched, third.pages.vanished) == (0, 0)
    with pytest.raises(OperationalError, match="read-only") as raised:
        reader.read(_source(kind="sql", url=postgres, query="select nextval('counter') as id"))
    assert "hush" not in f"{raised.value.message} {raised.value.hint}"
    with pytest.raises(DeclarationError, match="'name' twice"):
        reader.read(_source(kind="sql", url=postgres, query="select id, name, name from boats"))
    with pytest.raises(OperationalError, match="no_such_table"):
        reader.read(_source(kind="sql", url=postgres, query="select * from no_such_table"))
    with pytest.raises(Unreachable, match="has broken off"):
        reader.read(_source(kind="sql", url=postgres, query="select pg_terminate_backend(pg_backend_pid()) as id"))
    with pytest.raises(Unreachable, match=r"takes no connection: .*no_such_base") as raised:
        reader.read(_source(kind="sql", url=postgres.replace("/postgres?", "/no_such_base?"), query="select 1 as id"))
    assert "hush" not in f"{raised.value.message} {raised.value.hint}"


def test_a_database_that_is_locked_or_away_is_one_to_try_again(reader: _Reader) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(Unreachable, match="takes no connection"):
        reader.read(_source(kind="sql", url="postgresql+psycopg://me@127.0.0.1:9/shop", query="select 1 as id"))
    locked = _database(reader.folder / "shop.db")
    locked.execute("begin exclusive")
    with pytest.raises(Unreachable, match="locked"):
        reader.read(_source(kind="sql", url="sqlite:///shop.db?timeout=0", query="select * from boats"))
