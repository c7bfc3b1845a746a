"""Text comes out of bytes right, whatever the label says, and in bounded time."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS  # type: ignore[import-untyped]  # ships no types

from almanac.spiders.reading.decode import _CHARSET, _META, _XML, decode_markup, decode_text, is_binary
from tests.growth import assert_linear

_RUSSIAN = (
    "Все цены указаны в рублях. Туры отправляются каждую субботу, а деньги возвращаются в течение четырнадцати "
    "дней после отмены поездки."
)
_GREEK = (
    "Οι τιμές περιλαμβάνουν διαμονή και πρωινό. Τα χρήματα επιστρέφονται εντός δεκατεσσάρων ημερών από την "
    "ακύρωση της κράτησης."
)
_HEBREW = "המחירים כוללים לינה וארוחת בוקר. הכסף יוחזר בתוך ארבעה עשר ימים מיום ביטול ההזמנה, ללא דמי ביטול."
_ARABIC = "تشمل الأسعار الإقامة ووجبة الإفطار. يتم رد المبلغ خلال أربعة عشر يوما من إلغاء الحجز دون أي رسوم إضافية."
_POLISH = (
    "Ceny obejmują nocleg i śniadanie. Pieniądze zwracamy w ciągu czternastu dni od odwołania podróży, także w "
    "święta. Zażółć gęślą jaźń."
)
_JAPANESE = (
    "料金には宿泊と朝食が含まれています。予約を取り消した日から十四日以内に、お支払いいただいた金額をお返しします。"
)
_CHINESE = "价格包括住宿和早餐。取消预订后十四天内退还全部款项，不收取任何手续费。请联系我们的客服中心了解详情。"
_TAIWANESE = "價格包括住宿和早餐。取消預訂後十四天內退還全部款項，不收取任何手續費。請聯絡我們的客服中心瞭解詳情。"
_KOREAN = "요금에는 숙박과 아침 식사가 포함되어 있습니다. 예약을 취소하면 십사 일 이내에 전액을 돌려 드립니다."
_VIETNAMESE = (
    "Giá đã bao gồm chỗ ở và bữa sáng. Tiền được hoàn lại trong vòng mười bốn ngày kể từ ngày hủy tour, không mất phí."
)

_LEGACY = [
    (_RUSSIAN, "cp1251"), (_RUSSIAN, "koi8-r"), (_RUSSIAN, "iso-8859-5"), (_GREEK, "cp1253"), (_HEBREW, "cp1255"),
    (_ARABIC, "cp1256"),
    (_POLISH, "cp1250"), (_POLISH, "iso-8859-2"), (_JAPANESE, "shift_jis"), (_JAPANESE, "euc-jp"), (_JAPANESE,
    "iso-2022-jp"),
    (_CHINESE, "gbk"), (_TAIWANESE, "big5"), (_KOREAN, "euc-kr"), (_VIETNAMESE, "cp1258"),
]  # fmt: skip


@pytest.mark.parametrize("encoding", ["mac-roman", "cp850"])
@pytest.mark.parametrize(
    "text",
    [
        "nom;prix\nÉlève déjà inscrit;12\nChâteau à côté;5\n",
        "Œuvres déjà prêtes à être vues, près du château et de la forêt",
    ],
)
def test_tables_of_old_spreadsheets_keep_their_accents(text: str, encoding: str) -> None:
    body = text.replace("Œ", "OE").encode(encoding)
    assert decode_text(body)[1] == text.replace("Œ", "OE")


@pytest.mark.parametrize(
    "text", ["nom;prix\nCœur;12 €\nŒuvre à voir;5 €\n", "Le cœur de l'été coûte 12 €, déjà", "Prix : 12 €"]
)
def test_windows_text_without_a_label_keeps_its_euros(text: str) -> None:
    assert decode_text(text.encode("cp1252"))[1] == text


@pytest.mark.parametrize(
    "text",
    [
        "Größe, Übung; schön",
        "São Paulo, coração; não",
        "Perché è già città",
    ],
)
def test_what_a_mac_wrote_is_no_windows_page(text: str) -> None:
    assert decode_text(text.encode("mac-roman"))[1] == text
    assert decode_text(text.encode("cp1252"))[1] == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Godziny otwarcia pływalni: środa, piątek. Książka życzeń", "cp1250"),
        ("Godziny otwarcia pływalni: środa, piątek. Książka życzeń", "iso-8859-2"),
        ("Nyitva szerdán és pénteken 8–20 óráig, őszi szünet", "cp1250"),
        ("Havuzun çalışma saatleri değişti, İstanbul", "cp1254"),
        ("Çocuklar için ücretsiz giriş", "cp1254"),
        ("Það er gott að búa við ýmislegt", "cp1252"),
        ("Þetta reddast á Íslandi", "cp1252"),
        ("Opið alla daga, það er víst", "cp1252"),
    ],
)
def test_a_short_text_is_read_in_the_encoding_of_its_language(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding))[1] == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [*_LEGACY, ("Café à Orléans", "cp1252"), ("Price £51.77", "cp1252"), ("20 °C – “cold”", "cp1252")],
)
@pytest.mark.parametrize("language", ["en", "de", "pl", "tr", "lv"])
def test_a_page_in_another_language_than_it_says_is_detected(text: str, encoding: str, language: str) -> None:
    _, decoded = decode_markup(f'<html lang="{language}"><p>'.encode() + _encode(text, encoding))
    assert text in unicodedata.normalize("NFC", decoded)


def _encode(text: str, encoding: str) -> bytes:
    """Windows-1258 writes tones as marks of their own, behind a letter that has its hat already."""
    if encoding != "cp1258":
        return text.encode(encoding)
    tones = dict.fromkeys("\u0300\u0301\u0303\u0309\u0323")
    parts = []
    for letter in text:
        marks = unicodedata.normalize("NFD", letter)
        base = unicodedata.normalize("NFC", "".join(c for c in marks if c not in tones))
        parts.append((base + "".join(c for c in marks if c in tones)).encode("cp1258"))
    return b"".join(parts)


def _page(text: bytes) -> bytes:
    return (
        b'<!DOCTYPE html><html><head><link rel="stylesheet" href="/style.css"></head><body><a href="/">Home</a><p>'
        + text
        + b"</p></body></html>"
    )


@pytest.mark.parametrize(("text", "encoding"), _LEGACY)
@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=ISO-8859-1", "text/html; charset=utf-8"])
def test_an_encoding_that_is_unlabelled_or_mislabelled_is_detected(text: str, encoding: str, content_type: str) -> None:
    _, decoded = decode_markup(_page(_encode(text, encoding)), content_type)
    assert text in unicodedata.normalize("NFC", decoded)


@pytest.mark.parametrize(
    "text",
    [
        "Café à Orléans",
        "Größe",
        "20 °C",
        "It’s a naïve café",
        "¿Qué es esto?",
        "Perché è così",
        "Smörgåsbord",
        "Price £51.77",
    ],
)
def test_a_short_western_title_needs_no_label(text: str) -> None:
    assert decode_text(text.encode("cp1252")) == ("cp1252", text)
    assert text in decode_markup(_page(text.encode("cp1252")))[1]


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("Привет".encode("cp1251"), "text/html; charset=windows-1251", "Привет"),
        (b'<meta charset="koi8-r">' + "Да".encode("koi8-r"), "text/html", '<meta charset="koi8-r">Да'),
        (
            b'<?xml version="1.0" encoding="iso-8859-2"?>' + "Łódź".encode("iso-8859-2"),
            "text/xml",
            '<?xml version="1.0" encoding="iso-8859-2"?>Łódź',
        ),
        (b'<meta charset="utf-16">Caf\xc3\xa9', "text/html", '<meta charset="utf-16">Café'),
        ("é".encode("utf-16"), "text/html; charset=utf-8", "é"),
        (b"\xef\xbb\xbfCaf\xc3\xa9", "text/html; charset=iso-8859-1", "Café"),
        ("<p>Tiền được hoàn</p>".encode("utf-16-be"), "text/html", "<p>Tiền được hoàn</p>"),
        (b"plain \0 text", "text/html", "plain \0 text"),
        (b"Caf\xc3\xa9 d'Orl\xc3\xa9ans, \xc3", "text/html", "Café d'Orléans, \ufffd"),
        (b"Caf\xe9", "text/html; charset=utf-8", "Café"),
    ],
)
def test_marks_labels_and_bytes_are_believed_in_their_order(body: bytes, content_type: str, text: str) -> None:
    assert decode_markup(body, content_type)[1] == text


def test_what_the_source_declares_counts_more_than_labels_and_bytes() -> None:
    old = "Éé".encode("cp850")
    assert decode_text(old, "text/plain; charset=utf-8", "cp850") == ("cp850", "Éé")
    assert decode_markup(b'<meta charset="utf-8">' + "Łó".encode("cp852"), "", "cp852")[1].endswith("Łó")
    assert decode_text("\ufeffÉ".encode(), "", "cp850")[1] == "É"


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("ISO-8859-8-I", "iso8859-8", "שלום עולם"),
        ("x-mac-cyrillic", "mac-cyrillic", "Сад міста Ужгород"),
        ("x-mac-ukrainian", "mac-cyrillic", "Їжак під ґанком"),
        ("x-cp1251", "cp1251", "Сад"),
        ("x-mac-roman", "mac-roman", "Überraschung, ça va"),
        ("x-gbk", "gb18030", "山区旅行"),
        ("x-euc-jp", "euc_jp", "山への旅行"),
        ("windows-949", "cp949", "산으로 가는 여행"),
        ("logical", "iso8859-8", "שלום עולם"),
        ("sun_eu_greek", "iso8859-7", "Καλημέρα"),
        ("ISO-8859-6-I", "iso8859-6", "رحلة إلى الجبال"),
        ("koi", "koi8-r", "Сад города"),
        ("mac", "mac-roman", "Überraschung, ça va"),
        ("csGB2312", "gb18030", "山区旅行"),
        ("ks_c_5601-1989", "cp949", "산으로 가는 여행"),
        ("ISO88592", "iso8859-2", "Žluťoučký kůň"),
        ("ISO_8859-7:1987", "iso8859-7", "Το λεωφορείο"),
    ],
)
def test_labels_that_only_browsers_know_are_believed(label: str, encoding: str, text: str) -> None:
    body = text.encode(encoding)
    for decoded in (
        decode_markup(_page(body), f"text/html; charset={label}"),
        decode_markup(f'<meta charset="{label}">'.encode() + body),
        decode_markup(f'<meta http-equiv="Content-Type" content="text/html; charset={label}">'.encode() + body),
        decode_markup(b"<script>" + b" " * 5000 + f'</script><meta charset="{label}">'.encode() + body),
    ):
        assert decoded[0] == encoding and text in decoded[1]


@pytest.mark.parametrize(
    "label",
    ["base64", "punycode", "utf-7", "unicode_escape", "undefined", "idna", "rot13", "no such thing", "\0", "utf-16"],
)
def test_a_label_that_is_no_encoding_of_pages_is_passed_over(label: str) -> None:
    assert decode_text("Café".encode("cp1252"), f"text/plain; charset={label}") == ("cp1252", "Café")


def test_utf8_written_twice_is_read_twice() -> None:
    text = "Tiền được hoàn lại — 5.372.000 ₫"
    twice = "".join(
        bytes([b]).decode("cp1252") if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(b) for b in text.encode()
    ).encode()
    assert decode_text(twice)[1] == text


@pytest.mark.parametrize("text", ["The sign of it is CafÃ© where Café should be.", "Ã©", "São João, PÃO"])
def test_a_text_about_such_errors_stays_as_it_is(text: str) -> None:
    assert decode_text(text.encode())[1] == text


@given(st.text())
def test_every_text_survives_utf8(text: str) -> None:
    written = text.removeprefix("\ufeff").encode("utf-8", "replace")
    assert (
        decode_text(written, "text/plain; charset=utf-8")[1] == written.decode()
        or "\0" in text
        or "\x1b" in text
        or "Ã" in text
        or "Â" in text
    )


@given(
    st.binary(max_size=300),
    st.sampled_from(["", "text/html; charset=gbk", "text/html; charset=iso-2022-jp", "text/html; charset=utf-16"]),
)
def test_no_bytes_are_refused(body: bytes, content_type: str) -> None:
    assert isinstance(decode_markup(body, content_type)[1], str)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "end", "count"),
    [
        (b"a", b"\xe9", 1_000_000),
        (b"<!--", b"\xe9", 80_000),
        (b"<meta", b"\xe9", 50_000),
        ("Привет ".encode("cp1251"), b"", 80_000),
    ],
)
def test_megabytes_take_linear_time(piece: bytes, end: bytes, count: int) -> None:
    assert_linear(
        lambda body: decode_markup(body, "text/html; charset=iso-8859-1"), lambda pieces: piece * pieces + end, count
    )


@pytest.mark.parametrize(
    ("body", "binary"),
    [
        (b"\x89PNG\r\n\x1a\n....", True), (bytes(range(256)) * 20, True), (b"%PDF-1.7 ...", True),
        (b"", False), (b"<p>a\0b</p>", False), ("Tiền".encode("utf-16"), False), (_JAPANESE.encode("iso-2022-jp"),
        False),
    ],
)  # fmt: skip
def test_what_is_no_text_is_told_from_what_is(body: bytes, binary: bool) -> None:
    assert is_binary(body) is binary


@pytest.mark.parametrize("piece", [b" ", b" charset=", b'= "', b"<meta ", b"<?xml ", b" encoding="])
@pytest.mark.parametrize("find", [_CHARSET.search, _META.search, _XML.match])
def test_a_label_is_looked_for_in_one_pass(find: Callable[[bytes], object], piece: bytes) -> None:
    assert_linear(find, lambda count: b"<meta charset=" + piece * count, 2_000)


@pytest.mark.parametrize("label", sorted(LABELS))
def test_no_label_that_browsers_know_is_a_fault(label: str) -> None:
    for decoded in (
        decode_markup("<p>Café".encode("cp1252"), f"text/html; charset={label}"),
        decode_markup(b"<p>plain", f"text/html; charset={label}"),
        decode_markup(f'<meta charset="{label}"><p>plain'.encode()),
    ):
        assert "<p>" in decoded[1]
