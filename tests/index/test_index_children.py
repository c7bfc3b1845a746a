"""Children that are started ahead: used once, ended with their block, and a death while they wait is told."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.index.build.builder import BUILDER, build_version
from almanac.index.build.child_process import Ahead
from almanac.index.verify.verifier import VERIFIER, verify_version
from almanac.schemas.errors import OperationalError
from tests.index.conftest import INFO, Base


@pytest.fixture
def base(tmp_path: Path, distinct_rows: list[Any]) -> Iterator[Base]:
    made = Base(tmp_path)
    made.embed(distinct_rows[:20])
    yield made


@pytest.mark.slow
def test_a_version_is_built_and_verified_by_children_that_were_started_ahead(base: Base) -> None:
    job = base.job()
    with Ahead() as ahead:
        ahead.start(BUILDER)
        ahead.start(VERIFIER)
        assert build_version(job, ahead=ahead).added == 20
        assert verify_version(job.version_dir, None, base.vectors, INFO, ahead=ahead) == []
        assert ahead.take(BUILDER) is ahead.take(VERIFIER) is None


def test_a_child_that_nothing_used_ends_with_the_block() -> None:
    before = _children()
    with Ahead() as ahead:
        ahead.start(VERIFIER)
        [pid] = _children() - before
    assert pid not in _children()


def test_a_child_that_died_while_it_waited_is_an_error(base: Base) -> None:
    with Ahead() as ahead:
        before = _children()
        ahead.start(BUILDER)
        [pid] = _children() - before
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(OperationalError, match="SIGKILL"):
            build_version(base.job(), ahead=ahead)


def _children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}
