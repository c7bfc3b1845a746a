"""The lexical index of a version: what it finds, that a change equals a full build, and that damage is found."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.index.build.builder import build_here
from almanac.index.lexical import writer
from almanac.index.lexical.lexical_facts import FACTS, LEXICAL, lexical_facts
from almanac.index.lexical.postings import ARRAYS, term_hash
from almanac.index.reader import OpenVersion
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Verdict
from tests.index.conftest import INFO, Base
from tests.index.making import without_children

_TEXTS = {
    "en": "The castle opens at nine. The code of the tour is TO1101.",
    "fr": "L’enfant visite le musée. Le château est fermé l’été.",
    "vi": "Điện Biên Phủ là một thành phố ở Việt Nam.",
    "he": "המוזיאון פתוח בבית הגדול",
    "zh": "东京塔的门票可以在网上购买。",
    "ar": "الكِتَابُ في المكتبة",
}


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


def _name(number: int) -> str:
    """A word of letters that no other number has, and no stemmer shortens."""
    return "z" + "".join(chr(ord("a") + int(digit)) for digit in str(number)) + "q"


def _plain(numbers: range) -> list[ChunkRow]:
    return [
        _chunk(number, f"common words {number % 7} and {_name(number)} of the palace " + "garden " * (number % 5))
        for number in numbers
    ]


def _build(
    base: Base, rows: list[ChunkRow], language: str, version: str = "v0001", parent: str | None = None
) -> OpenVersion:
    base.embed(rows)
    facts = build_here(base.job(version, parent).model_copy(update={"language": language}), lambda *_: None)
    manifest = base.manifest(version, rows, Verdict(verdict="passed", checks=[]))
    finish_version(
        base.index_dir, manifest.model_copy(update={"language": language, "lineage": {"build": facts.model_dump()}})
    )
    return OpenVersion(base.index_dir, version)


def _problems(base: Base, version: str = "v0001") -> set[tuple[str, str]]:
    with without_children(), OpenVersion(base.index_dir, version) as opened:
        return {
            (problem.kind, problem.where)
            for problem in verify_version(version_dir(base.index_dir, version), opened.manifest, base.vectors, INFO)
        }


def test_each_language_of_a_version_is_found_by_its_own_rules(base: Base) -> None:
    rows = {language: _chunk(number, text, language=language) for number, (language, text) in enumerate(_TEXTS.items())}
    with _build(base, list(rows.values()), "auto") as opened:
        for language, query in [
            ("en", "opening of castles"), ("en", "to1101"), ("fr", "enfants"), ("fr", "ete"), ("fr", "musées"), ("fr",
            "musee"), ("fr", "MUSE\u0301E"),
            ("vi", "điện biên"), ("vi", "dien bien phu"), ("vi", "đie\u0323\u0302n"), ("he", "בית"), ("he", "מוזיאון"),
            ("zh", "门票"), ("ar", "كتاب"),
        ]:  # fmt: skip
            assert [hit for hit, _ in opened.lexical(query, 1)] == [rows[language].chunk_id], query
        assert (
            opened.lexical("zzz", 5)
            == opened.lexical("", 5)
            == opened.lexical("?!", 5)
            == opened.lexical("castle", 0)
            == []
        )
    assert lexical_facts(version_dir(base.index_dir, "v0001") / LEXICAL).languages == list(_TEXTS)


def test_several_languages_give_a_row_its_best_reading_and_no_more(base: Base, tmp_path: Path) -> None:
    """A word that two languages read alike counts once: the score is the one of a version that has the text's language
    alone.
    """
    english = [_chunk(number, f"castle number{number}", language="en") for number in range(5)]
    with (
        _build(base, [*english, _chunk(9, "", language="fr")], "auto") as both,
        _build(Base(tmp_path / "b"), [*english, _chunk(9, "")], "en") as alone,
    ):
        assert [score for _, score in both.lexical("castle number3", 5)] == [
            score for _, score in alone.lexical("castle number3", 5)
        ]


def test_a_title_counts_once(base: Base) -> None:
    rows = [
        _chunk(0, "Opening hours and prices", "Versailles"),
        _chunk(1, "Marseille has opening hours"),
        _chunk(2, "Trianon. Opening hours", "Trianon"),
    ]
    with _build(base, rows, "en") as opened:
        assert [hit for hit, _ in opened.lexical("versailles opening", 1)] == [rows[0].chunk_id]
        assert [hit for hit, _ in opened.lexical("trianon", 3)] == [rows[2].chunk_id]


def test_equal_scores_are_in_the_order_of_ids_however_many_there_are(base: Base) -> None:
    rows = [_chunk(number, "the same words") for number in range(200)]
    with _build(base, rows, "en") as opened:
        hits = opened.lexical("same", 7)
        assert [hit for hit, _ in hits] == sorted(row.chunk_id for row in rows)[:7]
        assert len({score for _, score in hits}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 14, 600, 1150, 1200])
def test_among_some_ids_the_order_is_the_one_of_all_hits(base: Base, size: int) -> None:
    rows = _plain(range(1200))
    with _build(base, rows, "en") as opened:
        everything = opened.lexical(f"{_name(77)} garden common words 3", 1200)
        assert len(everything) == 1200
        some = [row.chunk_id for row in rows[:: max(1, len(rows) // size)]][:size]
        wanted = [hit for hit in everything if hit[0] in set(some)]
        assert opened.lexical(f"{_name(77)} garden common words 3", 20, some) == wanted[:20]
        assert opened.lexical(f"{_name(77)} garden common words 3", 20, frozenset(some)) == wanted[:20]
        assert opened.lexical(_name(77), 20, some) == [hit for hit in opened.lexical(_name(77), 20) if hit[0] in some]
        assert opened.lexical("garden", 5, []) == opened.lexical("garden", 5, ["f" * 32, "no id at all"]) == []


@pytest.mark.slow
def test_rows_added_to_a_copy_score_as_in_a_full_build(base: Base, tmp_path: Path) -> None:
    rows = _plain(range(450))
    _build(base, rows[:400], "en").close()
    with _build(base, rows, "en", "v0002", "v0001") as changed, _build(Base(tmp_path / "full"), rows, "en") as full:
        assert changed.manifest.lineage["build"]["kind"] == "delta"
        for query in (f"{_name(420)} garden", _name(3), "common words", "palace 5"):
            assert changed.lexical(query, 30) == full.lexical(query, 30)
            assert changed.lexical(query, 30) != []
    assert _problems(base, "v0002") == set()


@pytest.mark.slow
def test_after_rows_are_gone_the_others_score_as_in_a_full_build(base: Base, tmp_path: Path) -> None:
    rows = _plain(range(420))
    left = [*rows[10:400], *rows[400:]]
    _build(base, rows[:400], "en").close()
    with _build(base, left, "en", "v0002", "v0001") as changed, _build(Base(tmp_path / "full"), left, "en") as full:
        assert changed.manifest.lineage["build"]["kind"] == "delta"
        assert changed.lexical(_name(3), 5) == []
        for query in (f"{_name(410)} garden", f"palace 5 {_name(77)}"):
            assert changed.lexical(query, 500) == full.lexical(query, 500) != []
    assert _problems(base, "v0002") == set()


def test_a_row_that_comes_again_under_its_id_is_there_once(base: Base) -> None:
    rows = _plain(range(400))
    _build(base, rows, "en").close()
    later = [replace(rows[0], fetched_at="2026-02-02T00:00:00+00:00"), *rows[1:]]
    with _build(base, later, "en", "v0002", "v0001") as opened:
        assert [hit for hit, _ in opened.lexical(_name(0), 5)] == [rows[0].chunk_id]
    assert _problems(base, "v0002") == set()


@pytest.mark.slow
def test_only_rows_whose_terms_are_not_known_are_analyzed(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _plain(range(400))
    _build(base, rows, "en").close()
    analyze, analyzed = writer.analyzed, list[str]()

    def count(row: dict[str, Any], language: str) -> Any:
        analyzed.append(row["chunk_id"])
        return analyze(row, language)

    monkeypatch.setattr(writer, "analyzed", count)

    def newly_analyzed(version: str, language: str, some: list[ChunkRow]) -> int:
        analyzed.clear()
        with _build(base, some, language, version, "v0001") as opened:
            assert opened.manifest.lineage["build"]["kind"] == "delta"
            assert [hit for hit, _ in opened.lexical(_name(399), 1)] == [rows[399].chunk_id]
        return len(analyzed)

    assert newly_analyzed("v0002", "en", [*rows[50:], *_plain(range(400, 407))]) == 7
    assert newly_analyzed("v0003", "fr", rows[1:]) == 399
    counts = version_dir(base.index_dir, "v0001") / LEXICAL / "counts.npy"
    content = counts.read_bytes()
    counts.write_bytes(content[:-1] + b"?")
    assert newly_analyzed("v0004", "en", rows[1:]) == 399
    counts.write_bytes(content)
    monkeypatch.setattr("almanac.index.lexical.lexical_facts.analyzer_fingerprint", lambda: "another")
    monkeypatch.setattr(writer, "analyzer_fingerprint", lambda: "another")
    assert newly_analyzed("v0005", "en", rows[1:]) == 399


@pytest.mark.slow
@pytest.mark.parametrize("name", [FACTS, *(f"{array}.npy" for array in ARRAYS)])
def test_a_flipped_byte_is_found_and_rebuild_mends_it(base: Base, name: str) -> None:
    rows = _plain(range(40))
    _build(base, rows, "en").close()
    path = version_dir(base.index_dir, "v0001") / LEXICAL / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert ("file_altered", f"{LEXICAL}/{path.name}") in _problems(base)
    with without_children():
        rebuild_version(base.index_dir, "v0001", base.vectors)
    assert _problems(base) == set()
    with OpenVersion(base.index_dir, "v0001") as opened:
        assert [hit for hit, _ in opened.lexical(_name(7), 1)] == [rows[7].chunk_id]


def test_a_damaged_parent_costs_a_full_lexical_index_and_no_run(base: Base) -> None:
    rows = _plain(range(400))
    _build(base, rows, "en").close()
    folder = version_dir(base.index_dir, "v0001") / LEXICAL
    (folder / "terms.npy").write_bytes(b"no index")
    with _build(base, rows[1:], "en", "v0002", "v0001") as opened:
        assert opened.manifest.lineage["build"]["kind"] == "delta"
        assert [hit for hit, _ in opened.lexical(_name(7), 1)] == [rows[7].chunk_id]
    assert _problems(base, "v0002") == set()


@pytest.mark.parametrize("others", ["fewer", "more", "in another order"])
def test_verification_finds_an_index_of_other_rows(base: Base, others: str) -> None:
    """Files that are whole, and another version's."""
    rows = _plain(range(40))
    _build(base, rows[2:], "en").close()
    other = {"fewer": rows[3:], "more": rows, "in another order": [*rows[3:], rows[2]]}[others]
    _build(base, other, "en", "v0002").close()
    mine, theirs = (version_dir(base.index_dir, version) / LEXICAL for version in ("v0001", "v0002"))
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)
    assert ("row_altered", f"{LEXICAL}: chunks") in _problems(base)


def test_verification_finds_terms_that_are_another_rows(base: Base) -> None:
    rows = _plain(range(40))
    _build(base, rows, "en").close()
    path = version_dir(base.index_dir, "v0001") / LEXICAL / "terms.npy"
    terms = np.load(path)
    place = int(np.searchsorted(terms, term_hash(_name(0))))
    terms[place] += 1
    np.save(path, terms)
    assert ("probe_failed", f"{LEXICAL}: {rows[0].chunk_id}") in _problems(base)


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("rows", lambda rows: rows[::-1]),
        ("rows", lambda rows: np.where(rows == 7, 40, rows)),
        ("starts", lambda starts: starts[::-1]),
        ("starts", lambda starts: starts + 1),
        ("terms", lambda terms: terms[::-1]),
        ("counts", lambda counts: counts + (np.arange(len(counts)) == 9).astype(np.uint16)),
        ("lengths", lambda lengths: lengths + 1),
        ("lengths", lambda lengths: lengths[:, 1:]),
        ("languages", lambda languages: languages.astype(np.int64)),
    ],
)
def test_verification_finds_postings_that_contradict_themselves(base: Base, array: str, change: Any) -> None:
    _build(base, _plain(range(40)), "en").close()
    path = version_dir(base.index_dir, "v0001") / LEXICAL / f"{array}.npy"
    np.save(path, change(np.load(path)))
    assert {("row_altered", LEXICAL), ("unreadable", LEXICAL)} & _problems(base)


@pytest.mark.parametrize(
    ("language", "text"),
    [("fr", "日本 œuvre à côté"), ("vi", "Điện Biên Phủ, thành phố"), ("he", "המוזיאון פתוח"), ("zh", "东京塔的门票")],
)
def test_verification_reads_terms_of_any_script(base: Base, language: str, text: str) -> None:
    rows = [
        replace(row, text=f"{text} {number}", embedded_text=f"{text} {number}")
        for number, row in enumerate(_plain(range(4)))
    ]
    _build(base, rows, language).close()
    assert not _problems(base)


def test_a_version_without_a_lexical_index_says_what_to_do(base: Base) -> None:
    rows = _plain(range(5))
    base.embed(rows)
    build_here(base.job(), lambda *_: None)
    shutil.rmtree(version_dir(base.index_dir, "v0001") / LEXICAL)
    finish_version(base.index_dir, base.manifest("v0001", rows, Verdict(verdict="passed", checks=[])))
    with OpenVersion(base.index_dir, "v0001") as opened:
        with pytest.raises(DamagedVersion, match="no lexical index") as raised:
            opened.lexical("palace", 3)
        assert "almanac run" in str(raised.value.hint)
        assert raised.value.where == str(version_dir(base.index_dir, "v0001"))


def test_a_version_with_no_chunks_finds_nothing(base: Base) -> None:
    with _build(base, [], "auto") as opened:
        assert opened.lexical("palace", 3) == []


def test_a_closed_version_opens_its_index_again(base: Base) -> None:
    rows = _plain(range(5))
    opened = _build(base, rows, "en")
    first = opened.lexical(_name(3), 1)
    opened.close()
    assert opened.lexical(_name(3), 1) == first != []
    opened.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> OpenVersion:
    rows = [_chunk(number, text, language=language) for number, (language, text) in enumerate(_TEXTS.items())]
    return _build(Base(tmp_path_factory.mktemp("small")), rows, "auto")


@given(query=st.text(max_size=300))
def test_a_query_of_any_characters_is_no_error(small: OpenVersion, query: str) -> None:
    hits = small.lexical(query, 3)
    assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))


@pytest.mark.parametrize(
    "query",
    [
        'XOR "(',
        "title:[castle TO b]",
        "castle AND NOT tour",
        "*",
        "\\",
        "\ud800 castle",
        "\0castle\0",
        "a" * 100_000,
        "castle " * 5000,
    ],
)
def test_operators_and_monsters_are_words(small: OpenVersion, query: str) -> None:
    hits = small.lexical(query, 3)
    assert bool(hits) == ("castle" in query)


def test_thousands_of_different_words_are_answered_by_the_rarest(small: OpenVersion) -> None:
    assert small.lexical(" ".join(f"word{number}" for number in range(5000)) + " castle", 3) != []


def test_a_record_is_found_by_its_fields_but_not_by_a_number_that_is_its_id_nor_by_an_address(base: Base) -> None:
    passages = {
        7: "ID: 7\nPage: http://x/tours/lagoon\nDeparture: 14/11/2026\nTerms: Free until Friday.",
        8: "ID: TO1101\nNights: 7\nName: Castle tour of the north",
    }
    rows = [
        replace(
            _chunk(number, "Castle tour of the north. A walk.", "Castle tour of the north"),
            kind="record",
            start=None,
            end=None,
            passage=passage,
        )
        for number, passage in passages.items()
    ]
    rows = [
        replace(rows[0], document_id="7"),
        replace(rows[1], document_id="TO1101"),
        _chunk(9, "A document about friday."),
    ]
    with _build(base, rows, "en") as opened:

        def find_rows(query: str) -> list[int]:
            return [[row.chunk_id for row in rows].index(chunk_id) for chunk_id, _ in opened.lexical(query, 3)]

        assert [find_rows(query) for query in ("departure 14/11/2026", "TO1101", "7", "lagoon", "nights")] == [
            [0],
            [1],
            [1],
            [],
            [1],
        ]
        assert sorted(find_rows("friday")) == [0, 2]
        (equal, scores) = (dict(opened.lexical("castle", 3)), [rows[0].chunk_id, rows[1].chunk_id])
        assert set(equal) == set(scores)  # neither says its name more often than the other
    assert _problems(base) == set()
