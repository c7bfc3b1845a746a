"""Subword fertility: how many pieces an embedder's tokenizer needs per word, a measure of how well its vocabulary fits a content. No model is loaded."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from almanac.index.embedding.tokenizer import load_tokenizer
from almanac.schemas.declaration.embed import Embed

_WORD = re.compile(r"\w+")
# Pieces per word with all-MiniLM-L6-v2, whose vocabulary is English: English 1.09 to 1.13 (XQuAD, Cranfield, five long texts, product documentation),
# French 1.6 to 1.7, Vietnamese 1.7, Spanish 1.8, German 2.6, Hebrew 4.7, Russian 8.9. Multilingual vocabularies have 100,000 pieces and more.
_KNOWN, _UNKNOWN = 1.25, 1.5
_MANY_LANGUAGES = 100_000


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


def language_fit(embed: Embed, texts: Sequence[str]) -> float:
    """How well the embedder covers the language of `texts`, 0 to 1, rounded to 6 decimals.

    Multilingual vocabularies and embedders without a readable vocabulary count as 1.
    """
    found = subword_fertility(embed, texts)
    if found is None or found.size >= _MANY_LANGUAGES:
        return 1.0
    return round(min(1.0, max(0.0, (_UNKNOWN - found.pieces_per_word) / (_UNKNOWN - _KNOWN))), 6)
