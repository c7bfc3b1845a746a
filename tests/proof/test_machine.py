"""Whatever is done to a knowledge base, in whatever order, it is what a plain dictionary says that it should be."""

import random
import shutil
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.proof.base import PROOF, TORTURE, Done, Stage, declare, make_place, put, text_of

pytestmark = PROOF

_VERSIONS_KEPT = 3
_ALWAYS = "always.txt"  # never touched: a knowledge base without a note has nothing to publish
Items = dict[str, str]  # URL → text

_POINTS = {"run": 100, "rollback": 6, "prune": 10, "forget": 60}  # about as many crash points as each comes by

_names = st.sampled_from([f"n{n}.txt" for n in range(6)])
_numbers = st.integers(0, 10_000)


class Model(RuleBasedStateMachine):
    """`files` is what lies there, `unreadable` what of it cannot be read, `known` the pages as of the last run that
    came to its end.
    """

    stage: Stage
    folder: Path
    done: Counter[str]

    @initialize(published=st.booleans())
    def begin(self, published: bool) -> None:
        self.place = make_place(self.folder / "place", {})
        declare(self.place, versions=_VERSIONS_KEPT)
        self.files: Items = {
            _ALWAYS: text_of("the note that stays"),
            "n0.txt": text_of("note 0"),
            "n1.txt": text_of("note 1"),
        }
        self.unreadable: set[str] = set()
        self.forgotten: set[str] = set()
        self.known: Items = {}
        self.versions: dict[str, Items] = {}
        self.live: str | None = None
        self._texts = 0
        if published:
            self._run()

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self._require_as_modelled(verified="all")
            shutil.rmtree(self.place)

    # What happens to the files.

    @rule(
        edits=st.lists(
            st.tuples(st.sampled_from(["write", "write", "move", "remove", "fail"]), _names, _names),
            min_size=1,
            max_size=4,
        )
    )
    def edit(self, edits: list[tuple[str, str, str]]) -> None:
        for kind, name, to in edits:
            if kind == "write":
                self._texts += 1
                self.files[name] = text_of(f"text {self._texts}", paragraphs=1 + self._texts % 3)
            elif kind == "fail" and name in self.files:
                self.unreadable ^= {name}
            elif kind == "remove" or (kind == "move" and name in self.files and to not in self.files):
                text = self.files.pop(name, "")
                self.unreadable.discard(name)
                if kind == "move":
                    self.files[to] = text

    # What is done to the index.

    @rule()
    def run(self) -> None:
        self._run()

    @rule()
    def run_in_full(self) -> None:
        self._run(full=True)

    @rule()
    def run_and_keep(self) -> None:
        self._run(publish=False)

    @rule(point=_numbers, once_more=st.booleans())
    def run_killed(self, point: int, once_more: bool) -> None:
        self._run(kills=[point, point // 7] if once_more else [point])

    @precondition(lambda self: self.live is not None)
    @rule(kills=st.lists(_numbers, max_size=1))
    def roll_back(self, kills: list[int]) -> None:
        before = [version for version in self.versions if version < str(self.live)]
        done = self._act("rollback", kills, version=max(before, default=None))
        if before:
            self.live = max(before)
            assert done.result == self.live
        else:
            assert done.result["error"]["kind"] == "not_found"
        self._require_as_modelled()

    @precondition(lambda self: self.live is not None)
    @rule(kills=st.lists(_numbers, max_size=1))
    def prune(self, kills: list[int]) -> None:
        self._act("prune", kills)
        self._let_go(self.stage("look", self.place, verified="none")["versions"], always=True)
        self._require_as_modelled()

    @precondition(lambda self: self.live is not None)
    @rule(number=_numbers, kills=st.lists(_numbers, max_size=1))
    def forget(self, number: int, kills: list[int]) -> None:
        known = sorted({name for items in self.versions.values() for name in items} - {_ALWAYS})
        if known:
            name = known[number % len(known)]
            result = self._act("forget", kills, url=name).result
            assert "error" not in result, result
            self.forgotten.add(name)
            for items in [self.known, *self.versions.values()]:
                items.pop(name, None)
            self._require_as_modelled()

    # What is to be expected.

    def _act(self, name: str, kills: list[int] = [], **arguments: Any) -> Done:  # noqa: B006  # only read
        """Done, killed where `kills` says and done again to its end."""
        put(self.place, self.files)
        (self.place / "unreadable.txt").write_text("\n".join(self.unreadable))
        for kill in kills:
            died = self.stage.try_act(name, self.place, die_at=kill % _POINTS[name], **arguments)
            assert died.code in (0, 9), died.result
            self.done["kill" if died.code == 9 else "kill that came too late"] += 1
            assert self.stage("look", self.place, verified="none")["locked"] is None
        done = self.stage.try_act(name, self.place, **arguments)
        assert done.code == 0, done.result
        self.done[name] += 1
        return done

    # only read
    def _run(self, *, publish: bool = True, full: bool = False, kills: list[int] = []) -> None:  # noqa: B006
        wanted = {name: text for name, text in self.files.items() if name not in self.unreadable | self.forgotten}
        wanted |= {name: self.known[name] for name in self.unreadable - self.forgotten if name in self.known}
        report = self._act("run", kills, publish=publish, full=full).result
        assert report["error"] is None, report["error"]
        counts = report["items"]
        assert counts["in"] == sum(
            counts[name] for name in ("added", "changed", "moved", "unchanged", "deduplicated", "quarantined")
        )
        self.known = wanted
        if not kills:
            self._require_counts(counts, wanted)
            is_live = self.live is not None and self.versions[self.live] == wanted
            assert report["outcome"] == ("unchanged" if is_live else "published" if publish else "kept")
        state = self.stage("look", self.place, verified="none")
        # a kill may have come between building one and publishing it
        for version in state["versions"].keys() - self.versions.keys():
            self.versions[version] = dict(wanted)
        if publish:
            self.live = state["current"]
            assert self.live is not None
            assert self.versions[self.live] == wanted
        self._let_go(state["versions"].keys(), always=report["outcome"] != "unchanged")
        self._require_as_modelled()

    def _require_counts(self, counts: dict[str, int], wanted: Items) -> None:
        live = self.versions[self.live] if self.live else {}
        gone, new = live.keys() - wanted.keys(), wanted.keys() - live.keys()
        moved = sum((Counter(live[name] for name in gone) & Counter(wanted[name] for name in new)).values())
        same = [name for name in live.keys() & wanted.keys() if live[name] == wanted[name]]
        expected = {"added": len(new) - moved, "moved": moved, "removed": len(gone) - moved, "unchanged": len(same)}
        expected["changed"] = len(wanted) - len(new) - len(same)
        assert {name: counts[name] for name in expected} == expected

    def _let_go(self, left: Collection[str], *, always: bool) -> None:
        """Retention took away what it may, and not the live version; all of that where it always follows."""
        expired = {version for version in sorted(self.versions)[:-_VERSIONS_KEPT] if version != self.live}
        gone = self.versions.keys() - set(left)
        assert gone == expired if always else gone <= expired
        for version in gone:
            del self.versions[version]

    def _require_as_modelled(self, *, verified: str = "live") -> None:
        state = self.stage("look", self.place, verified=verified)
        contents = {
            version: {url: text for _, _, url, text in facts["items"]} for version, facts in state["versions"].items()
        }
        assert contents == self.versions
        assert state["current"] == self.live
        assert state["problems"] == []


def test_a_knowledge_base_is_what_a_plain_model_says(stage: Stage, tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    numbered = random.Random(0)

    def machine() -> RuleBasedStateMachine:
        folder = tmp_path / f"{numbered.random()}"
        folder.mkdir()
        made = Model()
        made.stage, made.folder, made.done = stage, folder, done
        return made

    factory: Any = machine  # what makes one does as well as its class
    examples = 200 if TORTURE else 4
    run_state_machine_as_test(
        factory,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30 if TORTURE else 10,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            # A step takes about a second: to look for a shorter failing case pays only where time does not matter.
            phases=(Phase.generate, Phase.shrink) if TORTURE else (Phase.generate,),
        ),
    )
    assert done["run"] > 0
    print(f"{examples} sequences: {dict(done)}")  # noqa: T201
