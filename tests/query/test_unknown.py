"""What is said where nothing answers a question: the declared words, or a sentence in the language of the question."""

from typing import Any

import pytest

from almanac.query.answering.wording import languages_of, says_unknown, unknown_words
from tests.query.answering import UNKNOWN, Says, ask, declared, make_hit


@pytest.mark.parametrize(
    ("question", "language", "reply"),
    [
        ("How do I bake sourdough bread at home?", "en", UNKNOWN),
        (
            "Comment faire du pain au levain à la maison ?",
            "en",
            "Je n'ai pas trouvé de réponse à cette question dans The rules.",
        ),
        ("Wie backe ich zu Hause ein Sauerteigbrot?", "en", "Darauf habe ich in The rules keine Antwort gefunden."),
        ("איך אופים לחם מחמצת בבית?", "en", "לא מצאתי תשובה לשאלה הזאת ב-The rules."),
        (
            "Làm thế nào để nướng bánh mì chua ở nhà?",
            "en",
            "Tôi không tìm thấy câu trả lời cho câu hỏi này trong The rules.",
        ),
        ("Bawo ni mo ṣe le ṣe akara ni ile mi loni?", "en", UNKNOWN),  # Yoruba
        # Spanish with a probability of .5
        ("¿En qué fecha murió Luis XIV?", "fr", "No encontré respuesta a esto en The rules."),
        ("tour to bangkok", "en", UNKNOWN),  # likeliest Lingala
        ("17 × 23", "fr", "Je n'ai pas trouvé de réponse à cette question dans The rules."),
        ("17 × 23", "auto", UNKNOWN),
        ("plan", "fr", "Je n'ai pas trouvé de réponse à cette question dans The rules."),  # a word of many languages
        ("vélo", "fr", "Je n'ai pas trouvé de réponse à cette question dans The rules."),  # a word tells little
        ("Rabatt", "de-AT", "Darauf habe ich in The rules keine Antwort gefunden."),
        ("opening hours", "fr", UNKNOWN),
        ("precio", "en", UNKNOWN),
        # a code is a word of no language
        ("¿Cuánto cuesta la ALZ-7777?", "auto", "No encontré respuesta a esto en The rules."),
        ("prix", "fr", "Je n'ai pas trouvé de réponse à cette question dans The rules."),  # too short to tell
    ],
)
def test_a_refusal_is_in_the_language_of_the_question(question: str, language: str, reply: str) -> None:
    answer = ask(question, [], declaration=declared(language=language))
    assert (answer.answered, answer.reply, answer.sources) == (False, reply, [])


def test_declared_words_are_said_as_they_stand() -> None:
    declaration = declared(answer={"unknown": "Ask at the desk. {title} says nothing."})
    assert (
        ask("Comment faire du pain au levain ?", [], declaration=declaration).reply
        == "Ask at the desk. {title} says nothing."
    )


@pytest.mark.parametrize("mode", ["kb-only", "kb-llm"])
@pytest.mark.parametrize("is_confident", [True, False])
def test_a_model_refuses_in_the_declared_words_whatever_they_say(mode: str, is_confident: bool) -> None:
    words = "Call the desk at extension 4400. Somebody is there until six."
    model = Says(words)
    given: dict[str, Any] = {
        "declaration": declared(answer={"unknown": words}, generate={"provider": "mistral"}),
        "generator": model,
        "mode": mode,
    }
    answer = ask("hours?", [make_hit(1, "Fourteen days.", 0.95 if is_confident else 0.2)], **given)
    assert (answer.answered, answer.reply, answer.sources) == (False, words, [])
    assert words in model.asked[0]["content"]


@pytest.mark.parametrize("tag", sorted(languages_of("unknown")))
def test_default_words_are_taken_for_a_refusal_where_a_model_writes_them(tag: str) -> None:
    words = unknown_words(declared(title="Rules"), "", tag)
    assert "Rules" in words
    assert says_unknown(f"**{words}** Sorry.", words, is_complete=True)
