"""Files of a git repository."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import CredentialRefused, NoRecords, OperationalError, Unreachable, UsageError
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.git_files import GitFiles
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.store.raw import RawStore
from tests.loopback.git_server import TOKEN, serve_git


class Repository:
    """A repository in a folder, which gives parts of itself as servers do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "uploadpack.allowFilter", "true")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str | None]) -> str:
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "as it is now")
        return self.git("rev-parse", "HEAD")

    def source(self, glob: str, ref: str = "main", **keys: Any) -> FilesSource:
        return files(self.folder.as_uri(), glob, ref, **keys)


def files(url: str, glob: str = "**/*.md", ref: str = "main", **keys: Any) -> FilesSource:
    return FilesSource.model_validate(
        {"name": "docs", "kind": "files", "glob": glob, "git": {"url": url, "ref": ref}, **keys}
    )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.commit({"docs/a.md": "# A", "docs/deep/b.md": "# B", "docs/c.txt": "c", "other.md": "# Other"})
    return made


@contextmanager
def _watched() -> Iterator[list[str]]:
    """The blobs that are read from the repository."""
    read: list[str] = []
    really_read = GitFiles.read

    def watch(self: GitFiles, blob: str, size: int) -> bytes:
        read.append(blob)
        return really_read(self, blob, size)

    with patch.object(GitFiles, "read", watch):
        yield read


def test_only_blobs_that_changed_are_read_again(repository: Repository, tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path / "raw"), repository.source("docs/**/*.md")
    first = read_files(source, tmp_path, raw, "r1")
    assert {page.url: page.body for page in raw.pages("r1")} == {"a.md": b"# A", "deep/b.md": b"# B"}
    repository.commit({"docs/a.md": None, "docs/deep/b.md": "# Better", "docs/new.md": "# A", "docs/same.md": "# A"})
    with _watched() as read:
        second = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert {page.url: page.body for page in raw.pages("r2")} == {
        "deep/b.md": b"# Better",
        "new.md": b"# A",
        "same.md": b"# A",
    }
    assert (first.pages.fetched, second.pages.fetched, second.vanished, len(read)) == (2, 3, ["a.md"], 3)
    with _watched() as read:
        third = read_files(source, tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert (third.pages.unchanged, third.pages.fetched, read) == (3, 0, [])
    again = read_files(source, tmp_path, raw, "r4", previous=PreviousCrawls(concluded="r3", afresh=True))
    assert again.pages.unchanged == 3
    assert raw.index("r4").fingerprint == raw.index("r3").fingerprint == raw.index("r2").fingerprint


def test_what_a_crawl_has_read_that_was_cut_off_is_not_read_again(repository: Repository, tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path / "raw"), repository.source("docs/**/*.md")
    really_read, count = GitFiles.read, iter(range(9))

    def end(self: GitFiles, blob: str, size: int) -> bytes:
        if next(count):
            raise KeyboardInterrupt
        return really_read(self, blob, size)

    with patch.object(GitFiles, "read", end), pytest.raises(KeyboardInterrupt):
        read_files(source, tmp_path, raw, "r1")
    with _watched() as read:
        read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(interrupted=["r1"]))
    assert len(read) == 1
    read_files(source, tmp_path, RawStore(tmp_path / "whole"), "r2")
    assert raw.index("r2").fingerprint == RawStore(tmp_path / "whole").index("r2").fingerprint


def test_a_damaged_body_is_read_again(repository: Repository, tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path / "raw"), repository.source("docs/a.md")
    read_files(source, tmp_path, raw, "r1")
    (body,) = (tmp_path / "raw" / "bodies").rglob("*.gz")
    body.write_bytes(b"damaged")
    read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert [page.body for page in raw.pages("r2")] == [b"# A"]


@pytest.mark.parametrize("ref", ["v1", "old/branch", "commit"])
def test_a_ref_is_a_branch_a_tag_or_a_commit(repository: Repository, tmp_path: Path, ref: str) -> None:
    commit = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "first")
    repository.git("branch", "old/branch")
    repository.commit({"docs/a.md": "# Later"})
    raw = RawStore(tmp_path / "raw")
    read_files(repository.source("docs/*.md", commit if ref == "commit" else ref), tmp_path, raw, "r1")
    assert [page.body for page in raw.pages("r1")] == [b"# A"]


def test_files_are_judged_as_those_of_a_folder_are(repository: Repository, tmp_path: Path) -> None:
    (repository.folder / "docs" / "link.md").symlink_to("a.md")
    (repository.folder / "docs" / "PDF").write_bytes(b"%PDF-1.4 and so on")
    repository.commit(
        {
            "docs/big.md": "x" * 200,
            "docs/old.doc": "word",
            "docs/main.c": "int main;",
            "docs/.hidden.md": "no",
            "docs/lfs.md": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
        }
    )
    raw, source = RawStore(tmp_path / "raw"), repository.source("docs/**/*", limits={"bytes_per_file": 100})
    outcome = read_files(source, tmp_path, raw, "r1", forgotten={"c.txt"})
    assert [page.url for page in raw.pages("r1")] == ["PDF", "a.md", "deep/b.md"]
    assert {failure.url: failure.reason for failure in outcome.failures} == {
        "big.md": "too_large",
        "c.txt": "forgotten",
        "lfs.md": "error",
        "link.md": "not_a_file",
        "main.c": "unsupported format .c",
        "old.doc": "unsupported format .doc",
    }


def test_a_file_that_cannot_be_read_keeps_its_place(repository: Repository, tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path / "raw"), repository.source("docs/**/*.md")
    read_files(source, tmp_path, raw, "r1")
    repository.commit({"docs/a.md": "# Changed", "docs/deep/b.md": "# Changed, too"})
    lost = repository.git("rev-parse", "HEAD:docs/a.md")
    really_read = GitFiles.read

    def refuse(self: GitFiles, blob: str, size: int) -> bytes:
        return really_read(self, "0" * 40 if blob == lost else blob, size)

    with patch.object(GitFiles, "read", refuse):
        outcome = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (outcome.pages.failed, outcome.kept) == (1, 1)
    assert [page.body for page in raw.pages("r2")] == [b"# A", b"# Changed, too"]


def test_only_the_files_that_were_asked_for_are_read(repository: Repository, tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path / "raw"), repository.source("docs/**/*.md")
    read_files(source, tmp_path, raw, "r1")
    repository.commit({"docs/a.md": "# Changed", "docs/deep/b.md": "# Changed, too"})
    read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"), only=["a.md"])
    assert [page.body for page in raw.pages("r2")] == [b"# Changed", b"# B"]
    with pytest.raises(UsageError, match=r"no file is called x\.md"):
        read_files(source, tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"), only=["x.md"])


def test_what_is_not_there_is_told(repository: Repository, tmp_path: Path) -> None:
    raw = RawStore(tmp_path / "raw")
    with pytest.raises(OperationalError, match=r"source docs.*no ref 'nope'"):
        read_files(repository.source("**/*.md", "nope"), tmp_path, raw, "r1")
    with pytest.raises(OperationalError, match="no such repository"):
        read_files(files((tmp_path / "none").as_uri()), tmp_path, raw, "r1")
    with pytest.raises(NoRecords, match=r"none/\*\.md in file://.* at main[\s\S]*repository's top folder"):
        read_files(repository.source("none/*.md"), tmp_path, raw, "r1")
    with pytest.raises(Unreachable):
        read_files(files("https://127.0.0.1:1/docs.git"), tmp_path, raw, "r1")


def test_a_token_is_shown_nowhere(tmp_path: Path) -> None:
    url = "https://me:t0k3n@127.0.0.1:1/docs.git"
    source = files(url)
    assert "t0k3n" not in f"{source!r}{source.model_dump_json()}"
    assert fetching_of(source) == fetching_of(files(url.replace("me:t0k3n@", "")))
    assert fetching_of(source) != fetching_of(files(url, ref="other"))
    with pytest.raises(OperationalError) as raised:
        read_files(source, tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert "t0k3n" not in str(raised.value) and "/docs.git" in str(raised.value)
    assert not any(b"t0k3n" in path.read_bytes() for path in (tmp_path / "raw").rglob("*") if path.is_file())


def test_no_hook_runs_and_no_variable_of_git_leads_astray(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[core]\nhooksPath = {hooks}\n[safe]\nbareRepository = explicit\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    read_files(repository.source("docs/*.md"), tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("almanac-git-*"))


@pytest.mark.parametrize(
    ("declared", "finding"),
    [
        ({"git": {"url": "ext::sh -c x"}}, "must be as https://"),
        ({"git": {"url": "--upload-pack=x"}}, "must be as https://"),
        ({"git": {"url": "https://to/ken@host/x"}}, "must be as https://"),
        ({"git": {"url": "https://host/x", "ref": "--all"}}, "pattern"),
        ({"git": {"url": "https://host/x", "ref": "a:b"}}, "pattern"),
        ({"git": {"url": "https://host/x"}, "glob": "../x/*.md"}, "inside the repository"),
        ({"git": {"url": "https://host/x"}, "follow_links": True}, "follow_links"),
        ({"glob": "ftp://host/x/*.md"}, "ftp:// is not read"),
        ({"glob": "sftp://me:s3cret@host/x/*.md"}, "auth: {user, password}"),
        ({"glob": "https://me@host/x/*.md"}, "write where"),
        ({"glob": "https://host"}, "write where"),
        ({"glob": "http://host/*.md", "auth": {"user": "me", "password": "x"}}, "auth: is for"),
        ({"auth": {"user": "me", "password": "x"}}, "auth: is for"),
        ({"glob": "s3://bucket-*/x"}, "write where"),
    ],
)
def test_what_cannot_be_meant_is_refused(declared: dict[str, Any], finding: str) -> None:
    with pytest.raises(ValidationError, match=finding):
        FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*.md", **declared})


@pytest.mark.parametrize("user", ["", "wr0ng@", "me:wr0ng@", f"{TOKEN}@"])
@pytest.mark.usefixtures("repository")
def test_a_server_by_tls_takes_a_token_and_nobody_is_asked_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[credential]\nhelper = store --file {tmp_path}/kept\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    raw, methods = RawStore(tmp_path / "raw"), list[str]()
    with serve_git(tmp_path, methods) as server:
        source = files(f"https://{user}{server}/repository/.git", "docs/**/*.md")
        if user == f"{TOKEN}@":
            read_files(source, tmp_path, raw, "r1")
            assert [page.body for page in raw.pages("r1")] == [b"# A", b"# B"]
            assert methods == ["GET", "POST", "POST", "GET", "POST"]
            methods.clear()
            read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
            assert methods == ["GET", "POST", "POST"]
        else:
            with pytest.raises(CredentialRefused, match="may not be read") as raised:
                read_files(source, tmp_path, raw, "r1")
            assert "wr0ng" not in str(raised.value) and f"{server}/repository/.git" in str(raised.value)
    assert not (tmp_path / "kept").exists()
