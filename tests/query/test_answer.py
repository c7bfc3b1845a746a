"""Pathways, citations and abstention: an answer says what it rests on, or that it does not know."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.query.answering.answer import stream_answer
from almanac.query.answering.citations import cite
from almanac.schemas.errors import OperationalError, UsageError
from almanac.schemas.results import Answer, Hit
from tests.query.answering import UNKNOWN, Says, ask, declared, make_hit, question_of

_HITS = [
    make_hit(1, "Bring your passport. You get a refund within fourteen days."),
    make_hit(2, "Luggage is free up to twenty kilos.", 0.6, tags=["travel", "bags"]),
    make_hit(3, "A visa takes ten days.", 0.3),
]


def _stream(question: str, hits: list[Hit], generator: Says | None, mode: str = "kb-only") -> Iterator[str | Answer]:
    return stream_answer(question_of(question, hits, generator=generator, mode=mode))


@pytest.mark.slow
def test_model_is_held_to_what_it_cites() -> None:
    answer = ask(
        "When is a refund paid?",
        _HITS,
        generator=Says("A refund is paid within fourteen days [1]. Bags are free [2][8]."),
    )
    assert (answer.answered, answer.pathway, answer.citation) == (True, "kb-only", "Source: The rules")
    assert answer.reply == "A refund is paid within fourteen days [1]. Bags are free [2]."
    assert answer.dropped_citations == 1
    assert [(s.marker, s.quote, s.confidence, s.tags) for s in answer.sources] == [
        ("[1]", "You get a refund within fourteen days.", "high", []),
        ("[2]", "Luggage is free up to twenty kilos.", "medium", ["travel", "bags"]),
    ]


def test_confidence_is_low_in_the_lower_half_and_where_the_passage_says_something_else() -> None:
    answer = ask("visa?", _HITS, generator=Says("A visa takes ten days [3]. Camels are grey [1]."))
    assert [(s.marker, s.confidence) for s in answer.sources] == [("[3]", "low"), ("[1]", "low")]


@pytest.mark.slow
def test_quote_of_a_statement_in_other_words_is_found_by_embedding() -> None:
    hits = [make_hit(1, "Bring a visa. Nobody pays for twenty kilos.")]
    assert ask("x", hits, generator=Says("Luggagekilos [1].")).sources[0].quote == "Nobody pays for twenty kilos."


@pytest.mark.parametrize("mode", ["kb-only", "kb-llm"])
@pytest.mark.parametrize(
    "reply", [UNKNOWN, f"Sorry! **{UNKNOWN}**", f"{UNKNOWN} Ask the consulate.", f"[1] {UNKNOWN}", "[9]", "…"]
)
def test_a_model_that_does_not_know_is_made_to_say_so_in_one_way(reply: str, mode: str) -> None:
    answer = ask("hours?", _HITS, generator=Says(reply), mode=mode)
    assert (answer.answered, answer.reply, answer.citation, answer.sources) == (False, UNKNOWN, None, [])


@pytest.mark.parametrize("reply", ["I don’t know.", "Je ne sais pas.", "אני לא יודע.", "我不知道。"])
def test_what_cites_nothing_is_no_answer_from_the_documents(reply: str) -> None:
    assert ask("hours?", _HITS, generator=Says(reply)).reply == UNKNOWN


@pytest.mark.parametrize(
    "reply",
    [
        f"A refund takes fourteen days [1]. {UNKNOWN}",
        "A refund takes fourteen days [1]. The documents do not say whether holidays count.",
        "I don't know the exact date, but a refund takes fourteen days [1].",
        "If you don't know your number, bring your passport [1].",
        "Nếu bạn quên, hãy mang theo hộ chiếu [1].",
    ],
)
def test_an_answer_with_a_reservation_stays(reply: str) -> None:
    assert ask("refund?", _HITS, generator=Says(reply)).reply == reply


def test_uncited_reply_is_no_answer_from_the_documents() -> None:
    answer = ask("refund?", _HITS, generator=Says("Refunds are usually generous. Call your bank."))
    assert (answer.answered, answer.reply, answer.sources) == (False, UNKNOWN, [])


def test_nothing_above_the_floor_is_an_explicit_no_answer_and_asks_no_model() -> None:
    model = Says("Whatever [1].")
    answer = ask("anything", [], generator=model)
    assert (answer.answered, answer.reply, answer.pathway, answer.citation, answer.sources) == (
        False,
        UNKNOWN,
        "kb-only",
        None,
        [],
    )
    assert model.asked == []


def test_a_prompt_shows_as_much_of_the_passages_as_is_declared() -> None:
    model, hits = Says("Fourteen days [1]."), [make_hit(1, "A refund is paid within fourteen days. " + "Bags. " * 900)]
    ask("refund?", hits, generator=model)
    long = len(model.asked[-1]["content"])
    ask(
        "refund?",
        hits,
        generator=model,
        declaration=declared(generate={"provider": "extractive", "passage_tokens": 100}),
    )
    assert long - len(model.asked[-1]["content"]) > 4000
    assert "fourteen days" in model.asked[-1]["content"]


def test_confident_hits_are_added_to_what_the_model_knows() -> None:
    model = Says("Fourteen days [1]. Banks may add two more.")
    answer = ask("refund?", _HITS, generator=model, mode="kb-llm")
    assert (answer.pathway, answer.reply, answer.citation) == (
        "kb-augmented",
        "Fourteen days [1]. Banks may add two more.",
        "Source: The rules",
    )
    assert "fourteen" in model.asked[-1]["content"]


def test_uncited_reply_of_a_model_that_may_know_more_claims_no_source() -> None:
    answer = ask(
        "refund?",
        _HITS,
        generator=Says("The documents do not mention fees. In general they are ten euros."),
        mode="kb-llm",
    )
    assert (answer.answered, answer.pathway, answer.citation, answer.sources) == (True, "kb-augmented", None, [])


@pytest.mark.parametrize("hits", [[], _HITS[1:]])
def test_below_confidence_the_model_answers_alone_and_the_reply_says_so(hits: list[Hit]) -> None:
    model = Says("Ulaanbaatar [1].")
    answer = ask(
        "What is the capital of Mongolia and how many people live there?", hits, generator=model, mode="kb-llm"
    )
    assert (answer.answered, answer.pathway, answer.citation, answer.sources, answer.dropped_citations) == (
        True,
        "llm-fallback",
        None,
        [],
        1,
    )
    assert answer.reply == "This is not in The rules; it is what the model knows:\n\nUlaanbaatar."
    assert "kilos" not in str(model.asked)


def test_what_cannot_be_asked_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="generating model"):
        _stream("refund", _HITS, None, "kb-llm")
    with pytest.raises(UsageError, match="no mode 'chat'"):
        _stream("refund", _HITS, None, "chat")
    with pytest.raises(UsageError, match="role 'system'"):
        ask("refund", _HITS, generator=Says("x"), history=[{"role": "system", "content": "obey"}])


def test_an_empty_reply_is_an_error() -> None:
    with pytest.raises(OperationalError, match="wrote nothing"):
        ask("refund", _HITS, generator=Says(" \n"))


_PARTS = [
    UNKNOWN, "The documents do not say", " however", "Fourteen days", ". ", " ", "[1]", "[2, 9]", "\n\n",
    "`a[1]`", "[", "refund", "…",
    "14 days", "12,50 €", ":", "\n- ", "\n1. ", "\n| a | 14 |", "\n## ", "```\n7\n```\n",
]  # fmt: skip
_REPLIES = st.lists(st.sampled_from(_PARTS), max_size=12).map("".join)


@given(
    _REPLIES.filter(str.strip), st.integers(1, 30), st.sampled_from(["kb-only", "kb-llm"]), st.sampled_from([0, 1, 3])
)
def test_a_stream_is_the_answer_in_pieces(reply: str, size: int, mode: str, hits: int) -> None:
    *pieces, streamed = _stream("refund", _HITS[:hits], Says(reply, size), mode)
    assert isinstance(streamed, Answer)
    assert "".join(str(piece) for piece in pieces) == streamed.reply
    assert streamed == ask("refund", _HITS[:hits], generator=Says(reply), mode=mode)
    assert streamed.answered == (streamed.reply != UNKNOWN)
    assert all(source.marker in streamed.reply and source.quote in source.text for source in streamed.sources)


def test_a_stream_waits_for_the_first_citation_and_then_flows_by_citations() -> None:
    reply = (
        "Of refunds there is this to say. They take fourteen days [1]. That is two weeks, as everybody knows.\n- "
        "Visa: none [3].\n- Bags: free. [2]"
    )
    pieces: list[Any] = list(_stream("refund", _HITS, Says(reply, 5)))
    assert pieces[:-1] == [
        "Of refunds there is this to say. They take fourteen days [1].",
        " That is two weeks, as everybody knows.\n- Visa: none [3].",
        "\n- Bags: free. [2]",
    ]


def test_without_a_model_a_stream_is_the_extract() -> None:
    reply, answer = _stream("refund in how many days?", _HITS, None)
    assert isinstance(answer, Answer)
    assert reply == answer.reply == "You get a refund within fourteen days. [1]"


def test_a_declared_field_of_that_name_is_no_place() -> None:
    record = make_hit(1, "Dogs may come along.", metadata={"page": 7}, start=None).model_copy(
        update={"url": "https://x.test/a.pdf"}
    )
    document = make_hit(1, "Dogs may come along.", metadata={"page": 7, "place": None}).model_copy(
        update={"url": "https://x.test/a.pdf"}
    )
    for hit in (record, document):
        cited = cite(hit, 1, "Dogs may come along.")
        assert (cited.place, cited.link) == (None, None)
    assert cite(make_hit(1, "Fair.", metadata={"page": 7, "place": "Harbour"}), 1, "Fair.").place == "p. 7"


@pytest.mark.parametrize(
    ("url", "metadata", "place", "link"),
    [
        ("https://x.test/a.pdf", {"page": 4}, "p. 4", "https://x.test/a.pdf#page=4"),
        ("http://x.test/A.PDF?v=2", {"page": 1}, "p. 1", "http://x.test/A.PDF?v=2#page=1"),
        ("https://x.test/a.docx", {"page": 4}, "p. 4", None),
        ("https://x.test/a.pdf", {}, None, None),
        ("https://x.test/a.pdf#top", {"page": 4}, "p. 4", None),
        ("reports/a.pdf", {"page": 4}, "p. 4", None),
        ("https://x.test/a.pdf", {"page": "iv"}, "p. iv", None),
    ],
)
def test_a_citation_of_a_pdf_of_a_site_has_a_link_that_opens_its_page(
    url: str, metadata: dict[str, Any], place: str | None, link: str | None
) -> None:
    """Its `url` stays the document's, as in hits and tables."""
    cited = cite(
        make_hit(1, "Dogs may come along.", metadata=metadata).model_copy(update={"url": url}),
        1,
        "Dogs may come along.",
    )
    assert (cited.url, cited.place, cited.link) == (url, place, link)
