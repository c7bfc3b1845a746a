"""A version reads alike whatever its segments; deleted rows are found by nothing; damage to a sealed segment is found
when it is opened.
"""

import gc
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.stamps import STAMPS
from almanac.index import pinned_version
from almanac.index.reader import OpenVersion
from almanac.index.segments.segment_rows import COLUMNS, MappedRows, write_rows
from almanac.index.segments.segment_store import remove_unnamed_segments, segment_dir
from almanac.index.versions.version_store import MANIFEST, version_dir
from almanac.query.retrieval.request import Request, SearchMode
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.items import ChunkRow
from tests.conftest import PATIENCE_S
from tests.index.conftest import Base, HashEmbedder
from tests.index.segmented import as_one, build_segmented, spread, table_in
from tests.processes import is_read_singly

_WORDS = [
    "castle",
    "garden",
    "opening",
    "hours",
    "ticket",
    "museum",
    "tower",
    "bridge",
    "river",
    "boat",
    "summer",
    "winter",
    "children",
    "students",
    "price",
]
_QUERIES = [
    "castle",
    "opening hours of the museum",
    "children in winter",
    "no such word",
    "castle garden ticket price boat",
]


def _row(number: int, document: int, ordinal: int, chance: random.Random) -> ChunkRow:
    text = " ".join(chance.choices(_WORDS, k=chance.choice([1, 5, 30]))) + (f" {number}" if number % 7 else "")
    team, tags = chance.choice(["red", ["red", "blue"], None]), chance.sample(["castle", "boat", "winter"], 2)
    metadata = {"team": team, "number": number, "tags": tags, "language": "en"}
    return ChunkRow(
        document_id=f"doc{document}", source=f"s{document % 2}", url=f"file:///{document}" if document % 5 else "",
        title=f"Title {document % 9}",
        kind="document", ordinal=ordinal, start=0, end=len(text), text=text, embedded_text=text, metadata=metadata,
        fetched_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


@dataclass
class Pair:
    """The same content as several segments and as one, opened; `gone` are chunk ids of deleted rows alone."""

    base: Base
    several: OpenVersion
    single: OpenVersion
    gone: list[str]


@pytest.fixture(scope="module", params=[(1, 1), (2, 3), (3, 6)], ids=lambda param: f"{param[1]} segments")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    seed, count = request.param
    chance, base = random.Random(seed), Base(tmp_path_factory.mktemp("segments"))
    rows = [_row(number, number // 4, number % 4, chance) for number in range(140)]
    live, gone = rows[:100], rows[100:]
    gone.append(
        replace(gone[0], metadata={**gone[0].metadata, "withdrawn": "yes", "team": "green", "tags": ["withdrawn"]})
    )
    # deleted, and added again in another segment
    again = [replace(row, fetched_at="2025-01-01T00:00:00+00:00") for row in chance.sample(live, 30)]
    segments = spread(live, [*gone, *again], count, chance)
    build_segmented(base, "v0001", segments)
    as_one(base, "v0002", [row for segment in segments for row, is_live in segment if is_live])
    with OpenVersion(base.index_dir, "v0001") as several, OpenVersion(base.index_dir, "v0002") as single:
        yield Pair(base, several, single, [row.chunk_id for row in gone])


def _vectors(texts: Sequence[str] = _QUERIES) -> Any:
    return HashEmbedder().embed_queries(texts)


def _exact(opened: OpenVersion, vector: Any, k: int, ids: Any = None) -> list[tuple[str, float]]:
    cosines = opened.cosines(
        vector, opened.chunk_ids if ids is None else [chunk_id for chunk_id in opened.chunk_ids if chunk_id in ids]
    )
    return sorted(cosines.items(), key=lambda hit: (-hit[1], hit[0]))[:k]


def test_dense_search_finds_the_nearest_live_rows(pair: Pair) -> None:
    chance = random.Random(5)
    some = {*chance.sample(pair.single.chunk_ids, 40), pair.gone[0]}
    for vector in _vectors():
        for k in (1, 10, 1000):
            assert pair.several.query(vector, k) == pair.single.query(vector, k) == _exact(pair.single, vector, k)
            assert (
                pair.several.query(vector, k, some)
                == pair.single.query(vector, k, some)
                == _exact(pair.single, vector, k, some)
            )


def test_lexical_search_ranks_alike(pair: Pair) -> None:
    half = pair.single.chunk_ids[::2]
    for query in _QUERIES:
        assert pair.several.readings(query) == pair.single.readings(query)
        for k in (1, 10, 1000):
            assert pair.several.lexical(query, k) == pair.single.lexical(query, k)
            assert pair.several.lexical(query, k, half) == pair.single.lexical(query, k, half)


def test_a_set_of_chunks_restricts_as_its_ids_do(pair: Pair) -> None:
    half = pair.single.chunk_ids[::2]
    wanted = [pair.several.lexical(query, 10, half) for query in _QUERIES]
    chosen = pair.several.chunk_set(half)
    assert [pair.several.lexical(query, 10, chosen) for query in _QUERIES] == wanted
    assert len(chosen) == len(half)
    assert set(chosen) == set(half)
    assert [
        chunk_id in chosen for chunk_id in (half[0], pair.single.chunk_ids[1], pair.gone[0], "unknown", "é" * 32)
    ] == [True, False, False, False, False]


def test_rows_columns_and_vectors_are_those_of_the_live_rows_in_order(pair: Pair) -> None:
    ids = pair.single.chunk_ids
    assert pair.several.chunk_ids == ids
    for name in COLUMNS:
        assert pair.several.column(name).to_pylist() == pair.single.column(name).to_pylist()
    assert pair.several.rows(ids[::-7]) == pair.single.rows(ids[::-7])
    assert pair.several.rows([ids[3], ids[3]])[1]["chunk_id"] == ids[3]
    assert np.array_equal(pair.several.vectors(ids[::-1]), pair.single.vectors(ids[::-1]))
    assert pair.several.rows(ids, ("metadata", "title")) == [
        {"metadata": row["metadata"], "title": row["title"]} for row in pair.single.rows(ids)
    ]
    numbers = [opened.coded_metadata(lambda metadata: metadata.get("number")) for opened in (pair.several, pair.single)]
    assert numbers[0].values() == numbers[1].values()
    assert pair.several.metadata_keys == pair.single.metadata_keys == ["language", "number", "tags", "team"]
    assert pair.several.smallest(17) == pair.single.smallest(17) == sorted(ids)[:17]
    some = pair.several.chunk_set(ids[::5])
    assert pair.several.smallest(7, some) == sorted(ids[::5])[:7]
    assert pair.several.mask_of(some).tolist() == [chunk_id in some for chunk_id in ids]
    assert list(pair.several.ids_where(pair.several.mask_of(some))) == ids[::5]


def test_deleted_rows_are_found_by_nothing(pair: Pair) -> None:
    known = set(pair.single.chunk_ids)
    for chunk_id in pair.gone:
        with pytest.raises(KeyError):
            pair.several.rows([chunk_id])
        with pytest.raises(KeyError):
            pair.several.vectors([chunk_id])
        assert pair.several.row_of(chunk_id) == -1
    assert len(pair.several.chunk_set(pair.gone)) == 0
    assert pair.several.query(_vectors()[0], 10, pair.gone) == []
    assert pair.several.lexical("castle garden", 10, pair.gone) == []
    assert {chunk_id for chunk_id, _ in pair.several.query(_vectors()[0], 1000)} == known
    assert {chunk_id for query in _WORDS for chunk_id, _ in pair.several.lexical(query, 1000)} <= known
    assert {
        chunk_id
        for document in range(40)
        for _, chunk_id in pair.several.chunks_of(f"s{document % 2}", f"doc{document}")
    } == known


def test_a_document_has_its_chunks_from_all_segments(pair: Pair) -> None:
    for document in (0, 7, 24, 99):
        of_one = pair.single.chunks_of(f"s{document % 2}", f"doc{document}")
        assert pair.several.chunks_of(f"s{document % 2}", f"doc{document}") == of_one
        assert {ordinal for ordinal, _ in of_one} == ({0, 1, 2, 3} if document < 25 else set())
        assert pair.several.chunks_of(f"s{document % 2}", f"doc{document}", {1}) == [
            numbered_chunk for numbered_chunk in of_one if numbered_chunk[0] == 1
        ]
    assert pair.several.chunks_of("s1", "doc0") == []


_DECLARED = {
    "name": "notes",
    "sources": [{"name": "s0", "kind": "files", "glob": "*"}],
    "retrieve": {"workspace": "team", "tags": {"field": "tags", "floor": 0.9}, "neighbours": 1, "k": 7},
}


def test_searches_are_the_same_with_filters_workspaces_tags_and_neighbours(pair: Pair) -> None:
    retrievers = [
        Retriever(Declaration.model_validate(_DECLARED), opened, _vectors) for opened in (pair.several, pair.single)
    ]
    filters: list[Any] = [
        None,
        {"number": {"$gte": 30}},
        {"team": "red"},
        {"source": "s0"},
        {"url": ""},
        {"$not": {"team": {"$in": ["blue", "green"]}}},
    ]
    for where in filters:
        for workspace in (None, "red", "blue", "green"):
            for text, vector in zip(_QUERIES, _vectors(), strict=True):
                request = Request(text, vector, 7, "hybrid", where, workspace=workspace)
                several, single = (retriever.find(request) for retriever in retrievers)
                assert several.hits == single.hits
                assert several.rivals == single.rivals
                assert [{**step, "ms": 0} for step in several.trace] == [{**step, "ms": 0} for step in single.trace]
    for workspace in (None, "red", "blue", "green"):
        assert retrievers[0].documents(workspace).equals(retrievers[1].documents(workspace))
    assert retrievers[0].documents()["source"].to_pylist()[:6] == [
        "doc0",
        "doc10",
        "doc15",
        "doc20",
        "doc5",
        "file:///1",
    ]
    assert len(retrievers[0].documents("green")) == 0


@pytest.fixture
def small(tmp_path: Path, small_segmented: Base) -> Base:
    """A copy of a version of two segments, whose stamps fit."""
    shutil.copytree(small_segmented.root, tmp_path / "base")
    copied = Base(tmp_path / "base")
    OpenVersion(copied.index_dir, "v0001").close()  # its files are other ones than those that were stamped
    return copied


@pytest.fixture(scope="module")
def small_segmented(tmp_path_factory: pytest.TempPathFactory) -> Base:
    chance, base = random.Random(1), Base(tmp_path_factory.mktemp("small"))
    rows = [_row(number, number, 0, chance) for number in range(40)]
    build_segmented(
        base,
        "v0001",
        [[(row, number % 5 > 0) for number, row in enumerate(rows[:25])], [(row, True) for row in rows[25:]]],
    )
    return base


_FILES = [
    "rows.arrow", "by_id.npy", "vectors.npy", "chunks.parquet", "chroma/*/data_level0.bin",
    "lexical/counts.npy", "lexical/lexical.json",
    "segment.json",
]  # fmt: skip


@pytest.mark.parametrize("pattern", _FILES)
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damage_to_a_sealed_segment_is_found_when_it_is_opened(small: Base, pattern: str, damage: str) -> None:
    [path] = segment_dir(small.index_dir, "v0001-1").glob(pattern)
    before = path.stat()
    if damage == "gone":
        path.unlink()
    else:
        with path.open("r+b") as file:
            if damage == "cut":
                file.truncate(before.st_size - 1 - before.st_size // 3)
            else:
                file.seek(0)
                byte = file.read(1)[0]
                file.seek(0)
                file.write(bytes([byte ^ 0xFF]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a program may
    with pytest.raises(DamagedVersion) as raised:
        OpenVersion(small.index_dir, "v0001")
    assert str(small.index_dir) in str(raised.value.where)
    assert raised.value.hint


def test_damage_to_what_is_deleted_and_a_missing_segment_are_found_when_it_is_opened(small: Base) -> None:
    [deleted] = version_dir(small.index_dir, "v0001").glob("deleted/*.chunks.npy")
    whole = deleted.read_bytes()
    for content in (whole[:-8], whole[:-8] + np.int64(24).tobytes(), b"none"):
        deleted.write_bytes(content)
        with pytest.raises(DamagedVersion):
            OpenVersion(small.index_dir, "v0001")
    deleted.write_bytes(whole)
    OpenVersion(small.index_dir, "v0001").close()
    segment_dir(small.index_dir, "v0001-0").rename(small.root / "elsewhere")
    with pytest.raises(DamagedVersion, match="missing"):
        OpenVersion(small.index_dir, "v0001")


def test_a_segment_of_another_size_than_the_version_names_is_refused(small: Base) -> None:
    manifest = version_dir(small.index_dir, "v0001") / MANIFEST
    content = manifest.read_text()
    manifest.write_text(content.replace('"chunks": 15', '"chunks": 16'))
    with pytest.raises(DamagedVersion, match="16 chunks of segment v0001-1"):
        OpenVersion(small.index_dir, "v0001")


def test_untouched_files_are_not_read_again(small: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stamps of a copy do not fit; the first reader compares its files and stamps them anew."""
    read: list[Path] = []

    def noted(path: Path) -> str:
        read.append(path)
        return file_sha256(path)

    monkeypatch.setattr("almanac.core.stamps.file_sha256", noted)
    with OpenVersion(small.index_dir, "v0001") as opened:
        assert len(opened.query(_vectors()[0], 3)) == 3
        assert opened.lexical("castle", 3)
    assert {path.parent.name for path in read} == {"deleted"}  # of the version's own folder
    (segment_dir(small.index_dir, "v0001-0") / STAMPS).unlink()
    monkeypatch.undo()
    OpenVersion(small.index_dir, "v0001").close()
    assert (segment_dir(small.index_dir, "v0001-0") / STAMPS).is_file()


def test_a_reader_keeps_its_segments_while_they_are_exchanged_or_removed(small: Base) -> None:
    folder = segment_dir(small.index_dir, "v0001-1")
    with OpenVersion(small.index_dir, "v0001") as reader:
        assert reader.is_in_place
        shutil.copytree(folder, folder.with_name(".other"))
        folder.rename(folder.with_name(".former"))
        folder.with_name(".other").rename(folder)
        assert not reader.is_in_place
        version_dir(small.index_dir, "v0001").rename(small.root / "elsewhere")  # so that no version names the segments
        assert remove_unnamed_segments(small.index_dir)[0] == ["v0001-1"]  # the exchanged folder; nobody has opened it
        hits = reader.query(_vectors()[0], 36)
        assert len(hits) == 35
        assert len(reader.rows([chunk_id for chunk_id, _ in hits])) == 35
        assert reader.lexical("castle", 3)
    assert remove_unnamed_segments(small.index_dir)[0] == ["v0001-0"]


def test_a_closed_reader_pins_its_segments_again(small: Base) -> None:
    reader = OpenVersion(small.index_dir, "v0001")
    first = reader.query(_vectors()[0], 3)
    reader.close()
    assert not reader.is_in_place
    assert reader.query(_vectors()[0], 3) == first
    assert reader.is_in_place
    reader.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
def test_first_searches_read_pages_one_by_one_and_later_ones_around_them(small: Base) -> None:
    """Also where the version is closed and opened again, as after a pause, and of files that are opened later than
    that.
    """
    with OpenVersion(small.index_dir, "v0001") as opened:
        declaration = Declaration.model_validate(
            {"name": "kb", "sources": [{"name": "s", "kind": "files", "glob": "*"}]}
        )
        retriever = Retriever(declaration, opened, _vectors)
        folders = [segment_dir(small.index_dir, use.segment) for use in opened.manifest.segments]

        def search(mode: SearchMode) -> set[bool]:
            assert retriever.find(Request("castle", _vectors()[0], 3, mode)).hits
            return {is_read_singly(folder / "rows.arrow") for folder in folders}

        assert [search(mode) for mode in ("dense", "hybrid", "dense")] == [{True}] * 3
        assert search("hybrid") == {False}
        opened.close()
        gc.collect()
        assert [search(mode) for mode in ("dense", "hybrid")] == [{False}] * 2


def test_rows_of_many_batches_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    rows = [_row(number, number, 0, chance) for number in range(300)]
    monkeypatch.setattr("almanac.index.segments.segment_rows._BATCH", 10_000)
    monkeypatch.setattr("almanac.index.segments.segment_rows._READ", 7)
    write_rows(table_in(tmp_path, rows))
    mapped = MappedRows(tmp_path, 300)
    ids = [row.chunk_id for row in rows]
    assert len(list(mapped.batches(["chunk_id"]))) > 3
    assert mapped.ids(mapped.by_id.astype(np.int64)) == sorted(ids)
    wanted = np.array([*ids, "0" * 32, "f" * 32, ids[0][:-1] + "x"], dtype="S32")
    assert mapped.find(wanted).tolist() == [*range(300), -1, -1, -1]
    assert mapped.rows(np.array([0, 150, 299]), ["chunk_id", "text"]) == [
        {"chunk_id": ids[number], "text": rows[number].text} for number in (0, 150, 299)
    ]


def test_ids_that_begin_alike_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    rows = [_row(number, number, 0, chance) for number in range(60)]
    given = {row.document_id: f"{number % 3:08x}{number:024x}" for number, row in enumerate(rows)}
    monkeypatch.setattr(ChunkRow, "chunk_id", property(lambda row: given[row.document_id]))
    write_rows(table_in(tmp_path, rows))
    mapped = MappedRows(tmp_path, 60)
    assert mapped.find(np.array(list(given.values()), dtype="S32")).tolist() == list(range(60))
    assert mapped.find(np.array(["00000001" + "f" * 24, "00000002" + "0" * 24], dtype="S32")).tolist() == [-1, -1]


@pytest.mark.parametrize("others", [[], ["", "é" * 32, "0" * 33, "unknown", "0\0"], ["0" * 33, "f" * 200]])
def test_what_is_no_id_is_found_by_nothing(pair: Pair, others: list[str]) -> None:
    ids = pair.single.chunk_ids
    longer = [*others, *ids, ids[0] + "0", ids[0][:-1], ids[0].upper() + "é"]
    assert len(pair.several.chunk_set(longer)) == len(ids)
    assert list(pair.several.chunk_set(longer)) == ids


def test_a_version_that_is_replaced_while_it_is_opened_is_opened_as_it_is_then(
    small: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = version_dir(small.index_dir, "v0001")
    pin, replaced = pinned_version._pin_segment, list[Path]()

    def pin_late(segment: Path) -> Any:
        if not replaced:  # as `forget` replaces a version, and removes what only the former one named
            replaced.append(folder.rename(folder.with_name(".v0001.1")))
            shutil.copytree(replaced[0], folder)
            raise DamagedVersion("a segment is missing")
        return pin(segment)

    monkeypatch.setattr(pinned_version, "_pin_segment", pin_late)
    with OpenVersion(small.index_dir, "v0001") as opened:
        assert opened.is_in_place and opened.manifest.counts.chunks == len(opened.column("chunk_id"))


def test_threads_that_ask_a_new_reader_for_different_things_all_have_an_answer(pair: Pair) -> None:
    vector, some = _vectors()[0], pair.several.chunk_ids[:3]
    works: list[Callable[[OpenVersion], object]] = [
        lambda opened: opened.readings("castle garden"),
        lambda opened: opened.query(vector, 3),
        lambda opened: opened.lexical("castle", 3),
        lambda opened: opened.vectors(some),
        lambda opened: opened.smallest(3),
        lambda opened: opened.chunks_of("s0", "doc0"),
    ]
    for turn in range(8):
        opened = OpenVersion(pair.base.index_dir, "v0001")
        for part in opened._segments:
            part.require_unaltered = _slowly(part.require_unaltered)
        start, answers = threading.Barrier(len(works)), list[object]()

        def ask(
            work: Callable[[OpenVersion], object],
            opened: OpenVersion = opened,
            start: threading.Barrier = start,
            answers: list[object] = answers,
        ) -> None:
            start.wait()
            answers.append(work(opened))

        threads = [
            threading.Thread(target=ask, args=(work,), daemon=True)
            for work in works[turn % len(works) :] + works[: turn % len(works)]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(answers) == len(works)
        opened.close()  # not after a failure: it would wait for ever, too


def _slowly(look: Callable[[str], None]) -> Callable[[str], None]:
    def slow(name: str) -> None:
        time.sleep(0.01)
        look(name)

    return slow
