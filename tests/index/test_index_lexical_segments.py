"""The lexical index over several segments with deleted rows: it ranks exactly as one index of the same live rows, by
BM25.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almanac.core.tables import CHUNKS, chunks_table, write_table
from almanac.index.lexical import lexical_reader as reader
from almanac.index.lexical import writer
from almanac.index.lexical.lexical_facts import LEXICAL
from almanac.index.lexical.lexical_reader import LexicalIndex
from almanac.index.lexical.postings import ARRAYS, Postings
from almanac.index.lexical.writer import KnownRows, build_lexical
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import StoredFile, Verdict
from tests.index.conftest import Base

_TEXTS = {
    "en": (
        "castle castles opening hours garden gardens the of a ticket tickets 1,000 e-mail TO1101 museum "
        "internationalisation internationalised"
    ),
    "fr": "château musée l’été l’enfant fermé ouvert le la jardin jardins tickets billets d’entrée",
    "vi": "điện Biên Phủ là một thành phố ở Việt Nam vé tham quan bảo tàng biển hòa hoà",
    "he": "המוזיאון פתוח בבית הגדול בית גן וגן",
    "zh": "东京塔 的门票 可以 在网上 购买 门票 东京",
}
_WORDS = {language: text.split() for language, text in _TEXTS.items()}
_QUERIES = [
    "castle", "the castle of gardens", "opening hours 1000", "musee ete", "musée l’enfant", "tickets", "dien bien phu",
    "thanh pho viet nam", "điện biên",
    "hoà", "בית", "гора", "门票东京", "TO1101 e-mail", "the of a", "internationalisation", "", " ".join(_TEXTS.values()),  # noqa: E501
]  # fmt: skip
Rows = Sequence[tuple[ChunkRow, bool]]  # and whether each is live


def _chunk(number: int, text: str, title: str = "", language: str | None = None) -> ChunkRow:
    metadata = {"language": language} if language else {}
    return ChunkRow(
        f"doc{number}",
        "notes",
        f"file:///{number}",
        title,
        "document",
        0,
        0,
        len(text),
        text,
        text,
        metadata,
        "2026-01-01T00:00:00+00:00",
    )


def _build(folder: Path, rows: Sequence[ChunkRow], language: str = "en") -> Path:
    folder.mkdir(parents=True)
    write_table(folder / CHUNKS, chunks_table(rows))
    build_lexical(folder, language)
    return folder


def _index(folders: Sequence[Path], rows: Rows) -> LexicalIndex:
    live = np.array([is_live for _, is_live in rows], np.bool_)
    ids = [row.chunk_id for row, _ in rows]
    return LexicalIndex(
        folders, lambda some: [ids[row] for row in some.tolist()], None if live.all() else live, len(rows)
    )


def _build_single(folder: Path, rows: Sequence[ChunkRow], language: str = "en") -> LexicalIndex:
    return _index([_build(folder, rows, language)], [(row, True) for row in rows])


def _split(
    root: Path, live: Sequence[ChunkRow], dead: Sequence[ChunkRow], count: int, language: str, chance: random.Random
) -> tuple[LexicalIndex, Rows]:
    """An index of `count` parts, over which the rows are spread at will; and its rows."""
    parts: list[list[tuple[ChunkRow, bool]]] = [[] for _ in range(count)]
    for row in [*((chunk, True) for chunk in live), *((chunk, False) for chunk in dead)]:
        chance.choice(parts).append(row)
    for part in parts:
        chance.shuffle(part)
    folders = [_build(root / str(number), [row for row, _ in part], language) for number, part in enumerate(parts)]
    rows = [row for part in parts for row in part]
    return _index(folders, rows), rows


def _mask(rows: Rows, ids: set[str]) -> Any:
    return np.array([row.chunk_id in ids for row, _ in rows], np.bool_)


def _some_row(number: int, language: str, chance: random.Random) -> ChunkRow:
    spoken = chance.choice(list(_WORDS)) if language == "auto" else language
    length = chance.choice([0, 1, 3, 10, 40, 130]) if chance.random() < 0.9 else 0
    text = " ".join(chance.choices(_WORDS[spoken], [1 / (rank + 1) for rank in range(len(_WORDS[spoken]))], k=length))
    return _chunk(
        number, text, chance.choice(["", chance.choice(_WORDS[spoken])]), spoken if language == "auto" else None
    )


@pytest.mark.slow
@pytest.mark.parametrize("few", [reader._FEW, 1 << 40, 0])  # lookups where they pay; always; never
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 30), language=st.sampled_from(["auto", "en", "fr", "vi", "he", "zh"]))
def test_any_segments_and_deletions_rank_as_one_index_of_the_live_rows(
    tmp_path_factory: pytest.TempPathFactory, few: int, seed: int, language: str
) -> None:
    chance, root = random.Random(seed), tmp_path_factory.mktemp("split")
    live = [_some_row(number, language, chance) for number in range(chance.choice([1, 7, 60]))]
    gone = [_some_row(1000 + number, language, chance) for number in range(chance.choice([0, 3, 60]))]
    if language == "auto" and chance.random() < 0.3:  # a language of which nothing is left
        gone, live = (
            [*gone, *(row for row in live if row.metadata["language"] == "fr")],
            [row for row in live if row.metadata["language"] != "fr"],
        )
    # of the same id
    earlier = [replace(row, fetched_at="2025-01-01T00:00:00+00:00") for row in chance.sample(live, len(live) // 2)]
    single = _build_single(root / "one", live, language)
    several, rows = _split(root, live, [*gone, *earlier], chance.randint(1, 6), language, chance)
    some = {row.chunk_id for row in chance.sample([*live, *gone], (len(live) + len(gone)) // 2)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_FEW", few)
        for query in _QUERIES:
            assert several.readings(query) == single.readings(query)
            everything = single.search(query, 200)
            for k in (1, 5, 200):
                assert several.search(query, k) == single.search(query, k) == everything[:k]
                among = [hit for hit in everything if hit[0] in some][:k]
                assert several.search(query, k, _mask(rows, some)) == among
                assert single.search(query, k, _mask([(row, True) for row in live], some)) == among


def test_rows_with_none_of_the_rarest_words_are_left_out_only_where_that_changes_no_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of segments of short and of long rows, and one in which a word that is rare otherwise stands in each deleted
    row.
    """
    chance = random.Random(7)
    words, often = [f"w{number}" for number in range(300)], [1 / (rank + 1) ** 1.3 for rank in range(300)]

    def row(number: int, length: int, more: str = "") -> ChunkRow:
        return _chunk(number, " ".join([*chance.choices(words, often, k=length), more]).strip())

    short, long = ([row(at + number, length) for number in range(700)] for at, length in ((0, 9), (1000, 160)))
    dead, last = [row(2000 + number, 40, "w250 w251") for number in range(700)], row(3000, 40, "w250")
    folders = [
        _build(tmp_path / name, rows) for name, rows in (("short", short), ("long", long), ("dead", [*dead, last]))
    ]
    rows = [*((chunk, True) for chunk in (*short, *long)), *((chunk, False) for chunk in dead), (last, True)]
    several, single = _index(folders, rows), _build_single(tmp_path / "one", [*short, *long, last])
    looked_up, look_up = list[int](), reader._looked_up

    def noted(having: Any, counts: Any, among: Any, span: slice) -> Any:
        looked_up.append(len(among))
        return look_up(having, counts, among, span)

    monkeypatch.setattr(reader, "_looked_up", noted)
    questions = [" ".join(chance.choices(words, often, k=chance.choice([2, 5, 9]))) for _ in range(30)]
    for query in ("w250", "w250 w0", "w0", "w0 w1 w2", "w17 w90 w251", " ".join(words), *questions):
        looked_up.clear()
        everything = single.search(query, 3000)
        assert not looked_up
        for k in (1, 10, 50):
            assert several.search(query, k) == single.search(query, k) == everything[:k]
        many = {hit for hit, _ in everything[::2]} | {last.chunk_id}
        assert several.search(query, 10, _mask(rows, many)) == [hit for hit in everything if hit[0] in many][:10]
    several.search("w250 w0", 1)
    assert looked_up, "most rows were left out"


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    texts = ["wa wb", "wa wa wc wd we", "wb wb wb", "other words of no matter", ""]
    scores = dict(
        _build_single(tmp_path / "one", rows := [_chunk(n, text) for n, text in enumerate(texts)]).search("wa wb", 9)
    )
    average = sum(len(text.split()) for text in texts) / 5
    for row, text in zip(rows[:3], texts, strict=False):
        counts, length = Counter(text.split()), len(text.split())
        expected = sum(
            math.log(1 + (5 - 2 + 0.5) / (2 + 0.5))
            * (2.2 * counts[term] / (counts[term] + 1.2 * (0.25 + 0.75 * length / average)))
            for term in ("wa", "wb")
        )
        assert scores.pop(row.chunk_id) == float(f"{expected:.6g}")
    assert not scores


def test_a_word_counts_however_often_it_is_said(tmp_path: Path) -> None:
    index = _build_single(tmp_path / "one", [_chunk(0, "castle " * 70_000), _chunk(1, "castle " * 3 + "hut " * 3)])
    assert [score > 0 for _, score in index.search("castle", 2)] == [True, True]
    assert Postings(tmp_path / "one" / LEXICAL).misfit() is None


def _known(tmp_path: Path, name: str, rows: list[ChunkRow], numbers: Sequence[int], places: Sequence[int]) -> KnownRows:
    folder = _build(tmp_path / name, rows, "auto")
    paths = [folder / LEXICAL / f"{array}.npy" for array in ARRAYS]
    stored = [
        StoredFile(path=f"{LEXICAL}/{path.name}", bytes=path.stat().st_size, sha256=file_sha256(path)) for path in paths
    ]
    manifest = Base(tmp_path).manifest(name, rows, Verdict(verdict="passed", checks=[]))
    return KnownRows(
        folder, manifest.model_copy(update={"files": stored}), np.array(numbers, np.int64), np.array(places, np.int64)
    )


def test_terms_of_several_earlier_segments_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    rows = [_some_row(number, "auto", chance) for number in range(2300)]
    full = _build(tmp_path / "full", rows, "auto") / LEXICAL
    order = chance.sample(range(800, 2300), 1200)  # some are known twice
    sources = [
        _known(tmp_path, "v0001", rows[:900], range(5, 900), range(5, 900)),
        _known(tmp_path, "v0002", [rows[n] for n in order], sorted(order), [order.index(n) for n in sorted(order)]),
    ]
    analyze, again = writer.analyzed, list[str]()

    def noted(row: dict[str, Any], language: str) -> Any:
        again.append(row["chunk_id"])
        return analyze(row, language)

    monkeypatch.setattr(writer, "analyzed", noted)

    def merged(name: str) -> Path:
        (tmp_path / name).mkdir()
        write_table(tmp_path / name / CHUNKS, chunks_table(rows))
        build_lexical(tmp_path / name, "auto", sources)
        return tmp_path / name / LEXICAL

    folder = merged("merged")
    assert again == [
        row.chunk_id for number, row in enumerate(rows) if number < 5 or (number >= 900 and number not in set(order))
    ]
    for array in set(ARRAYS) - {"languages"}:  # of which the order is that in which they are met
        assert (folder / f"{array}.npy").read_bytes() == (full / f"{array}.npy").read_bytes()
    of_both = [
        np.array(opened.facts.languages)[opened.languages].tolist() for opened in (Postings(folder), Postings(full))
    ]
    assert of_both[0] == of_both[1]
    again.clear()
    path = sources[1].folder / LEXICAL / "counts.npy"
    path.write_bytes(path.read_bytes()[:-2] + b"??")
    two = merged("again")
    assert len(again) == 2300 - 895, "those of the damaged one are analyzed"
    assert (two / "counts.npy").read_bytes() == (full / "counts.npy").read_bytes()


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "empty"])
@pytest.mark.parametrize("name", ["lexical.json", *(f"{array}.npy" for array in ARRAYS)])
def test_a_damaged_file_is_a_damaged_version(tmp_path: Path, name: str, damage: str) -> None:
    rows = [_chunk(number, f"castle garden {number}") for number in range(50)]
    folder = _build(tmp_path / "one", rows)
    path = folder / LEXICAL / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(
            {"truncated": content[: len(content) // 2], "altered": b"x" * len(content), "empty": b""}[damage]
        )
    with pytest.raises(DamagedVersion) as raised:
        _index([folder], [(row, True) for row in rows])
    assert str(folder / LEXICAL) == raised.value.where and raised.value.hint


def test_an_index_of_another_number_of_rows_is_damaged(tmp_path: Path) -> None:
    rows = [_chunk(number, f"castle garden {number}") for number in range(50)]
    folder = _build(tmp_path / "one", rows)
    with pytest.raises(DamagedVersion, match="the lexical index has 50 rows instead of 49"):
        _index([folder], [(row, True) for row in rows[1:]])
