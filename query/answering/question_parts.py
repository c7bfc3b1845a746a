"""The parts of a question that asks for several things: its sentences, and what "and" joins in them."""

from functools import cache

import regex  # type: ignore[import-untyped]  # ships no types
from babel import Locale, UnknownLocaleError

from almanac.core.sentences import sentence_spans
from almanac.query.retrieval.question_language import question_language

_LEAST_WORDS = 3  # of a part: "bed and breakfast" is one thing
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def parts_of_question(question: str) -> list[str]:
    """The parts of a question, each of three words or more, in their order; empty where it has one alone.

    A part is only looked for beside the whole question, so that one that is none does little harm.
    """
    tag = question_language(question) or "en"
    joint = _joint(tag)
    parts = [
        part.strip()
        for start, end in sentence_spans(question, tag)
        for part in (joint.split(question[start:end]) if joint else [question[start:end]])
    ]
    parts = [part for part in parts if len(_WORD.findall(part)) >= _LEAST_WORDS]
    return parts if len(parts) > 1 else []


@cache
def _joint(tag: str) -> "regex.Pattern[str] | None":
    """What joins the last two members of a list in a language, as CLDR has it; None in one that CLDR does not know."""
    try:
        written = str(Locale.parse(tag).list_patterns["standard"]["2"]).replace("{0}", "").replace("{1}", "").strip()
    except (UnknownLocaleError, ValueError, KeyError):
        return None
    return (
        regex.compile(rf"[,،、，]?\s+{regex.escape(written)}\s+|[;；،、，]\s*", regex.IGNORECASE) if written else None
    )
