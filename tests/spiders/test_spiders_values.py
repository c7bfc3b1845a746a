"""Texts into values: what is read, and what is refused rather than guessed."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.templates import fill
from almanac.schemas.declaration.fields import FieldRule, FieldType
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
        ("có", "boolean", "vi", True),
        ("אזל מהמלאי", "boolean", "he", False),
        ("Nicht lieferbar", "boolean", "de", False),
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
        ("3 พฤษภาคม 2567", "date", "th", "2024-05-03"),
        ("2024-05-04T10:00:00+02:00", "datetime", "en", "2024-05-04T10:00:00+02:00"),
        ("Wed, 02 Dec 2026 10:00:00 +0100", "datetime", "pl", "2026-12-02T10:00:00+01:00"),
        ("Wed, 02 Dec 2026 10:00:00 +0100", "date", "ja", "2026-12-02"),
        ("2 Dec 2026 10:00 GMT", "datetime", "ar", "2026-12-02T10:00:00+00:00"),
        ("Sun, 03 May 2026 23:30:00 EDT", "datetime", "fr", "2026-05-03T23:30:00-04:00"),
        ("Sun, 03 May 2026 23:30:00 -0000", "datetime", "th", "2026-05-03T23:30:00+00:00"),
        ("3 août 2024 à 14h30", "datetime", "fr", "2024-08-03T14:30:00"),
        ("5 มี.ค. 2567", "date", "th", "2024-03-05"),
        ("5 มี.ค. 67", "date", "th", "2024-03-05"),
        ("25 มิ.ย. พ.ศ. 2566", "date", "th", "2023-06-25"),
        ("05/03/2567", "date", "th", "2024-03-05"),
        ("05/03/2024", "date", "th", "2024-03-05"),
        ("1402/12/11", "date", "fa", "2024-03-01"),
        ("۱۴۰۲/۱۲/۱۱", "date", "fa-IR", "2024-03-01"),
        ("١٤٠٢/١٢/١١", "date", "ps", "2024-03-01"),
        ("11/12/1402", "date", "fa", "2024-03-01"),
        ("14021211", "date", "fa", "2024-03-01"),
        ("1402-12-11T18:30:00+03:30", "datetime", "fa", "2024-03-01T18:30:00+03:30"),
        ("۱۴۰۲/۱۲/۱۵ ساعت ۱۸:۳۰", "datetime", "fa", "2024-03-05T18:30:00"),
        ("۱۱ اسفند ۱۴۰۲", "date", "fa", "2024-03-01"),
        ("سه‌شنبه ۱۵ اسفندماه ۱۴۰۲، ۱۸:۳۰", "datetime", "fa", "2024-03-05T18:30:00"),
        ("۲۲ بهمن ۱۳۵۷ هـ.ش", "date", "fa", "1979-02-11"),
        ("5 ارديبهشت 1403", "date", "fa", "2024-04-24"),
        ("۱۱ حوت ۱۴۰۲", "date", "prs", "2024-03-01"),
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
        ("14 mars 2026 kl. 19.00", "datetime", "sv", "2026-03-14T19:00:00"),
        ("14 Μαρτίου 2026 στις 21:30", "datetime", "el", "2026-03-14T21:30:00"),
        ("1. März 2024, 18 Uhr", "datetime", "de", "2024-03-01T18:00:00"),
        ("1.3.2024 um 18 Uhr", "datetime", "de", "2024-03-01T18:00:00"),
        ("1. März 2024, 18.30 Uhr", "datetime", "de", "2024-03-01T18:30:00"),
        ("1 maart 2024, 20 uur", "datetime", "nl", "2024-03-01T20:00:00"),
        ("1 marzo 2024 alle ore 21", "datetime", "it", "2024-03-01T21:00:00"),
        ("1/3/2024, ore 9", "datetime", "it", "2024-03-01T09:00:00"),
        ("1. marts 2024 kl. 18", "datetime", "da", "2024-03-01T18:00:00"),
        ("1. mars 2024 klokken 18.30", "datetime", "no", "2024-03-01T18:30:00"),
        ("1 mars 2024 kl 18", "datetime", "sv", "2024-03-01T18:00:00"),
        ("1.3.2024 klo 18", "datetime", "fi", "2024-03-01T18:00:00"),
        ("1 marca 2024 o godz. 18", "datetime", "pl", "2024-03-01T18:00:00"),
        ("1. března 2024 v 18 hod.", "datetime", "cs", "2024-03-01T18:00:00"),
        ("2024. március 1. 18 óra", "datetime", "hu", "2024-03-01T18:00:00"),
        ("1 martie 2024, ora 18", "datetime", "ro", "2024-03-01T18:00:00"),
        ("1 Mart 2024 saat 18", "datetime", "tr", "2024-03-01T18:00:00"),
        ("1er mars 2024 à 18 heures 30", "datetime", "fr", "2024-03-01T18:30:00"),
        ("1 de março de 2024 às 21h", "datetime", "pt", "2024-03-01T21:00:00"),
        ("1 de marzo de 2024 a las 21 h", "datetime", "es", "2024-03-01T21:00:00"),
        ("1 de març de 2024 a les 18 hores", "datetime", "ca", "2024-03-01T18:00:00"),
        ("1 марта 2024 в 18 часов", "datetime", "ru", "2024-03-01T18:00:00"),
        ("1 tháng 3 năm 2024 lúc 18 giờ", "datetime", "vi", "2024-03-01T18:00:00"),
        ("2024年3月1日18時", "datetime", "ja", "2024-03-01T18:00:00"),
        ("令和8年12月3日", "date", "ja", "2026-12-03"),
        ("令和８年12月5日（土）午後7時半", "datetime", "ja-JP", "2026-12-05T19:30:00"),
        ("令和元年5月1日", "date", "ja", "2019-05-01"),
        ("12月3日（令和8年）", "date", "ja", "2026-12-03"),
        ("令和05年12月3日", "date", "ja", "2023-12-03"),
        ("昭和 64 年 1 月 7 日", "date", "ja", "1989-01-07"),
        ("R8.12.3", "date", "ja", "2026-12-03"),
        ("H31/4/30", "date", "ja", "2019-04-30"),
        ("中華民國115年12月3日", "date", "zh-TW", "2026-12-03"),
        ("民國 99/1/2", "date", "zh-Hant", "2010-01-02"),
        ("2026年12月3日 下午7点半", "datetime", "zh", "2026-12-03T19:30:00"),
        ("2024年3月1日 下午6点30分", "datetime", "zh", "2024-03-01T18:30:00"),
        ("1 de marzo de 2024, 6:30 p. m.", "datetime", "es", "2024-03-01T18:30:00"),
        ("1 de marzo de 2024, 6:30 p.\u00a0m.", "datetime", "es", "2024-03-01T18:30:00"),
        ("1/3/2024 6:30 a. m.", "datetime", "es", "2024-03-01T06:30:00"),
        ("1η Μαρτίου 2024", "datetime", "el", "2024-03-01T00:00:00"),
        ("1ης Μαρτίου 2024", "datetime", "el", "2024-03-01T00:00:00"),
        ("1 Μαρτίου 2024 στις 18", "datetime", "el", "2024-03-01T18:00:00"),
        ("سه شنبه ۱۵ اسفند ۱۴۰۲ ساعت ۱۸", "datetime", "fa", "2024-03-05T18:00:00"),
        ("2024-03-01T24:00:00Z", "datetime", "en", "2024-03-02T00:00:00+00:00"),
        ("2024-12-31T24:00", "datetime", "en", "2025-01-01T00:00:00"),
        ("1 آذار 2024", "date", "ar", "2024-03-01"),
        ("15 كانون الثاني 2024", "date", "ar", "2024-01-15"),
        ("١٥ كانون الأول ٢٠٢٤", "date", "ar", "2024-12-15"),
        ("2 تشرين الثاني 2024", "date", "ar", "2024-11-02"),
        ("STOKTA YOK", "boolean", "tr", False),
        ("TÜKENDİ", "boolean", "tr", False),
        ("Stokta var (3 adet)", "boolean", "tr", True),
        ("Εκτός αποθέματος", "boolean", "el", False),
        ("Διαθέσιμο", "boolean", "el", True),
        ("हाँ", "boolean", "hi", True),
        ("नहीं", "boolean", "hi", False),
        ("स्टॉक में (3)", "boolean", "hi", True),
        ("स्टॉक में नहीं है", "boolean", "hi", False),
        ("ใช่", "boolean", "th", True),
        ("ไม่ใช่", "boolean", "th", False),
        ("สินค้าหมด", "boolean", "th", False),
        ("มีสินค้า", "boolean", "th", True),
        ("بله", "boolean", "fa", True),
        ("خیر", "boolean", "fa", False),
        ("ناموجود", "boolean", "fa", False),
        ("موجود نیست", "boolean", "fa", False),
        ("হ্যাঁ", "boolean", "bn", True),
        ("না", "boolean", "bn", False),
        ("স্টকে নেই", "boolean", "bn", False),
        ("Є в наявності", "boolean", "uk", True),
        ("Немає в наявності", "boolean", "uk", False),
        ("În stoc", "boolean", "ro", True),
        ("Stoc epuizat", "boolean", "ro", False),
        ("Raktáron", "boolean", "hu", True),
        ("Nincs raktáron", "boolean", "hu", False),
        ("Na skladě 5 ks", "boolean", "cs", True),
        ("Není na skladě", "boolean", "cs", False),
        ("В наличност", "boolean", "bg", True),
        ("Няма наличност", "boolean", "bg", False),
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
    ("text", "language", "amount", "currency"),
    [
        ("Price: £10.66", "en", "10.66", "£"),
        ("16,99\u00a0€", "fr", "16.99", "€"),
        ("1 299:50 kr", "sv", "1299.50", "kr"),
        ("1299:-", "sv", "1299", None),
        ("1tr2 đ", "vi", "1200000", "đ"),
        ("2tr500 đ", "vi", "2500000", "đ"),
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
        ("1,299 рублей", "ru", "1.299", "рублей"),
        ("1,299 ευρώ", "el", "1.299", "ευρώ"),
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
        ("1.299 €", "en", "1299", "€"),
        ("1.299 $", "en", "1.299", "$"),
        ("$1,299", "fr", "1299", "$"),
        ("1,299 €", "fr", "1.299", "€"),
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
        ("$60–121K", "en", "60000", "$"),
        ("$60K - $121K (Glassdoor est.)", "en", "60000", "$"),
        ("$500–1.2K", "en", "500", "$"),
        ("60–121 k€", "fr", "60000", "€"),
        ("60 € – 121 k€", "fr", "60", "€"),
        ("up to $121K/yr", "en", "121000", "$"),
        ("-$1.5K", "en", "-1500", "$"),
        ("12k€", "fr", "12000", "€"),
        ("12k EUR", "de", "12000", "EUR"),
        ("k€ 12", "fr", "12000", "€"),
        ("TEUR 12", "de", "12000", "EUR"),
        ("500kđ", "vi", "500000", "đ"),
        ("1.5M €", "fr", "1500000", "€"),
        ("1,2 Mio. €", "de", "1200000", "€"),
        ("1,5 Mrd. €", "de", "1500000000", "€"),
        ("3 milliards d'euros", "fr", "3000000000", "euros"),
        ("20 mil €", "es", "20000", "€"),
        ("5 mil millones €", "es", "5000000000", "€"),
        ("$1.5T", "en", "1500000000000", "$"),
        ("$25 T-shirt", "en", "25", "$"),
        ("$799 M4 Max", "en", "799", "$"),
        ("60 K to 121 K €", "en", "60000", "€"),
        ("$60 K per year", "en", "60000", "$"),
        ("$1.2 billion", "en", "1200000000", "$"),
        ("$1.23456789K", "en", "1234.56789", "$"),
        ("$5 million 2024", "en", "5000000", "$"),
        ("5 triệu đồng", "vi", "5000000", "đồng"),
        ("1,5 millió Ft", "hu", "1500000", "Ft"),
        ("2,5 mia. kr.", "da", "2500000000", "kr"),
        ("kr. 1.299,00", "da", "1299.00", "kr"),
        ("3,5 Billionen €", "de", "3500000000000", "€"),
        ("1,5 milj. euroa", "fi", "1500000", "euroa"),
        ("20 хил. лв.", "bg", "20000", "лв."),
        ("2 milioane lei", "ro", "2000000", "lei"),
        ("₹3-5 LPA", "en-IN", "300000", "₹"),
        ("100万ドル", "ja", "1000000", "ドル"),
        ("1,234 tỷ đồng", "vi", "1234000000", "đồng"),
        ("1.234 tỷ đồng", "vi", "1234000000000", "đồng"),
        ("từ 5 đến 7 triệu đồng", "vi", "5000000", "đồng"),
        ("1 tỷ 200 triệu đồng", "vi", "1200000000", "đồng"),
        ("10 nghìn tỷ đồng", "vi", "10000000000000", "đồng"),
        ("₹2.5 lakh", "en-IN", "250000", "₹"),
        ("₹12L – ₹18L PA", "en-IN", "1200000", "₹"),
        ("₹1 crore 50 lakh", "en-IN", "15000000", "₹"),
        ("1万円", "ja", "10000", "円"),
        ("3万〜5万円", "ja", "30000", "円"),
        ("1億2,000万円", "ja", "120000000", "円"),
        ("5千円", "ja", "5000", "円"),
        ("1.2万元", "zh", "12000", "元"),
        ("1만원", "ko", "10000", "원"),
        ("от 10 до 20 тыс. руб.", "ru", "10000", "руб."),
        ("5 אלף ש\"ח", "he", "5000", "ש\"ח"),
        ("12 €/m2", "de", "12", "€"),
        ("20 mil foil: $5", "en", "5", "$"),
        ("5 m² 12 €", "de", "12", "€"),
        (129.5, "en", "129.5", None),
        ({"price": "60K", "priceCurrency": "USD"}, "en", "60000", "USD"),
        ({"price": "1,299.00", "priceCurrency": "USD"}, "en", "1299.00", "USD"),
        ({"amount": 5372000, "currency": "VND"}, "vi", "5372000", "VND"),
    ],
)  # fmt: skip
def test_price_is_read_as_shops_write_it(text: Any, language: str, amount: str, currency: str | None) -> None:
    assert convert(text, "price", language=language) == {"amount": amount, "currency": currency}


@pytest.mark.parametrize(
    "text",
    [
        # thousands and millions of what?
        *("12k", "1.5 million", "1.5 triệu", "15 - 20 triệu/tháng", "5 for 10", "1.2.3 €"),
        *(
            "20 mil €",
            "T€ 5",
            "$5 M&Ms",
            "$25 K-Cup",
            "$25 B grade",
            "60–121 mil €",
        ),  # `mil` is a thousand in Spanish, a million in Romanian; T€ a thousand in German
        *("$60–$121K", "€1.299M"),  # $60 or $60K; 1.299 or 1,299 millions
        *("on request", "20% off", "-10 %", "%20", "10 et 20"),
    ],
)
def test_price_that_would_be_a_guess_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"price|number"):
        convert(text, "price")


def test_a_billion_is_refused_where_it_may_be_a_million_millions() -> None:
    with pytest.raises(ValueError, match="billions"):
        convert("1,2 billions €", "price", language="fr")


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


@pytest.mark.parametrize(
    "text", ["1402/12/30", "1402/07/31", "02/12/11", "1445/08/20 قمری", "1650/01/01", "۱۱ اسفند", "1402121"]
)
def test_persian_date_that_would_be_a_guess_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a date|year"):
        convert(text, "date", language="fa")


@pytest.mark.parametrize(
    "text",
    ["In stock: no", "В наличии нет", "Na skladě není", "स्टॉक में अभी नहीं है", "موجود در انبار نیست", "stokta var değil"],
)
def test_availability_that_is_denied_after_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither yes nor no"):
        convert(text, "boolean")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("1. März 2024, 6 Uhr abends", "de"),
        ("1. März 2024, 18–20 Uhr", "de"),
        ("1. März 2024, 25 Uhr", "de"),
        ("1 mars 2024 kl. 18-20", "sv"),
    ],
)
def test_time_that_would_be_read_in_part_is_refused(text: str, language: str) -> None:
    with pytest.raises(ValueError, match="not a date"):
        convert(text, "datetime", language=language)


def test_year_that_may_be_hijri_or_gregorian_is_refused() -> None:
    with pytest.raises(ValueError, match="Hijri"):
        convert("١٤٤٥/٠٨/٢٠", "date", language="ar")
    with pytest.raises(ValueError, match="Hijri"):
        convert("1445/08/20 | 18:30", "datetime", language="ar")
    assert convert("20 مارس 1445", "date", language="ar") == "1445-03-20"
    assert convert("1445/08/20", "date", language="ar", date_format="%Y/%m/%d") == "1445-08-20"
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
    ("value", "unit", "told"),
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
def test_what_is_no_unix_time_is_refused_with_what_to_declare(value: Any, unit: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
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


@given(
    st.decimals(0, 9999, places=2),
    st.sampled_from([("K", 3), ("m", 6), (" Mio.", 6), ("bn", 9), (" triệu", 6), ("万", 4), (" lakh", 5)]),
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
