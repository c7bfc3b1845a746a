"""A run on a cluster with its data in a store: kill -9 of workers, scheduler and writer, and a connection to the store
that drops, at random moments.

Four of them by default; with ALMANAC_TORTURE=1 as many as ALMANAC_KILLS says, 200 by default, from the seed
ALMANAC_SEED. What is left is gone on with, until a version is published: it has the digest of a run that nothing
disturbed, everything that CURRENT names is in the store, and hardly a text was embedded twice.
"""

import json
import os
import random
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.store.session import fetch
from almanac.flows.pipeline.run import Run
from almanac.index.versions.version_store import read_manifest
from almanac.schemas.errors import OperationalError
from tests.conftest import PATIENCE_S
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.loopback.dropping import DroppingProxy
from tests.loopback.s3 import Bucket, require_whole
from tests.proof.base import PROOF, TORTURE
from tests.proof.cluster_processes import CHECKPOINT, start

pytestmark = PROOF
_KILLS = int(os.environ.get("ALMANAC_KILLS", "200")) if TORTURE else 4
_SEED = int(os.environ.get("ALMANAC_SEED", "20"))
_NOTES, _PARAGRAPHS = 60, 10
_WORKERS = 2
_KINDS = ("worker", "scheduler", "writer", "connection")
_DECLARATION = """
name: proof
sources:
  - {name: notes, kind: files, glob: "notes/*.txt", yields: documents, body: all}
chunk: {by: paragraphs, size: 60, overlap: 0}
gate: {max_failed: null, max_lost: null}
index: {segment: 250}
run: {engine: "${ENGINE:-dask}"}
"""


class _Stage:
    """The cluster, the writer and the store of one knowledge base after the other."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self._folder, self._bucket = folder, bucket
        at = urlsplit(bucket.endpoint)
        assert at.hostname is not None
        assert at.port is not None
        self._proxy = DroppingProxy(at.hostname, at.port)
        self._environment = {
            **bucket.environment, "AWS_ENDPOINT_URL": f"http://{self._proxy.address}",
            "ALMANAC_CACHE": str(folder / "cache"),
            "ALMANAC_PROOF_EMBEDDED": str(folder / "embedded.txt"), "ALMANAC_PROOF_TEXT_S": "0.002",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._port = server.getsockname()[1]
        self._round = 0
        self._start_cluster()
        self.begin()

    def begin(self) -> None:
        """Begins with a knowledge base that is not there yet."""
        self._round += 1
        self.url = f"{self._bucket.url}-{self._round}"
        self.report = self._folder / f"report-{self._round}.json"
        (self._folder / "embedded.txt").write_text("")
        self.start_writer()

    def start_writer(self) -> None:
        address = f"tcp://127.0.0.1:{self._port}"
        self.writer = self._start(
            "writer", str(self._folder / "proof.yaml"), self.url, str(self.report), ALMANAC_DASK=address
        )

    def hurt(self, kind: str, dice: random.Random) -> None:
        if kind == "worker":
            number = dice.randrange(_WORKERS)
            _kill(self.workers[number])
            self.workers[number] = self._start_worker()
        elif kind == "scheduler":
            _kill(self.scheduler)
            self._start_cluster()  # the workers of before finish what they are at, and end
        elif kind == "writer":
            _kill(self.writer)
        else:
            self._proxy.drop(dice.uniform(0, 0.5))

    def wait(self, steps: int | None) -> None:
        """Waits until so much more was done, None for all, or the writer has ended: so kills hit all of a run, however
        busy the machine is.
        """
        before, deadline = self._done, time.monotonic() + 2 * PATIENCE_S
        while self.writer.exitcode is None and (steps is None or self._done < before + steps):
            assert time.monotonic() < deadline, self.log()
            self.writer.join(0.02)

    @property
    def _done(self) -> int:
        """Texts that were embedded, and files that were written, which count for ten texts."""
        with (self._folder / "embedded.txt").open("rb") as file:
            texts = sum(1 for _ in file)
        return texts + 10 * sum(len(files) for _, _, files in os.walk(self._folder / "cache" / "stores"))

    @property
    def embedded_again(self) -> int:
        """Texts that were embedded more than once in this round."""
        lines = [
            line.split()[0] for line in (self._folder / "embedded.txt").read_text().splitlines() if line.count(" ") == 1
        ]
        return len(lines) - len(set(lines))

    def log(self) -> str:
        return (self._folder / "log.txt").read_text()[-4000:]

    def close(self) -> None:
        for process in (self.writer, self.scheduler, *self.workers):
            _kill(process)
        self._proxy.close()

    def _start_cluster(self) -> None:
        self.scheduler = self._start("scheduler", str(self._port))
        self.workers = [self._start_worker() for _ in range(_WORKERS)]

    def _start_worker(self) -> ForkServerProcess:
        return self._start("worker", f"tcp://127.0.0.1:{self._port}")

    def _start(self, what: str, *arguments: str, **more: str) -> ForkServerProcess:
        return start(what, self._folder / "log.txt", {**self._environment, **more}, *arguments)


def _kill(process: ForkServerProcess) -> None:
    process.kill()
    process.join()


@pytest.fixture
def stage(tmp_path: Path, bucket: Bucket) -> Iterator[_Stage]:
    (tmp_path / "proof.yaml").write_text(_DECLARATION)
    (tmp_path / "notes").mkdir()
    for number in range(_NOTES):
        paragraphs = (f"Paragraph {part} of note {number} says what no other one does." for part in range(_PARAGRAPHS))
        (tmp_path / "notes" / f"{number:03}.txt").write_text("\n\n".join(paragraphs))
    with closing(_Stage(tmp_path, bucket)) as made:
        yield made


def test_kills_of_workers_scheduler_writer_and_connection_change_nothing(
    stage: _Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, kills, hurt, ends = random.Random(_SEED), 0, Counter[str](), Counter[int]()
    undisturbed = _digest_undisturbed(tmp_path)
    worst = 0.0
    while kills < _KILLS:
        again_at_most, ended = 0, ends.total()
        while not stage.report.exists():
            stage.wait(dice.randrange(400) if kills < _KILLS else None)
            if stage.writer.exitcode is None and kills < _KILLS:
                kind = _KINDS[kills % len(_KINDS)] if not TORTURE else dice.choice(_KINDS)
                stage.hurt(kind, dice)
                kills, hurt[kind] = kills + 1, hurt[kind] + 1
                again_at_most += CHECKPOINT * (1 if kind == "worker" else _WORKERS)
            if stage.writer.exitcode is not None and not stage.report.exists():
                ends[stage.writer.exitcode] += 1
                assert stage.writer.exitcode in (-9, OperationalError.exit_code), stage.log()
                stage.start_writer()
        stage.writer.join()
        again = stage.embedded_again
        assert again <= again_at_most, (again, hurt, stage.log())
        worst = max(worst, again / max(1, again_at_most))
        report = json.loads(stage.report.read_text())
        if ends.total() == ended:
            assert report["outcome"] == "published", stage.log()
        else:  # what a run published that was killed before its end, the next one finds
            assert report["outcome"] in ("published", "unchanged"), stage.log()
        assert report["chunks"]["total"] == _NOTES * _PARAGRAPHS
        assert _digest_in_store(stage.url, tmp_path / "reader", monkeypatch) == undisturbed
        shutil.rmtree(tmp_path / "cache" / "stores")
        if kills < _KILLS:
            stage.begin()
    assert set(hurt) == set(_KINDS) or TORTURE
    summary = (
        f"{kills} kills from seed {_SEED}: {dict(hurt)}; writers ended with {dict(ends)}; embedded again at most "
        f"{worst:.0%} of what may be"
    )
    sys.stderr.write(f"\n{summary}\n")


def _digest_undisturbed(folder: Path) -> str:
    with (
        patch.dict(os.environ, ENGINE="local"),
        without_children(),
        patch("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO),
        patch("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder()),
    ):
        data = DataDir(folder / "undisturbed")
        carry_out(Run(load_declaration(str(folder / "proof.yaml"), ""), data))
    return read_manifest(data.index("proof"), "v0001").digest


def _digest_in_store(url: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The digest of the live version, of which everything is in the store; read by a machine that has nothing yet."""
    head = require_whole(url, "proof", cache)
    monkeypatch.setenv("ALMANAC_CACHE", str(cache))
    data = DataDir.locate(url)
    fetch(data, "proof")
    return read_manifest(data.index("proof"), str(head.version)).digest
