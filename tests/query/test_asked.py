"""Questions are read for what they ask and in how many parts, in many languages, and sentences for whether they hold
it.
"""

import pytest

from almanac.query.answering.asked import asked_parts, holds, holds_any
from almanac.query.answering.asked_words import Kind
from tests.growth import assert_linear

_WHEN = {"date", "hour", "duration"}
_ASKED: list[tuple[set[str], tuple[str, ...]]] = [
    ({"hour"}, ("What time does it open?", "À quelle heure ferme le parc ?", "¿A qué hora abre?",
    "Um wie viel Uhr öffnet es?", "A che ora apre?",
                "Hoe laat gaat het open?", "Mấy giờ mở cửa?", "באיזו שעה נפתח?", "horaires de la galerie", "几点开门？")),  # noqa: E501
    (_WHEN, ("When does the junk depart?", "Depuis quand ?", "¿Cuándo sale?", "Wann fährt das Boot?", "Quando parte?",
    "Wanneer vertrekt de boot?",
             "Khi nào tàu khởi hành?", "מתי יוצאת הסירה?", "Когда отправление?", "the refund: by when?")),
    ({"date"}, ("Which days are you closed?", "Le château ferme quel jour de la semaine ?", "An welchen Tagen?",
    "Khởi hành ngày nào?")),
    ({"duration"}, ("How long does it take?", "How long is the warranty?", "Combien de temps ?", "¿Cuánto tiempo dura?",
    "Wie lange dauert es?",
                    "Hoe lang duurt het?", "Bao lâu?", "כמה זמן זה לוקח?")),
    ({"duration", "length"}, ("How long is the trip?", "Wie lang ist der Schlafsack?", "Hoe lang is de slaapzak?")),
    ({"number", "stock"}, ("how many tents are left", "How many of the lamps do you have in stock?",
    "Combien de tentes sont disponibles ?",
                           "Wie viele Zelte sind noch auf Lager?", "¿Cuántas tiendas quedan?")),
    ({"price"}, ("How much does it cost?", "Combien coûte le billet ?", "Et à combien est le billet ?",
    "¿Cuánto cuesta?",
                 "Was kostet das?", "Quanto costa?", "Wat kost het?", "Quel est le prix ?",
                 "Giá bao nhiêu?", "כמה זה עולה?", "prix du parking", "多少钱？")),
    ({"number"}, ("How many rooms are there?", "Combien de miroirs ?", "Il y a combien de salles ?",
                  "Wie viele Zimmer?", "Có bao nhiêu phòng?", "כמה חדרים יש?")),
    ({"weight"}, ("What is the weight of the reader?", "Wie schwer ist es?",
    "how much does the 4-person tent of last year weigh?",
                  "Combien la valise pèse-t-elle ?",
                  "Was wiegt der Koffer?", "Cái này nặng bao nhiêu?", "Сколько весит?", "有多重？")),
    ({"length"}, ("How tall is the tower?", "Quelle est la hauteur de la tour ?", "塔有多高？")),
    ({"phone"}, ("What's the phone number?", "Quel est le numéro de téléphone du support ?", "telefonnummer notdienst",
    "số điện thoại của cửa hàng là gì?")),
    ({"email"}, ("What is your email?", "e-mail address for bookings", "¿Cuál es el correo electrónico?")),
    ({"address"}, ("What is the address of the museum?", "adresse du musée ?", "In welcher Straße seid ihr?",
    "Wie lautet die Adresse der Praxis?",
                   "¿Cuál es la dirección del hotel?", "מה הכתובת של המשרד?", "地址是什么？")),
    ({"name"}, ("Which hotel has a pool?", "Quel hôtel a une piscine ?", "¿Qué hotel tiene piscina?",
    "Welches Hotel hat ein Bad?",
                "Quale albergo ha un bagno?",
                "Welk hotel heeft een bad?", "Khách sạn nào?", "איזה מלון כולל בריכה?", "Какой отель лучше?",
                "哪家酒店好？")),
    ({"person"}, ("Who signed it?", "Qui a signé ?", "Wer hat unterschrieben?", "מי חתם?")),
    ({"place"}, ("Where do we meet?", "Où se trouve la gare ?", "Wo treffen wir uns?", "Đón ở đâu?", "איפה נפגשים?")),
    ({"yes or no"}, ("Can I bring my dog?", "Est-ce que les chiens sont admis ?", "¿Puedo entrar?",
    "Darf mein Hund mit?", "Posso entrare?",
                     "Mag mijn hond mee?", "Trẻ em có được miễn phí không?", "האם מותר לצלם?",
                     "I am ill, can I cancel?", "狗可以进吗？")),
    ({"explanation"}, ("Why is it closed?", "Comment réserver ?", "Warum ist es geschlossen?", "Làm sao để đặt chỗ?",
    "איך מזמינים?")),
    (set(), ("What is the IP address of the server?", "What is it when the display shows E3?",
    "I put in the dates, now what?", "Tell me more",
            "What about the days when it rains?", "People hear an echo when I phone", "17 × 23",
            "What takes place in May?",
            "Mehr über das Essen vor Ort",
            "What local specialities do you have?")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "question"), [(kinds, question) for kinds, questions in _ASKED for question in questions]
)
def test_a_question_is_read_for_what_it_asks(kinds: set[str], question: str) -> None:
    (part,) = asked_parts(question)
    assert part.text == question
    assert part.kinds == kinds


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "What does it cost and when does it leave?",
            [("What does it cost", {"price"}, True), ("when does it leave", _WHEN, False)],
        ),
        (
            "Where do we meet, and at what time?",
            [("Where do we meet", {"place"}, False), ("at what time", {"hour"}, True)],
        ),
        (
            "Combien ça coûte et à quelle heure ferme le parc ?",
            [("Combien ça coûte", {"price"}, True), ("à quelle heure ferme le parc", {"hour"}, False)],
        ),
        (
            "Was kostet das Ticket und wann öffnet das Schloss?",
            [("Was kostet das Ticket", {"price"}, False), ("wann öffnet das Schloss", _WHEN, False)],
        ),
        ("כמה זה עולה ומתי יוצאים?", [("כמה זה עולה", {"price"}, True), ("מתי יוצאים", _WHEN, False)]),
        ("Tàu đi lúc mấy giờ, ở đâu?", [("Tàu đi lúc mấy giờ", {"hour"}, False), ("ở đâu", {"place"}, True)]),
        (
            "Price, weight, length and phone number for the Vega?",
            [
                ("Price for the Vega", {"price"}, False),
                ("weight for the Vega", {"weight"}, False),
                ("length for the Vega", {"length"}, False),
            ],
        ),
        (
            "Price, phone number and weight for the Vega?",
            [
                ("Price for the Vega", {"price"}, False),
                ("phone number for the Vega", {"phone"}, False),
                ("weight for the Vega", {"weight"}, False),
            ],
        ),
        (
            "Price and weight of the Vega",
            [("Price of the Vega", {"price"}, False), ("weight of the Vega", {"weight"}, False)],
        ),
        (
            "Quels sont les tarifs et les horaires ?",
            [("Quels sont les tarifs", {"price"}, False), ("Quels sont les horaires", {"hour"}, False)],
        ),
        (
            "price, weight and length?",
            [("price", {"price"}, False), ("weight", {"weight"}, False), ("length", {"length"}, False)],
        ),
        (
            "Is there a lift? How wide is it?",
            [("Is there a lift", {"yes or no"}, False), ("How wide is it", {"length"}, False)],
        ),
    ],
)
def test_a_question_of_two_parts_is_told_apart(question: str, parts: list[tuple[str, set[str], bool]]) -> None:
    assert [(part.text, set(part.kinds), part.is_bare) for part in asked_parts(question)] == parts


@pytest.mark.parametrize(
    "question",
    [
        "Bread and butter, please?",
        "Do you take dogs and cats?",
        "What do I get for a desk and for the internet?",
        "I was ill and can't come.",
        "When many are arrested, what is done?",
        "What is the length and width of the tent?",
        "Is the price and weight shown?",
    ],
)
def test_a_conjunction_alone_makes_no_second_part(question: str) -> None:
    assert len(asked_parts(question)) == 1


_HELD: list[tuple[Kind, str]] = [
    ("date", "Departure: 14/11/2026"), ("date", "On the 25th of each month."), ("date", "Fermé le lundi."), ("date",
    "open on Tuesdays"),
    ("date", "im Jahr 1682"),     ("hour", "de 9 h à 18 h 30"), ("hour", "ab 9 Uhr"), ("hour", "from noon"), ("hour",
    "at 5 pm"),
    ("price", "Price, adult: 5.372.000 ₫"), ("price", "149 shekels"), ("price", "L’entrée est gratuite."), ("price",
    "18 € l’heure"), ("price", "USD 20"),
    ("price", "10 % off for groups"), ("price", "15 days before: 10%"), ("price", "Die Anzahlung beträgt 20 %."),
    ("duration", "two years"), ("duration", "תשעה ימים"), ("duration", "האחריות היא לשלוש שנים"), ("duration",
    "trước 15 ngày"), ("duration", "bảo hành 3 năm"),
    ("percentage", "40% of it"), ("percentage", "vier Prozent"), ("number", "It has five members."), ("weight",
    "198 g"), ("length", "67 metres tall"),
    ("temperature", "from 0 to 40 degrees"), ("phone", "Tel. 04321 556677"), ("email", "info@example.org"), ("address",
    "Lindenweg 7"),
]  # fmt: skip
_LACKING: list[tuple[Kind, str]] = [
    ("number", "Tour code: TO1101"), ("date", "Tour code: TO1401"), ("number", "One of a kind"), ("price",
    "We offer 27 days"),
    ("price", "It shows 99 % of the colours."), ("date", "The house is big"),
    ("hour", "Price: 12 €"), ("weight", "20 guests"), ("duration", "30 euros"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "sentence", "is_held"), [*((*one, True) for one in _HELD), *((*one, False) for one in _LACKING)]
)
def test_a_sentence_holds_what_is_asked_for_or_not(kind: Kind, sentence: str, is_held: bool) -> None:
    assert holds(sentence, kind) is is_held


def test_what_cannot_be_told_is_neither_held_nor_lacking() -> None:
    assert holds("Ann signed it.", "person") is None
    assert holds_any("Ann signed it.", ()) is None
    assert holds_any("Ann signed it.", {"person", "date"}) is False


def test_a_number_of_the_question_does_not_answer_it() -> None:
    asked = "How many watts does the 24 inch monitor draw?"
    assert holds_any("The 24-inch monitor fits any desk.", {"number"}, asked) is False
    assert holds_any("The 24-inch monitor draws 19 watts.", {"number"}, asked) is True
    assert holds_any("A day has 24 hours.", {"duration"}, asked) is True


@pytest.mark.parametrize(
    "piece", ["? ", "dogs, boats, ", "x, is a, ", "the house when ", "when it rains, ", " ", "and ", "几点吗，"]
)
def test_a_long_text_is_read_in_one_pass(piece: str) -> None:
    assert_linear(asked_parts, lambda pieces: piece * pieces, 600)


def test_white_space_makes_no_difference() -> None:
    parts = asked_parts("What does it  cost" + " " * 200 + "and \n\n when does it leave ?")
    assert [(part.text, part.is_bare) for part in parts] == [
        ("What does it  cost", True),
        ("when does it leave", False),
    ]
