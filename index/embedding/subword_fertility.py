"""Subword fertility: how many pieces an embedder's tokenizer needs per word, a measure of how well its vocabulary fits a content. No model is loaded."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from almanac.index.embedding.tokenizer import load_tokenizer
from almanac.schemas.declaration.embed import Embed

_WORD = re.compile(r"\w+")


class Fertility(NamedTuple):
    """Subword fertility of a tokenizer on some texts."""

    pieces_per_word: float  # near 1 where the vocabulary contains the words
    size: int  # pieces in the vocabulary


def subword_fertility(embed: Embed, texts: Sequence[str]) -> Fertility | None:
    """Returns the fertility over all words of `texts`; None where the embedder's tokenizer is not available locally, or the texts contain no words."""
    tokenizer = load_tokenizer(embed)
    words = [word for text in texts for word in _WORD.findall(text)]
    if tokenizer is None or not words:
        return None
    pieces = sum(len(found.ids) for found in tokenizer.encode_batch(words, add_special_tokens=False))
    return Fertility(pieces / len(words), tokenizer.get_vocab_size())
