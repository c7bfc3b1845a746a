"""HTML, PDF and DOCX files, from bytes on disk to items, broken ones, and those whose names lie."""

import re
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from almanac.schemas.items import PAGE_BREAK
from almanac.spiders.reading.formats import format_of
from tests.spiders.file_reading import only_draft, read_items
from tests.spiders.files import arabic_pdf, column, docx, paragraph, pdf, table


def test_html_files_are_read_like_pages_and_named_like_files(tmp_path: Path) -> None:
    drafts, _ = read_items(
        tmp_path,
        {
            "a.html": "<title>T</title><p>x</p>",
            "b.HTM": "<p>only text</p>",
            "c.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'><h1>X</h1></html>",
        },
    )
    assert [(draft.title, draft.markup) for draft in drafts] == [("T", "html"), ("b", "html"), ("X", "html")]


def test_a_pdf_is_read_in_paragraphs(tmp_path: Path) -> None:
    page = column([
        "A walk in the woods is a fine thing to do on a long sum-",
        "mer day, when the light is low and the well-known paths", "are dry.", "",
        "**Where to walk", "Bring these, for there is nothing to be had on the way:", "\u2022 water", "\u2022 bread",
        "In spring the ways are wet. They go on for miles and no", "one walks on them before",
    ])  # fmt: skip
    rest = column(["the month of May. Then", "all do."])
    draft = only_draft(read_items(tmp_path, {"walks.pdf": pdf([page, rest], title="Walks and woods")}))
    assert draft.body is not None and draft.body.split("\n\n") == [
        f"{PAGE_BREAK}page=1\nA walk in the woods is a fine thing to do on a long summer day, when the light is "
        "low and the well-known paths are dry.",
        "Where to walk",
        "Bring these, for there is nothing to be had on the way:",
        "\u2022 water\n\u2022 bread",
        "In spring the ways are wet. They go on for miles and no one walks on them before the month of May. Then "
        "all do.",
    ]
    assert (draft.title, draft.markup) == ("Walks and woods", "paged")


def test_numbers_and_letters_inside_a_sentence_begin_no_list(tmp_path: Path) -> None:
    page = column([
        "The large basin is two metres deep and the small one 1,80",
        "m. Both are open to everybody who can swim well, until the",
        "12. March of the year and not a day longer than that.", "",
        "You need all of these to be let in on a normal day, sir:",
        "a. a ticket for the day that you are here on, whatever it", "cost",
        "b. a cap", "c. a towel",
    ])  # fmt: skip
    body = only_draft(read_items(tmp_path, {"a.pdf": pdf([page])})).body
    assert body is not None and body.removeprefix(f"{PAGE_BREAK}page=1\n").split("\n\n") == [
        "The large basin is two metres deep and the small one 1,80 m. Both are open to everybody who can swim "
        "well, until the 12. March of the year"
        " and not a day longer than that.",
        "You need all of these to be let in on a normal day, sir:",
        "a. a ticket for the day that you are here on, whatever it cost\nb. a cap\nc. a towel",
    ]


def _glyphs(text: str) -> list[str]:
    return re.findall("ل[اأإآ]|.", text)


def test_letters_of_one_glyph_keep_their_order_in_a_pdf(tmp_path: Path) -> None:
    text = "يجب الاستحمام قبل دخول الماء، والأطفال لا يدخلون بلا شخص بالغ إلا إذا سأل المال والآل"
    assert (
        only_draft(read_items(tmp_path, {"a.pdf": arabic_pdf([(520, 700, _glyphs(text))])})).body
        == f"{PAGE_BREAK}page=1\n{text}"
    )


def test_a_pdf_that_is_read_from_right_to_left_is_read_in_paragraphs(tmp_path: Path) -> None:
    lines = [
        *(
            "يمنع الركض على حافة المسبح ويجب الاستحمام قبل دخول الماء",
            "الدافئ.",
            "الأطفال دون سن العاشرة يدخلون برفقة شخص بالغ يعرف السباحة",
            "وينتظر معهم",
        ),
        *("", "ساعات العمل", "من السبت إلى الخميس"),
    ]
    made = arabic_pdf([(520, 700 - 14 * number, _glyphs(line)) for number, line in enumerate(lines) if line])
    body = only_draft(read_items(tmp_path, {"a.pdf": made})).body
    assert body is not None and body.removeprefix(f"{PAGE_BREAK}page=1\n").split("\n\n") == [
        " ".join(lines[:2]),
        " ".join(lines[2:4]),
        *lines[5:],
    ]


def test_columns_from_right_to_left_are_read_one_after_the_other(tmp_path: Path) -> None:
    first = [
        "يمنع الركض على حافة المسبح وفي",
        "الممرات كلها ويجب الاستحمام قبل",
        "دخول الماء ولا يسمح بإدخال الطعام",
        "إلى منطقة السباحة في أي وقت كان.",
    ]
    second = [
        "الأطفال دون سن العاشرة يدخلون مع",
        "شخص بالغ يعرف السباحة وينتظرهم",
        "عند الحافة طوال الوقت ولا يتركهم",
        "وحدهم في الماء ولو مدة قصيرة.",
    ]
    rows = enumerate(zip(first, second, strict=True))
    lines = [
        (right, 700 - 14 * number, _glyphs(line))
        for number, row in rows
        for right, line in zip((540, 270), row, strict=True)
    ]
    body = only_draft(read_items(tmp_path, {"a.pdf": arabic_pdf(lines)})).body
    assert body is not None and body.removeprefix(f"{PAGE_BREAK}page=1\n").split("\n\n") == [
        " ".join(first),
        " ".join(second),
    ]


def test_page_numbers_of_a_pdf_are_left_out_and_running_titles_stay(tmp_path: Path) -> None:
    words = ("one", "two", "three", "four")
    pages = [
        [
            (250, 800, 9, "Annual report"),
            (72, 700, 11, f"What chapter {word} says."),
            (290, 30, 9, f"Page {number} of 4"),
        ]
        for number, word in enumerate(words, start=1)
    ]
    draft = only_draft(read_items(tmp_path, {"a.pdf": pdf(pages)}))
    assert draft.body == "\n".join(
        f"{PAGE_BREAK}page={page}\nAnnual report\n\nWhat chapter {word} says."
        for page, word in enumerate(words, start=1)
    )


@pytest.mark.parametrize(
    ("lines", "named", "title"),
    [
        (
            [(72, 760, 24, "The big title"), *column(["Text below it."] * 4, top=700)],
            "Brochure of the year",
            "The big title",
        ),
        (column(["A short first line", "", "Text below it that is long enough."]), "Review", "A short first line"),
        (column(["Some text of one size."] * 3), "Named by hand", "Named by hand"),
        (column(["First."]), "Microsoft Word - a.docx", "First."),
    ],
)
def test_titles_of_pdfs(tmp_path: Path, lines: list[tuple[float, float, float, str]], named: str, title: str) -> None:
    assert only_draft(read_items(tmp_path, {"a.pdf": pdf([lines], title=named)})).title == title


def test_a_docx_file_is_read_with_headings_lists_and_tables(tmp_path: Path) -> None:
    body = (
        paragraph("Guide", "Heading1")
        + paragraph("Hello &amp; welcome.")
        + table([["size", "cm"], ["S", "10"]])
        + paragraph("More", "Heading2")
        + paragraph("x")
    )
    file = docx(body, word__vbaProject="macro")
    fields = {"name": {"css": "h1"}, "sizes": {"css": "table tr:nth-child(2) td", "many": True}}
    draft = only_draft(read_items(tmp_path, {"guide.docx": file}, fields=fields))
    assert draft.body == "\n# Guide\n\nHello & welcome.\n\n| size | cm |\n| --- | --- |\n| S | 10 |\n\n## More\n\nx"
    assert (draft.title, draft.markup, draft.fields) == ("Guide", "paged", {"name": "Guide", "sizes": ["S", "10"]})


def _bomb() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as part:
        for _ in range(65):
            part.write(bytes(4 << 20))
    return out.getvalue()


def _locked_pdf() -> bytes:
    keys = b"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%b> /U <%b> >> /ID [<00><00>] /Root" % (
        b"11" * 32,
        b"22" * 32,
    )
    return pdf([column(["secret"])]).replace(b"/Root", keys)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", pdf([[]]), "no text layer: its 1 pages are pictures"),
        ("a.pdf", b"%PDF-1.7 and no more", "damaged PDF file"),
        ("a.pdf", b"", "the file is empty"),
        ("a.pdf", _locked_pdf(), "the file needs a password"),
        ("a.docx", docx(paragraph("x"))[:300], "damaged DOCX file"),
        ("a.docx", b"PK\x03\x04", "damaged DOCX file"),
        ("a.docx", docx("<w:p><w:r>"), "damaged DOCX file"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "in an old format of Office, or needs a password"),
        ("a.docx", _bomb(), "too large once unpacked"),
        ("a.json", "{", "not JSON"),
        ("a.csv", "", "no header row: the file is empty"),
        ("a.csv", bytes(range(32)) * 100, "not text"),
        ("a.txt", b"\x7fELF\x02\x01" + bytes(3000), "not text"),
        ("a.md", bytes(range(256)) * 20, "not text"),
    ],
)  # fmt: skip
def test_a_broken_file_is_quarantined_with_its_reason_and_the_rest_goes_on(
    tmp_path: Path, name: str, content: bytes | str, reason: str
) -> None:
    drafts, rejects = read_items(tmp_path, {name: content, "z.md": "# Fine"}, body="{title}")
    assert [draft.url for draft in drafts] == ["z.md"]
    assert [(reject.url, reject.stage) for reject in rejects] == [(name, "read")] and reason in rejects[0].reason


@pytest.mark.parametrize(
    ("name", "content", "format_name"),
    [
        ("a.txt", pdf([column(["x"])]), "pdf"),
        ("a.md", docx(paragraph("x")), "docx"),
        ("a.md", "\ufeff<?xml version='1.0'?>\n<!-- saved -->\n<!DOCTYPE html>\n<p>x", "html"),
        ("a.md", '<div align="center">\n\n# A readme\n', "markdown"),
        ("a.txt", "<htmlish> is no tag", "text"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a.json", '{"a":\n1}\n', "json"),
        ("a.jsonl", '[\n{"a": 1},\n{"a": 2}]', "json"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "jsonl"),
        ("a.jsonl", '{"a": oops\n{"a": 2}\n', "jsonl"),
        ("a.jsonl", '[\n{"a": 1}\n]', "json"),
        ("a.json", '{"a": oops\n{"a": 2}\n{"a": 3}\n', "jsonl"),
        ("a.json", '{"a": 1}\n{"a": 2}\n'.encode("utf-16"), "jsonl"),
        ("a.html", "# no tag at all", "html"),
        ("A.MDX", "x", "markdown"),
        ("a.qmd", "---\ntitle: x\n---\ny", "markdown"),
    ],
)
def test_a_name_that_lies_is_seen_through(name: str, content: bytes | str, format_name: str) -> None:
    assert format_of(name, content.encode() if isinstance(content, str) else content) == format_name
