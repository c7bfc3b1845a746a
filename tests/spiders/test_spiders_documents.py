"""Documents: what each format gives, with its pages, slides and sheets, and what becomes of one that is hostile, locked
or of another format.
"""

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from email.message import EmailMessage
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import docx as word
import openpyxl  # type: ignore[import-untyped]  # ships no types
import pptx as slides
import pytest
from docx.oxml import OxmlElement
from pptx.util import Inches

from almanac.schemas.declaration.chunk_section import Chunk
from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.items import PLACES, Draft, Item, Page, Reject
from almanac.spiders.crawling.find_files import FoundFile
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.mapping.inspect_url import inspect_file
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading import bounded
from almanac.spiders.reading.bounded import close_reader, read_document
from almanac.spiders.reading.document import Document, Interrupted, Unreadable
from almanac.spiders.reading.formats import DOCUMENT_TYPES, format_of, refusal_of
from almanac.spiders.store.raw import RawStore
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.prepare import prepare_items
from tests.spiders.files import column, pdf

_OOXML = "application/vnd.openxmlformats-officedocument"
_PRICE = 0.123456789  # more digits than a table of pandas shows


@pytest.fixture(autouse=True, scope="module")
def _ended() -> Iterator[None]:
    yield
    close_reader()


def _saved(made: Any) -> bytes:
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def _docx() -> bytes:
    made = word.Document()
    made.add_heading("Handbook", 1)
    made.add_paragraph("Short line")
    made.add_paragraph("Bring water", style="List Bullet")
    made.add_page_break()  # type: ignore[no-untyped-call]
    # as Word notes where its pages ended
    made.add_heading("Prices", 2).runs[0]._r.insert(0, OxmlElement("w:lastRenderedPageBreak"))
    table = made.add_table(2, 2)
    for number, text in enumerate(("size", "a|b", "S", "")):
        table.cell(number // 2, number % 2).text = text
    return _saved(made)


def _pptx() -> bytes:
    made = slides.Presentation()
    for title in ("Opening", "Closing"):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"About the {title.lower()}."
    table = slide.shapes.add_table(1, 2, Inches(1), Inches(5), Inches(4), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    slide.notes_slide.notes_text_frame.text = "Say goodbye."
    return _saved(made)


def _xlsx() -> bytes:
    made = openpyxl.Workbook()
    made.active.title = "Rates"
    for row in (["name", "rate", "count"], ["x", _PRICE, 3], ["y", None, 2.0], [], ["A note by itself"]):
        made.active.append(row)
    made.create_sheet("Empty")
    made.create_sheet("Kept back").append(["secret", "1"])
    made["Kept back"].sheet_state = "hidden"
    made.create_sheet("More").append(["p", True])
    return _saved(made)


def _zipped(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def _epub(chapters: dict[str, str], prolog: str = "", title: str = "A book") -> bytes:
    items = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in reversed(range(len(chapters))))
    package = (
        f'{prolog}<package xmlns="http://www.idpf.org/2007/opf"><metadata '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title>'
        f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
        'full-path="in/o.opf"/></rootfiles></container>'
    )
    return _zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "in/o.opf": package,
            **{f"in/{name}": text for name, text in chapters.items()},
        }
    )


def _mail(*attached: tuple[str, bytes]) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Date"] = (
        "Ann <ann@x.test>",
        "bob@x.test",
        "Offer",
        "Mon, 02 Nov 2026 10:00:00 +0000",
    )
    mail.set_content("Plain words.")
    mail.add_alternative("<h2>Terms</h2><p>Rich words.</p>", subtype="html")
    for name, content in attached:
        mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()


def _read(folder: Path, files: dict[str, bytes], **keys: Any) -> tuple[list[Draft], list[Reject], dict[str, str]]:
    """Drafts, rejects, and what was refused with its reason."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / "in" / name).write_bytes(content)
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*", **keys})
    raw = RawStore(folder / "raw")
    outcome = read_files(source, folder, raw, "r1")
    extractions = list(map_pages(raw.pages("r1"), source, "en"))
    refused = {failure.url: f"{failure.reason}: {failure.detail}" for failure in outcome.failures}
    return (
        [draft for extraction in extractions for draft in extraction.drafts],
        [reject for extraction in extractions for reject in extraction.rejects],
        refused,
    )


def _chunks(folder: Path, files: dict[str, bytes], **keys: Any) -> list[tuple[dict[str, Any], str]]:
    """Metadata and text of the chunks by sections."""
    drafts, rejects, _ = _read(folder, files, **keys)
    assert rejects == []
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*", **keys})
    chunker = Chunker(Chunk.model_validate({"by": "sections", "unit": "words", "size": 200}), "en")
    items = prepare_items(drafts, source, "standard", language="en", workspace=None)
    return [(row.metadata, row.text) for item in items if isinstance(item, Item) for row in chunker.rows(item)]


def _texts(document: Document) -> list[Any]:
    return [[list(row) for row in element.rows] or element.text for element in document.elements]


def test_a_docx_file_keeps_headings_lists_cells_and_pages(tmp_path: Path) -> None:
    """A short line is no heading; only what is styled as one is."""
    assert _chunks(tmp_path, {"a.docx": _docx()}) == [
        ({"section": "Handbook"} | _page(0, _docx()), "# Handbook\n\nShort line\n\n- Bring water"),
        (
            {"section": "Handbook > Prices"} | _page(-1, _docx()),
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
    plain = {"d": _docx, "p": _pptx, "x": _xlsx}[suffix[0]]()
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    types = parts["[Content_Types].xml"].decode()
    mains = [
        f"{_OOXML}.{main}.main+xml"
        for main in ("wordprocessingml.document", "presentationml.presentation", "spreadsheetml.sheet")
    ]
    main = next(main for main in mains if main in types)
    packed = _zipped({**parts, "[Content_Types].xml": types.replace(main, f"application/vnd.{kind}.main+xml")})
    plain_suffix = {"d": "docx", "p": "pptx", "x": "xlsx"}[suffix[0]]
    of_kin, of_plain = (
        _read(tmp_path / name, {f"a.{name}": body})[0] for name, body in ((suffix, packed), (plain_suffix, plain))
    )
    assert [draft.body for draft in of_kin] == [draft.body for draft in of_plain] != []


@pytest.mark.parametrize("name", ["page starts", PLACES])
def test_a_field_that_is_called_like_the_places_of_pages_is_none_of_them(tmp_path: Path, name: str) -> None:
    files = {
        "a.csv": f"title,{name},text\nT,7,Words.\n".encode(),
        "b.json": json.dumps({name: "x", "text": "More."}).encode(),
    }
    chunks = _chunks(tmp_path, files, yields="documents", body="{text}")
    assert [text for _, text in chunks] == ["Words.", "More."] and all("page" not in metadata for metadata, _ in chunks)


def test_slides_are_numbered_and_their_notes_come_last(tmp_path: Path) -> None:
    assert _chunks(tmp_path, {"a.pptx": _pptx()}) == [
        ({"section": "Opening", "slide": 1}, "# Opening\n\nAbout the opening."),
        (
            {"section": "Closing", "slide": 2},
            "# Closing\n\nAbout the closing.\n\n| left | right |\n| --- | --- |\n\nSay goodbye.",
        ),
    ]


def test_sheets_keep_every_cell_with_all_digits(tmp_path: Path) -> None:
    """A hidden sheet is not read, and an empty one is no place."""
    assert _chunks(tmp_path, {"a.xlsx": _xlsx()}) == [
        (
            {"section": "Rates", "sheet": "Rates"},
            f"## Rates\n\n| name | rate | count |\n| --- | --- | --- |\n| x | {_PRICE} | 3 |\n| y | | 2 |\n\nA "
            "note by itself",
        ),
        ({"section": "More", "sheet": "More"}, "## More\n\n| p | TRUE |\n| --- | --- |"),
    ]


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    book = read_document(
        _epub(
            {
                "b.xhtml": "<h2>Second</h2><p>End.</p>",
                "a.xhtml": "<?xml version='1.0'?><html><body><h1>First</h1></body></html>",
            }
        ),
        "epub",
    )
    assert (book.title, _texts(book), [element.level for element in book.elements]) == (
        "A book",
        ["First", "Second", "End."],
        [1, 2, 0],
    )


def test_a_chapter_that_the_spine_names_for_each_of_its_sections_is_read_once() -> None:
    book = read_document(
        _epub({"b.xhtml#end": "", "a.xhtml#two": "", "b.xhtml": "<p>End.</p>", "a.xhtml": "<p>Begin.</p>"}), "epub"
    )
    assert _texts(book) == ["Begin.", "End."]


def test_a_book_is_read_as_its_package_means_it() -> None:
    """The main title of several, a stand-in for a chapter that is no XHTML, a prefix that is not declared, a name that
    is escaped in the archive.
    """
    package = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
      <dc:title id="s">Short</dc:title><dc:title id="m" opf:x="y">The <i>main</i> title</dc:title>
      <meta refines="#m" property="title-type">main</meta></metadata>
      <manifest><item id="a" href="a.svg" media-type="image/svg+xml" fallback="b"/><item id="b" href="b%20c.html" media-type="text/plain"/>
      <item id="d" href="d.svg" media-type="image/svg+xml" fallback="d"/></manifest><spine><itemref idref="d"/><itemref idref="a"/></spine></package>"""  # noqa: E501
    container = "<container><rootfiles><rootfile full-path='o.opf'/></rootfiles></container>"
    book = read_document(
        _zipped({"META-INF/container.xml": container, "o.opf": package, "b%20c.html": "<p>Words.</p>"}), "epub"
    )
    assert (book.title, _texts(book)) == ("The main title", ["Words."])


@pytest.mark.parametrize(
    ("markup", "read"),
    [
        ("<figure><img alt=''/><figcaption>A map.</figcaption></figure>", ["A map."]),
        ("<figure><table><tr><td>a1</td><td>b1</td></tr></table></figure>", [[["a1", "b1"]]]),
        (
            "<table><caption>Prices</caption><thead><tr><th>of<br/>what</th><th>wo<b>r</b>d</th></tr></thead>"
            "<tfoot><tr><td>sum</td><td>3</td></tr></tfoot></table>",
            ["Prices", [["of what", "word"], ["sum", "3"]]],
        ),
        (
            "<table><tr><td rowspan='2'>both</td><td>x1</td></tr><tr><td>x2</td></tr><tr><td rowspan='99999999'>"
            "y</td></tr></table>",
            [[["both", "x1"], ["both", "x2"], ["y"]]],
        ),
        (
            "<details><summary>Why?</summary><p>Because.</p></details><form><p>Inside.</p></form>",
            ["Why?", "Because.", "Inside."],
        ),
        ("<h2>I</h2><p>序</p><p>7</p><p>*</p>", ["I", "序", "7"]),
        ("<p>-5 °C</p><p>*a note</p><p>• a point</p>", ["-5 °C", "*a note", "a point"]),
        (
            "<p>so <math><msup><mi>x</mi><mn>2</mn></msup></math> is</p><p>See <img src='i.png' alt='a whale'/> "
            "here</p>",
            ["so x² is", "See a whale here"],
        ),
        (
            "<p>it <span epub:type='pagebreak' id='p12'>12</span>goes <span role='doc-pagebreak'>13</span>on</p>",
            ["it goes on"],
        ),
    ],
)
def test_what_unstructured_passes_over_in_a_book_is_read(markup: str, read: list[Any]) -> None:
    assert (
        _texts(
            read_document(
                _epub({"a.xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'><body>{markup}</body></html>"}), "epub"
            )
        )
        == read
    )


@pytest.mark.parametrize(
    "hiding", ["hidden=''", "style='color:red; DISPLAY: none !important'", "style='visibility:hidden'"]
)
def test_what_books_and_mails_hide_is_not_published(hiding: str) -> None:
    markup = (
        f"<p>Seen <span {hiding}>SECRET</span>here.</p><div {hiding}><p>SECRET</p></div><p "
        "style='display:nonesuch'>And here.</p>"
    )
    mail = EmailMessage()
    mail["Subject"] = "s"
    mail.set_content(f"<html><body>{markup}</body></html>", subtype="html")
    for body, kind in ((_epub({"a.xhtml": markup}), "epub"), (mail.as_bytes(), "eml")):
        document = read_document(body, kind)
        assert _texts(document)[-2:] == ["Seen here.", "And here."]
        assert document.left_out == {"hidden": {"blocks": 2, "characters": 12}}  # as the child tells it
    mail.add_attachment(markup.encode(), maintype="text", subtype="html", filename="a.html")
    assert read_document(mail.as_bytes(), "eml").left_out == {"hidden": {"blocks": 4, "characters": 24}}


def test_the_table_of_contents_and_the_page_numbers_of_a_book_are_tallied() -> None:
    broken = "<p>it <span epub:type='pagebreak'>12</span>goes on</p>"
    made = _epub({"b.xhtml": broken, "a.xhtml": "<body><nav><ol><li><a href='b.xhtml'>One</a></li></ol></nav></body>"})
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(made)) as parts, zipfile.ZipFile(out, "w") as archive:
        for name in parts.namelist():
            archive.writestr(name, parts.read(name).replace(b'href="a.xhtml"', b'href="a.xhtml" properties="nav"'))
    book = read_document(out.getvalue(), "epub")
    assert (_texts(book), book.left_out) == (["it goes on"], {"page_furniture": {"blocks": 2, "characters": 5}})


def test_code_of_a_book_keeps_its_lines_and_their_indentation(tmp_path: Path) -> None:
    book = _epub({"a.xhtml": "<h1>Loops</h1><pre>for x in y:\n\tprint(```)\n\n# done\n</pre>"})
    (element,) = read_document(book, "epub").elements[1:]
    assert (element.kind, element.text) == ("code", "for x in y:\n    print(```)\n\n# done")
    assert _chunks(tmp_path, {"a.epub": book}) == [
        ({"section": "Loops"}, "# Loops\n\n````\nfor x in y:\n    print(```)\n\n# done\n````")
    ]


def test_attachments_are_items_of_their_own_and_a_broken_one_is_a_reject(tmp_path: Path) -> None:
    inner = _mail(("deep.txt", b"Deep words."))
    mail = _mail(
        ("plan.docx", _docx()),
        ("plan.docx", pdf([column(["In the PDF."])])),
        ("bad.pdf", b"%PDF-1.7 and no more"),
        ("x.bin", bytes(99)),
        ("m.eml", inner),
    )
    drafts, rejects, _ = _read(tmp_path, {"offer.eml": mail})
    assert [(draft.document_id, draft.title) for draft in drafts] == [
        ("offer.eml", "Offer"),
        ("offer.eml#plan.docx", "Handbook"),
        ("offer.eml#plan.docx-2", "In the PDF."),
        ("offer.eml#m.eml", "Offer"),
        ("offer.eml#m.eml/deep.txt", "deep.txt"),
    ]
    assert "From: Ann <ann@x.test>" in (drafts[0].body or "") and "## Terms\n\nRich words." in (drafts[0].body or "")
    assert [(reject.document_id, reject.reason.partition(":")[0]) for reject in rejects] == [
        ("offer.eml#bad.pdf", "damaged PDF file"),
        ("offer.eml#x.bin", "unsupported format of x.bin"),
    ]


def test_an_attached_file_has_a_text_and_a_language_of_its_own(tmp_path: Path) -> None:
    german = (
        "Die Versammlung findet am kommenden Donnerstag im großen Saal des Rathauses statt, und alle Bürger sind "
        "herzlich eingeladen."
    )
    english = (
        "<p>The meeting of the board takes place on Thursday in the large hall, and everybody is invited to come "
        "along with us.</p>"
    )
    mail = MIMEMultipart(
        "mixed", _subparts=[MIMEText(english, "html"), MIMEApplication(german.encode(), "octet-stream", name="a.txt")]
    )
    mail["From"], mail["To"], mail["Subject"] = "a@x.test", "b@x.test", "The meeting of the board"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.eml").write_bytes(mail.as_bytes())
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*", "body": {"css": "p:last-child"}})
    raw = RawStore(tmp_path / "raw")
    read_files(source, tmp_path, raw, "r1")
    (extraction,) = map_pages(raw.pages("r1"), source, "auto")
    assert [(draft.language, str(draft.body).strip()[:15]) for draft in extraction.drafts] == [
        ("en", "<p>The meeting "),
        ("de", "Die Versammlung"),
    ]


def test_a_declared_title_and_id_are_those_of_the_mail_and_attached_files_keep_their_own(tmp_path: Path) -> None:
    mail = _mail(("plan.docx", _docx()), ("a.txt", b"Words."))
    keys = {
        "fields": {"by": {"css": "p", "pattern": "From: (\\S+)"}},
        "title": "Mail of {by}",
        "id": "mail-{by}",
        "yields": "documents",
    }
    drafts, rejects, _ = _read(tmp_path, {"offer.eml": mail}, **keys)
    assert [(draft.document_id, draft.title, draft.url) for draft in drafts] == [
        ("mail-Ann", "Mail of Ann", "offer.eml"),
        ("mail-Ann#plan.docx", "Handbook", "offer.eml#plan.docx"),
        ("mail-Ann#a.txt", "a.txt", "offer.eml#a.txt"),
    ]
    assert rejects == [] and {draft.fields["by"] for draft in drafts} == {"Ann"}


@pytest.mark.parametrize("shape", ["file alone", "footer", "signed", "text around it", "among pictures"])
def test_a_mail_of_any_shape_keeps_its_texts_and_its_files(shape: str) -> None:
    scan = MIMEApplication(pdf([column(["Scanned."])]), "pdf", name="scan.pdf")
    words, footer, rich = MIMEText("Words."), MIMEText("Footer."), MIMEText("<p>Words.</p>", "html")
    shapes: dict[str, Callable[[], Any]] = {
        "file alone": lambda: scan,
        "footer": lambda: MIMEMultipart("mixed", _subparts=[MIMEMultipart("mixed", _subparts=[words, scan]), footer]),
        "signed": lambda: MIMEMultipart(
            "signed",
            _subparts=[
                MIMEMultipart("mixed", _subparts=[words, scan]),
                MIMEApplication(b"x", "pgp-signature", name="signature.asc"),
            ],
        ),
        "text around it": lambda: MIMEMultipart(
            "alternative",
            _subparts=[
                MIMEText("Plain."),
                MIMEMultipart("mixed", _subparts=[rich, scan, MIMEText("<p>Footer.</p>", "html")]),
            ],
        ),
        "among pictures": lambda: MIMEMultipart("mixed", _subparts=[MIMEMultipart("related", _subparts=[rich, scan])]),
    }
    mail = shapes[shape]()
    mail["From"], mail["To"], mail["Subject"] = "a@x.test", "b@x.test", "Scan"
    document = read_document(mail.as_bytes(), "eml")
    shown = {"file alone": [], "footer": ["Words.", "Footer."], "text around it": ["Words.", "Footer."]}
    assert _texts(document)[2:] == shown.get(shape, ["Words."])
    assert [
        (attachment.name, attachment.document and _texts(attachment.document)) for attachment in document.attachments
    ] == [("scan.pdf", ["Scanned."])]


# PDF


def test_columns_that_were_drawn_row_by_row_are_not_woven_together() -> None:
    left = [f"The left column tells in line {n} of its matter" for n in range(8)]
    right = [f"and the right one in its own line {n} of more" for n in range(8)]
    page = [(x, 700.0 - 14 * n, 10.0, text) for n in range(8) for x, text in ((60.0, left[n]), (320.0, right[n]))]
    read = " ".join(map(str, _texts(read_document(pdf([page]), "pdf"))))
    assert read.replace("\n", " ") == " ".join([*left, *right])


def test_a_table_of_a_pdf_keeps_its_cells() -> None:
    rows = [["Size", "Width", "Price"], ["S", "10 cm", "1.50"], ["M", "", "2.50"], ["L", "30 cm", "3.50"]]
    page = [
        (60.0 + 120 * m, 700.0 - 16 * n, 10.0, cell) for n, row in enumerate(rows) for m, cell in enumerate(row) if cell
    ]
    read = _texts(read_document(pdf([[(60.0, 750.0, 10.0, "What we have of each:"), *page]]), "pdf"))
    assert read == ["What we have of each:", rows]


def test_a_list_of_a_pdf_is_no_table() -> None:
    page = [
        (x, 700.0 - 16 * n, 10.0, text)
        for n, place in enumerate(("Dubai", "London", "Hanoi"))
        for x, text in ((60.0, "\u2022"), (90.0, place))
    ]
    assert _texts(read_document(pdf([page]), "pdf")) == ["\u2022 Dubai\n\u2022 London\n\u2022 Hanoi"]


# Names and contents


@pytest.mark.parametrize(
    ("name", "made"),
    [("a.zip", _docx), ("b", _pptx), ("c.dat", _xlsx), ("d.docx", lambda: pdf([column(["x"])])), ("e.bin", _mail)],
)
def test_a_document_is_known_by_its_content(tmp_path: Path, name: str, made: Any) -> None:
    drafts, rejects, refused = _read(tmp_path, {name: made()})
    assert (len(drafts), rejects, refused) == (1, [], {})


def test_a_text_that_looks_like_a_mail_stays_a_text() -> None:
    assert format_of("a.txt", b"From: here\nTo: there\nSubject: travel\n\nx") == "text"
    assert format_of("a", b"To: whom it may concern\n\nx") == "text"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.rtf", b"{\\rtf1 x}", "RTF; save it as DOCX or PDF"),
        ("a.odt", b"PK", "ODT; save it as DOCX or PDF"),
        ("a.msg", b"x", "MSG, the format of Outlook; save it as EML"),
        ("a", b"{\\rtf1 x}", "RTF; save it as DOCX or PDF"),
        (
            "a.zip",
            _zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<x/>"}),
            "ODS; save it as XLSX or CSV",
        ),
        ("a.exe", b"MZ", "unsupported format .exe"),
    ],
)
def test_other_formats_are_refused_by_name_with_the_way_out(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    drafts, rejects, refused = _read(tmp_path, {name: content, "z.md": b"# Fine"})
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
    for name, content in {"a.docx": _docx(), "b.rtf": b"{\\rtf1 x}", "c.pdf": pdf([[]])}.items():
        (tmp_path / name).write_bytes(content)
    shown = [inspect_file(source, FoundFile(name, str(tmp_path / name)), "en") for name in ("a.docx", "b.rtf", "c.pdf")]
    assert [[item.title for item in report.items] for report in shown] == [["Handbook"], [], []]
    reasons = [[reject["reason"] for reject in report.rejects] for report in shown]
    assert reasons[0] == [] and "save it as DOCX or PDF" in reasons[1][0] and "OCR is not part" in reasons[2][0]


# Limits


def _two_filters(size: int) -> bytes:
    """A PDF whose content is `size` spaces, deflated twice."""
    packed = zlib.compress(zlib.compress(b" " * size, 1), 9)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%b\nendstream" % (len(packed), packed)
    plain = pdf([[]])
    return plain.replace(plain[plain.index(b"<< /Length 0") : plain.index(b"endstream") + 9], stream)


def test_a_file_beyond_a_limit_is_a_reject_that_names_it_and_the_next_is_read(tmp_path: Path) -> None:
    bomb = _two_filters(600 << 20)
    assert len(bomb) < 50_000
    drafts, rejects, _ = _read(tmp_path, {"a.pdf": bomb, "b.docx": _docx()}, limits={"memory_per_file": "256MiB"})
    assert [draft.url for draft in drafts] == ["b.docx"]
    assert [reject.url for reject in rejects] == ["a.pdf"]
    assert "more than 256 MiB of memory: limits.memory_per_file; stopped at" in rejects[0].reason


def _with_paragraphs(count: int) -> bytes:
    """A DOCX file of some kilobytes, on which its reader works for seconds."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_docx())) as made, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in made.namelist():
            body = b"<w:body>" + b"<w:p><w:r><w:t>x y.</w:t></w:r></w:p>" * count
            archive.writestr(name, made.read(name).replace(b"<w:body>", body))
    return out.getvalue()


def test_processor_time_and_elements_are_limited() -> None:
    body = _with_paragraphs(20_000)
    with pytest.raises(
        Unreadable, match=r"more than 1 s of processor time: limits\.seconds_per_file; stopped at [0-9]"
    ):
        read_document(body, "docx", ReadingLimits(seconds_per_file=1))
    with pytest.raises(Unreadable, match=r"more than 4 cells: limits\.elements_per_file"):
        read_document(_xlsx(), "xlsx", ReadingLimits(elements_per_file=4))
    with pytest.raises(Unreadable, match=r"8 elements, more than 5: limits\.elements_per_file"):
        read_document(_docx(), "docx", ReadingLimits(elements_per_file=5))


@pytest.mark.parametrize(
    ("content_type", "text", "encoding"),
    [
        ("text/plain; charset=iso-8859-1", "The price is 12 € per night – “breakfast” included…", "cp1252"),
        ("text/plain; charset=us-ascii", "Grüße aus Köln, 12 €", "utf-8"),
        ("", "Żółta gęś, 12 zł", "utf-8"),
        ("", "Grüße aus Köln, 12 €", "cp1252"),
        ("text/plain; charset=windows-874", "สวัสดี", "cp874"),
        ("text/plain; charset=gb2312", "朱镕基 发票", "gbk"),
        ("text/plain; charset=x-unknown", "Grüße aus Köln", "cp1252"),
        ("text/html", '<meta charset="windows-1251"><p>Счёт за март</p>', "cp1251"),
        ("text/html", "<p>Счёт за март</p>", "utf-8"),
        ("text/plain; charset=iso-2022-kr", "안녕하세요", "iso2022_kr"),
        ("text/plain; charset=utf-7", "Grüße aus Köln", "utf-7"),
        ("text/plain; charset=ibm852", "Zażółć gęślą", "cp852"),
    ],
)
def test_a_mail_is_read_in_the_encoding_that_it_is_in(content_type: str, text: str, encoding: str) -> None:
    head = (
        b"Subject: "
        + "Żółta gęś".encode()
        + b"\nFrom: a@x.test\n"
        + (f"Content-Type: {content_type}\n".encode() if content_type else b"")
    )
    texts = _texts(read_document(head + b"\n" + text.encode(encoding), "eml"))
    assert texts == ["Żółta gęś", "From: a@x.test", re.sub("<[^>]+>", "", text)]


@pytest.mark.parametrize("suffix", ["pdf", "docx", "pptx", "xlsx", "epub", "eml"])
def test_what_is_cut_short_or_empty_is_a_reject(suffix: str) -> None:
    whole = {
        "pdf": pdf([column(["x"])]),
        "docx": _docx(),
        "pptx": _pptx(),
        "xlsx": _xlsx(),
        "epub": _epub({"a.xhtml": "x"}),
        "eml": b"\0",
    }[suffix]
    for body in (b"", bytes(5_000), whole[: len(whole) // 2] if suffix != "eml" else whole):
        with pytest.raises(Unreadable):
            read_document(body, suffix)


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_file_in_the_strict_form_of_the_standard_is_read(suffix: str) -> None:
    usual = {"docx": _docx, "pptx": _pptx, "xlsx": _xlsx}[suffix]()
    names = re.compile(
        rb"http://schemas\.openxmlformats\.org/(officeDocument|wordprocessingml|spreadsheetml|presentationml|drawi"
        rb"ngml)/2006/"
    )
    with zipfile.ZipFile(io.BytesIO(usual)) as parts:
        strict = _zipped(
            {name: names.sub(rb"http://purl.oclc.org/ooxml/\1/", parts.read(name)) for name in parts.namelist()}
        )
    assert read_document(strict, suffix) == read_document(usual, suffix)


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_damaged_or_locked_office_file_says_so_and_the_files_beside_it_are_read(tmp_path: Path, suffix: str) -> None:
    whole = {"docx": _docx, "pptx": _pptx, "xlsx": _xlsx}[suffix]()
    with zipfile.ZipFile(io.BytesIO(whole)) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    main = next(
        name for name in ("word/document.xml", "ppt/slides/slide1.xml", "xl/worksheets/sheet1.xml") if name in contents
    )
    locked = re.sub(rb"(PK\x03\x04..|PK\x01\x02....).", lambda part: part[1] + b"\1", whole, flags=re.DOTALL)
    files = {
        f"a.{suffix}": _zipped(contents | {main: b"<a><b>"}),
        f"b.{suffix}": _zipped({name: content for name, content in contents.items() if name != "[Content_Types].xml"}),
        f"c.{suffix}": whole[:-100],
        f"d.{suffix}": locked,
        f"e.{suffix}": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000) + "EncryptedPackage".encode("utf-16-le"),
        f"f.{suffix}": whole,
    }
    drafts, rejects, refused = _read(tmp_path, files)
    reasons = {reject.url: reject.reason for reject in rejects} | refused
    assert [draft.url for draft in drafts] == [f"f.{suffix}"] and sorted(reasons) == sorted(
        set(files) - {f"f.{suffix}"}
    )
    assert all("damaged" in reasons[f"{name}.{suffix}"] for name in "abc") and all(
        "password" in reasons[f"{name}.{suffix}"] for name in "de"
    )


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        *((kind, b"", "the file is empty") for kind in ("pdf", "docx", "xlsx", "epub", "eml")),
        ("pdf", b"Plain words.", "not a PDF file, whatever its name says: it lacks %PDF-"),
        ("pdf", b"%PDF-1.7 and no more", "damaged PDF file: "),
        ("docx", b"Plain words.", "not a DOCX file, whatever its name says: it is no archive"),
        ("xlsx", b"PK\x03\x04 and no more", "damaged XLSX file: its end is missing"),
    ],
)
def test_a_file_that_is_empty_cut_short_or_something_else_says_so(kind: str, body: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match="^" + re.escape(reason)):
        read_document(body, kind)


def test_entities_of_a_book_are_not_expanded() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "lol"}">' for n in range(10))
    with pytest.raises(Unreadable, match="damaged EPUB file"):
        read_document(_epub({"a.xhtml": "<p>x</p>"}, f"<!DOCTYPE package [{entities}]>", title="&a9;"), "epub")


def test_a_sheet_that_claims_every_cell_is_read_for_what_it_has() -> None:
    made = openpyxl.Workbook()
    made.active["A1"], made.active["XFD1048576"] = "first", "last"
    assert _texts(read_document(_saved(made), "xlsx")) == ["Sheet", "first", "last"]


def test_mails_nested_too_deep_are_a_reject() -> None:
    parts = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(3_000))
    with pytest.raises(Unreadable, match="parts"):
        read_document(f"From: a@x.test\nTo: b@x.test\nSubject: s\n{parts}Content-Type: text/plain\n\nx".encode(), "eml")


# The child


def _child() -> int:
    assert bounded._reader._child is not None
    return bounded._reader._child._process.pid


def test_one_child_reads_many_files_and_is_replaced_when_it_dies() -> None:
    read_document(_docx(), "docx")
    first = _child()
    assert read_document(_xlsx(), "xlsx").unit == "sheet" and _child() == first
    os.kill(first, 9)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert read_document(_docx(), "docx").title == "Handbook" and _child() != first


def _kill_children(of_them: int) -> None:
    """Kills that many children, each while it is on its file: it has just been started."""
    killed: set[int] = set()
    while len(killed) < of_them:
        time.sleep(0.05)
        if bounded._reader._child is not None and (pid := _child()) not in killed:
            os.kill(pid, 9)
            killed.add(pid)


def test_a_file_whose_child_was_killed_is_read_again() -> None:
    close_reader()
    killer = threading.Thread(target=_kill_children, args=(1,))
    killer.start()
    assert read_document(_docx(), "docx").title == "Handbook"
    killer.join()
    close_reader()
    starter = threading.Thread(target=read_document, args=(_docx(), "docx"))
    starter.start()
    starter.join()
    assert read_document(_docx(), "docx").title == "Handbook"  # the child ended with its thread


def test_a_file_that_others_interrupt_is_left_to_the_next_run() -> None:
    close_reader()
    page = Page("in/a.docx", _docx(), content_type=DOCUMENT_TYPES["docx"])
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*"})
    killer = threading.Thread(target=_kill_children, args=(2,))
    killer.start()
    (extraction,) = map_pages([page], source, "en")
    killer.join()
    assert extraction.rejects[0].reason.startswith("its reader crashed (signal 9)") and not extraction.whole
    (extraction,) = map_pages([page], source, "en")
    assert [draft.title for draft in extraction.drafts] == ["Handbook"] and extraction.whole
    os.kill(_child(), 19)  # stopped: as on a machine that has no time for it
    with pytest.raises(Interrupted, match=r"not read within 4 s by the clock"):
        read_document(_docx(), "docx", ReadingLimits(seconds_per_file=1))


def test_a_forked_process_has_a_child_of_its_own() -> None:
    read_document(_docx(), "docx")
    ours = _child()
    if (forked := os.fork()) == 0:
        is_own = read_document(_docx(), "docx").title == "Handbook" and _child() != ours
        close_reader()
        os._exit(0 if is_own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert read_document(_docx(), "docx").title == "Handbook" and _child() == ours


def test_whoever_maps_pages_imports_no_reader() -> None:
    code = (
        "import sys, almanac.spiders.mapping.pages\n"
        "print(sorted({'unstructured', 'docx', 'pptx', 'openpyxl', 'pypdfium2'} & {name.partition('.')[0] for "
        "name in sys.modules}))"
    )
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )
