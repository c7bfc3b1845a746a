"""Chunks are spans of their document: exact, in order, complete, and never too long, in any script."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import regex  # type: ignore[import-untyped]  # ships no types
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from almanac.schemas.declaration.chunk_section import Chunk
from almanac.schemas.items import PLACES, Item
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.chunking.headings import find_headings
from almanac.transforms.chunking.layout import Span, word_spans
from almanac.transforms.html.page import html_to_markdown
from tests.growth import assert_linear

_SAMPLES = {
    "en": 'Dr. Smith arrived at 3.5 p.m. He said "Hello there!" and left. Was it late? Nobody knew; it rained. ',
    "fr": "Le château ouvre à 9 h. L'entrée coûte 3,5 €. « Bonjour ! » dit-elle. ",
    "vi": "Xin chào các bạn. Chuyến đi bắt đầu lúc 8 giờ sáng! Giá vé là bao nhiêu? ",
    "he": "שָׁלוֹם עולם. מה שלומך היום? הכול בסדר גמור! ",
    "ar": "مرحبا بك في المتحف. متى يفتح؟ يفتح في التاسعة صباحًا. ",
    "zh": "你好。今天天气很好！我们去公园吧？他说：「好的。」然后走了。",
    "ja": "彼は「行く。」と言った。ラーメンを食べました。今日は良い天気です！",
    "th": "สวัสดีครับ ผมชื่อจอห์นยินดีที่ได้รู้จัก น้ำดื่มอยู่ที่นี่ ",
    "hi": "नमस्ते। आप कैसे हैं? मैं ठीक हूँ। क्षत्रिय ज्ञान। ",
    "und": "👨‍👩‍👧👍🏽🇫🇷🇩🇪 e\u0301a\u0308 \u200dx\ufe0f ",
}
_breaks = ("\n", "\n\n", "\r\n", " ", "\u3000", "# Top\n", "\n\n## Sub\n\n", "```\n# no\n```\n")
_tables = st.builds(
    "\n| {} | b |\n| --- | --- |\n{}\n".format,
    st.sampled_from(["a", "Ort", "x" * 40]),
    st.integers(1, 9).map("| 1.5 | two. |\n".__mul__),
)
_marks = st.sampled_from([*_breaks, "\u0301", "\u2029", "\x1c", "\x00", "\ud800", "a" * 90])
_bits = st.one_of(
    st.sampled_from(list(_SAMPLES.values())), _marks, _tables, st.text(max_size=30), st.text("ab .!?。\né", max_size=30)
)
_texts = st.lists(_bits, max_size=12).map("".join)


def _embed(texts: list[str]) -> Any:
    """Vectors that follow the letters of a text."""
    vectors = np.array(
        [[1.0 + text.count(letter) for letter in "aeiouกחا。"] for text in texts], dtype=np.float32
    ).reshape(len(texts), 9)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _token_spans(text: str) -> Sequence[tuple[int, int]]:
    """Tokens of three letters."""
    return [(at, min(at + 3, end)) for start, end in word_spans(text) for at in range(start, end, 3)]


@st.composite
def _declared(draw: Callable[..., Any]) -> Chunk:
    by = draw(st.sampled_from(["words", "paragraphs", "sentences", "recursive", "sections", "semantic", "none"]))
    unit = draw(st.sampled_from(["characters", "words", "tokens"]))
    size = draw(st.integers(1, 60))
    more = {"max_size": size + draw(st.integers(0, 60))} if by == "sentences" else {}
    return Chunk(by=by, unit=unit, size=size, overlap=min(draw(st.integers(0, 40)), size - 1), **more)


def _chunker(chunk: Chunk, language: str = "en") -> Chunker:
    return Chunker(chunk, language, embed=_embed, token_spans=_token_spans)


def _length(chunk: Chunk, text: str, start: int, end: int) -> int:
    """How long a part of a text is, counted one unit after the other; a long one counts as several."""
    if chunk.limits.unit == "characters":
        return end - start
    spans = word_spans(text) if chunk.limits.unit == "words" else _token_spans(text)
    return sum(at < end and min(at + 64, stop) > start for first, stop in spans for at in range(first, stop, 64))


_languages = st.sampled_from([*_SAMPLES, "zh-Hans", "pt-BR"])


@given(_texts, _declared(), _languages)
def test_spans_cover_every_visible_character_in_order(text: str, chunk: Chunk, language: str) -> None:
    spans = _chunker(chunk).split(text, language)
    covered = {i for start, end in spans for i in range(start, end)}
    assert all(i in covered for i, c in enumerate(text) if not c.isspace())
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(spans))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


@given(_texts, _declared(), _languages)
def test_spans_keep_their_caps(text: str, chunk: Chunk, language: str) -> None:
    spans = _chunker(chunk).split(text, language)
    limits = chunk.limits
    if chunk.by != "none":
        cap = limits.max_size if chunk.by == "sentences" else limits.size
        assert all(_length(chunk, text, start, end) <= cap for start, end in spans)
    for before, after in pairwise(spans):
        assert after.start >= before.end or _length(chunk, text, after.start, before.end) <= limits.overlap


@given(_texts, _declared(), _languages)
def test_rows_with_the_header_of_their_table_keep_the_caps(text: str, chunk: Chunk, language: str) -> None:
    """What is embedded ends with the chunk's own text, which is exactly that of the document."""
    limits = chunk.limits
    for row in _chunker(chunk, language).rows(_item("document", text)):
        assert row.text == text[row.start : row.end] and row.embedded_text.endswith(row.text)
        assert chunk.by == "none" or _length(chunk, row.embedded_text, 0, len(row.embedded_text)) <= (
            limits.max_size or limits.size
        )


_name = st.sampled_from(
    [
        "Opening hours",
        "What do I do when I am ill?",
        "3. Fees",
        "Preise",
        "營業時間",
        "Giá vé. Ai được giảm?",
        "`a` **b**",
    ]
)
_heading = st.one_of(
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "  ####"]), _name),
    st.builds("{}\n-----".format, _name),
)
_prose = st.lists(
    st.one_of(st.sampled_from(list(_SAMPLES.values())), st.sampled_from(["z" * 200, "One. Two! Three? "])),
    min_size=1,
    max_size=4,
)
_list = st.integers(1, 12).map("- a point, and another one.\n".__mul__)
_code = st.integers(1, 9).map(lambda count: "```\n" + "# a comment. Or two\n" * count + "```\n")
_text_block = st.one_of(
    _prose.map("".join),
    _list,
    _code,
    st.integers(1, 9).map(lambda count: "| a | b |\n| --- | --- |\n" + "| 1.5 | two. |\n" * count),
)
_section = st.tuples(st.lists(_heading, max_size=3), _text_block, st.sampled_from(["\n\n", "\n", "\r\n\r\n"]))
_limits = st.builds(
    lambda by, unit, overlap: Chunk(
        by=by,
        size=200,
        overlap=overlap,
        unit=unit,
        **({"max_size": 250, "whole_below": 200} if by == "sentences" else {}),
    ),
    st.sampled_from(["words", "paragraphs", "sentences", "recursive", "sections", "semantic"]),
    st.sampled_from(["characters", "tokens"]),
    st.integers(0, 149),
)


@given(st.lists(_section, min_size=1, max_size=12), _limits)
def test_headings_stay_whole_and_with_what_follows_them(
    sections: list[tuple[list[str], str, str]], chunk: Chunk
) -> None:
    """Three headings with 64 letters of a longer word fit a chunk, so that there is always a way."""
    text, headings = "", []
    for names, block, line_end in sections:
        for name in names:
            headings.append((len(text) + len(name) - len(name.lstrip()), len(text) + len(name)))
            text += name + line_end
        text = f"{text}{block.strip()}\n\n"
    spans = _chunker(chunk).split(text)
    for start, end in headings:
        assert not any(start < span.start < end for span in spans), "no chunk begins inside a heading"
        assert not any(start < span.end <= end for span in spans), "nor ends inside or with one"


@pytest.mark.parametrize("by", ["words", "paragraphs", "sentences", "recursive", "semantic"])
def test_questions_stay_with_their_answers(by: Any) -> None:
    """Where a heading is longer than a chunk may be, or leaves no room for a word of its text, there is no other way
    than to part them.
    """
    pages = "".join(
        f"### What is question {number} of them?\n\nThe answer to it is {number}. There is more to say.\n\n"
        for number in range(30)
    )
    chunk = Chunk(
        by=by,
        unit="characters",
        size=200,
        overlap=60,
        **({"max_size": 200, "whole_below": 0} if by == "sentences" else {}),
    )
    for shown in _shown(chunk, pages):
        assert all(f"The answer to it is {number}" in shown for number in re.findall(r"question (\d+)", shown)), shown
    tight = Chunk(
        by=by,
        unit="characters",
        size=20,
        overlap=0,
        **({"max_size": 20, "whole_below": 0} if by == "sentences" else {}),
    )
    assert _shown(tight, "# The name of a thing\n\nText")[-1] in ("Text", "thing\n\nText")
    shared = [pages[b.start :] for a, b in pairwise(_chunker(chunk).split(pages)) if a.end > b.start]
    assert not any(text.startswith("#") for text in shared), "nothing of another question is repeated before a heading"
    assert _shown(tight, "Before.\n\n# Eighteen letters\n\nText")[-2:] == ["# Eighteen letters", "Text"]


@pytest.mark.slow
@given(_texts, _declared(), _languages)
def test_no_letter_is_parted_from_its_marks(text: str, chunk: Chunk, language: str) -> None:
    """But where a single letter with its marks is longer than a chunk may be."""
    cap = chunk.limits.max_size or chunk.limits.size
    letters = [match.span() for match in regex.finditer(r"\X", text)]
    assume(all(_length(chunk, text, start, end) <= cap for start, end in letters))
    between = {start for start, _ in letters} | {start + 1 for start, _ in letters if text[start].isspace()}
    spans = _chunker(chunk).split(text, language)
    assert all(start in between for start, _ in spans)


@given(_texts, _declared(), _languages)
def test_the_same_text_is_cut_the_same(text: str, chunk: Chunk, language: str) -> None:
    assert _chunker(chunk).split(text, language) == _chunker(chunk).split(text, language)


@pytest.mark.parametrize("language", _SAMPLES)
@pytest.mark.parametrize("by", ["words", "paragraphs", "sentences", "recursive", "sections", "semantic"])
def test_scripts_without_terminators_or_spaces_are_cut_to_size(by: Any, language: str) -> None:
    letters = "".join(c for c in _SAMPLES[language] * 40 if c not in ".!?。！？؟।\u061f")
    for text in (letters, "".join(letters.split())):
        spans = _chunker(
            Chunk(by=by, unit="characters", size=120, overlap=20, **({"max_size": 120} if by == "sentences" else {}))
        ).split(text, language)
        lengths = [end - start for start, end in spans]
        assert len(spans) > 3 and max(lengths) <= 120
        assert by == "semantic" or sum(lengths) / len(lengths) > 60, "chunks are about as full as they may be"


def _shown(chunk: Chunk, text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in _chunker(chunk, language).split(text)]


@pytest.mark.parametrize("by", ["paragraphs", "recursive", "sections", "sentences", "words", "semantic"])
@pytest.mark.parametrize("rule", ["| --- | --- | --- |", "--- | :-: | ---:", "|-|-|-|"])
def test_rows_that_are_cut_off_are_embedded_with_the_header_of_their_table(by: Any, rule: str) -> None:
    header, lines = "| name | price | stock |\n", [f"| thing {n} | {n}.50 | {7 * n} |\n" for n in range(60)]
    text = f"All prices.\n\n{header}{rule}\n{''.join(lines)}\nOf the last day."
    rows = _chunker(Chunk(by=by, unit="characters", size=200, overlap=60)).rows(_item("document", text))
    assert len(rows) > 8
    for row in rows:
        inside, starts = "thing" in row.text and header not in row.text, row.text.startswith("| thing")
        assert row.embedded_text == (header if inside else "") + row.text and len(row.embedded_text) <= 200
        assert starts or not inside, "no chunk begins within a row, where values would stand below other names"
        assert row.text.endswith(("|", rule, "prices.", "day.")), "nor ends within one"


@pytest.mark.parametrize("by", ["paragraphs", "recursive", "sections", "sentences", "words", "semantic"])
def test_tables_of_pages_are_cut_between_rows_and_embedded_with_their_names(by: Any) -> None:
    page = "<table><thead><tr><th rowspan=2>Thing<th colspan=2>2024<tr><th>Price<th>Stock</thead>{}</table>"
    cells = "".join(f"<tr><td>thing {n}<td><ul><li>{n}.50<li>{n}.90</ul><td>{7 * n}" for n in range(60))
    text = html_to_markdown(f"<p>All prices.</p>{page.format(cells)}<p>Of the last day.</p>", "all")
    rows = _chunker(Chunk(by=by, unit="characters", size=200, overlap=0)).rows(_item("document", text))
    header = "| Thing | 2024 Price | 2024 Stock |\n"
    assert len(rows) > 10
    for row in rows:
        assert header in row.embedded_text or "thing" not in row.text
        assert all(
            re.fullmatch(r"\| thing \d+ \| \d+\.50; \d+\.90 \| \d+ \|", line)
            for line in row.text.split("\n")
            if "thing" in line
        )


def test_a_table_without_names_repeats_none() -> None:
    text = "| | |\n| --- | --- |\n" + "| some | more |\n" * 40
    rows = _chunker(Chunk(by="paragraphs", size=200, overlap=0)).rows(_item("document", text))
    assert len(rows) > 3 and all(row.embedded_text == row.text and row.text.endswith("more |") for row in rows)


def test_a_header_that_would_fill_half_a_chunk_is_not_repeated() -> None:
    text = f"| {'name ' * 30}| b |\n| --- | --- |\n" + "| some | more |\n" * 40
    rows = _chunker(Chunk(by="sections", size=200, overlap=0)).rows(_item("document", text))
    assert len(rows) > 3 and all(row.embedded_text == row.text for row in rows)


def test_paragraphs_stay_whole_when_they_fit() -> None:
    text = "First paragraph.\n\nSecond one. It goes on.\r\n\r\nThird."
    assert _shown(Chunk(size=30, overlap=0), text) == ["First paragraph.", "Second one. It goes on.", "Third."]


def test_neighbours_share_whole_words() -> None:
    text = "alpha beta gamma delta.\n\nepsilon zeta eta."
    assert _shown(Chunk(size=34, overlap=12), text) == ["alpha beta gamma delta.", "gamma delta.\n\nepsilon zeta eta."]


def test_a_text_without_any_separator_is_cut_between_letters() -> None:
    assert [len(part) for part in _shown(Chunk(by="recursive", size=40, overlap=0), "日" * 95)] == [40, 40, 15]
    assert all(part.startswith("e") for part in _shown(Chunk(by="recursive", size=5, overlap=0), "e\u0301" * 10))
    family = "👨‍👩‍👧"
    assert set(_shown(Chunk(by="recursive", size=6, overlap=0), family * 4)) == {family}


def test_windows_of_words_share_words_and_end_with_a_sentence_where_one_ends_near() -> None:
    sentence = "One two three four five six seven eight nine ten. "
    text = (sentence * 90).strip()  # 900 words
    chunks = _shown(Chunk(by="words"), text)
    counts = [len(chunk.split()) for chunk in chunks]
    assert counts == [400, 400, 200] and all(chunk.endswith("ten.") for chunk in chunks)
    assert chunks[0].split()[-50:] == chunks[1].split()[:50]
    uneven = _shown(Chunk(by="words", size=33, overlap=5), text)
    assert all(chunk.endswith("ten.") for chunk in uneven) and max(len(chunk.split()) for chunk in uneven) <= 33


def test_a_letter_is_a_word_where_words_are_not_parted() -> None:
    text = "你好今天天气很好" * 20
    assert [len(chunk) for chunk in _shown(Chunk(by="words", size=50, overlap=10), text, "zh")] == [50, 50, 50, 40]
    assert [text[start:end] for text in ["使用Python语言「好」。"] for start, end in word_spans(text)] == [
        "使",
        "用",
        "Python",
        "语",
        "言",
        "「好」。",
    ]
    assert len(word_spans("x" * 640)) == 10


def test_sentences_stay_whole_up_to_the_cap_and_are_repeated_whole() -> None:
    long = "This one is " + "very " * 30 + "long."
    text = f"First of all. Dr. Brown came. Then this. {long} And the end. " + "Short. " * 4
    chunks = _shown(Chunk(by="sentences", size=50, overlap=20, max_size=200), text)
    assert (
        long in chunks
        and chunks[0] == "First of all. Dr. Brown came. Then this."
        and chunks[-1].startswith("And the end. Short.")
    )
    assert max(map(len, _shown(Chunk(by="sentences", size=50, overlap=20, max_size=60), text))) <= 60
    assert _shown(Chunk(by="sentences", size=20, overlap=0), "One is here. Two is here.") == [
        "One is here.",
        "Two is here.",
    ]
    assert _shown(Chunk(by="sentences", size=20, overlap=0, whole_below=30), "One is here. Two is here.") == [
        "One is here. Two is here."
    ]
    second = _shown(
        Chunk(by="sentences", size=40, overlap=15), "One is here. Two is here. Three is here. Four is here."
    )[1]
    assert second == "Three is here. Four is here." or second.startswith("Two is here.")


def test_documents_of_up_to_2000_characters_stay_whole_by_sentences() -> None:
    text = ("Une phrase de trente lettres ! " * 80)[:2000].strip()
    assert len(_shown(Chunk(by="sentences"), text, "fr")) == 1
    assert all(len(chunk) <= 2000 for chunk in _shown(Chunk(by="sentences"), text * 5, "fr"))


_GUIDE = """Before all.

# Guide

## Opening *hours*

We open at nine.

```
# not a heading
```

## Prices

Five.

Old style
---------

Under it.

### Empty
"""


def _item(kind: str, text: str, metadata: dict[str, Any] | None = None) -> Item:
    return Item(
        "s",
        kind,  # type: ignore[arg-type]
        "id",
        "u",
        "t",
        text,
        {},
        {"a": 1} if metadata is None else metadata,
        "raw",
        "2026-01-01T00:00:00+00:00",
    )


def test_sections_are_cut_at_headings_and_know_their_path() -> None:
    rows = Chunker(Chunk(by="sections")).rows(_item("document", _GUIDE))
    assert [(row.metadata.get("section"), row.text.split("\n")[0], row.text.split("\n")[-1]) for row in rows] == [
        (None, "Before all.", "Before all."),
        ("Guide > Opening hours", "# Guide", "```"),
        ("Guide > Prices", "## Prices", "Five."),
        ("Guide > Old style", "Old style", "Under it."),
        ("Guide > Old style > Empty", "### Empty", "### Empty"),
    ]
    assert all(row.embedded_text == row.text == _GUIDE[row.start : row.end] for row in rows)


@pytest.mark.parametrize("by", ["sections", "paragraphs"])
def test_headings_stand_in_front_of_what_is_embedded(by: Any) -> None:
    text = "# Guide\n\n## Hours\n\n" + "We open at nine. " * 20
    rows = Chunker(Chunk(by=by, size=100, overlap=0, headings=True)).rows(_item("document", text))
    assert len(rows) > 3
    for row in rows[-3:]:
        assert row.embedded_text == f"Guide > Hours\n\n{row.text}" and row.metadata == {
            "a": 1,
            "section": "Guide > Hours",
        }
        assert text[row.start : row.end] == row.text


def test_a_declared_field_of_that_name_stays_what_it_is() -> None:
    (row,) = Chunker(Chunk(by="sections")).rows(_item("document", "# Guide\n\nText.", {"section": "mine"}))
    assert row.metadata == {"section": "mine"}
    (row,) = Chunker(Chunk(by="none")).rows(_item("document", "# Guide\n\nText.", {"page": 7}))
    assert row.metadata == {"page": 7, "place": None}
    paged = replace(_item("document", "Text.", {"page": "home"}), fields={PLACES: [[0, "page", 4]]})
    assert [row.metadata for row in Chunker(Chunk(by="none")).rows(paged)] == [{"page": "home", "place": None}]
    assert [row.metadata for row in Chunker(Chunk(by="none")).rows(_item("record", "Text.", {"page": 7}))] == [
        {"page": 7}
    ]


def test_a_paragraph_behind_a_number_sign_is_no_heading() -> None:
    assert list(find_headings("# " + "x" * 5000 + "\n\ntext")) == []
    assert [
        heading.path for heading in find_headings("a\r\n\r\n# B\r\n\r\nc # d\n\n    # code\n\n<!--\n# comment\n-->\n")
    ] == [("B",)]


def test_topics_are_cut_where_they_shift() -> None:
    text = "aaa aa aaa. aa aaa aa. " * 4 + "eee ee eee. ee eee ee. " * 4
    chunks = _shown(Chunk(by="semantic", size=120), text)
    assert len(chunks) == 2 and set(chunks[0]) == set("a .") and set(chunks[1]) == set("e .")


def test_nothing_is_embedded_where_nothing_has_to_be_cut() -> None:
    def refuse(_texts: list[str]) -> Any:
        raise AssertionError("embedded")

    assert Chunker(Chunk(by="semantic"), embed=refuse).split("A short text. It stays whole.") == [Span(0, 29)]


@pytest.mark.parametrize("by", ["words", "paragraphs", "sentences", "recursive", "sections", "semantic", "none"])
@pytest.mark.parametrize("text", ["", " \n\n\t "])
def test_nothing_visible_gives_no_chunk(by: Any, text: str) -> None:
    assert _chunker(Chunk(by=by)).split(text) == []


def test_a_detected_language_is_that_of_the_item() -> None:
    text = "Il coûte p.ex. 3 €. " * 30
    by_item = Chunker(Chunk(by="sentences", size=40, overlap=0), "auto").rows(
        _item("document", text, {"language": "fr"})
    )
    assert [row.text for row in by_item] == _shown(Chunk(by="sentences", size=40, overlap=0), text, "fr")


def test_a_record_is_one_chunk_without_a_span_whatever_its_length() -> None:
    (row,) = Chunker(Chunk(size=50, overlap=0, headings=True)).rows(_item("record", "# word " * 1000))
    assert (row.start, row.end, row.text, row.embedded_text) == (None, None, "# word " * 1000, "# word " * 1000)


def test_chunk_ids_follow_the_content_and_not_the_time() -> None:
    def row(metadata: int, at: str) -> Any:
        return Chunker(Chunk()).rows(
            Item("s", "document", "id", "u", "t", "Some text.", {}, {"a": metadata}, "raw", at)
        )[0]

    first, later, other = row(1, "2026"), row(1, "2027"), row(2, "2026")
    assert first.chunk_id == later.chunk_id != other.chunk_id
    assert first.text_sha256 == other.text_sha256


@pytest.mark.parametrize(
    ("declared", "limits"),
    [
        ({"by": "words"}, ("words", 400, 50, 0, 0)),
        ({}, ("characters", 600, 100, 0, 0)),
        ({"size": 300}, ("characters", 300, 50, 0, 0)),
        ({"size": 900}, ("characters", 900, 100, 0, 0)),
        ({"by": "sentences"}, ("characters", 2000, 200, 6000, 2000)),
        ({"by": "sentences", "size": 1000, "whole_below": 0}, ("characters", 1000, 100, 3000, 0)),
        ({"by": "recursive", "unit": "tokens", "size": 240}, ("tokens", 240, 40, 0, 0)),
    ],
)
def test_what_is_not_declared_is_the_chunkers_own(declared: dict[str, Any], limits: tuple[Any, ...]) -> None:
    assert Chunk(**declared).limits == limits


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"size": 100, "overlap": 100}, "overlap 100 must be smaller than size 100"),
        ({"by": "sentences", "size": 500, "max_size": 400}, "max_size 400 must not be smaller than size 500"),
        ({"by": "sentences", "whole_below": 7000}, "whole_below 7000 must not be larger than max_size 6000"),
        ({"by": "words", "max_size": 900}, "max_size is of by: sentences"),
        (
            {"by": "paragraphs", "unit": "tokens"},
            "size: is required with unit: tokens; the default of by: paragraphs, 600, is in characters",
        ),
    ],
)
def test_limits_that_do_not_fit_are_refused(declared: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Chunk(**declared)


@pytest.mark.slow
def test_a_very_long_text_without_line_breaks_takes_linear_time() -> None:
    """The library alone takes 3 s for 20,000 sentences, and 50 s for four times as many."""
    assert len(_shown(Chunk(by="sentences"), "日本語。" * 20_000, "ja")) > 30
    assert_linear(
        lambda text: _shown(Chunk(by="sentences"), text, "ja"), lambda sentences: "日本語。" * sentences, 6_000
    )
