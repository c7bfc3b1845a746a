"""Files as pages."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import NoRecords, StorageError, UsageError
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.store.raw import RawStore
from tests.spiders.journals import edit


def files(glob: str, **keys: Any) -> FilesSource:
    return FilesSource.model_validate({"name": "f", "kind": "files", "glob": glob, **keys})


def _refused(name: str) -> Callable[..., int]:
    """`os.open` that may not open files of that name: root may read everything, so permissions prove nothing here."""
    really_open = os.open

    def refuse(path: Any, *arguments: Any, **keys: Any) -> int:
        if str(path).endswith(f"/{name}"):
            raise PermissionError(13, "Permission denied")
        return really_open(path, *arguments, **keys)

    return refuse


def test_urls_are_paths_below_the_fixed_part_of_the_glob(tmp_path: Path) -> None:
    for name in ("notes/b.md", "notes/deep/a.md", "notes/c.txt", "knowledge/k.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    raw = RawStore(tmp_path / "raw")
    calls: list[tuple[int, int]] = []
    outcome = read_files(
        files("../notes/**/*.md"),
        tmp_path / "knowledge",
        raw,
        "r1",
        on_page=lambda done, seen: calls.append((done, seen)),
    )
    assert [(page.url, page.body, page.content_type) for page in raw.pages("r1")] == [
        ("b.md", b"notes/b.md", "text/markdown"),
        ("deep/a.md", b"notes/deep/a.md", "text/markdown"),
    ]
    assert (outcome.pages.fetched, outcome.bytes, calls) == (2, 25, [(1, 0), (2, 0)])


def test_glob_without_wildcard_is_the_files_name(tmp_path: Path) -> None:
    folder = tmp_path / "[odd] folder"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("{}")
    for glob in ("corpus.jsonl", str(folder / "corpus.jsonl")):
        raw = RawStore(tmp_path / "raw")
        read_files(files(glob, yields="records"), folder, raw, "r1")
        assert [page.url for page in raw.pages("r1")] == ["corpus.jsonl"]


def test_no_file_means_no_records_with_the_resolved_glob(tmp_path: Path) -> None:
    with pytest.raises(NoRecords, match=str(tmp_path / "none" / r"\*.md")):
        read_files(files("../none/*.md"), tmp_path / "kb", RawStore(tmp_path / "raw"), "r1")


def test_unknown_format_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_text("x")
    (tmp_path / "b.txt").write_text("y")
    outcome = read_files(files("*.*"), tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert (outcome.pages.fetched, outcome.pages.refused) == (1, 1)
    assert [(f.url, f.reason) for f in outcome.failures] == [("a.xls", "unsupported format .xls")]
    with pytest.raises(NoRecords, match=r"none that can be read: a\.xls: unsupported format"):
        read_files(files("*.xls"), tmp_path, RawStore(tmp_path / "raw"), "r2")


def test_declared_format_wins_over_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_text("x\n1\n")
    raw = RawStore(tmp_path / "raw")
    read_files(files("*.xls", format="csv", yields="records"), tmp_path, raw, "r1")
    assert [page.content_type for page in raw.pages("r1")] == ["text/csv"]


def test_a_file_over_the_limit_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 1025)
    (tmp_path / "b.txt").write_text("y" * 1024)
    source = files("*.txt", limits={"bytes_per_file": "1KiB"})
    outcome = read_files(source, tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert (outcome.pages.fetched, outcome.pages.refused, outcome.failures[0].reason) == (1, 1, "too_large")
    (tmp_path / "b.txt").unlink()
    with pytest.raises(NoRecords, match="too_large") as caught:
        read_files(source, tmp_path, RawStore(tmp_path / "raw"), "r2")
    assert "bytes_per_file" in (caught.value.hint or "")


def test_unreadable_file_fails_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").write_text("y")
    monkeypatch.setattr(os, "open", _refused("a.txt"))
    outcome = read_files(files("*.txt"), tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert (outcome.pages.fetched, outcome.pages.failed, outcome.failures[0].detail) == (1, 1, "Permission denied")


def test_an_unchanged_file_stays_as_old_as_it_was_and_a_lost_one_vanishes(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    raw = RawStore(tmp_path / "raw")
    read_files(files("*.txt"), tmp_path, raw, "r1")
    path = raw.journal_path("r1")
    edit(path, '_at": "20', '_at": "19')
    (tmp_path / "b.txt").write_text("changed")
    (tmp_path / "c.txt").unlink()
    outcome = read_files(files("*.txt"), tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.crawl, outcome.pages, outcome.vanished) == (
        "r2",
        PageCounts(fetched=1, unchanged=1, vanished=1),
        ["c.txt"],
    )
    first_seen = {page.url: page.fetched_at[:2] for page in raw.pages("r2")}
    assert first_seen == {"a.txt": "19", "b.txt": "20"}
    narrow = files("*.txt", limits={"bytes_per_file": 3})
    third = read_files(narrow, tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert (third.pages, third.kept) == (PageCounts(unchanged=1, refused=1), 0)


def test_a_file_that_cannot_be_read_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor can one whose folder cannot be looked into."""
    (tmp_path / "shut").mkdir()
    for name in ("a.txt", "b.txt", "shut/c.txt"):
        (tmp_path / name).write_text(name)
    raw = RawStore(tmp_path / "raw")
    read_files(files("**/*.txt"), tmp_path, raw, "r1")
    really_scan = os.scandir

    def shut(path: Any) -> Any:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return really_scan(path)

    monkeypatch.setattr(os, "open", _refused("a.txt"))
    monkeypatch.setattr(os, "scandir", shut)
    (tmp_path / "shut" / "c.txt").rename(tmp_path / "elsewhere")  # what is in a folder that is shut is not found
    for number in (2, 3):
        outcome = read_files(
            files("**/*.txt"), tmp_path, raw, f"r{number}", previous=PreviousCrawls(concluded=f"r{number - 1}")
        )
        assert (outcome.pages, outcome.kept) == (PageCounts(unchanged=1, failed=2), 2)
    assert {page.url: page.body for page in raw.pages("r3")} == {
        name: name.encode() for name in ("a.txt", "b.txt", "shut/c.txt")
    }
    (tmp_path / "b.txt").unlink()
    with pytest.raises(StorageError, match="none of 1 files can be read"):
        read_files(files("**/*.txt"), tmp_path, raw, "r4", previous=PreviousCrawls(concluded="r3"))


def test_one_file_alone_is_read_and_all_others_stay(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    raw = RawStore(tmp_path / "raw")
    with pytest.raises(UsageError, match="no run is complete yet"):
        read_files(files("*.txt"), tmp_path, raw, "r1", only=["a.txt"])
    read_files(files("*.txt"), tmp_path, raw, "r1")
    (tmp_path / "a.txt").write_text("changed")
    for name in "bc":
        (tmp_path / f"{name}.txt").unlink()
    outcome = read_files(
        files("*.txt"), tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"), only=["a.txt", "b.txt"]
    )
    assert (outcome.finish, outcome.pages, outcome.kept) == ("partial", PageCounts(fetched=1, vanished=1), 1)
    assert {page.url: page.body for page in raw.pages("r2")} == {"a.txt": b"changed", "c.txt": b"c"}
    with pytest.raises(UsageError, match="no file is called x"):
        read_files(files("*.txt"), tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"), only=["x"])


def test_a_file_that_was_taken_down_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").write_text("y")
    raw = RawStore(tmp_path / "raw")
    outcome = read_files(files("*.txt"), tmp_path, raw, "r1", forgotten={"a.txt"})
    assert outcome.failures[0].reason == "forgotten" and [page.url for page in raw.pages("r1")] == ["b.txt"]
