"""Working copies of several machines: what is pushed, replaced and kept."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from almanac.core.settings import DataDir
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import read_head
from almanac.core.store.session import fetch, writing
from almanac.schemas.errors import NotFound, StorageError
from tests.conftest import PATIENCE_S
from tests.loopback.s3 import Bucket, require_whole
from tests.proof.base import TORTURE


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path))


def _machine(bucket: Bucket, tmp_path: Path, name: str) -> DataDir:
    os.environ["ALMANAC_CACHE"] = str(tmp_path / name)
    return DataDir.locate(bucket.url)


def _put(data: DataDir, **files: str) -> None:
    for name, text in files.items():
        path = data.for_kb("kb").root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _files(data: DataDir) -> dict[str, str]:
    root = data.for_kb("kb").root
    return {
        str(path.relative_to(root)): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    }


def test_what_another_machine_pushed_replaces_what_is_here_and_local_work_elsewhere_stays(
    bucket: Bucket, tmp_path: Path
) -> None:
    here, there = _machine(bucket, tmp_path, "here"), _machine(bucket, tmp_path, "there")
    with writing(here, "kb", "1"):
        _put(here, raw__kb__a="1", raw__kb__b="1", processed__kb__t="1", index__kb__LOCK="", vectors__f__p_index="x")
        _put(here, **{"vectors__f__p.index": "derived", "raw__kb__.x.1.tmp": "half"})
    _put(here, raw__kb__c="not pushed", processed__kb__t="not pushed")
    with writing(there, "kb", "2"):
        assert _files(there) == {"raw/kb/a": "1", "raw/kb/b": "1", "processed/kb/t": "1", "vectors/f/p_index": "x"}
        _put(there, raw__kb__a="2")
        (there.for_kb("kb").root / "raw/kb/b").unlink()
    with writing(here, "kb", "3"):
        shared = {"raw/kb/a": "2", "processed/kb/t": "not pushed", "vectors/f/p_index": "x"}
        assert {name: text for name, text in _files(here).items() if name in shared or name.startswith("raw")} == shared
    with writing(there, "kb", "4"):
        assert _files(there)["processed/kb/t"] == "not pushed"


def test_a_working_copy_that_was_lost_or_altered_comes_back(bucket: Bucket, tmp_path: Path) -> None:
    here = _machine(bucket, tmp_path, "here")
    with writing(here, "kb", "1"):
        _put(here, raw__kb__a="1", raw__kb__b="2")
    (here.for_kb("kb").root / ".areas.json").unlink()
    (here.for_kb("kb").root / "raw/kb/a").write_text("torn")
    with writing(here, "kb", "2"):
        assert _files(here) == {"raw/kb/a": "1", "raw/kb/b": "2"}


@pytest.mark.parametrize("damage", [b"", b"[]", b"no notes"])
def test_work_that_is_not_pushed_outlives_damaged_notes(bucket: Bucket, tmp_path: Path, damage: bytes) -> None:
    here = _machine(bucket, tmp_path, "here")
    with writing(here, "kb", "1"):
        _put(here, raw__kb__a="1")
    _put(here, raw__kb__b="not pushed")
    notes = here.for_kb("kb").root / ".areas.json"
    whole = notes.read_bytes()
    notes.write_bytes(damage)
    with pytest.raises(StorageError, match="notes of a working copy"), writing(here, "kb", "2"):
        pass
    with pytest.raises(StorageError, match="notes of a working copy") as raised:
        fetch(here, "kb", (None,), ("raw",))
    assert raised.value.where == str(notes) and "not pushed" in str(raised.value.hint)
    notes.write_bytes(whole)
    with writing(here, "kb", "3"):
        assert _files(here) == {"raw/kb/a": "1", "raw/kb/b": "not pushed"}


def test_only_named_areas_are_fetched_and_pushed(bucket: Bucket, tmp_path: Path) -> None:
    here, there = _machine(bucket, tmp_path, "here"), _machine(bucket, tmp_path, "there")
    with writing(here, "kb", "1"):
        _put(here, raw__kb__a="1", index__kb__x="1")
    with writing(there, "kb", "2", ("index",)):
        assert _files(there) == {"index/kb/x": "1"}
        _put(there, raw__kb__a="no", index__kb__x="2")
    with writing(here, "kb", "3"):
        assert _files(here) == {"raw/kb/a": "1", "index/kb/x": "2"}


@pytest.mark.parametrize(("area", "every_s"), [("raw", 0.0), ("vectors", 3600.0)])
def test_while_a_writer_works_what_is_done_is_pushed_again_and_again_new_vectors_at_once(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, area: str, every_s: float
) -> None:
    monkeypatch.setattr("almanac.core.store.session._PUSH_EVERY_S", every_s)
    monkeypatch.setattr("almanac.core.store.session._LOOK_S", 0.05)
    here, objects = _machine(bucket, tmp_path, "here"), Objects(bucket.url)
    with writing(here, "kb", "1"):
        pushed: set[str | None] = {read_head(objects, "kb").head.areas.get(area)}
        for number in range(3):
            _put(here, **{f"{area}__kb__{number}.jsonl": str(number)})
            deadline = time.monotonic() + PATIENCE_S
            while (listed := read_head(objects, "kb").head.areas.get(area)) in pushed:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            pushed.add(listed)
    with writing(_machine(bucket, tmp_path, "there"), "kb", "2"):
        there = DataDir.locate(bucket.url)
        assert _files(there) == {f"{area}/kb/{number}.jsonl": str(number) for number in range(3)}


def test_readers_of_what_is_not_there(bucket: Bucket, tmp_path: Path) -> None:
    here = _machine(bucket, tmp_path, "here")
    fetch(here, "kb")
    with writing(here, "kb", "1"):
        _put(here, index__kb__x="1")
    fetch(here, "kb")
    with pytest.raises(NotFound, match="no version 'v0007'"):
        fetch(here, "kb", ["v0007"])
    local = DataDir(tmp_path / "local")
    fetch(local, "kb", ["v0007"])
    with writing(local, "kb", "1") as session:
        assert session is None
    assert not local.root.exists()


class _Killed(BaseException):
    """The process is gone: nothing that it would still do reaches the store."""


def test_a_writer_that_dies_at_any_request_leaves_one_version_or_the_other_and_the_next_one_goes_on(
    bucket: Bucket, tmp_path: Path
) -> None:
    write = Objects.write

    def publish(data: DataDir, kb: str, version: str) -> None:
        root = data.for_kb(kb).root
        for path, text in (
            (f"raw/{kb}/page", version),
            (f"index/{kb}/versions/{version}/manifest.json", "{}"),
            (f"index/{kb}/versions/{version}/rows", version),
            (f"index/{kb}/CURRENT", version),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

    deaths = set[int]()
    for moment in range(0, 100, 1 if TORTURE else 3):
        kb = f"kb{moment}"
        here, requests = _machine(bucket, tmp_path, "here"), count()
        with writing(here, kb, "1"):
            publish(here, kb, "v0001")

        def dying(
            to: Objects,
            key: str,
            content: bytes,
            *,
            replacing: str | None,
            _at: int = moment,
            requests: Iterator[int] = requests,
        ) -> str | None:
            if next(requests) >= _at:
                deaths.add(_at)
                raise _Killed
            return write(to, key, content, replacing=replacing)

        with suppress(_Killed), patch.object(Objects, "write", dying), writing(here, kb, "2"):
            publish(here, kb, "v0002")
        assert require_whole(bucket.url, kb, tmp_path).version in ("v0001", "v0002")
        there = _machine(bucket, tmp_path, "there")
        with patch("almanac.core.store.pointer._EXPIRES_S", -1.0), writing(there, kb, "3"):
            assert (there.for_kb(kb).root / "raw" / kb / "page").read_text() in ("v0001", "v0002")
            publish(there, kb, "v0002")
        assert require_whole(bucket.url, kb, tmp_path).version == "v0002"
        fetch(_machine(bucket, tmp_path, f"reader{moment}"), kb, ["v0001", "v0002"])
        if moment not in deaths:
            break
    assert 2 < len(deaths) < 100
