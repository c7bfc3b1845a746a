"""Subword fertility: how many pieces an embedder's tokenizer needs per word, a measure of how well its vocabulary fits
a content. No model is loaded.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.index.embedding.word_pieces import load_word_pieces

if TYPE_CHECKING:
    from almanac.schemas.declaration.embed_section import Embed

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_SPACELESS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]")
_CHARACTERS = 2  # of a word, about, in a script without spaces
# Pieces per word with all-MiniLM-L6-v2, whose vocabulary is English: English 1.09 to 1.13 (XQuAD, Cranfield, five long
# texts, product documentation), French 1.6 to 1.7, Vietnamese 1.7, Spanish 1.8, German 2.6, Hebrew 4.7, Russian 8.9.
_KNOWN, _UNKNOWN = 1.25, 1.5
# Vocabularies of 100,000 pieces and more are of many languages, which share them. With that of multilingual-e5-small,
# Vietnamese is at 1.1, English at 1.3, German at 1.5, Hebrew at 1.8, Finnish at 1.9, Tamil at 2.7. Scripts that it
# lacks (Coptic, Cherokee, Tifinagh, cuneiform) come out as unknown pieces.
_MANY_LANGUAGES = 100_000
_KNOWN_OF_MANY, _UNKNOWN_OF_MANY = 3.0, 5.0


COVERED = 0.5  # fit from which on an embedder is considered to cover a language


class Fertility(NamedTuple):
    """Subword fertility of a tokenizer on some texts."""

    pieces_per_word: float  # near 1 where the vocabulary contains the words
    # share, 0 to 1, of words with a piece that stands for anything unknown: the embedder cannot tell them apart
    unread: float
    size: int  # pieces in the vocabulary


def subword_fertility(embed: "Embed", texts: Sequence[str]) -> Fertility | None:
    """Returns the fertility over all words of `texts`; None where the embedder's tokenizer is not available locally, or
    the texts contain no words.

    In scripts without spaces, two characters count as a word.
    """
    tokenizer = load_word_pieces(embed)
    words = [word for text in texts for word in _WORD.findall(text)]
    if tokenizer is None or not words:
        return None
    encodings = tokenizer.encode(words, with_marks=False)
    counts = [max(1, len(word) // _CHARACTERS) if _SPACELESS.search(word) else 1 for word in words]
    unread = sum(count for encoding, count in zip(encodings, counts, strict=True) if tokenizer.has_unknown(encoding))
    return Fertility(sum(map(len, encodings)) / sum(counts), unread / sum(counts), tokenizer.size)


def language_fit(embed: "Embed", texts: Sequence[str]) -> float:
    """How well the embedder covers the language of `texts`, 0 to 1, rounded to 6 decimals: by the pieces per word,
    times the share of words that it can read.

    Embedders without a readable vocabulary count as 1.
    """
    fertility = subword_fertility(embed, texts)
    if fertility is None:
        return 1.0
    known, unknown = (_KNOWN_OF_MANY, _UNKNOWN_OF_MANY) if fertility.size >= _MANY_LANGUAGES else (_KNOWN, _UNKNOWN)
    fit = min(1.0, max(0.0, (unknown - fertility.pieces_per_word) / (unknown - known)))
    return round(fit * (1 - fertility.unread), 6)
