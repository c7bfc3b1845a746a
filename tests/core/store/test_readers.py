"""Readers of a store, on versions that are nothing but files: what they fetch, keep, drop, and make of a store that is
away or damaged.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import structlog

from almanac.core.given_up import GivenUp, unless
from almanac.core.pins import Pin
from almanac.core.settings import DataDir
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import read_head
from almanac.core.store.readers import StoreReader, live_in_store
from almanac.core.store.session import writing
from almanac.core.store.working_copy import folders_of
from almanac.schemas.errors import NotFound, NothingPublished, Retriable, RunLocked, StorageError, StoreAway
from almanac.schemas.hashing import sha256
from tests.conftest import PATIENCE_S, ROOT
from tests.loopback.s3 import Bucket, Wire, overwrite

Machines = Callable[[str], DataDir]


@pytest.fixture
def machine(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path))
    for wait in ("_LOOK_S", "_AGAIN_S"):
        monkeypatch.setattr(f"almanac.core.store.readers.{wait}", 0.05)

    def made(name: str) -> DataDir:
        os.environ["ALMANAC_CACHE"] = str(tmp_path / name)
        return DataDir.locate(bucket.url)

    return made


def _put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _write(data: DataDir, version: str, *segments: str) -> None:
    """Writes a version whose segments hold a text each, and makes it live."""
    index = data.index("kb")
    for text in segments:
        folder = index / "segments" / sha256(text)[:12]
        _put(folder / "rows", text)
        _put(
            folder / "segment.json",
            json.dumps({"files": [{"path": "rows", "bytes": len(text.encode()), "sha256": sha256(text)}]}),
        )
    _put(
        index / "versions" / version / "manifest.json",
        json.dumps({"segments": [{"segment": sha256(text)[:12]} for text in segments]}),
    )
    _put(index / "CURRENT", f"{version}\n")


def _publish(data: DataDir, version: str, *segments: str, erases: bool = False) -> None:
    with writing(data, "kb", "a run", erases=erases):
        _write(data, version, *segments)
        _put(data.raw("kb", "site") / "page", "a page")


def _texts(data: DataDir, version: str) -> list[str]:
    index = data.index("kb")
    names = [
        use["segment"] for use in json.loads((index / "versions" / version / "manifest.json").read_text())["segments"]
    ]
    return [(index / "segments" / name / "rows").read_text() for name in names]


def _names(data: DataDir, kind: str = "versions") -> set[str]:
    return {path.name for path in (data.index("kb") / kind).glob("*") if not path.name.startswith(".")}


def _until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not _holds(claim):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _holds(claim: Callable[[], bool]) -> bool:
    try:
        return claim()
    except FileNotFoundError:  # removed while the claim reads it
        return False


@contextmanager
def _following(
    data: DataDir, changes: list[str | None] | None = None, pinned: str | None = None
) -> Iterator[StoreReader]:
    reader = StoreReader(data, "kb", pinned)
    reader.begin()
    reader.follow(lambda: changes.append(reader.version) if changes is not None else None)
    try:
        yield reader
    finally:
        reader.close()


def test_a_reader_follows_what_is_published_and_fetches_that_alone(machine: Machines) -> None:
    writer, cache, changes = machine("writer"), machine("reader"), list[str | None]()
    with pytest.raises(NothingPublished):
        StoreReader(cache, "kb").resolve()
    with _following(cache, changes) as reader:
        assert reader.version is None
        _publish(writer, "v0001", "one", "two")
        _until(lambda: reader.version == "v0001")
        _publish(writer, "v0002", "two", "three")
        _until(lambda: changes[-1:] == ["v0002"] and reader.state().behind is None)
        assert _texts(cache, reader.resolve()) == ["two", "three"]
        assert _names(cache) == {"v0001", "v0002"}
    assert not (cache.for_kb("kb").root / "raw").exists()
    fresh = machine("fresh")
    with _following(fresh) as reader:
        assert (reader.resolve(), _names(fresh), len(_names(fresh, "segments"))) == ("v0002", {"v0002"}, 2)
        assert (reader.resolve("v0001"), _texts(fresh, "v0001")) == ("v0001", ["one", "two"])  # as it is asked for
        with pytest.raises(NotFound, match="no version 'v0007'"):
            reader.resolve("v0007")


def test_what_a_writer_of_the_same_cache_has_not_pushed_is_not_live(machine: Machines) -> None:
    here = machine("here")
    _publish(here, "v0001", "one")
    with writing(here, "kb", "a run"):
        _write(here, "v0002", "two")
        with _following(here) as reader:
            assert (reader.resolve(), _names(here)) == ("v0001", {"v0001", "v0002"})
    assert reader.version == "v0002"  # pushed by now, and noted by the writer


def test_a_writer_waits_for_a_reader_of_its_cache_that_is_fetching(machine: Machines) -> None:
    writer, here = machine("writer"), machine("here")
    _publish(writer, "v0001", "one")
    machine("here")
    code = (
        "import sys, time\nfrom unittest.mock import patch\nfrom almanac.core.settings import DataDir\nfrom "
        "almanac.core.store import readers\n"
        "def slow(*_, **__):\n    print('fetching', flush=True); time.sleep(1.5); return False\n"
        "with patch.object(readers, 'fetch_versions', slow):\n    "
        "readers.StoreReader(DataDir.locate(sys.argv[1]), 'kb').begin()\n"
    )
    reader = subprocess.Popen([sys.executable, "-c", code, here.url], cwd=ROOT, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()
    _publish(here, "v0002", "two")  # and is not told that somebody writes
    assert reader.wait() == 0
    with (
        writing(here, "kb", "a run"),
        pytest.raises(RunLocked, match="being written by a run"),
        writing(here, "kb", "another"),
    ):
        pass


def test_while_the_store_is_away_there_is_what_the_cache_has(
    machine: Machines, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, wire = machine("writer"), Wire(bucket.endpoint)
    _publish(writer, "v0001", "one")
    monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
    cache = machine("reader")
    with _following(cache) as reader:
        wire.cut()
        _until(lambda: reader.state().away_since is not None)
        assert (reader.resolve(), live_in_store(cache, "kb")) == ("v0001", "v0001")
        with _following(cache) as late:  # begins while the store is away
            assert (late.resolve(), late.state().away_since is not None) == ("v0001", True)
            with pytest.raises(StoreAway):
                late.resolve("v0002")
            wire.mend()
            _until(lambda: late.state().away_since is None and reader.state().away_since is None)
            machine("writer")
            _publish(writer, "v0002", "two")
            _until(lambda: late.version == reader.version == "v0002")
        wire.cut()
        # the one that follows may be clearing away what no version names
        shutil.rmtree(cache.index("kb") / "segments", ignore_errors=True)
        with pytest.raises(StoreAway):  # half a version is none
            StoreReader(cache, "kb").begin()
    with pytest.raises(StoreAway):
        StoreReader(machine("fresh"), "kb").begin()
    with pytest.raises(StoreAway):
        live_in_store(machine("fresh"), "kb")


def test_a_damaged_object_is_refused_and_taken_over_once_it_is_mended(machine: Machines) -> None:
    writer, cache = machine("writer"), machine("reader")
    _publish(writer, "v0001", "one")
    objects, key = Objects(writer.url), f"objects/kb/{sha256('two')[:2]}/{sha256('two')}"
    with _following(cache) as reader:
        with patch.object(StoreReader, "_fetch", side_effect=StorageError("nothing is fetched yet")):
            _publish(writer, "v0002", "one", "two")
            overwrite(objects, key, b"owt")
        _until(lambda: reader.state().behind == "v0002")
        assert (reader.resolve(), _names(cache)) == ("v0001", {"v0001"})
        assert folders_of(cache.for_kb("kb").root, "kb", "v0001")
        overwrite(objects, key, b"two")
        _until(lambda: reader.version == "v0002" and reader.state().behind is None)
        assert _texts(cache, "v0002") == ["one", "two"]


@contextmanager
def _held() -> Iterator[tuple[threading.Event, threading.Event, list[str]]]:
    """Objects come only once the second event is set; the first one says that one is asked for. The list has the keys
    that were asked for.
    """
    requested, released, keys, fetch = threading.Event(), threading.Event(), list[str](), Objects.fetch

    def held(
        objects: Objects, key: str, sha256: str, path: Path, before_each: Callable[[], None] = lambda: None
    ) -> None:
        keys.append(key)
        requested.set()
        while not released.wait(0.01):
            before_each()
        fetch(objects, key, sha256, path, before_each)

    with patch.object(Objects, "fetch", held):
        try:
            yield requested, released, keys
        finally:
            released.set()


def _in_thread(work: Callable[[], object]) -> "Future[object]":
    future: Future[object] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=do, daemon=True).start()
    return future


def test_who_is_not_waited_for_any_more_leaves_and_what_it_asked_for_is_fetched_once(machine: Machines) -> None:
    writer, cache = machine("writer"), machine("reader")
    _publish(writer, "v0001", "one")
    _publish(writer, "v0002", "two")
    gone = threading.Event()

    def ask() -> str:
        with unless(gone.is_set):
            return reader.resolve("v0001")

    with _following(cache) as reader, _held() as (requested, released, keys):
        requests = [_in_thread(ask), _in_thread(lambda: reader.resolve("v0001"))]
        assert requested.wait(PATIENCE_S)
        gone.set()
        with pytest.raises(GivenUp):
            requests[0].result(PATIENCE_S)
        assert not requests[1].done() and _names(cache) == {"v0002"}
        released.set()
        assert requests[1].result(PATIENCE_S) == "v0001" and _texts(cache, "v0001") == ["one"]
        assert len(keys) == len(set(keys))


def test_what_everybody_left_is_there_for_who_asks_again_and_what_waits_for_its_turn_is_not_begun(
    machine: Machines,
) -> None:
    writer, cache = machine("writer"), machine("reader")
    for number in (1, 2, 3):
        _publish(writer, f"v000{number}", f"{number}")
    gone = threading.Event()

    def ask(version: str) -> str:
        with unless(gone.is_set):
            return reader.resolve(version)

    with _following(cache) as reader, _held() as (requested, released, _):
        first = _in_thread(lambda: ask("v0001"))
        assert requested.wait(PATIENCE_S)
        second = _in_thread(lambda: ask("v0002"))
        gone.set()
        for request in (first, second):
            with pytest.raises(GivenUp):
                request.result(PATIENCE_S)
        released.set()
        _until(lambda: {"v0001", "v0003"} <= _names(cache))
        assert reader.resolve("v0002") == "v0002"


def test_a_reader_that_is_closed_while_it_fetches_says_so_and_leaves_nothing_half_done(machine: Machines) -> None:
    writer, cache = machine("writer"), machine("reader")
    for number in (1, 2, 3):
        _publish(writer, f"v000{number}", f"{number}")
    with structlog.testing.capture_logs() as logs, _held() as (requested, _, _):
        requested.clear()
        reader = StoreReader(cache, "kb")
        requests = [
            _in_thread(lambda: reader.resolve("v0001")),
            _in_thread(lambda: reader.resolve("v0002")),
            _in_thread(reader.begin),
        ]
        assert requested.wait(PATIENCE_S)
        time.sleep(0.05)  # for the others to wait for their turn
        reader.close()
        for request in requests:
            with pytest.raises(Retriable, match="was closed while a version was being fetched") as raised:
                request.result(PATIENCE_S)
            assert raised.value.hint == "ask again"
        assert _names(cache) == set() and not list(cache.for_kb("kb").root.rglob("rows"))
    assert [log for log in logs if log["log_level"] in ("warning", "error")] == []
    assert (reader.resolve("v0001"), _texts(cache, "v0001")) == ("v0001", ["1"])  # a later request opens it again


def test_a_full_disk_is_tried_again_and_ends_with_it(machine: Machines) -> None:
    writer, cache = machine("writer"), machine("reader")
    _publish(writer, "v0001", "one")
    with _following(cache) as reader:
        with patch.object(StoreReader, "_fetch", side_effect=OSError(errno.ENOSPC, "No space left on device")):
            _publish(writer, "v0002", "two")
            _until(lambda: reader.state().behind == "v0002")
            assert reader.resolve() == "v0001"
        _until(lambda: reader.version == "v0002" and reader.state().behind is None)


def test_the_least_recently_used_go_and_what_is_open_stays(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, cache = machine("writer"), machine("reader")
    for number in range(1, 5):
        _publish(writer, f"v000{number}", f"{number}" * 5_000)
    reader = StoreReader(cache, "kb")
    for age, version in ((300, "v0002"), (400, "v0001"), (200, "v0003")):
        reader.resolve(version)
        for folder in (
            cache.index("kb") / "versions" / version,
            cache.index("kb") / "segments" / sha256(version[-1] * 5_000)[:12],
        ):
            os.utime(folder, (time.time() - age,) * 2)
    monkeypatch.setenv("ALMANAC_CACHE_GB", "0.0000165")  # three of them
    reader.begin()
    assert _names(cache) == {"v0002", "v0003", "v0004"}
    monkeypatch.setenv("ALMANAC_CACHE_GB", "0")
    pins = [
        Pin(cache.index("kb") / "versions" / "v0002"),
        Pin(cache.index("kb") / "segments" / sha256("2" * 5_000)[:12]),
    ]
    with structlog.testing.capture_logs() as logs:
        reader.begin()
    assert _names(cache) == {"v0002", "v0004"}
    assert [(log["event"], log["bound_gb"]) for log in logs if log["log_level"] == "warning"] == [
        ("cache_over_bound", 0.0)
    ]
    assert _texts(cache, reader.resolve("v0001")) == ["1" * 5_000]  # fetched again
    for pin in pins:
        pin.close()
    reader.begin()
    assert _names(cache) == {"v0004"}
    before = _names(writer), _names(writer, "segments")
    StoreReader(writer, "kb").begin()
    assert (_names(writer), _names(writer, "segments")) == before, "what a writer has checked out is its data"


def test_what_readers_left_out_is_not_taken_for_removed_by_a_writer(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that wrote once, then only read under a small bound, and writes again: no version is lost."""
    here, there = machine("here"), machine("there")
    for number in (1, 2):
        _publish(here, f"v000{number}", f"{number}")
    _publish(there, "v0003", "3")
    monkeypatch.setenv("ALMANAC_CACHE_GB", "0")
    StoreReader(here, "kb").begin()
    assert _names(here) == {"v0003"}
    _publish(here, "v0004", "4")
    fresh = machine("fresh")
    for number in range(1, 5):
        assert _texts(fresh, StoreReader(fresh, "kb").resolve(f"v000{number}")) == [f"{number}"]


def test_after_a_takedown_the_bucket_and_the_caches_have_nothing_of_it(machine: Machines) -> None:
    writer, cache = machine("writer"), machine("reader")
    _publish(writer, "v0001", "one", "secret")
    _publish(writer, "v0002", "one", "secret", "two")
    objects, secret = Objects(writer.url), f"objects/kb/{sha256('secret')[:2]}/{sha256('secret')}"
    with _following(cache) as reader:
        reader.resolve("v0001")
        open_now = Pin(cache.index("kb") / "segments" / sha256("secret")[:12])
        with writing(writer, "kb", "forget", erases=True) as session:
            assert session is not None
            _write(writer, "v0001", "one")
            _write(writer, "v0002", "one", "two")
            shutil.rmtree(writer.index("kb") / "segments" / sha256("secret")[:12])
            assert objects.read(secret) is not None
        assert session.swept is not None
        assert session.swept.objects > 0
        assert objects.read(secret) is None
        _until(lambda: _texts(cache, "v0002") == ["one", "two"])
        _until(lambda: not folders_of(cache.for_kb("kb").root, "kb", "v0001"))  # it has another content now
        assert _texts(cache, reader.resolve("v0001")) == ["one"]
        assert open_now.is_in_place()  # whoever reads it ends first
        open_now.close()
        _until(lambda: "secret" not in {path.read_text() for path in cache.for_kb("kb").root.rglob("rows")})
    assert not read_head(objects, "kb").head.erases


def test_a_takedown_that_ended_before_it_swept_is_swept_by_the_next_writer(machine: Machines) -> None:
    here, objects = machine("here"), Objects(machine("here").url)
    _publish(here, "v0001", "secret")
    secret = f"objects/kb/{sha256('secret')[:2]}/{sha256('secret')}"
    away = patch("almanac.core.store.session.sweep_objects", side_effect=StoreAway("the store does not answer"))
    with away, pytest.raises(StoreAway), writing(here, "kb", "forget", erases=True):
        _write(here, "v0001", "rest")
        shutil.rmtree(here.index("kb") / "segments" / sha256("secret")[:12])
    assert read_head(objects, "kb").head.erases
    assert objects.read(secret) is not None
    with writing(machine("there"), "kb", "a rollback", ("index",)) as session:
        assert session is not None
    assert session.swept is not None
    assert objects.read(secret) is None
    assert not read_head(objects, "kb").head.erases


def test_who_lost_the_lock_removes_nothing(machine: Machines) -> None:
    here, there = machine("here"), machine("there")
    _publish(here, "v0001", "one")
    objects = Objects(here.url)
    with pytest.raises(RunLocked, match="lost the lock"), writing(here, "kb", "forget", erases=True) as session:
        assert session is not None
        session.push()
        overwrite(objects, "objects/kb/ff/unneeded", b"of nobody yet")
        with patch("almanac.core.store.pointer._EXPIRES_S", -1.0), writing(there, "kb", "another"):
            with patch("almanac.core.store.session._DAY_S", -1.0), pytest.raises(RunLocked, match="lost the lock"):
                session.remove_unneeded()
            assert objects.read("objects/kb/ff/unneeded") is not None
