"""Follow-up questions: whether a question continues what was asked before, and the text to search for then.

A question leans on earlier ones by its form ("And on Sundays?", "How much does it cost?", "Tell me more"), or may do so
without showing it ("How wide is the strap?"). What the texts know decides: both the question alone and together with
the earlier ones are searched, and relevance is compared.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.index.lexical.analyzer import fold
from almanac.query.retrieval.follow_up_words import connective, languages_with_lists, pronoun, request_for_more
from almanac.query.retrieval.question_language import likeliest_language, question_language
from almanac.query.retrieval.word_frequencies import word_frequencies

Form = Literal["more", "leaning", "open", "whole"]

_BACK = 3  # earlier questions of a chain, at most
_LONGEST = 300  # characters of an earlier question that are searched for
_USUAL = 4e-4  # frequency from which on a word names no subject: English "take", "does", French "combien"
_SHORT = 3  # words of a question that is one only after another: "Which floor?", "Dans quel pays ?"
# the same for a syllable of Vietnamese, where most are part of many words; two of them are counted as one word
_USUAL_SYLLABLE = 2e-3
_FEW = 2  # words with a meaning of their own, up to which a question that shows a sign names no subject
_WHOLE = 4  # such words from which on a question without any sign stands by itself
# Relevance with the earlier question less that of the question alone, medians with multilingual-e5: of 45 follow-ups in
# six languages .75, of 16 new subjects -.31, of 359 questions after any other one -.11. The limits were chosen on these
# and on 20 over the examples (decision 0034).
_SURE = 0.7  # relevance from which on a question that shows no sign is answered alone
_DOUBTFUL = 0.4  # relevance below which nothing is found that is of use

# A question of a quantity for somebody or something, of which a word says no more: "How much for a child?"
_ELLIPTIC = regex.compile(
    r"(?:how (?:much|many|long|often) for|combien pour|quel (?:prix|tarif) pour|wie ?viel (?:für|kostet es "
    r"für)|cu[aá]nto (?:es |cuesta )?(?:para|por)"
    r"|quanto per|quanto (?:[eé] )?(?:para|por)|hoeveel voor|bao nhiêu cho|сколько (?:для|за))(?!\w)|כמה "
    r"(?:זה )?ל(?=\p{L})",
    regex.IGNORECASE,
)
_ENDS = ".?!…。？！؟"
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:['’.-][\p{L}\p{M}\p{N}]+)*")
_SPACELESS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


class Leaning(NamedTuple):
    """How a question leans on earlier ones.

    `form`: `more` asks for more of the same; `leaning` shows that it continues, and names little, or names nothing;
    `open` may continue; `whole` says all by itself. `words` counts its words with a meaning of their own.
    """

    form: Form
    words: int


class Found(NamedTuple):
    """What searches found for a question.

    `alone` and `together` are the relevance, 0 to 1, of the best hit for the question alone and together with the
    earlier ones, each judged by its own text. `fits` is whether the best hit of both together is also one for the
    question alone, or has as many of its words: then the earlier questions only tell which is meant, else they are
    about something else.
    """

    alone: float
    together: float
    fits: bool


def earlier_questions(history: Sequence[Mapping[str, str]]) -> list[str]:
    """The questions of the user that a follow-up continues, oldest first: the last one and, as far as it leans itself,
    those before it; three at most.

    `history` has the earlier messages, oldest first: {role, content}. Other messages, and those without text, are
    passed over.
    """
    asked = [
        text
        for one in history
        if one.get("role") == "user"
        and isinstance(content := one.get("content"), str)
        and (text := " ".join(content.split()))
    ]
    found: list[str] = []
    for number in range(len(asked) - 1, -1, -1):
        if (leaning := leaning_of(asked[number], asked[number - 1] if number else "")).form != "more" or not number:
            found.append(asked[number][:_LONGEST])
        if leaning.form not in ("more", "leaning") or len(found) == _BACK:
            break
    return found[::-1]


def continued(question: str, earlier: Sequence[str]) -> str:
    """The text to search for: the earlier questions, then the question; without it, where it only asks for more."""
    texts = [*earlier] if leaning_of(question, earlier[-1] if earlier else "").form == "more" else [*earlier, question]
    return " ".join([*(text if text[-1:] in _ENDS else f"{text}?" for text in texts[:-1]), texts[-1]])


def with_context(question: str, earlier: Sequence[str]) -> str:
    """The text to pick sentences for: the question, which says what is wanted, then the earlier ones in brackets, which
    say of what.
    """
    context = " ".join(text.rstrip(_ENDS + " ") for text in earlier)
    return f"{question} ({context})" if context else question


def leaning_of(question: str, before: str) -> Leaning:
    """How a question leans on the one before it, judged by its words alone. Lists of words are those of both questions'
    languages.
    """
    tags = _languages(question, before)
    plain = unicodedata.normalize("NFC", question.replace("’", "'")).strip()
    for tag in tags:
        if (
            (more := request_for_more(tag))
            and (match := more.match(plain))
            and not _naming(_without_pronouns(plain[match.end() :], tags), tags)
        ):
            return Leaning("more", 0)
    rest = plain
    leans = False
    for tag in tags:
        if (pattern := connective(tag)) and (match := pattern.match(rest)):
            rest, leans = rest[match.end() :], True
    bare = _without_pronouns(rest, tags)
    leans = leans or _ELLIPTIC.match(rest.lstrip("¿¡ ")) is not None or bare != rest or _is_joined_and(plain, tags)
    words = len(_naming(bare, tags))
    is_short = words <= 1 and len(_WORD.findall(plain)) <= _SHORT
    if words <= (_FEW if leans else 0) or is_short:
        return Leaning("leaning", words)
    return Leaning("open" if words < _WHOLE else "whole", words)


def continues(leaning: Leaning, found: "Found | None") -> bool:
    """Whether a question is searched for together with the earlier ones. `found` is what the searches say; None where
    relevance is not known.
    """
    if leaning.form in ("more", "whole"):
        return leaning.form == "more"
    if found is None:
        return leaning.form == "leaning"
    if leaning.form == "leaning":
        return found.together > found.alone or found.alone < _DOUBTFUL
    return max(found.alone, _DOUBTFUL) < found.together and found.alone < _SURE and found.fits


def _languages(question: str, before: str) -> list[str]:
    """The languages whose words apply: those of the question and of the one before it; where neither can be told, the
    likeliest of both together.
    """
    both = f"{before} {question}"
    sure = [tag for tag in dict.fromkeys(question_language(text) for text in (question, before, both)) if tag]
    return languages_with_lists(sure or [tag for tag in [likeliest_language(both)] if tag])


def _without_pronouns(text: str, tags: Sequence[str]) -> str:
    for tag in tags:
        if pattern := pronoun(tag):
            text = pattern.sub(" ", text)
    return text


def _is_joined_and(question: str, tags: Sequence[str]) -> bool:
    """Whether the first word is one that Hebrew or Arabic have joined to their "and", which no word of theirs begins
    with by itself.
    """
    first = _WORD.search(question)
    if first is None or not {"he", "ar"} & set(tags) or first[0][0] not in "וو" or len(first[0]) < 3:
        return False
    return any(_frequency(first[0][1:], tag) > _frequency(first[0], tag) for tag in tags if tag in ("he", "ar"))


def _naming(text: str, tags: Sequence[str]) -> list[str]:
    """Words that name something: figures, and words that are not frequent in any text of the languages. In scripts
    without spaces, two characters are one.
    """
    found: list[str] = []
    syllables = (
        [word for word in _WORD.findall(text) if _frequency(word, "vi") < _USUAL_SYLLABLE] if "vi" in tags else None
    )
    if syllables is not None:
        return syllables[::2]
    for word in _WORD.findall(text):
        if _SPACELESS.search(word):
            found += [
                word[at : at + 2]
                for at in range(0, len(word) - 1, 2)
                if max(_frequency(word[at : at + 2], tag) for tag in tags) < _USUAL
            ]
        elif any(c.isdigit() for c in word) or not _is_usual(word, tags):
            found.append(word)
    return found


def _is_usual(word: str, tags: Sequence[str]) -> bool:
    """Whether a word, or what follows its apostrophe, is frequent in any text of one of the languages, also typed
    without diacritics.
    """
    parts = {word, word.rpartition("'")[2]}
    return any(_frequency(spelt, tag) >= _USUAL for tag in tags for part in parts for spelt in (part, fold(part)))


def _frequency(word: str, tag: str) -> float:
    return word_frequencies(tag).get(word.casefold(), 0.0)
