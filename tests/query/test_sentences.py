"""Sentences of hits: what counts as one, what it stands under, and each once."""

from hypothesis import given
from hypothesis import strategies as st

from almanac.query.answering.hit_sentences import sentences_of
from almanac.schemas.results import Hit
from tests.query.answering import make_hit


def _texts(hit: Hit) -> list[str]:
    return [s.text for s in sentences_of([hit])]


@given(
    st.text(st.sampled_from("ab É.!?。؟ \n|#-*:1שọ🙂"), min_size=1, max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 150)), max_size=4),
    st.sampled_from(["en", "fr", "he", "vi", "zh", "und"]),
)
def test_every_sentence_stands_in_its_hit_and_once(text: str, spans: list[tuple[int, int]], language: str) -> None:
    """Chunks here overlap, repeat, hold each other and begin anywhere."""
    cut = [(start, text[start : start + length]) for start, length in spans if text[start : start + length]]
    hits = [
        make_hit(rank, piece, document_id="d", start=start, language=language)
        for rank, (start, piece) in enumerate(cut, start=1)
    ]
    sentences = sentences_of(hits)
    for sentence in sentences:
        assert sentence.text == hits[sentence.hit].text[sentence.start : sentence.end] == sentence.text.strip() != ""
    spots = [(hits[s.hit].start or 0) + s.start for s in sentences]
    assert len(spots) == len(set(spots))


def test_code_stays_with_the_sentence_that_introduces_it() -> None:
    code = "To follow the log of a service, do:\n\n```bash\njournalctl -u web\n\njournalctl -f\n```"
    logs = f"# Logs\n\nLogs are kept for a week. {code}\n\nThen restart it."
    assert _texts(make_hit(1, logs)) == ["Logs are kept for a week.", code, "Then restart it."]
    indented = (
        "Build it by:\n\n    make\n    make install\n\n1. To test it, run:\n   ~~~\n   make check\n   ~~~\n2. Done."
    )
    assert _texts(make_hit(1, indented)) == [
        "Build it by:\n\n    make\n    make install",
        "To test it, run:\n   ~~~\n   make check\n   ~~~",
        "Done.",
    ]


def test_a_row_stands_under_the_head_of_its_table() -> None:
    table = "## Prices\n\n| Who | Refund |\n|---|---|\n| Child | 12 € |\n| Adult | 30 € |\n\nOther things."
    assert _texts(make_hit(1, table)) == ["Child | 12 €", "Adult | 30 €", "Other things."]
    assert [s.context for s in sentences_of([make_hit(1, table)])][:2] == ["Rules Prices Who Refund"] * 2


def test_a_list_stands_under_what_leads_to_it() -> None:
    text = (
        "You need for the visa:\n- a passport\n- two photographs,\n  not older than a year\n\nWeight: 2 kg\nColour: red"
    )
    sentences = sentences_of([make_hit(1, text)])
    assert [(s.text, s.context) for s in sentences] == [
        ("a passport", "Rules You need for the visa:"),
        ("two photographs,", "Rules You need for the visa:"),
        ("not older than a year", "Rules You need for the visa:"),
        ("Weight: 2 kg", "Rules"),
        ("Colour: red", "Rules"),
    ]


def test_lines_that_an_editor_wrapped_are_one_paragraph() -> None:
    text = (
        "The battery lasts for eighteen hours when the screen\nis dimmed, and for eleven hours when films are "
        "shown\nall day. It charges within two hours."
    )
    assert _texts(make_hit(1, text)) == [text[: text.index(" It charges")], "It charges within two hours."]


def test_a_line_alone_above_prose_is_a_heading_and_no_answer() -> None:
    text = (
        "Guide\n\nThe five principles\n\nRefunds\n\nA refund takes days.\n\nWeight: 2 kg\n\nA visa takes longer.\n"
        "\nTwenty kilos"
    )
    assert [(s.text, s.context) for s in sentences_of([make_hit(1, text)])] == [
        ("A refund takes days.", "Rules Refunds"),
        ("Weight: 2 kg", "Rules Refunds"),
        ("A visa takes longer.", "Rules Refunds"),
        ("Twenty kilos", "Rules Refunds"),
    ]
    assert _texts(make_hit(1, "วีซ่า\n\nใช้เวลาสิบวัน\n\nกระเป๋าฟรี", start=9, language="th")) == [
        "วีซ่า",
        "ใช้เวลาสิบวัน",
        "กระเป๋าฟรี",
    ]


def test_code_of_many_lines_is_quoted_by_lines() -> None:
    assert len(_texts(make_hit(1, "Run:\n\n```\n" + "make it again\n" * 100 + "```\n"))) == 100


def test_rows_of_a_table_without_names_stand_under_no_other_head() -> None:
    text = (
        "| What | Days | Then |\n|---|---|---|\n| invoices | 10 days | deleted |\n\n| | | |\n| --- | --- | --- |\n"
        "| Bern | 9-17 | open |"
    )
    heads = {sentence.text: sentence.head for sentence in sentences_of([make_hit(1, text)])}
    assert heads == {"invoices | 10 days | deleted": (2, 20), "Bern | 9-17 | open": None}


def test_rows_whose_head_is_in_another_chunk_are_rows() -> None:
    assert _texts(make_hit(1, "| Bern | 9-17 |\n| Basel | 8-12 |", start=9)) == ["Bern | 9-17", "Basel | 8-12"]


def test_what_introduces_a_list_is_no_answer_even_where_the_list_is_cut_off() -> None:
    assert _texts(make_hit(1, "The boat is new. The following are included:")) == ["The boat is new."]


def test_overlapping_chunks_give_no_sentence_twice_and_none_by_half() -> None:
    text = (
        "A refund takes ten days. A visa takes longer than that, whoever asks for it. Luggage is free. A passport "
        "is needed, always. Nothing else is."
    )
    hits = [make_hit(2, text[:60], document_id="d"), make_hit(1, text[40:], document_id="d", start=40)]
    texts = [s.text for s in sentences_of(hits) if not s.is_cut]
    assert texts == [
        "A refund takes ten days.",
        "Luggage is free.",
        "A passport is needed, always.",
        "Nothing else is.",
    ]
    alone = [s.text for s in sentences_of(hits[1:]) if not s.is_cut]
    assert alone == ["Luggage is free.", "A passport is needed, always.", "Nothing else is."]


def test_a_chunk_cut_between_words_is_not_quoted_from_its_first_half_sentence() -> None:
    hit = make_hit(1, "Porto office is closed on Monday. A refund takes days.", start=400)
    assert [s.is_cut for s in sentences_of([hit])] == [False, False]
    assert [s.is_cut for s in sentences_of([hit.model_copy(update={"begins_anywhere": True})])] == [True, False]


def test_a_sentence_that_no_chunk_has_whole_is_cut_and_the_longest_form_of_it_is_taken() -> None:
    text = "The museum opens daily at nine and closes at six in the evening"
    ends = [text.index(" and closes"), text.index(" six")]
    hits = [make_hit(rank, text[:end], document_id="d", ends_anywhere=True) for rank, end in enumerate(ends, 1)]
    assert [(s.text, s.is_cut) for s in sentences_of(hits)] == [(hits[1].text, True)]
    assert [(s.text, s.is_cut) for s in sentences_of([*hits, make_hit(3, text, document_id="d")])] == [(text, False)]
    guessed = [hit.model_copy(update={"ends_anywhere": False}) for hit in hits]
    assert [s.text for s in sentences_of(guessed)] == [hits[1].text]


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
    fields = {"title": "The junk", "document_id": "1101", "start": None, "passage": _TOUR, **given}
    return make_hit(1, "The junk. Two days on a boat.", 0.95, **fields).model_copy(update={"url": "http://x/junk"})


def test_a_line_of_a_record_is_a_sentence_and_a_long_text_has_its_label_as_context() -> None:
    hit = _tour()
    sentences = sentences_of([hit])
    assert all(hit.readable[s.start : s.end] == s.text for s in sentences)
    assert [(s.text, s.context) for s in sentences] == [
        ("Departure: 14/11/2026", "The junk"),
        ("Price, adult: 9.500.000 ₫", "The junk"),
        ("Note: Bring your passport. Dogs stay ashore.", "The junk"),
        ("15 days before: 10%", "The junk Cancellation terms If you cancel"),
        ("The whole price is kept.", "The junk Cancellation terms If you cancel"),
        ("Storms are another matter.", "The junk Cancellation terms If you cancel"),
    ]


def test_a_value_in_sentences_keeps_the_label_that_turns_its_meaning() -> None:
    long = f"Description: {'Bring it along. ' * 20}It is yours."
    passage = f"Included: Harness, helmet, guide.\nNot included: Gloves, food.\n{long}"
    sentences = sentences_of([_tour(passage=passage)])
    assert [s.text for s in sentences[:4]] == [
        "Included: Harness, helmet, guide.",
        "Not included: Gloves, food.",
        "Description: Bring it along.",
        "Bring it along.",
    ]


def test_the_one_sentence_that_is_the_text_of_a_record_has_no_label() -> None:
    passage = "Text: Two days on a boat.\nNot included: Gloves, food."
    assert [s.text for s in sentences_of([_tour(passage=passage)])] == [
        "Two days on a boat.",
        "Not included: Gloves, food.",
    ]
    two = _tour(passage="Text: Two days on a boat. Dogs stay ashore.").model_copy(
        update={"text": "The junk. Two days on a boat. Dogs stay ashore."}
    )
    assert [s.text for s in sentences_of([two])] == ["Text: Two days on a boat. Dogs stay ashore."]
    only_title = _tour(passage=passage).model_copy(update={"text": "The junk"})
    assert [s.text for s in sentences_of([only_title])] == [
        "Text: Two days on a boat.",
        "Not included: Gloves, food.",
    ]


def test_what_answers_a_question_is_quoted_without_its_label() -> None:
    pair = "Question: Is there a lift?\nAnswer: No, there are stairs."
    assert [s.text for s in sentences_of([_tour(passage=pair)])] == ["No, there are stairs."]
    assert [s.text for s in sentences_of([_tour(passage=pair.split("\n")[1], title="Is there a lift?")])] == [
        "No, there are stairs."
    ]


def test_a_question_in_a_record_is_the_context_of_its_answer() -> None:
    hit = make_hit(1, "x", start=None, title="FAQ", passage="Question: Is there wifi?\nAnswer: Yes, in all cabins.")
    assert [(s.text, s.context) for s in sentences_of([hit])] == [("Yes, in all cabins.", "FAQ Is there wifi? Answer")]
