"""How frequent words are in a language in general."""

from collections.abc import Mapping
from functools import cache


@cache
def word_frequencies(tag: str) -> Mapping[str, float]:
    """Frequencies of words in small letters, as shares of all words; empty for a language without a word list.

    `tag` is a primary BCP 47 tag. The first call for a language reads a package file, in 40 ms at most.
    """
    from wordfreq import available_languages, get_frequency_dict  # the import takes 0.3 s

    tag = "nb" if tag == "no" else tag
    return get_frequency_dict(tag, "small") if tag in available_languages("small") else {}
