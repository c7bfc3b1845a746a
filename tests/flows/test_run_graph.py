"""A run's graph in Prefect: each task is reached from those whose results it takes."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Example

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("voyago")]


def _tasks(voyago: Example) -> list[tuple[str, str, str]]:
    """Id, name and inputs of the tasks of the first run. Prefect's server writes them down a moment after the run has
    ended.
    """
    deadline = time.monotonic() + PATIENCE_S
    query = (
        "select task_run.id, task_run.name, task_inputs from task_run join flow_run on flow_run.id = flow_run_id "
        "where flow_run_id = "
        "(select id from flow_run where name like 'voyago%' order by created limit 1)"
    )
    while time.monotonic() < deadline:
        with closing(sqlite3.connect(Path(voyago.almanac.environment["PREFECT_HOME"]) / "prefect.db")) as database:
            rows = database.execute(query).fetchall()
        if any(name == "publish" for _, name, _ in rows):
            break
        time.sleep(0.2)
    return rows


def test_every_task_hangs_on_those_whose_results_it_takes(voyago: Example) -> None:
    rows = _tasks(voyago)
    names = {identity.replace("-", ""): name for identity, name, _ in rows}
    edges = {
        name: {
            names[task_input["id"].replace("-", "")]
            for taken in json.loads(inputs).values()
            for task_input in taken
            if task_input["input_type"] == "task_run"
        }
        for _, name, inputs in rows
    }
    acquired = {"acquire tours", "acquire policies"}
    assert edges == {
        "acquire tours": set(),
        "acquire policies": set(),
        "map pages": acquired,
        "validate": {"map pages"},
        "compare": {"map pages", "validate"},
        "chunk": {"compare"},
        "stage texts": {"chunk"},
        "embed checkpoint 1": {"stage texts"},
        "build": {"chunk", "stage texts", "embed checkpoint 1"},
        "verify": {"build", "chunk"},
        "ask golden questions": {"verify"},
        "publish": {"verify", "ask golden questions"},
    }
