"""A data directory that another Almanac wrote: refused with the way up, which then leads to the same content, without
embedding anything again.

A run on it is judged as on one of its own: by the rows of the version that is live, and never by comparison with
nothing.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from almanac.cli.operate import is_comparable
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS
from almanac.flows.pipeline.earlier_runs import ending_of
from almanac.index.segments.segment_store import SEGMENT, SEGMENTS
from almanac.index.versions.publish import publish
from almanac.index.versions.version_store import MANIFEST, current_version, read_manifest, version_dir
from almanac.schemas.errors import DamagedVersion, OtherFormat
from almanac.schemas.manifest import FORMAT
from tests.proof.acts import run, small_and_here
from tests.proof.base import declare, make_place, put, text_of

_KB = "proof"
_NOTES = {f"n{n}.txt": text_of(f"note {n}") for n in range(8)}
_HALF = dict(list(_NOTES.items())[:4])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A published knowledge base with eight notes, whose gate has the usual limits."""
    place = make_place(tmp_path / "place", _NOTES)
    _limit(place)
    with small_and_here(place):
        assert run(place)["outcome"] == "published"
        yield place


def _limit(place: Path, gate: str = "gate: {max_failed: null}") -> None:
    declared = place / "proof.yaml"
    declared.write_text(declared.read_text().replace("gate: {max_failed: null, max_lost: null}", gate))


def _index(place: Path) -> Path:
    return DataDir(place / "data").index(_KB)


def _set_format(place: Path, number: int, **further: Any) -> None:
    """As another release would have written the version and its segments: with another number, and with what this one
    does not know.
    """
    for path in (version_dir(_index(place), "v0001") / MANIFEST, *_index(place).glob(f"{SEGMENTS}/*/{SEGMENT}")):
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": number, **further}))


def _change_items(place: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for path in (version_dir(_index(place), "v0001") / DOCUMENTS, *_index(place).glob(f"{SEGMENTS}/*/{DOCUMENTS}")):
        if path.is_file():
            pq.write_table(change(pq.read_table(path)), path)


def _forget_copy(place: Path) -> None:
    (DataDir(place / "data").processed(_KB) / "state.json").unlink()


def _refusing(report: dict[str, Any]) -> dict[str, Any]:
    return {check["name"]: check["value"] for check in report["gate"]["checks"] if not check["ok"]}


def test_a_version_of_an_older_format_is_refused_until_a_run_has_brought_it_up(place: Path) -> None:
    before = read_manifest(_index(place), "v0001")
    _set_format(place, FORMAT - 1)
    with pytest.raises(OtherFormat, match=f"has format {FORMAT - 1}, and this almanac reads format {FORMAT}") as raised:
        read_manifest(_index(place), "v0001")
    assert "almanac run KB builds a version of this format" in str(raised.value.hint)
    report = run(place)
    assert (report["outcome"], report["version"], report["chunks"]["embedded"]) == ("published", "v0002", 0)
    assert report["items"]["unchanged"] == len(_NOTES)
    assert read_manifest(_index(place), "v0002").digest == before.digest


def test_a_version_of_a_newer_format_asks_for_the_newer_almanac(place: Path) -> None:
    _set_format(place, FORMAT + 1)
    with pytest.raises(OtherFormat) as raised:
        read_manifest(_index(place), "v0001")
    assert str(raised.value.hint).startswith("install the newer almanac that wrote v0001; or almanac run KB")


_FEW = ["passage", "content_sha256", "text_sha256", "fetched_at", "kind"]  # columns that another release may not have


@pytest.mark.parametrize(
    ("segment", "lacking", "number"),
    [(50_000, [], FORMAT - 1), (50_000, _FEW, FORMAT + 1), (6, _FEW, FORMAT - 1)],
    ids=["all columns", "few columns", "segments"],
)
def test_a_loss_is_refused_whatever_release_wrote_the_live_version(
    tmp_path: Path, segment: int, lacking: list[str], number: int
) -> None:
    place = make_place(tmp_path / "place", _NOTES)
    declare(place, segment=segment)
    _limit(place)
    with small_and_here(place):
        run(place)
        assert bool(list(_index(place).glob(f"{SEGMENTS}/*/{SEGMENT}"))) == (segment == 6)
        _set_format(place, number, colour="blue")
        _change_items(place, lambda items: items.drop_columns(lacking))
        _forget_copy(place)
        put(place, _HALF)
        report = run(place)
        assert (report["exit_code"], _refusing(report)) == (4, {"max_lost": 0.5})
        assert report["items"]["removed"] == 4
        assert report["items"]["changed" if lacking else "unchanged"] == 4
        assert current_version(_index(place)) == "v0001"
        # What the refused run left: all that the other release needs to go on with its version, and with what it is
        # compared again.
        again = run(place)
        assert (again["exit_code"], _refusing(again), again["version"]) == (4, {"max_lost": 0.5}, report["version"])
        publish(_index(place), report["version"], override="half of it was taken down")
        assert run(place)["outcome"] == "unchanged"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            lambda items: items.rename_columns([{"document_id": "id"}.get(name, name) for name in items.column_names]),
            "there is no document_id",
        ),
        (
            lambda items: items.set_column(0, "source", pa.array([["notes"]] * len(items))),
            "its items have other columns",
        ),
        (lambda items: items.slice(1), "v0001 has 7 items instead of 8"),
    ],
)
def test_a_run_that_cannot_compare_is_refused_and_says_why(
    place: Path, change: Callable[[pa.Table], pa.Table], finding: str
) -> None:
    _set_format(place, FORMAT - 1)
    _change_items(place, change)
    _forget_copy(place)
    report = run(place)
    assert (report["exit_code"], report["version"], current_version(_index(place))) == (4, "v0002", "v0001")
    assert finding in _refusing(report)["compared_with"]
    publish(_index(place), "v0002", override="compared by hand")
    assert run(place)["outcome"] == "unchanged"


def test_a_manifest_that_does_not_say_where_its_rows_are_is_compared_by_the_copy_of_its_tables(place: Path) -> None:
    (version_dir(_index(place), "v0001") / MANIFEST).write_text(json.dumps({"format": FORMAT - 1}))
    put(place, _HALF)
    assert _refusing(run(place)) == {"max_lost": 0.5}
    # By now, the tables in data/processed are those of the refused run.
    assert set(_refusing(run(place))) == {"compared_with"}


def test_damaged_tables_are_compared_by_their_copy_and_without_it_not_at_all(place: Path) -> None:
    table = version_dir(_index(place), "v0001") / DOCUMENTS
    table.write_bytes(table.read_bytes()[:-20])
    put(place, _HALF)
    assert _refusing(run(place)) == {"max_lost": 0.5}
    put(place, _NOTES)
    report = run(place)
    assert (report["exit_code"], report["version"]) == (4, "v0003")
    assert "the table cannot be read" in _refusing(report)["compared_with"]
    publish(_index(place), "v0003", override="compared by hand")
    assert run(place)["outcome"] == "unchanged"


def test_a_gate_that_compares_nothing_asks_for_nothing_to_compare_with(place: Path) -> None:
    _limit(place, "")
    declared = place / "proof.yaml"
    declared.write_text(
        declared.read_text().replace(
            "gate: {max_failed: null}", "gate: {max_failed: null, max_lost: null, max_shrunk: null}"
        )
    )
    (version_dir(_index(place), "v0001") / MANIFEST).write_text(json.dumps({"format": FORMAT - 1}))
    _forget_copy(place)
    put(place, _HALF)
    assert run(place)["outcome"] == "published"


def test_a_fall_of_recall_from_a_version_that_cannot_be_asked_is_no_fall_of_none(place: Path) -> None:
    (place / "golden.jsonl").write_text(
        json.dumps({"question": "what does note 1 say", "document_id": "n1.txt"}) + "\n"
    )
    declared = place / "proof.yaml"
    declared.write_text(
        declared.read_text().replace(
            "gate: {max_failed: null}", "gate: {max_failed: null, golden: golden.jsonl, max_recall_drop: 0.5}"
        )
    )
    _set_format(place, FORMAT - 1)
    assert "not measured: v0001 of 'proof' has format" in _refusing(run(place))["max_recall_drop"]


@pytest.mark.parametrize("report", ['{"outcome": "published", "of": "another release"}', "damaged", None])
def test_how_a_run_ended_is_known_whatever_release_reported_it(place: Path, report: str | None) -> None:
    data = DataDir(place / "data")
    run_id = read_manifest(_index(place), "v0001").run_id
    path = data.runs(_KB) / f"{run_id}.json"
    path.unlink() if report is None else path.write_text(report)
    _set_format(place, FORMAT - 1)
    assert ending_of(data, _KB, run_id) == "concluded"
    assert ending_of(data, _KB, "20200101T000000-000000") == "cut off"


def test_another_format_is_no_damage_to_those_who_print_it(place: Path) -> None:
    _set_format(place, FORMAT - 1)
    with pytest.raises(DamagedVersion) as raised:
        read_manifest(_index(place), "v0001")
    assert raised.value.kind == "other_format"


def test_no_diff_is_advised_with_a_version_of_another_format(place: Path) -> None:
    assert is_comparable(_index(place), "v0001")
    _set_format(place, FORMAT - 1)
    assert not is_comparable(_index(place), "v0001")
