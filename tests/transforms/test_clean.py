"""Cleaning changes how text is written, never what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.transforms.clean import clean_text, clean_value


@pytest.mark.parametrize(
    ("found", "cleaned"),
    [
        ("\u201cHello\u201d \u2018you\u2019", "\"Hello\" 'you'"),
        ("5.372.000\u00a0₫", "5.372.000 ₫"),
        ("Fish &amp; chips &#233;t&eacute;", "Fish & chips été"),
        ("AT&T; R&D", "AT&T; R&D"),
        ("a\u200bb\ufeffc\u00add", "abcd"),
        ("e\u0301", "é"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("one\n\n\n\ntwo  \n  three", "one\n\ntwo\n  three"),
        ("  many   spaces\there ", "many spaces here"),
        ("\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
        ("null\x00byte\x07", "nullbyte"),
    ],
)
def test_typing_variants_become_one(found: str, cleaned: str) -> None:
    assert clean_text(found) == cleaned


def test_none_keeps_every_character() -> None:
    text = "\u201cA\u201d\u00a0 \r\n\r\n\r\n&amp; e\u0301 "
    assert clean_text(text, "none") == text


def test_entities_of_parsed_html_stay_as_the_page_shows_them() -> None:
    assert clean_text("write &lt;br&gt; here", entities=False) == "write &lt;br&gt; here"


def test_nested_values_are_cleaned_and_numbers_left_alone() -> None:
    assert clean_value({"a": ["\u2019", 3, None], "b": True}) == {"a": ["'", 3, None], "b": True}


def test_code_in_a_field_is_kept() -> None:
    assert clean_value(["Run  this:\n\n```\nls  -l “x”\n```"]) == ["Run this:\n\n```\nls  -l “x”\n```"]


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean_text(text, entities=False)
    assert clean_text(once, entities=False) == once


def test_long_indents_take_linear_time() -> None:
    assert clean_text("a\n" + " " * 2_000_000 + "b").endswith("b")


def test_code_in_markdown_keeps_its_spaces_quotes_and_entities() -> None:
    code = "```python\nif a:\n\tb  =  “x”  # &lt;br&gt;\n\n\n\n    c\n```"
    text = f"Some  “text”\u00a0here\n\n{code}\n\nafter  it\n\n    indented   code\n"
    assert clean_text(text, code=True) == f'Some "text" here\n\n{code}\n\nafter it\n\n    indented   code'


@given(st.text(alphabet="`~ab \t\n\u00a0“&;lt"))
def test_cleaning_markdown_twice_changes_nothing_more(text: str) -> None:
    once = clean_text(text, entities=False, code=True)
    assert clean_text(once, entities=False, code=True) == once
