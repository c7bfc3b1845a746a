"""Types of documents that pages link to: told by a name before anything is asked for, by headers and content once it
arrives.
"""

import io
import re
import zipfile
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from almanac.spiders.reading.content import media_type
from almanac.spiders.reading.formats import DOCUMENT_SUFFIXES, DOCUMENT_TYPES, document_by_content, document_by_name

# Type → media type. Not all of them can be read; the others are told apart to be counted.
MEDIA_TYPES = DOCUMENT_TYPES | {
    "doc": "application/msword",
    "ppt": "application/vnd.ms-powerpoint",
    "xls": "application/vnd.ms-excel",
    "xlsb": "application/vnd.ms-excel.sheet.binary.macroenabled.12",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "rtf": "application/rtf",
    "msg": "application/vnd.ms-outlook",
}
_OOXML = "application/vnd.openxmlformats-officedocument"
_BY_MEDIA_TYPE = {media: kind for kind, media in MEDIA_TYPES.items()} | {
    "application/x-pdf": "pdf",
    **dict.fromkeys((f"application/vnd.ms-word.{what}.macroenabled.12" for what in ("document", "template")), "docx"),
    **dict.fromkeys(
        (f"application/vnd.ms-powerpoint.{what}.macroenabled.12" for what in ("presentation", "slideshow", "template")),
        "pptx",
    ),
    **dict.fromkeys((f"application/vnd.ms-excel.{what}.macroenabled.12" for what in ("sheet", "template")), "xlsx"),
    f"{_OOXML}.wordprocessingml.template": "docx",
    **dict.fromkeys((f"{_OOXML}.presentationml.{what}" for what in ("slideshow", "template")), "pptx"),
    f"{_OOXML}.spreadsheetml.template": "xlsx",
}
# Servers send new files under the old formats' media types, too: the name then says which it is.
_SUCCESSORS = {"doc": "docx", "ppt": "pptx", "xls": "xlsx"}
# What servers say of files whose type they do not know, or that are to be saved.
_UNTOLD = frozenset(
    {
        "",
        "application/octet-stream",
        "binary/octet-stream",
        "application/binary",
        "application/x-binary",
        "application/force-download",
        "application/download",
    }
    | {
        "application/x-download",
        "application/x-force-download",
        "application/unknown",
        "application/zip",
        "application/x-zip-compressed",
    }
)
_ZIP = b"PK\x03\x04"
_IN_ZIP = ((b"word/", "docx"), (b"ppt/", "pptx"), (b"xl/", "xlsx"))
_FIRST_IN_ZIP = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"mimetype", *(name for name, _ in _IN_ZIP))
_NAME_AT = 30  # bytes: where the first name in a ZIP file begins
_WHOLE_PAGE = re.compile(
    rb"\s*(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(rf"\.(?:{'|'.join([*MEDIA_TYPES, *DOCUMENT_SUFFIXES])})\s*(?:[?#]|$)", re.IGNORECASE)
SNIFFED = 1024  # bytes by which content is told


def type_of_name(name: str) -> str | None:
    """The type that a file's name or a URL's path ends with; None if it says nothing of a document."""
    path = unquote(urlsplit(name).path) if name.startswith(("http://", "https://")) else name
    suffix = PurePosixPath(path).suffix.lower().removeprefix(".")
    return suffix if suffix in MEDIA_TYPES else document_by_name(path)


def may_name_document(reference: str) -> bool:
    """Whether a link's target, absolute or relative, may have a name that `type_of_name` knows."""
    return _NAMED.search(reference) is not None


def type_of_headers(content_type: str, *names: str) -> str | None:
    """The type that the headers tell: by Content-Type or, where that says nothing, by the first of the names that says
    something.

    Where Content-Type tells an old format of Office and a name its successor, the name counts.
    """
    kind = media_type(content_type)
    if kind in _UNTOLD:
        return next((named_type for name in names if (named_type := type_of_name(name)) is not None), None)
    document_type = _BY_MEDIA_TYPE.get(kind)
    successor = _SUCCESSORS.get(document_type or "")
    return successor if successor is not None and successor in map(type_of_name, names) else document_type


def says_nothing(content_type: str) -> bool:
    """Whether a Content-Type may stand for anything."""
    return media_type(content_type) in _UNTOLD


def type_of_content(body: bytes) -> str | None:
    """The type that a body shows, or its beginning; None if it shows none. A mail shows none, since texts may look like
    one.
    """
    if body[:SNIFFED].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if not body.startswith(_ZIP):
        return None
    if body[_NAME_AT:].startswith(b"mimetype"):
        return next(
            (
                kind
                for kind in ("epub", "odt", "ods", "odp")
                if MEDIA_TYPES[kind].encode() in body[_NAME_AT : _NAME_AT + 200]
            ),
            None,
        )
    # whole: its directory tells, while its bytes may hold those of a document inside it
    if zipfile.is_zipfile(io.BytesIO(body)):
        return document_by_content(body)
    return next((kind for name, kind in _IN_ZIP if name in body), None)


def may_be_document(beginning: bytes) -> bool:
    """Whether a body that begins so may be a document: a PDF, or a ZIP file whose first name is one of theirs."""
    return type_of_content(beginning) is not None or (
        beginning.startswith(_ZIP) and beginning[_NAME_AT:].startswith(_FIRST_IN_ZIP)
    )


def is_whole_page(body: bytes) -> bool:
    """Whether a body is a complete HTML page, whatever it is called."""
    return _WHOLE_PAGE.match(body[:4096]) is not None


def sent_name(content_disposition: bytes) -> str:
    """The file name in a Content-Disposition header, without folders; empty if there is none."""
    try:
        text = content_disposition.decode("utf-8")  # as many servers send it, against RFC 6266
    except UnicodeDecodeError:
        text = content_disposition.decode("latin-1")
    message = Message()
    message["Content-Disposition"] = " ".join(text.split())
    name = message.get_filename() or ""
    return "".join(c for c in re.split(r"[\\/]", name)[-1] if c.isprintable()).strip()[:255]
