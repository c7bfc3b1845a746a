"""The sentences that replies are made of, in the languages of `wording.yaml`."""

from functools import cache
from pathlib import Path
from typing import Literal

from almanac.index.lexical.analyzer import primary_tag

Sentence = Literal["unknown", "fallback", "unknown_language", "matching_words", "other_embedder"]


def wording(sentence: Sentence, language: str | None) -> str:
    """A sentence in a language (a BCP 47 tag), else in English, to be formatted with what stands in braces."""
    known = _wordings()[sentence]
    return known.get(primary_tag(language or "en"), known["en"])


def languages_of(sentence: Sentence) -> frozenset[str]:
    """Tags of the languages that a sentence is there in."""
    return frozenset(_wordings()[sentence])


@cache
def _wordings() -> dict[str, dict[str, str]]:
    from ruamel.yaml import YAML  # the import takes 0.03 s

    text = Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8")
    return {name: dict(sentences) for name, sentences in YAML(typ="safe", pure=True).load(text).items()}
