"""Quantised vectors find what comparing every vector finds, and nothing less, whatever lies in them, is deleted or
filtered out.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.index.reader import OpenVersion
from almanac.index.vectors import nearest as module
from almanac.index.vectors.nearest import Rows, find_nearest
from almanac.index.vectors.quantized import QUANTIZED, Quantized, write_quantized
from almanac.index.vectors.vector_matrix import MATRIX
from almanac.index.versions.version_store import version_dir
from almanac.schemas.errors import DamagedVersion
from tests.index.conftest import INFO, Base, HashEmbedder, make_chunks
from tests.index.segmented import as_one, build_segmented, spread
from tests.index.test_index_delta import problems

_QUANTISED_FROM = "almanac.index.vectors.quantized._FEW"


def _around_topics(rows: int, dimension: int, random: np.random.Generator) -> Any:
    topics = random.normal(size=(max(1, rows // 40), dimension))
    vectors = topics[random.integers(0, len(topics), size=rows)] + 0.5 * random.normal(size=(rows, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@dataclass
class Case:
    vectors: Any
    mask: Any = None

    def rows(self, folder: Path) -> Rows:
        write_quantized(folder, self.vectors)
        count = len(self.vectors) if self.mask is None else int(self.mask.sum())
        return Rows(
            self.vectors,
            lambda rows: [f"{row:06}" for row in rows],
            count,
            self.mask,
            Quantized(folder, *self.vectors.shape),
        )

    def by_hand(self, query: Any, k: int) -> list[str]:
        cosines = np.round(
            self.vectors.astype(np.float64) @ (query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))), 6
        )
        allowed = range(len(cosines)) if self.mask is None else np.flatnonzero(self.mask).tolist()
        return [f"{row:06}" for row in sorted(allowed, key=lambda row: (-cosines[row], row))[:k]]


_RANDOM = np.random.default_rng(7)
_SPREAD = _around_topics(12_000, 48, _RANDOM)
_OFTEN = np.concatenate([_around_topics(5_500, 48, _RANDOM), np.repeat(_around_topics(1, 48, _RANDOM), 700, axis=0)])
_ALIKE = _around_topics(1, 48, _RANDOM) + 0.02 * _RANDOM.normal(size=(8_000, 48)).astype(np.float32)
_ALIKE = (_ALIKE / np.linalg.norm(_ALIKE, axis=1, keepdims=True)).astype(np.float32)
_CASES = {
    "around topics": Case(_SPREAD),
    "an odd dimension": Case(_around_topics(6_000, 31, _RANDOM)),
    "one text 700 times": Case(_OFTEN),
    "all nearly alike": Case(_ALIKE),
    "a third deleted": Case(_SPREAD, _RANDOM.random(len(_SPREAD)) > 0.33),
    "one in twenty": Case(_SPREAD, _RANDOM.random(len(_SPREAD)) < 0.05),
    "far from the question": Case(_SPREAD, _SPREAD @ _SPREAD[0] < 0),
}


@pytest.mark.parametrize("name", _CASES)
def test_the_nearest_are_those_of_all(name: str, tmp_path: Path) -> None:
    case = _CASES[name]
    rows = case.rows(tmp_path)
    queries = [
        case.vectors[0],
        *(case.vectors[np.random.default_rng(8).integers(0, len(case.vectors), size=30)] + 0.05),
    ]
    chunk_ids = {
        (number, k): [chunk_id for chunk_id, _ in find_nearest([rows], query, k)]
        for number, query in enumerate(queries)
        for k in (1, 10, 50)
    }
    # Errors of estimates are nearly normal, and one row in some thousands may lie beyond four deviations.
    missed = sum(len(set(case.by_hand(queries[number], k)) - set(hits)) for (number, k), hits in chunk_ids.items())
    assert missed <= 1  # of 1,891
    assert all(len(hits) == k for (_, k), hits in chunk_ids.items())


def _beside_copies(copies: int, noise: float, gap: float, random: np.random.Generator) -> tuple[Any, Any]:
    """A question, and 9,000 rows: copies of one text (a notice on every page), or nearly so, at cosine .5 to it, and
    ten others that are nearer by a gap.
    """
    rows = random.normal(size=(9_000, 96))
    question = random.normal(size=96)
    question /= np.linalg.norm(question)

    def at(cosine: float) -> Any:
        across = random.normal(size=96)
        across -= (across @ question) * question
        return cosine * question + np.sqrt(1 - cosine**2) * across / np.linalg.norm(across)

    places = random.permutation(9_000)
    notice = at(0.5)
    for place in places[:copies]:
        rows[place] = notice + noise * random.normal(size=96) / np.sqrt(96)
    for place in places[copies : copies + 10]:
        rows[place] = at(0.5 + gap)
    return question.astype(np.float32), (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(
    ("copies", "noise", "gap"),
    [(400, 0.0, 0.015), (65, 0.0, 0.01), (120, 0.0, 0.01), (700, 0.0, 0.005), (400, 0.05, 0.02)],
)
def test_copies_of_a_text_do_not_hide_what_is_nearer(copies: int, noise: float, gap: float, tmp_path: Path) -> None:
    missed = 0
    for turn in range(4):
        question, vectors = _beside_copies(copies, noise, gap, np.random.default_rng(turn))
        case = Case(vectors)
        rows = case.rows(tmp_path)
        for k in (10, 50):
            missed += len(set(case.by_hand(question, k)[:10]) - {hit[0] for hit in find_nearest([rows], question, k)})
    assert missed <= 1  # of 80


def _called(segment: int, rows: Any) -> list[str]:
    return [f"{segment}-{row:06}" for row in rows]


def test_copies_in_one_segment_do_not_hide_what_is_nearer_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_QUANTISED_FROM, 1000)
    question, vectors = _beside_copies(300, 0.0, 0.015, np.random.default_rng(3))
    are_copies = np.isclose(vectors @ question, 0.5, atol=1e-5)
    parts = [
        Case(np.ascontiguousarray(vectors[chosen]))
        for chosen in (are_copies | (np.arange(9_000) % 2 == 0), ~are_copies)
    ]
    segment_rows = []
    for number, part in enumerate(parts):
        (tmp_path / str(number)).mkdir()
        rows = part.rows(tmp_path / str(number))
        segment_rows.append(Rows(rows.vectors, partial(_called, number), rows.count, None, rows.quantized))
    cosines = [
        (f"{number}-{row:06}", cosine)
        for number, part in enumerate(parts)
        for row, cosine in enumerate((part.vectors @ question).tolist())
    ]
    wanted = {chunk_id for chunk_id, _ in sorted(cosines, key=lambda hit: -hit[1])[:10]}
    assert {chunk_id for chunk_id, _ in find_nearest(segment_rows, question, 10)} == wanted


@pytest.mark.parametrize("name", ["around topics", "a third deleted", "made up"])
def test_few_rows_are_read_of_many(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where vectors and questions have nothing to do with each other, and the nearest are hardly nearer."""
    random = np.random.default_rng(5)
    made_up = random.normal(size=(60_000, 384)).astype(np.float32)
    case = _CASES.get(name) or Case(made_up / np.linalg.norm(made_up, axis=1, keepdims=True))
    rows = case.rows(tmp_path)
    monkeypatch.setattr(module, "_all_compared", None)
    for question in random.normal(size=(10, case.vectors.shape[1])).astype(np.float32):
        assert [chunk_id for chunk_id, _ in find_nearest([rows], question, 10)] == case.by_hand(question, 10)


def test_nothing_is_near_to_nothing(tmp_path: Path) -> None:
    rows = _CASES["around topics"].rows(tmp_path)
    assert find_nearest([rows], np.zeros(48, dtype=np.float32), 5) == []
    assert find_nearest([], _SPREAD[0], 5) == []
    assert len(find_nearest([rows], _SPREAD[0], 20_000)) == len(_SPREAD)


@pytest.fixture
def quantised(base: Base, monkeypatch: pytest.MonkeyPatch) -> Base:
    monkeypatch.setattr(_QUANTISED_FROM, 50)
    base.build(count=300)
    return base


def _file(base: Base) -> Path:
    return version_dir(base.index_dir, "v0001") / QUANTIZED


def test_small_segments_have_no_such_file(base: Base) -> None:
    base.build(count=40)
    assert not _file(base).exists()


def test_it_is_verified_against_the_vectors(quantised: Base) -> None:
    assert problems(quantised, "v0001") == []
    content = _file(quantised).read_bytes()
    other = HashEmbedder().embed_documents([str(number) for number in range(300)])
    write_quantized(_file(quantised).parent, other)
    assert [(problem.kind, problem.where) for problem in problems(quantised, "v0001")] == [
        ("vector_altered", QUANTIZED)
    ]
    write_quantized(_file(quantised).parent, np.load(_file(quantised).parent / MATRIX))
    assert _file(quantised).read_bytes() == content, "the same vectors are quantised alike"
    assert problems(quantised, "v0001") == []


def test_another_processor_may_round_otherwise(tmp_path: Path) -> None:
    rounded = _SPREAD + np.float32(1e-5) * _RANDOM.choice(np.array([-1, 0, 1], dtype=np.float32), size=_SPREAD.shape)
    write_quantized(tmp_path, _SPREAD)
    quantized = Quantized(tmp_path, *_SPREAD.shape)
    assert quantized.is_of(_SPREAD)
    assert quantized.is_of(rounded)
    swapped = _SPREAD.copy()
    swapped[[5, 11_000]] = swapped[[11_000, 5]]
    assert not quantized.is_of(swapped)


@pytest.mark.parametrize("damage", ["missing", "cut", "foreign", "fewer rows"])
def test_damage_is_told_and_never_searched(quantised: Base, damage: str) -> None:
    content = _file(quantised).read_bytes()
    _file(quantised).unlink()
    if damage == "cut":
        _file(quantised).write_bytes(content[: len(content) // 2])
    if damage == "foreign":
        _file(quantised).write_bytes(b"\x00" * 4096)
    if damage == "fewer rows":
        write_quantized(_file(quantised).parent, HashEmbedder().embed_documents([str(number) for number in range(200)]))
    assert QUANTIZED in {problem.where for problem in problems(quantised, "v0001")}
    with pytest.raises(DamagedVersion, match=QUANTIZED):
        Quantized(_file(quantised).parent, 300, INFO.dimension)
    with OpenVersion(quantised.index_dir, "v0001") as version, pytest.raises(DamagedVersion, match="v0001"):
        version.query(np.full(16, 0.25, dtype=np.float32), 3)


def test_a_delta_has_one_of_its_own(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_QUANTISED_FROM, 50)
    rows = make_chunks(400)
    base.build(rows=rows)
    base.build("v0002", rows=[*rows[:380], *make_chunks(410)[400:]], parent="v0001")
    assert problems(base, "v0002") == []
    with OpenVersion(base.index_dir, "v0002") as version:
        assert version.manifest.lineage["build"]["kind"] == "delta"
        assert Quantized(version_dir(base.index_dir, "v0002"), 390, INFO.dimension).is_of(
            np.asarray(version._segments[0].vectors)
        )


@pytest.fixture
def several(base: Base, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OpenVersion, OpenVersion]]:
    """The same content in segments, some of them quantised, with deleted rows, and in one."""
    monkeypatch.setattr(_QUANTISED_FROM, 100)
    monkeypatch.setattr("almanac.index.open_segment._COMPARED", 20)
    monkeypatch.setattr(module, "_COMPARED", 60)
    monkeypatch.setattr(module, "_FOR_EACH", 10)
    monkeypatch.setattr(module, "_SHARE", 1)
    rows = make_chunks(500)
    segments = spread(rows[:400], rows[400:], 5, random.Random(3))
    build_segmented(base, "v0001", segments)
    as_one(base, "v0002", [row for segment in segments for row, is_live in segment if is_live])
    with OpenVersion(base.index_dir, "v0001") as cut, OpenVersion(base.index_dir, "v0002") as whole:
        yield cut, whole


def test_segments_do_not_change_what_is_found(several: tuple[OpenVersion, OpenVersion]) -> None:
    cut, whole = several
    assert len({part._quantized is None for part in cut._segments}) == 2
    assert whole._segments[0]._quantized is not None
    every, some = whole.chunk_ids, whole.chunk_ids[::4]
    for vector in HashEmbedder().embed_queries([f"question {number}" for number in range(20)]):
        cosines = sorted(whole.cosines(vector, every).items(), key=lambda hit: (-hit[1], hit[0]))
        for k in (1, 5, 400):
            for ids in (None, some):
                wanted = [hit for hit in cosines if ids is None or hit[0] in set(ids)][:k]
                assert cut.query(vector, k, ids) == whole.query(vector, k, ids) == wanted
