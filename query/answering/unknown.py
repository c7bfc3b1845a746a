"""The reply where nothing answers a question: the declared words, else a sentence in the language of the question."""

from almanac.query.answering.wording import languages_of, wording
from almanac.query.retrieval.question_language import likeliest_languages
from almanac.schemas.declaration import Declaration

_RATHER = 0.25  # the likeliest language of "Wie teuer?" has .3, of "tour to bangkok" .19, and is a wrong one
_BESIDES = 40  # letters of a reply besides the words for a refusal at which it may be one


def unknown_words(declaration: Declaration, question: str, language: str | None) -> str:
    """What is replied where nothing answers a question.

    Args:
        declaration: The declaration. Its `answer.unknown` is used as it stands.
        question: The question.
        language: BCP 47 tag of its language; None where it is not sure: then it is the likeliest one of several
            words, if that is likely, else the declared one. Without words in it, the reply is English.
    """
    if declaration.answer.unknown is not None:
        return declaration.answer.unknown
    words = [word for word in question.split() if not any(c.isdigit() for c in word)]  # ALZ-7777 is of no language
    ranked = likeliest_languages(" ".join(words))[:1] if not language and len(words) > 1 else []  # "plan" is of many
    likely = [tag for tag, probability in ranked if probability >= _RATHER and tag in languages_of("unknown")]
    tag = language or next(iter(likely), declaration.language)
    return wording("unknown", tag).format(title=declaration.title or declaration.name)


def says_unknown(reply: str, unknown: str, *, is_complete: bool) -> bool | None:
    """Whether a reply begins with the words for a refusal, after no more than some others; None while that is open.
    Letters and digits are compared.
    """
    said, words = _letters(reply), _letters(unknown)
    most = len(words) + _BESIDES
    return words in said[:most] if is_complete or len(said) >= most else None


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
