"""What pages yielded is kept for the next run, and only for the same rules."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.tables import TableWriter
from almanac.schemas.items import Item, Reject
from almanac.schemas.left_out import LeftOut
from almanac.transforms.mapped_pages import Mapped, MappedPages, MappedWriter, staged_batches


def _mapped(number: int) -> Mapped:
    item = Item(
        "s",
        "record",
        str(number),
        "u",
        "tït\u0000le",
        "text \ud800",
        {"price": [{"amount": "1.50"}], "n": 1.5},
        {"x": None},
        "raw",
        "2020",
        "fr",
    )
    return Mapped(
        [item],
        [Reject("s", "u", None, "map", "no", "f", {"found": [1]}, "css: a")],
        {"n": 1},
        extracted=2,
        characters=6,
        left_out=LeftOut({"hidden": {"blocks": 1, "characters": 9}}),
    )


def _write(path: Path, count: int, stages: str = "m c") -> None:
    with MappedWriter(path, stages) as writer:
        for number in range(count):
            writer.add(f"page {number}", _mapped(number))
            if number == 3:
                writer.add(f"page {number}", _mapped(1000))


def _unread() -> Iterator[Mapped]:
    raise AssertionError("the page is known, and was read again")
    yield


def test_a_page_is_given_back_as_it_was_at_the_time_of_now(tmp_path: Path) -> None:
    _write(tmp_path / "s.parquet", 150)
    known = MappedPages(tmp_path / "s.parquet", "m c")
    for number in (149, 0, 70):
        (batch,) = known.batches(f"page {number}", "2026", _unread)
        wanted = _mapped(number)
        assert (batch.items[0].fetched_at, batch.rejects, batch.matched, batch.extracted) == (
            "2026",
            wanted.rejects,
            {"n": 1},
            2,
        )
        assert batch.items[0].content_sha256 == wanted.items[0].content_sha256
        assert (batch.characters, batch.left_out) == (6, {"hidden": {"blocks": 1, "characters": 9}})
    assert [batch.items[0].document_id for batch in known.batches("page 3", "2026", _unread)] == ["3", "1000"]
    assert list(known.batches("another page", "2026", lambda: iter([_mapped(7)]))) == [_mapped(7)]
    assert (known.knows("page 3"), known.knows("another page")) == (True, False)
    assert known.rows == 151


def test_what_was_read_is_written_again_as_it_is(tmp_path: Path) -> None:
    _write(tmp_path / "s.parquet", 1)
    [batch] = MappedPages(tmp_path / "s.parquet", "m c").batches("page 0", "2026", _unread)
    with MappedWriter(tmp_path / "t.parquet", "m c") as writer:
        writer.add("page 0", batch)
    first, again = (pq.read_table(tmp_path / f"{name}.parquet").to_pylist() for name in "st")
    assert (again[0]["mapped"], again[0]["fetched_at"]) == (first[0]["mapped"], "2026")
    assert [staged.items[0] for staged in staged_batches(tmp_path / "t.parquet")] == batch.items


def test_other_rules_a_damaged_file_and_none_know_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    assert not MappedPages(path, "m c").knows("page 0")
    _write(path, 3)
    assert not MappedPages(path, "m2 c").knows("page 0")
    path.write_bytes(path.read_bytes()[:-30])
    assert not MappedPages(path, "m c").knows("page 0")


def test_where_a_batch_cannot_be_read_the_page_is_read_from_there_on(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    with MappedWriter(path, "m c") as writer:
        for number in range(200):
            writer.add("file", _mapped(number))
    table = pq.read_table(path)
    rows = [payload if number != 100 else b"[" for number, payload in enumerate(table.column("mapped").to_pylist())]
    with TableWriter(path, table.schema) as damaged:
        damaged.write(table.set_column(2, table.schema.field(2), pa.array(rows, pa.binary())))
    batches = MappedPages(path, "m c").batches("file", "2020", lambda: iter([_mapped(number) for number in range(200)]))
    assert [batch.items[0].document_id for batch in batches] == [str(number) for number in range(200)]


def test_a_table_that_was_not_finished_is_none(tmp_path: Path) -> None:
    try:
        with MappedWriter(tmp_path / "s.parquet", "m c") as writer:
            writer.add("page 0", _mapped(0))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert list(tmp_path.iterdir()) == []
