"""PDF files: page numbers, form fields, headings, raised glyphs, and words broken at line ends."""

import pytest

from almanac.spiders.reading.bounded import read_document
from almanac.spiders.reading.document import Document
from almanac.spiders.reading.pdf import read_pdf
from tests.spiders.files import column, drawn_pdf, pdf

Line = tuple[float, float, float, str]

_TOP, _BOTTOM = 800.0, 40.0
_BODIES = [
    ["The bus leaves after breakfast and drives to the lighthouse.", "It is sunny."],
    ["We walk through the cork forest and taste honey at a farm.", "It is cloudy."],
    ["A boat takes everybody to the island for lunch under pines.", "It is windy."],
    ["The museum of salt opens only for us, the evening is free.", "It is misty."],
    ["Home by train along the lagoon, with a stop at the castle.", "It is calm."],
]
_ALL = [body[0] for body in _BODIES]


def _with(texts: list[str], y: float, *, x: float = 60.0, size: float = 11.0) -> bytes:
    """A PDF with a page for each text, which stands at a height of its own above or below what the page tells."""
    return pdf([[(x, y, size, text), *column(body, x=60, top=700)] for text, body in zip(texts, _BODIES, strict=False)])


def _text(document: Document) -> str:
    return "\n".join(" | ".join(row) for element in document.elements for row in (element.rows or [[element.text]]))


def _read(body: bytes) -> str:
    return _text(read_pdf(body))


# Page numbers


@pytest.mark.parametrize(
    ("texts", "y"),
    [
        ([f"{n}" for n in range(1, 6)], _BOTTOM),
        ([f"{n}" for n in range(1, 6)], _TOP),
        ([f"- {n} -" for n in range(1, 6)], _BOTTOM),
        (["i", "ii", "iii", "iv", "v"], _BOTTOM),
        (["i", "ii", "1", "2", "3"], _BOTTOM),
        ([f"Page {n} of 5" for n in range(1, 6)], _TOP),
        ([f"Seite {n} von 9" for n in range(1, 6)], _BOTTOM),
        ([f"{n}/5" for n in range(1, 6)], _BOTTOM),
        ([f"Page {n}" for n in range(1, 6)], _BOTTOM),
        ([f"{n} | Rules of the pier" for n in range(1, 6)], _BOTTOM),
    ],
)
def test_page_numbers_go_with_their_lines_and_are_counted(texts: list[str], y: float) -> None:
    document = read_pdf(_with(texts, y))
    assert [
        line for line in _text(document).splitlines() if any(text in line.split() or line == text for text in texts)
    ] == []
    assert all(body in _text(document) for body in _ALL)
    assert document.left_out == {"repeated_lines": {"blocks": 5, "characters": sum(map(len, texts))}}


def test_rows_of_many_numbers_stay_and_are_noted_once() -> None:
    row = " ".join(map(str, range(1, 40)))
    assert _read(_with([row] * 5, _BOTTOM)).count(row) == 5


def test_what_goes_is_counted_across_the_process_that_reads() -> None:
    assert read_document(_with([f"{n}" for n in range(1, 6)], _BOTTOM), "pdf").left_out == {
        "repeated_lines": {"blocks": 5, "characters": 5}
    }


def test_a_page_number_apart_from_words_goes_with_those_that_other_pages_have_there() -> None:
    heads = ["Setup", "Setup", "Use", "Use", "Index"]
    pages = [
        [(60.0, _TOP, 9.0, head), (500.0, _TOP, 9.0, f"{n}"), *column(_BODIES[n - 1], x=60, top=700)]
        for n, head in enumerate(heads, start=1)
    ]
    document = read_pdf(pdf(pages))
    assert document.left_out["repeated_lines"] == {"blocks": 4, "characters": 2 * len("Setup 1") + 2 * len("Use 1")}
    assert "Index" in _text(document) and "Setup" not in _text(document)


def test_a_number_near_its_words_is_none_of_the_page() -> None:
    pages = [
        [(60.0, _TOP, 11.0, "Question"), (130.0, _TOP, 11.0, f"{n}"), *column(_BODIES[n - 1], x=60, top=700)]
        for n in range(1, 6)
    ]
    document = read_pdf(pdf(pages))
    assert [f"Question {n}" in _text(document) for n in range(1, 6)] == [True] * 5


@pytest.mark.parametrize(
    ("texts", "y", "size"),
    [
        ([f"Day {n}" for n in range(1, 6)], _TOP, 11),
        ([f"Question {n}" for n in range(1, 6)], _TOP, 11),
        ([f"({n} points)" for n in range(1, 6)], _BOTTOM, 11),
        ([f"({n + 2} points)" for n in range(1, 6)], _BOTTOM, 11),
        ([f"Score: {n}" for n in range(1, 6)], _BOTTOM, 11),
        ([f"Receipt No. {n}" for n in range(1, 6)], _BOTTOM, 11),
        ([f"{n} EUR" for n in range(1, 6)], _BOTTOM, 11),
        ([f"Invoice {1001 + 7 * n}" for n in range(5)], _TOP, 11),
        (["Total: 12.50 EUR", "Total: 340 EUR", "Total: 7 EUR", "Total: 8 EUR", "Total: 9 EUR"], _BOTTOM, 11),
        (["12 \xb0C", "34 \xb0C", "7 \xb0C", "9 \xb0C", "1 \xb0C"], _BOTTOM, 11),
        ([f"{2019 + n}" for n in range(5)], _TOP, 11),
        ([f"{137 + n}" for n in range(5)], _BOTTOM, 11),
        (["I", "II", "III", "IV", "V"], _TOP, 18),
        (["Bring water and a hat."] * 5, _BOTTOM, 11),
        (["Name shown on return"] * 5, _TOP, 11),
        (["1", "2"], _BOTTOM, 11),
    ],
)
def test_what_only_looks_like_a_page_number_stays(texts: list[str], y: float, size: float) -> None:
    document = read_pdf(_with(texts, y, size=size))
    assert [element.text for element in document.elements if element.text in texts] == texts
    assert document.left_out == {}


def test_the_first_and_last_rows_of_a_table_over_pages_stay() -> None:
    rows = [[f"R{n}", f"{3 * n} EUR", f"{3 * n + 1} EUR"] for n in range(40)]
    pages = [
        [
            (60.0 + 150 * m, 780.0 - 18 * y, 10.0, cell)
            for y, row in enumerate([["Name", "Low", "High"], *rows[start : start + 10]])
            for m, cell in enumerate(row)
        ]
        for start in range(0, 40, 10)
    ]
    document = read_pdf(pdf(pages))
    assert [row for element in document.elements for row in element.rows if row[0] != "Name"] == rows
    assert [element.rows[0] for element in document.elements] == [["Name", "Low", "High"]] * 4


def test_single_figures_far_from_their_row_stay_in_it() -> None:
    rows = [[f"0{n}:10", f"0{n}:15", f"{n}"] for n in range(1, 7)]
    page = [
        (60.0 + 140 * m, 780.0 - 17 * y, 10.0, cell)
        for y, row in enumerate([["Leaves", "Arrives", "Pier"], *rows])
        for m, cell in enumerate(row)
    ]
    assert [row for element in read_pdf(pdf([page])).elements for row in element.rows] == [
        ["Leaves", "Arrives", "Pier"],
        *rows,
    ]


def test_page_labels_of_the_file_tell_numbers_that_stand_alone_but_make_no_page_number_of_words() -> None:
    catalog = "/PageLabels << /Nums [0 << /S /D /St 137 >>] >>"
    for text, stays in (("{}", False), ("Day {}", True)):
        content = [
            f"BT /F1 11 Tf 1 0 0 1 60 {_TOP} Tm ({text.format(137 + n)}) Tj 1 0 0 1 60 700 Tm ({_ALL[n]}) Tj ET"
            for n in range(5)
        ]
        assert ("141" in _read(drawn_pdf(content, catalog=catalog))) is stays


def test_of_what_the_file_calls_no_content_the_first_stays_and_page_numbers_go() -> None:
    head = (
        "/Artifact BMC BT /F1 9 Tf 1 0 0 1 60 800 Tm (Rules of the pier) Tj ET BT /F1 9 Tf 1 0 0 1 60 788 Tm "
        "(Page {}) Tj ET EMC "
    )
    document = read_pdf(
        drawn_pdf([head.format(n + 1) + f"BT /F1 11 Tf 1 0 0 1 60 700 Tm ({_ALL[n]}) Tj ET" for n in range(5)])
    )
    assert _text(document).count("Rules of the pier") == 1
    assert "Page" not in _text(document)
    assert document.left_out["repeated_lines"] == {
        "blocks": 9,
        "characters": 4 * len("Rules of the pier") + 5 * len("Page 1"),
    }


def test_pages_that_are_all_alike_are_read() -> None:
    document = read_pdf(pdf([column(["Bring water and a hat."]) for _ in range(4)]))
    assert [element.text for element in document.elements] == ["Bring water and a hat."] * 4


def test_a_paragraph_goes_on_past_lines_that_repeat() -> None:
    pages = [
        [
            (60.0, _TOP, 9.0, "Rules of the pier"),
            *column(
                [f"begins here on page {n} and is told to", f"its end on the page {n} that comes then and"],
                x=60,
                top=700,
            ),
            (60.0, _BOTTOM, 9.0, "In force"),
        ]
        for n in range(3)
    ]
    document = read_pdf(pdf(pages))
    whole = " ".join(
        f"begins here on page {n} and is told to its end on the page {n} that comes then and" for n in range(3)
    )
    assert [element.text for element in document.elements if "begins" in element.text] == [whole]
    assert _text(document).count("Rules of the pier") == _text(document).count("In force") == 3


# Form fields


_LABELS = (
    "BT /F1 11 Tf 1 0 0 1 60 700 Tm (Boat name:) Tj 1 0 0 1 60 600 Tm (Crew, in short) Tj 1 0 0 1 80 500 Tm "
    "(Licensed) Tj 1 0 0 1 60 400 Tm (Harbour) Tj ET"
)


def test_values_of_form_fields_are_read_beside_their_labels() -> None:
    fields = [
        "/FT /Tx /V (Sea Otter) /Rect [300 695 400 713]",
        "/FT /Tx /V (Ann and\\rBob) /Rect [60 560 300 592]",
        "/FT /Btn /V /Yes /AS /Yes /AP << /N << /Yes << >> /Off << >> >> >> /Rect [60 497 72 509]",
        "/FT /Ch /Ff 131072 /Opt [[(po) (Porto)] [(vi) (Vigo)]] /V (vi) /Rect [125 395 200 413]",
        "/FT /Tx /TU (Telephone) /V (0123) /Rect [60 200 200 218]",
    ]
    read = _read(drawn_pdf([_LABELS], fields)).replace("\n", " ")
    assert "Boat name: Sea Otter" in read
    assert "Crew, in short: Ann and Bob" in read
    assert "Licensed: Yes" in read
    assert "Harbour Vigo" in read
    assert "Telephone: 0123" in read


def test_boxes_that_are_not_ticked_say_so() -> None:
    box = "/FT /Btn /V /Off /AS /Off /AP << /N << /Yes << >> /Off << >> >> >> /Rect [60 497 72 509]"
    assert "Licensed: \u2610" in _read(drawn_pdf([_LABELS], [box]))


@pytest.mark.parametrize("hidden", ["/F 2", "/F 32", "/Ff 8192", "/V ()"])
def test_hidden_fields_and_passwords_are_not_read(hidden: str) -> None:
    field = f"/FT /Tx /V (secret) /Rect [300 695 400 713] {hidden}".replace(
        "/V (secret)", "" if "/V" in hidden else "/V (secret)"
    )
    assert _read(drawn_pdf([_LABELS], [field])) == _read(drawn_pdf([_LABELS]))


def test_a_grid_of_fields_is_a_table() -> None:
    cells = [["Ann", "captain"], ["Bob", "cook"]]
    fields = [
        f"/FT /Tx /V ({cell}) /Rect [{60 + 200 * m} {670 - 24 * n} {200 + 200 * m} {688 - 24 * n}]"
        for n, row in enumerate(cells)
        for m, cell in enumerate(row)
    ]
    document = read_pdf(drawn_pdf(["BT /F1 11 Tf 1 0 0 1 60 700 Tm (Name) Tj 1 0 0 1 260 700 Tm (Role) Tj ET"], fields))
    assert [element.rows for element in document.elements] == [[["Name", "Role"], *cells]]


# Headings and titles


_PROSE = "".join(
    f"1 0 0 1 60 {600 - 14 * n} Tm (The harbour has walls that were mended many times in line {n}) Tj "
    for n in range(20)
)


@pytest.mark.parametrize(
    "mark",
    [
        "BT /F1 70 Tf 0.7 0.7 -0.7 0.7 115 215 Tm (CONFIDENTIAL) Tj ET",  # across the page
        "/Faint gs BT /F1 70 Tf 1 0 0 1 60 650 Tm (CONFIDENTIAL) Tj ET",  # transparent
        "BT /F1 70 Tf 1 0 0 1 60 500 Tm (CONFIDENTIAL) Tj ET",  # behind the lines
    ],
)
def test_a_watermark_is_text_but_no_heading(mark: str) -> None:
    document = read_pdf(drawn_pdf([f"q {mark} Q BT /F1 16 Tf 1 0 0 1 60 740 Tm (Rules) Tj /F1 11 Tf {_PROSE} ET"]))
    assert document.title == "Rules"
    assert [(element.text, element.level) for element in document.elements if element.kind == "title"] == [("Rules", 1)]
    assert document.elements[-1].text == "CONFIDENTIAL"


@pytest.mark.parametrize("is_last", [False, True])
def test_an_initial_joins_its_word(is_last: bool) -> None:
    initial = (60.0, 680.0, 34.0, "T")
    lines = [
        (84.0, 694.0, 11.0, "owers and walls were mended many times"),
        (84.0, 680.0, 11.0, "by the people of the village, and then"),
    ]
    lines += column(["again, as the custom of the harbour is."], x=60, top=666)
    document = read_pdf(pdf([[*lines, initial] if is_last else [initial, *lines]]))
    assert document.elements[0].text.startswith("Towers and walls")
    assert all(element.kind == "text" for element in document.elements)


def test_an_initial_that_is_a_word_stays_one() -> None:
    lines = [
        (60.0, 680.0, 34.0, "A"),
        (86.0, 694.0, 11.0, "harbour has walls that were mended many"),
        (86.0, 680.0, 11.0, "times, as a harbour must."),
    ]
    assert _read(pdf([lines])).startswith("A harbour has")


def test_large_bullets_make_no_heading_and_no_title() -> None:
    items = [
        piece
        for n in range(3)
        for piece in ((60.0, 500.0 - 20 * n, 16.0, "\u2022"), (75.0, 500.0 - 20 * n, 11.0, f"Keep left at buoy {n}"))
    ]
    document = read_pdf(pdf([[*column(["What is asked of everybody in the harbour:"], x=60, top=540), *items]]))
    assert document.title == "What is asked of everybody in the harbour:"
    assert document.elements[-1].text == "\n".join(f"\u2022 Keep left at buoy {n}" for n in range(3))
    assert all(element.kind == "text" for element in document.elements)


def test_a_page_that_was_set_sideways_is_read_as_it_is_held() -> None:
    cells = "".join(f"0 1 -1 0 {100 + 18 * n} {60 + 150 * m} Tm (r{n}c{m}) Tj " for n in range(4) for m in range(4))
    document = read_pdf(drawn_pdf([f"BT /F1 10 Tf {cells} ET"]))
    assert [element.rows for element in document.elements] == [[[f"r{n}c{m}" for m in range(4)] for n in range(4)]]


# Raised glyphs


@pytest.mark.parametrize(
    ("drawn", "read"),
    [
        (
            "(The dose was 2.4 \xd7 10) Tj /F1 7 Tf 4 Ts (6) Tj 0 Ts /F1 11 Tf ( cells of it) Tj",
            "The dose was 2.4 \xd7 10\u2076 cells of it",
        ),
        (
            "(a rate of 5 \xd7 10) Tj /F1 8 Tf 5 Ts (-3) Tj 0 Ts /F1 11 Tf ( per day) Tj",
            "a rate of 5 \xd7 10\u207b\xb3 per day",
        ),
        ("(It is 25 m) Tj /F1 7 Tf 4 Ts (2) Tj 0 Ts /F1 11 Tf (, and it is deep) Tj", "It is 25 m\xb2, and it is deep"),
        (
            "(The tower was built in 1684) Tj /F1 7 Tf 4 Ts (3) Tj 0 Ts /F1 11 Tf ( and burnt) Tj",
            "The tower was built in 1684\xb3 and burnt",
        ),
        ("(Water is H) Tj /F1 7 Tf -2 Ts (2) Tj 0 Ts /F1 11 Tf (O here) Tj", "Water is H\u2082O here"),
        ("(On the 1) Tj /F1 7 Tf 4 Ts (st) Tj 0 Ts /F1 11 Tf ( of May) Tj", "On the 1st of May"),
        ("(It costs $12) Tj /F1 7 Tf 4 Ts (99) Tj 0 Ts /F1 11 Tf ( a day) Tj", "It costs $12.99 a day"),
        ("(Of them 14) Tj /F1 7 Tf 4 Ts (50) Tj 0 Ts /F1 11 Tf ( are here) Tj", "Of them 14\u2075\u2070 are here"),
        (
            "(Half is 2) Tj /F1 7 Tf 4 Ts (1) Tj 0 Ts /F1 11 Tf (/) Tj /F1 7 Tf -2 Ts (2) Tj 0 Ts /F1 11 Tf ( "
            "hours) Tj",
            "Half is 2 1/2 hours",
        ),
        ("/F1 7 Tf 4 Ts (4) Tj 0 Ts /F1 11 Tf ( See the archive) Tj", "\u2074 See the archive"),
    ],
)
def test_raised_and_lowered_glyphs_are_written_as_such(drawn: str, read: str) -> None:
    assert _read(drawn_pdf([f"BT /F1 11 Tf 1 0 0 1 60 700 Tm {drawn} ET"])) == read


def test_raised_glyphs_in_a_cell_are_written_as_such() -> None:
    raised = "/F1 7 Tf 4 Ts ({}) Tj 0 Ts /F1 11 Tf"
    head = "1 0 0 1 60 700 Tm (Cells) Tj 1 0 0 1 260 700 Tm (Area) Tj"
    cells = f"{head} 1 0 0 1 60 680 Tm (10) Tj {raised.format(8)} 1 0 0 1 260 680 Tm (9 m) Tj {raised.format(2)}"
    document = read_pdf(drawn_pdf([f"BT /F1 11 Tf {cells} ET"]))
    assert [element.rows for element in document.elements] == [[["Cells", "Area"], ["10\u2078", "9 m\xb2"]]]


# Words broken at line ends


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        (
            "Tide tables lie at https://harbour.example/tide-tables/north-",
            "pier/2024.pdf",
            "https://harbour.example/tide-tables/north-pier/2024.pdf",
        ),
        (
            "They lie at https://harbour.example/tide-tables/north/",
            "pier/2024.pdf",
            "https://harbour.example/tide-tables/north/pier/2024.pdf",
        ),
        (
            "Write to the officer of the day at duty-officer@north-",
            "harbour.example",
            "duty-officer@north-harbour.example",
        ),
        ("The plan of the pier is in the file that is called north-", "pier.pdf", "north-pier.pdf"),
        ("The office of the harbour may be called at +44-20-7946-", "0000", "+44-20-7946-0000"),
        ("The committee of the harbour says that it will co-", "operate", "cooperate"),
        (
            "It lies at ftp://one.example/plans/",
            "ftp://two.example/plans/",
            "ftp://one.example/plans/ ftp://two.example/plans/",
        ),
        ("Go with it to the folder of north-1.2/", "north-1.2.tar.gz", "north-1.2/ north-1.2.tar.gz"),
        (
            "All of it lies at https://harbour.example/plans/",
            "and at home",
            "https://harbour.example/plans/ and at home",
        ),
    ],
)
def test_hyphens_of_addresses_and_numbers_survive_the_end_of_a_line(first: str, second: str, read: str) -> None:
    assert (
        _read(pdf([column([first, f"{second} for everybody who asks for it"])]))
        .partition(" for everybody")[0]
        .endswith(read)
    )
