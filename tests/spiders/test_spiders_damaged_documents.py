"""Documents that are damaged, locked, empty or beyond a limit: rejects that say so, whose neighbours are read."""

import io
import re
import zipfile
import zlib
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]  # ships no types
import pytest

from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.spiders.reading.bounded import read_document
from almanac.spiders.reading.document import Unreadable
from tests.spiders.file_reading import element_texts, read_with_refusals
from tests.spiders.files import column, pdf
from tests.spiders.sample_documents import epub, handbook_docx, rates_xlsx, saved, talk_pptx, zipped

pytestmark = pytest.mark.usefixtures("reader_closed_at_end")


def _two_filters(size: int) -> bytes:
    """A PDF whose content is `size` spaces, deflated twice."""
    packed = zlib.compress(zlib.compress(b" " * size, 1), 9)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%b\nendstream" % (len(packed), packed)
    plain = pdf([[]])
    return plain.replace(plain[plain.index(b"<< /Length 0") : plain.index(b"endstream") + 9], stream)


def test_a_file_beyond_a_limit_is_a_reject_that_names_it_and_the_next_is_read(tmp_path: Path) -> None:
    bomb = _two_filters(600 << 20)
    assert len(bomb) < 50_000
    drafts, rejects, _ = read_with_refusals(
        tmp_path, {"a.pdf": bomb, "b.docx": handbook_docx()}, limits={"memory_per_file": "256MiB"}
    )
    assert [draft.url for draft in drafts] == ["b.docx"]
    assert [reject.url for reject in rejects] == ["a.pdf"]
    assert "more than 256 MiB of memory: limits.memory_per_file; stopped at" in rejects[0].reason


def _with_paragraphs(count: int) -> bytes:
    """A DOCX file of some kilobytes, on which its reader works for seconds."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(handbook_docx())) as made,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
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
        read_document(rates_xlsx(), "xlsx", ReadingLimits(elements_per_file=4))
    with pytest.raises(Unreadable, match=r"8 elements, more than 5: limits\.elements_per_file"):
        read_document(handbook_docx(), "docx", ReadingLimits(elements_per_file=5))


@pytest.mark.parametrize("suffix", ["pdf", "docx", "pptx", "xlsx", "epub", "eml"])
def test_what_is_cut_short_or_empty_is_a_reject(suffix: str) -> None:
    whole = {
        "pdf": pdf([column(["x"])]),
        "docx": handbook_docx(),
        "pptx": talk_pptx(),
        "xlsx": rates_xlsx(),
        "epub": epub({"a.xhtml": "x"}),
        "eml": b"\0",
    }[suffix]
    for body in (b"", bytes(5_000), whole[: len(whole) // 2] if suffix != "eml" else whole):
        with pytest.raises(Unreadable):
            read_document(body, suffix)


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_damaged_or_locked_office_file_says_so_and_the_files_beside_it_are_read(tmp_path: Path, suffix: str) -> None:
    whole = {"docx": handbook_docx, "pptx": talk_pptx, "xlsx": rates_xlsx}[suffix]()
    with zipfile.ZipFile(io.BytesIO(whole)) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    main = next(
        name for name in ("word/document.xml", "ppt/slides/slide1.xml", "xl/worksheets/sheet1.xml") if name in contents
    )
    locked = re.sub(rb"(PK\x03\x04..|PK\x01\x02....).", lambda part: part[1] + b"\1", whole, flags=re.DOTALL)
    files = {
        f"a.{suffix}": zipped(contents | {main: b"<a><b>"}),
        f"b.{suffix}": zipped({name: content for name, content in contents.items() if name != "[Content_Types].xml"}),
        f"c.{suffix}": whole[:-100],
        f"d.{suffix}": locked,
        f"e.{suffix}": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000) + "EncryptedPackage".encode("utf-16-le"),
        f"f.{suffix}": whole,
    }
    drafts, rejects, refused = read_with_refusals(tmp_path, files)
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


def test_a_sheet_that_claims_every_cell_is_read_for_what_it_has() -> None:
    made = openpyxl.Workbook()
    made.active["A1"], made.active["XFD1048576"] = "first", "last"
    assert element_texts(read_document(saved(made), "xlsx")) == ["Sheet", "first", "last"]
