"""The reply where nothing answers a question: the declared words, else a sentence in the language of the question."""

import re

from almanac.index.lexical.analyzer import primary_tag
from almanac.query.retrieval.question_language import likeliest_languages
from almanac.schemas.declaration import Declaration

_WORDS = {
    "en": "I found no answer to this in {title}.",
    "ar": "لم أجد إجابة عن هذا في {title}.",
    "cs": "Na to jsem v {title} nenašel odpověď.",
    "da": "Jeg fandt intet svar på dette i {title}.",
    "de": "Darauf habe ich in {title} keine Antwort gefunden.",
    "el": "Δεν βρήκα απάντηση σε αυτό στο {title}.",
    "es": "No encontré respuesta a esto en {title}.",
    "fi": "En löytänyt tähän vastausta lähteestä {title}.",
    "fr": "Je n'ai pas trouvé de réponse à cette question dans {title}.",
    "he": "לא מצאתי תשובה לשאלה הזאת ב-{title}.",
    "hu": "Erre nem találtam választ itt: {title}.",
    "id": "Saya tidak menemukan jawabannya di {title}.",
    "it": "Non ho trovato una risposta a questa domanda in {title}.",
    "ja": "{title}には、この質問への答えが見つかりませんでした。",
    "ko": "{title}에서 이 질문에 대한 답을 찾지 못했습니다.",
    "nl": "Ik heb hierop geen antwoord gevonden in {title}.",
    "no": "Jeg fant ikke noe svar på dette i {title}.",
    "pl": "Nie znalazłem odpowiedzi na to pytanie w {title}.",
    "pt": "Não encontrei resposta a isto em {title}.",
    "ro": "Nu am găsit un răspuns la aceasta în {title}.",
    "ru": "Я не нашёл ответа на этот вопрос в {title}.",
    "sv": "Jag hittade inget svar på detta i {title}.",
    "tr": "Bunun yanıtını {title} içinde bulamadım.",
    "uk": "Я не знайшов відповіді на це запитання в {title}.",
    "vi": "Tôi không tìm thấy câu trả lời cho câu hỏi này trong {title}.",
    "zh": "我在{title}中没有找到这个问题的答案。",
}
_ALSO_CALLED = {"nb": "no", "nn": "no", "iw": "he"}
_RATHER = 0.25  # the likeliest language of "Wie teuer?" has .3, of "tour to bangkok" .19, and is a wrong one


_CODE = re.compile(r"\S*\d\S*")  # ALZ-7777 is of no language


def unknown_words(declaration: Declaration, question: str, language: str | None) -> str:
    """What is replied where nothing answers a question.

    Args:
        declaration: The declaration. Its `answer.unknown` is used as it stands.
        question: The question.
        language: BCP 47 tag of its language; None where it is not sure: then it is the declared one if that has all its
            words, else the likeliest one. Without words in it, the reply is English.
    """
    if declaration.answer.unknown is not None:
        return declaration.answer.unknown
    tag = _named(language or _likely(question, declaration.language))
    return _WORDS.get(tag, _WORDS["en"]).format(title=declaration.title or declaration.name)


def _likely(question: str, declared: str) -> str:
    """The likeliest language of a question that is too short to identify it surely; else the declared one."""
    usual = declared if _named(declared) in _WORDS else "en"
    ranked = likeliest_languages(_CODE.sub(" ", question))
    return ranked[0][0] if ranked and ranked[0][1] >= _RATHER and _named(ranked[0][0]) in _WORDS else usual


def _named(language: str) -> str:
    tag = primary_tag(language)
    return _ALSO_CALLED.get(tag, tag)
