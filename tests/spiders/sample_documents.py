"""Documents for tests, made by the libraries of their formats: real DOCX, PPTX, XLSX, EPUB and mail files."""

import io
import zipfile
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any

import docx as word
import openpyxl  # type: ignore[import-untyped]  # ships no types
import pptx as slides
from docx.oxml import OxmlElement
from pptx.util import Inches

PRICE = 0.123456789  # more digits than a table of pandas shows


def saved(made: Any) -> bytes:
    """The bytes of a document of any library that saves to a file."""
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def handbook_docx() -> bytes:
    """Headings, a short line, a list and a table, on two pages."""
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
    return saved(made)


def talk_pptx() -> bytes:
    """Two slides, a table and notes on the last one."""
    made = slides.Presentation()
    for title in ("Opening", "Closing"):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"About the {title.lower()}."
    table = slide.shapes.add_table(1, 2, Inches(1), Inches(5), Inches(4), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    slide.notes_slide.notes_text_frame.text = "Say goodbye."
    return saved(made)


def rates_xlsx() -> bytes:
    """Sheets with rows, without, and hidden."""
    made = openpyxl.Workbook()
    made.active.title = "Rates"
    for row in (["name", "rate", "count"], ["x", PRICE, 3], ["y", None, 2.0], [], ["A note by itself"]):
        made.active.append(row)
    made.create_sheet("Empty")
    made.create_sheet("Kept back").append(["secret", "1"])
    made["Kept back"].sheet_state = "hidden"
    made.create_sheet("More").append(["p", True])
    return saved(made)


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """An archive with these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def epub(chapters: dict[str, str], prolog: str = "", title: str = "A book") -> bytes:
    """A book whose spine has the chapters in reverse."""
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
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "in/o.opf": package,
            **{f"in/{name}": text for name, text in chapters.items()},
        }
    )


def offer_mail(*attached: tuple[str, bytes]) -> bytes:
    """A mail of plain and rich text, with attached (name, content)."""
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
