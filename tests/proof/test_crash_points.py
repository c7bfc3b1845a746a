"""Killed at a crash point, then carried on: the outcome is that of never having been killed.

A crash point is a moment before, in the middle of or after a durable deed (`core/durable.py`). They are enumerated by
letting each act happen once; then it happens again for each of them, in a process that dies there as by kill -9, and is
done again to its end. A sample of them by default, spread evenly; all with ALMANAC_TORTURE=1.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.proof.acts import CHECKPOINT
from tests.proof.base import PROOF, TORTURE, Content, Point, Stage, age_vectors, declare, make_place, put, text_of

pytestmark = PROOF

FIRST = {f"n{n}.txt": text_of(f"note {n}") for n in range(8)}
SECOND = {**FIRST, "n7.txt": text_of("note 7, mended"), "n8.txt": text_of("note 8")}
# One note changed, one new, one gone, one under another name, one with its text twice.
THIRD = {name: text for name, text in SECOND.items() if name not in ("n0.txt", "n1.txt")} | {
    "n2.txt": text_of("note 2, mended"), "new.txt": text_of("a new note"), "moved.txt": FIRST["n1.txt"],
    "copy.txt": FIRST["n3.txt"],
}  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """`prepare` makes a place ready for the act; `again` are the arguments with which it is done once more after a
    crash; `points` are tried by default.
    """

    act: str
    prepare: Callable[[Stage, Path], None]
    points: int
    arguments: dict[str, Any] = field(default_factory=dict)
    again: dict[str, Any] | None = None
    data: str = "data"


def _once(prepare: Callable[[Stage, Path], None]) -> Callable[[Stage, Path], None]:
    """Prepares a place once for all scenarios of a stage; each gets a copy, which is as good wherever it lies."""
    made: dict[Stage, Path] = {}

    def copy(stage: Stage, place: Path) -> None:
        if stage not in made:
            prepare(stage, folder := stage.folder / prepare.__name__)
            made[stage] = folder
        shutil.copytree(made[stage], place)

    return copy


def _files(place: Path, content: Content, versions: int = 20) -> None:
    make_place(place, content)
    declare(place, versions)


def _published(stage: Stage, place: Path, *contents: Content) -> None:
    make_place(place, {})
    for content in contents:
        put(place, content)
        assert stage("run", place)["outcome"] == "published"


@_once
def _two_versions(stage: Stage, place: Path) -> None:
    _published(stage, place, FIRST, SECOND)


@_once
def _expired(stage: Stage, place: Path) -> None:
    """Two versions, two crawls and some vectors are beyond what is declared from now on."""
    _published(
        stage,
        place,
        FIRST,
        {**SECOND, "x.txt": text_of("a passing note")},
        SECOND,
        {**SECOND, "y.txt": text_of("another")},
        SECOND,
    )
    declare(place, versions=3)
    age_vectors(place)


def _changed(stage: Stage, place: Path) -> None:
    _expired(stage, place)
    put(place, THIRD)


SEGMENT = 10  # chunks, above which a version consists of segments: FIRST has 16


def _segmented(stage: Stage, place: Path, *contents: Content) -> None:
    """Versions of two segments, and of what was added since."""
    make_place(place, {})
    declare(place, segment=SEGMENT)
    for content in contents:
        put(place, content)
        assert stage("run", place)["outcome"] == "published"


@_once
def _two_segmented(stage: Stage, place: Path) -> None:
    _segmented(stage, place, FIRST, SECOND)


def _expired_segments(stage: Stage, place: Path) -> None:
    """Three versions beyond what is declared from now on, of which two segments go with them."""
    everything_else = {name: f"{text}, in other words" for name, text in FIRST.items()}
    _segmented(stage, place, FIRST, everything_else, SECOND, {**SECOND, "y.txt": text_of("another")}, SECOND)
    declare(place, versions=3, segment=SEGMENT)
    age_vectors(place)


def _changed_segments(stage: Stage, place: Path) -> None:
    _two_segmented(stage, place)
    put(place, THIRD)


def _thinned_segments(stage: Stage, place: Path) -> None:
    """A third of the notes are gone, which neighbour each other, so that more than a quarter of a segment is."""
    _two_segmented(stage, place)
    put(
        place,
        {name: text for name, text in SECOND.items() if name not in ("n0.txt", "n1.txt", "n2.txt")}
        | {"new.txt": text_of("a new note")},
    )


SCENARIOS = {
    "first run": Scenario("run", lambda _, place: _files(place, FIRST), 2),
    "refresh": Scenario("run", _changed, 3),
    "full refresh": Scenario("run", _changed, 1, {"full": True}),
    "kept": Scenario("run", _changed, 1, {"publish": False}),
    "rollback": Scenario("rollback", _two_versions, 1, again={"version": "v0001"}),
    "prune": Scenario("prune", _expired, 1),
    "forget": Scenario("forget", _two_versions, 1, {"url": "n5.txt"}),
    "rebuild": Scenario("rebuild", lambda stage, place: _published(stage, place, FIRST), 1, {"version": "v0001"}),
    "promote": Scenario("promote", _two_versions, 1, {"version": "v0002"}, data="production"),
    "refresh of segments": Scenario("run", _changed_segments, 1),
    "refresh that merges": Scenario("run", _thinned_segments, 1),
    "prune of segments": Scenario("prune", _expired_segments, 2),
    "forget in segments": Scenario("forget", _two_segmented, 1, {"url": "n5.txt"}),
    "forget what is deleted": Scenario(
        "forget", lambda stage, place: _segmented(stage, place, FIRST, SECOND, THIRD), 1, {"url": "n0.txt"}
    ),
    "rebuild of segments": Scenario("rebuild", _two_segmented, 1, {"version": "v0002"}),
    "compact": Scenario("compact", _two_segmented, 1),
    "promote of segments": Scenario("promote", _two_segmented, 1, {"version": "v0002"}, data="production"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_any_durable_deed_and_done_again_equals_never_killed(
    name: str, stage: Stage, tmp_path: Path, record_property: Any
) -> None:
    trial = _Trial(stage, SCENARIOS[name], tmp_path)
    points = trial.whole.points
    assert trial.merged() or name != "refresh that merges"
    assert trial.whole.count == len(points) > 0
    chosen = _spread(points, SCENARIOS[name].points)
    for number, place in enumerate(chosen):
        trial.kill_and_recover(place, kill_recovery=number % 3 == 1)
    counted = Counter(deed for _, deed, _ in points)
    record_property("crash points", dict(counted))
    print(  # noqa: T201
        f"{name}: {len(points)} crash points "
        f"({', '.join(f'{count} of {deed}' for deed, count in counted.items())}), {len(chosen)} tried"
    )


def _spread(points: list[Point], count: int) -> list[int]:
    """Numbers of crash points: all of them, or so many, evenly. What lies before a deed is, mostly, what lay after the
    one before.
    """
    if TORTURE:
        return list(range(len(points)))
    distinct = [n for n, (moment, _, _) in enumerate(points) if moment != "before" or n == 0]
    return sorted({distinct[(2 * n + 1) * len(distinct) // (2 * count)] for n in range(count)})


def _live_digest(look: dict[str, Any]) -> str | None:
    version = look["versions"].get(look["current"])
    assert version is not None or look["current"] is None, "the live version is not there"
    return version and str(version["digest"])


class _Trial:
    """One scenario: what it leaves when nothing disturbs it, and the same with a kill."""

    def __init__(self, stage: Stage, scenario: Scenario, folder: Path) -> None:
        self._stage, self._scenario, self._folder = stage, scenario, folder
        self._prepared = folder / "prepared"
        scenario.prepare(stage, self._prepared)
        self._before = stage("look", self._prepared, data=scenario.data)
        place = self._copy("whole")
        self.whole = stage.try_act(scenario.act, place, trace=True, **scenario.arguments)
        assert self.whole.code == 0, self.whole.result
        self._after = stage("look", place, data=scenario.data)
        assert stage("run", place)["error"] is None
        self._at_last = stage("look", place)
        assert self._after["left"] == self._at_last["left"] == []

    def merged(self) -> int:
        """Number of segments that the last version took rows over from."""
        manifests = sorted((self._folder / "whole" / "data" / "index" / "proof" / "versions").glob("*/manifest.json"))
        return int(json.loads(manifests[-1].read_text())["lineage"]["build"].get("merged", 0))

    def _copy(self, name: str) -> Path:
        return Path(shutil.copytree(self._prepared, self._folder / name))

    def kill_and_recover(self, point: int, *, kill_recovery: bool) -> None:
        killed_at = f"killed at {point}: {' '.join(self.whole.points[point])}"
        scenario, place = self._scenario, self._copy(f"killed-{point}")
        assert self._stage.try_act(scenario.act, place, die_at=point, **scenario.arguments).code == 9, killed_at
        self._require_readable(place, killed_at)
        again = scenario.arguments if scenario.again is None else scenario.again
        if kill_recovery:
            second = self._stage.try_act(scenario.act, place, die_at=point * 7 % len(self.whole.points), **again)
            assert second.code in (0, 9), f"{killed_at}, and again: {second.result}"
            self._require_readable(place, killed_at)
        done = self._stage.try_act(scenario.act, place, **again)
        assert done.code == 0, f"{killed_at}: {done.result}"
        assert "error" not in done.result or done.result["error"] is None, f"{killed_at}: {done.result}"
        parts = 2 if kill_recovery else 1
        is_run = scenario.act == "run"
        state = self._stage("look", place, verified="live" if is_run else "all", data=scenario.data)
        self._require_same(state, self._after, killed_at, parts)
        if is_run or scenario.act in ("promote", "forget", "compact"):
            assert state["left"] == [], killed_at
        if not is_run or kill_recovery:
            assert self._stage("run", place)["error"] is None, killed_at
            state = self._stage("look", place)
            self._require_same(state, self._at_last, killed_at, parts)
            assert state["left"] == [], killed_at
        shutil.rmtree(place)

    def _require_readable(self, place: Path, killed_at: str) -> None:
        """Whoever reads in between finds a complete version, as it was before or as it will be."""
        state = self._stage("look", place, verified="none", data=self._scenario.data)
        assert state["locked"] is None, killed_at
        # A full run that is killed after its version is whole makes another one when it is done again.
        assert _live_digest(state) in {_live_digest(self._before), _live_digest(self._after)}, killed_at
        known = {version["digest"] for look in (self._before, self._after) for version in look["versions"].values()}
        assert {version["digest"] for version in state["versions"].values()} <= known, killed_at

    def _require_same(self, state: dict[str, Any], wanted: dict[str, Any], killed_at: str, parts: int) -> None:
        live, wanted_live = state["versions"].get(state["current"]), wanted["versions"].get(wanted["current"])
        assert live == wanted_live, killed_at
        assert len(state["versions"]) == len(wanted["versions"]), killed_at
        assert state["problems"] == [], killed_at
        assert state["embedded"] <= wanted["embedded"] + parts * CHECKPOINT, killed_at
