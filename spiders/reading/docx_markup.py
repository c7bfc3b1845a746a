"""Prepares the markup of a DOCX file for unstructured, which reads only the runs, rows and cells that stand where they
do in a simple document.

What stands in something else it passes over without a word: tracked insertions, content controls, simple fields, smart
tags, formulas, text boxes, notes, symbols. They are unwrapped or put into the text here, and what is hidden or tracked
as deleted is left out: the document is as Word shows it once all its changes are accepted.
"""

import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.archives import read_part
from almanac.spiders.reading.docx_asides import choose_alternatives, insert_notes, move_boxes
from almanac.spiders.reading.docx_hidden import Hiding, hidden_in, hiding_styles
from almanac.spiders.reading.docx_merges import W, mend_merges, run_of
from almanac.spiders.reading.docx_raised import Raising, raising_styles, write_raised_runs
from almanac.spiders.reading.docx_symbols import write_symbols
from almanac.spiders.reading.mathml import M, formula_text

_PART = "word/document.xml"
_STYLES, _COMMENTS = "word/styles.xml", "word/comments.xml"
_NOTES = {"footnote": "word/footnotes.xml", "endnote": "word/endnotes.xml"}
_WRAPPERS = frozenset(
    f"{W}{name}" for name in ("ins", "moveTo", "sdt", "sdtContent", "fldSimple", "smartTag", "customXml", "bdo", "dir")
)
_WRAPPERS_OF_MATH = _WRAPPERS | {f"{M}oMathPara"}
_DELETED = (f"{W}del", f"{W}moveFrom", f"{W}cellDel")
# Properties of wrappers, and records of how something looked before a tracked change: its old list numbers would make
# it a list item.
_ASIDE = tuple(
    f"{W}{name}"
    for name in (
        "sdtPr",
        "sdtEndPr",
        "smartTagPr",
        "customXmlPr",
        "fldData",
        "pPrChange",
        "rPrChange",
        "numberingChange",
    )
)
_BLOCK_PLACES = frozenset({f"{W}body", f"{W}tc", f"{W}txbxContent", f"{W}footnote", f"{W}endnote"})
_PLACES_OF_PAGES = frozenset({f"{W}body", f"{W}p"})
_CONTENTS = "Table of Contents"
# Says by a look at the bytes that a document, as most are, has nothing to prepare; one in UTF-16 has zeros among them.
_NEEDED = re.compile(
    rb"[<:](?:ins|del|moveTo|moveFrom|cellDel|sdt|fldSimple|smartTag|customXml|bdo|dir|ruby|oMath|vMerge|pPrChange"
    rb"|rPrChange|numberingChange"
    rb"|vanish|hidden|sym|vertAlign|footnoteReference|endnoteReference|AlternateContent|txbxContent)[\s/>"
    rb"]|\xef[\x80-\x83]|\0"
)
_REFERS_TO_NOTES = re.compile(rb"(?:foot|end)noteReference[\s/>]|\0")


def flattened(body: bytes, archive: zipfile.ZipFile, left_out: LeftOut) -> bytes:
    """The file with the text of its document where unstructured finds it; the very same bytes if it is there already.
    `left_out` tallies what it is without.
    """
    markup, names = read_part(archive, _PART, "DOCX"), set(archive.namelist())
    if _COMMENTS in names and (comments := _parsed(read_part(archive, _COMMENTS, "DOCX"))) is not None:
        _tally("comments", comments.iter(f"{W}comment"), left_out)
    sheet = read_part(archive, _STYLES, "DOCX") if _STYLES in names else b""
    styles, raising = hiding_styles(sheet), raising_styles(sheet)
    if not styles and not _NEEDED.search(markup) and not any(name.encode() in markup for name in raising):
        return body
    root = _parsed(markup)
    if root is None:
        return body  # its reader says what is wrong
    is_changed = _flatten(root, styles, raising, left_out)
    if _REFERS_TO_NOTES.search(markup):
        notes = {
            kind: parsed
            for kind, part in _NOTES.items()
            if part in names and (parsed := _parsed(read_part(archive, part, "DOCX"))) is not None
        }
        for note in notes.values():
            _flatten(note, styles, raising, left_out)
        is_changed |= insert_notes(root, notes)
    if not is_changed:
        return body
    etree.strip_elements(root, etree.Entity, with_tail=False)  # nobody reads them, and they are declared no more
    markup = etree.tostring(root, encoding="UTF-8", xml_declaration=True, with_tail=False)
    del root
    out = io.BytesIO(body)
    # a part of that name is there; the last one counts
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "a") as appended:
        appended.writestr(_PART, markup, zipfile.ZIP_DEFLATED, compresslevel=1)
    return out.getvalue()


def _parsed(markup: bytes) -> Any:
    """The root of a part; None where it is damaged."""
    try:
        # Without `huge_tree`, as python-docx reads it after: what is nested too deep for the one is for the other.
        return etree.fromstring(
            markup, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        )
    except etree.XMLSyntaxError:
        return None


def _flatten(root: Any, styles: Hiding, raising: Raising, left_out: LeftOut) -> bool:
    """Flattens the tree in place; whether anything in it changed."""
    chosen = choose_alternatives(root)
    contents = _remove_pages(
        _tally(
            "page_furniture",
            (
                sdt
                for sdt in root.iter(f"{W}sdt")
                if any(gallery.get(f"{W}val") == _CONTENTS for gallery in sdt.iterfind(f"{W}sdtPr//{W}docPartGallery"))
            ),
            left_out,
        )
    )
    deleted, unended = _remove_deleted(root, left_out)
    hidden = _remove_pages(_tally("hidden", hidden_in(root, styles), left_out))
    aside = _remove(root.iter(*_ASIDE))
    boxes, symbols = move_boxes(root), write_symbols(root)
    formulas, annotated, wrapped = _write_formulas(root), _write_ruby(root), _unwrap(root)
    for paragraph in reversed(unended):
        _join_to_next(paragraph)
    raised = write_raised_runs(root, raising)
    return any(
        (chosen, contents, deleted, hidden, aside, boxes, symbols, formulas, annotated, wrapped, raised)
    ) | mend_merges(root)


def _tally(reason: str, elements: Iterable[Any], left_out: LeftOut) -> list[Any]:
    """The elements, once the text of each is tallied."""
    tallied = list(elements)
    every = set(tallied)
    for element in tallied:
        if every.isdisjoint(element.iterancestors()):
            left_out.add(reason, "".join(text.text or "" for text in element.iter(f"{W}t", f"{W}delText")))
    return tallied


def _remove(elements: Iterable[Any]) -> int:
    removed = list(elements)
    for element in removed:
        if (parent := element.getparent()) is not None:
            parent.remove(element)
    return len(removed)


def _remove_pages(elements: Iterable[Any]) -> int:
    """Removes elements; where a page ended inside one, it still ends there."""
    removed = list(elements)
    for element in removed:
        parent = element.getparent()
        if parent is None or parent.tag not in _PLACES_OF_PAGES:
            continue
        for end in list(element.iter(f"{W}lastRenderedPageBreak")):
            run = element.makeelement(f"{W}r")
            run.append(end)
            if parent.tag == f"{W}body":
                paragraph = element.makeelement(f"{W}p")
                paragraph.append(run)
                run = paragraph
            element.addprevious(run)
    return _remove(removed)


def _remove_deleted(root: Any, left_out: LeftOut) -> tuple[int, list[Any]]:
    """Removes what is deleted, also whole rows and cells; how many marks there were, and the paragraphs whose end is
    deleted, with their text or without.
    """
    marks, gone, unended = list(root.iter(*_DELETED)), [], []
    for mark in marks:
        parent = mark.getparent()
        holder = None if parent is None else parent.getparent()
        if parent is None or holder is None or parent.tag not in (f"{W}rPr", f"{W}trPr", f"{W}tcPr"):
            gone.append(mark)
            continue
        if parent.tag == f"{W}rPr":
            gone.append(mark)
            unended += [holder.getparent()] if holder.tag == f"{W}pPr" and holder.getparent() is not None else []
        else:
            gone.append(holder)
    # what was moved stands elsewhere
    _tally("deleted", (element for element in gone if element.tag != f"{W}moveFrom"), left_out)
    _remove_pages(gone)
    return len(marks), unended


def _write_formulas(root: Any) -> int:
    """Puts a run with its text in the place of each formula, in a paragraph of its own where it stands in none."""
    formulas = list(root.iter(f"{M}oMath"))
    for math in formulas:
        place = next((outer for outer in math.iterancestors() if outer.tag not in _WRAPPERS_OF_MATH), None)
        parent = math.getparent()
        if place is None or parent is None:
            continue
        text = formula_text(math)
        written = run_of(math, f" {text} " if parent.tag == f"{M}oMathPara" else text)
        if place.tag in _BLOCK_PLACES:
            paragraph = math.makeelement(f"{W}p")
            paragraph.append(written)
            written = paragraph
        parent.replace(math, written)
    return len(formulas)


def _write_ruby(root: Any) -> int:
    """Writes annotated characters without their annotation, as those of pages: 漢字, not 漢字かんじ."""
    annotated = list(root.iter(f"{W}ruby"))
    for ruby in annotated:
        for text in list(ruby.iterfind(f"{W}rubyBase//{W}t")):
            ruby.addprevious(text)
    return _remove(annotated)


def _unwrap(root: Any) -> int:
    """Puts what stands in wrappers in their place, however many are nested; how many there were."""
    wrappers = [element for element in root.iter(*_WRAPPERS_OF_MATH) if element.getparent() is not None]
    outermost = [element for element in wrappers if element.getparent().tag not in _WRAPPERS_OF_MATH]
    for wrapper in outermost:
        for inner in list(_unwrapped(wrapper)):
            wrapper.addprevious(inner)
    _remove(outermost)
    return len(wrappers)


def _unwrapped(wrapper: Any) -> Iterator[Any]:
    waiting = [wrapper]
    while waiting:
        element = waiting.pop()
        if element.tag in _WRAPPERS_OF_MATH:
            waiting += reversed(element)
        else:
            yield element


def _join_to_next(paragraph: Any) -> None:
    """Moves what is left of a paragraph, the end of which is deleted, into the one that follows, as Word does."""
    properties = paragraph.find(f"{W}pPr")
    if properties is not None and properties.find(f"{W}sectPr") is not None:
        return
    following = paragraph.getnext()
    while following is not None and not (
        isinstance(following.tag, str) and following.tag in (f"{W}p", f"{W}tbl", f"{W}sectPr")
    ):
        following = following.getnext()  # marks of bookmarks and the like
    left = [inner for inner in paragraph if inner is not properties]
    if following is not None and following.tag == f"{W}p":
        first = next((inner for inner in following if inner.tag != f"{W}pPr"), None)
        for inner in left:
            following.append(inner) if first is None else first.addprevious(inner)
    elif any(text.text for text in paragraph.iter(f"{W}t")):
        return
    _remove([paragraph])
