"""Converts DOCX files to HTML: headings, paragraphs, lists and tables. Pictures, macros and linked content are left out."""

import io
import zipfile

_MAX_PARTS = 10_000
_MAX_XML_BYTES = 32 << 20  # of all XML inside, unpacked: a zip of 60 kB can hold 4 GB
_OLD_OR_LOCKED = b"\xd0\xcf\x11\xe0"
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh\np[style-name='Quote'] => blockquote:fresh"


def read_docx(body: bytes) -> str:
    """The document as HTML. Raises ValueError if the file is encrypted, damaged, or too large unpacked."""
    if body.startswith(_OLD_OR_LOCKED):
        raise ValueError("not a DOCX file: it needs a password, or it is in the format of Word 97")
    _check_archive(body)
    return _convert(body)


def _check_archive(body: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"damaged DOCX file: {error}") from error
    if any(part.flag_bits & 1 for part in parts):
        raise ValueError("the file needs a password")
    unpacked = sum(part.file_size for part in parts if part.filename.lower().endswith((".xml", ".rels")))
    if len(parts) > _MAX_PARTS or unpacked > _MAX_XML_BYTES:
        raise ValueError(f"too large once unpacked: {len(parts)} parts, {unpacked} bytes of XML")


def _convert(body: bytes) -> str:
    import mammoth  # type: ignore[import-untyped]  # ships no types

    try:
        # With its defaults, mammoth reads only the archive and opens no external link.
        found = mammoth.convert_to_html(io.BytesIO(body), style_map=_STYLES, include_embedded_style_map=False, convert_image=lambda _: [])
    except Exception as error:  # damaged files raise anything: KeyError, AttributeError, zlib.error, ExpatError, …
        raise ValueError(f"damaged DOCX file: {type(error).__name__} {error}".strip()) from error
    return str(found.value)
