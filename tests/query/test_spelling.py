"""Misspelt words of a question, and what stands for them."""

from collections import Counter
from collections.abc import Callable
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.index.lexical.analyzer import stored_tokens, tokens
from almanac.query.retrieval.spelling import Respelt, Vocabulary, is_known, respell
from tests.growth import assert_comparable, assert_linear

_TEXTS = [
    "The vegetarian route runs each evening. Temperature: it charges from 0 to 40 degrees. The garden closes at "
    "six, the gardens at seven.",
    "The tour to Bangkok leaves at nine. A claustrophobic guest stays outside. Browser extensions are blocked, "
    "and promotions are decided in May.",
    "Die Kaltmiete beträgt 900 Euro. Die Schlosskapelle wurde restauriert. Herr Schneider leitet das Archiv.",
    "Les carrosses sont exposés dans la Grande Écurie ; les remboursements prennent une semaine.",
    "El reembolso tarda cinco días. La habitación cuesta cien euros.",
    "אחריות לשנתיים על המכונה, והטיסה לתאילנד יוצאת בבוקר.",
    "Chuyến đi bằng thuyền nghiêng về phía Tây.",
]


def _respelt(question: str, *tags: str, texts: list[str] = _TEXTS) -> Respelt:
    tags = tags or ("en",)
    indexed = {term for tag in tags for text in texts for term in stored_tokens(text, tag)}

    def terms_of(word: str) -> set[str]:
        return {term for tag in tags for term in tokens(word, tag)}

    is_indexed, is_same = (
        (lambda word: bool(terms_of(word) & indexed)),
        (lambda one, other: bool(terms_of(one) & terms_of(other))),
    )
    return respell(question, Vocabulary(lambda: texts), is_indexed, is_same, tags)


@pytest.mark.parametrize(
    ("question", "tag", "meant"),
    [
        ("is there a vegeterian route", "en", "is there a vegetarian route"),
        ("at what temparature does it charge?", "en", "at what temperature does it charge?"),
        ("are browser extentions allowed", "en", "are browser extensions allowed"),
        ("how often are promottions decided", "en", "how often are promotions decided"),
        ("Temparature for charging?", "en", "Temperature for charging?"),
        ("Wie hoch ist die Kaltmeite?", "de", "Wie hoch ist die Kaltmiete?"),
        ("wann wurde sie restuariert?", "de", "wann wurde sie restauriert?"),
        ("où sont les carrsoses ?", "fr", "où sont les carrosses ?"),
        ("délai des rembousements ?", "fr", "délai des remboursements ?"),
        ("¿cuánto tarda el rembolso?", "es", "¿cuánto tarda el reembolso?"),
        ("¿cuánto cuesta la habitasión?", "es", "¿cuánto cuesta la habitación?"),
        ("כמה זמן האחרייות?", "he", "כמה זמן האחרייות?"),  # with a prefix, it is two edits away
        ("מתי יוצאת הטיסה לתאיילנד?", "he", "מתי יוצאת הטיסה לתאילנד?"),
        ("thuyền ngihêng về đâu?", "vi", "thuyền nghiêng về đâu?"),
    ],
)
def test_a_word_that_nobody_knows_is_replaced_by_its_nearest(question: str, tag: str, meant: str) -> None:
    assert _respelt(question, tag).text == meant


@pytest.mark.parametrize(
    "question",
    [
        "the tour to Bangkokk",  # a capital within a sentence: a name
        "Was sagt Schnieder dazu?",
        "Was sagt Herr Schnieder dazu?",
        "does the gardne1 close",
        "is BROWSRE allowed",
        "tempreature-sensor",
        "write to tempreature@example.org or see www.tempreature.org/tempreature",
        "the tuor",
        "ETEMPREATURE",
        "TEMPREATURE OF CHARGING",
    ],
)
def test_names_codes_addresses_and_short_words_stay(question: str) -> None:
    assert _respelt(question, "de" if "Schnieder" in question else "en").replaced == {}


@pytest.mark.parametrize(
    ("question", "tag"),
    [
        ("what do vegetarians eat", "en"),
        ("who restores the chapel and the coaches?", "en"),
        ("können wir das restaurieren lassen?", "de"),
        ("Gibt es Schlosskapellen und Gartenschläuche?", "de"),
        ("la habitacion", "es"),  # without its diacritic
        ("chuyen di bang thuyen nghieng", "vi"),
    ],
)
def test_words_that_the_language_or_the_index_knows_stay(question: str, tag: str) -> None:
    assert _respelt(question, tag).replaced == {}


def test_of_several_that_are_as_near_one_has_to_be_clearly_more_frequent() -> None:
    texts = ["barrel barren"]
    assert _respelt("the barrex", texts=texts).replaced == {}
    assert _respelt("the barrxl", texts=["barrel barril"]).replaced == {}
    assert _respelt("the barrxl", texts=["barrel " * 4 + "barril"]).replaced == {"barrxl": "barrel"}


def test_forms_of_one_word_do_not_contradict_each_other() -> None:
    assert _respelt("the extentioms", texts=["extensions extensions extension"]).replaced == {
        "extentioms": "extensions"
    }


def test_a_word_is_replaced_wherever_it_stands_and_as_it_was_written() -> None:
    found = _respelt("Temparature? what temparature!")
    assert (found.text, found.applied("temparature (Temparature)")) == (
        "Temperature? what temperature!",
        "temperature (Temperature)",
    )


def test_a_compound_of_known_words_is_known_where_compounds_are_one_word() -> None:
    assert is_known("Gartenschlauch", ["de"])
    assert not is_known("gardenhose", ["en"])


@given(st.text(max_size=60))
def test_any_text_is_taken(question: str) -> None:
    found = _respelt(question, "en", "he", "vi")
    assert found.replaced or found.text == question


def test_the_nearest_of_two_hundred_thousand_words_is_found_without_looking_at_each() -> None:
    letters = ["".join(of) for of in islice(product("abcdefgh", repeat=6), 200_000)]
    vocabulary = Vocabulary(lambda: [" ".join([*letters, "temperature"])])
    assert vocabulary.nearest("temparature", lambda *_: False) == "temperature"
    assert_comparable(
        lambda find: find(),
        lambda: vocabulary.nearest("temparature", lambda *_: False),
        lambda: Counter(letters),
        times=5,
    )


@pytest.mark.parametrize(
    "question", ["{} temparature?", "See p. 4 . . . . {} temparature", "Der Weg{} zur Temparature"]
)
def test_long_runs_of_punctuation_and_white_space_before_a_word_cost_no_more(question: str) -> None:
    assert_linear(_respelt, lambda pieces: question.format(". " * pieces) + " Zyxwvq" * pieces, 300)


def test_a_text_full_of_words_that_nobody_knows_is_no_question() -> None:
    unknown = ["zzy" + "".join(of) for of in islice(product("bcdfghjk", repeat=4), 400)]
    sought = []

    class Counting(Vocabulary):
        def nearest(self, word: str, is_same: Callable[[str, str], bool]) -> str | None:
            sought.append(word)
            return super().nearest(word, is_same)

    respell(" ".join(unknown * 3), Counting(lambda: _TEXTS), lambda _: False, lambda *_: False, ["en"])
    assert sought == unknown[: len(sought)], "each is looked for once"
    assert 10 <= len(sought) <= 50
