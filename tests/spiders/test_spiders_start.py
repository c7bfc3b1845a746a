"""The process of a crawl that is started ahead: the next crawl takes it, and nobody finds it running once the command
has ended.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.spiders.crawling import crawl_start as start
from tests.conftest import PATIENCE_S


@pytest.fixture(autouse=True)
def waiting() -> Iterator[list["subprocess.Popen[str]"]]:
    yield start._waiting
    start._end()


def _ended(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    start._close(process)


def test_the_next_crawl_takes_the_process_that_was_started_ahead_and_the_one_after_it_another(
    waiting: list["subprocess.Popen[str]"],
) -> None:
    start.start_ahead()
    start.start_ahead()
    [process_ahead] = waiting
    first, second = start.crawl_process(), start.crawl_process()
    assert first is process_ahead
    assert second.pid != process_ahead.pid
    for process in (first, second):
        _ended(process)


def test_one_that_has_died_is_not_taken(waiting: list["subprocess.Popen[str]"]) -> None:
    start.start_ahead()
    [dead] = waiting
    dead.kill()
    dead.wait()
    process = start.crawl_process()
    assert process is not dead
    assert process.poll() is None
    _ended(process)


@pytest.mark.parametrize("end", ["", "; os.kill(os.getpid(), 9)"], ids=["by itself", "killed"])
def test_one_that_no_crawl_takes_ends_with_the_command(end: str) -> None:
    code = (
        "import os; from almanac.spiders.crawling import crawl_start as start; start.start_ahead(); "
        f"print(start._waiting[0].pid, flush=True){end}"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    place, until = Path("/proc", starter.communicate()[0].strip()), time.monotonic() + PATIENCE_S
    while place.exists() and "State:\tZ" not in (place / "status").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
