"""Markers of citations are read in every form that models write, and what was not shown is not cited."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.query.answering.markers import as_quoted, hide_markers, normalize_markers, without_markers
from tests.query.answering import Says, ask, make_hit


def _filtered(text: str, known: int = 3) -> tuple[str, list[int], int]:
    return normalize_markers(text, {number: number for number in range(1, known + 1)})


@pytest.mark.parametrize(
    ("written", "read", "cited"),
    [
        ("Two weeks [1].", "Two weeks [1].", [1]),
        ("Two weeks.[1][2] Then", "Two weeks.[1][2] Then", [1, 2]),
        ("a [1, 2]", "a [1][2]", [1, 2]),
        ("a [1; 3]", "a [1][3]", [1, 3]),
        ("a [1-3]", "a [1][2][3]", [1, 2, 3]),
        ("a [1–3].", "a [1][2][3].", [1, 2, 3]),
        ("a [1 and 2] b [1 và 3]", "a [1][2] b [1][3]", [1, 2, 1, 3]),
        ("ドア【1】、窓［2］", "ドア[1]、窓[2]", [1, 2]),
        ("a 【2†source】 b", "a [2] b", [2]),
        ("a 【2:0†L3-L5】", "a [2]", [2]),
        ("a [^2]", "a [2]", [2]),
        ("a [Source 1], [passage #2]", "a [1], [2]", [1, 2]),
        ("a [１] b [٢]", "a [1] b [2]", [1, 2]),
        ("a [1](https://evil.test/x) b", "a [1] b", [1]),
        ("a [1] (see b)", "a [1] (see b)", [1]),
        ("a [1](", "a [1](", [1]),
    ],
)
def test_every_form_becomes_one(written: str, read: str, cited: list[int]) -> None:
    assert _filtered(written) == (read, cited, 0)


@pytest.mark.parametrize(
    ("written", "read", "dropped"),
    [
        ("Two weeks [9].", "Two weeks.", 1),
        ("[7] Two weeks [0] long", "Two weeks long", 2),
        ("a [1, 9]", "a [1]", 1),
        ("a [2-5]", "a [2][3]", 2),
        ("One.\n\n[8] Two.", "One.\n\nTwo.", 1),
        ("a [4](https://evil.test) b", "a b", 1),
    ],
)
def test_foreign_marker_is_taken_out_and_counted(written: str, read: str, dropped: int) -> None:
    text, _, counted = _filtered(written)
    assert (text, counted) == (read, dropped)


@pytest.mark.parametrize(
    "text",
    [
        "since [2024] or [sic]",
        "- [x] done\n- [ ] open",
        "see [the page](https://a.test)",
        "`argv[1]` and\n```\na[9]\n```",
        "an open [1",
        "5 ` and [",
    ],
)
def test_what_is_no_marker_stays(text: str) -> None:
    assert _filtered(text) == (text, [], 0)


def test_indentation_of_a_nested_list_stays() -> None:
    assert _filtered("- a [1]\n  - b [9]\n  - c")[0] == "- a [1]\n  - b\n  - c"


def test_markers_of_a_page_cannot_cite_and_come_back_in_code() -> None:
    shown = hide_markers("As shown [2], call `argv[1]`.")
    assert "[2]" not in shown
    assert "[1]" not in shown
    assert _filtered(shown)[:2] == ("As shown, call `argv[1]`.", [])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("The garden closes at six.[2]", "The garden closes at six."),
        ("It closes at six. [2][3]", "It closes at six."),
        ('He said "no."[^3]', 'He said "no."'),
        ("In winter,[4] at five.", "In winter, at five."),
        ("閉まる。【2】", "閉まる。"),
        ("סגור בחורף.[2]", "סגור בחורף."),
        ("Read `argv[2]`, then a[1][0].", "Read `argv⟦2⟧`, then a⟦1⟧⟦0⟧."),
        ("As [1, 3] show, and [1-3] and [source 2].", "As ⟦1, 3⟧ show, and ⟦1-3⟧ and ⟦source 2⟧."),
        ("[2]", "⟦2⟧"),
        ("Since [2024], 【２】 and ［3］", "Since ⟦2024⟧, ⟦２⟧ and ⟦3⟧"),
        ("See [1](http://evil.test/) and [[2]].", "See ⟦1⟧(http://evil.test/) and [⟦2⟧]."),
        ("- [x] done, [sic], [the page](https://a.test)", "- [x] done, [sic], [the page](https://a.test)"),
        ("Open at \u202eevif and \u2067\u202dsix", "Open at evif and six"),
    ],
)
def test_a_sentence_is_quoted_without_anything_that_could_be_a_marker(written: str, read: str) -> None:
    assert as_quoted(written) == read


def test_markers_of_a_page_open_no_source_of_an_extractive_reply() -> None:
    """Also for who reads markers by a regular expression of their own. The quote stays as the page has it, so that it
    can be found there.
    """
    text = "A refund takes fourteen days.[2] Refund days are listed in days[3], see [1](http://evil.test/)."
    answer = ask("refund within how many days?", [make_hit(1, text), make_hit(2, "Visa [7] for 【1】 days [^2].")])
    assert set(re.findall(r"[\[【［]\^?(\d+)", answer.reply)) == {source.marker[1:-1] for source in answer.sources}
    assert answer.reply.count("[") == len(answer.reply.split(" [")) - 1
    assert all(source.quote in source.text for source in answer.sources)
    assert "[" in "".join(source.quote for source in answer.sources)


@pytest.mark.parametrize(
    "copied", ["Fourteen days ⟦2⟧ [1].", "Fourteen days [1] ⟦2⟧.", "Fourteen days ⟦2⟧[1](http://evil.test)."]
)
def test_a_model_that_copies_a_markers_of_a_page_opens_the_passage_it_was_shown_alone(copied: str) -> None:
    model = Says(copied)
    answer = ask(
        "refund days",
        [make_hit(1, "A refund takes fourteen days [2]."), make_hit(2, "A visa takes days.")],
        generator=model,
    )
    assert "fourteen days ⟦2⟧" in model.asked[-1]["content"]
    assert [source.chunk_id for source in answer.sources] == ["c1"]
    assert re.findall(r"\[(\d+)\]", answer.reply) == ["1"]


def test_markers_of_earlier_replies_are_taken_out() -> None:
    assert without_markers("Two weeks [1][2]. Or three 【3】") == "Two weeks. Or three"


_PARTS = [
    "[",
    "]",
    "1",
    "2",
    "9",
    "[1]",
    "[9]",
    "【2】",
    " ",
    "  ",
    "\n",
    "word",
    "`",
    "```",
    "(",
    "https://a",
    ")",
    ", ",
    "-",
    "†",
    "⟦3⟧",
    "source ",
]
_WRITTEN = st.lists(st.sampled_from(_PARTS) | st.text(max_size=3), max_size=25).map("".join)


@given(_WRITTEN)
def test_what_was_read_is_read_alike_again(written: str) -> None:
    text, cited, _ = _filtered(written)
    assert _filtered(text) == (text, cited, 0)


@given(_WRITTEN)
def test_no_number_that_was_not_shown_is_marked(written: str) -> None:
    assert set(_filtered(written)[1]) <= {1, 2, 3}


@given(_WRITTEN | st.text(alphabet="[]【】［］⟦⟧^0123456789 .,;a-", max_size=30))
def test_no_quoted_sentence_has_a_marker(written: str) -> None:
    quoted = as_quoted(written)
    assert not re.search(r"[\[【［]\s*\^?\d+\s*[\]】］]", quoted)
    assert _filtered(quoted, known=9)[1:] == ([], 0)
