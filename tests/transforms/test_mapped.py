"""What pages yielded is kept for the next run, and only for the same rules."""

from pathlib import Path

from schemas.items import Item, Reject
from transforms.mapped import Mapped, MappedPages, MappedWriter


def _mapped(number: int) -> Mapped:
    item = Item("s", "record", str(number), "u", "tït\u0000le", "text \ud800", {"price": [{"amount": "1.50"}], "n": 1.5}, {"x": None}, "raw", "2020", "fr")
    return Mapped([item], [Reject("s", "u", None, "map", "no", "f", {"found": [1]}, "css: a")], {"n": 1}, found=2, without_text=0)


def _write(path: Path, count: int, stages: str = "m c") -> None:
    with MappedWriter(path, stages) as writer:
        for number in range(count):
            writer.add(f"page {number}", _mapped(number))
            if number == 3:
                writer.add(f"page {number}", _mapped(1000))


def test_a_page_is_given_back_as_it_was_at_the_time_of_now(tmp_path: Path) -> None:
    _write(tmp_path / "s.parquet", 150)
    known = MappedPages(tmp_path / "s.parquet", "m c")
    for number in (149, 0, 70):
        (batch,) = known.get(f"page {number}", "2026") or []
        wanted = _mapped(number)
        assert (batch.items[0].fetched_at, batch.rejects, batch.matched, batch.found) == ("2026", wanted.rejects, {"n": 1}, 2)
        assert batch.items[0].content_sha256 == wanted.items[0].content_sha256
    assert [batch.items[0].document_id for batch in known.get("page 3", "2026") or []] == ["3", "1000"]
    assert known.get("another page", "2026") is None
    assert known.rows == 151


def test_other_rules_a_damaged_file_and_none_know_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    assert MappedPages(path, "m c").get("page 0", "") is None
    _write(path, 3)
    assert MappedPages(path, "m2 c").get("page 0", "") is None
    path.write_bytes(path.read_bytes()[:-30])
    assert MappedPages(path, "m c").get("page 0", "") is None


def test_a_table_that_was_not_finished_is_none(tmp_path: Path) -> None:
    try:
        with MappedWriter(tmp_path / "s.parquet", "m c") as writer:
            writer.add("page 0", _mapped(0))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert list(tmp_path.iterdir()) == []
