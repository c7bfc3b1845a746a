"""Extractive answers say only what stands in the hits, whole, once, and cited."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.index.embedding.embedder import Embedder, load_embedder
from almanac.index.lexical.reader import AnalyzedQuery
from almanac.query.answering.answer import Question, answer
from almanac.query.answering.extractive import extract, hits_to_quote
from almanac.query.answering.sentences import sentences_of
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.results import Answer, Hit
from tests.query.answering import UNKNOWN, CountingWords, ask, declared, make_hit


def _texts(hit: Hit, language: str = "en") -> list[str]:
    return [s.text for s in sentences_of([hit], language)]


def test_the_sentence_that_answers_is_quoted_with_its_marker() -> None:
    found = ask(
        "refund in how many days?",
        [
            make_hit(
                1, "Bring your passport. You get a refund within fourteen days. Luggage is free up to twenty kilos."
            )
        ],
    )
    assert found.answered
    assert found.reply == "You get a refund within fourteen days. [1]"
    assert (found.sources[0].quote, found.sources[0].confidence) == ("You get a refund within fourteen days.", "high")
    assert found.citation == "Source: The rules"


def test_a_heading_and_a_question_give_context_and_are_never_the_answer() -> None:
    text = "## Refund\n\nAfter how many days is a refund paid?\n\nFourteen.\n\n## Luggage\n\n- Twenty kilos."
    found = ask("refund after how many days", [make_hit(1, text, 0.5)])
    assert found.reply == "Fourteen. [1]"
    assert found.sources[0].confidence == "medium"


_HOTELS = (
    "Hotels in Dubai:\n\nThe Creek Hotel\n\nSmall rooms beside the souk.\n\nThe Lost City Hotel\n\nA quiet house "
    "with a waterpark.\n\nAll year."
)


def test_a_question_for_a_name_gets_the_heading_above_the_sentence() -> None:
    found = ask("Which hotel has a waterpark?", [make_hit(1, _HOTELS)])
    assert found.reply == "The Lost City Hotel [1] A quiet house with a waterpark. [1]"
    assert found.sources[0].quote == "A quiet house with a waterpark."
    assert "The Lost City Hotel" not in ask("Is there a hotel with a waterpark?", [make_hit(1, _HOTELS)]).reply


_LOGS = (
    "# Logs\n\nLogs are kept for a week. To follow the log of a service, do:\n\n```bash\njournalctl -u web\n\n"
    "journalctl -f\n```\n\nThen restart it."
)


def test_code_stays_with_the_sentence_that_introduces_it() -> None:
    code = "To follow the log of a service, do:\n\n```bash\njournalctl -u web\n\njournalctl -f\n```"
    assert _texts(make_hit(1, _LOGS)) == ["Logs are kept for a week.", code, "Then restart it."]
    found = ask("How to follow the log of a service?", [make_hit(1, _LOGS)])
    assert found.sources[0].quote == code
    assert found.reply.startswith(f"{code}\n[1]")
    indented = (
        "Build it by:\n\n    make\n    make install\n\n1. To test it, run:\n   ~~~\n   make check\n   ~~~\n2. Done."
    )
    assert _texts(make_hit(1, indented)) == [
        "Build it by:\n\n    make\n    make install",
        "To test it, run:\n   ~~~\n   make check\n   ~~~",
        "Done.",
    ]


def test_code_without_an_end_or_of_many_lines_is_quoted_by_lines() -> None:
    assert _texts(make_hit(1, "Run:\n\n```\nmake it\n")) == ["make it"]
    assert len(_texts(make_hit(1, "Run:\n\n```\n" + "make it again\n" * 100 + "```\n"))) == 100


def test_a_question_for_a_name_gets_the_title_of_the_record_that_answers() -> None:
    passage = "name: Lost City\nstars: 5\nabout: A quiet house with a waterpark. Breakfast until noon."
    hit = make_hit(1, passage, start=None, passage=passage, title="Lost City")
    assert ask("¿Qué hotel tiene un waterpark?", [hit]).reply.startswith("Lost City [1] ")
    assert "Lost City" not in ask("Is there a waterpark?", [hit]).reply


def test_markers_number_the_sources_that_are_cited() -> None:
    found = ask("refund days", [make_hit(1, "Bring a visa."), make_hit(2, "A refund takes days.")])
    assert found.reply == "A refund takes days. [1]"
    assert [(s.marker, s.document_id) for s in found.sources] == [("[1]", "d2")]


def test_hits_that_say_nothing_are_no_answer() -> None:
    assert ask("refund", [make_hit(1, "## Refund\n\n---\n\n?!")]).reply == UNKNOWN


def test_words_count_where_the_embedder_knows_none_of_them() -> None:
    text = "Les jardins ouvrent à huit heures. L'entrée est gratuite pour les enfants. Le parc ferme à vingt heures."
    assert (
        ask("Quel prix pour un ENFANT ?", [make_hit(1, text)], declaration=declared(language="fr")).reply
        == "L'entrée est gratuite pour les enfants. [1]"
    )
    hebrew = "הסוללה נטענת בשעתיים. האחריות היא לשלוש שנים. המסך הוא 14 אינץ׳."
    assert (
        ask("לכמה שנים האחריות?", [make_hit(1, hebrew)], declaration=declared(language="he")).reply
        == "האחריות היא לשלוש שנים. [1]"
    )
    vietnamese = "Tàu khởi hành lúc tám giờ. Trẻ em dưới năm tuổi được miễn phí. Có bữa trưa."
    for question in ("Trẻ em có được miễn phí không?", "tre em co duoc mien phi khong"):
        assert (
            ask(question, [make_hit(1, vietnamese)], declaration=declared(language="vi")).reply
            == "Trẻ em dưới năm tuổi được miễn phí. [1]"
        )


def test_a_line_of_a_price_list_answers_under_its_head() -> None:
    table = "## Prices\n\n| Who | Refund |\n|---|---|\n| Child | 12 € |\n| Adult | 30 € |\n\nOther things."
    assert _texts(make_hit(1, table)) == ["Child | 12 €", "Adult | 30 €", "Other things."]
    assert [s.context for s in sentences_of([make_hit(1, table)], "en")][:2] == ["Rules Prices Who Refund"] * 2
    assert ask("What does a child pay?", [make_hit(1, table.removesuffix("Other things."))]).reply == "Child | 12 € [1]"


def test_a_sentence_that_repeats_the_question_brings_the_next_one() -> None:
    text = "Kettle K22\n\nThe display shows E3. The sensor in the base is wet. Refunds take days."
    assert _texts(make_hit(1, text))[0] == "The display shows E3."
    assert (
        ask("What is it when the display shows E3?", [make_hit(1, text)]).reply
        == "The display shows E3. [1] The sensor in the base is wet. [1]"
    )


def test_a_list_stands_under_what_leads_to_it() -> None:
    text = (
        "You need for the visa:\n- a passport\n- two photographs,\n  not older than a year\n\nWeight: 2 kg\nColour: red"
    )
    sentences = sentences_of([make_hit(1, text)], "en")
    assert [(s.text, s.context) for s in sentences] == [
        ("a passport", "Rules You need for the visa:"),
        ("two photographs,", "Rules You need for the visa:"),
        ("not older than a year", "Rules"),
        ("Weight: 2 kg", "Rules"),
        ("Colour: red", "Rules"),
    ]


def test_lines_that_an_editor_wrapped_are_one_paragraph() -> None:
    text = (
        "The battery lasts for eighteen hours when the screen\nis dimmed, and for eleven hours when films are "
        "shown\nall day. It charges within two hours."
    )
    assert _texts(make_hit(1, text)) == [text[: text.index(" It charges")], "It charges within two hours."]


def test_a_heading_with_a_word_of_the_question_names_no_person() -> None:
    text = "# History of the mill\n\nThe mill was built by Ann Weaver."
    assert (
        ask("Who built the mill?", [make_hit(1, text, title="History of the mill")]).reply
        == "The mill was built by Ann Weaver. [1]"
    )
    assert ask(
        "Who is the founder?", [make_hit(1, "# Ann Weaver\n\nFounder and miller.", title="Ann Weaver")]
    ).reply.startswith("Ann Weaver [1] ")


def test_a_line_alone_above_prose_is_a_heading_and_no_answer() -> None:
    text = (
        "Guide\n\nThe five principles\n\nRefunds\n\nA refund takes days.\n\nWeight: 2 kg\n\nA visa takes longer.\n"
        "\nTwenty kilos"
    )
    assert [(s.text, s.context) for s in sentences_of([make_hit(1, text)], "en")] == [
        ("A refund takes days.", "Rules Refunds"),
        ("Weight: 2 kg", "Rules Refunds"),
        ("A visa takes longer.", "Rules Refunds"),
        ("Twenty kilos", "Rules Refunds"),
    ]
    assert _texts(make_hit(1, "วีซ่า\n\nใช้เวลาสิบวัน\n\nกระเป๋าฟรี", start=9), "th") == ["วีซ่า", "ใช้เวลาสิบวัน", "กระเป๋าฟรี"]


def test_another_passage_is_only_said_when_it_answers_as_well() -> None:
    best = make_hit(1, "A refund takes fourteen days.")
    assert (
        ask(
            "refund in how many days, fourteen?", [best, make_hit(2, "A visa takes ten days and luggage is free.")]
        ).reply
        == "A refund takes fourteen days. [1]"
    )
    both = ask(
        "refund days",
        [
            make_hit(1, "A refund takes days."),
            make_hit(2, "Each refund needs ten days of patience, days and a refund form."),
        ],
    )
    assert len(both.sources) == 2


def test_overlapping_chunks_give_no_sentence_twice_and_none_by_half() -> None:
    text = (
        "A refund takes ten days. A visa takes longer than that, whoever asks for it. Luggage is free. A passport "
        "is needed, always. Nothing else is."
    )
    hits = [make_hit(2, text[:60], document_id="d"), make_hit(1, text[40:], document_id="d", start=40)]
    said = [s.text for s in sentences_of(hits, "en")]
    assert said == ["A refund takes ten days.", "Luggage is free.", "A passport is needed, always.", "Nothing else is."]
    alone = [s.text for s in sentences_of(hits[1:], "en") if not s.is_cut]
    assert alone == ["Luggage is free.", "A passport is needed, always.", "Nothing else is."]


def test_a_chunk_cut_between_words_is_not_quoted_from_its_first_half_sentence() -> None:
    hit = make_hit(1, "Porto office is closed on Monday. A refund takes days.", start=400)
    assert [s.is_cut for s in sentences_of([hit], "en")] == [False, False]
    assert [s.is_cut for s in sentences_of([hit], "en", cuts_words=True)] == [True, False]


@given(
    st.text(st.sampled_from("ab É.!?。؟ \n|#-*:1שọ🙂"), min_size=1, max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 150)), max_size=4),
    st.sampled_from(["en", "fr", "he", "vi", "zh", "auto"]),
)
def test_every_sentence_of_a_reply_stands_in_its_source(text: str, spans: list[tuple[int, int]], language: str) -> None:
    """Chunks here overlap, repeat, hold each other and begin anywhere."""
    cut = [(start, text[start : start + length]) for start, length in spans if text[start : start + length]]
    hits = [make_hit(rank, piece, document_id="d", start=start) for rank, (start, piece) in enumerate(cut, start=1)]
    for sentence in sentences_of(hits, language):
        hit = hits[sentence.hit]
        assert sentence.text == hit.text[sentence.start : sentence.end] == sentence.text.strip() != ""
    spots = [(hits[s.hit].start or 0) + s.start for s in sentences_of(hits, language)]
    assert len(spots) == len(set(spots))
    found = ask("a b É?", hits, declaration=declared(language=language))
    _stands_in_its_sources(found)


def _stands_in_its_sources(found: Answer) -> None:
    assert found.answered == bool(found.sources)
    if not found.answered:
        return
    rest = found.reply
    for source in found.sources:
        assert source.quote in source.text
        assert f"{source.quote} {source.marker}" in found.reply
    # What is left when each marked sentence is taken out is nothing.
    by_marker = {source.marker: source.text for source in found.sources}
    while rest:
        marker, end = (
            min((m, rest.index(m)) for m in by_marker if m in rest)
            if len(by_marker) == 1
            else min(_marks(rest, by_marker), key=lambda at: at[1])
        )
        assert rest[:end].strip() in by_marker[marker]
        rest = rest[end + len(marker) :].lstrip()


def _marks(rest: str, markers: dict[str, str]) -> Iterator[tuple[str, int]]:
    return ((marker, rest.index(marker)) for marker in markers if marker in rest)


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return load_embedder(Embed.model_validate({"provider": "local", "model": "all-MiniLM-L6-v2"}))


_TICKETS = """Billets et tarifs

Le billet Passeport donne accès au château, aux jardins et au domaine de Trianon. Son prix est de 32 € en haute saison.

L’entrée est gratuite pour les enfants et les jeunes de moins de 18 ans, quelle que soit leur nationalité. Un justificatif d’âge peut être demandé.

Le tarif réduit est accordé aux étudiants. Les audioguides sont compris."""  # noqa: E501
_OPENING = (
    "Le château ouvre du mardi au dimanche, de 9 h à 18 h 30. Dernière admission à 18 h. Fermé le lundi et le 1er mai."
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "Quel est le tarif pour un enfant de 10 ans ?",
            "L’entrée est gratuite pour les enfants et les jeunes de moins de 18 ans, quelle que soit leur "
            "nationalité.",
        ),
        ("Quel jour le château est-il fermé ?", "Fermé le lundi et le 1er mai."),
        ("Quel est le prix en haute saison ?", "Son prix est de 32 € en haute saison."),
    ],
)
def test_french_questions_are_answered_in_french_with_an_english_model(
    minilm: Embedder, question: str, expected: str
) -> None:
    hits = [make_hit(1, _OPENING, 0.5, title="Horaires"), make_hit(2, _TICKETS, 0.45, title="Billets")]
    vector = minilm.embed_queries([question])[0]
    found = answer(
        Question(declared(language="fr"), "v0001", question, np.asarray(vector), hits, minilm, "kb-only", lowest=0.3)
    )
    assert expected in found.reply
    _stands_in_its_sources(found)


_TOUR = """URL: http://x/junk
Tour name: The junk
Code: 1101
Departure: 14/11/2026
Price, adult: 9.500.000 ₫
Note: Bring your passport. Dogs stay ashore.

Cancellation terms:
If you cancel

* 15 days before: 10%

Later:

The whole price is kept. Storms are another matter."""


def _tour(**given: object) -> Hit:
    told = {"title": "The junk", "document_id": "1101", "start": None, "passage": _TOUR, **given}
    return make_hit(1, "The junk. Two days on a boat.", 0.95, **told).model_copy(update={"url": "http://x/junk"})


def test_a_line_of_a_record_is_a_sentence_and_a_long_text_has_its_label_as_context() -> None:
    hit = _tour()
    found = sentences_of([hit], "en")
    assert all(hit.readable[s.start : s.end] == s.text for s in found)
    assert [(s.text, s.context) for s in found] == [
        ("Departure: 14/11/2026", "The junk"),
        ("Price, adult: 9.500.000 ₫", "The junk"),
        ("Note: Bring your passport. Dogs stay ashore.", "The junk"),
        ("15 days before: 10%", "The junk Cancellation terms If you cancel"),
        ("The whole price is kept.", "The junk Cancellation terms If you cancel"),
        ("Storms are another matter.", "The junk Cancellation terms If you cancel"),
    ]


def test_a_label_keeps_the_facts_behind_it() -> None:
    fact = "Battery: 62 Wh. 13 hours and 30 minutes of video."
    long = f"Note: {'Bring it along. ' * 20}It is yours."
    prose = f"The notebook is light.\n\n{fact}\n\n- **Charger:** 65 W. It is in the box.\n\n{long}"
    assert _texts(make_hit(1, prose))[:4] == [
        "The notebook is light.",
        fact,
        "**Charger:** 65 W. It is in the box.",
        "Note: Bring it along.",
    ]
    assert sentences_of([make_hit(1, prose)], "en")[-1].context == "Rules Note"
    assert [s.text for s in sentences_of([_tour(passage=f"Tour name: The junk\n{fact}\nColour: red")], "en")] == [
        fact,
        "Colour: red",
    ]


def test_a_value_in_sentences_keeps_the_label_that_turns_its_meaning() -> None:
    long = f"Description: {'Bring it along. ' * 20}It is yours."
    passage = f"Included: Harness, helmet, guide.\nNot included: Gloves, food.\n{long}"
    found = sentences_of([_tour(passage=passage)], "en")
    assert [s.text for s in found[:4]] == [
        "Included: Harness, helmet, guide.",
        "Not included: Gloves, food.",
        "Description: Bring it along.",
        "Bring it along.",
    ]
    assert "Not included: Gloves, food. [1]" in ask("Is food included on the junk?", [_tour(passage=passage)]).reply


def test_the_one_sentence_that_is_the_text_of_a_record_has_no_label() -> None:
    passage = "Text: Two days on a boat.\nNot included: Gloves, food."
    assert [s.text for s in sentences_of([_tour(passage=passage)], "en")] == [
        "Two days on a boat.",
        "Not included: Gloves, food.",
    ]
    two = _tour(passage="Text: Two days on a boat. Dogs stay ashore.").model_copy(
        update={"text": "The junk. Two days on a boat. Dogs stay ashore."}
    )
    assert [s.text for s in sentences_of([two], "en")] == ["Text: Two days on a boat. Dogs stay ashore."]
    only_title = _tour(passage=passage).model_copy(update={"text": "The junk"})
    assert [s.text for s in sentences_of([only_title], "en")] == [
        "Text: Two days on a boat.",
        "Not included: Gloves, food.",
    ]


def test_the_same_field_of_two_records_is_quoted_with_their_titles() -> None:
    bags = [
        make_hit(n, f"Price: {n}00 EUR", title=title, start=None, passage=f"Price: {n}00 EUR")
        for n, title in ((2, "Polaris"), (1, "Polaris junior"))
    ]
    assert (
        ask("How much is the Polaris?", bags).reply == "Polaris, Price: 200 EUR [1] Polaris junior, Price: 100 EUR [2]"
    )
    assert ask("How much is the Polaris?", bags[:1]).reply == "Price: 200 EUR [1]"
    for title in ("", "Polaris"):
        alike = [bag.model_copy(update={"title": title}) for bag in bags]
        assert ask("How much is the Polaris?", alike).reply == "Price: 200 EUR [1] Price: 100 EUR [2]", (
            "the titles tell nothing apart"
        )


def test_what_answers_a_question_is_quoted_without_its_label() -> None:
    pair = "Question: Is there a lift?\nAnswer: No, there are stairs."
    assert [s.text for s in sentences_of([_tour(passage=pair)], "en")] == ["No, there are stairs."]
    assert [s.text for s in sentences_of([_tour(passage=pair.split("\n")[1], title="Is there a lift?")], "en")] == [
        "No, there are stairs."
    ]


def test_what_introduces_a_list_is_no_answer_even_where_the_list_is_cut_off() -> None:
    assert _texts(make_hit(1, "The boat is new. The following are included:")) == ["The boat is new."]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When does the junk depart?", "Departure: 14/11/2026 [1]"),
        ("What does an adult pay for the junk?", "Price, adult: 9.500.000 ₫ [1]"),
        ("How much is kept 15 days before?", "15 days before: 10% [1]"),
    ],
)
def test_a_question_gets_the_line_that_holds_what_it_asks_for_and_nothing_beside_it(
    question: str, expected: str
) -> None:
    assert ask(question, [_tour()]).reply == expected


def test_a_label_is_asked_for_by_a_word_of_its_kind_though_other_lines_hold_hours() -> None:
    passage = _TOUR + "\n\nDescription:\nPick-up from hotels between 7:45 and 8:15.\n\n- Back in Tuần Châu at 14:30."
    assert ask("When does the junk depart?", [_tour(passage=passage)]).reply == "Departure: 14/11/2026 [1]"


@pytest.mark.parametrize(
    ("question", "passage", "expected"),
    [
        (
            "How much is the lantern?",
            "Price: 72.95\nBody: A lantern of tin. A glass for the lantern is 19 euros.",
            "Price: 72.95",
        ),
        (
            "Was kostet die Laterne?",
            "Preis: 72,95 €\nText: Die Laterne ist aus Blech. Ein Glas für die Laterne kostet 19 €.",
            "Preis: 72,95 €",
        ),
        (
            "Wie lange dauert die Safari?",
            "Dauer in Tagen: 14\nText: Die Safari beginnt am Morgen. Impfungen braucht die Safari nicht.",
            "Dauer in Tagen: 14",
        ),
        (
            "Wo trifft sich der Chor?",
            "Place: Aula\nText: Der Chor trifft sich zum Singen. Wo der Chor singt, ist es laut.",
            "Place: Aula",
        ),
        (
            "Wo trifft sich der Chor?",
            "Ort: Aula\nText: Der Chor trifft sich zum Singen. Wo der Chor singt, ist es laut.",
            "Ort: Aula",
        ),
    ],
)
def test_a_field_whose_label_names_what_is_asked_for_answers_before_what_is_said_in_passing(
    question: str, passage: str, expected: str
) -> None:
    given = {
        "title": "Laterne" if "Laterne" in question else question.split()[-1].strip("?"),
        "start": None,
        "passage": passage,
    }
    found = ask(
        question,
        [make_hit(1, passage, 0.95, **given)],
        declaration=declared(language="en" if "How" in question else "de"),
    )
    assert found.reply.startswith(f"{expected} [1]")


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        (
            "On public holidays we close at 18:00. On 24 December the hall stays shut.",
            "What time do we close on 24 December?",
            "On 24 December the hall stays shut.",
        ),
        (
            "Le château ouvre à 9 h. Il est fermé le lundi.",
            "À quelle heure ouvre le château le lundi ?",
            "Il est fermé le lundi.",
        ),
        (
            "- Di. bis Do.: 10–17 Uhr, Halle und Keller\n- Mo.: Ruhetag\n- Feiertage: 11 Uhr\n\n",
            "Um wie viel Uhr öffnet die Halle am Montag?",
            "Mo.: Ruhetag",
        ),
        (
            "Wir öffnen um 9 Uhr. Montags bleibt die Halle zu.",
            "Um wie viel Uhr öffnen wir am Montag?",
            "Montags bleibt die Halle zu.",
        ),
    ],
)
def test_an_hour_is_not_told_without_the_exception_for_the_day_that_is_asked_for(
    text: str, question: str, expected: str
) -> None:
    assert expected in ask(question, [make_hit(1, f"{text} Dogs stay outside.")]).reply


def test_of_two_sentences_about_the_day_the_one_about_what_is_asked_for_is_told() -> None:
    pool = (
        "The large pool opens at 7 on weekdays. On Saturdays it opens at 10.\n\nThe paddling pool opens at 12 on "
        "weekdays and at 11 on Saturdays."
    )
    found = ask(
        "What time does the large pool open on Saturday?",
        [make_hit(1, f"{pool}\n\nIn August the large pool opens at 8 in the morning.")],
    )
    assert "On Saturdays it opens at 10." in found.reply


def test_a_further_part_is_about_the_record_that_the_first_one_names() -> None:
    passage = "Price: 95 €\n\nAbout:\nFor beginners. The skipper is Ann Reed."
    lesson = make_hit(2, "Sailing lesson", start=None, passage=passage, title="Sailing lesson")
    other = make_hit(1, "Here you meet Tom Hale.", title="The harbour")
    found = ask("What does the sailing lesson cost and who leads it?", [other, lesson])
    assert "Ann Reed" in found.reply
    assert {source.document_id for source in found.sources} == {"d2"}


def test_each_part_of_a_question_gets_its_answer() -> None:
    found = ask("What does the junk cost for an adult and when does it depart?", [_tour()])
    assert found.reply == "Departure: 14/11/2026 [1] Price, adult: 9.500.000 ₫ [1]"


def test_the_short_first_sentence_of_a_list_item_is_quoted_with_the_others() -> None:
    hit = make_hit(
        1,
        "1. A person decides. No model of ours refuses a reader.\n2. Explain it. For every suggestion we show "
        "three records.",
    )
    assert ask("who decides", [hit]).reply == "A person decides. No model of ours refuses a reader. [1]"


def test_two_parts_that_one_sentence_suits_best_get_the_next_one_too() -> None:
    hit = make_hit(
        1, "The watch asks for its code to pay, once a day. Pay by holding the watch to the till. It has a strap."
    )
    found = ask("How do I pay with the watch, and why does the watch ask for its code?", [hit])
    assert (
        found.reply == "The watch asks for its code to pay, once a day. [1] Pay by holding the watch to the till. [1]"
    )


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("What does the junk cost for an adult, and how heavy is it?", "Not found: “how heavy is it”"),
        (
            "Combien coûte la jonque pour un adulte et à quelle heure est-ce que le déjeuner est servi ?",
            "« à quelle heure est-ce que le déjeuner est servi »",
        ),
    ],
)
def test_a_part_without_an_answer_is_named_in_the_language_of_the_question(question: str, missing: str) -> None:
    found = ask(question, [_tour()])
    assert found.reply.startswith("Price, adult: 9.500.000 ₫ [1] ")
    assert found.reply.endswith(missing)


def test_a_sentence_that_begins_with_a_pronoun_brings_the_one_before() -> None:
    text = "The passport gives access to the park. It costs 32 euros. Dogs stay outside.\n\nIt rains."
    assert (
        ask("How many euros?", [make_hit(1, text)]).reply
        == "The passport gives access to the park. [1] It costs 32 euros. [1]"
    )


def test_a_row_of_a_wide_table_stands_under_its_head_and_is_what_is_quoted() -> None:
    table = (
        "| What | Days | Then |\n|---|---|---|\n| invoices | 10 days | deleted |\n| backups | 35 days | "
        "overwritten |\n\nOthers are not."
    )
    found = ask("after how many days are invoices deleted", [make_hit(1, table)])
    assert found.reply == "What | Days | Then [1] invoices | 10 days | deleted [1]"
    assert found.sources[0].quote == "invoices | 10 days | deleted"


def test_rows_of_a_table_without_names_stand_under_no_other_head() -> None:
    text = (
        "| What | Days | Then |\n|---|---|---|\n| invoices | 10 days | deleted |\n\n| | | |\n| --- | --- | --- |\n"
        "| Bern | 9-17 | open |"
    )
    heads = {sentence.text: sentence.head for sentence in sentences_of([make_hit(1, text)], "en")}
    assert heads == {"invoices | 10 days | deleted": (2, 20), "Bern | 9-17 | open": None}


def test_of_records_of_one_kind_the_one_that_the_question_names_answers() -> None:
    other = _tour(
        passage=_TOUR.replace("The junk", "The kayak").replace("14/11", "18/09"), title="The kayak", document_id="1102"
    )
    for hits in ([_tour(), other], [other, _tour()]):
        assert ask("When does the junk depart?", hits).reply == "Departure: 14/11/2026 [1]"
        assert ask("When does the kayak depart?", hits).reply == "Departure: 18/09/2026 [1]"


def test_words_that_are_everywhere_in_the_version_weigh_little_among_the_sentences_of_a_few_hits() -> None:
    text = "Quokkas sleep. Quokkas eat leaves. Quokkas rest. Behind the gate of the house is a tree."
    question, embedder = "where is the quokka of the", CountingWords()
    rare = AnalyzedQuery("en", False, {"where": 900, "is": 1000, "the": 1000, "of": 1000, "quokka": 1}, 1000)
    vector, hits = embedder.embed_queries([question])[0], [make_hit(1, text)]
    by_hits, by_version = (
        extract(
            question, vector, hits, embedder, embedder.embed_queries, "en", cuts_words=False, readings=readings
        ).picked[0]
        for readings in ([], [rare])
    )
    assert by_hits.sentence.text.startswith("Behind the gate")
    assert by_version.sentence.text.startswith("Quokkas")
    assert by_version.holds is None
    assert 0 < by_version.overlap <= 1


def test_an_answer_from_a_record_can_be_read_and_its_source_shows_the_record() -> None:
    found = ask("What is the price for an adult?", [_tour(metadata={"price": 9_500_000}, tags=["boat"])])
    assert found.reply == "Price, adult: 9.500.000 ₫ [1]"
    (source,) = found.sources
    assert (source.quote, source.text) == ("Price, adult: 9.500.000 ₫", "The junk. Two days on a boat.")
    assert (source.passage, source.metadata, source.tags) == (_TOUR, {"price": 9_500_000}, ["boat"])


def test_a_question_in_a_record_is_the_context_of_its_answer() -> None:
    hit = make_hit(1, "x", start=None, title="FAQ", passage="Question: Is there wifi?\nAnswer: Yes, in all cabins.")
    assert [(s.text, s.context) for s in sentences_of([hit], "en")] == [
        ("Yes, in all cabins.", "FAQ Is there wifi? Answer")
    ]


def test_a_hit_of_little_relevance_is_not_quoted_beside_a_relevant_one() -> None:
    first, about, beside, unknown = (
        make_hit(rank, text).model_copy(update={"relevance": value})
        for rank, (text, value) in enumerate((("A.", 0.01), ("B.", 0.9), ("C.", 0.1), ("D.", None)), start=1)
    )
    assert hits_to_quote([first, about, beside, unknown]) == [first, about, unknown], (
        "the first two are, whatever their relevance"
    )
    assert hits_to_quote([beside]) == [beside]


def test_another_record_is_not_quoted_beside_the_one_that_is_surely_asked_about() -> None:
    kettle, hose = (
        make_hit(rank, "x", value, start=None, passage="Price: 9 euros") for rank, value in ((1, 0.9), (2, 0.1))
    )
    assert hits_to_quote([kettle, hose]) == [kettle]
    assert hits_to_quote([kettle, make_hit(2, "A list of prices.", 0.1)])[1:], "a document may speak of the thing, too"
    nearly = kettle.model_copy(update={"relevance": 0.4})
    assert hits_to_quote([nearly, hose.model_copy(update={"relevance": 0.01})])[1:]


@pytest.mark.parametrize("question", ["-", " …?! ", "🦊"])
def test_what_has_no_letter_or_digit_is_no_question(question: str) -> None:
    found = ask(question, [make_hit(1, "A refund takes fourteen days.")])
    assert (found.answered, found.answerability, found.sources) == (False, 0.0, [])
    assert ask("refund", [make_hit(1, "A refund takes fourteen days.")]).answered


def test_a_sentence_too_long_to_be_quoted_is_parted_at_its_semicolons() -> None:
    clauses = [
        f"the {name} of the house keeps {'every letter and ' * 8}a book of accounts{end}"
        for name, end in (("steward", ";"), ("cook", ";"), ("groom", "."))
    ]
    assert _texts(make_hit(1, " ".join(clauses))) == clauses
    assert _texts(make_hit(1, "It rains; we stay.")) == ["It rains; we stay."]
