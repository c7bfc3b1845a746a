"""Counts tokens, and texts that an embedder truncates, without loading its model."""

from collections import Counter
from collections.abc import Iterable, Iterator

from almanac.core.tables import Batches
from almanac.index.embedding.model_folder import find_model, prompts_of
from almanac.index.embedding.tokenizer import load_tokenizer
from almanac.index.mistral.batching import estimate_tokens
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import DeclarationError

_BATCH = 1000


def count_tokens(embed: Embed, texts: Iterable[str]) -> int | None:
    """Returns the total number of tokens of `texts`, each with its prompt and before truncation; None where the local model has no tokenizer.json.

    For an API the number is an upper estimate, since its tokenizer is not available locally.
    """
    if embed.provider == "mistral":
        prompt = prompts_of(embed).document
        return sum(estimate_tokens(prompt + text) for text in texts)
    lengths = _lengths(embed, texts)
    return None if lengths is None else sum(lengths)


def count_truncated(embed: Embed, texts: Iterable[str]) -> int | None:
    """Returns how many texts the model truncates; None where its limit or tokenizer is unknown. 1,000 chunks of 600 characters take 0.2 s."""
    limit = max_tokens(embed)
    lengths = None if limit is None else _lengths(embed, texts)
    return None if limit is None or lengths is None else sum(length > limit for length in lengths)


def count_truncated_chunks(embed: Embed, chunks: Batches, since: Batches | None = None, known: int | None = None) -> int | None:
    """Returns how many chunks of a table the model truncates; None where its limit or tokenizer is unknown.

    Args:
        embed: The declared embedder.
        chunks: Reads the chunks table.
        since: Reads an earlier chunks table, whose count is `known`. Given both, only texts that differ between the tables are tokenised.
        known: Number of truncated chunks in `since`.
    """
    keys = _keys(chunks)
    if since is None or known is None:
        return count_truncated(embed, _texts(chunks, keys))
    before = _keys(since)
    added, gone = count_truncated(embed, _texts(chunks, keys - before)), count_truncated(embed, _texts(since, before - keys))
    return None if added is None or gone is None else known + added - gone


def max_tokens(embed: Embed) -> int | None:
    """Returns the model's input limit in tokens, special tokens and prompt included; None where it is unknown."""
    return find_model(embed).max_seq_length() if embed.provider == "local" else None


def token_spans(embed: Embed, text: str) -> list[tuple[int, int]]:
    """Returns the (start, end) character offsets of each token of a text, in order, without special tokens and white space.

    Raises DeclarationError where there is no tokenizer.
    """
    tokenizer = load_tokenizer(embed)
    if tokenizer is None:
        hint = "unit: characters, or words"
        raise DeclarationError(f"chunk.unit: tokens: the tokenizer of '{embed.model}' is not on this machine", where=embed.model, hint=hint)
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    # SentencePiece has the space before a word as part of its first piece; nobody means it where a text is cut.
    spans = ((end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())) for start, end in offsets)
    return [(start, end) for start, end in spans if start < end]


def _lengths(embed: Embed, texts: Iterable[str]) -> Iterator[int] | None:
    tokenizer = load_tokenizer(embed)
    if tokenizer is None:
        return None
    prompt = prompts_of(embed).document
    return (len(found.ids) for batch in _batches(prompt + text for text in texts) for found in tokenizer.encode_batch_fast(batch))


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    waiting: list[str] = []
    for text in texts:
        waiting.append(text)
        if len(waiting) == _BATCH:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _keys(chunks: Batches) -> Counter[str]:
    return Counter(key for batch in chunks(["text_sha256"]) for key in batch.column(0).to_pylist())


def _texts(chunks: Batches, keys: Counter[str]) -> Iterator[str]:
    """Yields the embedded text of each key, repeated by its count."""
    left = set(keys)
    for batch in chunks(["text_sha256", "embedded_text"]) if left else ():
        for key, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if key in left:
                left.remove(key)
                yield from [text] * keys[key]
