"""Texts packed into requests: as many as a provider takes at once, by tokens and by inputs.

Mistral's tokenizer is not here, so tokens are estimated from above. Its vocabulary of 32,000 pieces falls back to single bytes: a text never has more
tokens than UTF-8 bytes, and what is no ASCII letter is counted so. A run of ASCII letters counts a third of its length, rounded up: "tarification"
is 4. Words of English, French and Vietnamese take fewer; random letters may take more, and then the server's refusal halves the request.
"""

import re
from collections.abc import Iterator, Sequence

MAX_TOKENS = 16_384  # "Too many tokens in batch. Max is 16384"
MAX_INPUTS = 128
_LETTERS = re.compile(r"[A-Za-z]+")
_BETWEEN_WORDS = re.compile(r"(?<=\S) (?=\S)")  # belongs to the word that follows
_MARKS = 2  # begin of text, and the space that is put before it


def estimate_tokens(text: str) -> int:
    """Tokens of a text, at most, as far as language is written in it."""
    letters = sum(-(-len(word) // 3) for word in _LETTERS.findall(text))
    rest = _BETWEEN_WORDS.sub("", _LETTERS.sub("a", text))
    words = rest.count("a")
    return _MARKS + letters + len(rest.encode("utf-8", "surrogatepass")) - words


def pack_requests(tokens: Sequence[int], *, max_tokens: int = MAX_TOKENS, max_inputs: int = MAX_INPUTS) -> Iterator[list[int]]:
    """Rows of each request, in order. A text that is too long for any request goes alone: what becomes of it is for the server to say."""
    request: list[int] = []
    total = 0
    for row, count in enumerate(tokens):
        if request and (total + count > max_tokens or len(request) == max_inputs):
            yield request
            request, total = [], 0
        request.append(row)
        total += count
    if request:
        yield request
