"""Packs texts into requests that stay within the provider's limits on tokens and inputs.

Mistral's tokenizer is not available locally, so token counts are upper estimates. Its vocabulary of 32,000 pieces falls
back to single bytes: a text never has more tokens than UTF-8 bytes, and every character that is not an ASCII letter is
counted by its bytes. A run of ASCII letters counts a third of its length, rounded up: "tarification" is 4. Words of
English, French and Vietnamese take fewer tokens; random letters may take more, in which case the server refuses the
request and it is halved.
"""

import re
from collections.abc import Iterator, Sequence

MAX_TOKENS = 16_384  # per request; the API's error message: "Too many tokens in batch. Max is 16384"
MAX_INPUTS = 128
_LETTERS = re.compile(r"[A-Za-z]+")
_BETWEEN_WORDS = re.compile(r"(?<=\S) (?=\S)")  # a single space is part of the token of the word that follows
_MARKS = 2  # tokens that the tokenizer adds: begin of text, and the space put before it


def estimate_tokens(text: str) -> int:
    """Estimates the number of tokens of a text: an upper bound for text in natural language."""
    letters = sum(-(-len(word) // 3) for word in _LETTERS.findall(text))
    rest = _BETWEEN_WORDS.sub("", _LETTERS.sub("a", text))
    words = rest.count("a")
    return _MARKS + letters + len(rest.encode("utf-8", "surrogatepass")) - words


def pack_requests(
    tokens: Sequence[int], *, max_tokens: int = MAX_TOKENS, max_inputs: int = MAX_INPUTS
) -> Iterator[list[int]]:
    """Yields the row numbers of each request, in order.

    A text with more than `max_tokens` gets a request of its own: whether it is accepted is left to the server.

    Args:
        tokens: Token count of each text.
        max_tokens: Tokens per request, at most.
        max_inputs: Texts per request, at most.
    """
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
