"""How many tokens an embedder will read, and of how many texts it reads only the beginning, without loading its model."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from almanac.core.tables import read_batches, read_texts
from almanac.index.embedding.model_folder import find_model, prompts_of
from almanac.index.embedding.tokenizer import load_tokenizer
from almanac.index.mistral.batching import estimate_tokens
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import DeclarationError

_BATCH = 1000


def count_tokens(embed: Embed, texts: Iterable[str]) -> int | None:
    """Tokens of all texts as the model's own tokenizer cuts them, each with its prompt, whatever the model cuts off; None where it has no such tokenizer.

    Those of an API are estimated, from above: its tokenizer is not here.
    """
    if embed.provider == "mistral":
        prompt = prompts_of(embed).document
        return sum(estimate_tokens(prompt + text) for text in texts)
    lengths = _lengths(embed, texts)
    return None if lengths is None else sum(lengths)


def count_truncated(embed: Embed, texts: Iterable[str]) -> int | None:
    """Texts of which the model reads only the beginning; None where its limit or its tokenizer is not known. 1,000 chunks of 600 characters take .2 s."""
    limit = max_tokens(embed)
    lengths = None if limit is None else _lengths(embed, texts)
    return None if limit is None or lengths is None else sum(length > limit for length in lengths)


def count_truncated_chunks(embed: Embed, chunks: Path, since: Path | None = None, known: int | None = None) -> int | None:
    """The same for a table of chunks. Where `known` is how many another table `since` has, only texts are looked at by which the two differ."""
    keys = _keys(chunks)
    if since is None or known is None:
        return count_truncated(embed, _texts(chunks, keys))
    before = _keys(since)
    added, gone = count_truncated(embed, _texts(chunks, keys - before)), count_truncated(embed, _texts(since, before - keys))
    return None if added is None or gone is None else known + added - gone


def max_tokens(embed: Embed) -> int | None:
    """Tokens that the model reads of a text, its own marks and the prompt among them; None where that is not known."""
    return find_model(embed).max_seq_length() if embed.provider == "local" else None


def token_spans(embed: Embed, text: str) -> list[tuple[int, int]]:
    """The characters of each token of a text, in order, without the marks that a model adds. DeclarationError where the tokenizer is not at hand."""
    tokenizer = load_tokenizer(embed)
    if tokenizer is None:
        hint = "unit: characters, or words"
        raise DeclarationError(f"chunk.unit: tokens: the tokenizer of '{embed.model}' does not lie on this machine", where=embed.model, hint=hint)
    return [(start, end) for start, end in tokenizer.encode(text, add_special_tokens=False).offsets if start < end]


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


def _keys(chunks: Path) -> Counter[str]:
    return Counter(key for batch in read_batches(chunks, ["text_sha256"], rows=10_000) for key in batch.column(0).to_pylist())


def _texts(chunks: Path, keys: Counter[str]) -> Iterator[str]:
    """The embedded text of each key, as often as it is counted."""
    for key, text in read_texts(chunks, keys):
        yield from [text] * keys[key]
