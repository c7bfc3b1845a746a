"""Which files a glob names: each once, whatever leads to it, and everything that is not read with its reason."""

import glob
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import NoRecords, StorageError
from almanac.spiders.crawling.find_files import FoundFile, NotRead, find_files
from almanac.spiders.crawling.glob_pattern import GlobPattern
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.store.raw import RawStore


def tree(root: Path, *names: str) -> Path:
    """A folder with files whose text is their name."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def urls(base: Path, pattern: str, **keys: Any) -> list[str]:
    return sorted(file.url for file in find_files(base, pattern, **keys) if isinstance(file, FoundFile))


def left_out(base: Path, pattern: str, **keys: Any) -> dict[str, str]:
    return {
        unread_file.url: unread_file.reason
        for unread_file in find_files(base, pattern, **keys)
        if isinstance(unread_file, NotRead)
    }


def files(pattern: str, **keys: Any) -> FilesSource:
    return FilesSource.model_validate({"name": "f", "kind": "files", "glob": pattern, **keys})


def test_links_in_circles_end_and_each_file_is_read_once_under_its_own_path(tmp_path: Path) -> None:
    root = tree(tmp_path / "docs", "a.md", "deep/b.md", "deep/er/c.md")
    for name in ("x", "y", "deep/z", "deep/er/w"):
        (root / name).symlink_to(root)
    (root / "deep" / "twin.md").symlink_to("b.md")
    assert urls(tmp_path, "docs/**/*.md") == ["a.md", "deep/b.md", "deep/er/c.md"]
    assert left_out(tmp_path, "docs/**/*.md") == {}


def test_folders_that_all_link_to_each_other_take_no_time(tmp_path: Path) -> None:
    folders = [f"f{number:02}" for number in range(30)]
    root = tree(tmp_path / "docs", *(f"{folder}/a.md" for folder in folders))
    for folder in folders:
        for other in folders:
            (root / folder / f"to-{other}").symlink_to(root / other)
    assert urls(tmp_path, "docs/**/*.md") == [f"{folder}/a.md" for folder in folders]


def test_a_link_inside_the_root_leads_to_files_that_the_glob_does_not_reach_otherwise(tmp_path: Path) -> None:
    tree(tmp_path, "store/deep/er/a.md", ".hidden/b.md")
    (tmp_path / "current").symlink_to("store/deep/er")
    (tmp_path / "shown").symlink_to(".hidden")
    (tmp_path / "again").symlink_to("store/deep/er")
    assert urls(tmp_path, "*/*.md") == ["again/a.md", "shown/b.md"]
    assert urls(tmp_path, "*/*.md", known=["current/a.md"]) == ["current/a.md", "shown/b.md"]


def test_hard_links_are_one_file_and_keep_the_name_that_was_known(tmp_path: Path) -> None:
    root = tree(tmp_path / "docs", "deep/guide.md", "z.md")
    (root / "a.md").hardlink_to(root / "deep" / "guide.md")
    assert urls(tmp_path, "docs/**/*.md") == ["a.md", "z.md"]
    assert urls(tmp_path, "docs/**/*.md", known=["deep/guide.md", "z.md"]) == ["deep/guide.md", "z.md"]


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_that_is_added_changes_nothing_for_the_next_run(tmp_path: Path, link: str) -> None:
    root = tree(tmp_path / "docs", "guide/visa.md", "guide/water.md")
    raw = RawStore(tmp_path / "raw")
    read_files(files("docs/**/*.md"), tmp_path, raw, "r1")
    getattr(root / "a.md", link)(root / "guide" / "visa.md")
    (root / "all").symlink_to("guide")
    outcome = read_files(files("docs/**/*.md"), tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert [page.url for page in raw.pages("r2")] == ["guide/visa.md", "guide/water.md"]
    assert (outcome.pages.unchanged, outcome.pages.present, outcome.failures, outcome.vanished) == (2, 2, [], [])
    assert raw.index("r1").fingerprint == raw.index("r2").fingerprint


def test_what_lies_outside_the_root_is_read_only_where_that_is_declared(tmp_path: Path) -> None:
    tree(tmp_path, "docs/a.md", "elsewhere/b.md", "elsewhere/deep/c.md", "notes/d.md")
    (tmp_path / "docs" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "docs" / "d.md").symlink_to(tmp_path / "notes" / "d.md")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "docs")
    (tmp_path / "elsewhere" / "self").symlink_to(".")
    raw = RawStore(tmp_path / "raw")
    outcome = read_files(files("docs/**/*.md"), tmp_path, raw, "r1")
    assert [page.url for page in raw.pages("r1")] == ["a.md"]
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [
        ("d.md", "outside_root"),
        ("more", "outside_root"),
    ]
    detail = outcome.failures[0].detail
    assert (
        str(tmp_path / "notes" / "d.md") in detail
        and str(tmp_path / "docs") in detail
        and "follow_links: true" in detail
    )
    assert outcome.pages.refused == 2
    followed = read_files(files("docs/**/*.md", follow_links=True), tmp_path, raw, "r2")
    assert [page.url for page in raw.pages("r2")] == [
        "a.md",
        "d.md",
        "more/b.md",
        "more/deep/c.md",
    ] and followed.failures == []


def test_the_root_itself_and_a_file_that_is_named_may_be_links(tmp_path: Path) -> None:
    tree(tmp_path, "releases/v2/a.md")
    (tmp_path / "current").symlink_to("releases/v2")
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "named.md").symlink_to(tmp_path / "releases" / "v2" / "a.md")
    assert urls(tmp_path, "current/**/*.md") == ["a.md"]
    assert urls(tmp_path / "kb", "named.md") == ["named.md"]


def test_nothing_but_files_is_opened_and_everything_the_glob_names_is_accounted_for(tmp_path: Path) -> None:
    root = tree(tmp_path / "docs", "a.md", "not-named.txt")
    os.mkfifo(root / "pipe.md")
    (root / "piped.md").symlink_to("pipe.md")
    (root / "lost.md").symlink_to("nowhere.md")
    (root / "round.md").symlink_to("about.md")
    (root / "about.md").symlink_to("round.md")
    os.mkfifo(root / "pipe.txt")
    (root / "folder.md").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(root, os.O_RDONLY)  # a socket's path may be 107 bytes long
        listening.bind(f"/proc/self/fd/{here}/socket.md")
        outcome = read_files(files("docs/**/*.md"), tmp_path, RawStore(tmp_path / "raw"), "r1")
        os.close(here)
    assert (outcome.pages.fetched, outcome.pages.refused) == (1, 6)
    assert {failure.url: failure.reason for failure in outcome.failures} == {
        "about.md": "link_loop", "lost.md": "broken_link", "round.md": "link_loop",
        "pipe.md": "not_a_file", "piped.md": "not_a_file", "socket.md": "not_a_file",
    }  # fmt: skip
    assert "a FIFO" in outcome.failures[2].detail and "nowhere.md" in outcome.failures[1].detail
    with pytest.raises(NoRecords, match=r"pipe\.md: not_a_file"):
        read_files(files("docs/pipe.md"), tmp_path, RawStore(tmp_path / "raw"), "r2")


def test_a_file_that_becomes_a_fifo_or_goes_while_files_are_read_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "docs", "a.md", "b.md", "c.md")
    really_open = os.open

    def meanwhile(path: Any, *arguments: Any, **keys: Any) -> int:
        if str(path).endswith("/b.md"):
            (root / "b.md").unlink()
        elif str(path).endswith("/c.md"):
            (root / "c.md").unlink()
            os.mkfifo(root / "c.md")
        return really_open(path, *arguments, **keys)

    raw = RawStore(tmp_path / "raw")
    read_files(files("docs/*.md"), tmp_path, raw, "r1")
    monkeypatch.setattr(os, "open", meanwhile)
    outcome = read_files(files("docs/*.md"), tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert {failure.url: failure.reason for failure in outcome.failures} == {"b.md": "gone", "c.md": "error"}
    assert sorted(page.url for page in raw.pages("r2")) == ["a.md", "c.md"]  # what failed keeps its place


def test_a_folder_that_cannot_be_looked_into_is_reported_though_nothing_of_it_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "docs/a.md", "docs/shut/b.md")
    really_scan = os.scandir

    def shut(path: Any) -> Any:  # root may look into everything
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return really_scan(path)

    monkeypatch.setattr(os, "scandir", shut)
    outcome = read_files(files("docs/**/*.md"), tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert [(failure.url, failure.reason) for failure in outcome.failures] == [
        ("shut/", "error")
    ] and outcome.pages.failed == 1
    with pytest.raises(StorageError, match="Permission denied"):
        read_files(files("docs/shut/*.md"), tmp_path, RawStore(tmp_path / "raw"), "r2")


def test_names_that_differ_only_in_bytes_that_are_no_text_do_not_stand_in_for_each_other(tmp_path: Path) -> None:
    for name in (b"a\xfe.md", b"a\xff.md", b"b\xff.md"):
        (tmp_path / os.fsdecode(name)).write_text("x")
    assert urls(tmp_path, "*.md") == ["a\ufffd.md", "b\ufffd.md"]
    assert left_out(tmp_path, "*.md") == {"a\ufffd.md": "same_name"}


_NAMES = st.sampled_from(["a", "b", "c", ".h", "a.md", "b.md", ".h.md", "[x].md"])
_PARTS = st.sampled_from(["**", "*", "a", "b", "?", "[ab]", "*.md", ".*", "[!a]*", "b.md", "[[]x].md"])


@given(
    st.sets(st.lists(_NAMES, min_size=1, max_size=4).map(tuple), max_size=12), st.lists(_PARTS, min_size=1, max_size=4)
)
@example({("a",)}, ["a", "**"])
def test_without_links_a_pattern_matches_what_pythons_glob_matches(
    tmp_path_factory: pytest.TempPathFactory, paths: set[tuple[str, ...]], parts: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for path in sorted(paths):
        place = root.joinpath(*path)
        if not any(parent.is_file() for parent in place.parents) and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x")
    pattern = "/".join(parts)
    names = glob.glob(pattern, root_dir=root, recursive=True)  # noqa: PTH207
    # Python gives a file `a` for `a/**`, as `a/`
    expected = {name for name in names if (root / name).is_file() and not name.endswith("/")}
    every = [path.relative_to(root).parts for path in root.rglob("*") if path.is_file()]
    assert {"/".join(path) for path in every if GlobPattern(pattern).matches(path)} == expected


def test_a_glob_that_goes_up_behind_a_wildcard_is_refused() -> None:
    assert files("../*/a..b/..c/*.md").glob
    with pytest.raises(ValidationError, match="behind a wildcard"):
        files("*/../a.md")
