"""Puts what a DOCX file keeps beside its text into it: text boxes and notes at the foot or the end, each behind the
paragraph or table that it belongs to.
"""

from copy import deepcopy
from typing import Any

from almanac.spiders.reading.docx_merges import W

_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_BLOCKS = (f"{W}p", f"{W}tbl")
_READ = tuple(f"{W}{name}" for name in ("t", "drawing", "pict", "txbxContent"))
_KINDS = ("footnote", "endnote")


def choose_alternatives(root: Any, read: tuple[str, ...] = _READ) -> int:
    """Keeps of what a file holds in several forms, for programs of several ages, the first with one of the elements
    `read`; how often there was a choice.
    """
    choices = list(root.iter(f"{_MC}AlternateContent"))
    for alternatives in choices:
        if alternatives.getparent() is None:
            continue
        forms = [*alternatives.iterfind(f"{_MC}Choice"), *alternatives.iterfind(f"{_MC}Fallback")]
        chosen = next((form for form in forms if next(form.iter(*read), None) is not None), ())
        for inner in list(chosen):
            alternatives.addprevious(inner)
        alternatives.getparent().remove(alternatives)
    return len(choices)


def move_boxes(root: Any) -> int:
    """Moves the blocks of text boxes behind the paragraph that they hang on; how many boxes there were."""
    boxes = list(root.iter(f"{W}txbxContent"))
    behind: dict[Any, Any] = {}
    for box in boxes:
        holder = next(box.iterancestors(f"{W}p"), None)
        if holder is None or holder.getparent() is None:
            continue
        blocks = [block for block in box if isinstance(block.tag, str)]
        last = behind.get(holder, holder)
        for block in blocks:
            last.addnext(block)
            last = block
        behind[holder] = last
    return len(boxes)


def insert_notes(root: Any, notes: dict[str, Any]) -> bool:
    """Inserts each note behind the paragraph, or the outermost table, that first refers to it; `notes` are the parts'
    roots by kind. Whether there are any.

    A note comes as paragraphs without properties and without addresses of links, which only its own part could resolve.
    """
    held = {
        (kind, note.get(f"{W}id")): note
        for kind in notes
        for note in notes[kind].iterfind(f"{W}{kind}")
        if note.get(f"{W}type", "normal") == "normal"
    }
    behind: dict[Any, Any] = {}
    for reference in list(root.iter(*(f"{W}{kind}Reference" for kind in _KINDS))) if held else ():
        note = held.pop((reference.tag.removeprefix(W).removesuffix("Reference"), reference.get(f"{W}id")), None)
        holder = next(reference.iterancestors(f"{W}p"), None)
        if note is None or holder is None:
            continue
        holder = list(holder.iterancestors(f"{W}tbl"))[-1:] or [holder]
        last = behind.get(holder[0], holder[0])
        for block in note:
            if block.tag in _BLOCKS:
                last.addnext(_copied(block))
                last = last.getnext()
        behind[holder[0]] = last
    return bool(behind)


def _copied(block: Any) -> Any:
    copied = deepcopy(block)
    copied.tail = None
    for element in copied.iter():
        if _RELATION in element.attrib:
            del element.attrib[_RELATION]
    for properties in list(copied.iter(f"{W}pPr")):
        properties.getparent().remove(properties)
    return copied
