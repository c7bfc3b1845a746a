"""Cleaning changes how text is written, never what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.transforms.clean import clean_text, clean_value


@pytest.mark.parametrize(
    ("text", "cleaned"),
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
        (
            "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("null\x00byte\x07", "nullbyte"),
        ("Ig\U000e0069\U000e0067nore", "Ignore"),  # letters written in tags
        ("\u2764\ufe0f 1\ufe0f\u20e3 \u845b\U000e0100", "\u2764 1\u20e3 \u845b"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\u061c\u05d0\u180ea\u2061\u2062\u2063\u2064b\u3164\uffa0c\u034f\u206a\ufff9", "\u05d0abc"),
        ("\u1820\u180b\u1821\u180f", "\u1820\u1821"),
        ("&#x3164;a&#xE0041;", "a"),
        ("\u115f\u1160", ""),  # Hangul fillers alone
        # and in place of a letter
        ("\u1100\u1160 \u115f\u1161 \u115f\u1160\u11a8", "\u1100\u1160 \u115f\u1161 \u115f\u1160\u11a8"),
    ],
)
def test_typing_variants_become_one(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_none_keeps_every_character() -> None:
    text = "\u201cA\u201d\u00a0 \r\n\r\n\r\n&amp; e\u0301 "
    assert clean_text(text, "none") == text


def test_entities_of_parsed_html_stay_as_the_page_shows_them() -> None:
    assert clean_text("write &lt;br&gt; here", entities=False) == "write &lt;br&gt; here"


def test_nested_values_are_cleaned_and_numbers_left_alone() -> None:
    assert clean_value({"a": ["\u2019", 3, None], "b": True}) == {"a": ["'", 3, None], "b": True}


def test_code_in_a_field_is_kept() -> None:
    assert clean_value(["Run  this:\n\n```\nls  -l “x”\n```"]) == ["Run this:\n\n```\nls  -l “x”\n```"]


_NEVER_SEEN = [
    *range(0xE0000, 0xE0080),
    *range(0xE0100, 0xE01F0),
    *range(0xFE00, 0xFE10),
    *range(0x180B, 0x1810),
    *range(0x2060, 0x2065),
]
_NEVER_SEEN += [
    0x34F,
    0x61C,
    0x3164,
    0xFFA0,
    *range(0x206A, 0x2070),
    *range(0xFFF9, 0xFFFC),
    0x200B,
    0x200E,
    0x200F,
    0xAD,
    0xFEFF,
]


@given(
    st.lists(
        st.one_of(st.sampled_from("aé中ไ\u05d0\u0301\u200c\u200d.!`\n"), st.sampled_from(list(map(chr, _NEVER_SEEN))))
    ).map("".join),
    st.booleans(),
)
def test_no_invisible_character_survives_and_every_other_does(text: str, code: bool) -> None:
    cleaned = clean_text(text, code=code)
    assert not set(map(ord, cleaned)) & set(_NEVER_SEEN)
    assert cleaned == clean_text(text.translate(dict.fromkeys(_NEVER_SEEN)), code=code)
    assert clean_text(cleaned, code=code) == cleaned


@given(st.text("\u1100\u115f\u1160\u1161\u11a8가\u3164 a"))
def test_cleaning_fillers_twice_changes_nothing_more(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


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
