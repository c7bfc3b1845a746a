"""Mails: their texts in any shape and encoding, and the files that are attached to them."""

import re
from collections.abc import Callable
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest

from almanac.schemas.declaration.source import FilesSource
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.bounded import read_document
from almanac.spiders.reading.document import Unreadable
from almanac.spiders.reading.formats import format_of
from almanac.spiders.store.raw import RawStore
from tests.spiders.file_reading import element_texts, read_with_refusals
from tests.spiders.files import column, pdf
from tests.spiders.sample_documents import handbook_docx, offer_mail

pytestmark = pytest.mark.usefixtures("reader_closed_at_end")


def test_attachments_are_items_of_their_own_and_a_broken_one_is_a_reject(tmp_path: Path) -> None:
    inner = offer_mail(("deep.txt", b"Deep words."))
    mail = offer_mail(
        ("plan.docx", handbook_docx()),
        ("plan.docx", pdf([column(["In the PDF."])])),
        ("bad.pdf", b"%PDF-1.7 and no more"),
        ("x.bin", bytes(99)),
        ("m.eml", inner),
    )
    drafts, rejects, _ = read_with_refusals(tmp_path, {"offer.eml": mail})
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
    mail = offer_mail(("plan.docx", handbook_docx()), ("a.txt", b"Words."))
    keys = {
        "fields": {"by": {"css": "p", "pattern": "From: (\\S+)"}},
        "title": "Mail of {by}",
        "id": "mail-{by}",
        "yields": "documents",
    }
    drafts, rejects, _ = read_with_refusals(tmp_path, {"offer.eml": mail}, **keys)
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
    assert element_texts(document)[2:] == shown.get(shape, ["Words."])
    assert [
        (attachment.name, attachment.document and element_texts(attachment.document))
        for attachment in document.attachments
    ] == [("scan.pdf", ["Scanned."])]


def test_a_text_that_looks_like_a_mail_stays_a_text() -> None:
    assert format_of("a.txt", b"From: here\nTo: there\nSubject: travel\n\nx") == "text"
    assert format_of("a", b"To: whom it may concern\n\nx") == "text"


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
    texts = element_texts(read_document(head + b"\n" + text.encode(encoding), "eml"))
    assert texts == ["Żółta gęś", "From: a@x.test", re.sub("<[^>]+>", "", text)]


def test_mails_nested_too_deep_are_a_reject() -> None:
    parts = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(3_000))
    with pytest.raises(Unreadable, match="parts"):
        read_document(f"From: a@x.test\nTo: b@x.test\nSubject: s\n{parts}Content-Type: text/plain\n\nx".encode(), "eml")
