"""Bytes to text: which encoding a page or a file is in."""

import codecs

from charset_normalizer import from_bytes
from w3lib.encoding import html_to_unicode, read_bom


def decode_markup(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Encoding and text of HTML or XML.

    A byte order mark decides; then UTF-8 where the bytes agree, because pages are mislabelled as Latin-1 more often than
    other encodings happen to be valid UTF-8; then header, <meta> and detection. Pure ASCII says nothing about UTF-8
    (ISO-2022-JP is ASCII too), so there the label counts.
    """
    if read_bom(body)[0] is None and not body.isascii():
        try:
            return "utf-8", body.decode("utf-8")
        except UnicodeDecodeError:
            pass
    encoding, text = html_to_unicode(content_type or None, body, auto_detect_fun=_detected, default_encoding="cp1252")
    return encoding, text


def decode_text(body: bytes) -> tuple[str, str]:
    """Encoding and text of a plain text file: byte order mark, UTF-8, then detection."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if body.startswith(mark):
            return encoding, body[len(mark) :].decode(encoding, "replace")
    try:
        return "utf-8", body.decode("utf-8")
    except UnicodeDecodeError:
        encoding = _detected(body) or "cp1252"
        return encoding, body.decode(encoding, "replace")


def _detected(body: bytes) -> str | None:
    if body.isascii() and body.count(0) * 4 < len(body):  # wide characters of Western text are NUL by half; a stray one proves nothing
        return "utf-8"
    matches = from_bytes(body)
    best = matches.best()
    if best is None:
        return None
    # Short Western texts fit several code pages equally well, and the first of them by name is the Central European one.
    tied = [match for match in matches if (match.chaos, match.coherence) == (best.chaos, best.coherence)]
    return "cp1252" if any("cp1252" in match.could_be_from_charset for match in tied) else best.encoding
