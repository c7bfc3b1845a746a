"""A knowledge base that is nothing but a few files, and the stage on which things are done to it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

TORTURE = os.environ.get("ALMANAC_TORTURE") == "1"  # every crash point, hundreds of kills, a hundred thousand queries
LONG = pytest.mark.skipif(not TORTURE, reason="takes long: make torture")
PROOF = [pytest.mark.slow, pytest.mark.timeout(0 if TORTURE else 1800)]
_DECLARATION = """
name: proof
sources:
  - name: notes
    kind: files
    glob: "notes/**/*.txt"
    yields: documents
    body: all
chunk: {by: paragraphs, size: 80, overlap: 0}
gate: {max_failed: null, max_lost: null}
index: {segment: SEGMENT}
retention: {versions: KEPT, crawls: 1, vectors_days: 1}
"""
Point = tuple[str, str, str]  # moment, deed, path
Content = Mapping[str, str]  # file name → text


@dataclass
class Done:
    """What became of an act: exit code 0, 1 (a defect) or 9 (it died as told), its result, and the crash points that it
    came by.
    """

    code: int
    result: Any
    points: list[Point]
    count: int = 0


class Stage:
    """Carries out acts, each in a process of its own."""

    def __init__(self, log: Path) -> None:
        self.folder = log.parent
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PREFECT_LOGGING_LEVEL": "ERROR"}
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.proof.stage"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def try_act(
        self, act: str, place: Path, *, die_at: int | None = None, trace: bool = False, **arguments: Any
    ) -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"act": act, "place": str(place), "arguments": arguments, "die_at": die_at, "trace": trace}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        points = [(moment, deed, path) for moment, deed, path in answer.get("points", [])]
        return Done(answer["code"], answer["result"], points, answer.get("count", 0))

    def __call__(self, act: str, place: Path, **arguments: Any) -> Any:
        """The result of an act that nothing disturbs."""
        done = self.try_act(act, place, **arguments)
        assert done.code == 0, done.result
        return done.result

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def make_place(folder: Path, content: Content) -> Path:
    """A declaration with its files; `data` beside them does not exist yet."""
    folder.mkdir(parents=True)
    declare(folder)
    put(folder, content)
    return folder


def declare(place: Path, versions: int = 20, segment: int = 50_000) -> None:
    """Writes the declaration, by which so many versions are kept, and versions of more than `segment` chunks consist of
    segments.
    """
    (place / "proof.yaml").write_text(_DECLARATION.replace("KEPT", str(versions)).replace("SEGMENT", str(segment)))


def age_vectors(place: Path) -> None:
    """Makes what was embedded so far old enough to be pruned."""
    for path in place.glob("data/vectors/*/*.parquet"):
        os.utime(path, (0, 0))


def put(place: Path, content: Content) -> None:
    """Makes the files of a place exactly these."""
    notes = place / "notes"
    notes.mkdir(exist_ok=True)
    for path in notes.glob("*.txt"):
        if path.name not in content:
            path.unlink()
    for name, text in content.items():
        (notes / name).write_text(text)


def text_of(subject: str, paragraphs: int = 2) -> str:
    """A text of as many chunks."""
    return "\n\n".join(
        f"Paragraph {number} of {subject} says what no other text does, at length." for number in range(paragraphs)
    )
