"""Versions that consist of segments: verified, rebuilt, forgotten in part, pruned, promoted, compacted, exported. Real
Chroma, a few pages.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pyarrow.parquet as pq
import pytest

from almanac.cli.export import export_table
from almanac.core.pins import Pin
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS
from almanac.flows.pipeline import apply_retention as retention
from almanac.flows.pipeline.known_urls import find_items, known_urls
from almanac.flows.reporting.diff import compare_versions
from almanac.index.build.job import BuildFacts, row_layout
from almanac.index.segments.deleted import deleted_file
from almanac.index.segments.segment_rows import BY_ID, ROWS
from almanac.index.segments.segment_store import SEGMENTS, remove_unnamed_segments, segment_dir
from almanac.index.segments.version_tables import VersionTables
from almanac.index.upkeep import compact
from almanac.index.upkeep.compact import compact_version
from almanac.index.upkeep.erase import forget_in_version
from almanac.index.upkeep.export_chroma import export_chroma
from almanac.index.upkeep.promote import promote_version
from almanac.index.upkeep.prune import prune
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.upkeep.takedown import Takedown, note_takedown
from almanac.index.upkeep.url_content import UrlContent
from almanac.index.verify.verifier import verify_composition, verify_version, verify_whole
from almanac.index.versions.lock import writer_lock
from almanac.index.versions.publications import override_of
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.version_store import (
    current_version,
    discard_unfinished,
    pin_version,
    read_manifest,
    version_dir,
    version_names,
)
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DamagedVersion, UsageError
from almanac.schemas.manifest import Manifest, SegmentUse
from almanac.schemas.reports import CompactResult
from tests.index import making
from tests.index.conftest import INFO, HashEmbedder

LIMIT = 2  # `index.segment`: a full build divides 12 chunks into three segments
FIRST = {f"http://shop/{n}": f"text of page {n}" for n in range(12)}
SECOND = {url: text for url, text in FIRST.items() if url != "http://shop/7"} | {
    "http://shop/1": "text of page 1, mended",
    "http://shop/new": "a new page",
}


@pytest.fixture(autouse=True)
def children_here() -> Iterator[None]:
    with making.without_children():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`shop` with two versions: three segments, and the same with a fourth, two chunks of the others deleted. The
    second is live.
    """
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


@pytest.mark.parametrize(
    "name",
    [
        CHUNKS,
        DOCUMENTS,
        "vectors.npy",
        "lexical/lexical.json",
        "segment.json",
        "segment.sha256",
        "chroma/chroma.sqlite3",
    ],
)
def test_whatever_is_altered_in_a_segment_is_found_and_the_segment_named(data: DataDir, name: str) -> None:
    folder = _segment(data, 1)
    _flip(folder / name, 20)
    problems = _verified(data)
    assert _damaged_segments(problems) == [folder.name]
    assert all(problem.where.startswith(f"{SEGMENTS}/{folder.name}/") for problem in problems)
    assert _damaged_segments(_verified(data, "v0001")) == [folder.name]


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("lexical/lexical.json", lambda content: content.replace(b'"chunks"', b'"chunkz"')),
        ("lexical/lexical.json", lambda content: content.replace(b'["en"]', b"[]")),
    ],
)
def test_a_file_that_can_be_read_and_makes_no_sense_is_found_too(
    data: DataDir, name: str, spoil: Callable[[bytes], bytes]
) -> None:
    path = _segment(data, 1) / name
    path.write_bytes(spoil(path.read_bytes()))
    assert _damaged_segments(_verified(data)) == [path.relative_to(data.index("shop") / SEGMENTS).parts[0]]


def test_vectors_are_restored_from_the_other_segments_where_one_cannot_be_read(data: DataDir) -> None:
    tables = VersionTables.in_folder(_folder(data), _manifest(data))
    everything = [folder for folder, _ in tables.folders()]
    (_segment(data, 1) / "segment.json").write_text("{}")
    with pytest.raises(DamagedVersion):
        tables.folders()
    assert [folder for folder, _ in tables.readable_folders()] == [
        folder for folder in everything if folder != _segment(data, 1)
    ]


def test_mapped_rows_that_differ_from_the_table_are_found_before_anything_is_sealed(data: DataDir) -> None:
    folder = _segment(data, 1)

    def find_damaged_files() -> set[str]:
        return {problem.where.partition(":")[0] for problem in verify_version(folder, None, data.vectors, INFO)}

    assert find_damaged_files() == set()
    content = (folder / ROWS).read_bytes()
    (folder / ROWS).write_bytes(content.replace(b"text of page 5", b"text of page 6"))
    assert find_damaged_files() == {ROWS}
    (folder / ROWS).write_bytes(content[:-200])
    assert find_damaged_files() == {ROWS}
    (folder / ROWS).write_bytes(content)
    np.save(folder / BY_ID, np.load(folder / BY_ID)[::-1])
    assert find_damaged_files() == {BY_ID}


def test_a_segment_that_is_gone_is_named(data: DataDir) -> None:
    folder = _segment(data, 2)
    shutil.rmtree(folder)
    assert (
        _damaged_segments(_verified(data))
        == _damaged_segments(verify_whole(_folder(data), _manifest(data)))
        == [folder.name]
    )


def _list(data: DataDir, number: int = 0, table: str = CHUNKS) -> Path:
    return _folder(data) / deleted_file(_manifest(data).segments[number].segment, table)


def _save(rows: list[int]) -> Callable[[DataDir], None]:
    return lambda data: np.save(_list(data), np.array(rows, dtype=np.int64))


def _damaged_segments(problems: list[Any]) -> list[str]:
    """The names of the segments in which problems lie, each once."""
    places = [problem.where for problem in problems if problem.where.startswith(f"{SEGMENTS}/")]
    return list(dict.fromkeys(place.split("/")[1] for place in places))


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
    assert {problem.kind for problem in _verified(data)} - {"file_altered", "file_missing"} != set(), (
        "not by its hash alone"
    )


def test_a_composition_is_compared_with_the_table_that_it_was_made_of(data: DataDir) -> None:
    def composed(segments: list[SegmentUse]) -> list[tuple[str, Any]]:
        problems = verify_composition(
            data.index("shop"), _folder(data), segments, data.processed("shop") / CHUNKS, INFO
        )
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
    problems = verify_whole(_folder(data, "v0001"), manifest)
    assert [problem.found for problem in problems if problem.where.startswith(CHUNKS)] == ["live twice"]


def test_a_sealed_segment_is_trusted_until_its_files_are_touched(data: DataDir) -> None:
    matrix = _segment(data, 0) / "vectors.npy"
    assert verify_whole(_folder(data), _manifest(data)) == []
    _flip(matrix, -1)
    assert _damaged_segments(verify_whole(_folder(data), _manifest(data))) == [matrix.parent.name]


# rebuild


def _made(data: DataDir, version: str = "v0002") -> list[int]:
    """When each segment was sealed, in nanoseconds."""
    return [
        (_segment(data, number, version) / "segment.json").stat().st_mtime_ns
        for number in range(len(_manifest(data, version).segments))
    ]


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
    (table.parent / "segment.json").unlink()
    (table.parent.with_name("0123456789abcdef")).mkdir()
    discard_unfinished(data.index("shop"))
    assert table.is_file(), "a version names it: it is no leftover"
    assert not table.parent.with_name("0123456789abcdef").exists()
    with pytest.raises(DamagedVersion, match="a segment is missing"):
        rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert _left(data) == []


def test_what_was_not_finished_goes_where_no_version_has_segments_yet(tmp_path: Path) -> None:
    folder = segment_dir(tmp_path, "0123456789abcdef")
    folder.mkdir(parents=True)
    discard_unfinished(tmp_path)
    assert not folder.exists()


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
    forgotten = forget_in_version(data.index("shop"), version, takedown, data.vectors, Embed())
    remove_unnamed_segments(data.index("shop"), at_once=True)
    return forgotten


def _bytes_of(folder: Path) -> bytes:
    """Everything below a folder, tables as they are read; but HNSW's graphs: without a child of its own, it writes
    memory that it has not set, with texts that this test holds.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".bin"]
    return b"".join(
        str(pq.read_table(path).to_pydict()).encode() if path.suffix == ".parquet" else path.read_bytes()
        for path in files
    )


def test_forgetting_makes_the_segments_that_never_had_the_page_once_for_all_versions(
    data: DataDir, tmp_path: Path
) -> None:
    url, before = "http://shop/2", [use.segment for use in _manifest(data).segments]
    forgotten = _forget(data, "v0002", url)
    assert (forgotten.items, len(forgotten.chunks)) == ({("pages", url)}, 1)
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
        assert (manifest.digest, manifest.counts) == (expected.digest, expected.counts)
        assert manifest.lineage["forgotten"] == [{"url": url, "at": making.AT, "items": 1, "chunks": 1}]
        assert _verified(data, version) == []
    assert [(use.chunks, use.deleted) for use in _manifest(data).segments] == [(3, 1), (4, 1), (4, 0), (2, 0)]
    assert [use.segment for use in _manifest(data).segments][1:] == before[1:]
    content = _bytes_of(data.index("shop"))
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
    assert b"text of page 7" not in _bytes_of(data.index("shop"))
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
    assert b"text of page 7" not in _bytes_of(data.index("shop"))


def test_urls_are_known_of_rows_that_every_version_has_deleted(data: DataDir) -> None:
    shutil.rmtree(_folder(data, "v0001"))
    content = find_items(data, "shop", ["http://shop/7"])
    assert (content.items, len(content.keys), content.is_whole) == ({("pages", "http://shop/7")}, 1, True)
    assert "http://shop/7" in set(known_urls(data, "shop"))
    shutil.rmtree(_segment(data, 2))
    assert not find_items(data, "shop", ["http://shop/7"]).is_whole


# prune and promote


def _declaration(**values: Any) -> Declaration:
    return Declaration.model_validate(
        {"name": "shop", "sources": [{"name": "pages", "kind": "files", "glob": "*.md"}], **values}
    )


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
    sizes = [
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for folder in [*shared, _segment(data, 3)]
    ]
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


# compact


def _compact(data: DataDir, limit: int) -> CompactResult:
    with writer_lock(data.index("shop"), "compact") as lease:
        discard_unfinished(data.index("shop"))
        return compact_version(data.index("shop"), limit, data.vectors, lease=lease)


def _rows(data: DataDir, version: str) -> list[Any]:
    tables = VersionTables.in_folder(_folder(data, version), _manifest(data, version))
    return sorted(
        [*row.values()]
        for name in (CHUNKS, DOCUMENTS)
        for row in tables.read(name, ["source", "document_id", "url", "text"]).to_pylist()
    )


@pytest.mark.parametrize(("limit", "after"), [(50, 1), (4, 3)])
def test_compaction_merges_segments_without_deleted_rows_into_a_new_live_version(
    data: DataDir, limit: int, after: int
) -> None:
    before, vectors = _manifest(data), sorted(data.vectors.rglob("*"))
    result = _compact(data, limit)
    assert (result.version, result.previous, result.published, result.deleted) == ("v0003", "v0002", True, 2)
    assert (result.segments.before, result.segments.after) == (4, after)
    manifest = _manifest(data, "v0003")
    assert (manifest.digest, manifest.counts, manifest.gate, manifest.derived) == (
        before.digest,
        before.counts,
        before.gate,
        before.derived,
    )
    assert (manifest.parent, manifest.lineage["compacted"]["version"], current_version(data.index("shop"))) == (
        "v0002",
        "v0002",
        "v0003",
    )
    assert sum(use.deleted for use in manifest.segments) == 0
    assert _rows(data, "v0003") == _rows(data, "v0002")
    assert _verified(data, "v0003") == _verified(data) == []
    assert sorted(data.vectors.rglob("*")) == vectors, "nothing is embedded"
    again = _compact(data, limit)
    assert (again.version, again.previous, again.segments.after, again.deleted) == ("v0003", "v0003", after, 0)
    assert _left(data) == []


def test_whoever_rolls_back_meanwhile_is_not_overruled_and_the_merged_version_is_found_again(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(*arguments: Any, **more: Any) -> Manifest:
        publish(data.index("shop"), "v0001")
        return finish_version(*arguments, **more)

    monkeypatch.setattr(compact, "finish_version", finish)
    result = _compact(data, 50)
    assert (result.version, result.published, current_version(data.index("shop"))) == ("v0003", False, "v0001")
    publish(data.index("shop"), "v0002")
    assert (_compact(data, 50).version, current_version(data.index("shop"))) == ("v0003", "v0003")


def test_a_version_that_was_published_against_its_gate_stays_so(data: DataDir) -> None:
    path = _folder(data) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "gate": {"verdict": "refused", "checks": []}}))
    publish(data.index("shop"), "v0001")
    publish(data.index("shop"), "v0002", override="it is right")
    assert _compact(data, 50).published
    assert override_of(data.index("shop"), "v0003") == "it is right"


def test_a_damaged_version_is_not_compacted(data: DataDir) -> None:
    _flip(_segment(data, 1) / CHUNKS)
    with pytest.raises(DamagedVersion, match=r"chunks\.parquet of segment"):
        _compact(data, 50)
    assert (version_names(data.index("shop")), _left(data)) == (["v0001", "v0002"], [])


def test_a_single_segment_is_built_in_full_where_deltas_have_left_holes(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    manifest = making.make_version(data, "shop", "v0001", FIRST)
    publish(data.index("shop"), "v0001")
    assert _compact(data, 50).version == "v0001"
    facts = BuildFacts(kind="delta", added=2, removed=2, slots=len(FIRST) + 2, layout=row_layout())
    path = _folder(data, "v0001") / "manifest.json"
    path.write_text(manifest.model_copy(update={"lineage": {"build": facts.model_dump()}}).model_dump_json())
    result = _compact(data, 50)
    assert (result.version, result.segments.before, result.segments.after) == ("v0002", 1, 1)
    assert _manifest(data).lineage["build"]["kind"] == "full"
    assert (_verified(data), _manifest(data).digest) == ([], manifest.digest)


# readers of tables, and export


def test_versions_are_compared_by_what_is_live_in_them(data: DataDir) -> None:
    result = compare_versions(data.index("shop"), "v0001", "v0002")
    assert result.items == {"added": 1, "changed": 1, "moved": 0, "unchanged": 10, "removed": 1}
    assert result.chunks == {"added": 2, "kept": 10, "removed": 2}


def test_raw_pages_stay_that_a_version_needs(data: DataDir) -> None:
    def needed() -> set[str] | None:
        return retention._bodies_of_versions(data.index("shop"))

    assert needed() == {f"raw-{text}" for text in [*FIRST.values(), *SECOND.values()]}
    shutil.rmtree(_folder(data, "v0001"))
    assert needed() == {f"raw-{text}" for text in SECOND.values()}
    shutil.rmtree(_segment(data, 0))
    assert needed() is None


@pytest.mark.parametrize("what", ["chunks", "documents", "vectors"])
def test_tables_are_exported_without_deleted_rows(data: DataDir, tmp_path: Path, what: Any) -> None:
    export_table(_declaration(), data, "v0002", what, "jsonl", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert len(rows) == len(SECOND)
    assert what == "vectors" or sorted(row["text"] for row in rows) == sorted(SECOND.values())


@pytest.mark.parametrize("is_single", [True, False])
def test_stock_chroma_opens_an_exported_version(data: DataDir, tmp_path: Path, is_single: bool) -> None:
    if is_single:
        shutil.rmtree(_folder(data))
        making.make_version(data, "shop", "v0002", SECOND)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.index.upkeep.export_chroma._SENT", 3)  # batches over the bounds of segments
        result = export_chroma(data.index("shop"), "v0002", tmp_path / "out")
    assert (result.out, result.collection, result.chunks) == (str(tmp_path / "out"), "shop", len(SECOND))
    client = chromadb.PersistentClient(path=str(tmp_path / "out"))
    collection = client.get_collection("shop", embedding_function=None)
    stored = collection.get(include=["documents", "metadatas"])
    assert sorted(stored["documents"] or []) == sorted(SECOND.values())
    query_vectors = HashEmbedder().embed_queries(["Title of http://shop/new. a new page"])
    hit = collection.query(query_embeddings=query_vectors, n_results=1)
    assert [row["url"] for row in (hit["metadatas"] or [])[0]] == ["http://shop/new"]
    with pytest.raises(UsageError, match="empty directory"):
        export_chroma(data.index("shop"), "v0002", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_export_of_damaged_vectors_leaves_nothing(data: DataDir, tmp_path: Path) -> None:
    _flip(_segment(data, 1) / "vectors.npy", -1)
    (tmp_path / "out").mkdir()
    with pytest.raises(DamagedVersion, match="was altered"):
        export_chroma(data.index("shop"), "v0002", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
