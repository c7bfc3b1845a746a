"""Chunks are spans of their document: exact, in order, complete, and never too long."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.declaration import Chunk
from schemas.items import Item
from transforms.chunk import chunk_item, split_into_spans

_texts = st.text(alphabet=st.one_of(st.sampled_from("ab .!?\n\n\n。 é́ש日 \u3000"), st.characters()), max_size=600)
_chunks = st.builds(
    lambda by, size, overlap: Chunk(by=by, size=size, overlap=min(overlap, size - 1)),
    st.sampled_from(["paragraphs", "recursive", "none"]),
    st.integers(1, 80),
    st.integers(0, 40),
)


@given(_texts, _chunks)
def test_spans_cover_every_visible_character_in_order(text: str, chunk: Chunk) -> None:
    spans = split_into_spans(text, chunk)
    covered = {i for start, end in spans for i in range(start, end)}
    assert all(i in covered for i, c in enumerate(text) if not c.isspace())
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(spans))


@given(_texts, _chunks)
def test_spans_keep_their_caps(text: str, chunk: Chunk) -> None:
    spans = split_into_spans(text, chunk)
    if chunk.by != "none":
        assert all(end - start <= chunk.size for start, end in spans)
    for before, after in pairwise(spans):
        assert before.end - after.start <= chunk.overlap
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


def test_paragraphs_stay_whole_when_they_fit() -> None:
    text = "First paragraph.\n\nSecond one. It goes on.\n\nThird."
    assert [text[s:e] for s, e in split_into_spans(text, Chunk(size=30, overlap=0))] == ["First paragraph.", "Second one. It goes on.", "Third."]


def test_neighbours_share_whole_words() -> None:
    text = "alpha beta gamma delta.\n\nepsilon zeta eta."
    first, second = split_into_spans(text, Chunk(size=34, overlap=12))
    assert text[second.start : second.end] == "gamma delta.\n\nepsilon zeta eta."
    assert text[first.start : first.end] == "alpha beta gamma delta."


def test_a_text_without_any_separator_is_cut_between_characters() -> None:
    text = "日" * 95
    assert [e - s for s, e in split_into_spans(text, Chunk(by="recursive", size=40, overlap=0))] == [40, 40, 15]


def test_a_combining_mark_stays_with_its_letter() -> None:
    text = "e\u0301" * 10
    for start, _ in split_into_spans(text, Chunk(by="recursive", size=5, overlap=0)):
        assert text[start] == "e"


@pytest.mark.parametrize("text", ["", " \n\n\t "])
def test_nothing_visible_gives_no_chunk(text: str) -> None:
    assert split_into_spans(text, Chunk()) == []


def _item(kind: str, text: str) -> Item:
    return Item("s", kind, "id", "u", "t", text, {}, {"a": 1}, "raw", "2026-01-01T00:00:00+00:00")  # type: ignore[arg-type]


def test_a_record_is_one_chunk_without_a_span_whatever_its_length() -> None:
    (row,) = chunk_item(_item("record", "word " * 1000), Chunk(size=50, overlap=0))
    assert (row.start, row.end, row.text) == (None, None, "word " * 1000)


def test_chunk_ids_follow_the_content_and_not_the_time() -> None:
    first = chunk_item(_item("document", "Some text."), Chunk())[0]
    later = chunk_item(Item("s", "document", "id", "u", "t", "Some text.", {}, {"a": 1}, "raw", "2027-01-01T00:00:00+00:00"), Chunk())[0]
    other = chunk_item(Item("s", "document", "id", "u", "t", "Some text.", {}, {"a": 2}, "raw", "2026-01-01T00:00:00+00:00"), Chunk())[0]
    assert first.chunk_id == later.chunk_id != other.chunk_id
    assert first.text_sha256 == other.text_sha256
