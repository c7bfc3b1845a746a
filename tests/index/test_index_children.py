"""A process that is started ahead forks builder and verifier, and ends with its block; deaths of each are told."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.index.build.builder import BUILDER, build_version
from almanac.index.build.child_process import ForkServer
from almanac.index.verify.verifier import VERIFIER, verify_version
from almanac.schemas.errors import OperationalError
from tests.index.conftest import INFO, Base
from tests.processes import children_of, command_line


@pytest.fixture
def base(tmp_path: Path, distinct_rows: list[Any]) -> Iterator[Base]:
    made = Base(tmp_path)
    made.embed(distinct_rows[:20])
    yield made


@pytest.mark.slow
def test_a_version_is_built_and_verified_by_two_children_of_one_process(base: Base) -> None:
    job, before = base.job(), _children()
    seen: set[int] = set()
    is_noted = threading.Event()  # until then, the builder waits

    def note(*_: int) -> None:
        [forking] = _children() - before
        seen.update((forking, *children_of(forking)))
        is_noted.set()

    with ForkServer() as fork_server:
        fork_server.start(BUILDER, VERIFIER)
        assert build_version(job, on_progress=note, until=is_noted, fork_server=fork_server).added == 20
        assert len(seen) == 2
        assert verify_version(job.version_dir, None, base.vectors, INFO, fork_server=fork_server) == []
        assert len(_children() - before) == 1
    assert _children() == before
    assert not any(map(command_line, seen))


def test_a_process_that_nothing_used_ends_with_the_block() -> None:
    before = _children()
    with ForkServer() as fork_server:
        fork_server.start(VERIFIER)
        [pid] = _children() - before
    assert pid not in _children()


def test_a_process_that_died_while_it_waited_is_an_error(base: Base) -> None:
    with ForkServer() as fork_server:
        before = _children()
        fork_server.start(BUILDER)
        [pid] = _children() - before
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(OperationalError, match="SIGKILL"):
            build_version(base.job(), fork_server=fork_server)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("struck", "kind"), [("child", signal.SIGKILL), ("child", signal.SIGSEGV), ("parent", signal.SIGKILL)]
)
def test_a_builder_that_is_killed_is_an_error_and_nothing_of_it_runs_on(
    base: Base, struck: str, kind: signal.Signals
) -> None:
    before = _children()
    pids: set[int] = set()
    is_over = threading.Event()  # until then, the builder waits

    def strike(*_: int) -> None:
        [forking] = _children() - before
        [builder] = children_of(forking)
        pids.update((forking, builder))
        os.kill(builder if struck == "child" else forking, kind)

    with ForkServer() as fork_server:
        fork_server.start(BUILDER, VERIFIER)
        with pytest.raises(OperationalError, match=f"builder ended with signal {kind.name}"):
            build_version(base.job(), on_progress=strike, until=is_over, fork_server=fork_server)
        is_over.set()
        assert len(pids) == 2
        assert not any(map(command_line, pids))


@pytest.mark.slow
def test_a_verifier_that_crashes_is_a_problem_of_the_version_and_the_next_one_works(base: Base) -> None:
    job, before = base.job(), _children()
    with ForkServer() as fork_server:
        fork_server.start(BUILDER, VERIFIER)
        build_version(job, fork_server=fork_server)
        [forking] = _children() - before

        def strike() -> None:
            while not (verifier := children_of(forking)):
                pass
            os.kill(verifier[0], signal.SIGSEGV)

        striking = threading.Thread(target=strike)
        striking.start()
        [problem] = verify_version(job.version_dir, None, base.vectors, INFO, fork_server=fork_server)
        striking.join()
        assert (problem.kind, problem.found) == ("unreadable", "reading it ended in SIGSEGV")
        assert verify_version(job.version_dir, None, base.vectors, INFO, fork_server=fork_server) == []


def _children() -> set[int]:
    return set(children_of(os.getpid()))
