"""The lexical index over several segments with deleted rows: it ranks exactly as one index of the same live rows, and
its scores are tantivy's.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from almanac.core.tables import CHUNKS, chunks_table, write_table
from almanac.index.lexical import bm25, halves, reader, writer
from almanac.index.lexical.bm25 import RowTerms, bm25_scores, idf
from almanac.index.lexical.deleted import DeletedTerms, WantedTerms, write_deleted_terms
from almanac.index.lexical.facts import LEXICAL, lexical_facts
from almanac.index.lexical.part import LexicalPart
from almanac.index.lexical.postings import Postings, rows_of_best
from almanac.index.lexical.reader import LexicalIndex, TableRows
from almanac.index.lexical.terms import BODY, FOLDED, TERMS, TermsFile
from almanac.index.lexical.union import Union
from almanac.index.lexical.writer import KnownRows, KnownTerms, build_lexical, lexical_schema
from almanac.index.vectors.keys import RowNumbers
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
_THREADS = ThreadPoolExecutor(1)


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another thread may search, it searches half of the rows, however few they are."""
    monkeypatch.setattr(halves, "_MANY", 0)


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


def _terms(folder: Path) -> TermsFile:
    return TermsFile(folder / LEXICAL / TERMS, lexical_facts(folder / LEXICAL).rows)


def _one(folder: Path, rows: Sequence[ChunkRow], language: str = "en") -> LexicalIndex:
    return LexicalIndex([LexicalPart(_build(folder, rows, language))], TableRows.of([row.chunk_id for row in rows]))


def _table(rows: Sequence[tuple[ChunkRow, bool]]) -> TableRows:
    """The rows of all parts, one after the other, and which of them are live."""
    ids, live = [row.chunk_id for row, _ in rows], np.array([is_live for _, is_live in rows], np.bool_)
    place = {row.chunk_id: number for number, (row, is_live) in enumerate(rows) if is_live}
    return TableRows.of(ids)._replace(
        locate=lambda some: np.array([place.get(one, -1) for one in some], np.int64), live=live
    )


def _deleted(folder: Path, rows: Sequence[int]) -> LexicalPart:
    """A part of which these rows are deleted."""
    if not rows:
        return LexicalPart(folder)
    write_deleted_terms(folder / "deleted.terms.arrow", _terms(folder), np.array(sorted(rows), np.int64))
    return LexicalPart(folder, folder / "deleted.terms.arrow")


def _split(
    root: Path, live: Sequence[ChunkRow], dead: Sequence[ChunkRow], count: int, language: str, chance: random.Random
) -> LexicalIndex:
    """An index of `count` parts at most, over which the rows are spread at will."""
    spread: list[list[tuple[ChunkRow, bool]]] = [[] for _ in range(count)]
    for rows, is_live in ((live, True), (dead, False)):
        for row in rows:
            spread[chance.randrange(count)].append((row, is_live))
    parts = []
    for number, rows_of_part in enumerate(spread):
        chance.shuffle(rows_of_part)
        folder = _build(root / str(number), [row for row, _ in rows_of_part], language)
        parts.append(_deleted(folder, [place for place, (_, is_live) in enumerate(rows_of_part) if not is_live]))
    return LexicalIndex(
        parts, _table([row for rows_of_part in spread for row in rows_of_part]), chance.choice([None, _THREADS])
    )


def _some_row(number: int, language: str, chance: random.Random) -> ChunkRow:
    spoken = chance.choice(list(_WORDS)) if language == "auto" else language
    length = chance.choice([0, 1, 3, 10, 40, 130]) if chance.random() < 0.9 else 0
    text = " ".join(chance.choices(_WORDS[spoken], [1 / (rank + 1) for rank in range(len(_WORDS[spoken]))], k=length))
    return _chunk(
        number, text, chance.choice(["", chance.choice(_WORDS[spoken])]), spoken if language == "auto" else None
    )


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 30), language=st.sampled_from(["auto", "en", "fr", "vi", "he", "zh"]))
def test_any_segments_and_deletions_rank_as_one_index_of_the_live_rows(
    tmp_path_factory: pytest.TempPathFactory, seed: int, language: str
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
    one = _one(root / "one", live, language)
    several = _split(root, live, [*gone, *earlier], chance.randint(1, 6), language, chance)
    some = {row.chunk_id for row in chance.sample([*live, *gone], (len(live) + len(gone)) // 2)}
    for query in _QUERIES:
        assert several.readings(query) == one.readings(query)
        for k in (1, 5, 200):
            assert several.search(query, k) == one.search(query, k) == one.search(query, 200)[:k]
        assert (
            several.search(query, 200, some)
            == one.search(query, 200, some)
            == [hit for hit in one.search(query, 200) if hit[0] in some]
        )
    several.map_pages()  # from now on, every row is scored
    is_some = several._mask_of(some)
    for query in _QUERIES:
        for k in (1, 5, 200):
            assert several.search(query, k) == one.search(query, k)
            assert several.search(query, k, is_some) == one.search(query, k, some)


@pytest.mark.slow
@pytest.mark.parametrize("by_two_threads", [False, True])
def test_among_many_rows_the_best_are_found_though_segments_differ_in_length_and_in_words(
    tmp_path: Path, by_two_threads: bool
) -> None:
    """One segment of short rows, one of long ones, and one in which a word that is rare otherwise stands in each
    deleted row.
    """
    chance = random.Random(7)
    words = [f"w{number}" for number in range(300)]

    def row(number: int, length: int, more: str = "") -> ChunkRow:
        return _chunk(
            number, " ".join([*chance.choices(words, [1 / (rank + 1) for rank in range(300)], k=length), more]).strip()
        )

    short, long = ([row(at + number, length) for number in range(700)] for at, length in ((0, 9), (1000, 160)))
    dead, last = [row(2000 + number, 40, "w250 w251") for number in range(700)], row(3000, 40, "w250")
    folders = [
        _build(tmp_path / name, rows) for name, rows in (("short", short), ("long", long), ("dead", [*dead, last]))
    ]
    live = [*short, *long, last]
    parts = [LexicalPart(folders[0]), LexicalPart(folders[1]), _deleted(folders[2], range(700))]
    table = _table([*((one, True) for one in (*short, *long)), *((one, False) for one in dead), (last, True)])
    several = LexicalIndex(parts, table, _THREADS if by_two_threads else None)
    assert len(several._halves._halves) == 1 + by_two_threads
    one = _one(tmp_path / "one", live)
    for query in (
        "w250",
        "w250 w0",
        "w0",
        "w0 w1 w2",
        "w17 w90 w251",
        " ".join(chance.choices(words, k=12)),
        " ".join(words),
    ):
        everything = one.search(query, 3000)
        for k in (1, 10, 50):
            assert several.search(query, k) == one.search(query, k) == everything[:k]
        many = {hit for hit, _ in everything[::2]} | {last.chunk_id}
        assert several.search(query, 10, many) == [hit for hit in everything if hit[0] in many][:10]


def test_frequent_words_are_left_out_of_a_search_only_where_they_change_no_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)
    words = [f"w{number}" for number in range(2000)]
    often = [1 / (rank + 1) ** 1.3 for rank in range(2000)]
    index = _one(
        tmp_path / "one",
        [
            _chunk(number, " ".join(chance.choices(words, often, k=chance.choice([5, 60, 120]))))
            for number in range(1500)
        ],
    )
    searched: list[tuple[int, int, int]] = []  # terms, those that tantivy scores by, and those of which a row needs one
    proposed = LexicalIndex._proposed

    def noted(self: LexicalIndex, name: str, weights: Any, counts: Any, needed: Any, scored: Any, *others: Any) -> Any:
        searched.append((len(weights), len(scored), len(needed)))
        return proposed(self, name, weights, counts, needed, scored, *others)

    monkeypatch.setattr(LexicalIndex, "_proposed", noted)
    questions = [" ".join(chance.choices(words, often, k=chance.choice([2, 5, 9]))) for _ in range(60)]
    for question in questions:
        everything = index.search(question, 1500)
        chosen = {chunk_id for chunk_id, _ in everything[::3]}
        for k in (1, 10, 40):
            assert index.search(question, k) == everything[:k]
            assert index.search(question, k, chosen) == [hit for hit in everything if hit[0] in chosen][:k]
    assert any(needed < scored for _, scored, needed in searched), "rows with one of the rarest words"
    assert any(needed == scored < terms for terms, scored, needed in searched), "all words but those that hardly count"
    assert any(needed == terms for terms, _, needed in searched), "all words"


def test_tantivy_skips_no_row_of_a_segment_whose_rows_are_longer(tmp_path: Path) -> None:
    """Its blocks of 128 rows are marked by the best score in each, found with the average length of the segment. If a
    later tantivy prunes by that, this fails.

    Here row 3 of each block is the best one in its own segment, and row 7 among all.
    """

    def text(often: int, length: int) -> str:
        return " ".join(["castle"] * often + ["of"] * (length - often))

    lengths = [
        (6, 400) if row == 3 else (2, 104 - 8 * block) if row == 7 else (1, 640)
        for block in range(6)
        for row in range(128)
    ]
    long = [_chunk(number, text(*of)) for number, of in enumerate(lengths)]
    folders = [
        _build(tmp_path / name, rows) / LEXICAL
        for name, rows in (("short", [_chunk(1000 + n, "hut") for n in range(6000)]), ("long", long))
    ]
    union = Union(folders)
    for weights in ({"castl": (1.0, 768)}, {"castl": (1.0, 768), "hut": (1.0, 6000)}):
        for needed in (None, ["castl"]):
            query = union.query(BODY, weights, needed)
            best = [score for score, _ in union.hits(query, 7000)]
            assert [[score for score, _ in union.hits(query, limit)] for limit in (1, 2, 5)] == [
                best[:limit] for limit in (1, 2, 5)
            ]


def test_scores_are_those_of_tantivy_for_rows_of_any_length(tmp_path: Path) -> None:
    """For words of at most half of the rows: tantivy's single precision hardly tells those of nearly all rows from no
    word at all.
    """
    chance = random.Random(1)
    lengths = [*range(1, 60), *(round(1.15**power) for power in range(29, 62)), 5000]
    rows = [
        _chunk(number, " ".join(chance.choices(["wa", "wb", "wc", "longword" * 3], k=length)))
        for number, length in enumerate(lengths)
    ]
    rows += [_chunk(1000 + number, "other words of no matter") for number in range(len(rows) + 5)]
    index = _one(tmp_path / "one", rows)
    searcher = tantivy.Index.open(str(tmp_path / "one" / LEXICAL)).searcher()
    for words in (["wa"], ["wa", "wb", "longword" * 3]):
        query = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, tantivy.Query.term_query(lexical_schema(), BODY, word, "freq")) for word in words]
        )
        hits = searcher.search(query, len(rows)).hits
        high, low = (searcher.fast_field_values(name, [place for _, place in hits]) for name in ("id_high", "id_low"))
        expected = {f"{one:016x}{other:016x}": score for (score, _), one, other in zip(hits, high, low, strict=True)}
        found = dict(index.search(" ".join(words), len(rows)))
        assert found.keys() == expected.keys() and len(found) > 80
        for chunk_id, score in found.items():
            assert math.isclose(score, expected[chunk_id], rel_tol=5e-6 + 2e-6), "6 digits, and 2e-6"
    [exact] = [bm25_scores(RowTerms([text]), {"wa": idf(3, 10)}, 100.0) for text in (b"wa wb",)]
    assert exact.shape == (1,)


def test_lengths_are_rounded_as_tantivy_rounds_them() -> None:
    rounded = bm25._LENGTHS
    assert rounded[:43].tolist() == [*range(41), 42, 44]
    assert rounded[[56, 64, 100, 255]].tolist() == [88, 152, 3096, 2_013_265_944]
    assert (np.diff(rounded) > 0).all()


@given(
    rows=st.lists(
        st.lists(
            st.sampled_from(["a", "ab", "abcdefgh", "abcdefghi", "abcdefghij", "é", "门票", "dien_bien_phu", "z"]),
            max_size=12,
        ),
        max_size=8,
    )
)
def test_terms_are_counted_in_each_row(rows: list[list[str]]) -> None:
    terms = ["abcdefghij", "a", "abcdefgh", "门票", "dien_bien_phu", "dien_bien_phi", "abcdefghi"]
    split = RowTerms([" ".join(row).encode() for row in rows])
    assert split.lengths.tolist() == [len(row) for row in rows]
    assert split.frequencies([term.encode() for term in terms]).tolist() == [
        [row.count(term) for term in terms] for row in rows
    ]


@given(
    rows=st.lists(
        st.lists(st.sampled_from(["a", "ab", "abcdefgh", "abcdefghi", "é", "门票", "dien_bien_phu"]), max_size=60),
        max_size=8,
    )
)
def test_postings_give_each_row_the_score_of_its_terms(rows: list[list[str]]) -> None:
    texts, weights = (
        [" ".join(row).encode() for row in rows],
        {"ab": 0.3, "门票": 1.7, "none": 2.0, "abcdefgh": 1e-3, "a": 0.1},
    )
    average = sum(map(len, rows)) / max(len(rows), 1)
    expected = bm25_scores(RowTerms(texts), weights, average) if average else np.zeros(len(rows))
    assert Postings(texts, average).scores(weights).tolist() == expected.tolist()


@pytest.mark.parametrize(("rows", "fewer", "kept"), [(4, 0, [BODY, FOLDED]), (3, 0, []), (4, 1, [FOLDED])])
def test_an_index_of_many_rows_or_terms_is_not_kept_in_memory(
    rows: int, fewer: int, kept: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = _one(tmp_path / "one", [_chunk(number, f"castle garden ticket{number}") for number in range(4)])
    monkeypatch.setattr(reader, "MOST_ROWS", rows)
    monkeypatch.setattr(reader, "MOST_TERMS", lexical_facts(tmp_path / "one" / LEXICAL).terms[BODY] - fewer)
    found = index.search("garden", 4)
    index.map_pages()
    assert sorted(index._postings) == kept
    assert index.search("garden", 4) == found


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_of_the_best_rows_those_that_nearly_tie_with_the_last_one_are_kept(k: int) -> None:
    scores = np.array([0.0, 3.0, 1.0, 2.0, 1.999999, 5.0])
    rows = rows_of_best(scores, np.array([1, 2, 3, 4]), k, 1 - 1e-5)
    assert rows.tolist() == {1: [1], 2: [1, 3, 4], 3: [1, 3, 4], 9: [1, 2, 3, 4]}[k]


def _statistics(path: Path, texts: Sequence[tuple[str, str]]) -> tuple[int, dict[str, int], list[list[int]]]:
    opened = DeletedTerms(path)
    words = sorted({word for text in texts for words in text for word in words.split()} | {"absent", ""})
    return opened.rows, opened.terms, [opened.counts(name, WantedTerms.of(words)) for name in (BODY, FOLDED)]


@pytest.mark.parametrize("language", ["vi", "en"])
def test_statistics_of_deleted_rows_are_those_of_their_terms(tmp_path: Path, language: str) -> None:
    chance = random.Random(3)
    rows = [_some_row(number, language, chance) for number in range(2100)]
    terms = _terms(_build(tmp_path / "one", rows, language))
    columns = [[bytes(text).decode() for text in terms.texts(name, np.arange(2100))] for name in (BODY, FOLDED)]
    texts = list(zip(*columns, strict=True))
    for some in ([], [0], [2099], sorted(chance.sample(range(2100), 500)), list(range(2100))):
        here = [texts[number] for number in some]
        write_deleted_terms(tmp_path / "d.arrow", terms, np.array(some, np.int64))
        count, totals, counts = _statistics(tmp_path / "d.arrow", here)
        assert count == len(some)
        for number, name in enumerate((BODY, FOLDED)):
            found = Counter(word for text in here for word in set(text[number].split()))
            assert totals[name] == sum(len(text[number].split()) for text in here)
            assert counts[number] == [
                found[word]
                for word in sorted({word for text in here for words in text for word in words.split()} | {"absent", ""})
            ]


def test_known_statistics_of_deleted_rows_are_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    terms = _terms(_build(tmp_path / "one", [_some_row(number, "auto", chance) for number in range(300)], "auto"))
    before, after = np.arange(0, 300, 7), np.arange(0, 300, 7)[:-1]
    every = np.union1d(before, [5, 6, 299])
    write_deleted_terms(tmp_path / "before", terms, before)
    write_deleted_terms(tmp_path / "full", terms, every)
    read: list[int] = []
    batches: Callable[[RowNumbers], object] = terms.batches

    def noted(rows: RowNumbers) -> object:
        read.extend(rows.tolist())
        return batches(rows)

    monkeypatch.setattr(terms, "batches", noted)
    write_deleted_terms(tmp_path / "added", terms, every, tmp_path / "before", before)
    assert (read, (tmp_path / "added").read_bytes()) == ([5, 6, 299], (tmp_path / "full").read_bytes())
    write_deleted_terms(tmp_path / "fewer", terms, after, tmp_path / "before", before)
    assert DeletedTerms(tmp_path / "fewer").rows == len(after)
    with pytest.raises(DamagedVersion, match="counts 43 deleted rows instead of 42"):
        write_deleted_terms(tmp_path / "wrong", terms, every, tmp_path / "before", after)


def _known(tmp_path: Path, name: str, rows: list[ChunkRow], kept: Sequence[int], places: Sequence[int]) -> KnownRows:
    folder = _build(tmp_path / name, rows, "auto")
    path = folder / LEXICAL / TERMS
    manifest = Base(tmp_path).manifest(name, rows, Verdict(verdict="passed", checks=[]))
    stored = StoredFile(path=f"{LEXICAL}/{TERMS}", bytes=path.stat().st_size, sha256=file_sha256(path))
    return KnownRows(
        folder, manifest.model_copy(update={"files": [stored]}), np.array(kept, np.int64), np.array(places, np.int64)
    )


def test_terms_of_several_earlier_segments_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    rows = [_some_row(number, "auto", chance) for number in range(2300)]
    full = _build(tmp_path / "full", rows, "auto") / LEXICAL / TERMS
    order = chance.sample(range(1000, 2300), 1000)
    sources = [
        _known(tmp_path, "v0001", rows[:900], range(5, 900), range(5, 900)),
        _known(
            tmp_path,
            "v0002",
            [rows[number] for number in order],
            sorted(order),
            [order.index(number) for number in sorted(order)],
        ),
    ]
    analyze, again = writer.analyzed, list[str]()

    def noted(row: dict[str, Any], language: str) -> Any:
        again.append(row["chunk_id"])
        return analyze(row, language)

    monkeypatch.setattr(writer, "analyzed", noted)
    merged = tmp_path / "merged"
    merged.mkdir()
    write_table(merged / CHUNKS, chunks_table(rows))
    build_lexical(merged, "auto", KnownTerms.of(sources, "auto"))
    assert again == [
        row.chunk_id for number, row in enumerate(rows) if number < 5 or (number >= 900 and number not in set(order))
    ]
    assert (merged / LEXICAL / TERMS).read_bytes() == full.read_bytes()
    assert lexical_facts(merged / LEXICAL) == lexical_facts(full.parent)
    content = bytearray((sources[1].folder / LEXICAL / TERMS).read_bytes())
    content[len(content) // 2] ^= 1
    (sources[1].folder / LEXICAL / TERMS).write_bytes(content)
    with pytest.raises(DamagedVersion, match=r"terms.arrow of v0002 was altered"):
        KnownTerms.of(sources, "auto")


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "empty"])
@pytest.mark.parametrize("name", [TERMS, "deleted.terms.arrow"])
def test_a_damaged_file_is_a_damaged_version(tmp_path: Path, name: str, damage: str) -> None:
    rows = [_chunk(number, f"castle garden {number}") for number in range(50)]
    part = _deleted(_build(tmp_path / "one", rows), [3, 4])
    [path] = (tmp_path / "one").rglob(name)
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(
            {"truncated": content[: len(content) // 2], "altered": b"x" * len(content), "empty": b""}[damage]
        )
    with pytest.raises(DamagedVersion) as told:
        LexicalIndex([part], TableRows.of([row.chunk_id for row in rows]))
    assert str(path) == told.value.where and told.value.hint


def test_an_index_whose_rows_are_not_those_of_the_table_is_damaged(tmp_path: Path) -> None:
    rows = [_chunk(number, f"castle garden {number}") for number in range(50)]
    part = LexicalPart(_build(tmp_path / "one", rows))
    for others, told in (
        (rows[1:], "the table has 49 rows instead of 50"),
        ([*rows, _chunk(99, "castle")], "the table has 51 rows instead of 50"),
        ([*rows[1:], rows[0]], "is that of other rows"),
    ):
        with pytest.raises(DamagedVersion, match=told):
            LexicalIndex([part], TableRows.of([row.chunk_id for row in others]))
