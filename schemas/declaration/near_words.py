"""Finds the word that may have been meant by one that is written wrongly."""

from collections.abc import Iterable
from difflib import SequenceMatcher

_SAME = 0.85  # however long: `ignore_params` for `ignore_parameters`
# of about the same length and beginning: `nmae`. `javascript` and `script` are at 0.75, `text` and `next`, too
_ALIKE = 0.7


def nearest(written: str, known: Iterable[str]) -> str | None:
    """Returns the one of `known` that `written` is a slip of, another notation of (`startUrls` for `start_urls`) or a
    word of (`urls`); else None.
    """
    words = list(known)
    best = max(words, key=lambda word: _likeness(written, word), default=None)
    if best is not None and _likeness(written, best):
        return best
    holding = [word for word in words if written.lower() in word.lower().split("_")]
    return holding[0] if len(holding) == 1 and len(written) > 2 else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean X` if a name is close, else an empty text."""
    close = nearest(name, names)
    return f"; did you mean {close}" if close else ""


def _likeness(written: str, word: str) -> float:
    """0 for words that are not near, else how alike they are, up to 1."""
    bare_written, bare_word = _bare(written), _bare(word)
    ratio = SequenceMatcher(None, bare_written, bare_word).ratio()
    is_slip = bare_written[:1] == bare_word[:1] and abs(len(bare_written) - len(bare_word)) <= 2 and ratio >= _ALIKE
    return ratio if is_slip or ratio >= _SAME else 0.0


def _bare(word: str) -> str:
    return "".join(character for character in word.casefold() if character not in "_- ")
