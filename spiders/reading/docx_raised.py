"""Writes what a DOCX file raises or lowers as characters, 10⁶ and H₂O: python-docx gives the digits alone."""

from typing import Any

from lxml import etree

from almanac.spiders.reading.docx_merges import W
from almanac.spiders.reading.raised import Standing, raised_in

Raising = dict[str, Standing]
"""Styles of characters by their ids, with how text in them stands, as far as they say it."""

_STANDING: dict[str, Standing] = {"superscript": "sup", "subscript": "sub", "baseline": ""}
_MAX_BASES = 50  # styles that a style goes back to


def raising_styles(styles: bytes) -> Raising:
    """The character styles of `word/styles.xml` that raise or lower text, also by the style that they are based on.
    None where it is damaged.
    """
    if b"vertAlign" not in styles and b"\0" not in styles:
        return {}
    try:
        root = etree.fromstring(
            styles, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        )
    except etree.XMLSyntaxError:
        return {}
    known = {
        style.get(f"{W}styleId", ""): style
        for style in root.iterfind(f"{W}style")
        if style.get(f"{W}type") == "character"
    }
    standings = {name: _stands_in(style, known) for name, style in known.items() if name}
    return {name: stands for name, stands in standings.items() if stands}


def write_raised_runs(root: Any, styles: Raising) -> int:
    """Rewrites raised and lowered runs in place; how many there were."""
    count = 0
    for paragraph in root.iter(f"{W}p"):
        runs = [run for run in paragraph.iter(f"{W}r") if next(run.iterancestors(f"{W}p"), None) is paragraph]
        standing = [_stands(run, styles) for run in runs]
        if not any(standing):
            continue
        for hyphen in [
            hyphen
            for run, stands in zip(runs, standing, strict=True)
            if stands
            for hyphen in run.iterfind(f"{W}noBreakHyphen")
        ]:
            hyphen.tag, hyphen.text = f"{W}t", "-"
        texts = [list(run.iterfind(f"{W}t")) for run in runs]
        before = ["".join(text.text or "" for text in inner) for inner in texts]
        for inner, old, new in zip(texts, before, raised_in(list(zip(before, standing, strict=True))), strict=True):
            if old != new:
                for text in inner:
                    text.text = ""
                inner[0].text = new
        count += sum(map(bool, standing))
    return count


def _stands(run: Any, styles: Raising) -> Standing:
    properties = run.find(f"{W}rPr")
    if properties is None:
        return ""
    direct, named = properties.find(f"{W}vertAlign"), properties.find(f"{W}rStyle")
    if direct is not None:
        return _STANDING.get(direct.get(f"{W}val", ""), "")
    return styles.get(named.get(f"{W}val", ""), "") if named is not None else ""


def _stands_in(style: Any, known: dict[str, Any]) -> Standing:
    for _ in range(_MAX_BASES):
        alignment, base = style.find(f"{W}rPr/{W}vertAlign"), style.find(f"{W}basedOn")
        if alignment is not None:
            return _STANDING.get(alignment.get(f"{W}val", ""), "")
        style = None if base is None else known.get(base.get(f"{W}val"))
        if style is None:
            return ""
    return ""
