"""Versions that consist of segments: verified, rebuilt, forgotten in part, pruned, promoted, compacted, exported. Real Chroma, a few pages."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS
from almanac.index.lexical.deleted import write_deleted_terms
from almanac.index.lexical.facts import LEXICAL
from almanac.index.lexical.terms import TERMS, TermsFile
from almanac.index.segments.deleted import deleted_file, deleted_terms_file
from almanac.index.segments.store import SEGMENTS, segment_dir
from almanac.index.verify.verifier import damaged_segments, verify_composition, verify_version, verify_whole
from almanac.index.versions.publish import publish
from almanac.index.versions.store import read_manifest, version_dir
from almanac.schemas.manifest import Manifest, SegmentUse
from tests.index import making
from tests.index.conftest import INFO

LIMIT = 2  # `index.segment`: a full build divides 12 chunks into three segments
FIRST = {f"http://shop/{n}": f"text of page {n}" for n in range(12)}
SECOND = {url: text for url, text in FIRST.items() if url != "http://shop/7"} | {"http://shop/1": "text of page 1, mended", "http://shop/new": "a new page"}


@pytest.fixture(autouse=True)
def children_here() -> Iterator[None]:
    with making.without_children():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`shop` with two versions: three segments, and the same with a fourth, two chunks of the others deleted. The second is live."""
    data = DataDir(tmp_path_factory.mktemp("made"))
    with making.without_children():
        for version, texts, parent in (("v0001", FIRST, None), ("v0002", SECOND, "v0001")):
            making.make_segmented(data, "shop", version, texts, limit=LIMIT, parent=parent)
            publish(data.index("shop"), version)
    return data.root


@pytest.fixture
def data(made: Path, tmp_path: Path) -> DataDir:
    shutil.copytree(made, tmp_path / "data")
    return DataDir(tmp_path / "data")


def _manifest(data: DataDir, version: str = "v0002") -> Manifest:
    return read_manifest(data.index("shop"), version)


def _folder(data: DataDir, version: str = "v0002") -> Path:
    return version_dir(data.index("shop"), version)


def _segment(data: DataDir, number: int, version: str = "v0002") -> Path:
    return segment_dir(data.index("shop"), _manifest(data, version).segments[number].segment)


def _verified(data: DataDir, version: str = "v0002") -> list[Any]:
    return verify_version(_folder(data, version), _manifest(data, version), data.vectors, INFO)


def _flip(path: Path, place: int = 100) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


# verify


def test_a_version_of_segments_shares_them_and_is_intact(data: DataDir) -> None:
    first, second = _manifest(data, "v0001"), _manifest(data)
    assert [(use.chunks, use.deleted) for use in second.segments] == [(4, 1), (4, 1), (4, 0), (2, 0)]
    assert [use.segment for use in second.segments][:3] == [use.segment for use in first.segments]
    assert _verified(data, "v0001") == _verified(data) == []
    assert verify_whole(_folder(data), second) == []


@pytest.mark.parametrize("name", [CHUNKS, DOCUMENTS, "vectors.npy", "lexical/lexical.json", "segment.json", "segment.sha256", "chroma/chroma.sqlite3"])
def test_whatever_is_altered_in_a_segment_is_found_and_the_segment_named(data: DataDir, name: str) -> None:
    folder = _segment(data, 1)
    _flip(folder / name, -200 if name == "chroma/chroma.sqlite3" else 20)
    problems = _verified(data)
    assert damaged_segments(problems) == [folder.name]
    assert all(problem.where.startswith(f"{SEGMENTS}/{folder.name}/") for problem in problems)
    assert damaged_segments(_verified(data, "v0001")) == [folder.name]


def test_a_segment_that_is_gone_is_named(data: DataDir) -> None:
    folder = _segment(data, 2)
    shutil.rmtree(folder)
    assert damaged_segments(_verified(data)) == damaged_segments(verify_whole(_folder(data), _manifest(data))) == [folder.name]


def _list(data: DataDir, number: int = 0, table: str = CHUNKS) -> Path:
    return _folder(data) / deleted_file(_manifest(data).segments[number].segment, table)


def _save(rows: list[int]) -> Callable[[DataDir], None]:
    return lambda data: np.save(_list(data), np.array(rows, dtype=np.int64))


_DAMAGES: dict[str, Callable[[DataDir], object]] = {
    "another row": _save([2]),
    "one more": _save([1, 2]),
    "none": _save([]),
    "beyond the table": _save([5]),
    "before the table": _save([-1]),
    "twice": _save([1, 1]),
    "in disorder": _save([3, 1]),
    "gone": lambda data: _list(data).unlink(),
    "no numbers": lambda data: _list(data).write_bytes(b"no array"),
    "fractions": lambda data: np.save(_list(data), np.array([1.0])),
    "of another segment": lambda data: shutil.copy(_list(data), _list(data).with_name("0123456789abcdef.chunks.npy")),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_lists_of_deleted_rows_that_do_not_fit_are_found_by_both_verifications(data: DataDir, damage: str) -> None:
    manifest, run_table = _manifest(data), data.processed("shop") / CHUNKS

    def composed() -> list[Any]:
        return verify_composition(data.index("shop"), _folder(data), manifest.segments, run_table, INFO)

    assert composed() == []
    _DAMAGES[damage](data)
    assert composed() != []
    assert {problem.kind for problem in _verified(data)} - {"file_altered", "file_missing"} != set(), "not by its hash alone"


@pytest.mark.parametrize("damage", ["gone", "empty", "of other rows", "of more rows"])
def test_statistics_of_deleted_terms_that_are_not_those_of_the_deleted_rows_are_found(data: DataDir, damage: str) -> None:
    segment = _segment(data, 0)
    path = _folder(data) / deleted_terms_file(segment.name)
    if damage in ("gone", "empty"):
        path.unlink() if damage == "gone" else path.write_bytes(b"")
    else:
        rows = np.array([2] if damage == "of other rows" else [1, 2], dtype=np.int64)
        write_deleted_terms(path, TermsFile(segment / LEXICAL / TERMS, 4), rows)
    found = {problem.kind for problem in _verified(data) if problem.where.startswith("deleted/")} - {"file_altered"}
    assert found == {{"gone": "file_missing", "empty": "unreadable"}.get(damage, "row_altered")}


def test_a_composition_is_compared_with_the_table_that_it_was_made_of(data: DataDir) -> None:
    def composed(segments: list[SegmentUse]) -> list[tuple[str, Any]]:
        problems = verify_composition(data.index("shop"), _folder(data), segments, data.processed("shop") / CHUNKS, INFO)
        return [(problem.kind, problem.where.rpartition(": ")[2]) for problem in problems]

    uses = _manifest(data).segments
    lacking = making.chunk_of(making.item("http://shop/new", SECOND["http://shop/new"])).chunk_id
    assert ("row_missing", lacking) in composed(uses[:3])
    assert composed([*uses, uses[0]])[0][0] == "row_foreign"
    assert composed([uses[0].model_copy(update={"deleted": 2}), *uses[1:]])[0][0] == "row_missing"
    assert composed([uses[0].model_copy(update={"chunks": 5}), *uses[1:]])[0] == ("digest_differs", "counts.chunks")
    making.put_tables(data.processed("shop"), FIRST)
    assert {kind for kind, _ in composed(uses)} == {"row_missing", "row_foreign"}


def test_a_chunk_that_is_live_twice_is_found(data: DataDir) -> None:
    making.make_segmented(data, "shop", "v0003", {"http://shop/2": FIRST["http://shop/2"]}, limit=LIMIT)
    twice = [*_manifest(data, "v0001").segments, *_manifest(data, "v0003").segments]
    manifest = _manifest(data, "v0001").model_copy(update={"segments": twice})
    found = verify_whole(_folder(data, "v0001"), manifest)
    assert [problem.found for problem in found if problem.where.startswith(CHUNKS)] == ["live twice"]


def test_a_sealed_segment_is_trusted_until_its_files_are_touched(data: DataDir) -> None:
    matrix = _segment(data, 0) / "vectors.npy"
    assert verify_whole(_folder(data), _manifest(data)) == []
    _flip(matrix, -1)
    assert damaged_segments(verify_whole(_folder(data), _manifest(data))) == [matrix.parent.name]
