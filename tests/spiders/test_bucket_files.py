"""Files in a bucket of a real S3 server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from almanac.core.store.objects import Objects
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import CredentialRefused, NoRecords, NotFound, Unreachable
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.store.raw import RawStore

if TYPE_CHECKING:
    from tests.loopback.s3 import Bucket


def files(bucket: str, glob: str, **keys: Any) -> FilesSource:
    return FilesSource.model_validate({"name": "docs", "kind": "files", "glob": f"s3://{bucket}/{glob}", **keys})


def _put(bucket: "Bucket", objects: dict[str, bytes | None]) -> None:
    from tests.loopback.s3 import overwrite

    store = Objects(f"s3://{bucket.name}")
    for key, body in objects.items():
        if body is None:
            store.delete(key)
        else:
            overwrite(store, key, body)


@contextmanager
def _watched() -> Iterator[list[str]]:
    """The objects that are fetched."""
    fetched: list[str] = []
    really = Objects.beginning

    def watch(self: Objects, key: str, size: int, *, object_size: int) -> bytes | None:
        fetched.append(key)
        return really(self, key, size, object_size=object_size)

    with patch.object(Objects, "beginning", watch):
        yield fetched


def test_only_objects_that_changed_are_fetched(bucket: "Bucket", tmp_path: Path) -> None:
    _put(bucket, {"docs/a.md": b"# A", "docs/deep/b.md": b"# B", "docs/c.txt": b"c", "docs/deep/": b"", "z.md": b"# Z"})
    raw, source = RawStore(tmp_path / "raw"), files(bucket.name, "docs/**/*.md")
    with _watched() as fetched:
        first = read_files(source, tmp_path, raw, "r1")
    assert {page.url: page.body for page in raw.pages("r1")} == {"a.md": b"# A", "deep/b.md": b"# B"}
    assert (first.pages.fetched, sorted(fetched)) == (2, ["a.md", "deep/b.md"])
    _put(bucket, {"docs/a.md": None, "docs/deep/b.md": b"# Better", "docs/new.md": b"# New"})
    with _watched() as fetched:
        second = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert {page.url: page.body for page in raw.pages("r2")} == {"deep/b.md": b"# Better", "new.md": b"# New"}
    assert (second.vanished, sorted(fetched)) == (["a.md"], ["deep/b.md", "new.md"])
    with _watched() as fetched:
        third = read_files(source, tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert (third.pages.unchanged, third.pages.fetched, fetched) == (2, 0, [])
    assert raw.index("r3").fingerprint == raw.index("r2").fingerprint
    with _watched() as fetched:
        read_files(source, tmp_path, raw, "r4", previous=PreviousCrawls(concluded="r3", afresh=True))
    assert len(fetched) == 2


def test_many_objects_are_listed_page_by_page(bucket: "Bucket", tmp_path: Path) -> None:
    store = Objects(f"s3://{bucket.name}")
    for number in range(1001):
        store.write(f"{number:04}.txt", b"too large" if number else b"small", replacing=None)
    source = files(bucket.name, "*.txt", limits={"bytes_per_file": 5})
    outcome = read_files(source, tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert (outcome.pages.fetched, outcome.pages.refused) == (1, 1000)


def test_objects_are_judged_as_files_of_a_folder_are(bucket: "Bucket", tmp_path: Path) -> None:
    _put(bucket, {"big.md": b"x" * 200, "empty.md": b"", "main.c": b"int main;", "PDF": b"%PDF-1.4", "gone.md": b"x"})
    raw, source = RawStore(tmp_path / "raw"), files(bucket.name, "*", limits={"bytes_per_file": 100})
    with _watched() as fetched:
        outcome = read_files(source, tmp_path, raw, "r1", forgotten={"gone.md"})
    assert [page.url for page in raw.pages("r1")] == ["PDF", "empty.md"]
    assert {failure.url: failure.reason for failure in outcome.failures} == {
        "big.md": "too_large",
        "gone.md": "forgotten",
        "main.c": "unsupported format .c",
    }
    assert not {"big.md", "gone.md"} & set(fetched)


def test_an_object_that_is_refused_keeps_its_place(bucket: "Bucket", tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path / "raw"), files(bucket.name, "docs/*.md")
    _put(bucket, {"docs/a.md": b"# A", "docs/b.md": b"# B", "docs/c.md": b"# C"})
    read_files(source, tmp_path, raw, "r1")
    _put(bucket, {"docs/a.md": b"# A again", "docs/b.md": b"# B again", "docs/c.md": b"# C again"})
    really = Objects.beginning

    def refuse(self: Objects, key: str, size: int, *, object_size: int) -> bytes | None:
        if key == "a.md":
            raise CredentialRefused("the object store refuses")
        if key == "b.md":  # removed since it was listed
            self.delete(key)
        return really(self, key, size, object_size=object_size)

    with patch.object(Objects, "beginning", refuse):
        outcome = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert [page.body for page in raw.pages("r2")] == [b"# A", b"# C again"]
    assert (outcome.pages.failed, outcome.pages.gone) == (1, 1)


def test_what_is_not_there_is_told(bucket: "Bucket", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = RawStore(tmp_path / "raw")
    with pytest.raises(NoRecords, match=r"s3://.*none[\s\S]*relative to the bucket"):
        read_files(files(bucket.name, "none/*.md"), tmp_path, raw, "r1")
    with pytest.raises(NotFound, match="source docs: s3://no-such-bucket/"):
        read_files(files("no-such-bucket", "*.md"), tmp_path, raw, "r1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(Unreachable, match="source docs"):
        read_files(files(bucket.name, "*.md"), tmp_path, raw, "r1")
