"""What a question names that is not there: codes, names and sums."""

import pytest

from almanac.index.lexical.analyzer import tokens
from almanac.index.lexical.reader import AnalyzedQuery
from almanac.query.answering.absent import absent_from
from almanac.query.retrieval.question_language import question_language

_TEXTS = [
    "Watch W3: 34 g. The office in Porto has a 10 x 15 cm printer.",
    "Ngày 14: Hạ Long. We sell the TN-1410 and the E4. Carrosses.",
]


def _absent(question: str, language: str = "en") -> tuple[list[str], list[str]]:
    shown = {term for text in _TEXTS for term in tokens(text, language)}
    reading = AnalyzedQuery(language, False, {term: int(term in shown) for term in tokens(question, language)}, 2)
    return tuple(absent_from(question, question_language(question), [reading], _TEXTS))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("question", "things"),
    [
        ("What's the battery life of Laptop Pro X1?", ["X1"]),
        ("battery of the laptop pro x12", ["x12"]),
        ("Akkulaufzeit vom R7?", ["R7"]),
        ("What does the W3 weigh?", []),
        ("And the w3?", []),
        ("price of the TN1410", []),
        ("Is the E 4 waterproof?", []),
        ("a 7-day tour for 2 adults, 5kg each, at 10am", []),
        ("17 × 23", ["17 × 23"]),
        ("what is 17x23?", ["17x23"]),
        ("17 x 23 bằng bao nhiêu?", ["17 x 23"]),
        ("combien font 12,5 + 3", ["12,5 + 3"]),
        ("Does it print 10 x 15?", []),
        ("Does the workshop run from 9 - 11 on Sundays in winter too?", []),
        ("Is it open on 14/11/2026 or 2026-11-14, 9-17?", []),
        ("Call +49 89 5550 1422", []),
    ],
)
def test_codes_and_sums_that_no_hit_has_are_told(question: str, things: list[str]) -> None:
    assert _absent(question)[0] == things


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Is there a tour to Bangkok?", ["Bangkok"]),
        ("is there a tour to bangkok", ["bangkok"]),
        ("Do you guide in the Eiffel Tower?", ["Eiffel Tower"]),
        ("Gibt es eine Reise nach Norwegen?", ["Norwegen"]),
        ("Có tour đi Thái Lan không?", ["Thái Lan"]),
        ("Is there a printer in Porto?", []),
        ("What does Porto Alegre print?", ["Porto Alegre"]),  # of which one word is known
        ("Welcher Drucker hat eine Garantie?", []),  # German nouns
        ("Which Printer Has A Warranty", []),
        ("Is it open on Sundays in March, for English groups?", []),
        ("How old are the Carrsoses?", []),  # misspelt
        ("Is the May ticket valid?", []),
    ],
)
def test_names_that_occur_nowhere_are_told(question: str, names: list[str]) -> None:
    assert _absent(question) == ([], names)
