"""The terms of texts: the same word written in another way is the same term, in any script."""

import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.index.lexical import analyzer
from almanac.index.lexical.analyzer import (
    folded_tokens,
    has_folded,
    is_folded,
    remembered_tokens,
    stored_tokens,
    tokens,
)

_LANGUAGES = (
    "en",
    "fr",
    "es",
    "de",
    "it",
    "vi",
    "he",
    "ar",
    "fa",
    "ru",
    "el",
    "tr",
    "zh",
    "ja",
    "ko",
    "th",
    "hi",
    "und",
    "xx",
)
_SAME = [
    ("en", "Résumé NAÏVE", "resume naive"),
    ("en", "hotels' opening", "hotel open"),
    ("en", "O’Brien", "O'Brien"),
    ("en", "ﬁve ＡＢＣ１２３ CO₂", "five abc123 co2"),
    ("fr", "L’été", "l'été"),
    ("fr", "jusqu’au château", "au chateaux"),
    ("fr", "D’Artagnan", "Artagnan"),
    ("fr", "aujourd’hui", "aujourd'hui"),
    ("fr", "œuvres", "oeuvre"),
    ("it", "dell’arte", "arte"),
    ("ca", "l'hotel", "hotel"),
    ("es", "canciones", "canción"),
    ("de", "STRASSE Häuser", "straße haus"),
    ("vi", "HOÀ BÌNH", "hòa bình"),
    ("vi", "thuý", "thúy"),
    ("he", "שָׁלוֹם", "שלום"),
    ("he", 'צה"ל', "צה״ל"),
    ("he", "opening hours", "hour open"),
    ("ar", "الكِتَابُ", "الكتاب"),
    ("ar", "١٢٣", "123"),
    ("fa", "کتاب", "كتاب"),
    ("ru", "Ёлка", "елка"),
    ("el", "ΑΘΉΝΑ", "αθηνα"),
    ("tr", "İSTANBUL ILIK", "istanbul ılık"),
    ("ja", "ﾎﾃﾙ", "ホテル"),
    ("zh", "１２月", "12月"),
    ("en", "1,000.50", "1.000,50"),
    ("en", "U.S.A.", "USA"),
    ("en", "in\U000e0061vi\u061csi\u2063ble\ufe0f", "invisible"),
    ("ja", "葛\U000e0100城", "葛城"),
    ("mn", "ᠮᠣᠩ\u180bᠭᠣᠯ", "ᠮᠣᠩᠭᠣᠯ"),
]  # fmt: skip
_FINDS = [
    ("en", "the code is TO1101, in v2.3", "to1101"),
    ("en", "the code is TO-1101", "TO1101"),
    ("en", "release v2.3", "v2.3"),
    ("en", "a limit of 80 km/h", "80 km/h"),
    ("en", "write an e-mail", "email"),
    ("en", "write an email", "e-mail"),
    ("en", "mail to Info@Voyago.example", "info@voyago.example"),
    ("en", "see voyago.example/tours/a-b", "voyago"),
    ("en", "C++ and C#", "c#"),
    ("en", "at the Musée d’Orsay", "orsay"),
    ("vi", "giá 1.000.000đ", "1000000"),
    ("he", "בבית הגדול", "בית"),
    ("zh", "东京塔的门票", "门票"),
    ("ja", "東京タワーに行く", "タワー"),
    ("ko", "서울에서 만나요", "서울"),
    ("th", "ภาษาไทย", "ไทย"),
    ("lo", "ພາສາລາວ", "ລາວ"),
    ("km", "ភាសាខ្មែរ", "ខ្មែរ"),
    ("my", "မြန်မာဘာသာ", "ဘာသာ"),
    ("hi", "हिन्दी में", "हिन्दी"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "spelling", "other_spelling"), _SAME)
def test_one_word_written_in_two_ways_has_the_same_terms(language: str, spelling: str, other_spelling: str) -> None:
    terms = tokens(spelling, language)
    assert terms
    assert sorted(set(terms)) == sorted(set(tokens(other_spelling, language)))


@pytest.mark.parametrize(("language", "text", "query"), _FINDS)
def test_a_query_finds_each_of_its_terms(language: str, text: str, query: str) -> None:
    wanted = tokens(query, language)
    assert wanted
    assert set(wanted) & set(stored_tokens(text, language)) >= {wanted[0]}


def test_different_words_stay_apart() -> None:
    assert tokens("ma má mà mạ mả mã", "vi")[:6] == list(dict.fromkeys(tokens("ma má mà mạ mả mã", "vi")[:6]))
    assert tokens("v2.3", "en") != tokens("v23", "en")
    assert not set(tokens("TO1101", "en")) & set(tokens("TO1102", "en")) - {"to"}
    assert "tm" not in tokens("Almanac™", "en")
    assert "61" not in tokens("6½", "en")


def test_a_query_typed_without_diacritics_finds_the_stem_of_the_word_that_has_them() -> None:
    assert set(tokens("musee", "fr")) <= set(stored_tokens("les musées", "fr"))
    assert set(tokens("musée", "fr")) <= set(stored_tokens("les musées", "fr"))


def test_vietnamese_is_folded_where_nobody_typed_a_diacritic() -> None:
    assert is_folded("dien bien phu 80km/h")
    assert not is_folded("Điện Biên Phủ")
    assert not is_folded("đ")
    assert (
        folded_tokens("Điện Biên Phủ")
        == folded_tokens("dien bien phu")
        == ["dien", "bien", "phu", "dien_bien", "bien_phu"]
    )
    assert [language for language in _LANGUAGES if has_folded(language)] == ["vi"]
    assert has_folded("vi-VN")


def test_regions_and_old_codes_are_the_same_language() -> None:
    assert tokens("les musées", "fr-CA") == tokens("les musées", "FR") == tokens("les musées", "fr_BE")
    assert tokens("בבית", "iw") == tokens("בבית", "he")


@given(st.text(max_size=200), st.sampled_from(_LANGUAGES))
def test_any_text_has_terms_without_spaces_the_same_in_nfc_and_nfd(text: str, language: str) -> None:
    terms = tokens(text, language)
    assert (
        terms
        == tokens(unicodedata.normalize("NFD", text), language)
        == tokens(unicodedata.normalize("NFC", text), language)
    )
    stored = stored_tokens(text, language)
    assert set(terms) - {term for term in terms if "_" in term} <= set(stored)
    for term in [*stored, *folded_tokens(text)]:
        assert term and len(term) <= 200 and not any(character.isspace() or character == "\0" for character in term)
        term.encode()


@pytest.mark.parametrize("text", ["\U0001ccf0", "\U0001ccf0,\U0001ccf1\U0001ccf2\U0001ccf3", "\U0001ccf0.\U0001ccf1"])
def test_digits_newer_than_pythons_tables_are_words(text: str) -> None:
    assert tokens(text, "en")
    assert stored_tokens(text, "en")


@given(
    st.text(alphabet=st.characters(categories=["Lu", "Ll", "Lt", "Lm", "Lo", "Nd"]), min_size=1, max_size=12),
    st.sampled_from(_LANGUAGES),
)
def test_a_word_of_any_script_has_a_term(word: str, language: str) -> None:
    assert tokens(word, language)


@pytest.mark.parametrize(
    "text", ["?" * 10_000, "漢字" * 200, "plain words"], ids=["without terms", "without spaces", "plain"]
)
def test_what_is_remembered_of_texts_takes_some_megabytes(text: str) -> None:
    analyzer._remember.cache_clear()
    tracemalloc.start()
    for number in range(3000):
        remembered_tokens(f"{number} {text}", "en", folded=False)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 20_000_000


def test_what_is_remembered_is_what_was_read() -> None:
    for _ in range(2):
        assert remembered_tokens("plain words", "en", folded=False) == tuple(tokens("plain words", "en"))
        assert remembered_tokens("Đà Nẵng", "vi", folded=False) == tuple(tokens("Đà Nẵng", "vi"))
        assert remembered_tokens("Đà Nẵng", "vi", folded=True) == tuple(folded_tokens("Đà Nẵng"))
