"""Sentences of a text as hashes, by which texts of many pages are compared."""

import re

from almanac.transforms.html.letters import hash_of, letters

_END = re.compile(r"(?<=[.!?…؟।])\s+|(?<=[。！？｡])|\n+")
_EXCERPT = ("…", "...", "…]", "...]", "…)", "...)")


def sentences_of(text: str) -> dict[int, int]:
    """Hash of each sentence of a text → its characters, in order. Only letters and digits decide which sentences are
    the same.

    Sentences rather than blocks, so that a date or a counter does not make a long paragraph one that stands nowhere
    else. What ends in an ellipsis is an excerpt of another page, and left out.
    """
    sentences: dict[int, int] = {}
    for part in _END.split(text):
        if not part.endswith(_EXCERPT) and (sentence := letters(part)):
            sentences[hash_of(sentence)] = len(part)
    return sentences
