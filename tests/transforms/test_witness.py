"""trafilatura is asked in a way that costs less than its own, and says the same."""

from typing import Any

import lxml.html
import pytest
import trafilatura
from hypothesis import given
from hypothesis import strategies as st

from almanac.transforms.html.letters import letters, weight
from almanac.transforms.html.witness import witness_of
from tests.transforms.test_main_text import _docbook, _news

_SHORT = "<html><body><main><h1>Lift</h1><p>Out of order.</p></main></body></html>"
_LINKS = (
    f"<html><body><ul>{''.join(f'<li><a href=/{n}>Page number {n}</a></li>' for n in range(40))}</ul></body></html>"
)


@pytest.mark.parametrize(
    "page",
    [
        _news(),
        _docbook(),
        _SHORT,
        _LINKS,
        "<html><body></body></html>",
        _news().replace("The harbour", "Le cafe\u0301 du port"),
    ],
)
def test_the_witness_is_what_trafilatura_extracts(page: str) -> None:
    root = lxml.html.document_fromstring(page)
    html = lxml.html.tostring(root, encoding="unicode")
    options: dict[str, Any] = {
        "output_format": "html",
        "include_formatting": True,
        "include_tables": True,
        "include_comments": False,
    }
    wanted = trafilatura.extract(html, **options) or trafilatura.extract(html, **options, favor_recall=True)
    witness = witness_of(root)
    assert (witness.html if witness is not None else None) == (wanted or None)


@given(st.text() | st.text(st.characters(max_codepoint=127)))
def test_letters_of_ascii_are_those_of_any_text(text: str) -> None:
    ascii_only = "".join(character for character in text if ord(character) < 128)
    assert letters(f"{ascii_only}é") == f"{letters(ascii_only)}é"
    assert weight(f"{ascii_only}é") == weight(ascii_only) + 1
    assert all(character.isalnum() for character in letters(text.upper()) if character != "\u0307")
