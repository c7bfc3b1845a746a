"""A knowledge base in an object store: written from one machine, continued from another, read from a third."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from almanac.cli.main import run as almanac
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import read_head
from almanac.core.store.session import fetch, writing
from almanac.flows.pipeline.run import Run
from almanac.query import open_index
from almanac.schemas.errors import NothingPublished, RunLocked, StoreAway, UsageError
from tests.conftest import ROOT
from tests.flows.commands import before, carry_out
from tests.loopback.s3 import Bucket, overwrite, require_whole, without_conditions
from tests.proof.acts import CHECKPOINT, small_and_here
from tests.proof.base import make_place, put, text_of
from tests.proof.noting import noted

_CONTENT = {f"{name}.txt": text_of(name) for name in ("amber", "basalt", "cedar", "delta", "ebony")}


@dataclass
class Machine:
    """A machine: a cache of its own, and the place with the declaration."""

    place: Path
    cache: Path
    url: str

    @property
    def data(self) -> DataDir:
        os.environ["ALMANAC_CACHE"] = str(self.cache)
        return DataDir.locate(self.url)

    @property
    def kb(self) -> str:
        return str(self.place / "proof.yaml")

    def run(self, **options: Any) -> dict[str, Any]:
        with small_and_here(self.place):
            return carry_out(Run(load_declaration(self.kb), self.data.for_kb("proof")), **options)

    def __call__(self, *arguments: str) -> int:
        """The exit code of a command in this process, whose stdout stays as it is."""
        with small_and_here(self.place), patch("almanac.cli.main.reserve_stdout"):
            return almanac([arguments[0], self.kb, *arguments[1:], "--data", self.data.place])

    def search(self, question: str, **options: Any) -> Any:
        with small_and_here(self.place), open_index(self.kb, data=self.data.place, **options) as index:
            return index.search(question)


@pytest.fixture
def machine(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Machine]:
    """Makes machines that share a bucket, and have nothing else in common but what they crawl."""
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path))
    place = make_place(tmp_path / "place", _CONTENT)
    return lambda name: Machine(place, tmp_path / name, bucket.url)


Machines = Callable[[str], Machine]


def test_a_base_is_continued_from_another_machine_with_nothing_done_again(machine: Machines) -> None:
    here, there = machine("here"), machine("there")
    first = here.run()
    assert (first["outcome"], first["chunks"]["embedded"]) == ("published", 10)
    put(there.place, {**_CONTENT, "fir.txt": text_of("fir")})
    second = there.run()
    assert (second["outcome"], second["chunks"]["embedded"], second["items"]["unchanged"]) == ("published", 2, 5)
    back = here.run()  # the first machine, whose working copy is a run behind
    assert (back["outcome"], back["chunks"]["embedded"], back["version"]) == ("unchanged", 0, second["version"])
    require_whole(here.url, "proof", here.cache)
    reader = machine("reader")
    assert reader.search("Paragraph 1 of fir").version == second["version"]
    assert reader.search("Paragraph 1 of amber", version=first["version"]).version == first["version"]
    assert not (reader.data.for_kb("proof").root / "raw").exists()


def test_every_command_works_on_the_store(machine: Machines, capfd: pytest.CaptureFixture[str]) -> None:
    """But for `run`, `forget` and `rebuild`, which others prove."""
    here = machine("here")
    with pytest.raises(NothingPublished):
        here.search("amber")
    here.run()
    put(here.place, {**_CONTENT, "fir.txt": text_of("fir")})
    here.run()

    def run_for_json(name: str, *arguments: str) -> Any:
        capfd.readouterr()
        command, *rest = arguments
        assert machine(name)(command, *rest, "--json") == 0
        return json.loads(capfd.readouterr().out)

    assert [row["version"] for row in run_for_json("reader", "versions")["versions"]] == ["v0002", "v0001"]
    assert run_for_json("reader", "diff", "v0001", "v0002")["items"]["added"] == 1
    assert run_for_json("reader", "verify")["ok"]
    assert run_for_json("writer", "rollback") == {"kb": "proof", "current": "v0001", "previous": "v0002"}
    status = run_for_json("reader", "status")
    assert (status["current"], status["last_run"]["version"]) == ("v0001", "v0002")
    assert run_for_json("writer", "publish", "v0002")["current"] == "v0002"
    assert run_for_json("planner", "plan")["outcome"] == "unchanged"
    assert machine("reader")("export", "vectors") == 0
    assert len(capfd.readouterr().out.splitlines()) == 12
    assert run_for_json("reader", "promote", "v0002", "--to", f"{here.url}-production")["published"]
    assert Machine(here.place, here.cache, f"{here.url}-production").search("Paragraph 1 of amber").hits
    assert machine("reader")("search", "amber", "--version", "v0009") == UsageError.exit_code
    assert "there are: v0001, v0002" in capfd.readouterr().err
    objects = Objects(here.url)
    overwrite(objects, "objects/proof/ff/unneeded", b"left by a push that was killed")
    assert run_for_json("writer", "prune")["kb"] == "proof"
    assert objects.read("objects/proof/ff/unneeded") is not None, "it is not a day old"
    with patch("almanac.core.store.session._DAY_S", -1.0):
        assert run_for_json("writer", "prune")["kb"] == "proof"
    assert objects.read("objects/proof/ff/unneeded") is None
    require_whole(here.url, "proof", here.cache)


def test_a_run_that_was_paused_while_another_took_over_publishes_nothing(machine: Machines) -> None:
    here, there = machine("here"), machine("there")
    here.run()
    put(here.place, {**_CONTENT, "fir.txt": text_of("fir")})

    def take_over(*_: Any) -> None:
        with patch("almanac.core.store.pointer._EXPIRES_S", -1.0):
            assert there.run()["outcome"] == "published"
        os.environ["ALMANAC_CACHE"] = str(here.cache)

    with pytest.raises(RunLocked, match="lost the lock"), before("stage_texts", take_over):
        here.run()
    assert read_head(Objects(here.url), "proof").head.version == "v0002"
    assert here.run()["outcome"] == "unchanged"
    require_whole(here.url, "proof", here.cache)
    with writing(here.data, "proof", "a long run"):
        for other in (here, there):  # of the same machine, and of another
            with pytest.raises(RunLocked, match="being written by a long run"):
                other.run()
            assert other("rollback") == RunLocked.exit_code
            assert other.search("Paragraph 1 of amber").version == "v0002"  # reading goes on


_KILLED = """
import os, signal, sys, time
from pathlib import Path
from unittest.mock import patch
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import read_head
from almanac.flows import refresh
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.run import Run
from tests.proof.acts import small_and_here

place, url, begun = Path(sys.argv[1]), sys.argv[2], []
embed = refresh.embed_texts

def dying(*arguments):
    if begun:
        while "vectors" not in read_head(Objects(url), "proof").head.areas:
            time.sleep(0.05)
    done = embed(*arguments)
    if begun:
        os.kill(os.getpid(), signal.SIGKILL)  # embedded, and not pushed
    begun.append(done)
    return done

with small_and_here(place), patch.object(refresh, "embed_texts", dying):
    refresh.carry_out(Ledger(Run(load_declaration(str(place / "proof.yaml")), DataDir.locate(url).for_kb("proof"))))
"""


def test_a_run_that_was_killed_is_continued_elsewhere_and_embeds_one_checkpoint_again(machine: Machines) -> None:
    here, there, whole = machine("here"), machine("there"), machine("whole")
    assert here.data.url
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(here.place), here.url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(noted(here.place / "embedded.txt")) == 2 * CHECKPOINT
    assert read_head(Objects(here.url), "proof").head.areas
    report = there.run()  # the lock of a process that has died is taken over at once
    assert report["outcome"] == "published"
    assert 10 - 2 * CHECKPOINT <= report["chunks"]["embedded"] <= 10 - CHECKPOINT, (
        "the second one may have been pushed just before"
    )
    require_whole(here.url, "proof", here.cache)
    whole.url += "-whole"
    assert whole.run()["version"] == report["version"]
    digests = {
        Objects(url).read("heads/proof/CURRENT") is not None and _digest(stored_machine)
        for stored_machine, url in ((there, there.url), (whole, whole.url))
    }
    assert len(digests) == 1


def _digest(machine: Machine) -> str:
    data = machine.data
    fetch(data, "proof")
    return str(json.loads((data.versions("proof") / "v0001" / "manifest.json").read_text())["digest"])


def test_work_that_could_not_be_pushed_is_pushed_by_the_next_command(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = machine("here")
    here.run()
    put(here.place, {**_CONTENT, "fir.txt": text_of("fir")})

    def lose_the_store(*_: Any) -> None:
        monkeypatch.setattr(Objects, "write", _away)
        monkeypatch.setattr(Objects, "upload", _away)

    def _away(*_: Any, **__: Any) -> None:
        raise StoreAway("the object store does not answer")

    with monkeypatch.context() as lost:
        monkeypatch = lost
        with pytest.raises(StoreAway), before("stage_texts", lose_the_store):
            here.run()
    assert read_head(Objects(here.url), "proof").head.version == "v0001"
    with patch("almanac.core.store.pointer._EXPIRES_S", -1.0):  # its process lives: this one
        report = here.run()
    assert (report["outcome"], report["chunks"]["embedded"], report["version"]) == ("unchanged", 0, "v0002")
    assert machine("reader").search("Paragraph 1 of fir").version == "v0002"


def test_a_store_that_cannot_be_used_is_an_error_with_a_next_step(
    machine: Machines, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = machine("here")
    with without_conditions(bucket.endpoint) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UsageError, match="no conditional writes"):
            here.run()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreAway, match="does not answer"):
        here.run()
    assert [here(*command) for command in (["search", "x"], ["versions"], ["status"], ["verify"], ["rollback"])] == [
        StoreAway.exit_code
    ] * 5


@pytest.mark.parametrize("place", ["s3://no-such-bucket/kept", "s3://{bucket}/mistyped"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["prune"],
        ["compact"],
        ["rollback"],
        ["publish", "v0001"],
        ["forget", "http://x/1"],
        ["forget", "http://x/1", "--anyway"],
        ["verify"],
    ],
)
def test_a_mistyped_place_in_a_store_is_refused_and_nothing_is_written_there(
    machine: Machines, bucket: Bucket, capfd: pytest.CaptureFixture[str], place: str, arguments: list[str]
) -> None:
    here = machine("here")
    here.url = place.format(bucket=bucket.name)
    assert here(*arguments) == 2
    assert here.url in capfd.readouterr().err or arguments == ["verify"]
    assert list(Objects(f"s3://{bucket.name}").listed("")) == []
    assert not any(here.cache.glob("stores/*/*")) or arguments == ["verify"]
