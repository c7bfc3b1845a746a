"""Texts into values: what is read, and what is refused rather than guessed."""

import re
from decimal import Decimal
from typing import Any

import pytest
from babel.numbers import format_compact_currency, format_compact_decimal, format_currency
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.templates import fill
from almanac.schemas.declaration.field_rules import Calendar, FieldRule, FieldType
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
    ("text", "language", "calendar", "value"),
    [
        ("3 พฤษภาคม 2567", "th", "buddhist", "2024-05-03"),
        ("5 มี.ค. 2567", "th", "buddhist", "2024-03-05"),
        ("5 มี.ค. 67", "th", "buddhist", "2024-03-05"),
        ("5 มี.ค. 67 เวลา 19.30 น.", "th", "buddhist", "2024-03-05"),
        ("5/3/67 10:30", "th", "buddhist", "2024-03-05"),
        ("05.03.67", "th", "buddhist", "2024-03-05"),
        ("25 มิ.ย. พ.ศ. 2566", "th", "buddhist", "2023-06-25"),
        ("05/03/2567", "th", "buddhist", "2024-03-05"),
        ("1402/12/11", "fa", "jalali", "2024-03-01"),
        ("۱۴۰۲/۱۲/۱۱", "fa-IR", "jalali", "2024-03-01"),
        ("١٤٠٢/١٢/١١", "ps", "jalali", "2024-03-01"),
        ("11/12/1402", "fa", "jalali", "2024-03-01"),
        ("14021211", "fa", "jalali", "2024-03-01"),
        ("1402-12-11T18:30:00+03:30", "fa", "jalali", "2024-03-01T18:30:00+03:30"),
        ("۱۴۰۲/۱۲/۱۵ ساعت ۱۸:۳۰", "fa", "jalali", "2024-03-05T18:30:00"),
        ("۱۱ اسفند ۱۴۰۲", "fa", "jalali", "2024-03-01"),
        ("سه‌شنبه ۱۵ اسفندماه ۱۴۰۲، ۱۸:۳۰", "fa", "jalali", "2024-03-05T18:30:00"),
        ("5 ارديبهشت 1403", "fa", "jalali", "2024-04-24"),
        ("۱۱ حوت ۱۴۰۲", "prs", "jalali", "2024-03-01"),
        ("令和8年12月3日", "ja", "japanese", "2026-12-03"),
        ("令和８年12月5日（土）午後7時30分", "ja-JP", "japanese", "2026-12-05T19:30:00"),
        ("令和元年5月1日", "ja", "japanese", "2019-05-01"),
        ("12月3日（令和8年）", "ja", "japanese", "2026-12-03"),
        ("令和05年12月3日", "ja", "japanese", "2023-12-03"),
        ("昭和 64 年 1 月 7 日", "ja", "japanese", "1989-01-07"),
        ("R8.12.3", "ja", "japanese", "2026-12-03"),
        ("H31/4/30", "ja", "japanese", "2019-04-30"),
        ("中華民國115年12月3日", "zh-TW", "minguo", "2026-12-03"),
        ("民國 99/1/2", "zh-Hant", "minguo", "2010-01-02"),
    ],
)
def test_a_date_of_another_calendar_is_read_where_it_is_declared(
    text: str, language: str, calendar: Calendar, value: str
) -> None:
    assert convert(text, "datetime" if "T" in value else "date", language=language, calendar=calendar) == value
    hint = rf"`calendar: {calendar}`"
    with pytest.raises(ValueError, match=hint):
        convert(text, "date", language=language)


@pytest.mark.parametrize(
    ("text", "calendar"),
    [
        ("5 มี.ค. 18:30", "buddhist"), ("5 มีนาคม เวลา 19 น.", "buddhist"), ("05.03", "buddhist"),
        ("5 มี.ค. 18.30", "buddhist"), ("2024-03-05", "buddhist"),
        ("05/03/2024", "buddhist"),
        ("2024年5月3日", "japanese"), ("令和8年度", "japanese"), ("R8/12", "japanese"), ("12/3/115", "minguo"),
        ("2026年12月3日", "minguo"),
        ("1402/12/30", "jalali"), ("1402/07/31", "jalali"), ("02/12/11", "jalali"), ("1445/08/20 قمری", "jalali"),
        ("1650/01/01", "jalali"), ("۱۱ اسفند", "jalali"), ("1402121", "jalali"), ("2024/03/01", "jalali"),
    ],
)  # fmt: skip
def test_what_is_no_date_of_the_declared_calendar_is_refused(text: str, calendar: Calendar) -> None:
    with pytest.raises(ValueError, match=r"calendar|not a date"):
        convert(text, "date", language="und", calendar=calendar)


def test_a_declared_gregorian_calendar_takes_years_as_they_are() -> None:
    assert convert("1402/12/11", "date", language="fa", calendar="gregorian") == "1402-12-11"
    assert convert("1445/08/20", "date", language="ar", calendar="gregorian") == "1445-08-20"
    assert convert("05/03/24", "date", language="th", calendar="gregorian") == "2024-03-05"
    assert convert("05/03/2024", "date", language="th") == "2024-03-05"


@pytest.mark.parametrize(
    ("text", "language", "amount", "currency"),
    [
        ("Price: £10.66", "en", "10.66", "£"),
        ("16,99\u00a0€", "fr", "16.99", "€"),
        ("1 299:50 kr", "sv", "1299.50", "kr"),
        ("1299:-", "sv", "1299", None),
        ("12 zł 50 gr", "pl", "12.50", "zł"),
        ("12 руб. 50 коп.", "ru", "12.50", "руб."),
        ("12 lei 50 bani", "ro", "12.50", "lei"),
        ("£12 10p", "en", "12.10", "£"),
        ("12 zł / 50 gr", "pl", "12", "zł"),
        ("£12 10 items", "en", "12", "£"),
        ("1,200 रुपये", "hi", "1200", "रुपये"),
        ("रु. 1,250", "hi", "1250", "रु."),
        ("रु 1,250", "hi", "1250", "रु"),
        ("1,250 रु", "hi", "1250", "रु"),
        ("10 रुमाल", "hi", "10", None),
        ("तरु 10", "hi", "10", None),
        ("ரூ. 99", "ta", "99", "ரூ."),
        ("৯৯ টাকা", "bn", "99", "টাকা"),
        ("৳99", "bn", "99", "৳"),
        ("99 روپے", "ur", "99", "روپے"),
        ("۱۲۵٬۰۰۰ تومان", "fa", "125000", "تومان"),
        ("99 ر.س", "ar", "99", "ر.س"),
        ("99 دينار", "ar", "99", "دينار"),
        ("99 שקל", "he", "99", "שקל"),
        ("99 שקלים", "he", "99", "שקלים"),
        ("99 บาท", "th", "99", "บาท"),
        ("99 гривень", "uk", "99", "гривень"),
        ("1.299 лева", "bg", "1299", "лева"),
        ("99 złotych", "pl", "99", "złotych"),
        ("1 290 forint", "hu", "1290", "forint"),
        ("9.000 rupiah", "id", "9000", "rupiah"),
        ("9 долларов", "ru", "9", "долларов"),
        ("za darmo", "pl", "0", None),
        ("Wstęp wolny", "pl", "0", None),
        ("FREE!", "en", "0", None),
        ("Entrée libre.", "fr", "0", None),
        ("Ελεύθερη είσοδος", "el", "0", None),
        ("入場無料", "ja", "0", None),
        *((text, "ar", "0", None) for text in ("مجاناً", "مجانًا", "مجانا")),
        ("1.200.000 ₫", "vi", "1200000", "₫"),
        ("125,000 VND", "vi", "125000", "VND"),
        ("2\u202f000,50", "fr", "2000.50", None),
        ("1.234,56 kr", "sv", "1234.56", "kr"),
        ("Rs. 1,23,456.00", "en", "123456.00", "Rs."),
        ("1’234.50 CHF", "de-CH", "1234.50", "CHF"),
        ("R$ 1.234,50", "pt-BR", "1234.50", "R$"),
        ("99.90 ש\"ח", "he", "99.90", "ש\"ח"),
        ("２,０００円（税込）", "ja", "2000", "円"),
        ("\\12,800（税込）", "ja", "12800", "¥"),
        ("特価\\980", "ja", "980", "¥"),
        ("\\3,000〜\\5,000", "ja", "3000", "¥"),
        ("\\ 15,000", "ko", "15000", "₩"),
        ("￡12", "ja", "12", "￡"),
        ("＄１２．５０", "ja", "12.50", "＄"),
        ("￦3,000", "ko", "3000", "￦"),
        ("￥1,980", "zh", "1980", "￥"),
        ("￦3.000", "de", "3000", "￦"),
        ("C:\\12", "ja", "12", None),
        ("\\12", "en", "12", None),
        ("1,799 €/l", "de", "1.799", "€"),
        ("5 m £10", "en", "10", "£"),
        ("Milk 1L £1.20", "en", "1.20", "£"),
        ("Size M $10", "en", "10", "$"),
        ("S/M $10", "en", "10", "$"),
        ("per t €500", "en", "500", "€"),
        ("450K € 3 pièces", "fr", "450000", "€"),
        ("5 Mio. € 50", "de", "5000000", "€"),
        ("3万円以上", "ja", "30000", "円"),
        ("5千円", "ja", "5000", "円"),
        ("2천만원", "ko", "20000000", "원"),
        ("$3.2bn", "en", "3200000000", "$"),
        ("1,5 mil milhões €", "pt", "1500000000", "€"),
        ("$3.499 / gal", "en", "3.499", "$"),
        ("12,- €", "de", "12", "€"),
        ("ab 12,-- €", "de", "12", "€"),
        ("12,––€", "de", "12", "€"),
        ("12.-- EUR", "de", "12", "EUR"),
        ("12.50-", "en", "-12.50", None),
        ("(5.00)", "en", "-5.00", None),
        ("-£5.00", "en", "-5.00", "£"),
        ("£-5.00", "en", "-5.00", "£"),
        ("\u2212 5,00 €", "fr", "-5.00", "€"),
        ("now - £5.00", "en", "5.00", "£"),
        ("From £10 to £20", "en", "10", "£"),
        ("10–20 €", "de", "10", "€"),
        ("Pack of 6 - £12.00", "en", "12.00", "£"),
        ("3 x 12,50 €", "fr", "12.50", "€"),
        ("2 L bottle, 20% off: £1,299.00", "en", "1299.00", "£"),
        ("Miễn phí", "vi", "0", None),
        ("12€50", "fr", "12.50", "€"),
        ("1.299 € 50", "fr", "1299.50", "€"),
        ("12 € 50 Cent", "de", "12.50", "€"),
        ("5 € 20 pièces", "fr", "5", "€"),
        ("12,50 € 20", "fr", "12.50", "€"),
        ("$5$10", "en", "5", "$"),
        ("50p", "en-GB", "50", "p"),
        ("99¢", "en", "99", "¢"),
        ("500.000 đồng", "vi", "500000", "đồng"),
        ("10.000 F CFA", "fr", "10000", "F CFA"),
        ("entre 10 et 20 €", "fr", "10", "€"),
        ("-20 %: 8,00 €", "fr", "8.00", "€"),
        ("12 MKD", "mk", "12", "MKD"),
        ("$60K–$121K", "en", "60000", "$"),
        ("$60K - $121K (Glassdoor est.)", "en", "60000", "$"),
        ("up to $121K/yr", "en", "121000", "$"),
        ("-$1.5K", "en", "-1500", "$"),
        ("12k€", "fr", "12000", "€"),
        ("12k EUR", "de", "12000", "EUR"),
        ("500kđ", "vi", "500000", "đ"),
        ("1.5M €", "fr", "1500000", "€"),
        ("1,2 Mio. €", "de", "1200000", "€"),
        ("1,5 Mrd. €", "de", "1500000000", "€"),
        ("3 milliards d'euros", "fr", "3000000000", "euros"),
        ("20 mil €", "es", "20000", "€"),
        ("5 mil millones €", "es", "5000000000", "€"),
        ("1,459 €/l", "fr", "1.459", "€"),
        ("5.00 US dollars", "en", "5.00", None),
        ("1.3 mil MXN", "es-MX", "1300", "MXN"),
        ("60 kr", "sv", "60", "kr"),
        ("$25 per person", "en", "25", "$"),
        ("£450pw", "en", "450", "£"),
        ("$25 T-shirt", "en", "25", "$"),
        ("$799 M4 Max", "en", "799", "$"),
        ("$1.2 billion", "en", "1200000000", "$"),
        ("$1.23456789K", "en", "1234.56789", "$"),
        ("5 triệu đồng", "vi", "5000000", "đồng"),
        ("1,5 millió Ft", "hu", "1500000", "Ft"),
        ("2,5 mia. kr.", "da", "2500000000", "kr"),
        ("kr. 1.299,00", "da", "1299.00", "kr"),
        ("3,5 Billionen €", "de", "3500000000000", "€"),
        ("1,5 milj. euroa", "fi", "1500000", "euroa"),
        ("20 хил. лв.", "bg", "20000", "лв."),
        ("2 milioane lei", "ro", "2000000", "lei"),
        ("100万ドル", "ja", "1000000", "ドル"),
        ("1,234 tỷ đồng", "vi", "1234000000", "đồng"),
        ("1.234 tỷ đồng", "vi", "1234000000000", "đồng"),
        ("10 nghìn tỷ đồng", "vi", "10000000000000", "đồng"),
        ("₹12L – ₹18L PA", "en-IN", "1200000", "₹"),
        ("1万円", "ja", "10000", "円"),
        ("3万〜5万円", "ja", "30000", "円"),
        ("1.2万元", "zh", "12000", "元"),
        ("1만원", "ko", "10000", "원"),
        ("5 אלף ש\"ח", "he", "5000", "ש\"ח"),
        ("12 €/m2", "de", "12", "€"),
        ("20 mil foil: $5", "en", "5", "$"),
        ("5 m² 12 €", "de", "12", "€"),
        (129.5, "en", "129.5", None),
        ({"price": "60K", "priceCurrency": "USD"}, "en", "60000", "USD"),
        ({"price": "1,299.00", "priceCurrency": "USD"}, "en", "1299.00", "USD"),
        ({"price": "129.000", "priceCurrency": "USD"}, "en", "129.000", "USD"),
        ("129.000", "en", "129.000", None),
        ({"amount": 5372000, "currency": "VND"}, "vi", "5372000", "VND"),
    ],
)  # fmt: skip
def test_price_is_read_as_shops_write_it(text: Any, language: str, amount: str, currency: str | None) -> None:
    assert convert(text, "price", language=language) == {"amount": amount, "currency": currency}


@pytest.mark.parametrize(
    ("text", "language", "word"),
    [
        *((text, "en", "K") for text in ("$60–121K", "$500–1.2K", "$60–$121K", "$60 K per year", "60 K to 121 K €")),
        ("$25 K-Cup", "en", "K"),
        *((text, "en", "M") for text in ("$5 M&Ms", "$5 M")),
        ("$25 B grade", "en", "B"), ("$1.5T", "en", "T"), ("$5 million 2024", "en", "million"),
        ("₹2.5 lakh", "en-IN", "lakh"),
        ("₹12L", "en", "L"), ("3-5 LPA", "en-IN", "LPA"), ("k€ 12", "fr", "k€"), ("TEUR 12", "de", "TEUR"),
        ("T€ 5", "de", "T€"), ("5 m € 10", "de", "m"), ("5 million £10", "en", "million"),
        ("5 T €", "de", "T"), ("Mio. € 5", "de", "Mio. €"), ("12 Tsd. €", "de", "Tsd."),
        ("12 Dutzend €", "de", "Dutzend €"),
        ("60–121 mil €", "en", "mil"), ("20 mil €", "en", "mil"), ("€1.5 milliards", "de", "milliards"),
        ("5 rb đ", "en", "rb"),
        ("$12 m", "de", "m"), ("1,2 billions €", "fr", "billions"),
        ("5 B €", "es", "B"),
        ("5 M Rp", "id", "M"), ("1tr2 đ", "vi", "tr"), ("từ 5 đến 7 triệu đồng", "vi", "triệu"),
        ("1 tỷ 200 triệu đồng", "vi", "tỷ"),
        ("8조각", "ko", "조"),
        ("1億2,000万円", "ja", "億"), ("от 10 до 20 тыс. руб.", "ru", "тыс."),
        ("15 - 20 triệu/tháng", "vi", "triệu"),
    ],
)  # fmt: skip
def test_a_price_that_something_may_multiply_is_refused_with_what_to_declare(
    text: str, language: str, word: str
) -> None:
    with pytest.raises(ValueError, match=f"^'{re.escape(word)}' in .* may multiply .* `pattern` .* `times: 1000`"):
        convert(text, "price", language=language)


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
    ("text", "language"),
    [
        ("1.299 €", "en"), ("€1.299M", "en"), ("$1,299", "fr"), ("$1,299", "es"), ("1,299K lei", "en"),
        ("1,299 ευρώ", "el"), ("1.299 $", "en"), ("1,299 €", "fr"), ("R2,499", "en-ZA"), ("$150,000", "es-CO"),
        ("$150,000/noche", "es-CO"), ("₡15,000", "es-CR"), ("1,299 $", "fr-CA"), ("Rp 150,000", "id"),
        ("250,000", "vi"), ("€1,299", "en-NL"),
    ],
)  # fmt: skip
def test_three_digits_behind_a_mark_of_either_meaning_are_refused(text: str, language: str) -> None:
    with pytest.raises(ValueError, match=r"thousands, or three decimals\? .* `xpath: translate"):
        convert(text, "price", language=language)


@pytest.mark.parametrize(
    "text",
    [
        *("12k", "1.5 million", "5 for 10", "1.2.3 €"),  # thousands and millions of what?
        *("on request", "20% off", "-10 %", "%20", "10 et 20"),
    ],
)
def test_price_that_would_be_a_guess_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"price|number|multiply"):
        convert(text, "price")


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


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("1. März 2024, 6 Uhr abends", "de"),
        ("1. März 2024, 18–20 Uhr", "de"),
        ("1. März 2024, 25 Uhr", "de"),
        ("14. März, 20 Uhr", "de"),
        ("samedi 14 mars 20h", "fr"),
        ("1 mars 2024 kl. 18-20", "sv"),
        ("14 mars 2026 kl. 19.00", "sv"),
        ("1 marzo 2024 alle ore 21", "it"),
    ],
)
def test_time_that_would_be_read_in_part_is_refused(text: str, language: str) -> None:
    with pytest.raises(ValueError, match="not a date"):
        convert(text, "datetime", language=language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("2026年3月14日 20点", "zh"), ("2026年3月14日 晚上8点", "zh"), ("14 mars 2026, 20 heures", "fr"),
        ("14 mars 2026 à 20h00min", "fr"), ("14 maart 2026, 20 uur", "nl"), ("14 de marzo de 2026, 20 horas", "es"),
        ("14. března 2026 v 20 hodin", "cs"), ("14. března 2026 20:00 hod.", "cs"), ("14 mars 2026 kl. 20:00", "sv"),
        ("14 марта 2026 г. в 20 часов", "ru"), ("14 mars 2026 klockan 20:00", "sv"),
    ],
)  # fmt: skip
def test_hour_is_read_as_the_language_writes_it(text: str, language: str) -> None:
    assert convert(text, "datetime", language=language) == "2026-03-14T20:00:00"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("14 maart, 20 uur", "nl"), ("14. marts kl. 20", "da"), ("14 mars 20 heures", "fr"),
        ("14 marca, godz. 18", "pl"),
        ("14 марта, 19 часов", "ru"), ("14 March at 20", "en"), ("March 14-16", "en"), ("14-16 March", "en"),
        ("14. März, 12 €", "de"), ("14 March 20 €", "en"), ("March 14, 18+", "en"), ("6年3月14日", "ja"),
        ("14 March, £2000", "en"),
    ],
)  # fmt: skip
def test_number_that_does_not_stand_beside_the_month_is_no_year(text: str, language: str) -> None:
    with pytest.raises(ValueError, match="not a date"):
        convert(text, "date", language=language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("March 14, 26", "en"), ("14 Mar '26", "en"), ("14MAR26", "en"), ("14 March 26 at 7pm", "en"),
        ("14. März 26, 19:30 Uhr", "de"), ("Sa., 14.03.26, 19.30 Uhr", "de"), ("14 mars 26 à 20h30", "fr"),
        ("14 мар. 26 г.", "ru"), ("14 de marzo de 26", "es"), ("26年3月14日", "zh"), ("14 मार्च 26", "hi"),
    ],
)  # fmt: skip
def test_year_of_two_digits_beside_its_month_is_read(text: str, language: str) -> None:
    assert convert(text, "date", language=language) == "2026-03-14"


def test_year_that_may_be_hijri_or_gregorian_is_refused() -> None:
    for text in ("١٤٤٥/٠٨/٢٠", "1445/08/20 | 18:30", "1445 08 20"):
        with pytest.raises(ValueError, match=r"no Gregorian one; if it is, declare `calendar: gregorian`"):
            convert(text, "datetime", language="ar")
    assert convert("20 مارس 1445", "date", language="ar") == "1445-03-20"
    assert convert("1445/08/20", "date", language="en") == "1445-08-20"


def test_url_is_read_as_browsers_read_links() -> None:
    assert convert(r"..\b\c", "url", base_url="http://x.test/a/d") == "http://x.test/b/c"
    assert convert(r"\\y.test\b?q=\1", "url", base_url="http://x.test/a") == r"http://y.test/b?q=\1"


def test_format_is_taken_literally() -> None:
    assert convert("05/06/2025", "date", date_format="%d/%m/%Y") == "2025-06-05"
    with pytest.raises(ValueError, match="not a date of the form"):
        convert("2025-06-05", "date", date_format="%d/%m/%Y")


@pytest.mark.parametrize(
    ("value", "kind", "unit", "expected"),
    [
        (1709317800, "datetime", "unix", "2024-03-01T18:30:00+00:00"),
        ("1709317800", "datetime", "unix", "2024-03-01T18:30:00+00:00"),
        (1709317800, "date", "unix", "2024-03-01"),
        (1709317800000, "datetime", "unix_ms", "2024-03-01T18:30:00+00:00"),
        ("1709317800123", "datetime", "unix_ms", "2024-03-01T18:30:00.123000+00:00"),
        (999999999, "datetime", "unix", "2001-09-09T01:46:39+00:00"),
    ],
)
def test_unix_times_are_read_where_they_are_declared(value: Any, kind: FieldType, unit: str, expected: str) -> None:
    assert convert(value, kind, date_format=unit) == expected


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        (1709317800000, "unix", "of the form unix_ms"),
        (1709317800, "unix_ms", "it is one of the form unix"),
        (0, "unix", "from 1973 to 2099"),
        (99999999999, "unix", "from 1973 to 2099"),
        ("-1709317800", "unix", "not a Unix time"),
        ("1709317800.5", "unix", "not a Unix time"),
        ("2024-03-01", "unix", "not a Unix time"),
        ("9" * 400, "unix", "not a Unix time"),
        ("1714824000", None, "declare `format: unix`"),
        ("1714824000000", None, "declare `format: unix_ms`"),
    ],
)
def test_what_is_no_unix_time_is_refused_with_what_to_declare(value: Any, unit: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(value, "datetime", date_format=unit)


def test_format_takes_month_names_of_the_language() -> None:
    texts = {"fr": "12 févr. 2024", "he": "12 בפברואר 2024", "pl": "12 lutego 2024", "en": "12 February 2024"}
    for language, text in texts.items():
        assert (
            convert(text, "date", language=language, date_format="%d %b %Y" if language == "fr" else "%d %B %Y")
            == "2024-02-12"
        )
    with pytest.raises(ValueError, match="not a date of the form"):
        convert("février 12 2024", "date", language="fr", date_format="%d %B %Y")


def test_day_and_month_that_nobody_can_tell_apart_are_refused() -> None:
    assert convert("13/04/2024", "date", language="und") == "2024-04-13"
    with pytest.raises(ValueError, match="day or month first"):
        convert("03/04/2024", "date", language="und")
    with pytest.raises(ValueError, match="day or month first"):
        convert("03/04/2024, 6:30 pm", "datetime", language="und")


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_integers_survive_grouping(number: int) -> None:
    assert convert(f"{number:,}", "integer") == number
    assert convert(f"{number:,}".replace(",", "\u202f"), "integer", language="fr") == number


@given(
    st.integers(min_value=0, max_value=10**9),
    st.sampled_from(["£{}", "{} €", "USD {}", "{} zł"]),
    st.sampled_from([",", ".", " ", "'"]),
)
def test_grouped_prices_keep_every_digit(cents: int, form: str, mark: str) -> None:
    decimal = "," if mark == "." else "."
    text = form.format(f"{cents // 100:,}".replace(",", mark) + f"{decimal}{cents % 100:02}")
    assert convert(text, "price", language="fr")["amount"] == f"{cents // 100}.{cents % 100:02}"


_LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "cs", "hu", "ro", "ru", "uk", "el", "tr", "he", "ar"),
    *("fa", "hi", "th", "vi", "id", "ja", "ko", "zh"),
)


@pytest.mark.parametrize("language", _LANGUAGES)
def test_what_cldr_writes_in_a_language_is_read_or_refused(language: str) -> None:
    for number in (5, 12.5, 1500, 60_000, 1_500_000, 25_000_000_000):
        for text in (
            format_currency(number, "EUR", locale=language),
            format_currency(number, "USD", locale=language, format_type="name"),
            format_compact_currency(number, "EUR", locale=language, fraction_digits=2),
        ):
            assert _amount(text, "price", language) in (None, pytest.approx(number)), text
        if language not in ("ja", "ko", "zh"):
            text = format_compact_decimal(number, format_type="long", locale=language, fraction_digits=3)
            assert _amount(text, "number", language) in (None, pytest.approx(number)), text


def _amount(text: str, kind: FieldType, language: str) -> float | None:
    try:
        value = convert(text, kind, language=language)
    except ValueError:
        return None
    return float(value["amount"]) if kind == "price" else float(value)


@given(
    st.decimals(0, 9999, places=2),
    st.sampled_from([("K", 3), ("m", 6), ("B", 9), (" million", 6), (" billions", 9)]),
)
def test_rounded_prices_are_written_in_full(number: Decimal, unit: tuple[str, int]) -> None:
    word, power = unit
    assert Decimal(convert(f"${number}{word}", "price")["amount"]) == number * 10**power


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


@pytest.mark.parametrize(
    ("markup", "declared", "expected"),
    [
        ("<time datetime='2026-05-03'>3 May</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        (
            "<p><time datetime='2026-05-03T19:30:00+02:00'> yesterday </time></p>",
            {"css": "p", "type": "datetime"},
            "2026-05-03T19:30:00+02:00",
        ),
        (
            "<time datetime='2026-05-03'>4 May 2026</time>",
            {"css": "time", "type": "date", "format": "%d %B %Y"},
            "2026-05-04",
        ),
        ("<time datetime='19:30'>4 May 2026</time>", {"css": "time", "type": "date"}, "2026-05-04"),
        ("<p><time datetime='2026-05-03'>3 May</time> to 5 May 2026</p>", {"css": "p", "type": "date"}, None),
        ("<time datetime='2026-05-03'>3 May</time>", {"css": "time"}, "3 May"),
        ("<time datetime='2026-05-03T22:00:00.000Z'>4 May 2026</time>", {"css": "time", "type": "date"}, "2026-05-04"),
        ("<time datetime='2026-05-03T22:00:00.000Z'>4 May</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-03T22:00:00Z'>05/03/2026</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-03T22:00:00Z'>03/05/2026</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        (
            "<time datetime='2026-05-03T22:00+02:00[Europe/Paris]'>3 May</time>",
            {"css": "time", "type": "datetime"},
            "2026-05-03T22:00:00+02:00",
        ),
        ("<time datetime='2026-05-03 10:00:00 UTC'>yesterday</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-03T7:00'>3 May</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        ("<time datetime='2026-05-32'>3 May 2026</time>", {"css": "time", "type": "date"}, "2026-05-03"),
        (
            "<time datetime='2026-05-03T25:00'>3 May 2026</time>",
            {"css": "time", "type": "datetime"},
            "2026-05-03T00:00:00",
        ),
        (
            "<time datetime='2026-05-03' hidden>3 May</time><time datetime='2026-05-04'>4 May</time>",
            {"css": "time", "type": "date"},
            "2026-05-04",
        ),
        ("<i datetime='2026-05-03'>4 May 2026</i>", {"css": "i", "type": "date"}, "2026-05-04"),
    ],
)
def test_a_time_element_is_read_by_its_machine_readable_date(
    markup: str, declared: dict[str, Any], expected: str | None
) -> None:
    content = Content(Page(url="http://x.test/", body=markup.encode(), content_type="text/html; charset=utf-8"))
    assert read_field("f", FieldRule.model_validate(declared), FieldScope(None, content, "en")).value == expected


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


@pytest.mark.parametrize(
    "text", ["$20 $15", "20,00 € 15,00 €", "500.000₫ 450.000₫", "1 299 kr 999 kr", "€ 20,- € 15,-", "$20.00\n$15.00."]
)
def test_an_older_price_beside_a_lower_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"two prices in .*: an older one and today's\? A selector finds one of them"):
        convert(
            text, "price", language="vi" if "₫" in text else "sv" if "kr" in text else "de" if "€" in text else "en"
        )


@pytest.mark.parametrize("text", ["$15 $20", "$20 – $35", "$20 ($15 per kg)", "$20 $15 off", "Was $20, now $15"])
def test_of_other_prices_the_first_counts(text: str) -> None:
    assert convert(text, "price") == {"amount": text.partition("$")[2][:2], "currency": "$"}
