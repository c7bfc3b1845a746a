"""Citation markers in generated text: recognized in the forms that models use, checked against the passages shown."""

import re
from collections.abc import Mapping

_SP = r"[^\S\n]*"
_DASH = rf"{_SP}[-–—‑−~]{_SP}"
# `1`, `1-3`, `^1`, `source 1`, and `4:0†source` as some models write it.
_ITEM = (
    rf"(?:(?:sources?|passages?){_SP})?[\^#]?{_SP}\d{{1,3}}(?:{_DASH}\d{{1,3}})?"
    r"(?::\d{1,3})?(?:†[^\]】］⟧\n]{0,40})?"
)
_BETWEEN = rf"{_SP}(?:[,;،、，/&]|[^\W\d_]{{1,3}}){_SP}"  # `1, 2` and `1 and 2`, in any language
_FORM = rf"[\[【［]{_SP}{_ITEM}(?:{_BETWEEN}{_ITEM})*{_SP}[\]】］]"
_PART = re.compile(rf"(\d+)(?:{_DASH}(\d+))?(?::\d+)?(?:†.*)?")
_LINK = r"\((?:https?:|#|\.?/)[^()\s]*\)"
MARKERS = rf"(?:{_SP}{_FORM}(?:{_LINK})?)+"
"""Pattern of markers behind a sentence, in any form, to be matched without regard to case."""
CODE = r"(?P<fence>`{3,})(?!`)(?s:.+?)(?<!`)(?P=fence)(?!`)|(?P<tick>`{1,2})(?!`)[^\n]+?(?<!`)(?P=tick)(?!`)"
"""Pattern of code between backticks, in which numbers in brackets are indexes."""
_RANGE = 50  # passages; a wider range is not one
# Anything that somebody may read as a marker: those above, and a number of any length.
_BRACKETED = rf"(?:{_FORM}|[\[【［]{_SP}\d+{_SP}[\]】］])"
# Marks of notes, behind a closed sentence or clause. Anywhere else the number may mean something: `argv[2]`, "as shown
# in [2]", an interval.
_NOTES = re.compile(
    rf"(?:(?<=[.!?…。！？؟।])|(?<=[.!?…。！？؟।][\"'”’»)])|(?<=\w[,;]))(?:{_SP}{_BRACKETED})+(?=\s|$)", re.IGNORECASE
)
# embeddings, overrides and isolates of directions, which may be left open
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Apparent markers in a passage are shown in these brackets, so that a page cannot forge citations; in code, where they
# are indexes, they are restored.
_SHOWN = r"⟦([^⟦⟧\n]{1,100})⟧"
_IN_REPLY = re.compile(rf"(?P<code>{CODE})|(?P<space>{_SP})(?:{_SHOWN}|(?P<marker>{_FORM})(?:{_LINK})?)", re.IGNORECASE)


def hide_markers(text: str) -> str:
    """The text of a passage for a prompt, with the brackets of apparent citation markers replaced by ⟦ and ⟧."""
    return re.sub(_FORM, _in_other_brackets, text, flags=re.IGNORECASE)


def as_quoted(text: str) -> str:
    """A sentence of a passage for a reply, in which nothing can be taken for a marker of the reply: each `[n]` in it
    would open a source.

    Marks of notes behind a sentence or clause are left out; brackets of other numbers become ⟦ and ⟧, so that `a[2]`
    stays readable. What would turn the text around that follows is left out, too.
    """
    plain = _NOTES.sub("", _TURNS.sub("", text))
    return re.sub(_BRACKETED, _in_other_brackets, plain, flags=re.IGNORECASE)


def without_markers(text: str) -> str:
    """A text without citation markers, such as an earlier reply, whose numbers refer to other passages."""
    return re.sub(rf"\s*{_FORM}", "", text, flags=re.IGNORECASE)


def normalize_markers(text: str, cited: Mapping[int, int]) -> tuple[str, list[int], int]:
    """Generated text with its citations as `[n]`: `cited` maps the numbers that the model may write to those that they
    become. Then the numbers in the text, in order, and how many citations were left out.

    `[1, 2]`, `[1-3]`, `【1】`, `[source 1]`, `[1](https://…)` and similar forms become `[1][2]`…. Code between
    backticks is not changed.
    """
    written, end, dropped, cited_numbers, space = "", 0, 0, list[int](), ""
    for match in _IN_REPLY.finditer(text):
        space = match["space"] or (space if match.start() == end else "")
        written, end = _joined(written, text[end : match.start()]), match.end()
        if match["code"]:
            written += re.sub(_SHOWN, r"[\1]", match["code"])
        numbers = _numbers(match["marker"] or "")
        known = [cited[number] for number in numbers if number in cited]
        dropped += len(numbers) - len(known)
        cited_numbers += known
        written += space if known and written else ""
        space = "" if known else space
        written += "".join(f"[{number}]" for number in known)
    return _joined(written, text[end:]).rstrip(), cited_numbers, dropped


def _joined(written: str, text: str) -> str:
    """Without white space that a marker leaves at the start of a line."""
    return written + (text if written and not written[-1].isspace() else text.lstrip(" "))


def _numbers(marker: str) -> list[int]:
    numbers: list[int] = []
    for part in _PART.finditer(marker):
        first, last = int(part[1]), int(part[2] or part[1])
        numbers += range(first, last + 1) if first <= last < first + _RANGE else [first, last]
    return list(dict.fromkeys(numbers))


def _in_other_brackets(marker: re.Match[str]) -> str:
    return f"⟦{marker[0][1:-1]}⟧"
