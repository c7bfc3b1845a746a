"""Reads EPUB files: the chapters in the order of the book's spine, each through the reader of markup. Runs in the
reading child only.

unstructured hands EPUB to Pandoc, a program of 150 MB that no limit of the child would hold for; what an EPUB holds is
XHTML.
"""

import posixpath
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.archives import open_archive, read_part
from almanac.spiders.reading.decode import decode_markup
from almanac.spiders.reading.document import Document, Element, Unreadable
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.office import read_markup

_XHTML = frozenset({"application/xhtml+xml", "text/html", "application/html", "text/x-oeb1-document"})
_XHTML_NAMES = (".xhtml", ".html", ".htm")
# scrambled fonts: the text is open
_FONTS = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_MAX_FALLBACKS = 5
_TITLES = "//*[local-name()='metadata']//*[local-name()='title']"


def read_epub(body: bytes) -> Document:
    """Title and chapters of an EPUB file. Its tables of contents are left out. Raises Unreadable if it is damaged or
    encrypted.
    """
    archive = open_archive(body, "EPUB")
    names = set(archive.namelist())
    if "META-INF/encryption.xml" in names and _is_encrypted(_parse(archive, "META-INF/encryption.xml")):
        raise Unreadable("the file is encrypted: copy protection keeps its text")
    container = _parse(archive, "META-INF/container.xml")
    paths = container.xpath("//*[local-name()='rootfile']/@full-path")
    if not paths:
        raise Unreadable("damaged EPUB file: META-INF/container.xml names no package")
    package = _parse(archive, paths[0], mends=True)
    elements, left_out = list[Element](), LeftOut()
    for name, is_contents in _chapters(package, paths[0], names):
        markup = _chapter(archive, name)
        if is_contents:
            left_out.add("page_furniture", " ".join(parse_markup(markup).xpath("//body//text()").getall()))
        else:
            elements += read_markup(markup, left_out)
    return Document(_title(package), elements, left_out=left_out)


def _title(package: etree._Element) -> str:
    """The title that is marked as the main one, else the first."""
    titles = package.xpath(_TITLES)
    main = {
        reference.removeprefix("#")
        for reference in package.xpath("//*[@property='title-type'][normalize-space()='main']/@refines")
    }
    chosen = next((title for title in titles if title.get("id") in main), titles[0] if titles else None)
    return "" if chosen is None else " ".join("".join(chosen.itertext()).split())


def _chapters(package: etree._Element, path: str, names: set[str]) -> Iterator[tuple[str, bool]]:
    """Names of the chapters in the order of the spine, and whether they are tables of contents.

    Each comes once: some programs list a chapter again for each of its sections.
    """
    items = {item.get("id"): item for item in package.xpath("//*[local-name()='manifest']/*[local-name()='item']")}
    seen: set[str] = set()
    for reference in package.xpath("//*[local-name()='spine']/*[local-name()='itemref']/@idref"):
        item = _readable(items, reference)
        if item is None:
            continue
        href = (item.get("href") or "").partition("#")[0]
        paths = (
            posixpath.normpath(posixpath.join(posixpath.dirname(path), written)) for written in (unquote(href), href)
        )
        name = next((name for name in paths if name in names), None)
        if name is not None and name not in seen:
            seen.add(name)
            yield name, "nav" in (item.get("properties") or "").split()


def _readable(items: dict[str, etree._Element], reference: str) -> etree._Element | None:
    """The item of a reference or, where that is no XHTML, what it names in its place."""
    for _ in range(_MAX_FALLBACKS):
        item = items.get(reference)
        if item is None:
            return None
        if item.get("media-type") in _XHTML or (item.get("href") or "").partition("#")[0].lower().endswith(
            _XHTML_NAMES
        ):
            return item
        reference = item.get("fallback") or ""
    return None


def _chapter(archive: zipfile.ZipFile, name: str) -> str:
    body = read_part(archive, name, "EPUB")
    _, text = decode_markup(body, "application/xhtml+xml")
    return text.partition("?>")[2] if text.lstrip().startswith("<?xml") else text


def _parse(archive: zipfile.ZipFile, name: str, *, mends: bool = False) -> etree._Element:
    """A part as XML. With `mends`, what is not well-formed is read as far as it goes: packages use prefixes and
    entities that they do not declare.
    """
    body = read_part(archive, name, "EPUB")
    try:
        return etree.fromstring(body, _parser())
    except etree.XMLSyntaxError as error:
        root = etree.fromstring(body, _parser(recover=True)) if mends else None
        if root is None or not root.xpath("//*[local-name()='itemref']"):
            raise Unreadable(f"damaged EPUB file: {name}: {error}") from error
        return root


def _parser(*, recover: bool = False) -> etree.XMLParser:
    return etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, recover=recover)


def _is_encrypted(encryption: etree._Element) -> bool:
    methods = encryption.xpath("//*[local-name()='EncryptionMethod']/@Algorithm")
    return any(method not in _FONTS for method in methods)
