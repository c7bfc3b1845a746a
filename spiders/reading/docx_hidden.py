"""Finds what a DOCX file hides: runs with the property `vanish`, by themselves or by a style, and rows of tables that
are hidden.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lxml import etree

from almanac.spiders.reading.docx_merges import W

_OFF = frozenset({"0", "false", "off", "no"})
_MAX_BASES = 50  # styles that a style goes back to


class Hiding(NamedTuple):
    """The styles that hide text; `usual` of paragraphs that name none."""

    paragraph: frozenset[str] = frozenset()
    character: frozenset[str] = frozenset()
    usual: bool = False

    def __bool__(self) -> bool:
        return bool(self.paragraph or self.character or self.usual)


def hiding_styles(styles: bytes) -> Hiding:
    """The styles of `word/styles.xml` that hide text, also by the style that they are based on. None where it is
    damaged: its reader says so.
    """
    if b"vanish" not in styles and b"\0" not in styles:
        return Hiding()
    try:
        root = etree.fromstring(
            styles, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        )
    except etree.XMLSyntaxError:
        return Hiding()
    known = {style.get(f"{W}styleId", ""): style for style in root.iterfind(f"{W}style")}
    names_by_kind: dict[str, set[str]] = {"paragraph": set(), "character": set()}
    usual = False
    for name, style in known.items():
        kind = style.get(f"{W}type", "paragraph")
        if kind in names_by_kind and _is_hiding(style, known):
            names_by_kind[kind].add(name)
            usual |= kind == "paragraph" and style.get(f"{W}default", "0") not in _OFF
    return Hiding(frozenset(names_by_kind["paragraph"]), frozenset(names_by_kind["character"]), usual)


def hidden_in(root: Any, styles: Hiding) -> Iterator[Any]:
    """Yields the runs and rows that Word does not show."""
    for row in root.iter(f"{W}tr"):
        if _is_on(row.find(f"{W}trPr/{W}hidden")):
            yield row
    for run in root.iter(f"{W}r"):
        properties = run.find(f"{W}rPr")
        direct = None if properties is None else properties.find(f"{W}vanish")
        if direct is not None:
            if _is_on(direct):
                yield run
        elif styles:
            named = None if properties is None else properties.find(f"{W}rStyle")
            by_character = named is not None and named.get(f"{W}val") in styles.character
            # one that is hidden twice is shown: the property is a switch
            if by_character != _is_in_hiding_paragraph(run, styles):
                yield run


def _is_in_hiding_paragraph(run: Any, styles: Hiding) -> bool:
    paragraph = next(run.iterancestors(f"{W}p"), None)
    named = None if paragraph is None else paragraph.find(f"{W}pPr/{W}pStyle")
    return styles.usual if named is None else named.get(f"{W}val") in styles.paragraph


def _is_hiding(style: Any, known: dict[str, Any]) -> bool:
    for _ in range(_MAX_BASES):
        vanish = style.find(f"{W}rPr/{W}vanish")
        base = style.find(f"{W}basedOn")
        if vanish is not None or base is None:
            return _is_on(vanish)
        style = known.get(base.get(f"{W}val"))
        if style is None:
            return False
    return False


def _is_on(switch: Any) -> bool:
    return switch is not None and switch.get(f"{W}val", "true").lower() not in _OFF
