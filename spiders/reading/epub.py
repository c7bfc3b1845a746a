"""Reads EPUB files: the chapters in the order of the book's spine, each through the reader of markup. Runs in the reading child only.

unstructured hands EPUB to Pandoc, a program of 150 MB that no limit of the child would hold for; what an EPUB holds is XHTML.
"""

import posixpath
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree

from almanac.spiders.reading.archives import open_archive, read_part
from almanac.spiders.reading.decode import decode_markup
from almanac.spiders.reading.document import Document, Element, Unreadable
from almanac.spiders.reading.office import read_markup

_XHTML = frozenset({"application/xhtml+xml", "text/html", "application/html"})
_FONTS = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})  # scrambled fonts: the text is open


def read_epub(body: bytes) -> Document:
    """Title and chapters of an EPUB file. Its tables of contents are left out. Raises Unreadable if it is damaged or encrypted."""
    archive = open_archive(body, "EPUB")
    names = set(archive.namelist())
    if "META-INF/encryption.xml" in names and _is_encrypted(_parse(archive, "META-INF/encryption.xml")):
        raise Unreadable("the file is encrypted: copy protection keeps its text")
    container = _parse(archive, "META-INF/container.xml")
    paths = container.xpath("//*[local-name()='rootfile']/@full-path")
    if not paths:
        raise Unreadable("damaged EPUB file: META-INF/container.xml names no package")
    package = _parse(archive, paths[0])
    title = " ".join("".join(package.xpath("string(//*[local-name()='metadata']/*[local-name()='title'][1])")).split())
    elements = [element for name in _chapters(package, paths[0]) if name in names for element in _chapter(archive, name)]
    return Document(title, elements)


def _chapters(package: etree._Element, path: str) -> Iterator[str]:
    items = {item.get("id"): item for item in package.xpath("//*[local-name()='manifest']/*[local-name()='item']")}
    for reference in package.xpath("//*[local-name()='spine']/*[local-name()='itemref']/@idref"):
        item = items.get(reference)
        if item is not None and item.get("media-type") in _XHTML and "nav" not in (item.get("properties") or "").split():
            yield posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote((item.get("href") or "").partition("#")[0])))


def _chapter(archive: zipfile.ZipFile, name: str) -> list[Element]:
    body = read_part(archive, name, "EPUB")
    _, text = decode_markup(body, "application/xhtml+xml")
    return read_markup(text.partition("?>")[2] if text.lstrip().startswith("<?xml") else text)


def _parse(archive: zipfile.ZipFile, name: str) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(read_part(archive, name, "EPUB"), parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"damaged EPUB file: {name}: {error}") from error


def _is_encrypted(encryption: etree._Element) -> bool:
    methods = encryption.xpath("//*[local-name()='EncryptionMethod']/@Algorithm")
    return any(method not in _FONTS for method in methods)
