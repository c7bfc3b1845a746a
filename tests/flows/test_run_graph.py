"""A run's graph in Prefect: each task is reached from those whose results it takes."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.conftest import Example

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("voyago")]


def test_every_task_hangs_on_those_whose_results_it_takes(voyago: Example) -> None:
    with closing(sqlite3.connect(voyago.almanac.data / "prefect" / "prefect.db")) as database:
        rows = database.execute("select id, name, task_inputs from task_run where flow_run_id = (select id from flow_run order by created limit 1)").fetchall()
    names = {identity.replace("-", ""): name for identity, name, _ in rows}
    edges = {
        name: {names[one["id"].replace("-", "")] for taken in json.loads(inputs).values() for one in taken if one["input_type"] == "task_run"}
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
        "build": {"compare", "chunk", "embed checkpoint 1"},
        "verify": {"build", "compare", "chunk"},
        "ask golden questions": {"verify"},
        "publish": {"verify", "ask golden questions"},
    }
