"""Pages mapped on all cores: each batch is done once, and the items are those of one process, whatever becomes of the
others.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import read_table
from almanac.flows.pipeline import batch_processes
from almanac.flows.pipeline.batch_processes import do_here
from almanac.flows.pipeline.fan_out import Unfinished
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.survey import survey
from almanac.schemas.errors import OperationalError, StorageError, as_storage_error
from tests.conftest import ROOT
from tests.flows.batch_step import COUNT, do_batch
from tests.processes import children_of, command_line

pytestmark = pytest.mark.slow
_SPANS = [(n, n) for n in range(1, COUNT + 1)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is shared with two children at once, however little there is. They find the steps of these tests."""
    worth = {"page_batches._WORTH_SHARING": 1, "item_batches._WORTH_SHARING": 1, "item_batches._ITEMS": 10}
    for name, value in {**worth, "batch_processes._WORTH_S": 0.0, "batch_processes._processes": lambda: 3}.items():
        monkeypatch.setattr(f"almanac.flows.pipeline.{name}", value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def _mapped(folder: Path, what: dict[str, Any] | None = None) -> Iterator[tuple[int, int]]:
    """Batch and process of each result."""
    if what is not None:
        (folder / "what.json").write_text(json.dumps(what))
    at = lambda first, _: Unfinished(f"batch {first}", (folder / "tries").stat().st_size)  # noqa: E731
    return do_here(do_batch, None, folder, _SPANS, at)  # type: ignore[arg-type]


def _children() -> list[int]:
    return [child for child in children_of(os.getpid()) if "batch_processes" in command_line(child)]


def test_each_batch_is_done_once_here_and_by_children(tmp_path: Path) -> None:
    done = list(_mapped(tmp_path))
    assert sorted(batch for batch, _ in done) == [first for first, _ in _SPANS]
    assert dict(done)[1] == dict(done)[2] == os.getpid()
    assert os.getpid() not in {process for batch, process in done if batch > 2}
    assert _children() == []


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_child_that_dies_is_replaced_and_its_batch_done_again(tmp_path: Path, deaths: int) -> None:
    done = list(_mapped(tmp_path, {"batch": 7, "does": "dies", "deaths": deaths}))
    assert sorted(batch for batch, _ in done) == [first for first, _ in _SPANS]
    assert (tmp_path / "tries").stat().st_size == deaths + 1
    assert _children() == []


def test_a_batch_is_done_here_where_no_child_is_to_be_had_after_one_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    class Few(batch_processes._Child):
        def __init__(self) -> None:
            started.append(1)
            if len(started) > 2:
                raise OSError("no more processes")
            super().__init__()

    monkeypatch.setattr(batch_processes, "_Child", Few)
    monkeypatch.setattr(batch_processes, "_processes", lambda: 2)
    (tmp_path / "2.done").write_text("")  # the batch of this process need not wait for the one that is done last
    done = dict(_mapped(tmp_path, {"batch": 7, "does": "dies", "deaths": 2}))
    assert sorted(done) == [first for first, _ in _SPANS]
    assert done[7] == os.getpid()
    assert _children() == []


def test_a_batch_that_ends_three_children_ends_the_run_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "2.done").write_text("")  # the batch of this process need not wait for the one that is never done
    with pytest.raises(OperationalError, match="batch 7 ended 3 processes, one after the other") as raised:
        list(_mapped(tmp_path, {"batch": 7, "does": "dies", "deaths": 9}))
    assert (raised.value.where, raised.value.exit_code) == ("signal SIGKILL", 7)
    assert (tmp_path / "tries").stat().st_size == 3
    assert _children() == []


def test_what_a_child_raises_is_raised_here(tmp_path: Path) -> None:
    (tmp_path / "2.done").write_text("")
    with pytest.raises(OperationalError, match="this batch cannot be mapped") as raised:
        list(_mapped(tmp_path, {"batch": 7, "does": "raises"}))
    assert (raised.value.where, raised.value.hint) == ("batch 7", "mend it")
    assert _children() == []


def test_a_full_disk_is_a_full_disk_also_where_a_child_meets_it(tmp_path: Path) -> None:
    (tmp_path / "2.done").write_text("")
    with pytest.raises(StorageError, match=r"No space left on device: part\.parquet"), as_storage_error(tmp_path):
        list(_mapped(tmp_path, {"batch": 7, "does": "fills the disk"}))
    assert _children() == []


def test_a_defect_is_told_with_its_traceback_even_where_its_error_cannot_be_sent(tmp_path: Path) -> None:
    (tmp_path / "2.done").write_text("")
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*XMLSyntaxError: cannot be sent"):
        list(_mapped(tmp_path, {"batch": 7, "does": "is a defect"}))
    assert (tmp_path / "tries").stat().st_size == 1
    assert _children() == []


def test_nobody_maps_on_for_a_run_that_is_interrupted(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(_mapped(tmp_path, {"does": "is interrupted"}))
    assert _children() == []


_DECLARATION = """
name: many
sources:
  - {name: notes, kind: files, glob: "notes/*.txt", yields: documents, body: all}
  - {name: rows, kind: files, glob: rows.jsonl, yields: records, id: "{id}", fields: {id: {json: id}, text: {json: text}}, text: "{text}"}
validate: {max_rejected: 1}
"""  # noqa: E501


def test_the_items_of_a_run_are_those_of_one_process_in_the_same_order(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for n in range(100):
        (tmp_path / "notes" / f"{n:03}.txt").write_text(
            f"Note {n}\n\n" + f"What note {n} says of subject {n} is said by no other. " * 50
        )
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"id": n, "text": f"Row {n} tells of it."}) + "\n" for n in range(100))
    )
    (tmp_path / "many.yaml").write_text(_DECLARATION)

    def found(data: str) -> tuple[pa.Table, pa.Table]:
        """Items and chunks, without their times."""
        surveyed = survey(Run(load_declaration(str(tmp_path / "many.yaml"), ""), DataDir(tmp_path / data)))
        assert surveyed.items is not None
        items, chunks = (
            read_table(table).drop_columns("fetched_at") for table in (surveyed.items.table, surveyed.tables.chunks)
        )
        return items, chunks

    shared = found("shared")
    with (
        patch("almanac.flows.pipeline.survey.is_worth_sharing", return_value=False),
        patch("almanac.flows.pipeline.survey.is_much_to_cut", return_value=False),
    ):
        plain = found("plain")
    assert [one.equals(other) for one, other in zip(shared, plain, strict=True)] == [True, True]
    assert shared[0].num_rows == 200
    assert shared[1].num_rows > 200


def test_a_plan_of_many_pages_leaves_the_data_directory_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for n in range(100):
        (tmp_path / "notes" / f"{n:03}.txt").write_text(
            f"Note {n}\n\nWhat note {n} says of subject {n} is said by no other."
        )
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": 1, "text": "A row."}))
    (tmp_path / "many.yaml").write_text(_DECLARATION)
    data = DataDir(tmp_path / "data")
    assert plan(load_declaration(str(tmp_path / "many.yaml"), ""), data).items.added == 101
    assert [path for path in data.root.rglob("*") if path.is_file() and "mapped" in path.parts] == []
