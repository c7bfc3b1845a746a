"""Small and capital letters: where a word begins, and the two letters i of Turkish."""

import pytest

from almanac.spiders.mapping.casing import title


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("O'NEILL'S don't", "en", "O'neill's Don't"),
        ("don’t", "en", "Don’t"),
        ("l'école d’été", "fr", "L'école D’été"),
        ("'hello' (world)", "en", "'Hello' (World)"),
        ("the 3rd jean-luc foo_bar", "en", "The 3rd Jean-Luc Foo_Bar"),
        ("e\u0301cole", "fr", "E\u0301cole"),
        ("iki ISPARTA İZMİR", "tr", "İki Isparta İzmir"),
        ("ΟΔΟΣ ΣΟΦΙΑΣ", "el", "Οδος Σοφιας"),
        ("नमस्ते", "hi", "नमस्ते"),
    ],
)
def test_a_capital_is_at_the_head_of_each_word(text: str, language: str, expected: str) -> None:
    assert title(text, language) == expected
