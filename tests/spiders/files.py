"""Files made for tests: small, real PDF and DOCX files."""

import io
import zipfile
from collections.abc import Sequence

_STREAM = "BT /F{font} {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n"
_ESCAPES = str.maketrans({"(": r"\(", ")": r"\)", "\\": r"\\"})


def pdf(pages: Sequence[Sequence[tuple[float, float, float, str]]], title: str = "") -> bytes:
    """A PDF of Latin text. A page is a sequence of (x, y, size, text) in points from the lower left; `**text` is bold."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    objects += [f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode() for name in ("Helvetica", "Helvetica-Bold")]
    objects.append(f"<< /Title ({title.translate(_ESCAPES)}) >>".encode("cp1252"))
    kids = []
    for lines in pages:
        stream = "".join(
            _STREAM.format(font=2 if text.startswith("**") else 1, size=size, x=x, y=y, text=text.removeprefix("**").translate(_ESCAPES))
            for x, y, size, text in lines
        ).encode("cp1252")
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        fonts = "/Font << /F1 3 0 R /F2 4 0 R >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << {fonts} >> /Contents {len(objects)} 0 R >>".encode())
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    return _with_table(objects)


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


def column(lines: Sequence[str], *, x: float = 72, top: float = 760, size: float = 11, step: float = 14) -> list[tuple[float, float, float, str]]:
    """Lines one below the other; an empty one leaves a gap."""
    return [(x, top - number * step, size, line) for number, line in enumerate(lines) if line]


_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
    '<Override PartName="/word/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>'
)
_STYLES = "".join(f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2, 3))


def docx(body: str, **parts: str) -> bytes:
    """A DOCX file whose document holds the WordprocessingML `body`; `parts` are more files by name, `__` for a slash."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr("_rels/.rels", _RELATIONS)
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>')
        archive.writestr("word/_rels/document.xml.rels", _RELATIONS.replace('officeDocument" Target="word/document', 'styles" Target="styles'))
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
