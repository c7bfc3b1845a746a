"""Versions that consist of segments: verified, rebuilt, forgotten in part, pruned, promoted, compacted, exported. Real Chroma, a few pages."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS
from almanac.flows.pipeline.known_urls import find_items, known_urls
from almanac.index.lexical.deleted import write_deleted_terms
from almanac.index.lexical.facts import LEXICAL
from almanac.index.lexical.terms import TERMS, TermsFile
from almanac.index.segments.deleted import deleted_file, deleted_terms_file
from almanac.index.segments.store import SEGMENTS, remove_unnamed_segments, segment_dir
from almanac.index.upkeep.erase import forget_in_version
from almanac.index.upkeep.promote import promote_version
from almanac.index.upkeep.prune import prune
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.upkeep.takedown import Takedown, note_takedown
from almanac.index.upkeep.url_content import UrlContent
from almanac.index.verify.verifier import damaged_segments, verify_composition, verify_version, verify_whole
from almanac.index.versions.pins import Pin
from almanac.index.versions.publish import publish
from almanac.index.versions.store import discard_unfinished, pin_version, read_manifest, version_dir
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import DamagedVersion, UsageError
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


# rebuild


def _made(data: DataDir, version: str = "v0002") -> list[int]:
    """When each segment was sealed, in nanoseconds."""
    return [(_segment(data, number, version) / "segment.json").stat().st_mtime_ns for number in range(len(_manifest(data, version).segments))]


def test_rebuild_makes_only_damaged_segments_anew_and_mends_them_for_all_versions(data: DataDir) -> None:
    before, made, folder = _manifest(data), _made(data), _folder(data).stat().st_ino
    _flip(_segment(data, 1) / "vectors.npy", -1)
    shutil.rmtree(_segment(data, 3) / "chroma")
    result = rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert (result.digest, result.chunks, result.embedded) == (before.digest, len(SECOND), 0)
    assert [old == new for old, new in zip(made, _made(data), strict=True)] == [True, False, True, False]
    assert _folder(data).stat().st_ino != folder, "readers see by it that there is something new"
    assert _verified(data) == _verified(data, "v0001") == []
    assert _manifest(data).segments == before.segments


def test_rebuild_of_an_intact_version_makes_all_segments_anew(data: DataDir) -> None:
    made = _made(data)
    rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert not set(made) & set(_made(data))
    assert _verified(data) == []


def test_rebuild_writes_lost_statistics_anew_and_leaves_intact_segments(data: DataDir) -> None:
    made = _made(data)
    (_folder(data) / deleted_terms_file(_segment(data, 0).name)).unlink()
    rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert (_made(data), _verified(data)) == (made, [])


def test_what_nothing_else_says_cannot_be_rebuilt(data: DataDir) -> None:
    path = _list(data)
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(DamagedVersion, match="nothing else says which rows it has deleted"):
        rebuild_version(data.index("shop"), "v0002", data.vectors)
    path.write_bytes(content)
    table = _segment(data, 1) / CHUNKS
    _flip(table)
    with pytest.raises(DamagedVersion, match=rf"chunks\.parquet of segment {table.parent.name} was altered"):
        rebuild_version(data.index("shop"), "v0002", data.vectors)
    shutil.rmtree(table.parent)
    with pytest.raises(DamagedVersion, match="a segment is missing"):
        rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert _left(data) == []


def _left(data: DataDir) -> list[str]:
    """What only an interrupted command leaves."""
    return [path.name for kind in ("versions", SEGMENTS) for path in (data.index("shop") / kind).glob(".*")]


def test_rebuild_takes_vectors_that_the_store_has_lost_from_the_segments(data: DataDir) -> None:
    for part in data.vectors.glob("*/*.parquet"):
        part.unlink()
    assert _verified(data) != []
    rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert _verified(data) == _verified(data, "v0001") == []


# forget


def _forget(data: DataDir, version: str, *urls: str) -> UrlContent:
    takedown = Takedown(url=urls[0], urls=list(urls), at=making.AT)
    found = forget_in_version(data.index("shop"), version, takedown, data.vectors, Embed())
    remove_unnamed_segments(data.index("shop"), at_once=True)
    return found


def _bytes_of(data: DataDir) -> bytes:
    """Everything below the index, tables as they are read."""
    files = [path for path in data.index("shop").rglob("*") if path.is_file()]
    return b"".join(str(pq.read_table(path).to_pydict()).encode() if path.suffix == ".parquet" else path.read_bytes() for path in files)


def test_forgetting_makes_the_segments_that_never_had_the_page_once_for_all_versions(data: DataDir, tmp_path: Path) -> None:
    url, before = "http://shop/2", [use.segment for use in _manifest(data).segments]
    found = _forget(data, "v0002", url)
    assert (found.items, len(found.chunks)) == ({("pages", url)}, 1)
    with_secret = segment_dir(data.index("shop"), before[0])
    assert with_secret.is_dir(), "another version has it"
    made = _segment(data, 0).stat().st_ino
    _forget(data, "v0001", url)
    assert not with_secret.exists()
    assert _segment(data, 0, "v0001").stat().st_ino == made
    for version, texts in (("v0001", FIRST), ("v0002", SECOND)):
        left = {key: text for key, text in texts.items() if key != url}
        expected = making.make_segmented(DataDir(tmp_path / version), "shop", "v0001", left, limit=LIMIT)
        manifest = _manifest(data, version)
        assert (manifest.digest, manifest.counts, manifest.derived.repeats) == (expected.digest, expected.counts, expected.derived.repeats)
        assert manifest.lineage["forgotten"] == [{"url": url, "at": making.AT, "items": 1, "chunks": 1}]
        assert _verified(data, version) == []
    assert [(use.chunks, use.deleted) for use in _manifest(data).segments] == [(3, 1), (4, 1), (4, 0), (2, 0)]
    assert [use.segment for use in _manifest(data).segments][1:] == before[1:]
    content = _bytes_of(data)
    assert b"text of page 3" in content
    assert b"text of page 2" not in content
    assert not _forget(data, "v0002", url).items


def test_a_page_that_a_version_has_deleted_already_is_erased_from_its_segments_too(data: DataDir) -> None:
    digest = _manifest(data).digest
    for version in ("v0002", "v0001"):
        assert len(_forget(data, version, "http://shop/7").chunks) == 1
    assert _manifest(data).digest == digest, "it did not have the page"
    assert [(use.chunks, use.deleted) for use in _manifest(data).segments] == [(4, 1), (3, 0), (4, 0), (2, 0)]
    assert _verified(data) == _verified(data, "v0001") == []
    assert b"text of page 7" not in _bytes_of(data)
    assert _left(data) == []


def test_segments_of_which_nothing_is_left_are_left_out_but_for_the_last(data: DataDir) -> None:
    _forget(data, "v0002", *[url for url in SECOND if url != "http://shop/3"], "http://shop/7")
    assert [(use.chunks, use.deleted) for use in _manifest(data).segments] == [(1, 0)]
    assert _verified(data) == []
    _forget(data, "v0002", "http://shop/3")
    assert (_manifest(data).counts.chunks, len(_manifest(data).segments), _verified(data)) == (0, 1, [])


def test_a_segment_that_is_read_meanwhile_goes_as_soon_as_it_is_not(data: DataDir) -> None:
    pin = Pin(_segment(data, 1))
    for version in ("v0002", "v0001"):
        _forget(data, version, "http://shop/7")
    assert (pin.folder / CHUNKS).is_file()
    discard_unfinished(data.index("shop"))
    assert len(_left(data)) == 1
    pin.close()
    discard_unfinished(data.index("shop"))
    assert _left(data) == []
    assert b"text of page 7" not in _bytes_of(data)


def test_urls_are_known_of_rows_that_every_version_has_deleted(data: DataDir) -> None:
    shutil.rmtree(_folder(data, "v0001"))
    found = find_items(data, "shop", ["http://shop/7"])
    assert (found.items, len(found.keys), found.is_whole) == ({("pages", "http://shop/7")}, 1, True)
    assert "http://shop/7" in set(known_urls(data, "shop"))
    shutil.rmtree(_segment(data, 2))
    assert not find_items(data, "shop", ["http://shop/7"]).is_whole


# prune and promote


def _declaration(**values: Any) -> Declaration:
    return Declaration.model_validate({"name": "shop", "sources": [{"name": "pages", "kind": "files", "glob": "*.md"}], **values})


def test_segments_go_with_the_last_version_that_names_them(data: DataDir) -> None:
    making.make_segmented(data, "shop", "v0003", SECOND, limit=LIMIT)
    publish(data.index("shop"), "v0003")
    shared, sizes = [_segment(data, number) for number in range(3)], []
    for version in ("v0004", "v0005"):
        making.make_segmented(data, "shop", version, SECOND, limit=LIMIT, parent="v0003")
    publish(data.index("shop"), "v0005")
    before = sorted(path.name for path in (data.index("shop") / SEGMENTS).iterdir())
    pin = pin_version(data.index("shop"), "v0002")
    result = prune(data, _declaration(retention={"versions": 3}))
    assert (result.versions, result.held) == (["v0001"], ["v0002"])
    assert sorted(path.name for path in (data.index("shop") / SEGMENTS).iterdir()) == before
    pin.close()
    sizes = [sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in [*shared, _segment(data, 3)]]
    assert prune(data, _declaration(retention={"versions": 3})).bytes > sum(sizes)
    assert not any(folder.exists() for folder in shared)
    assert _verified(data, "v0005") == []


def test_a_promotion_copies_the_segments_that_are_not_there_yet(data: DataDir, tmp_path: Path) -> None:
    target = DataDir(tmp_path / "production")
    first = promote_version(data, target, "shop", "v0001")
    inodes = {path.name: path.stat().st_ino for path in (target.index("shop") / SEGMENTS).iterdir()}
    second = promote_version(data, target, "shop", "v0002")
    assert (first.promoted, second.promoted, second.published) == ("v0001", "v0002", True)
    assert {name: (target.index("shop") / SEGMENTS / name).stat().st_ino for name in inodes} == inodes
    assert _verified(target, "v0001") == _verified(target) == []
    assert [use.segment for use in _manifest(target).segments] == [use.segment for use in _manifest(data).segments]
    assert promote_version(data, target, "shop", "v0002").promoted == "v0002"
    assert _left(target) == []
    note_takedown(target.index("shop"), Takedown(url="http://shop/7", urls=["http://shop/7"], at=making.AT))
    with pytest.raises(UsageError, match="taken down there"):
        promote_version(data, DataDir(tmp_path / "production"), "shop", "v0002")
