"""Takes declared entities out of markup inside office files: their readers end a text at the first one, and lose what
stands behind it.
"""

from lxml import etree

from almanac.schemas.left_out import LeftOut

_DECLARED = b"<!ENTITY"
_WRITTEN = "almanac-written"


def declares_entities(beginning: bytes) -> bool:
    """Whether the beginning of a part declares entities."""
    return _DECLARED in beginning.replace(b"\0", b"")  # also in UTF-16


def without_entities(markup: bytes, left_out: LeftOut) -> bytes:
    """The markup with the text of internal entities in their places, and without the others: files and addresses that
    they name are not read.

    What is left out is counted as `entities`. Markup that is damaged is given back: its reader says what is wrong.
    """
    try:
        root = etree.fromstring(
            markup, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        )
    except etree.XMLSyntaxError:
        return markup
    subset = root.getroottree().docinfo.internalDTD
    declared = {entity.name: entity.content or "" for entity in subset.entities()} if subset is not None else {}
    for element in root.iter(etree.Element):
        for name, value in element.attrib.items():
            element.set(name, value)  # the value, not what refers to it
    for entity in list(root.iter(etree.Entity)):
        text = declared.get(entity.name, "")
        if not text or "&" in text or "<" in text:
            left_out.add("entities", entity.text)
            text = ""
        written = etree.Element(_WRITTEN)
        written.text, written.tail = text, entity.tail
        entity.getparent().replace(entity, written)
    etree.strip_tags(root, _WRITTEN)  # all at once: added one by one to the text before, they would take quadratic time
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
