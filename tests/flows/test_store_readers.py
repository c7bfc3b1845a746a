"""Readers of a knowledge base in a store: they follow what is published, and answer whatever becomes of the store
meanwhile.
"""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
import structlog
from starlette.testclient import TestClient

from almanac.core.pins import Pin
from almanac.core.store.fetching import noted
from almanac.core.store.head import read_head
from almanac.core.store.objects import Objects
from almanac.core.store.readers import StoreReader
from almanac.index.versions.store import read_manifest
from almanac.query import PublishedIndex, open_index
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import DamagedVersion, NotFound, StorageError, StoreAway
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.settings import Settings
from tests.conftest import PATIENCE_S, ROOT
from tests.flows.test_object_stores import Machine
from tests.loopback.s3 import Bucket, Wire
from tests.proof.acts import small_and_here
from tests.proof.base import TORTURE, declare, make_place, put, text_of

_READERS = 10 if TORTURE else 2  # which share a cache, but for the first two of ten
_VERSIONS = 6 if TORTURE else 3
_SEGMENT = 5  # chunks: every version consists of several segments
Machines = Callable[[str], Machine]
_fetch = Objects.fetch


@pytest.fixture
def machine(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path))
    for wait in ("_LOOK_S", "_AGAIN_S", "_LONGEST_S", "_CLEAN_S"):
        monkeypatch.setattr(f"almanac.core.store.readers.{wait}", 0.1)
    place = make_place(tmp_path / "place", _content(1))
    declare(place, segment=_SEGMENT)
    return lambda name: Machine(place, tmp_path / name, bucket.url)


def _content(revision: int) -> dict[str, str]:
    """Two notes of each revision stay to the next."""
    return {f"n{number}.txt": text_of(f"note {number}, revision {revision - number % 2}") for number in range(4)}


def _publish(writer: Machine, revision: int) -> str:
    put(writer.place, _content(revision))
    report = writer.run()
    assert report["outcome"] == "published"
    return str(report["version"])


@contextmanager
def _reading(machine: Machine) -> Iterator[PublishedIndex]:
    with small_and_here(machine.place), open_index(machine.kb, data=machine.data.place) as index:
        yield index


def _until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _sealed(machine: Machine) -> dict[str, set[str]]:
    """Names of the versions and segments of a cache."""
    index = machine.data.index("proof")
    return {
        kind: {path.parent.name for path in index.glob(f"{kind}/*/{seal}")}
        for kind, seal in (("versions", "manifest.json"), ("segments", "segment.json"))
    }


@contextmanager
def _processes(readers: list[Machine], folder: Path) -> Iterator[list[Path]]:
    notes = [folder / f"answers-{number}.txt" for number in range(len(readers))]
    with ExitStack() as held, (folder / "readers.txt").open("wb") as errors:
        processes = []
        for reader, note in zip(readers, notes, strict=True):
            command = [sys.executable, "-m", "tests.flows.store_reader", reader.kb, reader.url, str(note)]
            environment = {**os.environ, "ALMANAC_CACHE": str(reader.cache), "OMP_NUM_THREADS": "1"}
            processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stderr=errors))
            held.callback(processes[-1].kill)
        yield notes
        for process in processes:
            process.communicate()
    assert [process.returncode for process in processes] == [0] * len(readers), (folder / "readers.txt").read_text()[
        -3000:
    ]


def _seen(note: Path) -> list[list[str]]:
    return (
        [line.split() for line in note.read_text().splitlines(keepends=True) if line.endswith("\n")]
        if note.exists()
        else []
    )


def test_readers_in_other_processes_see_each_publication_and_no_answer_is_mixed(
    machine: Machines, tmp_path: Path
) -> None:
    writer = machine("writer")
    published = {_publish(writer, 1): time.time()}
    readers = [machine("shared" if number > 1 or not TORTURE else f"own-{number}") for number in range(_READERS)]
    with _processes(readers, tmp_path) as notes:
        for revision in range(2, _VERSIONS + 1):
            _until(lambda: all((seen := _seen(note)) and seen[-1][1] == list(published)[-1] for note in notes))
            version = _publish(writer, revision)
            published[version] = time.time()
        _until(lambda: all(_seen(note)[-1][1] == version for note in notes))
    index = writer.data.index("proof")
    ids = {
        version: {row for name in _segments(index, version) for row in _ids(index / "segments" / name)}
        for version in published
    }
    for note in notes:
        answers = _seen(note)
        assert [answer for answer in answers if len(answer) != 6 or not ids[answer[1]].issuperset(answer[2:])] == []
        assert list(dict.fromkeys(answer[1] for answer in answers)) == list(published)
        delays = [
            round(next(float(at) for at, name, *_ in answers if name == version) - told, 1)
            for version, told in published.items()
        ][1:]
        print(f"{len(answers)} answers, first from each version {delays} s after its publication")  # noqa: T201
    assert not list((tmp_path / "shared").rglob("raw")), "readers need no pages"


def _segments(index: Path, version: str) -> list[str]:
    return [use.segment for use in read_manifest(index, version).segments]


def _ids(segment: Path) -> list[str]:
    return list(pq.read_table(segment / "chunks.parquet", columns=["chunk_id"]).column(0).to_pylist())


def test_a_new_version_is_open_and_warm_before_requests_get_it(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    warmed: list[tuple[str, str]] = []
    warm = PublishedIndex._warm

    def warming(index: PublishedIndex, retriever: Retriever) -> None:
        warm(index, retriever)
        # what is warm, and what answers meanwhile
        warmed.append((retriever.opened.manifest.version, index.search("amber").version))

    with patch.object(PublishedIndex, "_warm", warming), _reading(reader) as index:
        assert index.search("amber").version == "v0001"
        _publish(writer, 2)
        os.environ["ALMANAC_CACHE"] = str(reader.cache)
        _until(lambda: index.search("amber").version == "v0002")
        with index.reading() as retriever:
            assert retriever.is_warm
    assert warmed == [("v0002", "v0001")]


def test_while_the_store_is_away_the_cache_answers_also_those_who_begin_then(
    machine: Machines, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader, wire = machine("writer"), machine("reader"), Wire(bucket.endpoint)
    _publish(writer, 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
    with _reading(reader) as index:
        assert index.search("amber").version == "v0001"
        assert index.store is not None
        _until(lambda: index.store is not None and index.store.away_since is None and index.store.behind is None)
        wire.cut()
        _until(lambda: index.store is not None and index.store.away_since is not None)
        assert index.search("amber").version == "v0001"
        with small_and_here(reader.place):
            catalog = Catalog(reader.data, [reader.kb])  # as `serve` begins
            assert catalog.index("proof").search("amber").version == "v0001"
            since = catalog.stores()["proof"].away_since
            with TestClient(create_app(catalog, Settings()), base_url="http://127.0.0.1:8080") as client:
                assert client.get("/health").json() == {"status": "ok", "store_away_since": since}
                assert re.search(r'almanac_store_away_seconds{kb="proof"} \d', client.get("/metrics").text)
        with pytest.raises(StoreAway), _reading(machine("fresh")):
            pass
        with pytest.raises(StoreAway), small_and_here(reader.place):
            Catalog(machine("fresh").data, [reader.kb])
        with pytest.raises(StoreAway):
            index.search("amber", version="v0009")
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        _publish(writer, 2)
        os.environ["ALMANAC_CACHE"] = str(reader.cache)
        assert index.search("amber").version == "v0001"
        monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
        wire.mend()
        _until(lambda: index.search("amber").version == "v0002")
        _until(lambda: index.store is not None and index.store.away_since is None and index.store.behind is None)


def test_a_request_for_a_version_that_is_being_fetched_ends_at_its_deadline_and_when_the_base_is_closed(
    machine: Machines,
) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    _publish(writer, 2)
    asked, released, fetch = threading.Event(), threading.Event(), Objects.fetch

    def held(
        objects: Objects, key: str, sha256: str, path: Path, before_each: Callable[[], None] = lambda: None
    ) -> None:
        asked.set()
        while not released.wait(0.01):
            before_each()
        fetch(objects, key, sha256, path, before_each)

    def ask(client: TestClient, version: str | None = None) -> Any:
        return client.post("/api/search", json={"query": "amber", "version": version})

    with small_and_here(reader.place), ThreadPoolExecutor() as threads:
        catalog = Catalog(reader.data, [reader.kb])
        with TestClient(
            create_app(catalog, Settings.read(deadline_s=3, max_concurrent=1)), base_url="http://127.0.0.1:8080"
        ) as client:
            _until(lambda: client.get("/ready").status_code == 200)
            with patch.object(Objects, "fetch", held):
                overdue = ask(client, "v0001")
                assert (overdue.status_code, overdue.json()["type"]) == (503, "urn:almanac:problem:deadline")
                _until(lambda: "almanac_requests_in_flight 0.0" in client.get("/metrics").text)
                assert ask(client).json()["version"] == "v0002"  # its place is free again
                asked.clear()
                waiting = threads.submit(ask, client, "v0001")
                _until(lambda: "almanac_requests_in_flight 1.0" in client.get("/metrics").text)
                catalog.index("proof").close()
                closed = waiting.result(PATIENCE_S)
                assert (closed.status_code, closed.json()["type"], closed.headers["Retry-After"]) == (
                    503,
                    "urn:almanac:problem:retriable",
                    "5",
                )
                released.set()
            _until(lambda: ask(client, "v0001").status_code == 200)


def test_a_damaged_object_is_refused_and_answers_go_on_from_what_was_there(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    objects = Objects(writer.url)
    before = {key for key, _, _ in objects.listed("objects/")}
    with _reading(reader) as index:
        index.search("amber")
        whole: dict[str, bytes] = {}

        with patch.object(index._reader, "_fetch", side_effect=StoreAway("nothing is fetched yet")):
            _publish(writer, 2)
            for key, _, _ in list(objects.listed("objects/")):
                if (
                    key not in before
                    and (found := objects.read(key)) is not None
                    and not found.content.startswith((b"{", b"["))
                ):
                    whole[key] = found.content
                    objects.write_blindly(key, found.content[:-1] + b"?")
        os.environ["ALMANAC_CACHE"] = str(reader.cache)
        _until(lambda: index.store is not None and index.store.behind == "v0002")
        assert index.search("amber").version == "v0001"
        assert "v0002" not in _sealed(reader)["versions"]
        with pytest.raises(NotFound):
            index.search("amber", version="v0009")
        for key, content in whole.items():
            objects.write_blindly(key, content)
        _until(lambda: index.search("amber").version == "v0002")


def test_versions_that_nobody_has_open_go_by_least_recent_use_and_what_is_open_stays(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = machine("writer"), machine("reader")
    monkeypatch.setattr("almanac.core.store.bounds._JUST_S", -1.0)
    for revision in (1, 2, 3):
        _publish(writer, revision)
    with _reading(reader) as index:
        for version in ("v0001", "v0002"):
            assert index.search("amber", version=version).version == version
    assert _sealed(reader)["versions"] == {"v0001", "v0002", "v0003"}
    here = reader.data.index("proof") / "versions"
    os.utime(here / "v0002", (time.time() - 500,) * 2)
    os.utime(here / "v0001", (time.time() - 400,) * 2)
    pin = Pin(here / "v0002")  # somebody has it open
    monkeypatch.setenv("ALMANAC_CACHE_GB", "0.00000001")
    with structlog.testing.capture_logs() as logs, _reading(reader) as index:
        assert index.search("amber").version == "v0003"
        assert "v0001" not in _sealed(reader)["versions"]
        assert {"v0002", "v0003"} <= _sealed(reader)["versions"]
        assert index.search("amber", version="v0001").version == "v0001"  # fetched again
    assert "cache_over_bound" in {log["event"] for log in logs}
    pin.close()
    with _reading(reader):
        assert _sealed(reader)["versions"] == {"v0003"}
    own = _sealed(writer)
    with _reading(writer) as index:
        assert index.search("amber").version == "v0003"
    assert _sealed(writer) == own, "a writer's working copy is its data"


def test_what_was_forgotten_leaves_the_bucket_at_once_and_the_caches_with_it(
    machine: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    writer, reader = machine("writer"), machine("reader")
    for revision in (1, 2):
        _publish(writer, revision)
    url = next(hit.url for hit in writer.search("note 3, revision 1").hits if "n3.txt" in hit.url)

    def bucket_holds(objects: Objects) -> list[str]:
        found = []
        for key, _, _ in objects.listed("objects/"):
            content = objects.read(key)
            if content is not None and b"note 3, revision" in content.content:
                found.append(key)
        return found

    objects = Objects(writer.url)
    assert bucket_holds(objects)
    with _reading(reader) as index:
        index.search("amber", version="v0001")
        assert url in {hit.url for hit in index.search("note 3, revision 1", k=50).hits}
        capfd.readouterr()
        assert machine("third")("forget", url) == 0
        assert "objects that nothing needs any more" in capfd.readouterr().out
        assert bucket_holds(objects) == []
        needed = read_head(objects, "proof").head
        assert not needed.erases
        os.environ["ALMANAC_CACHE"] = str(reader.cache)
        _until(lambda: url not in {hit.url for hit in index.search("note 3, revision 1", k=50).hits})
        assert url not in {hit.url for hit in index.search("note 3, revision 1", version="v0001", k=50).hits}
    with _reading(reader) as index:
        index.search("amber")
        _until(
            lambda: (
                not [
                    path
                    for path in reader.data.index("proof").rglob("*.parquet")
                    if url in pq.read_table(path).to_pydict().get("url", [])
                ]
            )
        )
        assert index.search("amber").version == "v0002"


def test_a_takedown_that_was_cut_off_before_it_swept_is_swept_by_the_next_writer(machine: Machines) -> None:
    writer = machine("writer")
    _publish(writer, 1)
    url = writer.search("note 3").hits[0].url
    with patch("almanac.core.store.session.sweep_objects", side_effect=StoreAway("the object store does not answer")):
        assert writer("forget", url) == StoreAway.exit_code
    objects = Objects(writer.url)
    assert read_head(objects, "proof").head.erases
    needed = {key for key, _, _ in objects.listed("objects/")}
    # as of what was written in the second of the reply
    with patch("almanac.core.store.objects._age", return_value=-0.9):
        assert machine("another")("rollback") != 0  # nothing to roll back to, and yet a writer
    assert not read_head(objects, "proof").head.erases
    assert {key for key, _, _ in objects.listed("objects/")} < needed


def test_a_cache_that_lost_folders_is_made_whole(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    with _reading(reader) as index:
        index.search("amber")
    index_dir = reader.data.index("proof")
    shutil.rmtree(next((index_dir / "segments").iterdir()))
    assert noted(reader.data.of("proof").root) is not None
    assert reader.search("amber").version == "v0001"


def test_what_is_damaged_in_the_cache_is_fetched_anew(machine: Machines) -> None:
    """Cut off by half, and with each bit turned over; by whoever searches, and by whoever verifies."""
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    assert reader.search("amber").version == "v0001"
    for damaged in ("rows.arrow", "vectors.npy", "lexical/meta.json", "segment.json", "manifest.json"):
        path = next(reader.data.index("proof").glob(f"*/[!.]*/{damaged}"))
        whole = path.read_bytes()
        for damage in (whole[: len(whole) // 2], bytes(255 - one for one in whole)):
            path.write_bytes(damage)
            assert reader.search("amber").version == "v0001", damaged
            assert path.read_bytes() == whole, damaged
            path.write_bytes(damage)
            assert reader("verify") == 0, damaged
            assert path.read_bytes() == whole, damaged


@contextmanager
def _fetched() -> Iterator[list[str]]:
    """Names of the files that are fetched inside the block."""
    names: list[str] = []

    def fetch(objects: Objects, key: str, sha256: str, path: Path, *rest: Any) -> None:
        names.append(path.name)
        _fetch(objects, key, sha256, path, *rest)

    with patch.object(Objects, "fetch", fetch):
        yield names


def test_stored_vectors_and_tables_that_are_damaged_in_the_cache_are_fetched_anew(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    _publish(writer, 2)
    assert (reader("verify"), reader("diff", "v0001", "v0002")) == (0, 0)
    root = reader.data.of("proof").root
    for pattern, command in (
        ("vectors/*/*.parquet", ["verify"]),
        ("index/proof/segments/*/chunks.parquet", ["diff", "v0001", "v0002"]),
    ):
        path = next(root.glob(pattern))
        whole = path.read_bytes()
        path.write_bytes(bytes(255 - one for one in whole))
        assert reader(*command) == 0
        assert path.read_bytes() == whole
    path = next(root.glob("vectors/*/*.parquet"))
    path.rename(path.with_name(f"{path.name}.damaged"))
    assert reader("verify") == 0
    assert path.is_file()


def test_what_only_was_opened_is_not_fetched_again(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    assert reader("verify") == 0
    for _ in range(2):
        with _fetched() as names:
            assert reader("verify") == 0
            assert reader("export", "chunks") == 0
        assert names == []
    for database in reader.data.index("proof").glob("segments/*/chroma/chroma.sqlite3"):
        database.unlink()
    assert reader("verify") == 0


def test_what_cannot_be_opened_though_it_is_what_was_published_is_compared_once(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    assert reader.search("amber").version == "v0001"
    with _reading(reader) as index, patch("almanac.core.store.fetching.is_altered", return_value=False) as compared:
        with patch("almanac.index.versions.store.FORMAT", 0), pytest.raises(DamagedVersion, match="has format"):
            index.search("amber")
        assert compared.call_count == 0
        with patch("almanac.query.published._compared", side_effect=DamagedVersion("cannot be read")):
            for _ in range(2):
                with pytest.raises(DamagedVersion, match="cannot be read"):
                    index.search("amber")
                assert compared.call_count == 1 + len(_sealed(reader)["segments"])
        assert index.search("amber").version == "v0001"


def test_a_version_that_another_process_sets_aside_before_it_is_opened_is_fetched_anew(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    assert reader.search("amber").version == "v0001"
    version = reader.data.index("proof") / "versions" / "v0001"
    resolved, renamed = StoreReader.resolve, list[str]()

    def resolve(store: StoreReader, name: str | None = None) -> str:
        found = resolved(store, name)
        if not renamed:
            renamed.append(found)
            version.rename(version.with_name(".v0001.aside"))
        return found

    with patch.object(StoreReader, "resolve", resolve):
        assert reader.search("amber").version == "v0001"
    assert version.is_dir()


def test_a_cache_that_cannot_be_compared_is_not_taken_for_damaged(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("reader")
    _publish(writer, 1)
    assert reader.search("amber").version == "v0001"
    before = _sealed(reader)
    with (
        patch("almanac.core.store.sealed.file_sha256", side_effect=OSError(errno.EMFILE, "Too many open files")),
        _fetched() as names,
    ):
        assert reader("export", "chunks") == StorageError.exit_code
    assert (names, _sealed(reader)) == ([], before)


def test_a_damaged_cache_is_an_error_while_the_store_is_away(
    machine: Machines, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = machine("writer")
    _publish(writer, 1)
    wire = Wire(bucket.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
    reader = machine("reader")
    for damaged, error in (("rows.arrow", DamagedVersion), ("manifest.json", StoreAway)):
        wire.mend()
        assert reader.search("amber").version == "v0001"
        path = next(reader.data.index("proof").glob(f"*/[!.]*/{damaged}"))
        path.write_bytes(path.read_bytes()[:-9])
        wire.cut()
        with pytest.raises(error):
            reader.search("amber")
    wire.mend()
    assert reader.search("amber").version == "v0001"


def test_what_is_damaged_in_the_copy_of_a_writer_is_left_to_him(machine: Machines) -> None:
    writer = machine("writer")
    _publish(writer, 1)
    path = next(writer.data.index("proof").glob("segments/*/rows.arrow"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedVersion, match="rebuild"):
        writer.search("amber")
    assert writer("rebuild") == 0
    assert writer.search("amber").version == "v0001"
