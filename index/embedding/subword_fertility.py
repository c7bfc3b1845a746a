"""How well an embedder's vocabulary fits a content: into how many pieces it has to cut the words. No model is loaded."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from almanac.index.embedding.model_folder import find_model
from almanac.schemas.declaration.embed import Embed

_WORD = re.compile(r"\w+")


class Fertility(NamedTuple):
    """`pieces_per_word` is near 1 where words are known; `size` counts the pieces that there are."""

    pieces_per_word: float
    size: int


def subword_fertility(embed: Embed, texts: Sequence[str]) -> Fertility | None:
    """The fit over all words of `texts`; None where the embedder has no vocabulary here, or the texts no words."""
    if embed.provider != "local":
        return None
    path = find_model(embed).path / "tokenizer.json"
    words = [word for text in texts for word in _WORD.findall(text)]
    if not path.is_file() or not words:
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pieces = sum(len(found.ids) for found in tokenizer.encode_batch(words, add_special_tokens=False))
    return Fertility(pieces / len(words), tokenizer.get_vocab_size())
