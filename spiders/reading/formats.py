"""Detects the format of a file from its name, unless its first bytes clearly show another."""

import json
import re
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

from w3lib.encoding import read_bom

Format = Literal["csv", "json", "jsonl", "markdown", "text", "html", "pdf", "docx"]

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_TYPES: dict[Format, str] = {
    "csv": "text/csv",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "markdown": "text/markdown",
    "text": "text/plain",
    "html": "text/html",
    "pdf": "application/pdf",
    "docx": _DOCX,
}
_BY_SUFFIX: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    ".json": "json",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), "markdown"),
    **dict.fromkeys((".txt", ".text"), "text"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    ".docx": "docx",
}
_TEXTS = frozenset({"csv", "json", "jsonl", "markdown", "text", "html"})
_SNIFFED = 4096
# A complete HTML page, not Markdown that begins with a tag such as <div align="center">.
_WHOLE_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)


def content_type(url: str, file_format: Format) -> str:
    """The media type under which a file is stored; a `.tsv` or `.tab` table keeps its own."""
    return "text/tab-separated-values" if file_format == "csv" and _suffix(url) in (".tsv", ".tab") else _TYPES[file_format]


def has_known_name(url: str) -> bool:
    """Whether the file's suffix stands for a supported format."""
    return _suffix(url) in _BY_SUFFIX


def format_of(url: str, body: bytes, *, default: Format = "text") -> Format:
    """The format of a file whose declaration names none. `default` is used for text whose name and content show nothing more."""
    named = _BY_SUFFIX.get(_suffix(url), "text")
    if named not in _TEXTS:
        return named
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if body.startswith(b"PK\x03\x04") and b"word/" in body:
        return "docx"
    if named in ("json", "jsonl"):
        return _lines_or_one(body, named)
    if named in ("text", "markdown") and _WHOLE_PAGE.match(_beginning(body)):
        return "html"
    return default if named == "text" else named


def _suffix(url: str) -> str:
    return PurePosixPath(url).suffix.lower()


def _beginning(body: bytes, size: int = _SNIFFED) -> str:
    encoding, mark = read_bom(body)
    return body[len(mark or b"") : size].decode(encoding or "utf-8", "replace")


def _lines_or_one(body: bytes, named: Format) -> Format:
    """Corrects `json` to `jsonl` and the reverse by content.

    In a single document, a line that is a complete value is never followed by another value: a comma stands between them. One bad line proves nothing.
    """
    lines = [stripped for line in _beginning(body, 1 << 20).split("\n", 50) if (stripped := line.strip())]
    if any(after.startswith(("{", "[")) and line.startswith(("{", "[")) and _is_json(line) for line, after in pairwise(lines)):
        return "jsonl"
    return "json" if named == "jsonl" and len(lines) > 1 and not _is_json(lines[0]) and _is_json(body) else named


def _is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
