"""What a reader should know of a reply: that the embedder does not know the language of the question."""

from pathlib import Path

from babel import Locale, UnknownLocaleError

from almanac.index.embedding.subword_fertility import COVERED
from almanac.query.answering.wording import Sentence, languages_of, wording
from almanac.query.retrieval.question_language import QuestionLanguage
from almanac.query.retrieval.request import SearchMode

MULTILINGUAL = "multilingual-e5-small-q4"


def note_on_language(asked: QuestionLanguage, model: str, mode: SearchMode) -> str | None:
    """Note that the embedder hardly knows the language of a question; None where it knows it, where the language cannot
    be told, and in mode `lexical`.

    Args:
        asked: The language of the question, and how well the embedder covers it.
        model: Name of the embedder's model, or its folder.
        mode: Retrievers of the search.
    """
    if asked.tag is None or asked.known >= COVERED or mode == "lexical":
        return None
    name = Path(model).name
    said: list[Sentence] = ["unknown_language"]
    said += ["matching_words"] if mode == "hybrid" else []
    said += ["other_embedder"] if name != MULTILINGUAL else []
    reader = asked.tag if asked.tag in languages_of("unknown_language") else "en"
    note = " ".join(wording(sentence, reader) for sentence in said)
    return note.format(model=name, language=_name(asked.tag, reader), other=MULTILINGUAL)


def _name(tag: str, reader: str) -> str:
    """Name of a language in the reader's; the tag where there is none."""
    try:
        return Locale.parse(tag).get_display_name(reader) or tag
    except (UnknownLocaleError, ValueError):
        return tag
