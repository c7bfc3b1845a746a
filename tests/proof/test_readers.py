"""Readers meanwhile: while versions are published, rolled back, made anew, pruned, whoever searches gets answers, each
from one whole version.

Four processes search without a pause: 1,500 queries by default, 100,000 with ALMANAC_TORTURE=1.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from almanac.core.settings import DataDir
from almanac.index.versions.version_store import version_names
from tests.conftest import ROOT
from tests.proof.base import PROOF, TORTURE, Content, Stage, declare, make_place, put, text_of

pytestmark = PROOF

_READERS = 4
_QUERIES = 100_000 if TORTURE else 1_500
_NOTES = 30


class _Index:
    """The writer's side, which notes the chunk ids that each version has, and had."""

    def __init__(self, stage: Stage, place: Path) -> None:
        self.ids: dict[str, set[str]] = {}
        self.acts: Counter[str] = Counter()
        self.pruned: set[str] = set()
        self._stage, self._place = stage, place
        self._index_dir = DataDir(place / "data").index("proof")

    def __call__(self, act: str, **arguments: str) -> None:
        done = self._stage(act, self._place, **arguments)
        assert "error" not in done or done["error"] is None, done
        self.acts[act] += 1
        names = version_names(self._index_dir)
        for name in names:
            chunks = pq.read_table(self._index_dir / "versions" / name / "chunks.parquet", columns=["chunk_id"])
            self.ids.setdefault(name, set()).update(chunks.column(0).to_pylist())
        self.pruned = self.ids.keys() - set(names)

    def refresh(self, revision: int) -> None:
        put(self._place, _content(revision))
        self("run")


def _content(revision: int) -> Content:
    """A fifth of the notes say something else each time, one is new and one is gone."""
    return {
        f"n{n}.txt": text_of(f"note {n}, revision {revision if n % 5 == revision % 5 else 0}")
        for n in range(revision, revision + _NOTES)
    }


@contextmanager
def _readers(place: Path) -> Iterator[list[Path]]:
    """What each of them notes, one a version that it stays with."""
    notes = [place / f"answers-{n}.txt" for n in range(_READERS)]
    command = [sys.executable, "-m", "tests.proof.reader", str(place / "proof.yaml"), str(place / "data")]
    errors = (place / "readers.txt").open("wb")
    processes = [
        subprocess.Popen(
            [*command, str(path), *(["pinned"] if n == 0 else [])], cwd=ROOT, stdin=subprocess.PIPE, stderr=errors
        )
        for n, path in enumerate(notes)
    ]
    try:
        yield notes
    finally:
        for process in processes:
            process.communicate()
        errors.close()
    assert [process.returncode for process in processes] == [0] * _READERS, (place / "readers.txt").read_text()[-3000:]


def test_every_answer_is_of_one_whole_version_whatever_the_writer_does(stage: Stage, tmp_path: Path) -> None:
    place = make_place(tmp_path / "place", {})
    declare(place, versions=3)
    index = _Index(stage, place)
    stage("look", place)  # with which the stage is set
    with _readers(place) as notes:
        revision = 0
        while revision < 6 or sum(map(_lines, notes)) < _QUERIES:
            revision += 1
            index.refresh(revision)
            if revision % 3 == 2:
                index("rollback")
                index("prune")
            if revision % 3 == 0:
                index("rebuild", version=max(index.ids))
    assert index.pruned, "what was pruned while somebody read is part of the point"
    answers = [line.split() for path in notes for line in path.read_text().splitlines()]
    assert len(answers) >= _QUERIES
    wrong = [answer for answer in answers if len(answer) != 5 or not index.ids[answer[0]].issuperset(answer[1:])]
    assert wrong == []
    seen = [{line.split()[0] for line in path.read_text().splitlines()} for path in notes]
    assert len(seen[0]) == 1
    assert all(len(versions) > 2 for versions in seen[1:])
    print(  # noqa: T201
        f"{len(answers)} answers from {len(set().union(*seen))} of {len(index.ids)} versions during {dict(index.acts)}"
    )


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0
