"""Tokens as the bundled model counts them, without the model: what it cuts off is counted by what changed."""

from pathlib import Path
from typing import Any

import pytest

from almanac.core.tables import Batches, batches_of, chunks_table, write_table
from almanac.index.embedding import tokens
from almanac.index.embedding.tokens import (
    count_tokens,
    count_truncated,
    count_truncated_chunks,
    max_tokens,
    token_spans,
)
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.items import ChunkRow

_EMBED = Embed()


def test_what_is_longer_than_the_model_reads_is_counted() -> None:
    assert max_tokens(_EMBED) == 256
    fits, long = "word " * 254, "word " * 255  # with two marks of the model's own
    assert count_tokens(_EMBED, [fits, long]) == 256 + 257
    assert count_truncated(_EMBED, [fits, long, "", "日" * 255, long]) == 3


def test_token_spans_are_characters_of_the_text() -> None:
    text = "Déjà vu: 日本語 👍🏽 unbelievableness"
    spans = token_spans(_EMBED, text)
    assert [text[start:end] for start, end in spans][:7] == ["Dé", "jà", "vu", ":", "日", "本", "語"]
    assert all(a <= b < c <= d for (a, b), (c, d) in [((0, start), (start + 1, end + 1)) for start, end in spans])
    assert sorted(spans) == spans


def _table(path: Path, texts: list[str]) -> Batches:
    rows = [
        ChunkRow("d", "s", "u", "t", "document", n, 0, len(text), text, text, {}, "2026")
        for n, text in enumerate(texts)
    ]
    write_table(path, chunks_table(rows))
    return batches_of(path, rows=2)


def test_only_what_differs_from_a_counted_table_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long, other = "word " * 300, "other " * 300
    before = _table(tmp_path / "before", [long, long, "short", "gone", other])
    after = _table(tmp_path / "after", [long, "short", "new", "w " * 400, "w " * 400])
    assert (count_truncated_chunks(_EMBED, before), count_truncated_chunks(_EMBED, after)) == (3, 3)
    seen: list[str] = []

    def look(embed: Embed, texts: Any) -> int | None:
        looked = list(texts)
        seen.extend(looked)
        return count_truncated(embed, looked)

    monkeypatch.setattr(tokens, "count_truncated", look)
    assert count_truncated_chunks(_EMBED, after, before, 3) == 3
    assert sorted(seen) == sorted(["new", "w " * 400, "w " * 400, long, "gone", other])
    seen.clear()
    assert count_truncated_chunks(_EMBED, after, after, 3) == 3 and seen == []
