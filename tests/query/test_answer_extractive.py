"""Extractive answers say only what stands in the hits, whole, once, and cited."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.index.embedding.embedder import Vectors
from almanac.index.lexical.lexical_reader import AnalyzedQuery
from almanac.query.answering.extractive import extract, texts_of_sentences
from almanac.query.answering.question_parts import parts_of_question
from almanac.query.answering.reading import Reader
from almanac.schemas.results import Answer, Hit
from tests.query.answering import UNKNOWN, CountingWords, ask, declared, make_hit

_WORDS = Reader(CountingWords(), None, is_multilingual=False)


def test_the_sentence_that_answers_is_quoted_with_its_marker() -> None:
    text = "Bring your passport. You get a refund within fourteen days. Luggage is free up to twenty kilos."
    answer = ask("refund in how many days?", [make_hit(1, text)])
    assert answer.answered
    assert answer.reply == "You get a refund within fourteen days. [1]"
    assert (answer.sources[0].quote, answer.sources[0].confidence) == ("You get a refund within fourteen days.", "high")
    assert answer.citation == "Source: The rules"


def test_a_heading_and_a_question_give_context_and_are_never_the_answer() -> None:
    text = "## Refund\n\nAfter how many days is a refund paid?\n\nFourteen.\n\n## Luggage\n\n- Twenty kilos."
    answer = ask("refund after how many days", [make_hit(1, text, 0.5)])
    assert answer.reply == "Fourteen. [1]"
    assert answer.sources[0].confidence == "medium"


def test_markers_number_the_sources_that_are_cited() -> None:
    answer = ask("refund days", [make_hit(1, "Bring a visa."), make_hit(2, "A refund takes days.")])
    assert answer.reply == "A refund takes days. [1]"
    assert [(s.marker, s.document_id) for s in answer.sources] == [("[1]", "d2")]


def test_a_marker_stands_on_a_line_of_its_own_behind_code() -> None:
    code = "For a refund, run:\n\n```bash\nrefund --days 14\n```"
    answer = ask("refund days", [make_hit(1, f"# Help\n\n{code}\n\nThen wait.")])
    assert answer.sources[0].quote == code
    assert answer.reply == f"{code}\n[1]"


def test_hits_that_say_nothing_are_no_answer() -> None:
    assert ask("refund", [make_hit(1, "## Refund\n\n---\n\n?!")]).reply == UNKNOWN


@pytest.mark.parametrize("question", ["-", " …?! ", "🦊"])
def test_what_has_no_letter_or_digit_is_no_question(question: str) -> None:
    answer = ask(question, [make_hit(1, "A refund takes fourteen days.")])
    assert (answer.answered, answer.answerability, answer.sources) == (False, 0.0, [])
    assert ask("refund", [make_hit(1, "A refund takes fourteen days.")]).answered


@pytest.mark.parametrize(
    ("language", "question", "text", "expected"),
    [
        (
            "fr",
            "Quel prix pour un ENFANT ?",
            "Les jardins ouvrent à huit heures. L'entrée est gratuite pour les enfants. Le parc ferme à vingt heures.",
            "L'entrée est gratuite pour les enfants.",
        ),
        (
            "he",
            "לכמה שנים האחריות?",
            "הסוללה נטענת בשעתיים. האחריות היא לשלוש שנים. המסך הוא 14 אינץ׳.",
            "האחריות היא לשלוש שנים.",
        ),
        (
            "vi",
            "tre em co duoc mien phi khong",
            "Tàu khởi hành lúc tám giờ. Trẻ em dưới năm tuổi được miễn phí. Có bữa trưa.",
            "Trẻ em dưới năm tuổi được miễn phí.",
        ),
    ],
)
def test_words_count_where_the_embedder_knows_none_of_them(
    language: str, question: str, text: str, expected: str
) -> None:
    answer = ask(question, [make_hit(1, text)], declaration=declared(language=language))
    assert answer.reply == f"{expected} [1]"


def test_words_that_are_everywhere_in_the_version_weigh_little_among_the_sentences_of_a_few_hits() -> None:
    hits = [make_hit(1, "Quokkas sleep. Quokkas eat leaves. Quokkas rest. Behind the gate of the house is a tree.")]
    rare = AnalyzedQuery("en", False, {"where": 900, "is": 1000, "the": 1000, "of": 1000, "quokka": 1}, 1000)
    by_hits, by_version = (
        [pick.sentence.text for pick in extract("where is the quokka of the", hits, _WORDS, readings=readings)]
        for readings in ([], [rare])
    )
    assert by_hits[-1].startswith("Behind the gate")
    assert all(text.startswith("Quokkas") for text in by_version)


def test_another_passage_is_only_said_when_it_answers_as_well() -> None:
    hit, other = make_hit(1, "A refund takes days."), make_hit(2, "Bring luggage of twenty kilos.")
    assert ask("refund in how many days?", [hit, other]).reply == "A refund takes days. [1]"
    alike = make_hit(2, "Refunds of a lost ticket need days.")
    assert len(ask("refund in how many days?", [hit, alike]).sources) == 2


def test_a_reply_has_four_sentences_at_most_and_380_characters_and_none_twice() -> None:
    many = " ".join(f"A refund of ticket {name} takes days." for name in "ABCDEFGH")
    assert ask("refund days", [make_hit(1, many)]).reply.count("[1]") == 1, "they differ by a letter"
    names = ["by bank transfer", "in cash at the desk", "as a voucher for later", "on a card abroad", "for a parrot"]
    unlike = " ".join(f"A refund {name} takes days." for name in names)
    assert ask("refund days", [make_hit(1, unlike)]).reply.count("[1]") == 4
    long = " ".join(f"A refund {name} takes days, {f'{name} and {name} again, ' * 4}always." for name in names)
    assert len(ask("refund days", [make_hit(1, long)]).reply) <= 380 + 4 * len(" [1]")


def test_of_very_many_sentences_those_with_most_words_of_the_question_are_read() -> None:
    read = list[str]()

    class Noting(CountingWords):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            read.extend(texts)
            return super().embed_documents(texts)

    text = " ".join(f"The {number}. visa is for luggage." for number in range(200))
    hits = [make_hit(1, f"{text} A refund takes a fortnight.")]
    picks = extract("when is a refund paid", hits, Reader(Noting(), None, is_multilingual=False))
    assert (len(read), picks[0].sentence.text) == (60, "A refund takes a fortnight.")


def test_a_row_of_a_wide_table_stands_under_its_head_and_is_what_is_quoted() -> None:
    table = (
        "| What | Days | Then |\n|---|---|---|\n| invoices | 10 days | deleted |\n| backups | 35 days | "
        "overwritten |\n\nOthers are not."
    )
    answer = ask("after how many days are invoices deleted", [make_hit(1, table)])
    assert answer.reply == "What | Days | Then [1] invoices | 10 days | deleted [1]"
    assert answer.sources[0].quote == "invoices | 10 days | deleted"


def test_the_same_field_of_two_records_is_quoted_with_their_titles() -> None:
    bags = [
        make_hit(n, f"Price: {n}00 EUR", title=title, start=None, passage=f"Price: {n}00 EUR")
        for n, title in ((2, "Polaris"), (1, "Polaris junior"))
    ]
    assert ask("Price of a bag?", bags).reply == "Polaris, Price: 200 EUR [1] Polaris junior, Price: 100 EUR [2]"
    assert ask("Price of a bag?", bags[:1]).reply == "Price: 200 EUR [1]"
    for title in ("", "Polaris"):
        alike = [bag.model_copy(update={"title": title}) for bag in bags]
        assert ask("Price of a bag?", alike).reply == "Price: 200 EUR [1] Price: 100 EUR [2]", (
            "the titles tell nothing apart"
        )


def test_an_answer_from_a_record_can_be_read_and_its_source_shows_the_record() -> None:
    passage = "Price, adult: 95 €\nDeparture: 14/11/2026\n\nNote:\nBring your passport."
    fields: dict[str, Any] = {"start": None, "passage": passage, "metadata": {"price": 95}, "tags": ["boat"]}
    answer = ask("What is the price for an adult?", [make_hit(1, "The junk. Two days on a boat.", **fields)])
    assert answer.reply == "Price, adult: 95 € [1]"
    (source,) = answer.sources
    assert (source.quote, source.text) == ("Price, adult: 95 €", "The junk. Two days on a boat.")
    assert (source.passage, source.metadata, source.tags) == (passage, {"price": 95}, ["boat"])


@given(
    st.text(st.sampled_from("ab É.!?。؟ \n|#-*:1שọ🙂"), min_size=1, max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 150)), max_size=4),
    st.sampled_from(["en", "fr", "he", "vi", "zh", "auto"]),
)
def test_every_sentence_of_a_reply_stands_in_its_source(text: str, spans: list[tuple[int, int]], language: str) -> None:
    cut = [(start, text[start : start + length]) for start, length in spans if text[start : start + length]]
    hits = [make_hit(rank, piece, document_id="d", start=start) for rank, (start, piece) in enumerate(cut, start=1)]
    _stands_in_its_sources(ask("a b É?", hits, declaration=declared(language=language)))


def _stands_in_its_sources(answer: Answer) -> None:
    assert answer.answered == bool(answer.sources)
    if not answer.answered:
        return
    rest = answer.reply
    for source in answer.sources:
        assert source.quote in source.text
        assert f"{source.quote} {source.marker}" in answer.reply
    # What is left when each marked sentence is taken out is nothing.
    by_marker = {source.marker: source.text for source in answer.sources}
    while rest:
        marker, end = min(_marks(rest, by_marker), key=lambda at: at[1])
        assert rest[:end].strip() in by_marker[marker]
        rest = rest[end + len(marker) :].lstrip()


def _marks(rest: str, markers: dict[str, str]) -> Iterator[tuple[str, int]]:
    return ((marker, rest.index(marker)) for marker in markers if marker in rest)


def test_what_answers_will_read_is_known_ahead() -> None:
    hits = [make_hit(1, "# Fees\n\nA visa is free.\n\n| Who | Fee |\n|---|---|\n| Child | 2 € |\n| Adult | 4 € |")]
    assert texts_of_sentences(hits) == [
        "Rules Fees A visa is free.",
        "Rules Fees Who Fee Child | 2 €",
        "Rules Fees Who Fee Adult | 4 €",
    ]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("What does it cost and when does it start?", ["What does it cost", "when does it start?"]),
        ("Was kostet das und wann beginnt der Kurs?", ["Was kostet das", "wann beginnt der Kurs?"]),
        ("Combien coûte le billet et à quelle heure part le bateau ?", None),
        ("Giá vé người lớn là bao nhiêu và tàu khởi hành lúc mấy giờ?", None),
        ("I lost my ticket on the boat. Where can I get a new one?", None),
        ("Is there a bed and breakfast?", []),
        ("When does it start?", []),
        ("", []),
    ],
)
def test_parts_of_a_question_are_its_sentences_and_what_and_joins(question: str, parts: list[str] | None) -> None:
    question_parts = parts_of_question(question)
    assert question_parts == parts if parts is not None else len(question_parts) == 2
    assert all(part in question for part in question_parts)


_HALL = """# The swimming hall

The hall opens at seven on weekdays and at nine on Saturdays. It is closed on public holidays.

Children under six swim free of charge; everybody else pays 4.50 euros.

Lost property is kept for thirty days at the cash desk. Lockers take a coin of one euro.

## Courses

Courses for beginners start in September. Dogs stay outside."""
_POTTERY = """# Töpferwerkstatt

Der Brennofen läuft jeden Donnerstag über Nacht. Glasierte Stücke holen Sie am Samstag ab.

Ton verkaufen wir im Block zu zehn Kilogramm. Werkzeuge leihen wir kostenlos aus.

Wer zum ersten Mal kommt, wird von Frau Okafor eingewiesen."""
_CAFE = (
    "# Quán cà phê\n\nQuán mở cửa từ sáu giờ sáng. Khách được mang theo chó nhỏ. Wifi miễn phí ở tầng hai. "
    "Bãi xe nằm phía sau quán."
)
_FERRY = """# Ferry fares

Tickets are sold on board.

| Passenger | Single | Return | Season |
|---|---|---|---|
| Adult | 8 € | 14 € | 190 € |
| Child | 3 € | 5 € | 60 € |
| Bicycle | 2 € | 4 € | 40 € |

The ferry runs from April to October."""
_BACKUPS = """# Backups

Backups are written every night. They are kept for a month.

To restore a backup, run:

```bash
vault restore --from latest
vault verify
```

Passwords are not part of a backup."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "language", "question", "expected"),
    [
        (_HALL, "en", "What does a swim cost for grown-ups?", "everybody else pays 4.50 euros."),
        (_HALL, "en", "Where do I find the umbrella that I forgot?", "Lost property is kept for thirty days"),
        (_HALL, "en", "wat do chidlren pay", "Children under six swim free of charge"),
        (_HALL, "en", "À quelle heure ouvre la piscine le samedi ?", "at nine on Saturdays."),
        (_POTTERY, "de", "Wieviel Ton ist in einem Blok?", "im Block zu zehn Kilogramm."),
        (_POTTERY, "de", "Wer zeigt Anfängern alles?", "wird von Frau Okafor eingewiesen."),
        (_POTTERY, "de", "When does the kiln run?", "Der Brennofen läuft jeden Donnerstag über Nacht."),
        (_CAFE, "vi", "Where can I use the internet?", "Wifi miễn phí ở tầng hai."),
        (_CAFE, "vi", "mang cho nho duoc khong", "Khách được mang theo chó nhỏ."),
        (_FERRY, "en", "What does a child pay for a return ticket?", "Season [1] Child | 3 € | 5 € | 60 € [1]"),
        (_BACKUPS, "en", "How do I get my data back?", "vault restore --from latest\nvault verify\n```\n[1]"),
    ],
)
def test_what_a_question_means_is_found_in_other_words_and_languages(
    reader: Reader, text: str, language: str, question: str, expected: str
) -> None:
    answer = ask(question, [make_hit(1, text)], declaration=declared(language=language), reader=reader)
    assert expected in answer.reply


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "language", "question", "expected"),
    [
        (_HALL, "en", "When do courses start, and what coin does a locker need?", ["in September.", "one euro."]),
        (_POTTERY, "de", "Kann man Werkzeug leihen und wann läuft der Ofen?", ["kostenlos aus.", "über Nacht."]),
    ],
)
def test_each_part_of_a_question_gets_its_answer(
    reader: Reader, text: str, language: str, question: str, expected: list[str]
) -> None:
    answer = ask(question, [make_hit(1, text)], declaration=declared(language=language), reader=reader)
    assert all(f"{sentence} [1]" in answer.reply for sentence in expected)


def _boat(rank: int, title: str, passage: str) -> Hit:
    return make_hit(rank, title, title=title, start=None, passage=passage)


@pytest.mark.slow
def test_of_records_of_one_kind_the_one_that_the_question_names_answers(reader: Reader) -> None:
    heron = "Length: 5.2 m\nCrew: 2\nPrice per day: 60 €\n\nAbout:\nA quiet dinghy for lakes."
    marlin = "Length: 8.4 m\nCrew: 4\nPrice per day: 140 €\n\nAbout:\nA fast keelboat for the open sea."
    for ranks in ((1, 2), (2, 1)):
        hits = sorted(
            [_boat(ranks[0], "Heron 2", heron), _boat(ranks[1], "Marlin 4", marlin)], key=lambda hit: hit.rank
        )
        for question, expected in (
            ("How much is the Heron 2 a day?", "Price per day: 60 € [1]"),
            ("What does the Marlin 4 cost?", "Price per day: 140 € [1]"),
            ("How long is the Marlin 4?", "Length: 8.4 m [1]"),
        ):
            answer = ask(question, hits, reader=reader)
            assert expected in answer.reply
            assert {source.title for source in answer.sources} == {"Heron 2" if "Heron" in question else "Marlin 4"}
