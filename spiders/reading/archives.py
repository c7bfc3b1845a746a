"""Opens the ZIP archives that office files and EPUB are, and refuses those that would not fit once unpacked."""

import io
import re
import warnings
import zipfile

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.document import Unreadable
from almanac.spiders.reading.entities import declares_entities, without_entities

_MAX_PARTS = 20_000
_MAX_XML_BYTES = 256 << 20  # of all markup inside, unpacked
_BEGINNING = 4096  # bytes of a part
_MARKUP = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".vml")


_CONTENT_TYPES = "[Content_Types].xml"
_RELATIONS = "_rels/.rels"
_STRICT = re.compile(
    rb"http://purl\.oclc\.org/ooxml/(officeDocument|wordprocessingml|spreadsheetml|presentationml|drawingml)/"
)
_USUAL = rb"http://schemas.openxmlformats.org/\1/2006/"
_OOXML = "application/vnd.openxmlformats-officedocument"
# The type of a plain document, and those of templates, shows and files with macros, which are packed as it is.
_KIN = {
    "DOCX": (
        f"{_OOXML}.wordprocessingml.document.main+xml",
        rb"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml\.template|ms-word\.(?:document|temp"
        rb"late)\.macroEnabled(?:Template)?)\.main\+xml",
    ),
    "PPTX": (
        f"{_OOXML}.presentationml.presentation.main+xml",
        rb"application/vnd\.(?:openxmlformats-officedocument\.presentationml\.(?:slideshow|template)"
        rb"|ms-powerpoint\.(?:presentation|slideshow|template)\.macroEnabled)\.main\+xml",
    ),
}


def open_archive(body: bytes, kind: str) -> zipfile.ZipFile:
    """The archive of a file of that kind (`DOCX`). Raises Unreadable if it is damaged, needs a password, or would be
    too large once unpacked.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(body))
        parts = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        if not body.startswith(b"PK"):
            raise Unreadable(f"not {_a(kind)} file, whatever its name says: it is no archive") from error
        finding = error if zipfile.is_zipfile(io.BytesIO(body)) else "its end is missing"
        raise Unreadable(f"damaged {kind} file: {finding}") from error
    if any(part.flag_bits & 1 for part in parts):
        raise Unreadable("the file needs a password")
    unpacked = sum(part.file_size for part in parts if part.filename.lower().endswith(_MARKUP))
    if len(parts) > _MAX_PARTS or unpacked > _MAX_XML_BYTES:
        raise Unreadable(f"too large once unpacked: {len(parts)} parts, {unpacked} bytes of markup")
    return archive


def open_office(body: bytes, kind: str, main: str, left_out: LeftOut) -> tuple[bytes, zipfile.ZipFile]:
    """An office file and its archive, which holds the part `main`. Raises Unreadable, also for a file of another kind.

    One in the strict form of the standard (ISO/IEC 29500), which its readers take for damaged or empty, is given in the
    usual one; they differ by their names. Entities that its parts declare, which the standard does not allow, are
    written out, or left out and counted in `left_out`.
    """
    archive = open_archive(body, kind)
    names = archive.namelist()
    if main not in names:
        raise Unreadable(f"not {_a(kind)} file: the archive holds no {main}")
    declaring = {
        name for name in names if name.lower().endswith(_MARKUP) and declares_entities(_beginning(archive, name))
    }
    is_strict = _RELATIONS in names and b"purl.oclc.org/ooxml" in read_part(archive, _RELATIONS, kind)
    if not is_strict and not declaring:
        return body, archive
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as written:
        for name in dict.fromkeys(names):
            if not name.lower().endswith(_MARKUP):
                written.writestr(name, b"")  # pictures and the like, which nobody reads, have to be there
                continue
            markup = read_part(archive, name, kind)
            markup = without_entities(markup, left_out) if name in declaring else markup
            written.writestr(name, _STRICT.sub(_USUAL, markup) if is_strict else markup)
    return out.getvalue(), zipfile.ZipFile(out)


def _beginning(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as part:
            return part.read(_BEGINNING)
    except Exception:  # whoever reads the part says what is wrong with it
        return b""


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'XE' else 'a'} {kind}"


def damaged(kind: str, error: Exception) -> Unreadable:
    """What to raise for a file that its reader stumbled over."""
    return Unreadable(" ".join(f"damaged {kind} file: {type(error).__name__} {error}"[:300].split()))


def read_part(archive: zipfile.ZipFile, name: str, kind: str) -> bytes:
    """A part of an archive, no more bytes of it than the archive says. Raises Unreadable if it is missing or
    damaged.
    """
    try:
        with archive.open(name) as part:
            return part.read(_MAX_XML_BYTES)
    except KeyError as error:
        raise Unreadable(f"damaged {kind} file: it lacks {name}") from error
    except Exception as error:  # zlib.error, EOFError, NotImplementedError, …
        raise Unreadable(f"damaged {kind} file: {name}: {type(error).__name__} {error}") from error


def as_plain_document(body: bytes, archive: zipfile.ZipFile, kind: str) -> bytes:
    """A template, a show or a file with macros as a plain document, which is all that its readers take. Macros stay
    what they are: bytes that nobody runs.
    """
    plain, kin = _KIN[kind]
    content_types = read_part(archive, _CONTENT_TYPES, kind)
    retyped = re.sub(kin, plain.encode(), content_types, flags=re.IGNORECASE)
    if retyped == content_types:
        return body
    out = io.BytesIO(body)
    # a part of that name is there; the last one counts
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "a") as appended:
        appended.writestr(_CONTENT_TYPES, retyped)
    return out.getvalue()
