"""How many tokens an embedder will read, without loading its model."""

from collections.abc import Iterable

from index.model_folder import find_model
from schemas.declaration import Embed

_BATCH = 1000


def count_tokens(embed: Embed, texts: Iterable[str]) -> int | None:
    """Tokens of all texts as the model's own tokenizer cuts them, without what the model cuts off; None where it has no such tokenizer."""
    path = find_model(embed).path / "tokenizer.json"
    if not path.is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    total, waiting = 0, []
    for text in texts:
        waiting.append(text)
        if len(waiting) == _BATCH:
            total += sum(len(found.ids) for found in tokenizer.encode_batch(waiting))
            waiting = []
    return total + sum(len(found.ids) for found in tokenizer.encode_batch(waiting))
