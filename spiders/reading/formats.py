"""Detects the format of a file from its name, unless its bytes clearly show another. Formats that are not read are
known by name, with the way out.
"""

import io
import json
import re
import zipfile
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

from w3lib.encoding import read_bom

Format = Literal["csv", "json", "jsonl", "markdown", "text", "html", "pdf", "docx", "pptx", "xlsx", "epub", "eml"]

_OFFICE = "application/vnd.openxmlformats-officedocument"
_TYPES: dict[Format, str] = {
    "csv": "text/csv",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "markdown": "text/markdown",
    "text": "text/plain",
    "html": "text/html",
    "pdf": "application/pdf",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "epub": "application/epub+zip",
    "eml": "message/rfc822",
}
_BY_SUFFIX: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    ".json": "json",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), "markdown"),
    **dict.fromkeys((".txt", ".text"), "text"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), "docx"),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), "pptx"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xltm"), "xlsx"),
    ".epub": "epub",
    ".eml": "eml",
}
_TEXTS = frozenset({"csv", "json", "jsonl", "markdown", "text", "html"})
SNIFFED = 4096  # bytes at the beginning of a file that show its format
DOCUMENT_SUFFIXES = sorted(suffix.removeprefix(".") for suffix, name in _BY_SUFFIX.items() if name not in _TEXTS)
# format → media type
DOCUMENT_TYPES: dict[str, str] = {name: kind for name, kind in _TYPES.items() if name not in _TEXTS}
# Formats that are not read: what the file is, and the way out.
_REFUSED = {
    ".rtf": "RTF; save it as DOCX or PDF",
    ".odt": "ODT; save it as DOCX or PDF",
    ".ods": "ODS; save it as XLSX or CSV",
    ".odp": "ODP; save it as PPTX or PDF",
    ".doc": "DOC, the format of Word 97; save it as DOCX",
    ".ppt": "PPT, the format of PowerPoint 97; save it as PPTX",
    ".xls": "XLS, the format of Excel 97; save it as XLSX or CSV",
    ".xlsb": "XLSB; save it as XLSX or CSV",
    ".msg": "MSG, the format of Outlook; save it as EML",
    ".mobi": "MOBI; convert it to EPUB",
    ".pages": "Pages; export it as DOCX or PDF",
    ".numbers": "Numbers; export it as XLSX or CSV",
    ".key": "Keynote; export it as PPTX or PDF",
}
_LOCKED = "the file needs a password: remove it in the program that set it"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = b"PK\x03\x04"
# Names of streams in an OLE file, in the order in which they decide.
_OLE_STREAMS = {
    "EncryptedPackage": "",
    "__properties_version1.0": ".msg",
    "WordDocument": ".doc",
    "PowerPoint Document": ".ppt",
    "Workbook": ".xls",
    "Book": ".xls",
}
_ZIPPED = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "META-INF/container.xml": "epub",
}
_MAIL = re.compile(rb"(?:(?:[\x21-\x39\x3b-\x7e]+:[^\n]*|[ \t][^\n]*)\r?\n){2,}")
_MAIL_HEADER = re.compile(rb"(?im)^(?:from|to|subject|date|message-id|received|return-path|mime-version|delivered-to):")
# A complete HTML page, not Markdown that begins with a tag such as <div align="center">.
_WHOLE_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)


def content_type(url: str, file_format: Format) -> str:
    """The media type under which a file is stored; a `.tsv` or `.tab` table keeps its own."""
    return (
        "text/tab-separated-values"
        if file_format == "csv" and _suffix(url) in (".tsv", ".tab")
        else _TYPES[file_format]
    )


def document_by_name(name: str) -> Format | None:
    """The document format that a name's suffix stands for; templates, shows and files with macros are of their plain
    kin's.
    """
    named = _BY_SUFFIX.get(_suffix(name))
    return named if named in DOCUMENT_TYPES else None


def has_known_name(url: str) -> bool:
    """Whether the file's suffix stands for a supported format."""
    return _suffix(url) in _BY_SUFFIX


def is_document(file_format: str) -> bool:
    """Whether the format is read in a child process (`bounded`): PDF, office formats, EPUB and mail."""
    return file_format in DOCUMENT_TYPES


def refused_name(url: str) -> str | None:
    """What a file is by its name, and the way out, where it is of a known format that is not read."""
    return _REFUSED.get(_suffix(url))


def refusal_of(body: bytes) -> str | None:
    """Why a file of such content is not read, and the way out: an old office format, an encrypted file, RTF and others.
    None where nothing tells.
    """
    if body.startswith(b"{\\rtf"):
        return f"it is {_REFUSED['.rtf']}"
    if body.startswith(_OLE):
        streams = (kind for name, kind in _OLE_STREAMS.items() if name.encode("utf-16-le") in body)
        old = next(streams, None)
        return (
            _LOCKED
            if old == ""
            else f"it is {_REFUSED[old]}"
            if old
            else "it is in an old format of Office, or needs a password: save it anew, without one"
        )
    if body.startswith(_ZIP):
        names = _names_in(body)
        if "xl/workbook.bin" in names:
            return f"it is {_REFUSED['.xlsb']}"
        if "mimetype" in names and "content.xml" in names:
            open_kind = _part_of(body, "mimetype").partition(b"opendocument.")[2]
            suffix = (
                ".ods"
                if open_kind.startswith(b"spreadsheet")
                else ".odp"
                if open_kind.startswith(b"presentation")
                else ".odt"
            )
            return f"it is {_REFUSED[suffix]}"
    return None


def may_be_document(beginning: bytes) -> bool:
    """Whether a file that begins so may be a document, or of a format that is refused."""
    return beginning.startswith((_ZIP, _OLE, b"{\\rtf")) or document_by_content(beginning) is not None


def document_by_content(body: bytes) -> Format | None:
    """The document format that a file's bytes show, whatever its name; None for texts, and where nothing tells."""
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if body.startswith(_ZIP):
        names = _names_in(body)
        return next((_as_format(kind) for name, kind in _ZIPPED.items() if name in names), None)
    head = body[:SNIFFED].removeprefix(b"From ")  # of a mailbox
    return "eml" if (match := _MAIL.match(head)) and len(set(_MAIL_HEADER.findall(match[0].lower()))) >= 3 else None


def format_of(url: str, body: bytes, *, default: Format = "text") -> Format:
    """The format of a file whose declaration names none. `default` is used for text whose name and content show nothing
    more.
    """
    suffix = _suffix(url)
    named = _BY_SUFFIX.get(suffix, "text")
    if (
        named not in ("html", "eml")
        and (shown := document_by_content(body)) is not None
        and not (shown == "eml" and suffix in _BY_SUFFIX)
    ):
        return shown
    if named not in _TEXTS:
        return named
    if named in ("json", "jsonl"):
        return _lines_or_one(body, named)
    if named in ("text", "markdown") and _WHOLE_PAGE.match(_beginning(body)):
        return "html"
    return default if named == "text" else named


def _as_format(kind: str) -> Format:
    return next(name for name in _TYPES if name == kind)


def _part_of(body: bytes, name: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive, archive.open(name) as part:
            return part.read(SNIFFED)
    except Exception:  # a damaged archive raises anything: BadZipFile, zlib.error, EOFError, …
        return b""


def _names_in(body: bytes) -> set[str]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return set()


def _suffix(url: str) -> str:
    return PurePosixPath(url).suffix.lower()


def _beginning(body: bytes, size: int = SNIFFED) -> str:
    encoding, mark = read_bom(body)
    return body[len(mark or b"") : size].decode(encoding or "utf-8", "replace")


def _lines_or_one(body: bytes, named: Format) -> Format:
    """Corrects `json` to `jsonl` and the reverse by content.

    In a single document, a line that is a complete value is never followed by another value: a comma stands between
    them. One bad line proves nothing.
    """
    lines = [stripped for line in _beginning(body, 1 << 20).split("\n", 50) if (stripped := line.strip())]
    if any(
        after.startswith(("{", "[")) and line.startswith(("{", "[")) and _is_json(line)
        for line, after in pairwise(lines)
    ):
        return "jsonl"
    return "json" if named == "jsonl" and len(lines) > 1 and not _is_json(lines[0]) and _is_json(body) else named


def _is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
