"""What steps hand to each other: small, and enough for a step that shares nothing with the others but the data
directory.
"""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.handles import HANDLES, Live
from almanac.flows.pipeline.run import Run
from almanac.flows.steps import StepTask
from tests.flows.commands import carry_out
from tests.flows.notes import write

_LARGEST = 64 << 10  # bytes of a pickle


def _as_copies(sizes: dict[str, int]) -> Callable[..., Any]:
    """What calls a step with copies of the run and of all handles, as another process would; notes the size of each."""

    def sent(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(sent, value))
        if not isinstance(value, (Run, Live, *HANDLES)):
            return value
        pickled = pickle.dumps(value)
        sizes[type(value).__name__] = max(sizes.get(type(value).__name__, 0), len(pickled))
        return pickle.loads(pickled)

    return lambda step, *arguments, **named: sent(step.fn(*map(sent, arguments), **named))


def _facts_to_compare(report: dict[str, Any]) -> dict[str, Any]:
    return {
        name: report[name]
        for name in ("outcome", "version", "pages", "items", "chunks", "gate", "recall", "inputs", "stages")
    }


@pytest.mark.slow
def test_steps_need_nothing_of_each_other_but_small_handles(declared: Path, tmp_path: Path) -> None:
    """With copies of handles instead of shared objects, two runs over 800 notes end as runs in one piece do."""
    sizes: dict[str, int] = {}
    reports: dict[str, list[dict[str, Any]]] = {"copies": [], "shared": []}
    for name, call in (("copies", _as_copies(sizes)), ("shared", StepTask.__call__)):
        for edition in ("", " today"):
            write(tmp_path, 800, edition, questions=40)
            with patch.object(StepTask, "__call__", call):
                run = Run(load_declaration(str(declared), ""), DataDir(tmp_path / name))
                reports[name].append(_facts_to_compare(carry_out(run)))
    assert reports["copies"] == reports["shared"]
    assert [report["outcome"] for report in reports["copies"]] == ["published_with_rejects"] * 2
    assert len(json.dumps(reports["copies"][1]["recall"]["missed"])) > _LARGEST, "what a handle must not hold"
    of_workers = {
        "PageBatches",
        "ItemBatches",
        "PlannedSegments",
    }  # only where there are workers, see test_dask.py
    assert sizes.keys() == {"Run", "Live", *(handle.__name__ for handle in HANDLES)} - of_workers
    assert {name: size for name, size in sizes.items() if size >= _LARGEST} == {}


def test_a_run_that_was_pickled_is_the_same_run_without_what_it_had_loaded(declared: Path, tmp_path: Path) -> None:
    write(tmp_path, 10)
    run = Run(load_declaration(str(declared), ""), DataDir(tmp_path / "data"))
    stages, golden = run.stages, run.golden
    assert run.model() is run.model()
    copy = pickle.loads(pickle.dumps(run))
    assert (copy.run_id, copy.started_at, copy.staging, copy.declaration.sha256) == (
        run.run_id,
        run.started_at,
        run.staging,
        run.declaration.sha256,
    )
    assert not {"_model", "stages", "golden"} & vars(copy).keys()
    assert (copy.stages, copy.golden) == (stages, golden)
