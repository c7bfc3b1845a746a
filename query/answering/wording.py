"""The language of a reply, and the sentences that Almanac itself writes in it, from `wording.yaml`: refusals, the
notice of a reply without documents, and the note on a language that the embedder does not know.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from babel import Locale, UnknownLocaleError

from almanac.index.embedding.subword_fertility import COVERED
from almanac.index.lexical.analyzer import primary_tag
from almanac.query.retrieval.question_language import QuestionLanguage, likeliest_languages, question_language
from almanac.query.retrieval.request import SearchMode
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import UsageError

MULTILINGUAL = "multilingual-e5-small-q4"
_RATHER = 0.25  # the likeliest language of "Wie teuer?" has .3, of "tour to bangkok" .19, and is a wrong one
_BESIDES = 40  # letters of a reply besides the words for a refusal at which it may be one
_Sentence = Literal["unknown", "fallback", "unknown_language", "matching_words", "other_embedder"]


def reply_language(question: str, history: Sequence[Mapping[str, str]], requested: str | None) -> str | None:
    """Tag of the language that a reply is written in; None leaves it to the model.

    `requested` if the caller names a language; else that of the question; else, for "2?" and the like, that of the last
    message of the user in `history` (oldest first) whose language can be identified.
    """
    if requested is not None:
        return requested
    texts = [question, *(message.get("content", "") for message in reversed(history) if message.get("role") == "user")]
    return next((language for text in texts if isinstance(text, str) and (language := question_language(text))), None)


def require_language(language: str | None) -> None:
    """Raises UsageError for what is not the tag of a known language; None leaves the language to the question."""
    try:
        if language is not None:
            Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError, TypeError):
        raise UsageError(
            f"there is no language '{language}'", where="language", hint="a BCP 47 tag, such as en, he or pt-BR"
        ) from None


def language_name(tag: str, reader: str = "en") -> str:
    """Name of a language in the reader's; the tag where there is none."""
    try:
        return Locale.parse(tag, sep="-").get_display_name(reader) or tag
    except (UnknownLocaleError, ValueError):
        return tag


def unknown_words(declaration: Declaration, question: str, language: str | None) -> str:
    """What is replied where nothing answers a question: `answer.unknown` as it stands, else words in the question's
    language, without such in English.

    `language` is its BCP 47 tag; None where it is not sure: then it is the likeliest one of several words, if that is
    likely, else the declared one.
    """
    if declaration.answer.unknown is not None:
        return declaration.answer.unknown
    words = [word for word in question.split() if not any(c.isdigit() for c in word)]  # ALZ-7777 is of no language
    ranked = likeliest_languages(" ".join(words))[:1] if not language and len(words) > 1 else []  # "plan" is of many
    likely = [tag for tag, probability in ranked if probability >= _RATHER and tag in languages_of("unknown")]
    tag = language or next(iter(likely), declaration.language)
    return _wording("unknown", tag).format(title=declaration.title or declaration.name)


def says_unknown(reply: str, unknown: str, *, is_complete: bool) -> bool | None:
    """Whether a reply begins with the words for a refusal, after no more than some others; None while that is open.
    Letters and digits are compared.
    """
    letters, words = ("".join(c for c in text.casefold() if c.isalnum()) for text in (reply, unknown))
    most = len(words) + _BESIDES
    return words in letters[:most] if is_complete or len(letters) >= most else None


def fallback_notice(title: str, language: str | None) -> str:
    """Notice that a reply does not come from the documents, in the language of the question where there is a
    translation, else in English.
    """
    return _wording("fallback", language).format(title=title)


def note_on_language(language: QuestionLanguage, model: str, mode: SearchMode) -> str | None:
    """Note that the embedder, by its name or folder, hardly knows the language of a question; None where it knows it,
    where the language cannot be told, and in mode `lexical`.
    """
    if language.tag is None or language.known >= COVERED or mode == "lexical":
        return None
    name = Path(model).name
    sentences: list[_Sentence] = ["unknown_language"]
    sentences += ["matching_words"] if mode == "hybrid" else []
    sentences += ["other_embedder"] if name != MULTILINGUAL else []
    reader = language.tag if language.tag in languages_of("unknown_language") else "en"
    note = " ".join(_wording(sentence, reader) for sentence in sentences)
    return note.format(model=name, language=language_name(language.tag, reader), other=MULTILINGUAL)


def languages_of(sentence: _Sentence) -> frozenset[str]:
    """Tags of the languages that a sentence is there in."""
    return frozenset(_wordings()[sentence])


def _wording(sentence: _Sentence, language: str | None) -> str:
    """A sentence in a language (a BCP 47 tag), else in English, to be formatted with what stands in braces."""
    known = _wordings()[sentence]
    return known.get(primary_tag(language or "en"), known["en"])


@cache
def _wordings() -> dict[str, dict[str, str]]:
    from ruamel.yaml import YAML  # the import takes 0.03 s

    text = Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8")
    return {name: dict(sentences) for name, sentences in YAML(typ="safe", pure=True).load(text).items()}
