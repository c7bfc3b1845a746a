"""Codes in a question: which are rare in a version, and which texts have them."""

import pytest

from almanac.index.lexical.lexical_reader import AnalyzedQuery
from almanac.query.retrieval.codes import codes_in, has_code, rare_codes, with_codes
from tests.query.answering import make_hit


def test_codes_are_letters_with_digits_behind_them() -> None:
    assert codes_in("What do GR-16 and TO1101 cost, and GR-16 with 5G in q3?") == ["GR-16", "TO1101"]
    assert codes_in("how much are to1101, gr16 and abc123?") == ["to1101", "gr16", "abc123"]
    assert codes_in("iso-9001, abc-123, Ref-4711, TOP-10, LED-2025") == [
        "iso-9001",
        "abc-123",
        "Ref-4711",
        "TOP-10",
        "LED-2025",
    ]
    assert codes_in("Сколько стоит ТО-1101?") == ["ТО-1101"]


@pytest.mark.parametrize(
    "question",
    [
        "מה המחיר ל-2 לילות?",
        "מה קרה ב-2024?",
        "在2024年,多少钱?",
        "An under-18 ticket?",
        "Open in May-2024?",
        "top10 hotels",
        "an mp3 guide",
        "DEC-2024",
        "Rabatt für über-60?",
        "Was läuft im Juni-2024?",
        "Fährt die Linie-5 hierher?",
        "¿Qué pasa en enero-2024?",
    ],
)
def test_a_word_written_onto_a_number_is_no_code(question: str) -> None:
    assert codes_in(question) == []


@pytest.mark.parametrize(
    ("text", "has_it"),
    [("Code: GR-16", True), ("gr16", True), ("GR 16.", True), ("GR-160", False), ("AGR-16", False), ("GR-6", False)],
)
def test_a_text_has_a_code_however_it_is_joined(text: str, has_it: bool) -> None:
    assert has_code("GR-16", text) is has_it


@pytest.mark.parametrize(
    ("count", "rows", "is_rare"), [(0, 100, False), (1, 100, True), (11, 100, False), (11, 5_000, True)]
)
def test_a_code_is_rare_where_few_chunks_have_it(count: int, rows: int, is_rare: bool) -> None:
    reading = AnalyzedQuery("en", False, {"gr16": count, "gr": count, "16": count}, rows)
    assert rare_codes("How much is GR-16?", [reading]) == (["GR-16"] if is_rare else [])


def test_only_hits_with_a_code_are_left_where_there_are_some() -> None:
    flask, pack = make_hit(1, "Code: GR-16\nPrice: 34", title="Flask"), make_hit(2, "Price: 199", title="Pack (GR-15)")
    assert with_codes(["GR-16"], [pack, flask]) == [flask]
    assert with_codes(["GR-15", "GR-16"], [pack, flask]) == [pack, flask]
    assert with_codes(["GR-17"], [pack, flask]) == [pack, flask]
    assert with_codes([], [pack, flask]) == [pack, flask]
