"""Citation markers in generated text: recognized in the forms that models use, checked against the passages shown, and
normalized while streaming.
"""

import re
from typing import NamedTuple

_SP = r"[^\S\n]*"
_NAMED = rf"(?:(?:sources?|passages?|documents?|docs?|contexts?|refs?|references?|citations?|chunks?)\.?{_SP})?"
_DASH = rf"{_SP}[-–—‑−~]{_SP}"
# `1`, `1-3`, `^1`, and `4:0†source` as some models write it.
_ITEM = rf"[\^#]?{_SP}\d{{1,3}}(?:{_DASH}\d{{1,3}})?(?::\d{{1,3}})?(?:†[^\]】］⟧\n]{{0,40}})?"
_BETWEEN = rf"{_SP}(?:[,;،、，/]|&|and|et|und|y|e|và|ו){_SP}"
_MARKER = re.compile(rf"[\[【［]{_SP}{_NAMED}({_ITEM}(?:{_BETWEEN}{_NAMED}{_ITEM})*){_SP}[\]】］]", re.IGNORECASE)
_PART = re.compile(rf"(\d+)(?:{_DASH}(\d+))?(?::\d+)?(?:†.*)?")
_LINK = re.compile(r"\((?:https?:|#|\.?/)[^()\s]*\)")
_OPENERS, _CLOSERS = "[【［⟦", "]】］⟧\n"
_MARKER_LENGTH, _LINK_LENGTH = 120, 600
_RANGE = 50  # passages; a wider range is not one
_CODE = re.compile(r"(`{3,})(?!`)(?s:.+?)(?<!`)\1(?!`)|(`{1,2})(?!`)[^\n]+?(?<!`)\2(?!`)")
_BACKTICKS = re.compile(r"`+")
_PLAIN = re.compile(rf"[^\s`{re.escape(_OPENERS)}]+")
_SPACE = re.compile(r"\s+")
# Anything that somebody may read as a marker: those above, and a number of any length.
_BRACKETED = re.compile(rf"{_MARKER.pattern}|[\[【［]{_SP}\d+{_SP}[\]】］]", re.IGNORECASE)
# Marks of notes, behind a closed sentence or clause. Anywhere else the number may mean something: `argv[2]`, "as shown
# in [2]", an interval.
_NOTES = re.compile(
    rf"(?:(?<=[.!?…。！？؟।])|(?<=[.!?…。！？؟।][\"'”’»)])|(?<=\w[,;]))(?:{_SP}(?:{_BRACKETED.pattern}))+(?=\s|$)",
    re.IGNORECASE,
)
# embeddings, overrides and isolates of directions, which may be left open
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Apparent markers in a passage are shown in these brackets, so that a page cannot forge citations; in code, where they
# are indexes, they are restored.
_SHOWN = re.compile(r"⟦([^⟦⟧\n]{1,100})⟧")


def hide_markers(text: str) -> str:
    """The text of a passage for a prompt, with the brackets of apparent citation markers replaced by ⟦ and ⟧."""
    return _MARKER.sub(lambda marker: f"⟦{marker[0][1:-1]}⟧", text)


def as_quoted(text: str) -> str:
    """A sentence of a passage for a reply, in which nothing can be taken for a marker of the reply: each `[n]` in it
    would open a source.

    Marks of notes behind a sentence or clause are left out; brackets of other numbers become ⟦ and ⟧, so that `a[2]`
    stays readable. What would turn the text around that follows is left out, too.
    """
    return _BRACKETED.sub(lambda found: f"⟦{found[0][1:-1]}⟧", _NOTES.sub("", _TURNS.sub("", text)))


def without_markers(text: str) -> str:
    """A text without citation markers, such as an earlier reply, whose numbers refer to other passages."""
    return re.sub(rf"\s*{_MARKER.pattern}", "", text, flags=re.IGNORECASE)


class Marked(NamedTuple):
    """A citation in a reply: the offset of its marker, in characters, and the number of the passage."""

    position: int
    number: int


class CitationFilter:
    """Streaming filter that normalizes the citations of generated text to `[n]`, with n from 1 to `known`, the number
    of passages shown.

    `[1, 2]`, `[1-3]`, `【1】`, `[source 1]`, `[1](https://…)` and similar forms become `[1][2]`…. Numbers of passages
    that were not shown are removed and counted in `dropped`, once for each marker. Code between backticks is not
    changed. The resulting text does not depend on how the input is cut into pieces, and has no white space at its start
    and end. `marked` lists the citations, by offset in that text.
    """

    def __init__(self, known: int) -> None:
        self.known = known
        self.marked: list[Marked] = []
        self.dropped = 0
        self._held = ""
        self._space = ""
        self._length = 0

    def feed(self, piece: str) -> str:
        """Takes the next piece and returns the text that is final by now."""
        self._held += piece
        return self._read(is_final=False)

    def finish(self) -> str:
        """Ends the input and returns the rest of the text."""
        text = self._read(is_final=True)
        self._space = ""
        return text

    def _read(self, *, is_final: bool) -> str:
        written: list[str] = []
        position, held = 0, self._held
        while position < len(held):
            step = self._step(held, position, is_final=is_final)
            if step is None:
                break
            text, position = step
            if text:
                written.append(text)
                self._length += len(text)
        self._held = held[position:]
        return "".join(written)

    def _step(self, held: str, position: int, *, is_final: bool) -> tuple[str, int] | None:
        """Processes the text from `position`: the output and the next position, or None where more input is needed."""
        first = held[position]
        if first.isspace():
            return self._hold_space(held, position, is_final=is_final)
        if first == "`":
            return self._read_code(held, position, is_final=is_final)
        if first in _OPENERS:
            return self._read_marker(held, position, is_final=is_final)
        plain = _PLAIN.match(held, position)
        assert plain is not None
        return self._spaced(plain[0]), plain.end()

    def _hold_space(self, held: str, position: int, *, is_final: bool) -> tuple[str, int] | None:
        """Buffers white space until the text after it is known: before a dropped marker it is dropped, too."""
        run = _SPACE.match(held, position)
        assert run is not None
        if run.end() == len(held) and not is_final:
            return None
        if self._length and not ("\n" in self._space and "\n" not in run[0]):
            self._space += run[0]
        return "", run.end()

    def _spaced(self, text: str) -> str:
        spaced, self._space = self._space + text, ""
        return spaced

    def _read_code(self, held: str, position: int, *, is_final: bool) -> tuple[str, int] | None:
        code = _CODE.match(held, position)
        if code and (is_final or code.end() < len(held)):
            return self._spaced(_SHOWN.sub(r"[\1]", code[0])), code.end()
        ticks = _BACKTICKS.match(held, position)
        assert ticks is not None
        is_inline = len(ticks[0]) < 3 and ticks.end() < len(held)
        if not is_final and not (is_inline and "\n" in held[position:]):
            return None
        return self._spaced(ticks[0]), ticks.end()

    def _read_marker(self, held: str, position: int, *, is_final: bool) -> tuple[str, int] | None:
        window = position + _MARKER_LENGTH
        if not is_final and len(held) < window and not any(c in held[position:] for c in _CLOSERS):
            return None
        if shown := _SHOWN.match(held, position):
            self._drop_space()
            return "", shown.end()
        marker = _MARKER.match(held, position, window)
        if marker is None:
            return self._spaced(held[position]), position + 1
        end = marker.end()
        following = held[end : end + _LINK_LENGTH]
        if not is_final and (
            not following
            or (following[0] == "(" and len(following) < _LINK_LENGTH and not re.search(r"[)\s]", following))
        ):
            return None
        # The address of a link is dropped: the model made it up.
        link = _LINK.match(held, end, end + _LINK_LENGTH)
        return self._resolve(marker[1]), link.end() if link else end

    def _resolve(self, inside: str) -> str:
        numbers = _numbers(inside)
        kept = [number for number in numbers if 1 <= number <= self.known]
        self.dropped += len(numbers) - len(kept)
        if not kept:
            self._drop_space()
            return ""
        begin = self._length + len(self._space)
        written = ""
        for number in kept:
            self.marked.append(Marked(begin + len(written), number))
            written += f"[{number}]"
        return self._spaced(written)

    def _drop_space(self) -> None:
        if "\n" not in self._space:
            self._space = ""


def _numbers(inside: str) -> list[int]:
    numbers: list[int] = []
    for part in _PART.finditer(inside):
        first, last = int(part[1]), int(part[2] or part[1])
        numbers += range(first, last + 1) if first <= last < first + _RANGE else [first, last]
    return list(dict.fromkeys(numbers))
