"""Documents: what each format gives, with its pages, slides and sheets, and by what a format is known."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.items import PLACES
from almanac.spiders.crawling.find_files import FoundFile
from almanac.spiders.mapping.inspect_url import inspect_file
from almanac.spiders.reading.bounded import read_document
from almanac.spiders.reading.document import Unreadable
from almanac.spiders.reading.formats import refusal_of
from tests.spiders.file_reading import cut_sections, element_texts, read_with_refusals
from tests.spiders.files import column, pdf
from tests.spiders.sample_documents import PRICE, handbook_docx, offer_mail, rates_xlsx, talk_pptx, zipped

pytestmark = pytest.mark.usefixtures("reader_closed_at_end")


_OOXML = "application/vnd.openxmlformats-officedocument"


def test_a_docx_file_keeps_headings_lists_cells_and_pages(tmp_path: Path) -> None:
    """A short line is no heading; only what is styled as one is."""
    assert cut_sections(tmp_path, {"a.docx": handbook_docx()}) == [
        ({"section": "Handbook"} | _page(0, handbook_docx()), "# Handbook\n\nShort line\n\n- Bring water"),
        (
            {"section": "Handbook > Prices"} | _page(-1, handbook_docx()),
            "## Prices\n\n| size | a\\|b |\n| --- | --- |\n| S | |",
        ),
    ]


def _page(number: int, body: bytes) -> dict[str, Any]:
    place = read_document(body, "docx").elements[number].place
    assert place == (1, 2)[number]
    return {"page": place}


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        ("docm", "ms-word.document.macroEnabled"),
        ("dotx", "openxmlformats-officedocument.wordprocessingml.template"),
        ("dotm", "ms-word.template.macroEnabledTemplate"),
        ("pptm", "ms-powerpoint.presentation.macroEnabled"),
        ("ppsx", "openxmlformats-officedocument.presentationml.slideshow"),
        ("ppsm", "ms-powerpoint.slideshow.macroEnabled"),
        ("potx", "openxmlformats-officedocument.presentationml.template"),
        ("potm", "ms-powerpoint.template.macroEnabled"),
        ("xlsm", "ms-excel.sheet.macroEnabled"),
        ("xltx", "openxmlformats-officedocument.spreadsheetml.template"),
        ("xltm", "ms-excel.template.macroEnabled"),
    ],
)
def test_templates_shows_and_files_with_macros_are_read_as_their_plain_kin(
    suffix: str, kind: str, tmp_path: Path
) -> None:
    plain = {"d": handbook_docx, "p": talk_pptx, "x": rates_xlsx}[suffix[0]]()
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    types = parts["[Content_Types].xml"].decode()
    mains = [
        f"{_OOXML}.{main}.main+xml"
        for main in ("wordprocessingml.document", "presentationml.presentation", "spreadsheetml.sheet")
    ]
    main = next(main for main in mains if main in types)
    packed = zipped({**parts, "[Content_Types].xml": types.replace(main, f"application/vnd.{kind}.main+xml")})
    plain_suffix = {"d": "docx", "p": "pptx", "x": "xlsx"}[suffix[0]]
    of_kin, of_plain = (
        read_with_refusals(tmp_path / name, {f"a.{name}": body})[0]
        for name, body in ((suffix, packed), (plain_suffix, plain))
    )
    assert [draft.body for draft in of_kin] == [draft.body for draft in of_plain] != []


@pytest.mark.parametrize("name", ["page starts", PLACES])
def test_a_field_that_is_called_like_the_places_of_pages_is_none_of_them(tmp_path: Path, name: str) -> None:
    files = {
        "a.csv": f"title,{name},text\nT,7,Words.\n".encode(),
        "b.json": json.dumps({name: "x", "text": "More."}).encode(),
    }
    chunks = cut_sections(tmp_path, files, yields="documents", body="{text}")
    assert [text for _, text in chunks] == ["Words.", "More."] and all("page" not in metadata for metadata, _ in chunks)


def test_slides_are_numbered_and_their_notes_come_last(tmp_path: Path) -> None:
    assert cut_sections(tmp_path, {"a.pptx": talk_pptx()}) == [
        ({"section": "Opening", "slide": 1}, "# Opening\n\nAbout the opening."),
        (
            {"section": "Closing", "slide": 2},
            "# Closing\n\nAbout the closing.\n\n| left | right |\n| --- | --- |\n\nSay goodbye.",
        ),
    ]


def test_sheets_keep_every_cell_with_all_digits(tmp_path: Path) -> None:
    """A hidden sheet is not read, and an empty one is no place."""
    assert cut_sections(tmp_path, {"a.xlsx": rates_xlsx()}) == [
        (
            {"section": "Rates", "sheet": "Rates"},
            f"## Rates\n\n| name | rate | count |\n| --- | --- | --- |\n| x | {PRICE} | 3 |\n| y | | 2 |\n\nA "
            "note by itself",
        ),
        ({"section": "More", "sheet": "More"}, "## More\n\n| p | TRUE |\n| --- | --- |"),
    ]


def test_columns_that_were_drawn_row_by_row_are_not_woven_together() -> None:
    left = [f"The left column tells in line {n} of its matter" for n in range(8)]
    right = [f"and the right one in its own line {n} of more" for n in range(8)]
    page = [(x, 700.0 - 14 * n, 10.0, text) for n in range(8) for x, text in ((60.0, left[n]), (320.0, right[n]))]
    read = " ".join(map(str, element_texts(read_document(pdf([page]), "pdf"))))
    assert read.replace("\n", " ") == " ".join([*left, *right])


def test_a_table_of_a_pdf_keeps_its_cells() -> None:
    rows = [["Size", "Width", "Price"], ["S", "10 cm", "1.50"], ["M", "", "2.50"], ["L", "30 cm", "3.50"]]
    page = [
        (60.0 + 120 * m, 700.0 - 16 * n, 10.0, cell) for n, row in enumerate(rows) for m, cell in enumerate(row) if cell
    ]
    read = element_texts(read_document(pdf([[(60.0, 750.0, 10.0, "What we have of each:"), *page]]), "pdf"))
    assert read == ["What we have of each:", rows]


def test_a_list_of_a_pdf_is_no_table() -> None:
    page = [
        (x, 700.0 - 16 * n, 10.0, text)
        for n, place in enumerate(("Dubai", "London", "Hanoi"))
        for x, text in ((60.0, "\u2022"), (90.0, place))
    ]
    assert element_texts(read_document(pdf([page]), "pdf")) == ["\u2022 Dubai\n\u2022 London\n\u2022 Hanoi"]


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a.zip", handbook_docx),
        ("b", talk_pptx),
        ("c.dat", rates_xlsx),
        ("d.docx", lambda: pdf([column(["x"])])),
        ("e.bin", offer_mail),
    ],
)
def test_a_document_is_known_by_its_content(tmp_path: Path, name: str, made: Any) -> None:
    drafts, rejects, refused = read_with_refusals(tmp_path, {name: made()})
    assert (len(drafts), rejects, refused) == (1, [], {})


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.rtf", b"{\\rtf1 x}", "RTF; save it as DOCX or PDF"),
        ("a.odt", b"PK", "ODT; save it as DOCX or PDF"),
        ("a.msg", b"x", "MSG, the format of Outlook; save it as EML"),
        ("a", b"{\\rtf1 x}", "RTF; save it as DOCX or PDF"),
        (
            "a.zip",
            zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<x/>"}),
            "ODS; save it as XLSX or CSV",
        ),
        ("a.exe", b"MZ", "unsupported format .exe"),
    ],
)
def test_other_formats_are_refused_by_name_with_the_way_out(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    drafts, rejects, refused = read_with_refusals(tmp_path, {name: content, "z.md": b"# Fine"})
    assert ([draft.url for draft in drafts], rejects) == (["z.md"], []) and reason in refused[name]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ("EncryptedPackage", "needs a password"),
        ("WordDocument", "DOC, the format of Word 97"),
        ("Workbook", "XLS, the format"),
        ("?", "old format"),
    ],
)
def test_an_old_or_locked_office_file_says_which(stream: str, message: str) -> None:
    body = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000) + stream.encode("utf-16-le")
    assert message in (refusal_of(body) or "")
    with pytest.raises(Unreadable, match=message):
        read_document(body, "docx")


def test_a_single_file_is_shown_with_what_it_yields_or_why_nothing(tmp_path: Path) -> None:
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*"})
    for name, content in {"a.docx": handbook_docx(), "b.rtf": b"{\\rtf1 x}", "c.pdf": pdf([[]])}.items():
        (tmp_path / name).write_bytes(content)
    shown = [inspect_file(source, FoundFile(name, str(tmp_path / name)), "en") for name in ("a.docx", "b.rtf", "c.pdf")]
    assert [[item.title for item in report.items] for report in shown] == [["Handbook"], [], []]
    reasons = [[reject["reason"] for reject in report.rejects] for report in shown]
    assert reasons[0] == [] and "save it as DOCX or PDF" in reasons[1][0] and "OCR is not part" in reasons[2][0]


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_file_in_the_strict_form_of_the_standard_is_read(suffix: str) -> None:
    usual = {"docx": handbook_docx, "pptx": talk_pptx, "xlsx": rates_xlsx}[suffix]()
    names = re.compile(
        rb"http://schemas\.openxmlformats\.org/(officeDocument|wordprocessingml|spreadsheetml|presentationml|drawi"
        rb"ngml)/2006/"
    )
    with zipfile.ZipFile(io.BytesIO(usual)) as parts:
        strict = zipped(
            {name: names.sub(rb"http://purl.oclc.org/ooxml/\1/", parts.read(name)) for name in parts.namelist()}
        )
    assert read_document(strict, suffix) == read_document(usual, suffix)
