"""Markers of citations are read in every form that models write, and what was not shown is not cited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.query.answering.markers import CitationFilter, hide_markers, without_markers


def _filtered(text: str, known: int = 3) -> tuple[str, list[int], int]:
    markers = CitationFilter(known)
    read = markers.feed(text) + markers.finish()
    assert all(read[m.position :].startswith(f"[{m.number}]") for m in markers.marked)
    return read, [m.number for m in markers.marked], markers.dropped


@pytest.mark.parametrize(
    ("written", "read", "cited"),
    [
        ("Two weeks [1].", "Two weeks [1].", [1]),
        ("Two weeks.[1][2] Then", "Two weeks.[1][2] Then", [1, 2]),
        ("a [1, 2]", "a [1][2]", [1, 2]),
        ("a [1; 3]", "a [1][3]", [1, 3]),
        ("a [1-3]", "a [1][2][3]", [1, 2, 3]),
        ("a [1–3].", "a [1][2][3].", [1, 2, 3]),
        ("a [1 and 2]", "a [1][2]", [1, 2]),
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
    "text", ["since [2024] or [sic]", "- [x] done\n- [ ] open", "see [the page](https://a.test)", "`argv[1]` and\n```\na[9]\n```", "an open [1", "5 ` and ["]
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


def test_markers_of_earlier_replies_are_taken_out() -> None:
    assert without_markers("Two weeks [1][2]. Or three 【3】") == "Two weeks. Or three"


_PARTS = ["[", "]", "1", "2", "9", "[1]", "[9]", "【2】", " ", "  ", "\n", "word", "`", "```", "(", "https://a", ")", ", ", "-", "†", "⟦3⟧", "source "]
_WRITTEN = st.lists(st.sampled_from(_PARTS) | st.text(max_size=3), max_size=25).map("".join)


@given(_WRITTEN, st.lists(st.integers(1, 9), max_size=12))
def test_however_the_pieces_are_cut_the_text_is_the_same(written: str, sizes: list[int]) -> None:
    markers = CitationFilter(3)
    pieces, position = [], 0
    for size in sizes:
        pieces.append(markers.feed(written[position : position + size]))
        position += size
    pieces += [markers.feed(written[position:]), markers.finish()]
    text, cited, dropped = _filtered(written)
    assert ("".join(pieces), [m.number for m in markers.marked], markers.dropped) == (text, cited, dropped)


@given(_WRITTEN)
def test_no_number_that_was_not_shown_is_marked(written: str) -> None:
    assert set(_filtered(written)[1]) <= {1, 2, 3}
