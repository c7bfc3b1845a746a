"""Pages mapped on all cores: each batch is done once, and the items are those of one process, whatever becomes of the
others.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import read_table
from almanac.flows.pipeline import batches
from almanac.flows.pipeline.batches import do_here, spans_of
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.plan import plan, survey
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import OperationalError, StorageError
from tests.conftest import PATIENCE_S, ROOT
from tests.flows.batch_step import COUNT, do_batch

pytestmark = pytest.mark.slow
_EVERY = list(range(1, COUNT + 1))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is shared with two children at once, however little there is. They find the steps of these tests."""
    worth = {"page_batches._WORTH_SHARING": 1, "item_batches._WORTH_SHARING": 1, "item_batches._ITEMS": 10}
    for name, value in {**worth, "batches._WORTH_S": 0.0, "batches._processes": lambda: 2}.items():
        monkeypatch.setattr(f"almanac.flows.pipeline.{name}", value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def _done(folder: Path, what: dict[str, Any] | None = None) -> Iterator[int]:
    if what is not None:
        (folder / "what.json").write_text(json.dumps(what))
    run: Any = SimpleNamespace(kb="many", staging=folder, data=SimpleNamespace(root=folder))
    return do_here(do_batch, run, folder, COUNT)


def _doers(folder: Path) -> list[int]:
    """The process of each batch."""
    return [int((folder / f"{number}.done").read_text()) for number in _EVERY]


def test_each_batch_is_done_once_by_children_after_the_first_one(tmp_path: Path) -> None:
    assert sorted(_done(tmp_path)) == _EVERY
    first, *rest = _doers(tmp_path)
    assert first == os.getpid()
    assert len(set(rest)) == 2
    assert first not in rest
    assert active_children() == []
    assert "PYTHONSAFEPATH" not in os.environ


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_child_that_dies_is_replaced_and_its_batch_done_again(tmp_path: Path, deaths: int) -> None:
    assert sorted(_done(tmp_path, {"batch": 7, "does": "dies", "deaths": deaths})) == _EVERY
    assert (tmp_path / "tries").stat().st_size == deaths + 1
    assert len(set(_doers(tmp_path))) <= 3 + deaths
    assert active_children() == []


def test_a_batch_that_ends_three_children_ends_the_run_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="batch 7 ended 3 processes, one after the other") as raised:
        list(_done(tmp_path, {"batch": 7, "does": "dies", "deaths": 9}))
    assert raised.value.exit_code == 7
    assert (tmp_path / "tries").stat().st_size == 3
    assert active_children() == []


def test_children_that_do_not_start_end_the_run(tmp_path: Path) -> None:
    with (
        patch.object(batches, "_begin", os.abort),
        patch.object(batches, "_TRIES", 2),
        pytest.raises(OperationalError, match=r"do batch [23] ended 2 processes"),
    ):
        list(_done(tmp_path))
    assert active_children() == []


def test_what_a_child_raises_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="this batch cannot be mapped") as raised:
        list(_done(tmp_path, {"batch": 7, "does": "raises"}))
    assert (raised.value.where, raised.value.hint) == ("batch 7", "mend it")
    assert active_children() == []


def test_a_full_disk_is_a_full_disk_also_where_a_child_meets_it(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"No space left on device: part\.parquet"):
        list(_done(tmp_path, {"batch": 7, "does": "fills the disk"}))
    assert active_children() == []


def test_a_defect_is_told_with_its_traceback_even_where_its_error_cannot_be_sent(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*XMLSyntaxError: cannot be sent"):
        list(_done(tmp_path, {"batch": 7, "does": "is a defect"}))
    assert (tmp_path / "tries").stat().st_size == 1
    assert active_children() == []


def test_nobody_works_on_for_a_run_that_is_interrupted(tmp_path: Path) -> None:
    began, results = time.monotonic(), _done(tmp_path, {"batch": 2, "does": "hangs"})
    assert [next(results), next(results)] == [1, 3]
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < PATIENCE_S
    assert active_children() == []


_RUN = """
import sys
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from almanac.flows.pipeline import batches
from tests.flows.batch_step import COUNT, do_batch
if __name__ == "__main__":
    batches._WORTH_S, batches._processes = 0, lambda: 2
    folder = Path(sys.argv[1])
    run = SimpleNamespace(kb="many", staging=folder, data=SimpleNamespace(root=folder))
    for number in batches.do_here(do_batch, run, folder, COUNT):
        print(*[child.pid for child in active_children()], flush=True)
"""


def test_children_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(_RUN)
    (tmp_path / "what.json").write_text(json.dumps({"batch": 2, "does": "hangs"}))
    (tmp_path / "pickle.py").write_text("raise SystemExit('a file of the current folder')")
    run = subprocess.Popen(
        [sys.executable, "-P", str(tmp_path / "run.py"), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout is not None
    children: list[str] = []
    while len(children) < 2:
        children = run.stdout.readline().split()
        assert run.poll() is None
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("batches", "most", "spans", "largest"),
    [(0, 150, 0, 0), (1, 150, 1, 1), (150, 150, 150, 1), (151, 150, 76, 2), (20_000, 150, 150, 134)],
)
def test_batches_are_divided_into_spans_of_equal_length(batches: int, most: int, spans: int, largest: int) -> None:
    divided = spans_of(1, batches, most)
    assert [number for first, last in divided for number in range(first, last + 1)] == list(range(1, batches + 1))
    assert len(divided) == spans
    assert max((last - first + 1 for first, last in divided), default=0) == largest


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

    def survey_tables(data: str) -> tuple[pa.Table, pa.Table]:
        """Items and chunks, without their times."""
        surveyed = survey(Ledger(Run(load_declaration(str(tmp_path / "many.yaml"), ""), DataDir(tmp_path / data))))
        assert surveyed.items is not None
        items, chunks = (
            read_table(table).drop_columns("fetched_at") for table in (surveyed.items.table, surveyed.tables.chunks)
        )
        return items, chunks

    shared = survey_tables("shared")
    with (
        patch("almanac.flows.pipeline.plan.is_worth_sharing", return_value=False),
        patch("almanac.flows.pipeline.plan.is_much_to_cut", return_value=False),
    ):
        plain = survey_tables("plain")
    assert [table.equals(other) for table, other in zip(shared, plain, strict=True)] == [True, True]
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
