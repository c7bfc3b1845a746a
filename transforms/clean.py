"""Light cleaning of text, so that the same content looks the same whatever editor the site uses."""

import html
import re
import unicodedata
from typing import Any, Literal

from almanac.core.invisible import INVISIBLE, without_lone_fillers

Clean = Literal["standard", "none"]

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_QUOTES = {ord(c): "'" for c in "\u2018\u2019\u201a\u201b"} | {ord(c): '"' for c in "\u201c\u201d\u201e\u201f"}
_CONTROL = dict.fromkeys((*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0)))
_SEPARATORS = dict.fromkeys(range(0x1C, 0x20), " ")
_LINE_BREAKS = {0x0B: "\n", 0x0C: "\n", 0x85: "\n", 0x2028: "\n", 0x2029: "\n\n"}
_UNSEEN = INVISIBLE | _CONTROL | _SEPARATORS | _LINE_BREAKS
# Every space that is not a line break, NBSP and the typographic ones included.
_SPACE = r"[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"
_SPACES_INSIDE = re.compile(rf"(?<=[^\s]){_SPACE}+(?=[^\s])")
_OTHER_SPACE = re.compile(r"[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_MANY_BREAKS = re.compile(r"\n{3,}")
_FENCED = re.compile(
    r"^[^\S\n]*(`{3,}|~{3,})[^\n]*(?:\n(?![^\S\n]*\1[`~]*[^\S\n]*$)[^\n]*)*+(?:\n[^\S\n]*\1[`~]*)?", re.MULTILINE
)
_INDENTED = (" " * 4, "\t")


def clean_text(text: str, mode: Clean = "standard", *, entities: bool = True, code: bool = False) -> str:
    """Normalises a text: Unicode NFC, straight quotes, single spaces, at most one empty line in a row, no invisible
    characters but joiners.

    Indentation at the start of a line is kept, for lists and code.

    Args:
        mode: `none` returns the text unchanged.
        entities: decode remaining HTML entities; pass False for text from an HTML parser, where `&lt;` is what the page
            shows.
        code: the text is Markdown: fenced code keeps quotes, entities and spaces, indented lines keep their spaces.
    """
    if mode == "none":
        return text
    text = _visible(text.replace("\r\n", "\n").replace("\r", "\n"))
    parts: list[str] = []
    position = 0
    for fenced in _FENCED.finditer(text) if code else ():
        parts += (_clean_prose(text[position : fenced.start()], entities, code), fenced[0])
        position = fenced.end()
    parts.append(_clean_prose(text[position:], entities, code))
    return "".join(parts).strip("\n ")


def _visible(text: str) -> str:
    return unicodedata.normalize("NFC", without_lone_fillers(text.translate(_UNSEEN)))


def _clean_prose(text: str, entities: bool, code: bool) -> str:
    if entities and "&" in text:
        text = _visible(_ENTITY.sub(lambda match: html.unescape(match[0]), text))
    text = unicodedata.normalize("NFC", text.translate(_QUOTES))
    lines = (
        line.rstrip() if code and line.startswith(_INDENTED) else _single_spaces(line) for line in text.split("\n")
    )
    return _MANY_BREAKS.sub("\n\n", "\n".join(lines))


def _single_spaces(line: str) -> str:
    # rstrip instead of a pattern, which would be quadratic on long indents.
    return _OTHER_SPACE.sub(" ", _SPACES_INSIDE.sub(" ", line.rstrip()))


def clean_value(value: Any, mode: Clean = "standard", *, entities: bool = True) -> Any:
    """Cleans every text inside a field's value as Markdown, since a field such as an answer may contain code."""
    if isinstance(value, str):
        return clean_text(value, mode, entities=entities, code=True)
    if isinstance(value, list):
        return [clean_value(v, mode, entities=entities) for v in value]
    if isinstance(value, dict):
        return {k: clean_value(v, mode, entities=entities) for k, v in value.items()}
    return value
