"""What a reader should know of a reply: that the embedder does not know the language of the question, or that a part of
the question has no answer.
"""

from collections.abc import Sequence
from pathlib import Path

from babel import Locale, UnknownLocaleError

from almanac.index.embedding.subword_fertility import COVERED
from almanac.index.lexical.analyzer import primary_tag
from almanac.query.retrieval.question_language import QuestionLanguage
from almanac.query.retrieval.request import SearchMode

MULTILINGUAL = "multilingual-e5-small-q4"

# What is the case, what follows where words are searched for, and what would help. In the language of the question
# where it is one of these, else in English.
_NOTES = {
    "en": (
        "The embedder {model} hardly knows {language}.",
        "What was found rests almost only on matching words.",
        "{other} is made for some hundred languages (embed.model).",
    ),
    "fr": (
        "Le modèle de plongement {model} connaît à peine cette langue ({language}).",
        "Ce qui a été trouvé repose presque uniquement sur des mots identiques.",
        "{other} est fait pour une centaine de langues (embed.model).",
    ),
    "vi": (
        "Mô hình nhúng {model} hầu như không biết ngôn ngữ này ({language}).",
        "Kết quả hầu như chỉ dựa vào các từ trùng khớp.",
        "{other} được làm cho khoảng một trăm ngôn ngữ (embed.model).",
    ),
    "he": (
        "מודל ההטמעה {model} כמעט אינו מכיר את השפה הזאת ({language}).",
        "מה שנמצא מבוסס כמעט רק על מילים תואמות.",
        "{other} נועד לכמאה שפות (embed.model).",
    ),
    "es": (
        "El modelo de incrustación {model} apenas conoce este idioma ({language}).",
        "Lo encontrado se basa casi solo en palabras que coinciden.",
        "{other} está hecho para un centenar de idiomas (embed.model).",
    ),
    "de": (
        "Das Einbettungsmodell {model} kennt diese Sprache ({language}) kaum.",
        "Was gefunden wurde, beruht fast nur auf gleichen Wörtern.",
        "{other} ist für rund hundert Sprachen gemacht (embed.model).",
    ),
}

# That a part of a question has no answer, in its words. In the language of the question where it is one of these, else
# in English.
_MISSING = {
    "en": "Not found: “{parts}”",
    "fr": "Sans réponse trouvée : « {parts} »",
    "es": "Sin respuesta encontrada: «{parts}»",
    "de": "Keine Antwort gefunden auf: „{parts}“",
    "it": "Senza risposta trovata: «{parts}»",
    "pt": "Sem resposta encontrada: «{parts}»",
    "nl": "Geen antwoord gevonden op: ‘{parts}’",
    "he": "לא נמצאה תשובה על: ״{parts}״",
    "vi": "Không tìm thấy câu trả lời cho: “{parts}”",
    "ru": "Не найден ответ на: «{parts}»",
    "ar": "لم يُعثر على إجابة عن: «{parts}»",
    "zh": "未找到答案：“{parts}”",
    "ja": "回答が見つかりません：「{parts}」",
}


def note_on_missing(parts: Sequence[str], language: str | None) -> str:
    """Clause of a reply that names the parts of a question without an answer, in its words; empty without any.
    `language` is the tag of the reply's.
    """
    tag = primary_tag(language or "en")
    return _MISSING.get(tag, _MISSING["en"]).format(parts="; ".join(parts)) if parts else ""


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
    reader = asked.tag if asked.tag in _NOTES else "en"
    fact, consequence, remedy = _NOTES[reader]
    name = Path(model).name
    parts = [fact, *([consequence] if mode == "hybrid" else []), *([remedy] if name != MULTILINGUAL else [])]
    return " ".join(parts).format(model=name, language=_name(asked.tag, reader), other=MULTILINGUAL)


def _name(tag: str, reader: str) -> str:
    """Name of a language in the reader's; the tag where there is none."""
    try:
        return Locale.parse(tag).get_display_name(reader) or tag
    except (UnknownLocaleError, ValueError):
        return tag
