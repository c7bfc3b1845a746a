"""Writes annotated characters without their annotation: 漢字, not 漢字かんじ."""

from typing import Any

from almanac.spiders.reading.rewriting import remove

_ANNOTATIONS = frozenset({"rt", "rp", "rtc"})


def write_ruby(root: Any) -> None:
    """Removes the annotations of each `<ruby>` in place, and spaces between its parts, which only lay out the
    source.
    """
    for ruby in list(root.iter("ruby")):
        for note in [element for element in ruby.iter(*_ANNOTATIONS) if element is not root]:
            if note.getparent() is None:
                continue
            for base in [inner for inner in note.iter("rb") if next(inner.iterancestors("ruby")) is ruby]:
                note.addprevious(base)  # the parser puts a base into an annotation that was not closed
            remove(note)
        for element in ruby.iter():
            element.text = _without_layout(element.text)
            if element is not ruby:
                element.tail = _without_layout(element.tail)


def _without_layout(text: str | None) -> str | None:
    return text.strip() if text and "\n" in text else text
