"""Readers of a knowledge base in a store: they follow what is published, and answer whatever becomes of the store
meanwhile.
"""

import errno
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from almanac.core.store.fetching import fetch_versions
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import read_head
from almanac.core.store.readers import StoreReader
from almanac.index.versions.version_store import read_manifest
from almanac.query import PublishedIndex, open_index
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import DamagedVersion, StorageError, StoreAway
from almanac.schemas.hashing import short_hash
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.server_settings import Settings
from tests.conftest import PATIENCE_S, ROOT
from tests.flows.test_object_stores import Machine
from tests.loopback.s3 import Bucket, Wire
from tests.proof.acts import small_and_here
from tests.proof.base import TORTURE, declare, make_place, put, text_of

_READERS = 10 if TORTURE else 1  # which share a cache, but for the first two of ten
_VERSIONS = 5 if TORTURE else 1  # that are published while they read
_SEGMENT = 5  # chunks: every version consists of several segments
Machines = Callable[[str], Machine]
_fetch = Objects.fetch


@pytest.fixture(scope="module")
def machine(s3_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Makes machines that share a bucket, in which two versions are published."""
    folder = tmp_path_factory.mktemp("machines")
    bucket = Bucket.make(s3_server, f"test-{short_hash(str(folder))}")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**bucket.environment, "ALMANAC_CACHE": str(folder)}.items():
            patched.setenv(name, value)
        for wait in ("_LOOK_S", "_AGAIN_S"):
            patched.setattr(f"almanac.core.store.readers.{wait}", 0.1)
        place = make_place(folder / "place", {})
        declare(place, segment=_SEGMENT)
        for _ in range(2):
            _publish(Machine(place, folder / "writer", bucket.url))
        yield lambda name: Machine(place, folder / name, bucket.url)


@pytest.fixture(autouse=True)
def _own_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    request.getfixturevalue("machine")
    for name in ("ALMANAC_CACHE", "AWS_ENDPOINT_URL"):  # each is put back
        monkeypatch.setenv(name, os.environ[name])


def _live(machine: Machine) -> str:
    return str(read_head(Objects(machine.url), "proof").head.version)


def _publish(writer: Machine) -> str:
    """Publishes the next version. Two notes of each stay to the next."""
    version = read_head(Objects(writer.url), "proof").head.version
    revision = int(version[1:]) + 1 if version else 1
    notes = range(4)
    put(writer.place, {f"n{note}.txt": text_of(f"note {note}, revision {revision - note % 2}") for note in notes})
    report = writer.run()
    assert (report["outcome"], report["version"]) == ("published", f"v{revision:04}")
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


def test_what_was_forgotten_leaves_the_bucket_at_once_and_the_caches_with_it(
    machine: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, objects, live = machine("forgetting"), Objects(machine("x").url), _live(machine("x"))
    url = next(hit.url for hit in reader.search("note 3").hits if "n3.txt" in hit.url)

    def bucket_holds_it() -> bool:
        stored_objects = (objects.read(listed.key) for listed in objects.listed("objects/"))
        return any(stored is not None and b"note 3, revision" in stored.content for stored in stored_objects)

    def answers(index: PublishedIndex, version: str | None = None) -> bool:
        return url in {hit.url for hit in index.search("note 3", version=version, k=50).hits}

    assert bucket_holds_it()
    with _reading(reader) as index:
        assert answers(index) and answers(index, "v0001")
        capfd.readouterr()
        assert machine("third")("forget", url) == 0
        assert "objects that nothing needs any more" in capfd.readouterr().out
        assert not bucket_holds_it()
        os.environ["ALMANAC_CACHE"] = str(reader.cache)
        _until(lambda: not answers(index))
        assert not answers(index, "v0001")
    with _reading(reader) as index:
        index.search("amber")
        tables = reader.data.index("proof")
        _until(lambda: not any(_has_url(path, url) for path in tables.rglob("*.parquet")))
        assert index.search("amber").version == live


def _has_url(table: Path, url: str) -> bool:
    return url in pq.read_table(table).to_pydict().get("url", [])


def test_readers_in_other_processes_see_each_publication_and_no_answer_is_mixed(
    machine: Machines, tmp_path: Path
) -> None:
    writer = machine("writer")
    published = {_live(writer): time.time()}
    readers = [machine("shared" if number > 1 or not TORTURE else f"own-{number}") for number in range(_READERS)]
    with _processes(readers, tmp_path) as notes:
        for _ in range(_VERSIONS):
            _until(lambda: all((seen := _seen(note)) and seen[-1][1] == list(published)[-1] for note in notes))
            version = _publish(writer)
            published[version] = time.time()
        _until(lambda: all(_seen(note)[-1][1] == version for note in notes))
    index = writer.data.index("proof")
    segments = {version: [use.segment for use in read_manifest(index, version).segments] for version in published}
    ids = {version: _ids(index / "segments" / name for name in names) for version, names in segments.items()}
    for note in notes:
        answers = _seen(note)
        assert [answer for answer in answers if len(answer) != 6 or not ids[answer[1]].issuperset(answer[2:])] == []
        assert list(dict.fromkeys(answer[1] for answer in answers)) == list(published)
        delays = [
            round(next(float(at) for at, name, *_ in answers if name == version) - published_at, 1)
            for version, published_at in published.items()
        ][1:]
        print(f"{len(answers)} answers, first from each version {delays} s after its publication")  # noqa: T201
    assert not list(readers[0].data.for_kb("proof").root.rglob("bodies")), "readers need no pages"


def _ids(segments: Iterable[Path]) -> set[str]:
    tables = (pq.read_table(segment / "chunks.parquet", columns=["chunk_id"]) for segment in segments)
    return {row for table in tables for row in table.column(0).to_pylist()}


def test_a_new_version_is_open_and_warm_before_requests_get_it(machine: Machines) -> None:
    writer, reader = machine("writer"), machine("warm")
    warmed: list[tuple[str, str]] = []
    warm = PublishedIndex._warm

    def warming(index: PublishedIndex, retriever: Retriever) -> None:
        warm(index, retriever)
        # what is warm, and what answers meanwhile
        warmed.append((retriever.opened.manifest.version, index.search("amber").version))

    with patch.object(PublishedIndex, "_warm", warming), _reading(reader) as index:
        before = index.search("amber").version
        now = _publish(writer)
        os.environ["ALMANAC_CACHE"] = str(reader.cache)
        _until(lambda: index.search("amber").version == now)
        with index.reading() as retriever:
            assert retriever.is_warm
    assert warmed == [(now, before)]


def test_while_the_store_is_away_the_cache_answers_also_those_who_begin_then(machine: Machines) -> None:
    reader, endpoint = machine("away"), os.environ["AWS_ENDPOINT_URL"]
    wire, before = Wire(endpoint), _live(reader)
    os.environ["AWS_ENDPOINT_URL"] = wire.endpoint
    with _reading(reader) as index:
        assert index.search("amber").version == before
        _until(lambda: index.store is not None and index.store.away_since is None and index.store.behind is None)
        wire.cut()
        _until(lambda: index.store is not None and index.store.away_since is not None)
        assert index.search("amber").version == before
        with small_and_here(reader.place):
            catalog = Catalog(reader.data, [reader.kb])  # as `serve` begins
            assert catalog.index("proof").search("amber").version == before
            since = catalog.stores()["proof"].away_since
            with TestClient(create_app(catalog, Settings()), base_url="http://127.0.0.1:8080") as client:
                assert client.get("/health").json() == {"status": "ok", "store_away_since": since}
                assert re.search(r'almanac_store_away_seconds{kb="proof"} \d', client.get("/metrics").text)
        with pytest.raises(StoreAway), _reading(machine("fresh")):
            pass
        with pytest.raises(StoreAway), small_and_here(reader.place):
            Catalog(machine("fresh").data, [reader.kb])
        with pytest.raises(StoreAway):
            index.search("amber", version="v0001")
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        now = _publish(machine("writer"))
        os.environ.update(ALMANAC_CACHE=str(reader.cache), AWS_ENDPOINT_URL=wire.endpoint)
        assert index.search("amber").version == before
        damaged = next(reader.data.index("proof").glob("segments/*/rows.arrow"))
        damaged.write_bytes(damaged.read_bytes()[:-9])
        with pytest.raises(DamagedVersion):
            reader.search("amber")
        wire.mend()
        _until(lambda: index.search("amber").version == now)
        _until(lambda: index.store is not None and index.store.away_since is None and index.store.behind is None)
        assert reader.search("amber", version=before).version == before


def test_a_request_for_a_version_that_is_being_fetched_ends_at_its_deadline_and_when_the_base_is_closed(
    machine: Machines,
) -> None:
    reader, live = machine("deadline"), _live(machine("deadline"))
    requested, released = threading.Event(), threading.Event()

    def held(objects: Objects, key: str, sha256: str, path: Path, before_each: Callable[[], None]) -> None:
        requested.set()
        while not released.wait(0.01):
            before_each()
        _fetch(objects, key, sha256, path, before_each)

    def ask(client: TestClient, version: str | None = None) -> Any:
        return client.post("/api/search", json={"query": "amber", "version": version})

    with small_and_here(reader.place), ThreadPoolExecutor() as threads:
        catalog = Catalog(reader.data, [reader.kb])
        app = create_app(catalog, Settings.read(deadline_s=3, max_concurrent=1))
        with TestClient(app, base_url="http://127.0.0.1:8080") as client:
            _until(lambda: client.get("/ready").status_code == 200)
            with patch.object(Objects, "fetch", held):
                overdue = ask(client, "v0001")
                assert (overdue.status_code, overdue.json()["type"]) == (503, "urn:almanac:problem:deadline")
                _until(lambda: "almanac_requests_in_flight 0.0" in client.get("/metrics").text)
                assert ask(client).json()["version"] == live  # its place is free again
                requested.clear()
                waiting = threads.submit(ask, client, "v0001")
                _until(lambda: "almanac_requests_in_flight 1.0" in client.get("/metrics").text)
                catalog.index("proof").close()
                closed = waiting.result(PATIENCE_S)
                problem = closed.status_code, closed.json()["type"], closed.headers["Retry-After"]
                assert problem == (503, "urn:almanac:problem:retriable", "5")
                released.set()
            _until(lambda: ask(client, "v0001").status_code == 200)


@contextmanager
def _fetched() -> Iterator[list[str]]:
    """Names of the files that are fetched inside the block."""
    names: list[str] = []

    def fetch(objects: Objects, key: str, sha256: str, path: Path, *rest: Any) -> None:
        names.append(path.name)
        _fetch(objects, key, sha256, path, *rest)

    with patch.object(Objects, "fetch", fetch):
        yield names


def test_what_is_damaged_in_the_cache_is_fetched_anew_and_what_only_was_opened_is_not(machine: Machines) -> None:
    """Cut off by half, or with each bit turned over; by whoever searches, verifies and compares."""
    reader, live = machine("damaged"), _live(machine("damaged"))
    commands = {"search": ["search", "amber"], "verify": ["verify"], "diff": ["diff", "v0001", live]}
    assert [reader(*command) for command in commands.values()] == [0, 0, 0]
    root = reader.data.for_kb("proof").root
    segment = f"index/proof/segments/{read_manifest(reader.data.index('proof'), live).segments[0].segment}"
    for pattern, command in (
        (f"{segment}/rows.arrow", "search"),
        (f"index/proof/versions/{live}/manifest.json", "search"),
        (f"{segment}/segment.json", "verify"),
        (f"{segment}/chunks.parquet", "diff"),
        ("vectors/*/*.parquet", "verify"),
    ):
        path = next(root.glob(pattern))
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if command == "search" else bytes(255 - byte for byte in whole))
        assert reader(*commands[command]) == 0, pattern
        assert path.read_bytes() == whole, pattern
    next(root.glob("vectors/*/*.parquet")).rename(path.with_name(f"{path.name}.damaged"))
    assert reader("verify") == 0 and path.is_file()
    with _fetched() as names:
        assert reader("verify") == 0
        assert reader("export", "chunks") == 0
    assert names == []
    with (
        patch("almanac.core.store.fetching.file_sha256", side_effect=OSError(errno.EMFILE, "Too many open files")),
        _fetched() as names,
    ):
        assert reader("export", "chunks") == StorageError.exit_code  # it is not taken for damaged
    assert names == []


def test_what_cannot_be_opened_though_it_is_what_was_published_is_compared_once(machine: Machines) -> None:
    reader, live = machine("compared"), _live(machine("compared"))
    with _reading(reader) as index, patch("almanac.core.store.readers.fetch_versions", wraps=fetch_versions) as fetch:
        with patch("almanac.index.versions.version_store.FORMAT", 0), pytest.raises(DamagedVersion, match="has format"):
            index.search("amber")
        assert fetch.call_count == 0
        with patch("almanac.query.published._compared", side_effect=DamagedVersion("cannot be read")):
            for _ in range(2):
                with pytest.raises(DamagedVersion, match="cannot be read"):
                    index.search("amber")
        assert [call.kwargs["is_read"] for call in fetch.call_args_list] == [True]
        assert index.search("amber").version == live


def test_a_version_that_is_removed_before_it_is_opened_is_fetched_anew(machine: Machines) -> None:
    reader, live = machine("removed"), _live(machine("removed"))
    assert reader.search("amber").version == live
    version = reader.data.index("proof") / "versions" / live
    resolved, renamed = StoreReader.resolve, list[str]()

    def resolve(store: StoreReader, name: str | None = None) -> str:
        version_name = resolved(store, name)
        if not renamed:
            renamed.append(version_name)
            version.rename(version.with_name(f".{live}.aside"))
        return version_name

    with patch.object(StoreReader, "resolve", resolve):
        assert reader.search("amber").version == live
    assert version.is_dir()


def test_what_is_damaged_in_the_copy_of_a_writer_is_left_to_him(machine: Machines) -> None:
    writer = machine("writer")
    assert writer.run()["outcome"] == "unchanged"  # so that it wrote last
    path = next(writer.data.index("proof").glob("segments/*/rows.arrow"))
    path.write_bytes(path.read_bytes()[:-9])
    if path.parent.name in {use.segment for use in read_manifest(writer.data.index("proof"), _live(writer)).segments}:
        with pytest.raises(DamagedVersion, match="rebuild"):
            writer.search("amber")
    assert writer("rebuild") == 0
    assert writer.search("amber").version == _live(writer)
