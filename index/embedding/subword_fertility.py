"""How well an embedder's vocabulary fits a content: into how many pieces it has to cut the words. No model is loaded."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from almanac.index.embedding.tokenizer import load_tokenizer
from almanac.schemas.declaration.embed import Embed

_WORD = re.compile(r"\w+")


class Fertility(NamedTuple):
    """`pieces_per_word` is near 1 where words are known; `size` counts the pieces that there are."""

    pieces_per_word: float
    size: int


def subword_fertility(embed: Embed, texts: Sequence[str]) -> Fertility | None:
    """The fit over all words of `texts`; None where the embedder has no vocabulary here, or the texts no words."""
    tokenizer = load_tokenizer(embed)
    words = [word for text in texts for word in _WORD.findall(text)]
    if tokenizer is None or not words:
        return None
    pieces = sum(len(found.ids) for found in tokenizer.encode_batch(words, add_special_tokens=False))
    return Fertility(pieces / len(words), tokenizer.get_vocab_size())
