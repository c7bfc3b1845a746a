"""Batches on a Dask cluster: a real scheduler and real workers, some of which are killed, and the same result as
without them.
"""

import json
import os
import pickle
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline import item_batches, worker
from almanac.flows.pipeline.acquire import acquire
from almanac.flows.pipeline.chunk import chunk
from almanac.flows.pipeline.compare import compare
from almanac.flows.pipeline.handles import Comparison
from almanac.flows.pipeline.item_batches import cut_batch, stage_items
from almanac.flows.pipeline.map import map_pages
from almanac.flows.pipeline.page_batches import map_batch, parts_folder, stage_pages
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.validate import validate
from almanac.index.verify.verifier import verify_composition
from almanac.index.versions.version_store import read_manifest
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import AlmanacError, OperationalError, UsageError
from almanac.schemas.scope import Scope
from almanac.spiders.mapping.pages import read_cards
from tests.conftest import PATIENCE_S, ROOT, Almanac
from tests.flows.commands import carry_out
from tests.flows.dask_zygote import Forked
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.proof.base import LONG
from tests.spiders.conftest import Site, loopback_site

__all__ = ["loopback_site"]
pytestmark = pytest.mark.slow
_DECLARATION = """
name: many
sources:
  - {name: notes, kind: files, glob: "notes/*.txt", yields: documents, body: all}
chunk: {by: paragraphs, size: 60, overlap: 0}
gate: {max_failed: null, max_lost: null}
run: {engine: "${ENGINE:-dask}"}
"""


_LISTED = """
name: listed
sources:
  - name: tours
    kind: site
    start_urls: ["{base}/list"]
    match: '/t[0-9]+$'
    listing: {{match: "/list", each: {{css: ".card"}}, link: {{css: "a"}}, fields: {{price: {{css: "b"}}}}}}
    pagination: {{next: {{css: "a.next"}}}}
    yields: records
    fields: {{title: {{css: "h1", required: true}}, price: {{css: "i"}}, seen: {{css: "p"}}}}
    politeness: {{allow_private: true, delay_s: 0, robots: false}}
run: {{engine: dask}}
"""


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Cluster:
    """A scheduler and its workers; `fresh` ones are started as a shell would, the others forked
    (tests/flows/dask_zygote.py).
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self._fresh = fresh
        self.address = f"tcp://127.0.0.1:{_port()}"
        self.noted = folder / "embedded.txt"
        self._log = (folder / "dask.log").open("ab")
        self.workers: list[subprocess.Popen[bytes] | Forked] = []
        port = self.address.rpartition(":")[2]
        self.scheduler = self._begin(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-jupyter"
        )

    def add_worker(self, *options: str, **environment: str) -> int:
        self.workers.append(self._begin("tests.flows.dask_worker", self.address, *options, **environment))
        return self.workers[-1].pid

    def embedded(self) -> list[tuple[str, int]]:
        """Text hash and worker of each text that was embedded so far."""
        lines = self.noted.read_text().splitlines() if self.noted.exists() else []
        return [(line.split()[0], int(line.split()[1])) for line in lines if line.count(" ") == 1]

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        self._log.close()

    def _begin(self, module: str, *arguments: str, **environment: str) -> "subprocess.Popen[bytes] | Forked":
        if self._fresh:
            return self.start(["-m", module, *arguments], **environment)
        return Forked(module, [*arguments], self._environment(environment), Path(self._log.name))

    def start(self, arguments: list[str], **environment: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self._environment(environment),
            stdout=self._log,
            stderr=self._log,
        )

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "ALMANAC_PROOF_EMBEDDED": str(self.noted), **more}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    yield started
    started.close()


@pytest.fixture
def fresh_cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path, fresh=True)
    yield started
    started.close()


@pytest.fixture
def declared(tmp_path: Path) -> Iterator[Path]:
    """The declaration of 150 notes of ten paragraphs, each a chunk: three batches of pages or so, and a dozen
    checkpoints, of 375 texts and fewer.
    """
    path = tmp_path / "many.yaml"
    path.write_text(_DECLARATION)
    _write_notes(tmp_path, 150)
    run, worker = "almanac.flows.pipeline.run", "almanac.flows.pipeline.worker"
    described = [patch(f"{module}.describe_embedder", lambda _: INFO) for module in (run, worker)]
    with without_children(), described[0], described[1], patch(f"{run}.load_embedder", lambda *_, **__: HashEmbedder()):
        yield path


def _write_notes(folder: Path, count: int, last: str = "") -> None:
    (folder / "notes").mkdir(exist_ok=True)
    for number in range(count):
        paragraphs = [f"Paragraph {part} of note {number} says what no other one does." for part in range(10)]
        (folder / "notes" / f"{number:03}.txt").write_text(
            "\n\n".join([*paragraphs, *([last] if last and number == count - 1 else [])])
        )


def _run(declared: Path, data: Path, cluster: Cluster | str | None = None) -> dict[str, Any]:
    """The report of a run in this process."""
    environment = (
        {"ENGINE": "local"}
        if cluster is None
        else {"ALMANAC_DASK": cluster if isinstance(cluster, str) else cluster.address}
    )
    with patch.dict(os.environ, environment):
        declaration = load_declaration(str(declared), "")
        return carry_out(Run(declaration, DataDir(data)))


def _content(data: Path) -> dict[str, Any]:
    """What a data directory holds that the engine must not change: digest, counts, and the bytes of tables that have no
    times.
    """
    folder = DataDir(data)
    manifest = read_manifest(folder.index("many"), "v0001")
    tables = {
        name: _rows(folder.processed("many") / name)
        for name in ("documents.parquet", "records.parquet", "chunks.parquet", "mapped/notes.parquet")
    }
    return {
        "digest": manifest.digest,
        "counts": manifest.counts,
        "derived": manifest.derived,
        "stages": manifest.fingerprints,
        **tables,
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    for row in rows:
        row.pop("fetched_at", None)
        if "mapped" in row:
            mapped = json.loads(row["mapped"])
            row["mapped"] = {**mapped, "items": [{**item, "fetched_at": ""} for item in mapped["items"]]}
    return rows


def _meanwhile(deed: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=deed, daemon=True)
    thread.start()
    return thread


def _when_embedding(cluster: Cluster, texts: int = 1) -> int:
    """Waits until so many texts were embedded; the worker that embedded the last one."""
    deadline = time.monotonic() + PATIENCE_S
    while len(cluster.embedded()) < texts:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return cluster.embedded()[-1][1]


def test_a_killed_worker_costs_its_batch_and_results_are_those_of_the_plain_engine(
    declared: Path, tmp_path: Path, cluster: Cluster
) -> None:
    workers = {cluster.add_worker(), cluster.add_worker()}
    killed: list[int] = []

    def kill() -> None:
        killed.append(_when_embedding(cluster, 100))
        os.kill(killed[0], signal.SIGKILL)

    killing = _meanwhile(kill)
    report = _run(declared, tmp_path / "dask", cluster)
    killing.join()
    plain = _run(declared, tmp_path / "plain")
    assert killed[0] in workers
    assert (report["outcome"], report["items"], report["chunks"]) == (plain["outcome"], plain["items"], plain["chunks"])
    assert _content(tmp_path / "dask") == _content(tmp_path / "plain")
    times = Counter(text for text, _ in cluster.embedded())
    assert len(times) == plain["chunks"]["total"] > 1000
    assert sum(count - 1 for count in times.values()) <= 500, "at most one checkpoint is embedded again"
    assert not (DataDir(tmp_path / "dask").processed("many") / "mapped" / "parts").exists()
    # Another engine decides nothing: neither maps nor embeds anything anew.
    assert _run(declared, tmp_path / "dask")["outcome"] == "unchanged"


def test_a_batch_that_kills_its_workers_ends_the_run_and_is_named(
    declared: Path, tmp_path: Path, cluster: Cluster
) -> None:
    _write_notes(tmp_path, 150, last="poison")
    for _ in range(4):  # the last one refuses what three died at
        cluster.add_worker()
    with pytest.raises(OperationalError) as raised:
        _run(declared, tmp_path / "data", cluster)
    assert raised.value.exit_code == 7
    assert re.fullmatch(
        r"checkpoint 1 of \d+ of the texts to embed ended 3 processes, one after the other", raised.value.message
    )
    assert "almanac run" in str(raised.value.hint)
    _write_notes(tmp_path, 150)
    cluster.add_worker()
    before = len(cluster.embedded())
    report = _run(declared, tmp_path / "data", cluster)
    assert report["outcome"] == "published"
    assert report["chunks"]["embedded"] == len(cluster.embedded()) - before


def test_a_worker_keeps_its_model_for_runs_with_other_data(tmp_path: Path) -> None:
    worker._loaded.cache_clear()
    with patch.object(worker, "load_embedder", side_effect=lambda *_: object()):
        model = worker.model(Embed(), DataDir(tmp_path / "one"))
        assert worker.model(Embed(), DataDir(tmp_path / "other")) is model
    worker._loaded.cache_clear()


@LONG
def test_workers_build_segments_and_one_that_is_killed_costs_its_segment(
    declared: Path, tmp_path: Path, cluster: Cluster
) -> None:
    declared.write_text(_DECLARATION + "index: {segment: 400}\n")
    workers = {cluster.add_worker(), cluster.add_worker()}
    folder, killed = DataDir(tmp_path / "dask").index("many") / "segments", list[int]()

    def kill() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not list(folder.glob(".made.*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.append(cluster.workers[0].pid)
        os.kill(killed[0], signal.SIGKILL)

    killing = _meanwhile(kill)
    with patch("almanac.index.composing.made_segments.build_version", side_effect=AssertionError("built by workers")):
        report = _run(declared, tmp_path / "dask", cluster)
    killing.join()
    assert workers.issuperset(killed)
    assert report["outcome"] == "published"
    _run(declared, tmp_path / "plain")
    assert _content(tmp_path / "dask") == _content(tmp_path / "plain")
    sizes = [
        [use.chunks for use in read_manifest(DataDir(tmp_path / name).index("many"), "v0001").segments]
        for name in ("dask", "plain")
    ]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) > 1
    assert (
        verify_composition(
            folder.parent,
            folder.parent / "versions" / "v0001",
            read_manifest(folder.parent, "v0001").segments,
            DataDir(tmp_path / "dask").processed("many") / "chunks.parquet",
            INFO,
        )
        == []
    )
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".staged")]


@LONG
def test_a_lost_scheduler_ends_the_run_and_the_next_one_goes_on(
    declared: Path, tmp_path: Path, cluster: Cluster
) -> None:
    cluster.add_worker()

    def kill() -> None:
        _when_embedding(cluster, 700)
        cluster.scheduler.kill()

    killing = _meanwhile(kill)
    # Who the workers are is asked all the time, so that the kill hits a request: its connection breaks before the
    # client knows that the scheduler is gone.
    with (
        patch("almanac.flows.pipeline.batches._LOOK_S", 0.01),
        patch("almanac.flows.cluster._CONNECT_S", 2),
        pytest.raises(OperationalError) as raised,
    ):
        _run(declared, tmp_path / "data", cluster)
    killing.join()
    assert (raised.value.exit_code, raised.value.where) == (7, cluster.address)
    assert "does not answer" in raised.value.message
    assert "goes on from what is written" in str(raised.value.hint)
    with closing(Cluster(tmp_path)) as other:  # notes in the same file
        other.add_worker()
        report = _run(declared, tmp_path / "data", other)
        _run(declared, tmp_path / "plain")
        assert report["outcome"] == "published"
        assert report["chunks"]["embedded"] <= 1125, "the first checkpoint was written: a quarter"
        assert _content(tmp_path / "data") == _content(tmp_path / "plain")


def test_a_batch_is_mapped_once_also_by_a_later_run(declared: Path, tmp_path: Path) -> None:
    """Its part is found by the pages and the rules. Pages that come and go change the batches that they belong to, and
    no others.
    """
    declaration = load_declaration(str(declared), "")
    parts = parts_folder(Run(declaration, DataDir(tmp_path / "data")))

    def map_all(last: int | None = None, *, full: bool = False) -> dict[str, int]:
        run = Run(declaration, DataDir(tmp_path / "data"), Scope(full=full))
        [source] = declaration.sources
        batches = stage_pages(run, (acquire(run, source, None),))
        for number in range(1, (last or batches.count) + 1):
            map_batch(run, batches, number)
        assert max(len(pickle.dumps(handle)) for handle in (run, batches)) < 64 << 10
        return {path.name: path.stat().st_ino for path in parts.glob("*.parquet")}

    first = map_all(1)
    assert len(first) == 1
    every = map_all()
    assert len(every) > 2
    assert every.items() >= first.items()
    (tmp_path / "notes" / "000.txt").unlink()
    later = map_all()
    assert len(later.items() & every.items()) >= len(every) - 2
    assert len(later) <= len(every)
    assert not map_all(full=True).keys() & later.keys(), "what is to be mapped anew is"


@pytest.fixture
def _much_to_cut() -> Iterator[None]:
    """Documents are cut by others, at most twenty at a time, however few they are."""
    with patch.multiple("almanac.flows.pipeline.item_batches", _WORTH_SHARING=1, _ITEMS=20, _BEGINS=15):
        yield


@pytest.mark.usefixtures("_much_to_cut")
def test_workers_cut_documents_and_chunks_are_those_of_the_plain_engine(
    declared: Path, tmp_path: Path, cluster: Cluster
) -> None:
    cluster.add_worker()
    cluster.add_worker()
    with patch("almanac.flows.pipeline.chunk.cut_items", side_effect=AssertionError("cut by workers")):
        first = _run(declared, tmp_path / "dask", cluster)
        for number in (3, 149):  # what stays the same is copied, what is new or changed is cut
            (tmp_path / "notes" / f"{number:03}.txt").write_text(
                f"Note {number} is another one now.\n\nIt says so twice."
            )
        second = _run(declared, tmp_path / "dask", cluster)
    assert not (DataDir(tmp_path / "dask").processed("many") / "cut").exists()
    plain = _run(declared, tmp_path / "plain")
    assert (first["chunks"]["total"], second["chunks"]["total"]) == (1500, plain["chunks"]["total"])
    manifests = [
        read_manifest(DataDir(tmp_path / name).index("many"), version)
        for name, version in (("dask", "v0002"), ("plain", "v0001"))
    ]
    assert manifests[0].digest == manifests[1].digest
    assert manifests[0].fingerprints == manifests[1].fingerprints


def test_documents_cut_by_topic_are_cut_by_who_has_the_model(declared: Path, tmp_path: Path, cluster: Cluster) -> None:
    """Which asks the embedder, however little there is to cut."""
    declared.write_text(_DECLARATION.replace("by: paragraphs, size: 60, overlap: 0", "by: semantic, size: 200"))
    _write_notes(tmp_path, 12)
    with_gpu = cluster.add_worker("--resources", "GPU=1")
    cluster.add_worker()
    with patch("almanac.flows.pipeline.chunk.cut_items", side_effect=AssertionError("cut by workers")):
        _run(declared, tmp_path / "dask", cluster)
    assert {worker for _, worker in cluster.embedded()} == {with_gpu}
    _run(declared, tmp_path / "plain")
    assert _content(tmp_path / "dask") == _content(tmp_path / "plain")


@pytest.mark.usefixtures("_much_to_cut")
def test_a_batch_is_cut_once_also_by_a_later_run_and_again_where_its_part_is_lost(
    declared: Path, tmp_path: Path
) -> None:
    declaration = load_declaration(str(declared), "")
    [source] = declaration.sources

    def compared(*, full: bool = False) -> tuple[Run, Comparison]:
        run = Run(declaration, DataDir(tmp_path / "data"), Scope(full=full))
        items = map_pages(run, (acquire(run, source, None),))
        return run, compare(run, items, validate(run, items), None)

    def cut_all(last: int | None = None, *, full: bool = False) -> dict[str, int]:
        run, comparison = compared(full=full)
        batches = stage_items(run, comparison, None)
        for number in range(1, (last or batches.count) + 1):
            cut_batch(run, batches, number)
        assert max(len(pickle.dumps(handle)) for handle in (run, batches)) < 64 << 10
        return {path.name: path.stat().st_ino for path in item_batches.parts_folder(run).glob("*.parquet")}

    first, every = cut_all(3), cut_all()
    assert len(first) == 3
    assert len(every) >= 8
    assert every.items() > first.items()
    assert cut_all() == every
    (tmp_path / "notes" / "000.txt").unlink()
    assert len(cut_all().items() & every.items()) >= len(every) - 2, "one less changes its batch"
    _write_notes(tmp_path, 150)
    assert not cut_all(full=True).keys() & every.keys(), "what is to be cut anew is"

    run, comparison = compared()
    batches = stage_items(run, comparison, None)
    for number in range(1, batches.count + 1):
        cut_batch(run, batches, number)
    lost, damaged = sorted(item_batches.parts_folder(run).glob("*.parquet"))[:2]
    lost.unlink()
    damaged.write_bytes(b"PAR1")
    tables = {}
    for name, given in (("parts", batches), ("plain", None)):
        run, comparison = (run, comparison) if given else compared()
        tables[name] = pq.read_table(chunk(run, comparison, None, batches=given).chunks).drop_columns("fetched_at")
    assert tables["parts"].equals(tables["plain"])
    assert tables["plain"].num_rows == 1500


@pytest.mark.usefixtures("declared")
def test_listing_pages_are_read_once_and_items_are_those_of_the_plain_engine(
    tmp_path: Path, loopback_site: Site
) -> None:
    """Cards are found when pages are staged; what workers and the run map after that has them from there."""
    cards = [f"<div class=card><a href='/t{n}'>Tour {n}</a><b>{n} EUR</b></div>" for n in range(90)]
    for number in range(3):
        following = f"<a class=next href='/list?page={number + 1}'>next</a>" if number < 2 else ""
        loopback_site.page(f"/list?page={number}" if number else "/list", "".join(cards[number::3]) + following)
    for n in range(90):
        loopback_site.page(f"/t{n}", f"<h1>Tour {n}</h1><p>What is seen on tour {n}.</p>")
    path = tmp_path / "listed.yaml"
    path.write_text(_LISTED.format(base=loopback_site.base))
    declaration = load_declaration(str(path), "")
    [source] = declaration.sources
    items = {}
    for engine in ("plain", "dask"):
        run = Run(declaration, DataDir(tmp_path / engine))
        pages = (acquire(run, source, None),)
        with patch("almanac.spiders.mapping.pages.read_cards", wraps=read_cards) as read:
            batches = stage_pages(run, pages) if engine == "dask" else None
            if batches is not None:
                for number in range(1, batches.count + 1):
                    map_batch(run, batches, number)
                with patch("almanac.flows.pipeline.map.map_page", side_effect=AssertionError("mapped by workers")):
                    items[engine] = map_pages(run, pages, batches=batches)
            else:
                items[engine] = map_pages(run, pages)
        assert read.call_count == 3, engine
    rows = {engine: _rows(handle.table) for engine, handle in items.items()}
    assert rows["dask"] == rows["plain"]
    assert len(rows["plain"]) == 90
    assert "7 EUR" in str(rows["plain"])


def test_a_worker_with_another_model_or_other_code_is_refused(declared: Path, tmp_path: Path, cluster: Cluster) -> None:
    cluster.add_worker(ALMANAC_PROOF_FINGERPRINT="feedfacefeedface")
    with pytest.raises(UsageError) as raised:
        _run(declared, tmp_path / "data", cluster)
    assert raised.value.exit_code == 2
    assert str(raised.value.where).startswith("worker ")
    assert raised.value.message == f"the worker's embedder is feedfacefeedface, the run's is {INFO.fingerprint}"
    with closing(Cluster(tmp_path, fresh=True)) as other:
        package = tmp_path / "other" / "almanac"
        for room in ("schemas", "core", "spiders", "transforms", "index", "query", "flows", "cli"):
            shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
        (package / "pyproject.toml").touch()
        with (package / "transforms" / "clean.py").open("a") as code:
            code.write("\nLATER = True\n")
        other.add_worker(PYTHONPATH=str(package.parent))
        with pytest.raises(UsageError) as raised:
            _run(declared, tmp_path / "data", other)
    assert "the worker's cleaning is" in raised.value.message
    assert "the run's is" in raised.value.message


@LONG
def test_workers_with_a_gpu_embed_where_some_declare_one(declared: Path, tmp_path: Path, cluster: Cluster) -> None:
    with_gpu = cluster.add_worker("--resources", "GPU=1")
    cluster.add_worker()
    assert _run(declared, tmp_path / "data", cluster)["outcome"] == "published"
    assert {worker for _, worker in cluster.embedded()} == {with_gpu}


@pytest.mark.parametrize(
    ("address", "message"),
    [("", "names no cluster"), ("127.0.0.1:8786", "no address"), ("local[0]", "no address"), ("local", "no address")],
)
def test_a_cluster_that_cannot_be_is_refused_before_anything_is_done(
    declared: Path, tmp_path: Path, address: str, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        _run(declared, tmp_path / "data", address)
    assert message in raised.value.message
    assert "ALMANAC_DASK=tcp://HOST:PORT" in str(raised.value.hint)
    assert not (tmp_path / "data").exists()


def test_without_the_extra_the_error_names_it(declared: Path, tmp_path: Path) -> None:
    with (
        patch("almanac.core.extras.missing_package", lambda _: "distributed is not installed"),
        pytest.raises(UsageError) as raised,
    ):
        _run(declared, tmp_path / "data", "local[2]")
    assert "the extra 'dask'" in raised.value.message
    assert "almanac[dask]" in str(raised.value.hint)


def test_a_scheduler_that_nobody_finds_ends_the_run(declared: Path, tmp_path: Path) -> None:
    with patch("almanac.flows.cluster._CONNECT_S", 1), pytest.raises(AlmanacError) as raised:
        _run(declared, tmp_path / "data", f"tcp://127.0.0.1:{_port()}")
    assert (raised.value.exit_code, raised.value.report["outcome"] if raised.value.report else None) == (7, "failed")


@LONG
def test_local_workers_do_the_batches_as_tasks_of_prefect(tmp_path: Path, prefect_home: Path, prefect_api: str) -> None:
    """The command as a user starts it, with the bundled model."""
    (tmp_path / "here.yaml").write_text(_DECLARATION.replace("name: many", "name: by-dask"))
    _write_notes(tmp_path, 70)
    almanac = Almanac(
        tmp_path / "data",
        {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": prefect_api, "ALMANAC_DASK": "local[2]"},
        fresh=True,
    )
    done = almanac("run", str(tmp_path / "here.yaml"), "--json")
    assert (done.code, done.json["outcome"]) == (0, "published"), done.stderr
    assert "Traceback" not in done.stderr
    plain = almanac("run", str(tmp_path / "here.yaml"), "--json", ENGINE="local")
    assert plain.json["outcome"] == "unchanged"
    query = (
        "select task_run.name, task_run.state_type from task_run join flow_run on flow_run.id = flow_run_id where "
        "flow_run.name like 'by-dask%'"
    )
    deadline, tasks = time.monotonic() + PATIENCE_S, dict[str, str]()
    while tasks.get("embed checkpoint 1") != "COMPLETED":
        assert time.monotonic() < deadline, tasks
        time.sleep(0.2)
        with closing(sqlite3.connect(prefect_home / "prefect.db")) as database:
            tasks = dict(database.execute(query).fetchall())
    assert {name for name in tasks if name.startswith("map batch")} >= {"map batch 1"}
    assert set(tasks.values()) == {"COMPLETED"}
