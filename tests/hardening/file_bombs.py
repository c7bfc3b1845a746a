"""Files that take far more to read than they weigh, in each format that is read; and some of each that are cut short or
lie about themselves.
"""

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from functools import partial
from itertools import islice

import pptx

from tests.hardening.yaml_bombs import yaml_bombs
from tests.spiders.files import column, docx, paragraph, pdf

_LAUGHS = "<!DOCTYPE x [<!ENTITY a0 'lol lol lol'>{}]>".format(
    "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 20}'>" for n in range(1, 10))
)
_QUADRATIC = f"<!DOCTYPE x [<!ENTITY a0 '{'lol ' * 20_000}'>]>"
_OUTSIDE = "<!DOCTYPE x [<!ENTITY a0 SYSTEM 'file:///etc/passwd'><!ENTITY % p SYSTEM 'http://127.0.0.1:9/x'>%p;]>"
_PROLOGS = {"laughs": (_LAUGHS, "&a9;"), "quadratic": (_QUADRATIC, "&a0;" * 5000), "outside": (_OUTSIDE, "&a0;")}
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHAPE, _PARAGRAPH = re.compile(rb"<p:sp>.*</p:sp>", re.DOTALL), re.compile(rb"<a:p>.*</a:p>", re.DOTALL)  # of a slide
_S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _zipped(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def _with(made: bytes, changed: dict[str, Callable[[bytes], bytes]], more: dict[str, bytes] | None = None) -> bytes:
    """An archive with some of its parts changed, and others added."""
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, change in changed.items():
        parts[name] = change(parts[name])
    return _zipped(parts | (more or {}))


def _streamed(packed: bytes, filters: str) -> bytes:
    """A PDF whose page has this content."""
    stream = b"<< /Length %d /Filter [%b] >>\nstream\n%b\nendstream" % (len(packed), filters.encode(), packed)
    plain = pdf([[]])
    return plain.replace(plain[plain.index(b"<< /Length 0") : plain.index(b"endstream") + 9], stream)


def _pdfs() -> Iterator[tuple[str, bytes]]:
    text = b"BT /F1 12 Tf 72 700 Td (lol) Tj ET\n"
    for count in (2, 3, 4):
        packed = b" " * (300 << 20)
        for _ in range(count):
            packed = zlib.compress(packed, 9)
        yield f"{count}-flate", _streamed(packed, "/FlateDecode " * count)
    packed = zlib.compress(zlib.compress(text * 2_000_000, 1), 9)
    yield "texts", _streamed(packed, "/FlateDecode /FlateDecode")
    yield "runs", _streamed(zlib.compress(b"\x81 " * (2 << 20) + b"\x80", 9), "/FlateDecode /RunLengthDecode")
    yield "lzw", _streamed(zlib.compress(b"\x80\x0b\x60\x50\x22\x0c\x0c\x85\x01" * 400_000), "/FlateDecode /LZWDecode")
    yield "hex", _streamed(zlib.compress(b"20" * (40 << 20), 9), "/FlateDecode /ASCIIHexDecode")
    yield "damaged-flate", _streamed(zlib.compress(text * 1000)[:-20], "/FlateDecode")
    yield "unknown-filter", _streamed(text, "/NoSuchDecode")
    page = pdf([column(["lol"])])
    yield "kids-of-itself", page.replace(b"/Kids [7 0 R]", b"/Kids [2 0 R]").replace(b"/Kids [6 0 R]", b"/Kids [2 0 R]")
    yield "many-pages-said", page.replace(b"/Count 1", b"/Count 999999999")
    yield "huge-box", page.replace(b"[0 0 595 842]", b"[0 0 99999999999 99999999999]")
    yield "nested-arrays", page.replace(b"/Type /Catalog", b"/Type /Catalog /X " + b"[" * 500_000)
    yield "nested-dictionaries", page.replace(b"/Type /Catalog", b"/Type /Catalog /X " + b"<< /X " * 300_000)
    yield "no-end", page[: len(page) // 2]
    yield "many-objects", b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n[]\nendobj\n" % number for number in range(300_000))
    yield "letters", pdf([[(n % 500, n // 500, 1, "lol") for n in range(60_000)]])
    yield (
        "form-in-itself",
        _streamed(b"/X Do", "").replace(
            b"/Filter []", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>"
        ),
    )


def _word(body: str, prolog: str = "") -> bytes:
    markup = f'<?xml version="1.0"?>{prolog}<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>'.encode()
    return _with(docx(paragraph("x")), {"word/document.xml": lambda _: markup})


def _offices() -> Iterator[tuple[str, bytes]]:
    yield "paragraphs.docx", _word(paragraph("lol.") * 400_000)
    yield "one-text.docx", _word(paragraph("lol " * (20 << 20)))
    yield "spaces.docx", _word(paragraph(" " * (200 << 20)))
    yield "nested-tables.docx", _word("<w:tbl><w:tr><w:tc>" * 3000 + paragraph("lol") + "</w:tc></w:tr></w:tbl>" * 3000)
    yield (
        "wide-table.docx",
        _word(f"<w:tbl><w:tr>{'<w:tc><w:p><w:r><w:t>l</w:t></w:r></w:p></w:tc>' * 20_000}</w:tr></w:tbl>"),
    )
    yield "attributes.docx", _word(f"<w:p {_attributes(50_000)}>{paragraph('lol')}</w:p>")
    for name, (prolog, entity) in _PROLOGS.items():
        yield f"{name}.docx", _word(paragraph(entity), prolog)
        yield f"{name}.xlsx", _workbook(f"<row><c t='inlineStr'><is><t>{entity}</t></is></c></row>", prolog=prolog)
        yield f"{name}.epub", _book(f"<p>{entity}</p>", prolog)
    plain = docx(paragraph("lol"))
    yield "parts.docx", _with(plain, {}, {f"word/x{number}.bin": b"" for number in range(25_000)})
    yield "ratio.docx", _with(plain, {}, {f"word/x{number}.xml": b" " * (60 << 20) for number in range(5)})
    yield (
        "media.docx",
        _with(plain, {}, {"word/media/a.png": _png(60_000, 60_000), "word/media/b.bin": b"\0" * (100 << 20)}),
    )
    yield "nested.docx", _nested(plain)
    yield "overlapping.docx", _overlapping(plain)
    yield "lying.docx", _lying(_word(paragraph("lol " * (4 << 20))))
    yield "cut.docx", plain[: len(plain) // 2]
    yield "twice.docx", plain + plain
    yield "path.docx", _with(plain, {}, {"../../../../tmp/evil.xml": b"x", "/etc/evil.xml": b"x"})
    rows = "<row><c t='inlineStr'><is><t>lol</t></is></c></row>"
    yield "rows.xlsx", _workbook(rows * 300_000)
    yield "far-cell.xlsx", _workbook("<row r='1048576'><c r='XFD1048576'><v>1</v></c></row>")
    yield (
        "wide.xlsx",
        _workbook("<row>" + "<c><v>1</v></c>" * 16_384 + "</row>" + "<row r='100000'><c><v>1</v></c></row>"),
    )
    yield "shared.xlsx", _workbook(("<row>" + "<c t='s'><v>0</v></c>" * 50 + "</row>") * 1000, shared="lol " * 250_000)
    yield "shared-many.xlsx", _workbook("<row><c t='s'><v>0</v></c></row>", shared="lol", times=2_000_000)
    yield (
        "formulas.xlsx",
        _workbook("".join(f"<row><c><f>{'(' * 5000}A1{')' * 5000}</f><v>{n}</v></c></row>" for n in range(1000))),
    )
    yield (
        "merged.xlsx",
        _workbook(rows, after="<mergeCells>" + "<mergeCell ref='A1:XFD1048576'/>" * 2000 + "</mergeCells>"),
    )
    yield "dimension.xlsx", _workbook(rows, before="<dimension ref='A1:XFD1048576'/>")
    yield "chapters.epub", _book("<p>lol</p>" * 400_000)
    yield "nested.epub", _book("<div>" * 100_000 + "lol")
    yield "attributes.epub", _book(f"<p {_attributes(100_000)}>lol</p>")
    yield "spine.epub", _book("<p>lol lol lol</p>" * 2000, spine=20_000)


def _decks() -> Iterator[tuple[str, bytes]]:
    """Decks of one slide, whose title says LOL before it is changed."""
    out, deck = io.BytesIO(), pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "LOL"
    deck.save(out)

    def changed(change: Callable[[bytes], bytes]) -> bytes:
        return _with(out.getvalue(), {"ppt/slides/slide1.xml": change})

    def repeated(times: int) -> Callable[[bytes], bytes]:
        return lambda markup: _SHAPE.sub(lambda shape: shape[0] * times, markup)

    yield "shapes.pptx", changed(repeated(100_000))
    yield "one-text.pptx", changed(lambda markup: markup.replace(b"LOL", b"lol " * (20 << 20)))
    yield "paragraphs.pptx", changed(lambda markup: _PARAGRAPH.sub(lambda match: match[0] * 300_000, markup))
    yield (
        "groups.pptx",
        changed(lambda markup: _SHAPE.sub(lambda shape: b"<p:grpSp>" * 5000 + shape[0] + b"</p:grpSp>" * 5000, markup)),
    )
    for name, (prolog, entity) in _PROLOGS.items():
        yield f"{name}.pptx", changed(partial(_insert_entity, prolog=prolog.encode(), entity=entity.encode()))
    yield (
        "ratio.pptx",
        _with(out.getvalue(), {}, {f"ppt/media/x{number}.bin": b"\0" * (60 << 20) for number in range(5)}),
    )
    yield "cut.pptx", out.getvalue()[:-2000]


def _insert_entity(markup: bytes, *, prolog: bytes, entity: bytes) -> bytes:
    head, end, rest = markup.partition(b"?>")
    return head + end + prolog + rest.replace(b"LOL", entity)


def _attributes(count: int) -> str:
    return " ".join(f'a{number}="b"' for number in range(count))


def _workbook(
    rows: str, *, prolog: str = "", shared: str = "", times: int = 1, before: str = "", after: str = ""
) -> bytes:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default '
        'Extension="xml" '
        'ContentType="application/xml"/><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{types}.sheet.main+xml"/><Override '
        'PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{types}.worksheet+xml"/><Override PartName="/xl/sharedStrings.xml" '
        f'ContentType="{types}.sharedStrings+xml"/></Types>',
        "_rels/.rels": (
            f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{kind}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>'
        ),
        "xl/workbook.xml": (
            f'<workbook xmlns="{_S}" xmlns:r="{kind}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
            "</workbook>"
        ),
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{relations}"><Relationship Id="r1" '
        f'Type="{kind}/worksheet" '
        'Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="r2" Type="{kind}/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": (
            f'<?xml version="1.0"?>{prolog}<worksheet xmlns="{_S}">{before}<sheetData>{rows}</sheetData>'
            f"{after}</worksheet>"
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{_S}">{f"<si><t>{shared}</t></si>" * times}</sst>',
    }
    return _zipped({name: content.encode() for name, content in parts.items()})


def _book(chapter: str, prolog: str = "", spine: int = 1) -> bytes:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>B</dc:title></metadata><manifest>"
        '<item id="i" href="c.xhtml" media-type="application/xhtml+xml"/></manifest><spine>'
        + '<itemref idref="i"/>' * spine
        + "</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
        'full-path="o.opf"/></rootfiles></container>'
    )
    text = (
        f'<?xml version="1.0"?>{prolog}<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>C</h1>{chapter}</body>'
        "</html>"
    )
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "o.opf": package, "c.xhtml": text}
    return _zipped({name: content.encode() for name, content in parts.items()})


def _png(width: int, height: int) -> bytes:
    """A picture of some kilobytes with as many pixels as it says."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packed = zlib.compressobj(9)
    rows = b"".join(packed.compress(b"\0" * (width // 8 + 1)) for _ in range(min(height, 2000))) + packed.flush()
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


def _nested(made: bytes) -> bytes:
    for level in range(8):
        made = _with(made, {}, {f"word/{level}{n}.zip": made for n in range(2)}) if len(made) < 1 << 20 else made
    return made


def _overlapping(made: bytes) -> bytes:
    """An archive with thousands of entries that share one body."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, zipfile.ZipFile(io.BytesIO(made)) as old:
        for name in old.namelist():
            archive.writestr(name, old.read(name))
        archive.writestr("word/big.xml", b" " * (20 << 20))
        big = archive.getinfo("word/big.xml")
        for number in range(5000):
            twin = zipfile.ZipInfo(f"word/x{number}.xml")
            twin.compress_type, twin.compress_size, twin.file_size = big.compress_type, big.compress_size, big.file_size
            twin.CRC, twin.header_offset = big.CRC, big.header_offset
            archive.filelist.append(twin)
    return out.getvalue()


def _lying(made: bytes) -> bytes:
    """An archive that says of its parts that they are a few bytes long."""
    archive = bytearray(made)
    place = archive.find(b"PK\x01\x02")
    while place >= 0:
        archive[place + 24 : place + 28] = struct.pack("<I", 10)
        place = archive.find(b"PK\x01\x02", place + 4)
    return bytes(archive)


def _mails() -> Iterator[tuple[str, bytes]]:
    head = b"From: a@x.test\r\nTo: b@x.test\r\nSubject: Offer\r\nMIME-Version: 1.0\r\n"
    inner = head + b"\r\nlol\r\n"
    for _ in range(200):
        inner = head + b"Content-Type: message/rfc822\r\n\r\n" + inner
    yield "nested.eml", inner
    yield (
        "parts.eml",
        head
        + b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"
        + b"--x\r\nContent-Type: text/plain\r\n\r\nlol\r\n" * 30_000
        + b"--x--\r\n",
    )
    yield (
        "boundaries.eml",
        head + b"".join(b"Content-Type: multipart/mixed; boundary=x%d\r\n\r\n--x%d\r\n" % (n, n) for n in range(3000)),
    )
    yield "header.eml", head + b"X: " + b"a" * (8 << 20) + b"\r\n\r\nlol"
    yield "headers.eml", head + b"Received: x\r\n" * 300_000 + b"\r\nlol"
    yield "folded.eml", head + b"Subject: " + b"=?utf-8?q?lol?=\r\n " * 100_000 + b"\r\n\r\nlol"
    yield "addresses.eml", b"From: " + b"a" * 10 + b"(" * 100_000 + b"@x.test\r\n" + head + b"\r\nlol"
    yield "charset.eml", head + b"Content-Type: text/plain; charset=utf-7\r\n\r\n" + b"+AGwAbwBs-" * 100_000
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@x.test", "b@x.test", "Offer"
    mail.set_content("Plain words.")
    mail.add_attachment(zlib.compress(b"\0" * (200 << 20), 9), maintype="application", subtype="zip", filename="a.zip")
    mail.add_attachment(
        _word("<w:p><w:r><w:t>lol.</w:t></w:r></w:p>" * 300_000),
        maintype="application",
        subtype="octet-stream",
        filename="a.docx",
    )
    yield "attached.eml", mail.as_bytes()


def _texts() -> Iterator[tuple[str, bytes]]:
    line = "lol, lol and lol once more. "
    for name in ("txt", "md", "html"):
        yield f"endless-line.{name}", (line * 30_000).encode()
        yield f"empty-lines.{name}", b"\n" * (1 << 20)
        yield f"one-word.{name}", b"l" * (1 << 20)
        for encoding in ("utf-7", "utf-16", "utf-32", "utf-16-le", "utf-32-be"):
            yield f"{encoding}.{name}", (line * 200).encode(encoding)
            yield f"{encoding}-cut.{name}", (line * 200).encode(encoding)[:-1]
        yield f"nul.{name}", (line * 100).encode() + b"\0" * (4 << 20)
        yield f"surrogates.{name}", b"\xed\xa0\x80" * 100_000
        yield f"marks.{name}", ("a" + "\u0301" * 200_000).encode()
        yield f"bidi.{name}", ("\u202e" * 300_000 + line).encode()
    for mark, times in (
        ("[", 50_000),
        ("> ", 20_000),
        ("*", 100_000),
        ("`", 100_000),
        ("![", 30_000),
        ("- ", 20_000),
        ("|", 200_000),
        ("<", 200_000),
        ("\\", 100_000),
    ):
        yield f"marks-{ord(mark[0])}.md", (f"# T\n\n{line}\n\n" + mark * times).encode()
    yield "references.md", ("# T\n\n" + "".join(f"[a{n}]: /x\n" for n in range(30_000)) + "[a1] " * 30_000).encode()
    yield "emphasis.md", ("# T\n\n" + "*a **b " * 30_000).encode()
    yield "table.md", ("|" + "a|" * 3000 + "\n|" + "-|" * 3000 + "\n" + ("|" + "b|" * 3000 + "\n") * 100).encode()
    for number, (_, block) in enumerate(yaml_bombs().items()):
        if number % 6 == 0:
            yield f"front-matter-{number}.md", f"---\n{block}\n---\n\n{line}".encode()
    for name, opening in (
        ("div", "<div>"),
        ("font", "<font>"),
        ("table", "<table><tr><td>"),
        ("svg", "<svg>"),
        ("a", "<a href=x>"),
        ("select", "<select><option>"),
    ):
        yield f"deep-{name}.html", f"<html><body><p>{line}</p>{opening * 100_000}lol".encode()
    yield (
        "attributes.html",
        ("<html><body><p " + " ".join(f"a{n}=b" for n in range(1_000_000)) + f">{line}</p>").encode(),
    )
    yield "entities.html", ("<html><body><p>" + "&amp;&#x6c;&nosuch;&lt" * 200_000).encode()
    yield "unclosed.html", ("<html><body><p>" + line + "<!--" * 300_000 + "<script>" * 100_000).encode()
    yield (
        "styles.html",
        f"<html><head><style>{'a{b:c}' * 300_000}{'*' * 50_000}</style></head><body><p>{line}</p>".encode(),
    )
    yield (
        "selectors.html",
        f"<html><head><style>{':not(' * 20_000}</style></head><body><p>{line}</p></body></html>".encode(),
    )
    for name, (prolog, entity) in _PROLOGS.items():
        yield f"{name}.html", f"{prolog}<html><body><p>{line}{entity}</p></body></html>".encode()


def _tables() -> Iterator[tuple[str, bytes]]:
    good = {"title": "Fine", "text": "A row that is fine."}
    row = json.dumps(good)
    for name, bad in {
        "deep": "[" * 200_000,
        "deep-objects": '{"a":' * 100_000,
        "deep-closed": '{"title": "x", "text": ' + "[" * 5000 + "]" * 5000 + "}",
        "digits": '{"title": "x", "text": ' + "9" * 500_000 + "}",
        "exponent": '{"title": "x", "text": 1e999999999}',
        "keys": "{" + ",".join(f'"k{n}": 1' for n in range(200_000)) + "}",
        "same-key": "{" + '"title": "x",' * 200_000 + '"text": "x"}',
        "escapes": '{"title": "x", "text": "' + "\\ud800" * 200_000 + '"}',
        "quote": '{"title": "' + "x" * (8 << 20),
        "long-text": '{"title": "x", "text": "' + "lol " * (2 << 20) + '"}',
        "nan": '{"title": NaN, "text": Infinity}',
        "nul": '{"title": "x", "text": "\\u0000"}\0\0',
    }.items():
        yield f"{name}.jsonl", f"{row}\n{bad}\n".encode()
        yield f"{name}.json", f"[{row}, {bad}]".encode()
    for name, text in {
        "quotes": "title,text\nFine,A row that is fine.\n" + '"x,' * 200_000,
        "unclosed": "title,text\nFine,A row that is fine.\n" + '"x\n' * 100_000,
        "columns": "title,text" + "," * 500_000 + "\nFine,A row that is fine." + "," * 500_000,
        "names": "title,text" + ",a" * 50_000 + "\nFine,A row that is fine." + ",b" * 50_000,
        "wide-rows": "title,text\nFine,A row that is fine.\n" + ("x," * 5000 + "\n") * 300,
        "endless-cell": "title,text\nFine,A row that is fine.\nx," + "y" * (8 << 20),
        "endless-quoted": 'title,text\nFine,A row that is fine.\nx,"' + "y\n" * (4 << 20) + '"',
        "returns": "title,text\nFine,A row that is fine.\n" + "\r" * (4 << 20),
        "formulas": "title,text\nFine,A row that is fine.\n" + "=cmd|' /C calc'!A0,@SUM(1)\n" * 10_000,
    }.items():
        yield f"{name}.csv", text.encode()


def file_bombs(each: int | None) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of every file, or of so many of each kind: making them costs nearly what reading them does."""
    yield from islice(_tables(), each)
    yield from islice(_texts(), each)
    yield from islice(_mails(), each)
    yield from islice(_offices(), each)
    yield from islice(_decks(), each and each - 1)
    yield from ((f"{name}.pdf", content) for name, content in islice(_pdfs(), each and each - 1))
