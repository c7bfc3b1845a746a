"""Telephone numbers, e-mail addresses and streets in sentences of many countries; what only looks like one is none."""

import pytest

from almanac.query.answering.contacts import holds_address, holds_email, holds_phone
from tests.growth import assert_linear

_PHONES = [
    "Call +49 89 5550-1422.", "Tél. 01.23.45.67.89", "(555) 010-4477", "1-800-555-TECH", "Tel: 04321 556677",
    "020 7946 0018 ext. 3", "0912 345 678",
    "03-1234-5678", "טלפון 03-6123456", "电话：010-62345678",
]  # fmt: skip
_NO_PHONES = [
    "5.372.000 ₫", "1 234 567 visitors", "350, 400 and 500", "14/11/2026", "2026-11-14", "1999-2005", "open 9.00-18.00",
    "from 8:30 to 17:45",
    "Order TO1101 20", "ISBN 978-3-16-148410-0", "UPC a897fe39b1053632", "35 to 95 kg",
]  # fmt: skip
_STREETS = [
    "4-10 rue Keller", "10, place de la République", "12 High Street", "221B Baker Street, London", "Lindenweg 7",
    "Am Alten Markt 12, 50667 Köln",
    "Calle Mayor 3", "Via Roma, 12", "Avenida da Liberdade 110", "Kerkstraat 12", "Số 5 đường Lê Lợi", "רחוב הרצל 5",
    "ул. Ленина, 5", "建国路88号",
    "〒100-0001",
]  # fmt: skip
_NO_STREETS = [
    "The way is 5 km long", "3 people drive there", "There are 3 trees in the street", "in 3 days one way",
    "5 minutes' walk from Times Square",
    "Wir sind auf dem Weg 3 Tage", "Open 7 days, 12 months",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_phone"), [*((text, True) for text in _PHONES), *((text, False) for text in _NO_PHONES)]
)
def test_telephone_numbers_are_told_from_amounts_and_dates(text: str, is_phone: bool) -> None:
    assert holds_phone(text) is is_phone


@pytest.mark.parametrize(
    ("text", "is_street"), [*((text, True) for text in _STREETS), *((text, False) for text in _NO_STREETS)]
)
def test_streets_with_a_number_are_addresses(text: str, is_street: bool) -> None:
    assert holds_address(text) is is_street


def test_an_email_address_has_a_name_and_a_domain() -> None:
    assert holds_email("Write to info@example.org, please.")
    assert holds_email("<a.b+c@mail.example.co.uk>")
    assert not holds_email("we @ the lake, 5 @ 3 euros")


@pytest.mark.parametrize("piece", ["12 ", "A", "Ab ", "1-", "a@", "rue ", "(1) ", "12 Ab "])
@pytest.mark.parametrize("holds", [holds_phone, holds_address, holds_email])
def test_long_texts_are_read_in_one_pass(holds: object, piece: str) -> None:
    assert_linear(holds, lambda pieces: piece * pieces, 600)  # type: ignore[arg-type]
