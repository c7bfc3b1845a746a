"""Whether a question continues the ones before it, and what is searched for then."""

import pytest

from almanac.query.retrieval.follow_up import (
    Found,
    Leaning,
    continued,
    continues,
    earlier_questions,
    leaning_of,
    with_context,
)

_TOUR = {
    "en": "What does the jeep tour in the dunes cost?",
    "fr": "Combien coûte l'excursion en jeep dans les dunes ?",
    "de": "Was kostet die Jeeptour durch die Dünen?",
    "es": "¿Cuánto cuesta la excursión en jeep por las dunas?",
    "it": "Quanto costa l'escursione in jeep tra le dune?",
    "pt": "Quanto custa o passeio de jipe pelas dunas?",
    "nl": "Wat kost de jeeptocht door de duinen?",
    "he": "כמה עולה טיול הג'יפים בדיונות?",
    "vi": "Tour xe jeep ở đồi cát giá bao nhiêu?",
    "ru": "Сколько стоит поездка на джипе по дюнам?",
}


def _says(*questions: str) -> list[dict[str, str]]:
    return [
        message
        for text in questions
        for message in ({"role": "user", "content": text}, {"role": "assistant", "content": "It costs 42 dollars. [1]"})
    ]


@pytest.mark.parametrize(
    ("tag", "question"),
    [
        ("en", "And on Sundays?"), ("en", "How long does it take?"), ("en", "What about children?"), ("en", "Why?"),
        ("en", "Are they insured?"),
        ("en", "is lunch included in that"), ("en", "Which day?"),
        ("fr", "Et pour un adulte ?"), ("fr", "Combien de temps dure-t-elle ?"), ("fr", "Pourquoi ?"), ("fr",
        "et le dimanche"),
        ("de", "Und für Kinder?"), ("de", "Wie lange dauert sie?"), ("de", "Gibt es dort Essen?"), ("de", "Warum?"),
        ("es", "¿y los niños?"), ("es", "¿Cuánto dura esa?"), ("es", "¿y los domingos?"), ("es", "¿Por qué?"),
        ("it", "E per i bambini?"), ("it", "Quanto dura questa?"), ("pt", "E para crianças?"), ("pt",
        "quanto tempo demora isso?"),
        ("nl", "En voor kinderen?"), ("nl", "Hoe lang duurt dat?"),
        ("he", "ומה עם ילדים?"), ("he", "כמה זמן זה?"), ("he", "ובשבת?"), ("he", "יש שם אוכל?"),
        ("vi", "còn trẻ em?"), ("vi", "thế còn chủ nhật?"), ("vi", "ở đó có đồ ăn không?"),
        ("ru", "А для детей?"), ("ru", "Сколько это длится?"),
    ],
)  # fmt: skip
def test_a_question_that_leans_on_the_one_before_shows_it(tag: str, question: str) -> None:
    assert leaning_of(question, _TOUR[tag]).form == "leaning"


@pytest.mark.parametrize(
    ("tag", "question"),
    [
        ("en", "Tell me more"), ("en", "tell me more about that, please"), ("en", "What else?"), ("fr",
        "Dis-m'en plus"), ("fr", "Plus de détails ?"),
        ("de", "Erzähl mir mehr"), ("de", "Mehr dazu"), ("es", "Cuéntame más"), ("it", "Dimmi di più"), ("pt",
        "Conta-me mais"), ("nl", "Vertel me meer"),
        ("he", "ספר לי עוד"), ("he", "עוד פרטים"), ("vi", "nói thêm đi"), ("vi", "Cho tôi biết thêm"), ("ru",
        "Расскажи подробнее"),
    ],
)  # fmt: skip
def test_a_request_for_more_names_nothing_and_is_searched_as_what_it_continues(tag: str, question: str) -> None:
    assert leaning_of(question, _TOUR[tag]).form == "more"
    assert continued(question, [_TOUR[tag]]) == _TOUR[tag]


def test_more_about_something_else_is_a_question_of_its_own() -> None:
    assert leaning_of("Tell me more about the cooking class in Hội An", _TOUR["en"]).form != "more"


@pytest.mark.parametrize(
    ("tag", "question"),
    [
        ("en", "Can vegetarians join the cooking class in Hội An?"), ("en",
        "Is there a discount for students with an international card?"),
        ("fr", "En quelle année le château de Versailles fut-il construit ?"), ("de",
        "Welche Unterlagen braucht ein Visum für Vietnam?"),
        ("es", "¿Qué equipaje admite el crucero nocturno por la bahía?"), ("he",
        "אילו מסמכים דרושים לאשרת כניסה לווייטנאם?"),
        ("vi", "Du thuyền ngủ đêm trên vịnh Hạ Long được mang bao nhiêu hành lý?"), ("it",
        "Quali documenti servono per il visto del Vietnam?"),
    ],
)  # fmt: skip
def test_a_question_that_names_its_subject_does_not_lean(tag: str, question: str) -> None:
    assert leaning_of(question, _TOUR[tag]).form in ("open", "whole")


@pytest.mark.parametrize(
    ("form", "found", "goes_on"),
    [
        ("more", None, True),
        ("whole", Found(0.0, 1.0, fits=True), False),
        ("leaning", None, True),
        ("leaning", Found(0.1, 0.9, fits=False), True),
        ("leaning", Found(0.1, 0.05, fits=False), True),  # nothing is found anyway, and the form is all there is
        ("leaning", Found(0.95, 0.6, fits=True), False),  # "And what are the opening hours of the museum?"
        ("open", None, False),
        ("open", Found(0.1, 0.9, fits=True), True),  # "How wide is the strap?", after a question about the watch
        # the earlier question found that, and this one is about something else
        ("open", Found(0.1, 0.9, fits=False), False),
        ("open", Found(0.8, 0.9, fits=True), False),
        ("open", Found(0.1, 0.2, fits=True), False),
    ],
)
def test_what_is_found_decides_between_the_question_alone_and_together(
    form: str, found: Found | None, goes_on: bool
) -> None:
    assert continues(Leaning(form, 1), found) is goes_on  # type: ignore[arg-type]


def test_a_chain_of_follow_ups_goes_back_to_the_question_that_stands_by_itself() -> None:
    history = _says(
        "When do the boats leave?", "What does the jeep tour in the dunes cost?", "And for a child?", "Tell me more"
    )
    assert earlier_questions(history) == ["What does the jeep tour in the dunes cost?", "And for a child?"]
    assert (
        continued("And on Sundays?", earlier_questions(history))
        == "What does the jeep tour in the dunes cost? And for a child? And on Sundays?"
    )


def test_what_was_asked_last_comes_first_in_the_text_to_pick_for() -> None:
    assert (
        with_context("And on Sundays?", ["When does the garden close?"])
        == "And on Sundays? (When does the garden close)"
    )
    assert with_context("And on Sundays?", []) == "And on Sundays?"


@pytest.mark.parametrize(
    "history",
    [
        [],
        [{"role": "assistant", "content": "Hello!"}],
        [{"role": "user"}],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": None}],
    ],
)
def test_a_history_without_a_question_is_continued_by_nothing(history: list[dict[str, str]]) -> None:
    assert earlier_questions(history) == []


def test_a_long_message_is_cut_and_a_long_chain_ends() -> None:
    assert len(earlier_questions(_says("Why " + "is it so " * 200))[0]) == 300
    assert len(earlier_questions(_says(*["And on Sundays?"] * 20))) == 3


@pytest.mark.parametrize(
    "question",
    [
        "How much for a child?",
        "combien pour un enfant ?",
        "Hoeveel voor een kind?",
        "¿Cuánto para un niño?",
        "כמה לילד?",
    ],
)
def test_a_quantity_for_somebody_leans_on_what_was_asked_before(question: str) -> None:
    assert leaning_of(question, question).form == "leaning"
