"""Counts tokens, and texts that an embedder truncates, without loading its model."""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from almanac.core.digests import SortedDigests, digests_in
from almanac.core.tables import Batches, read_rows
from almanac.index.api.batching import estimate_tokens
from almanac.index.embedding.model_folder import find_model, prompts_of
from almanac.index.embedding.word_pieces import load_word_pieces
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DeclarationError

_BATCH = 1000


def count_tokens(embed: Embed, texts: Iterable[str]) -> int | None:
    """Returns the total number of tokens of `texts`, each with its prompt and before truncation; None where the local
    model has no tokenizer.json.

    For an API the number is an upper estimate, since its tokenizer is not available locally.
    """
    if embed.provider != "local":
        prompt = prompts_of(embed).document
        return sum(estimate_tokens(prompt + text) for text in texts)
    lengths = _lengths(embed, texts)
    return None if lengths is None else sum(lengths)


def count_truncated(embed: Embed, texts: Iterable[str]) -> int | None:
    """Returns how many texts the model truncates; None where its limit or tokenizer is unknown. 1,000 chunks of 600
    characters take 0.2 s.
    """
    limit = max_tokens(embed)
    lengths = None if limit is None else _lengths(embed, texts)
    return None if limit is None or lengths is None else sum(length > limit for length in lengths)


def count_truncated_chunks(
    embed: Embed, chunks: Batches, since: Batches | None = None, known: int | None = None
) -> int | None:
    """Returns how many chunks the model truncates; None where its limit or tokenizer is unknown.

    Args:
        embed: The declared embedder.
        chunks: Reads the chunks.
        since: Reads earlier chunks, whose count is `known`. Given both, only texts that differ between them are
            tokenised.
        known: Number of truncated chunks in `since`.
    """
    texts = _Texts(chunks)
    if since is None or known is None:
        return count_truncated(embed, texts.beyond(None))
    before = _Texts(since)
    added, gone = count_truncated(embed, texts.beyond(before)), count_truncated(embed, before.beyond(texts))
    return None if added is None or gone is None else known + added - gone


class _Texts:
    """The distinct texts of chunks, by key: how often each occurs, and in which row first."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        keys = digests_in(batch.column(0) for batch in batches(["text_sha256"]))
        self._keys, self._rows, self._counts = np.unique(keys, return_index=True, return_counts=True)

    def beyond(self, other: "_Texts | None") -> Iterator[str]:
        """Yields the embedded texts, each as often as it occurs here more than in the other chunks, in row order."""
        more = self._counts.copy()
        if other is not None:
            places = SortedDigests(other._keys).find(self._keys)
            more[places >= 0] -= other._counts[places[places >= 0]]
        chosen = np.flatnonzero(more > 0)
        chosen = chosen[np.argsort(self._rows[chosen])]
        for batch, places in read_rows(self._batches, ["embedded_text"], self._rows[chosen]):
            for text, count in zip(batch.column(0).to_pylist(), more[chosen[places]].tolist(), strict=True):
                yield from [text] * count


def max_tokens(embed: Embed) -> int | None:
    """Returns the model's input limit in tokens, special tokens and prompt included; None where it is unknown."""
    return find_model(embed).max_seq_length() if embed.provider == "local" else None


def token_spans(embed: Embed, text: str) -> list[tuple[int, int]]:
    """Returns the (start, end) character offsets of each token of a text, in order, without special tokens and white
    space.

    Raises DeclarationError where there is no tokenizer.
    """
    tokenizer = load_word_pieces(embed)
    if tokenizer is None:
        hint = "unit: characters, or words"
        raise DeclarationError(
            f"chunk.unit: tokens: the tokenizer of '{embed.model}' is not on this machine", where=embed.model, hint=hint
        )
    offsets = tokenizer.encode([text], with_marks=False)[0].offsets
    # SentencePiece has the space before a word as part of its first piece; nobody means it where a text is cut.
    spans = ((end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())) for start, end in offsets)
    return [(start, end) for start, end in spans if start < end]


def _lengths(embed: Embed, texts: Iterable[str]) -> Iterator[int] | None:
    tokenizer = load_word_pieces(embed)
    if tokenizer is None:
        return None
    prompted = map(prompts_of(embed).document.__add__, texts)
    batches = iter(lambda: list(islice(prompted, _BATCH)), [])
    return (len(encoding.ids) for batch in batches for encoding in tokenizer.encode(batch))
