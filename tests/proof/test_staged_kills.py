"""kill -9 of a whole run while it embeds and its rows go into the staged collection: the next run sends only those that
are missing there, and publishes what a run that nobody killed publishes.
"""

import json
import os
import random
import re
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from almanac.index.chroma.leftover import STAGED
from tests.conftest import PATIENCE_S
from tests.proof.base import PROOF, TORTURE
from tests.proof.test_kills import Command, _require_same, _until_gone

pytestmark = PROOF

_ROWS, _PART = 3000, 500
_KILLS = 40 if TORTURE else 3

_DECLARATION = """
name: proof
sources:
  - name: corpus
    kind: files
    glob: "corpus.jsonl"
    yields: records
    id: "{id}"
    fields: {id: {json: id, required: true}, text: {json: text, required: true}}
    text: "{text}"
"""


def _write_corpus(place: Path, revision: int = 0) -> None:
    rows = [{"id": str(n), "text": f"Row {n} in revision {revision if n == 7 else 0}."} for n in range(_ROWS)]
    (place / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _kill_at(command: Command, embedded: int, wait_s: float) -> None:
    """Kills a run that embeds a while after it has embedded so many texts more."""
    wanted, deadline = len(command.embedded) + embedded, time.monotonic() + PATIENCE_S
    process = command.start(PREFECT_API_URL=command.api)
    while len(command.embedded) < wanted:
        assert process.poll() is None, (command.place / "err.txt").read_text()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(wait_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _until_gone(command)


def _rows(command: Command) -> tuple[int, int]:
    """Rows that a run has found in the staged collection, and those that it sent, as it logged them."""
    log = re.sub(r"\x1b\[[\d;]*m", "", (command.place / "err.txt").read_text())
    event = re.search(r"rows already in the staged collection.*", log)
    counts = dict(re.findall(r"(rows|sent)=(\d+)", event[0])) if event else {}
    return int(counts.get("rows", 0)), int(counts.get("sent", 0))


def test_a_run_after_a_kill_sends_only_rows_that_the_staged_collection_lacks(
    tmp_path: Path, prefect_home: Path, prefect_api: str
) -> None:
    chance = random.Random(11)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "proof.yaml").write_text(_DECLARATION)
    _write_corpus(empty)
    slow = {"PREFECT_HOME": str(prefect_home), "ALMANAC_PROOF_TEXT_S": "0.005"}  # else the builder comes too late
    origin = Command(empty, slow, prefect_api)

    def copied(name: str) -> Command:
        return replace(origin, place=Path(shutil.copytree(empty, tmp_path / name)))

    wanted = copied("wanted")
    assert wanted.finish()["outcome"] == "published"
    counts: list[Any] = []
    for number in range(_KILLS):
        command = copied(f"killed-{number}")
        _kill_at(command, chance.choice((2, 4, 6)) * _PART, chance.uniform(0, 0.8))
        if number % 2:  # and the recovery is killed, too
            _kill_at(command, 1, chance.uniform(0, 0.8))
        assert command.finish()["outcome"] == "published"
        counts.append(_rows(command))
        assert not (command.data.index("proof") / STAGED).exists()
        _require_same(command, wanted)
    print(f"rows found and sent: {counts}")  # noqa: T201
    assert any(staged >= _PART for staged, _ in counts)
    assert all(sent == _ROWS - staged for staged, sent in counts if staged)

    command = copied("changed")
    _kill_at(command, 4 * _PART, 0.5)
    _write_corpus(command.place, revision=1)
    report = command.finish()
    assert (report["outcome"], _rows(command)[0]) == ("published", 0)
    assert report["chunks"]["embedded"] <= _ROWS - 3 * _PART
    assert not (command.data.index("proof") / STAGED).exists()
