"""Objects: written once or on condition, and errors that say what to do."""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from almanac.core.store.objects import PART, Changed, Objects
from almanac.schemas.errors import NotFound, OperationalError, StorageError, StoreAway, UsageError
from almanac.schemas.hashing import file_sha256, sha256
from tests.conftest import ROOT
from tests.loopback.s3 import Bucket, Wire, overwrite, without_conditions


def test_of_four_writers_with_one_etag_exactly_one_wins(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    etag = objects.write("head", b"0", replacing=None)
    for round_number in range(5):
        contents = [f"{round_number} {writer}".encode() for writer in range(4)]
        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(lambda content, etag=etag: objects.write("head", content, replacing=etag), contents))
        assert sum(new_etag is not None for new_etag in won) == 1
        stored = objects.read("head")
        assert stored is not None
        assert (stored.content, stored.etag) == next(
            (content, new_etag) for content, new_etag in zip(contents, won, strict=True) if new_etag
        )
        etag = stored.etag


@pytest.mark.parametrize("conflicts", [2, 9])
def test_a_request_that_meets_another_one_is_repeated(bucket: Bucket, conflicts: int) -> None:
    objects = Objects(bucket.url)
    etag, waits = objects.write("head", b"0", replacing=None), list[float]()
    refusal = {"Error": {"Code": "ConditionalRequestConflict"}, "ResponseMetadata": {"HTTPStatusCode": 409}}
    put, requests = objects._client.put_object, iter(range(9))

    def met(**request: object) -> object:
        if next(requests) < conflicts:
            raise ClientError(refusal, "PutObject")
        return put(**request)

    with patch.object(objects._client, "put_object", met), patch("almanac.core.store.objects.time.sleep", waits.append):
        written = objects.write("head", b"1", replacing=etag)
    stored = objects.read("head")
    assert stored is not None
    wanted = (b"1", stored.etag, 2) if conflicts == 2 else (b"0", None, 3)
    assert (stored.content, written, len(waits)) == wanted


def test_what_is_there_is_not_written_again_and_the_same_content_counts_as_written(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    etag = objects.write("a", b"one", replacing=None)
    assert objects.write("a", b"two", replacing=None) is None
    assert objects.write("a", b"one", replacing=None) == etag
    assert objects.write("nowhere", b"x", replacing=etag) is None
    objects.delete("a")
    objects.delete("a")
    assert objects.read("a") is None
    assert objects.read("a") is None


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 2 * PART + 5])
def test_files_of_any_size_come_back_as_they_were(bucket: Bucket, tmp_path: Path, size: int) -> None:
    objects, path = Objects(bucket.url), tmp_path / "sent"
    path.write_bytes(random.Random(size).randbytes(size))
    name = file_sha256(path)
    for _ in range(2):
        objects.upload(f"objects/{name}", name, path)
    objects.fetch(f"objects/{name}", name, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("breaks", "arrives"), [(3, True), (9, False)])
def test_content_that_breaks_off_on_the_way_is_asked_for_again(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: int, *, arrives: bool
) -> None:
    content = random.Random(5).randbytes(3_000_000)
    overwrite(Objects(bucket.url), "a", content)
    wire = Wire(bucket.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
    objects = Objects(bucket.url)
    with patch("almanac.core.store.objects.time.sleep"):
        for read in (
            lambda: objects.fetch("a", sha256(content), tmp_path / "file"),
            lambda: objects.read_content("a", sha256(content)),
        ):
            wire.break_off(breaks, after=2_000_000)
            if arrives:
                assert read() in (None, content)
            else:
                with pytest.raises(StoreAway, match="does not answer"):
                    read()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content] * arrives  # and nothing half written


@pytest.mark.parametrize("size", [10, PART + 10])
def test_a_file_that_changed_since_it_was_hashed_is_not_uploaded(bucket: Bucket, tmp_path: Path, size: int) -> None:
    objects, path = Objects(bucket.url), tmp_path / "changing"
    path.write_bytes(bytes(size))
    name = file_sha256(path)
    path.write_bytes(b"x" * size)
    with pytest.raises(Changed):
        objects.upload("objects/x", name, path)
    assert objects.read("objects/x") is None


def test_an_object_that_is_not_what_its_name_says_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    objects, name = Objects(bucket.url), sha256("right")
    overwrite(objects, "objects/x", b"wrong")
    with pytest.raises(StorageError, match="another content"):
        objects.fetch("objects/x", name, tmp_path / "x")
    with pytest.raises(StorageError, match="another content"):
        objects.read_content("objects/x", name)
    with pytest.raises(StorageError, match="is missing"):
        objects.fetch("objects/y", name, tmp_path / "y")
    assert list(tmp_path.iterdir()) == []


def test_errors_say_what_to_do(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="no such bucket: not-there"):
        Objects("s3://not-there/x").read("CURRENT")
    with pytest.raises(UsageError, match="no place in an object store"):
        Objects("s3:///x")
    with pytest.raises(UsageError, match="no such place"):
        Objects("s3://NOT A BUCKET/x").read("CURRENT")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreAway, match="does not answer") as away:
        Objects(bucket.url).read("CURRENT")
    assert (away.value.exit_code, away.value.where) == (OperationalError.exit_code, f"{bucket.url}/CURRENT")


def test_a_store_without_conditional_writes_is_refused(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = Objects(bucket.url)
    behind.require_conditional_writes("heads/kb")
    with without_conditions(bucket.endpoint) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UsageError, match="no conditional writes"):
            Objects(bucket.url).require_conditional_writes("heads/kb")
    assert list(behind.listed("heads/")) == []


def test_local_directories_never_import_boto3(tmp_path: Path) -> None:
    code = (
        "import sys; from almanac.cli.main import run\n"
        "codes = [run(one.split()) for one in ('status voyago --json', 'versions voyago', 'search voyago boats')]\n"
        "sys.exit(codes != [0, 0, 2] or 'boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    environment = {**os.environ, "ALMANAC_DATA": str(tmp_path / "data")}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
