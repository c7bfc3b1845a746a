"""Where sentences end, and where a full stop ends none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.sentences import sentence_spans

_WHOLE = [
    ("de", "Der Eintritt ist ab dem 60. Lebensjahr frei."),
    ("de", "Ab der 2. Mahnung fallen 12 € Gebühr an."),
    ("de", "Im 3. Stock wohnt Hr. Maier."),
    ("de", "Bei Rücktritt vom 44. bis zum 15. Tag vor Beginn sind es 50 %."),
    ("de", "Der Preis gilt inkl. Frühstück und zzgl. Kurtaxe."),
    ("de", "5. Auflage."),
    ("de", "Geschlossen: 24. Dezember, 31. Dezember und 1. Mai."),
    ("en", "Das Museum schließt vom 24. Dezember bis zum 1. Januar."),
    ("und", "Ruhetage: 1. November und 3. Oktober."),
    ("es", "Ab dem 5. August, 10 Uhr."),
    ("en", "Geöffnet vom 3. April bis zum 1. Mai."),
    ("it", "Am 3. Mai beginnt es."),
    ("en", "Am 3. Mai beginnt es."),
    ("en", "Geschlossen am 1. Mai."),
    ("en", "Am 3. September geschlossen."),
    ("en", "Freitag, 1. November 2026"),
    ("fr", "M. Dupont accueille les groupes."),
    ("fr", "Le guide est M. Armand Petit, qui parle six langues."),
    ("fr", "Il date du XVIIe s. et fut agrandi."),
    ("fr", "C'était en 52 av. J.-C. près d'ici."),
    ("es", "Cuesta aprox. 12 € por persona."),
    ("pt", "A igreja é do séc. XVI."),
    ("it", "Lo dice il sig.ra Rossi a pag. 3."),
    ("pl", "Zamek zbudowano w XIV w. na wzgórzu."),
    ("pl", "Bilet kosztuje ok. 25 zł."),
    ("da", "Museet ligger på 2. Sal i bygningen."),
    ("nb-NO", "Kontoret er i 3. Etasje."),
    ("hu", "A 19. században épült."),
    ("tr", "19. yüzyılda yapıldı."),
    ("nl", "Vraag mevr. de Vries, o.a. op maandag."),
    ("en", "The trail is approx. 12 km long."),
    ("en", "See Vol. 3 for more."),
    ("und", "Tel. 0123, approx. 5."),
]
_TWO = [
    ("de", "Die Miete beträgt 60. ", "Der Eintritt ist frei."),
    ("de", "Das war 1960. ", "Der Umbau folgte."),
    ("de", "Er wohnt im Haus Nummer 12. ", "Ein Garten gehört dazu."),
    ("en", "It closes at 5. ", "The bar stays open."),
    ("en", "It closed in the year 12. ", "August was warm."),
    ("en", "He is number 12. ", "Jan came later."),
    ("vi", "Giá vé là 20. ", "Mai mở cửa lúc 9 giờ."),
    ("ro", "Biletul costă 25. ", "Mai multe detalii la recepție."),
    ("nl", "Er is plaats voor 20. ", "September is de drukste maand."),
    ("en", "Guests rose to 30. ", "November 2026 brought a record."),
    ("it", "Hanno vinto 3. ", "Mai visto prima."),
    ("fr", "Il en compte 12. ", "August est chaud."),
    ("en", "It is what I am, 30. ", "August is mine."),
    ("pl", "Zajmuje 5 s. ", "Potem czekamy."),
    ("es", "Cierra a las 9. ", "Abre a las 10."),
    ("sv", "Det var 12. ", "sedan kom fler."),
    ("en", "we went home. ", "then it rained."),
    ("ja", "営業時間は9時です。", "休みは月曜です。"),
]


@pytest.mark.parametrize(("language", "text"), _WHOLE)
def test_abbreviations_and_ordinals_end_no_sentence(language: str, text: str) -> None:
    assert list(sentence_spans(text, language)) == [(0, len(text))]


@pytest.mark.parametrize(("language", "first", "second"), _TWO)
def test_a_sentence_ends_all_the_same(language: str, first: str, second: str) -> None:
    assert [(first + second)[begin:end] for begin, end in sentence_spans(first + second, language)] == [first, second]


@given(
    st.lists(
        st.sampled_from(
            ["Der", "am", "3.", "Mai", "M.", "approx.", "12", "w.", "-", "\n\n", "…", "A.", "Ende.", "!", "x", ")"]
        )
    ),
    st.sampled_from(["de", "fr", "und"]),
)
def test_sentences_are_the_text(words: list[str], language: str) -> None:
    text = " ".join(words)
    assert "".join(text[begin:end] for begin, end in sentence_spans(text, language)) == text
