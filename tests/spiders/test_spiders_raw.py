"""The raw store: what was added comes back, and what was damaged was not fetched."""

from pathlib import Path

import pytest

from schemas.errors import StorageError
from schemas.items import Page
from spiders.raw import RawStore


def page(url: str, body: bytes = b"body") -> Page:
    return Page(url=url, body=body, content_type="text/html", fetched_at="2026-01-01T00:00:00+00:00", requested_url=url, etag='"e"')


def test_pages_come_back_whole_and_sorted(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/b"), redirects=["http://x.test/old"])
        journal.add(page("http://x.test/a", b"\x00\xff"))
    assert list(raw.pages("r1")) == [page("http://x.test/a", b"\x00\xff"), page("http://x.test/b")]


def test_pages_are_readable_before_the_crawl_ends(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a"))
        assert [p.url for p in raw.pages("r1")] == ["http://x.test/a"]


def test_torn_line_is_passed_over_and_the_journal_goes_on(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a"))
        journal.add(page("http://x.test/b"))
    path = raw.journal_path("r1")
    path.write_bytes(path.read_bytes()[:-20])
    assert [p.url for p in raw.pages("r1")] == ["http://x.test/a"]
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/c"))
    assert [p.url for p in raw.pages("r1")] == ["http://x.test/a", "http://x.test/c"]


@pytest.mark.parametrize("damage", ["missing", "torn", "other", "empty"])
def test_damaged_body_was_not_fetched_and_is_mended_by_the_next_fetch(tmp_path: Path, damage: str) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a", b"a" * 5000))
        journal.add(page("http://x.test/b"))
    first = next(path for path in tmp_path.glob("bodies/*/*.gz") if path.name.startswith(page("", b"a" * 5000).sha256))
    second = next(path for path in tmp_path.glob("bodies/*/*.gz") if path != first)
    if damage == "missing":
        first.unlink()
    else:
        first.write_bytes({"torn": first.read_bytes()[:20], "other": second.read_bytes(), "empty": b""}[damage])
    assert [p.url for p in raw.pages("r1")] == ["http://x.test/b"]
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a", b"a" * 5000))
    assert len(list(raw.pages("r1"))) == 2


def test_one_body_is_stored_once_with_the_same_bytes(tmp_path: Path) -> None:
    stores = [RawStore(tmp_path / name) for name in ("one", "two")]
    for raw in stores:
        for run in ("r1", "r2"):
            with raw.journal(run) as journal:
                journal.add(page("http://x.test/a"))
    files = [list(raw.root.glob("bodies/*/*")) for raw in stores]
    assert [len(found) for found in files] == [1, 1]
    assert files[0][0].read_bytes() == files[1][0].read_bytes()


def test_unwritable_place_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="raw pages cannot be stored"), RawStore(tmp_path / "raw").journal("r1"):
        pass
