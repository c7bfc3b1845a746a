"""Texts into values: what is read, and what is refused rather than guessed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.templates import fill
from almanac.schemas.declaration.field_rules import FieldRule, FieldType
from almanac.schemas.items import Page
from almanac.spiders.mapping.fields import FieldScope, read_field
from almanac.spiders.mapping.values import convert
from almanac.spiders.reading.content import Content


@pytest.mark.parametrize(
    ("text", "kind", "language", "value"),
    [
        ("In stock (3 available)", "boolean", "en", True),
        ("In stock: 0", "boolean", "en", False),
        ("Out of stock", "boolean", "en", False),
        ("https://schema.org/SoldOut", "boolean", "en", False),
        ("✓ available", "boolean", "en", True),
        ("✗", "boolean", "en", False),
        ("1,234 reviews", "integer", "en", 1234),
        ("1.234", "integer", "fr", 1234),
        ("12,34,567", "integer", "hi", 1234567),
        ("１２３４", "integer", "ja", 1234),
        ("٣٤٥", "integer", "ar", 345),
        ("1,234", "number", "en", 1234.0),
        ("1,234", "number", "fr", 1.234),
        ("1,234", "number", "es-MX", 1234.0),
        ("1,234", "number", "und", 1234.0),
        ("3.5e3", "number", "de", 3500.0),
        ("1e5 million", "number", "en", 1e11),
        ("12,5 %", "number", "fr", 12.5),
        ("KC-0042", "number", "en", 42.0),
        ("−1 234,5", "number", "fr", -1234.5),
        ("1'234.50", "number", "de-CH", 1234.5),
        ("1.234.567,89", "number", "vi", 1234567.89),
        ("0.125", "number", "fr", 0.125),
        ("٥٫٥", "number", "ar", 5.5),
        ("12 mars 2024", "date", "fr", "2024-03-12"),
        ("mardi 1er mars 2022", "date", "fr", "2022-03-01"),
        ("12 févr. 2024", "date", "fr-CA", "2024-02-12"),
        ("ngày 12 tháng 3 năm 2024", "date", "vi", "2024-03-12"),
        ("יום שישי, 3 במאי 2024", "date", "he", "2024-05-03"),
        ("3. März 2024", "date", "de", "2024-03-03"),
        ("3 de mayo de 2024", "date", "es", "2024-05-03"),
        ("3 мая 2024 г.", "date", "ru", "2024-05-03"),
        ("2024年5月3日", "date", "zh-Hant-TW", "2024-05-03"),
        ("3. mai 2024", "date", "no", "2024-05-03"),
        ("Sept. 3rd, 2024", "date", "en", "2024-09-03"),
        ("May 3, 2024", "date", "und", "2024-05-03"),
        ("04/05/2024", "date", "vi", "2024-05-04"),
        ("04/05/2024", "date", "en", "2024-04-05"),
        ("04/05/2024", "date", "en-GB", "2024-05-04"),
        ("25/12/2024", "date", "en", "2024-12-25"),
        ("03.04.24", "date", "en", "2024-04-03"),
        ("2024/5/3", "date", "ja", "2024-05-03"),
        ("20240503", "date", "en", "2024-05-03"),
        ("٣/٥/٢٠٢٤", "date", "ar", "2024-05-03"),
        ("2024-05-04T10:00:00+02:00", "datetime", "en", "2024-05-04T10:00:00+02:00"),
        ("Wed, 02 Dec 2026 10:00:00 +0100", "datetime", "pl", "2026-12-02T10:00:00+01:00"),
        ("Wed, 02 Dec 2026 10:00:00 +0100", "date", "ja", "2026-12-02"),
        ("2 Dec 2026 10:00 GMT", "datetime", "ar", "2026-12-02T10:00:00+00:00"),
        ("Sun, 03 May 2026 23:30:00 EDT", "datetime", "fr", "2026-05-03T23:30:00-04:00"),
        ("Sun, 03 May 2026 23:30:00 -0000", "datetime", "th", "2026-05-03T23:30:00+00:00"),
        ("3 août 2024 à 14h30", "datetime", "fr", "2024-08-03T14:30:00"),
        ("05/03/2024", "date", "th", "2024-03-05"),
        ("2024/03/01", "date", "fa", "2024-03-01"),
        ("۱ مارس ۲۰۲۴", "date", "fa", "2024-03-01"),
        ("1402-12-11", "date", "en", "1402-12-11"),
        ("24. 1. 25.", "date", "ko", "2024-01-25"),
        ("24.01.25", "date", "ko", "2024-01-25"),
        ("24年1月25日", "date", "ja", "2024-01-25"),
        ("24.01.25", "date", "de", "2025-01-24"),
        ("1 KASIM 2024", "date", "tr", "2024-11-01"),
        ("4 NİSAN 2024", "date", "tr", "2024-04-04"),
        ("Sábado, 14 de março de 2026, às 21h30", "datetime", "pt", "2026-03-14T21:30:00"),
        ("1º de maio de 2026 · 20 h", "datetime", "pt", "2026-05-01T20:00:00"),
        ("1º maggio 2026", "date", "it", "2026-05-01"),
        ("14/03/2026 | 21h30", "datetime", "es", "2026-03-14T21:30:00"),
        ("1. März 2024, 18 Uhr", "datetime", "de", "2024-03-01T18:00:00"),
        ("1.3.2024 um 18 Uhr", "datetime", "de", "2024-03-01T18:00:00"),
        ("1. März 2024, 18.30 Uhr", "datetime", "de", "2024-03-01T18:30:00"),
        ("1 de março de 2024 às 21h", "datetime", "pt", "2024-03-01T21:00:00"),
        ("1 de marzo de 2024 a las 21 h", "datetime", "es", "2024-03-01T21:00:00"),
        ("1 tháng 3 năm 2024 lúc 18 giờ", "datetime", "vi", "2024-03-01T18:00:00"),
        ("2024年3月1日18時", "datetime", "ja", "2024-03-01T18:00:00"),
        ("1 de marzo de 2024, 6:30 p. m.", "datetime", "es", "2024-03-01T18:30:00"),
        ("1 de marzo de 2024, 6:30 p.\u00a0m.", "datetime", "es", "2024-03-01T18:30:00"),
        ("1/3/2024 6:30 a. m.", "datetime", "es", "2024-03-01T06:30:00"),
        ("1η Μαρτίου 2024", "datetime", "el", "2024-03-01T00:00:00"),
        ("1ης Μαρτίου 2024", "datetime", "el", "2024-03-01T00:00:00"),
        ("2024-03-01T24:00:00Z", "datetime", "en", "2024-03-02T00:00:00+00:00"),
        ("2024-12-31T24:00", "datetime", "en", "2025-01-01T00:00:00"),
        ("1 آذار 2024", "date", "ar", "2024-03-01"),
        ("15 كانون الثاني 2024", "date", "ar", "2024-01-15"),
        ("١٥ كانون الأول ٢٠٢٤", "date", "ar", "2024-12-15"),
        ("2 تشرين الثاني 2024", "date", "ar", "2024-11-02"),
        ("12月3日（2026年）", "date", "ja", "2026-12-03"),
        ("2026. március 14. 21h30", "datetime", "hu", "2026-03-14T21:30:00"),
        ("26/3/14", "date", "eu", "2026-03-14"),
        ("2024년 3월 1일 오후 6시 30분", "datetime", "ko", "2024-03-01T18:30:00"),
        ("1.5 million", "number", "en", 1500000.0),
        ("1,2 Millionen Einwohner", "integer", "de", 1200000),
        ("3万人", "integer", "ja", 30000),
        ("10만 명", "integer", "ko", 100000),
        ("5 ล้านคน", "integer", "th", 5000000),
        ("12千克", "integer", "zh", 12),
        ("2 mil milhões", "integer", "pt", 2000000000),
        ("900兆赫", "integer", "zh-Hant-TW", 900),
        ("1013百帕", "integer", "zh", 1013),
        ("5 m", "number", "en", 5.0),
        ("500 ml", "integer", "fr", 500),
        ("2½", "number", "en", 2.5),
        ("1 ½ kg", "number", "de", 1.5),
        ("05/06/2025 2:30 PM", "datetime", "en", "2025-05-06T14:30:00"),
        ("<p>a<p>b", "html", "en", "a\n\nb"),
        ("Intro<dl><dt>Size</dt><dd>XL</dd></dl>Outro", "html", "en", "Intro\nSize\nXL\nOutro"),
        (
            "<details><summary>S</summary>D</details><fieldset><legend>L</legend>F</fieldset>",
            "html",
            "en",
            "S\nD\nL\nF",
        ),
        ("<ul><li>x<ol start=3><li>y</li><li>z</li></ol></li></ul>", "html", "en", "* x\n  3. y\n  4. z"),
        ("<table><tr><td>x<table><tr><td>in</td></tr></table></td><td>y</td></tr></table>", "html", "en", "x | y\nin"),
        ("<xmp><b> &amp;</xmp>", "html", "en", "<b> &amp;"),
        ("<pre>if a:\n    b  = 1</pre>c  d", "html", "en", "if a:\n    b  = 1\nc d"),
    ],
)
def test_text_is_read_in_its_language(text: str, kind: FieldType, language: str, value: Any) -> None:
    assert convert(text, kind, language=language) == value


@pytest.mark.parametrize(
    ("text", "language"),
    [
        *(("8조각", "ko"), ("2조건", "ko"), ("50 พันธมิตร", "th"), ("4万向轮", "zh"), ("5 万达广场", "zh")),
        ("60K", "en"),
        ("12k views", "en"),
        ("1.5M", "en"),
        ("1,2 Mio.", "de"),
        ("12 Tsd. Klicks", "de"),
        ("2 lakh", "en"),
        ("5 Bio-Eier", "de"),
    ],
)
def test_a_number_that_something_may_multiply_is_refused_with_what_to_declare(text: str, language: str) -> None:
    for kind in ("number", "integer"):
        with pytest.raises(ValueError, match=r"may multiply .* `pattern` .* `times: 1000`"):
            convert(text, kind, language=language)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("yesterday", "date"), ("in 2 days", "datetime"), ("March 2024", "date"), ("31/02/2024", "date"),
    ("2024-03-01T24:30", "datetime"),
     ("9999-12-31T24:00", "datetime"), ("1714824000", "date"), ("maybe", "boolean"),
     ("2 of 3", "integer"), ("1.2.3", "number"), ("9" * 5000, "integer"), ("1e999", "number"), ("NaN", "number"),
     ("Infinity", "price"),
     ("1.5", "integer"), ("3½ rooms", "integer"), ("⅓ litre", "number"), ("none", "number"), ("on request", "price"),
     ("/a", "url")],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_and_shown(text: str, kind: FieldType) -> None:
    with pytest.raises(ValueError, match=text.split()[0][:50]):
        convert(text, kind)


@pytest.mark.parametrize(
    ("value", "kind", "read"),
    [
        (1.989e30, "number", 1.989e30), (1.989e30, "integer", 1989 * 10**27), ("1.989e30", "number", 1.989e30), (10**29,
        "number", 1e29),
        (10**320, "integer", 10**320), ("9" * 40, "integer", int("9" * 40)), (10**320, "price",
        {"amount": "1" + "0" * 320, "currency": None}),
        (1.989e30, "price", {"amount": "1989" + "0" * 27, "currency": None}),
        ("€ 1,000,000,000,000,000,000,000,000,000,000", "price", {"amount": "1" + "0" * 30, "currency": "€"}),
        ({"price": 10**40, "priceCurrency": "EUR"}, "price", {"amount": "1" + "0" * 40, "currency": "EUR"}),
    ],
)  # fmt: skip
def test_a_long_number_is_read_with_all_of_its_digits(value: Any, kind: FieldType, read: Any) -> None:
    assert convert(value, kind) == read


@pytest.mark.parametrize("value", [10**320, -(10**320), float("nan"), float("inf")])
def test_a_number_that_no_float_holds_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"not a number below 1\.8e308"):
        convert(value, "number")


_YES = ["Na skladě", "Stokta var", "स्टॉक में", "Có", "Auf Lager", "在庫あり", "有货"]


_NO = ["TÜKENDİ", "Není na skladě", "Nicht lieferbar", "Εκτός αποθέματος"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("có", True), ("AUF LAGER", True), ("Na skladě 5 ks", True), ("Stokta var (3 adet)", True),
        ("स्टॉक में (3)", True),
        ("Auf Lager: 0", False), ("tükendi", False), ("Není na skladě", False), ("nicht lieferbar!", False),
        ("ΕΚΤΌΣ ΑΠΟΘΈΜΑΤΟΣ", False), ("In stock", True), ("Sold out", False),
        ("In stock - ships today", True), ("Out of stock, no date", False),
        ("In stock: 0 of 10", False), ("In stock: 0 (restock 12 May)", False), ("Auf Lager: 0 von 10", False),
        ("In stock, 20% off", True), ("在庫あり（残り3点）", True), ("在庫あり（残り0点）", False),
        ("在庫あり：5点", True),
        ("有货，现货发售", True), ("✗ Sold out", False), ("✓ In stock", True),
    ],
)  # fmt: skip
def test_what_says_yes_and_no_is_declared(text: str, value: bool) -> None:
    assert convert(text, "boolean", yes=_YES, no=_NO) is value


@pytest.mark.parametrize(
    "text",
    [
        "In stock: no",
        "In stock: 12 May 2026",
        "In stock - currently unavailable",
        "In stock (sold out online)",
        "In stock, ships in 0-1 days",
        "✗ In stock",
        "❌ Available",
        "Auf Lager (derzeit nicht)",
        "有货（无）",
        "Na skladě není",
        "स्टॉक में अभी नहीं है",
        "stokta var değil",
        "Auf Lager: nein",
        "Auf Lagerplatz",
        "ja",
        "oui",
    ],
)
def test_what_may_say_the_contrary_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither yes nor no: .*`yes: \[...\]` and `no: \[...\]`"):
        convert(text, "boolean", yes=_YES, no=_NO)


def test_url_is_read_as_browsers_read_links() -> None:
    assert convert(r"..\b\c", "url", base_url="http://x.test/a/d") == "http://x.test/b/c"
    assert convert(r"\\y.test\b?q=\1", "url", base_url="http://x.test/a") == r"http://y.test/b?q=\1"


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_integers_survive_grouping(number: int) -> None:
    assert convert(f"{number:,}", "integer") == number
    assert convert(f"{number:,}".replace(",", "\u202f"), "integer", language="fr") == number


@given(
    st.text()
    | st.text("0123456789.,'-−() €$kmRs/:")
    | st.lists(st.sampled_from(["1", "2.5", "90,000", "$", "€", "K", " Mio.", "万", "億", " to ", "–", " tỷ "])).map(
        "".join
    ),
    st.sampled_from(["integer", "number", "price", "boolean", "date", "datetime", "url", "html", "text"]),
    st.sampled_from(["en", "fr", "vi", "he", "und", "zh-Hant-TW", "not a tag"]),
)
def test_any_text_is_read_or_refused(text: str, kind: FieldType, language: str) -> None:
    try:
        convert(text, kind, language=language, base_url="http://x.test/")
    except ValueError as error:
        assert str(error)


def test_template_drops_the_separator_of_a_missing_value() -> None:
    assert fill("{title}. {text}", {"title": None, "text": "Body"}) == "Body"
    assert (
        fill(
            "{name}: {price} ({tags})",
            {"name": "Jar", "price": {"amount": "51.77", "currency": "£"}, "tags": ["a", "b"]},
        )
        == "Jar: 51.77 £ (a, b)"
    )


@pytest.mark.parametrize(
    ("language", "step", "text", "expected"),
    [
        ("tr", "lower", "IŞIK, İSTANBUL", "ışık, istanbul"),
        ("az", "lower", "QIZIL İNCİ", "qızıl inci"),
        ("tr-TR", "upper", "kırmızı çiçek", "KIRMIZI ÇİÇEK"),
        ("tr", "title", "İSTANBUL IŞIKLARI ve iyi işler", "İstanbul Işıkları Ve İyi İşler"),
        ("en", "lower", "ISTANBUL", "istanbul"),
        ("de", "upper", "istanbul", "ISTANBUL"),
        ("en", "title", "ISTANBUL in spring", "Istanbul In Spring"),
    ],
)
def test_letters_change_their_case_by_the_language(language: str, step: str, text: str, expected: str) -> None:
    rule = FieldRule.model_validate({"css": "p", "process": [step]})
    content = Content(
        Page(url="http://x.test/", body=f"<p>{text}</p>".encode(), content_type="text/html; charset=utf-8")
    )
    assert read_field("f", rule, FieldScope(None, content, language)).value == expected


@pytest.mark.parametrize(
    ("text", "kind", "times", "value"),
    [
        ("9,5", "price", 1_000_000, {"amount": "9500000", "currency": None}),
        ("$1.2345", "price", 1000, {"amount": "1234.5", "currency": "$"}),
        ("1.234,5", "number", 1000, 1234500.0),
        ("12,5 %", "number", 0.01, 0.125),
        ("1,234", "integer", 1000, 1234),
        ("9007199254740993", "integer", 1, 9007199254740993),
        (
            "$12345678901234567890123456789.12",
            "price",
            10,
            {"amount": "123456789012345678901234567891.2", "currency": "$"},
        ),
    ],
)
def test_values_are_multiplied_as_declared(text: str, kind: Any, times: float, value: Any) -> None:
    language = "en" if "$" in text else "de"
    assert convert(text, kind, language=language, times=times) == value


def test_a_product_that_is_not_whole_is_no_integer() -> None:
    with pytest.raises(ValueError, match=r"times 1000 is not a whole number: '1.2345'"):
        convert("1.2345", "integer", times=1000)


def test_times_goes_with_numbers() -> None:
    with pytest.raises(ValueError, match="'times' goes with type: number, integer or price"):
        FieldRule(css="p", times=1000)
