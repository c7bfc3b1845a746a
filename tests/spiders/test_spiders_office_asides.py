"""DOCX files: notes, text boxes and symbols are read, once and where they belong; hidden text, comments, headers and
footers are not.
"""

import io
import zipfile
from typing import Any

import docx as word
import pytest
from docx.oxml import parse_xml

from almanac.spiders.reading.docx_hidden import Hiding, hiding_styles
from almanac.spiders.reading.docx_merges import W
from almanac.spiders.reading.office import read_docx
from tests.spiders.files import docx, paragraph, table

_NAMESPACES = (
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_W = W.strip("{}")


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _p(*inner: str) -> str:
    return f"<w:p>{''.join(inner)}</w:p>"


def _shown(body: bytes) -> list[Any]:
    return [
        list(map(list, element.rows)) if element.kind == "table" else element.text
        for element in read_docx(body).elements
    ]


def _read(body: str, **parts: str) -> list[Any]:
    return _shown(docx(paragraph("Before.") + body + paragraph("After."), **parts))[1:-1]


def _note(kind: str, number: int, *blocks: str) -> str:
    return f'<w:{kind} w:id="{number}">{"".join(blocks)}</w:{kind}>'


def _notes(kind: str, *notes: str) -> str:
    apart = f'<w:{kind} w:type="separator" w:id="0">{_p(_run("SEPARATOR"))}</w:{kind}>'
    return f'<w:{kind}s xmlns:w="{_W}" {_NAMESPACES}>{apart}{"".join(notes)}</w:{kind}s>'


def _ref(kind: str, number: int) -> str:
    return f'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:{kind}Reference w:id="{number}"/></w:r>'


def test_notes_follow_the_paragraph_that_refers_to_them() -> None:
    mark = "<w:r><w:footnoteRef/></w:r>"
    foot = _notes(
        "footnote",
        _note(
            "footnote", 1, _p('<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>', mark, _run(" Members only."))
        ),
        _note("footnote", 2, _p(_run("Twice")), _p(f'<w:hyperlink r:id="rId9">{_run("a link")}</w:hyperlink>')),
        _note("footnote", 3, _p(_run("NOBODY REFERS TO IT"))),
    )
    end = _notes(
        "endnote",
        _note(
            "endnote",
            1,
            _p(_run("As of "), f'<w:ins w:id="1">{_run("2024")}</w:ins>', f'<w:del w:id="2">{_run("GONE")}</w:del>'),
        ),
    )
    body = _p(_run("The fee is 500 euro"), _ref("footnote", 1), _run(" a year"), _ref("endnote", 1), _run(".")) + _p(
        _run("More."), _ref("footnote", 2)
    )
    read = _read(body, **{"word__footnotes.xml": foot, "word__endnotes.xml": end})
    assert read == ["The fee is 500 euro a year.", "Members only.", "As of 2024", "More.", "Twice", "a link"]


def test_a_note_of_a_table_follows_the_table_and_one_of_a_list_item_is_no_item() -> None:
    cell = (
        f"<w:tbl><w:tr><w:tc>{_p(_run('500'), _ref('footnote', 1))}</w:tc><w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>"
    )
    foot = _notes("footnote", _note("footnote", 1, _p(_run("Without tax."))))
    assert _read(cell, **{"word__footnotes.xml": foot}) == [[["500", "b"]], "Without tax."]


def test_a_note_whose_reference_is_deleted_or_hidden_is_left_out() -> None:
    foot = _notes("footnote", _note("footnote", 1, _p(_run("GONE"))), _note("footnote", 2, _p(_run("GONE"))))
    body = _p(
        _run("Kept."),
        f'<w:del w:id="1">{_ref("footnote", 1)}</w:del>',
        "<w:r><w:rPr><w:vanish/></w:rPr><w:footnoteReference w:id='2'/></w:r>",
    )
    assert _read(body, **{"word__footnotes.xml": foot}) == ["Kept."]


@pytest.mark.parametrize("notes", ["", "<broken", _notes("footnote")])
def test_a_damaged_part_of_notes_costs_no_text(notes: str) -> None:
    assert _read(_p(_run("Kept."), _ref("footnote", 1)), **{"word__footnotes.xml": notes}) == ["Kept."]


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        ("<w:vanish/>", ["Seen."]), ('<w:vanish w:val="1"/>', ["Seen."]), ('<w:vanish w:val="0"/>', ["Seen. secret"]),
        ('<w:rStyle w:val="Hid"/>', ["Seen."]), ('<w:rStyle w:val="Base"/>', ["Seen."]),
        ('<w:rStyle w:val="Hid"/><w:vanish w:val="false"/>', ["Seen. secret"]), ('<w:rStyle w:val="Shown"/>',
        ["Seen. secret"]),
        ("<w:webHidden/>", ["Seen. secret"]), ("", ["Seen. secret"]),
    ],
)  # fmt: skip
def test_hidden_runs_are_not_published(properties: str, shown: list[str]) -> None:
    assert _shown(_with_styles(_p(_run("Seen."), _run(" secret", properties)))) == shown


def _with_styles(body: str) -> bytes:
    hidden = "<w:rPr><w:vanish/></w:rPr>"
    styles = (
        f'<w:style w:type="character" w:styleId="Hid"><w:name w:val="hid"/>{hidden}</w:style>'
        '<w:style w:type="character" w:styleId="Base"><w:name w:val="based"/><w:basedOn w:val="Hid"/></w:style>'
        '<w:style w:type="character" w:styleId="Shown"><w:name w:val="shown"/><w:basedOn w:val="Hid"/><w:rPr>'
        '<w:vanish w:val="0"/></w:rPr></w:style>'
        f'<w:style w:type="paragraph" w:styleId="HidP"><w:name w:val="hidp"/>{hidden}</w:style>'
        '<w:style w:type="paragraph" w:styleId="Ring"><w:name w:val="ring"/><w:basedOn w:val="Ring"/></w:style>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx(body))) as parts, zipfile.ZipFile(out, "w") as archive:
        for name in parts.namelist():
            archive.writestr(
                name, f'<w:styles xmlns:w="{_W}">{styles}</w:styles>' if name == "word/styles.xml" else parts.read(name)
            )
    return out.getvalue()


def test_a_paragraph_whose_style_is_hidden_is_not_published() -> None:
    styled = '<w:pPr><w:pStyle w:val="HidP"/></w:pPr>'
    assert _shown(
        _with_styles(
            _p(styled, _run("secret"))
            + _p(styled, _run("Seen.", '<w:rStyle w:val="Hid"/>'))
            + paragraph("Plain.", "Ring")
        )
    ) == [
        "Seen.",
        "Plain.",
    ]


def test_hidden_rows_are_not_published() -> None:
    row = f"<w:tr><w:tc>{paragraph('a')}</w:tc></w:tr>"
    hidden = f"<w:tr><w:trPr><w:hidden/></w:trPr><w:tc>{paragraph('SECRET')}</w:tc></w:tr>"
    assert _read(f"<w:tbl>{row}{hidden}</w:tbl>") == [[["a"]]]
    assert _read(f"<w:tbl>{hidden}</w:tbl>") == []


def test_styles_that_hide_are_those_of_the_file() -> None:
    assert hiding_styles(b"<broken vanish") == hiding_styles(b"<w:styles/>") == Hiding()
    usual = (
        f'<w:styles xmlns:w="{_W}"><w:style w:type="paragraph" w:default="1" w:styleId="N"><w:rPr><w:vanish/>'
        "</w:rPr></w:style></w:styles>"
    )
    assert hiding_styles(usual.encode()) == Hiding(frozenset({"N"}), frozenset(), usual=True)


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>', "✓"),
        ('<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>', "α"),
        ('<w:r><w:sym w:font="Segoe UI Symbol" w:char="2611"/></w:r>', "☑"),
        ('<w:r><w:sym w:font="Nobody knows" w:char="F041"/></w:r>', ""),
        ('<w:r><w:sym w:font="Wingdings" w:char="?"/></w:r>', ""),
        (_run("\uf0b3", '<w:rFonts w:ascii="Symbol"/>'), "≥"), ("<w:r><w:noBreakHyphen/></w:r>", "-"),
        ("<w:r><w:softHyphen/></w:r>", ""), ("<w:r><w:tab/></w:r>", " "), ("<w:r><w:br/></w:r>", "\n"),
        ("<w:r><w:cr/></w:r>", "\n"),
        (f'<w:r {_NAMESPACES}><mc:AlternateContent><mc:Choice Requires="w16se"><w16se:symEx xmlns:w16se="x"/>' '</mc:Choice>'  # noqa: E501
         "<mc:Fallback><w:t>😊</w:t></mc:Fallback></mc:AlternateContent></w:r>", "😊"),
    ],
)  # fmt: skip
def test_characters_that_are_no_text_in_the_file_are_text(inner: str, text: str) -> None:
    assert _read(_p(_run("x"), inner, _run("y"))) == [f"x{text}y"]


def _box(*blocks: str, place: str = "anchor") -> str:
    inside = f"<w:txbxContent>{''.join(blocks)}</w:txbxContent>"
    shape = f"<a:graphic><a:graphicData><wps:wsp><wps:txbx>{inside}</wps:txbx></wps:wsp></a:graphicData></a:graphic>"
    drawing = f"<w:drawing><wp:{place}>{shape}</wp:{place}></w:drawing>"
    fallback = f"<w:pict><v:shape><v:textbox>{inside}</v:textbox></v:shape></w:pict>"
    choice = (
        f'<mc:AlternateContent><mc:Choice Requires="wps">{drawing}</mc:Choice><mc:Fallback>'
        f"{fallback}</mc:Fallback></mc:AlternateContent>"
    )
    return f"<w:r {_NAMESPACES}>{choice}</w:r>"


@pytest.mark.parametrize("place", ["anchor", "inline"])
def test_a_text_box_is_read_once_behind_its_paragraph(place: str) -> None:
    body = _p(
        _run("Beside"),
        _box(paragraph("In a box."), table([["a", "b"]]), place=place),
        _box(_p(_run("Outer"), _box(paragraph("Inner."))), place=place),
        _run(" it."),
    )
    assert _read(body) == ["Beside it.", "In a box.", [["a", "b"]], "Outer", "Inner."]


def test_a_text_box_of_an_older_word_is_read() -> None:
    old = (
        f"<w:r {_NAMESPACES}><w:pict><v:shape><v:textbox><w:txbxContent>{paragraph('Old.')}</w:txbxContent>"
        "</v:textbox></v:shape></w:pict></w:r>"
    )
    assert _read(_p(old)) == ["Old."]
    assert _read(f"<w:tbl><w:tr><w:tc>{_p(_run('cell'), old)}</w:tc></w:tr></w:tbl>") == [[["cell Old."]]]


def test_comments_headers_and_footers_are_not_published() -> None:
    made = word.Document()
    commented = made.add_paragraph("Seen.")
    made.add_comment(commented.runs, "SECRET", author="x", initials="x")
    section = made.sections[0]
    section.header.paragraphs[0].text, section.footer.paragraphs[0].text = "SECRET", "SECRET"
    commented._p.append(parse_xml(f'<w:r xmlns:w="{_W}"><w:t xml:space="preserve"> And this.</w:t></w:r>'))
    out = io.BytesIO()
    made.save(out)
    assert _shown(out.getvalue()) == ["Seen. And this."]
