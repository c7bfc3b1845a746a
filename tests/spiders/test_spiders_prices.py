"""Prices and amounts as shops write them: what is read, and what is refused rather than guessed."""

import re
from decimal import Decimal
from typing import Any

import pytest
from babel.numbers import format_compact_currency, format_compact_decimal, format_currency
from hypothesis import given
from hypothesis import strategies as st

from almanac.schemas.declaration.field_rules import FieldType
from almanac.spiders.mapping.values import convert


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
