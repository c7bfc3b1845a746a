"""The process of Prefect's API that is started before it is known whether there will be a run."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.flows.server import api_process
from almanac.flows.server.api import answers
from tests.conftest import PATIENCE_S, Almanac
from tests.processes import carrying, command_line


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    api_process._end()


@pytest.mark.slow
def test_it_is_the_one_that_serves_by_the_settings_of_then(prefect_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    api_process.start_ahead()
    api_process.start_ahead()
    [waiting] = api_process._waiting
    monkeypatch.setenv("PREFECT_HOME", str(prefect_home))
    process, log = api_process.api_process(), tmp_path / "api.log"
    assert (process, api_process._waiting) == (waiting, [])
    process.serve(log)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(f"{process.url}/health"):
            assert process.child.poll() is None, log.read_text()
            assert time.monotonic() < deadline
        assert not list(tmp_path.glob("**/*.db*"))
    finally:
        process.end()
    assert process.child.returncode == -9


def test_none_is_started_where_there_is_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    api_process.start_ahead()
    assert api_process._waiting == []


def test_what_stands_in_its_way_is_in_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "no database")
    process = api_process.api_process()
    process.serve(tmp_path / "api.log")
    assert process.child.wait(timeout=PATIENCE_S) not in (0, None)
    process.end()
    assert "Could not parse SQLAlchemy URL" in (tmp_path / "api.log").read_text()


def test_a_command_that_comes_to_no_run_leaves_no_process_and_no_file(almanac_alone: Almanac, tmp_path: Path) -> None:
    marker = f"started-by-{tmp_path.name}"
    (declared := tmp_path / "wrong.yaml").write_text("name: wrong\nsources: nothing\n")
    for asked in ("nobody-knows-it", str(declared)):
        done = almanac_alone("run", asked, MARKER=marker)
        assert done.code == 2, done.stderr
        deadline = time.monotonic() + 5
        while left := carrying(marker):
            assert time.monotonic() < deadline, [command_line(one) for one in left]
        assert not almanac_alone.data.exists()
