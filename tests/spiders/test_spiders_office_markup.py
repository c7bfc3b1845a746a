"""DOCX files as offices write them: tracked changes, content controls, fields, formulas and merged cells, with every
word that Word shows.
"""

import io
import time
import zipfile

import pytest

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.archives import open_archive
from almanac.spiders.reading.docx_markup import flattened
from almanac.spiders.reading.docx_merges import W
from almanac.spiders.reading.entities import without_entities
from almanac.spiders.reading.office import read_docx
from almanac.spiders.reading.raised import raised_in
from tests.growth import assert_linear
from tests.spiders.files import docx, paragraph, table

_M = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def _run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def _p(*inner: str) -> str:
    return f"<w:p>{''.join(inner)}</w:p>"


def _in(tag: str, *inner: str) -> str:
    return f'<w:{tag} w:id="1" w:author="x">{"".join(inner)}</w:{tag}>'


def _sdt(*inner: str, properties: str = "") -> str:
    return (
        f'<w:sdt><w:sdtPr><w:alias w:val="alias"/>{properties}</w:sdtPr><w:sdtContent>'
        f"{''.join(inner)}</w:sdtContent></w:sdt>"
    )


def _math(*inner: str) -> str:
    return f'<m:oMath xmlns:m="{_M}">{"".join(inner)}</m:oMath>'


def _mr(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def _cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def _tbl(*rows: str) -> str:
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def _read(body: str) -> list[object]:
    return [
        list(map(list, element.rows)) if element.kind == "table" else element.text
        for element in read_docx(docx(body)).elements
    ]


_MARK_GONE = f"<w:pPr><w:rPr>{_in('del')}</w:rPr></w:pPr>"
_GONE = _in("del", "<w:r><w:delText>GONE</w:delText></w:r>")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            _p(_run("The fee is "), _in("ins", _run("500 euro")), _GONE, _run(" a year.")),
            ["The fee is 500 euro a year."],
        ),
        (_p(f"<w:pPr><w:rPr>{_in('ins')}</w:rPr></w:pPr>", _in("ins", _run("A new paragraph."))), ["A new paragraph."]),
        (_p(_in("moveFrom", _run("GONE"))) + _p(_run("x "), _in("moveTo", _run("moved"))), ["x moved"]),
        (_p(_in("ins", _run("kept"), _in("del", _run("GONE")))), ["kept"]),
        (_p(_in("del", _in("ins", _run("GONE")), _sdt(_run("GONE"))), _run("kept")), ["kept"]),
        (_sdt(paragraph("Block.")), ["Block."]),
        (_sdt(_sdt(_sdt(paragraph("Deep."), paragraph("Order.")))), ["Deep.", "Order."]),
        (_p(_run("Name: "), _sdt(_run("Ada")), _run(" L.")), ["Name: Ada L."]),
        (_sdt(table([["a", "b"]])), [[["a", "b"]]]),
        (_tbl(_cell("a") + _sdt(_cell("b"))) + "<w:p/>", [[["a", "b"]]]),
        ("<w:tbl>" + _sdt(f"<w:tr>{_cell('a')}</w:tr>") + "</w:tbl>", [[["a"]]]),
        (f"<w:tbl><w:tr><w:tc>{_sdt(paragraph('in a cell'))}</w:tc></w:tr></w:tbl>", [[["in a cell"]]]),
        (_p(_run("See "), f'<w:fldSimple w:instr=" REF x ">{_run("section 4")}</w:fldSimple>'), ["See section 4"]),
        (_p(_run("In "), f'<w:smartTag w:uri="u" w:element="City">{_run("Bonn")}</w:smartTag>'), ["In Bonn"]),
        (_p(f'<w:hyperlink w:anchor="x">{_in("ins", _run("a link"))}</w:hyperlink>'), ["a link"]),
        (_p(f'<w:customXml w:element="x">{_run("custom")}</w:customXml>'), ["custom"]),
        (
            _p(
                "<w:r><w:ruby><w:rt>"
                + _run("かんじ")
                + "</w:rt><w:rubyBase>"
                + _run("漢字")
                + "</w:rubyBase></w:ruby></w:r>"
            ),
            ["漢字"],
        ),
    ],
)
def test_what_word_shows_is_read_and_what_is_deleted_is_not(body: str, shown: list[object]) -> None:
    assert _read(paragraph("Before.") + body + paragraph("After.")) == ["Before.", *shown, "After."]


def test_a_paragraph_whose_end_is_deleted_goes_on_in_the_next() -> None:
    assert _read(_p(_MARK_GONE, _run("The fee ")) + _p(_MARK_GONE, _GONE) + _p(_run("is 5."))) == ["The fee is 5."]
    assert _read(_p(_MARK_GONE, _run("Alone.")) + table([["a"]])) == ["Alone.", [["a"]]]


def test_deleted_rows_and_cells_are_left_out() -> None:
    gone = f"<w:trPr>{_in('del')}</w:trPr>{_cell('GONE')}{_cell('GONE')}"
    assert _read(_tbl(_cell("a") + _cell("b"), gone, _cell("c") + _cell("GONE", _in("cellDel")) + _cell("d"))) == [
        [["a", "b"], ["c", "d"]]
    ]


def test_a_list_number_before_a_tracked_change_makes_no_list_item() -> None:
    was = _in("pPrChange", '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>')
    assert [
        element.kind for element in read_docx(docx(_p(f"<w:pPr>{was}</w:pPr>", _run("Plain text now.")))).elements
    ] == ["text"]


@pytest.mark.parametrize(
    ("math", "text"),
    [
        (_mr("E=m") + f"<m:sSup><m:e>{_mr('c')}</m:e><m:sup>{_mr('2')}</m:sup></m:sSup>", "E=mc²"),
        (f"<m:f><m:num>{_mr('a+1')}</m:num><m:den>{_mr('2')}</m:den></m:f>", "(a+1)/2"),
        (_mr("1") + f"<m:f><m:num>{_mr('1')}</m:num><m:den>{_mr('2')}</m:den></m:f>", "1 1/2"),
        (f"<m:f><m:num>{_mr('a')}</m:num><m:den>{_mr('bc')}</m:den></m:f>" + _mr("d"), "a/bc d"),
        (
            f'<m:phant><m:phantPr><m:show m:val="0"/></m:phantPr><m:e>{_mr("GONE")}</m:e></m:phant>'
            f"<m:phant><m:e>{_in('del', _mr('GONE'), _GONE)}{_mr('x')}</m:e></m:phant>",
            "x",
        ),
        (f'<m:rad><m:radPr><m:degHide m:val="1"/></m:radPr><m:deg/><m:e>{_mr("a+b")}</m:e></m:rad>', "√(a+b)"),
        (
            f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{_mr("i=1")}</m:sub><m:sup>{_mr("n")}</m:sup>'
            f"<m:e>{_mr('i')}</m:e></m:nary>",
            "∑ᵢ₌₁ⁿ i",
        ),
        (f"<m:func><m:fName>{_mr('sin')}</m:fName><m:e><m:d><m:e>{_mr('x')}</m:e></m:d></m:e></m:func>", "sin (x)"),
        (
            f"<m:m><m:mr><m:e>{_mr('1')}</m:e><m:e>{_mr('2')}</m:e></m:mr><m:mr><m:e>{_mr('3')}</m:e><m:e>"
            f"{_mr('4')}</m:e></m:mr></m:m>",
            "1 2; 3 4",
        ),
        (
            f"<m:sSub><m:e>{_mr('x')}</m:e><m:sub>{_mr('0')}</m:sub></m:sSub>"
            + _in("del", _mr("GONE"))
            + _in("ins", _mr("+1")),
            "x₀+1",
        ),
    ],
)
def test_a_formula_is_written_on_one_line(math: str, text: str) -> None:
    assert _read(_p(_run("So "), _math(math), _run(" holds."))) == [f"So {text} holds."]
    shown = f'<m:oMathPara xmlns:m="{_M}"><m:oMathParaPr/>{_math(math)}</m:oMathPara>'
    assert _read(_p(_run("So"), shown, _run("holds."))) == [f"So {text} holds."]
    assert _read(shown + paragraph("After.")) == [text, "After."]


def test_a_formula_nested_beyond_reason_keeps_its_text() -> None:
    assert _read(_p(_math("<m:box><m:e>" * 100 + _mr("deep") + "</m:e></m:box>" * 100))) == ["deep"]


def test_pages_end_where_they_did() -> None:
    """A table of contents that Word made is left out, its pages count; so does a page that ends within a tracked
    change.
    """
    end = "<w:r><w:lastRenderedPageBreak/></w:r>"
    contents = _sdt(
        _p(_run("Fees 3")),
        _p(end, _run("Terms 4")),
        properties='<w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj>',
    )
    body = (
        paragraph("One.")
        + contents
        + paragraph("Two.")
        + _p(_in("del", end))
        + paragraph("Three.")
        + _p(_in("ins", end, _run("Four.")))
    )
    assert [(element.text, element.place) for element in read_docx(docx(body)).elements] == [
        ("One.", 1),
        ("Two.", 2),
        ("Three.", 3),
        ("Four.", 4),
    ]


_DOWN, _ON = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"


def test_a_cell_merged_downwards_stands_in_each_of_its_rows() -> None:
    head = "".join(map(_cell, ("Region", "Product", "Price")))
    north = [_cell("North", _DOWN) + _cell("Lamp") + _cell("10"), _cell("", _ON) + _cell("Table") + _cell("20")]
    last = [_cell("South") + _cell("Chair") + _cell("30", _DOWN), _cell("East") + _cell("Bed") + _cell("", _ON)]
    expected = [
        ["Region", "Product", "Price"],
        ["North", "Lamp", "10"],
        ["North", "Table", "20"],
        ["South", "Chair", "30"],
        ["East", "Bed", "30"],
    ]
    assert _read(_tbl(head, *north, *last)) == [expected]


def test_a_cell_merged_to_the_right_takes_its_columns() -> None:
    wide = '<w:gridSpan w:val="2"/>'
    rows = [
        "".join(map(_cell, ("Item", "2023", "2024"))),
        _cell("Wide", wide) + _cell("77"),
        _cell("Item") + _cell("Both", wide),
    ]
    assert _read(_tbl(*rows)) == [[["Item", "2023", "2024"], ["Wide", "", "77"], ["Item", "Both", ""]]]
    both = [_cell("Block", wide + _DOWN) + _cell("1"), _cell("", wide + _ON) + _cell("2"), "".join(map(_cell, "abc"))]
    assert _read(_tbl(*both)) == [[["Block", "", "1"], ["Block", "", "2"], ["a", "b", "c"]]]


def test_columns_in_which_no_cell_begins_are_none() -> None:
    fine = '<w:gridSpan w:val="9"/>'
    assert _read(_tbl(_cell("a", fine) + _cell("b"), _cell("c", fine) + _cell("d"))) == [[["a", "b"], ["c", "d"]]]


def test_a_long_text_beside_rows_is_not_repeated() -> None:
    [rows] = _read(_tbl(_cell("x" * 501, _DOWN) + _cell("1"), _cell("", _ON) + _cell("2")))
    assert rows == [["x" * 501, "1"], ["", "2"]]


def test_a_merge_of_many_rows_or_of_none_loses_no_row() -> None:
    many = [_cell("North", _DOWN) + _cell("0"), *(_cell("", _ON) + _cell(str(number)) for number in range(1, 1500))]
    begun = time.process_time()
    assert _read(_tbl(*many)) == [[["North", str(number)] for number in range(1500)]]
    assert time.process_time() - begun < 20
    assert _read(_tbl(_cell("a", _ON) + _cell("1"), _cell("", _ON) + _cell("2"))) == [[["a", "1"], ["a", "2"]]]
    other_width = _cell("", '<w:gridSpan w:val="2"/>' + _ON) + _cell("2")
    assert _read(_tbl(_cell("a", _DOWN) + _cell("b") + _cell("1"), other_width)) == [[["a", "b", "1"], ["a", "", "2"]]]


def test_what_a_file_hides_deletes_and_comments_on_is_tallied() -> None:
    hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>Only for us.</w:t></w:r>"
    moved = _p(_in("moveFrom", "<w:r><w:t>Moved.</w:t></w:r>")) + _p(_in("moveTo", _run("Moved.")))
    row = f"<w:tr><w:trPr><w:hidden/></w:trPr>{_cell('secret')}<w:tc>{_p(hidden)}</w:tc></w:tr>"
    comments = f'<w:comments xmlns:w="{W[1:-1]}"><w:comment>{_p(_run("Is that so?"))}</w:comment></w:comments>'
    body = _p(_run("Kept."), _GONE, hidden) + moved + f"<w:tbl><w:tr>{_cell('shown')}</w:tr>{row}</w:tbl>"
    document = read_docx(docx(body, **{"word/comments.xml": comments}))
    assert [element.text for element in document.elements if element.text] == ["Kept.", "Moved."]
    assert document.left_out == {
        "comments": {"blocks": 1, "characters": 11},
        "deleted": {"blocks": 1, "characters": 4},
        "hidden": {"blocks": 2, "characters": 12 + len("secretOnly for us.")},
    }


def test_a_file_with_nothing_to_prepare_stays_the_same_bytes() -> None:
    merged = _tbl(_cell("a", _DOWN) + _cell("1"), _cell("", _ON) + _cell("2"))
    for body in (docx(paragraph("Plain.") + table([["a"]])), docx(merged), docx("<w:p>&broken;")):
        assert flattened(body, open_archive(body, "DOCX"), LeftOut()) is body


def test_entities_stay_unread_and_other_parts_untouched() -> None:
    made = docx(_p(_in("ins", _run("kept &secret;"))), word__media__a="picture")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(made)) as parts, zipfile.ZipFile(out, "w") as archive:
        for name in parts.namelist():
            doctype = (
                b'<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/hostname">]>' if name == "word/document.xml" else b""
            )
            archive.writestr(name, doctype + parts.read(name))
    body = out.getvalue()
    assert [element.text for element in read_docx(body).elements] == ["kept"]
    with zipfile.ZipFile(io.BytesIO(flattened(body, open_archive(body, "DOCX"), LeftOut()))) as archive:
        assert archive.read("word/media/a") == b"picture"


def _raised(text: str, properties: str = '<w:vertAlign w:val="superscript"/>') -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


_LOWERED = '<w:vertAlign w:val="subscript"/>'


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            _p(_run("2.4 × 10"), _raised("6"), _run(" cells, 25 m"), _raised("2 "), _run("wide")),
            ["2.4 × 10⁶ cells, 25 m² wide"],
        ),
        (_p(_run("5 × 10"), _raised("-"), _raised("3"), _run(" per day")), ["5 × 10⁻³ per day"]),
        (
            _p(
                _run("10"), '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:noBreakHyphen/><w:t>3</w:t></w:r>'
            ),
            ["10⁻³"],
        ),
        (_p(_run("H"), _raised("2", _LOWERED), _run("O and CO"), _raised("2", _LOWERED)), ["H₂O and CO₂"]),
        (_p(_run("In 2019"), _raised("4"), _run(" the 5"), _raised("th"), _run(" rose.")), ["In 2019⁴ the 5th rose."]),
        (_p(_run("$12"), _raised("99"), _run(" or 1.299"), _raised("50"), _run(" €")), ["$12.99 or 1.299,50 €"]),
        (
            _p(
                _raised("1"),
                _run("/"),
                _raised("2", _LOWERED),
                _run(" cup, 2"),
                _raised("1"),
                _run("/"),
                _raised("3", _LOWERED),
            ),
            ["1/2 cup, 2 1/3"],
        ),
        (_p(_run("plain "), _raised("6", '<w:vertAlign w:val="baseline"/>')), ["plain 6"]),
        (_tbl(_cell("a") + f"<w:tc>{_p(_run('10'), _raised('8'))}</w:tc>") + "<w:p/>", [[["a", "10⁸"]]]),
        (_p(_run("10"), _in("ins", _raised("7"))), ["10⁷"]),
    ],
)
def test_raised_and_lowered_runs_are_characters(body: str, shown: list[object]) -> None:
    assert _read(body) == shown


def test_runs_are_raised_by_their_styles() -> None:
    styles = "".join(
        f'<w:style w:type="character" w:styleId="{name}">{properties}</w:style>'
        for name, properties in (
            ("Power", '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'),
            ("Small", '<w:basedOn w:val="Power"/>'),
            ("Flat", '<w:basedOn w:val="Power"/><w:rPr><w:vertAlign w:val="baseline"/></w:rPr>'),
        )
    )
    body = _p(
        _run("10"),
        *(_raised("6", f'<w:rStyle w:val="{name}"/>') + _run(" 10") for name in ("Power", "Small", "Flat")),
        _run("."),
    )
    sheet = f'<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">{styles}</w:styles>'
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx(body))) as parts, zipfile.ZipFile(made, "w") as archive:
        for name in parts.namelist():
            archive.writestr(name, sheet if name == "word/styles.xml" else parts.read(name))
    assert [element.text for element in read_docx(made.getvalue()).elements] == ["10⁶ 10⁶ 106 10."]


def test_text_behind_an_entity_stays_and_what_it_names_is_not_read() -> None:
    declared = (
        '<!DOCTYPE x [<!ENTITY far SYSTEM "file:///etc/hostname"><!ENTITY near "inner"><!ENTITY deep "a &near; b">]>'
    )
    made = io.BytesIO()
    body = _p(_run("Before &far; after &near; and &deep; end.")) + paragraph("Second.")
    with zipfile.ZipFile(io.BytesIO(docx(body))) as parts, zipfile.ZipFile(made, "w") as archive:
        for name in parts.namelist():
            archive.writestr(
                name, declared.encode() + parts.read(name) if name == "word/document.xml" else parts.read(name)
            )
    document = read_docx(made.getvalue())
    assert [element.text for element in document.elements] == ["Before after inner and end.", "Second."]
    assert document.left_out == {"entities": {"blocks": 2, "characters": len("&far;") + len("&deep;")}}


def test_thousands_of_raised_runs_or_entities_take_linear_time() -> None:
    def part(count: int) -> bytes:
        return f"<!DOCTYPE x [<!ENTITY near 'inner'>]><x>{'before &near; and ' * count}</x>".encode()

    assert without_entities(part(2), LeftOut()).endswith(b"<x>before inner and before inner and </x>")
    assert_linear(lambda markup: without_entities(markup, LeftOut()), part, 3_000)
    assert "".join(raised_in([("10", ""), ("6", "sup"), (" cells ", "")] * 2)) == "10⁶ cells 10⁶ cells "
    assert_linear(raised_in, lambda count: [("10", ""), ("6", "sup"), (" cells ", "")] * count, 1_000)
