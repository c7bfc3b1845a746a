"""Books: EPUB files by spine, with chapters, notes, hidden text and page numbers."""

import io
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from almanac.spiders.reading.bounded import read_document
from almanac.spiders.reading.document import Unreadable
from tests.spiders.file_reading import cut_sections, element_texts
from tests.spiders.sample_documents import epub, zipped

pytestmark = pytest.mark.usefixtures("reader_closed_at_end")


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    book = read_document(
        epub(
            {
                "b.xhtml": "<h2>Second</h2><p>End.</p>",
                "a.xhtml": "<?xml version='1.0'?><html><body><h1>First</h1></body></html>",
            }
        ),
        "epub",
    )
    assert (book.title, element_texts(book), [element.level for element in book.elements]) == (
        "A book",
        ["First", "Second", "End."],
        [1, 2, 0],
    )


def test_a_chapter_that_the_spine_names_for_each_of_its_sections_is_read_once() -> None:
    book = read_document(
        epub({"b.xhtml#end": "", "a.xhtml#two": "", "b.xhtml": "<p>End.</p>", "a.xhtml": "<p>Begin.</p>"}), "epub"
    )
    assert element_texts(book) == ["Begin.", "End."]


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
        zipped({"META-INF/container.xml": container, "o.opf": package, "b%20c.html": "<p>Words.</p>"}), "epub"
    )
    assert (book.title, element_texts(book)) == ("The main title", ["Words."])


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
        element_texts(
            read_document(
                epub({"a.xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'><body>{markup}</body></html>"}), "epub"
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
    for body, kind in ((epub({"a.xhtml": markup}), "epub"), (mail.as_bytes(), "eml")):
        document = read_document(body, kind)
        assert element_texts(document)[-2:] == ["Seen here.", "And here."]
        assert document.left_out == {"hidden": {"blocks": 2, "characters": 12}}  # as the child tells it
    mail.add_attachment(markup.encode(), maintype="text", subtype="html", filename="a.html")
    assert read_document(mail.as_bytes(), "eml").left_out == {"hidden": {"blocks": 4, "characters": 24}}


def test_the_table_of_contents_and_the_page_numbers_of_a_book_are_tallied() -> None:
    broken = "<p>it <span epub:type='pagebreak'>12</span>goes on</p>"
    made = epub({"b.xhtml": broken, "a.xhtml": "<body><nav><ol><li><a href='b.xhtml'>One</a></li></ol></nav></body>"})
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(made)) as parts, zipfile.ZipFile(out, "w") as archive:
        for name in parts.namelist():
            archive.writestr(name, parts.read(name).replace(b'href="a.xhtml"', b'href="a.xhtml" properties="nav"'))
    book = read_document(out.getvalue(), "epub")
    assert (element_texts(book), book.left_out) == (["it goes on"], {"page_furniture": {"blocks": 2, "characters": 5}})


def test_code_of_a_book_keeps_its_lines_and_their_indentation(tmp_path: Path) -> None:
    book = epub({"a.xhtml": "<h1>Loops</h1><pre>for x in y:\n\tprint(```)\n\n# done\n</pre>"})
    (element,) = read_document(book, "epub").elements[1:]
    assert (element.kind, element.text) == ("code", "for x in y:\n    print(```)\n\n# done")
    assert cut_sections(tmp_path, {"a.epub": book}) == [
        ({"section": "Loops"}, "# Loops\n\n````\nfor x in y:\n    print(```)\n\n# done\n````")
    ]


def test_entities_of_a_book_are_not_expanded() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "lol"}">' for n in range(10))
    with pytest.raises(Unreadable, match="damaged EPUB file"):
        read_document(epub({"a.xhtml": "<p>x</p>"}, f"<!DOCTYPE package [{entities}]>", title="&a9;"), "epub")
