"""The reply where nothing answers a question: the declared words, else a sentence in the language of the question."""

from almanac.index.lexical.analyzer import primary_tag
from almanac.query.retrieval.question_language import likelier_language
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


def unknown_words(declaration: Declaration, question: str, language: str | None) -> str:
    """What is replied where nothing answers a question.

    Args:
        declaration: The declaration. Its `answer.unknown` is used as it stands.
        question: The question.
        language: BCP 47 tag of its language; None where it is not sure: then it is the likeliest. Without words in it, the reply is English.
    """
    if declaration.answer.unknown is not None:
        return declaration.answer.unknown
    tag = primary_tag(language or likelier_language(question, ("en", declaration.language), _WORDS) or "en")
    return _WORDS.get(_ALSO_CALLED.get(tag, tag), _WORDS["en"]).format(title=declaration.title or declaration.name)
