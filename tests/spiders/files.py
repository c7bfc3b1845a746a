"""Files made for tests: small, real PDF and DOCX files."""

import io
import zipfile
from collections.abc import Sequence

_STREAM = "BT /F{font} {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n"
_ESCAPES = str.maketrans({"(": r"\(", ")": r"\)", "\\": r"\\"})


def pdf(pages: Sequence[Sequence[tuple[float, float, float, str]]], title: str = "") -> bytes:
    """A PDF of Latin text. A page is a sequence of (x, y, size, text) in points from the lower left; `**text` is
    bold.
    """
    return drawn_pdf([_drawn(lines) for lines in pages], title=title)


def _drawn(lines: Sequence[tuple[float, float, float, str]]) -> str:
    return "".join(
        _STREAM.format(
            font=2 if text.startswith("**") else 1,
            size=size,
            x=x,
            y=y,
            text=text.removeprefix("**").translate(_ESCAPES),
        )
        for x, y, size, text in lines
    )


def drawn_pdf(pages: Sequence[str], fields: Sequence[str] = (), *, title: str = "", catalog: str = "") -> bytes:
    """A PDF whose pages are content streams. /F1 is Helvetica, /F2 its bold, /Faint transparent.

    `fields` are entries of form fields on the first page, `/FT /Tx /V (Ann) /Rect [60 700 160 720]`; `catalog` is more
    of the document's catalog.
    """
    objects: list[bytes] = [b"", b""]
    objects += [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()
        for name in ("Helvetica", "Helvetica-Bold")
    ]
    objects.append(f"<< /Title ({title.translate(_ESCAPES)}) >>".encode("cp1252"))
    objects += [
        f"<< /Type /Annot /Subtype /Widget /T (field {number}) {field} >>".encode("cp1252")
        for number, field in enumerate(fields)
    ]
    widgets = " ".join(f"{number} 0 R" for number in range(6, 6 + len(fields)))
    kids: list[str] = []
    for content in pages:
        stream = content.encode("cp1252")
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        resources = "/Font << /F1 3 0 R /F2 4 0 R >> /ExtGState << /Faint << /ca 0.2 >> >>"
        annotations = "" if kids else f"/Annots [{widgets}]"
        page = (
            f"/Parent 2 0 R /MediaBox [0 0 595 842] {annotations} /Resources << {resources} >> /Contents "
            f"{len(objects)} 0 R"
        )
        objects.append(f"<< /Type /Page {page} >>".encode())
        kids.append(f"{len(objects)} 0 R")
    objects[0] = (
        f"<< /Type /Catalog /Pages 2 0 R {f'/AcroForm << /Fields [{widgets}] >>' if fields else ''} {catalog} >>"
    ).encode()
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    return _with_table(objects)


def arabic_pdf(lines: Sequence[tuple[float, float, Sequence[str]]], size: float = 10) -> bytes:
    """A PDF of one page of a script that is written from right to left, as browsers and office programs write it.

    A line is (where it begins on the right, y, its glyphs as they are read); a ligature is one glyph of several
    letters. Each is half of `size` wide.
    """
    glyphs = sorted({glyph for _, _, line in lines for glyph in line})
    codes = {glyph: code for code, glyph in enumerate(glyphs, start=0x21)}
    shown = (
        (right - len(line) * size / 2, y, bytes(codes[glyph] for glyph in reversed(line)).hex())
        for right, y, line in lines
    )
    stream = "".join(f"BT /F1 {size} Tf 1 0 0 1 {x} {y} Tm <{line}> Tj ET\n" for x, y, line in shown).encode()
    mapped = "".join(f"<{code:02x}> <{glyph.encode('utf-16-be').hex()}>\n" for glyph, code in codes.items())
    cmap = (
        f"begincmap\n1 begincodespacerange\n<00> <ff>\nendcodespacerange\n{len(codes)} beginbfchar\n"
        f"{mapped}endbfchar\nendcmap"
    ).encode()
    first, last = min(codes.values()), max(codes.values())
    widths = " ".join(["500"] * (last - first + 1))
    font = (
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar {first} /LastChar {last} /Widths "
        f"[{widths}] /ToUnicode 6 0 R >>"
    )
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents 4 "
        b"0 R >>"
    )
    streams = [b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content) for content in (stream, cmap)]
    catalog, pages = b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [7 0 R] /Count 1 >>"
    return _with_table([catalog, pages, font.encode(), streams[0], b"<< /Title () >>", streams[1], page])


def _with_table(objects: Sequence[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def column(
    lines: Sequence[str], *, x: float = 72, top: float = 760, size: float = 11, step: float = 14
) -> list[tuple[float, float, float, str]]:
    """Lines one below the other; an empty one leaves a gap."""
    return [(x, top - number * step, size, line) for number, line in enumerate(lines) if line]


_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" '
    'ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
    '<Override PartName="/word/styles.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
_STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2, 3)
)


def docx(body: str, **parts: str) -> bytes:
    """A DOCX file whose document holds the WordprocessingML `body`; `parts` are more files by name, `__` for a
    slash.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr("_rels/.rels", _RELATIONS)
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>')
        archive.writestr(
            "word/_rels/document.xml.rels",
            _RELATIONS.replace('officeDocument" Target="word/document', 'styles" Target="styles'),
        )
        archive.writestr("word/styles.xml", f'<w:styles xmlns:w="{_W}">{_STYLES}</w:styles>')
        for name, content in parts.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of WordprocessingML."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table of WordprocessingML."""
    written = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in written)}</w:tbl>"
