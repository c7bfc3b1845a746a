"""Names with a number, such as Heron 2: another number makes another thing of it, which an embedder hardly sees."""

from collections.abc import Sequence

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.query.answering.figure_words import units
from almanac.schemas.results import Hit

_NUMBERED = regex.compile(r"(?<![\p{L}\p{M}\p{N}])(\p{L}[\p{L}\p{M}]{2,})\s(\d{1,4})(?![\p{L}\p{N}]|[.,:/-]\d)(?:\s([\p{L}\p{M}]+))?")
_NUMBERS = regex.compile(r"\d+")
Named = set[tuple[str, str]]  # word, casefolded, and the number behind it: ("heron", "2")


def without_other_numbers(question: str, hits: Sequence[Hit]) -> Sequence[Hit]:
    """The hits without the records of other things of the same name: where Heron 2 is asked for, those whose title has Heron 4 and no number of the question.

    None where these come first, and no hit has the Heron 2.
    """
    named = _numbered_in(question)
    if not named:
        return hits
    words, numbers = {word for word, _ in named}, set(_NUMBERS.findall(question))
    titled = [{number for word, number in _names_in(hit.title) if word in words} if hit.passage is not None else set() for hit in hits]
    left = [hit for hit, own in zip(hits, titled, strict=True) if not own or own & numbers]
    is_there = left[:1] == list(hits[:1]) or any(named & _numbered_in(f"{hit.title} {hit.readable}") for hit in left)
    return left if is_there else []


def _numbered_in(text: str) -> Named:
    """The words of a text that have a number behind them, unless it counts or measures something: "for 3 nights"."""
    return {(word.casefold(), number) for word, number, behind in _NUMBERED.findall(text) if behind.casefold() not in units()}


def _names_in(title: str) -> Named:
    """Those of a title that may be a name: in "Room for 2", nothing is."""
    names = {word.casefold() for word, *_ in _NUMBERED.findall(title) if not word.islower()}
    return {(word, number) for word, number in _numbered_in(title) if word in names}
