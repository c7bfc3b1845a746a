"""Writes the blocks that dialects of Markdown add as plain Markdown: call-outs, admonitions, tabs, components, imports.
Code stays as it is.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_MAX_NESTING = 20

_FENCE = re.compile(r"([ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)$")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*\S")

_QUOTED = re.compile(r"([ \t]*)>[ \t]?\[!([\w][\w -]*)(?:\|[^\]\n]*)?\][+-]?[ \t]*(.*)$")  # > [!note]- Title
_COLONS = re.compile(r"([ \t]*)(:{3,})[ \t]*(\S.*)?$")
_DIRECTIVE = re.compile(r"\{([\w-]+)\}[ \t]*(.*)$")  # MyST: :::{note} Title
_ATTRIBUTES = re.compile(r"\{([^{}]*)\}[ \t]*:*$")  # Pandoc: ::: {.callout-note title="Title"}
# :::note[Title], ::: tip Title
_CONTAINER = re.compile(r"([A-Za-z][\w-]*)[ \t]*(?:\[(.*)\])?[ \t]*(?:\{[^{}]*\})?[ \t]*(.*)$")
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?$")
# MkDocs: !!! note "Title"
_INDENTING = re.compile(r"([ \t]*)(?:!!!|\?\?\?\+?)[ \t]+([A-Za-z][\w-]*(?:[ \t]+[\w-]+)*)(?:[ \t]+\"(.*)\")?[ \t]*$")
_TAB = re.compile(r"([ \t]*)===!?\+?[ \t]+()\"(.*)\"[ \t]*$")  # MkDocs: === "Title"
# GitBook
_LIQUID = re.compile(r"[ \t]*\{%-?[ \t]*(?:end)?(hint|tabs?|code|content-ref|stepper|step|columns?)\b(.*?)-?%\}[ \t]*$")
_SHORTCODE = re.compile(r"[ \t]*\{\{[<%][ \t]*(/?)[ \t]*([\w/-]+)(.*?)/?[%>]\}\}[ \t]*$")  # Hugo
_COMPONENT = re.compile(r"[ \t]*</?[A-Z](?=[A-Za-z0-9.]*?[a-z])[A-Za-z0-9.]*+((?:[ \t][^<>]*)?)/?>[ \t]*$")
_OPEN_COMPONENT = re.compile(r"[ \t]*<[A-Z][A-Za-z0-9.]*(?:[ \t][^<>]*)?$")
_TITLE = re.compile(r"""\b(?:title|label|header|heading|summary|name)[ \t]*=[ \t]*\{?["']([^"'\n]*)["']""")
_IMPORT = re.compile(r"import[ \t](?:[\w*{}, \t$]+[ \t]from[ \t]*)?[ \t]*[\"'][^\"']+[\"'][ \t]*;?[ \t]*$")
_OPEN_IMPORT = re.compile(r"import[ \t]+[\w, \t]*\{[^}]*$")
_EXPORT = re.compile(r"export[ \t]+(?:default|const|let|var|function|async|class|\{|\*)")
_KRAMDOWN = re.compile(r"[ \t]*\{:(?:toc|[ \t]*[.#][\w-]|[ \t]*[\w-]+=)[^{}]*\}[ \t]*$")
_CONTENTS = re.compile(r"[ \t]*\[\[?_?toc_?\]?\][ \t]*$", re.IGNORECASE)

_COMMENTS = {"<!--": "-->", "{/*": "*/}", "%%": "%%"}
_KINDS = frozenset(
    {
        "abstract",
        "admonition",
        "attention",
        "bug",
        "caution",
        "check",
        "danger",
        "done",
        "error",
        "example",
        "fail",
        "failure",
        "faq",
        "help",
        "hint",
    }
    | {
        "important",
        "info",
        "missing",
        "note",
        "notice",
        "question",
        "quote",
        "seealso",
        "success",
        "summary",
        "tip",
        "tldr",
        "todo",
        "warning",
    }
)
# of Hugo's themes
_BOXES = frozenset(
    {"alert", "callout", "card", "cards", "column", "columns", "details", "expand", "steps", "tab", "tabpane", "tabs"}
)
_LABELS = {"faq": "FAQ", "tldr": "TL;DR", "seealso": "See also", "todo": "To do", "admonition": "", "notice": ""}


class ShownLine(NamedTuple):
    """A line, and whether it is code."""

    text: str
    is_code: bool = False


def shown_lines(lines: list[str], *, is_mdx: bool = False, depth: int = 0) -> Iterator[ShownLine]:
    """The lines with call-outs and containers as their title and content; markers, options, imports and components
    without text are left out.
    """
    ends = _ends_of_containers(lines)
    lines = [*lines]
    number, in_list, is_head, after = 0, False, True, ""
    endless: set[str] = set()
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if (
            fence
            and (directive := _DIRECTIVE.fullmatch(fence[3]))
            and directive[1] in _KINDS
            and ">" not in fence[1]
            and depth < _MAX_NESTING
        ):
            end = _end_of_fence(lines, number, fence)
            yield from _titled(
                fence[1], _title(directive[1], directive[2]), _without_options(lines[number + 1 : end]), is_mdx, depth
            )
            number = end + 1
        elif fence:
            end = min(_end_of_fence(lines, number, fence) + 1, len(lines))
            yield from (ShownLine(code, is_code=True) for code in lines[number:end])
            number = end
        elif _INDENTED.match(line) and not in_list and not after.strip() and not is_mdx:
            yield ShownLine(line, is_code=True)
            number += 1
            continue  # the next indented line is code, too
        elif (opening := next((mark for mark in _COMMENTS if line.lstrip().startswith(mark)), "")) and (
            comment := _end_of_comment(lines, number, opening, endless)
        ):
            row, rest = comment
            lines[row] = rest
            number = row if rest.strip() else row + 1
            yield ShownLine("")
        elif depth < _MAX_NESTING and (block := _block_at(lines, number, ends)) is not None:
            indent, title, inner, number = block
            yield from _titled(indent, title, inner, is_mdx, depth)
        elif (skipped := _layout_at(lines, number, is_mdx=is_mdx, is_head=is_head)) is not None:
            title, number = skipped
            yield from (ShownLine(""), ShownLine(title), ShownLine("")) if title else (ShownLine(""),)
        else:
            yield ShownLine(line)
            number += 1
            is_head = is_head and (not line.strip() or line.startswith("# "))
            in_list = bool(_LIST_ITEM.match(line)) or (
                in_list and (not line.strip() or line[:1].isspace() or bool(after.strip()))
            )
        after = lines[number - 1]


def _end_of_comment(lines: list[str], number: int, opening: str, endless: set[str]) -> tuple[int, str] | None:
    """(number of the line in which a comment ends, the rest of that line); None if it does not end. `endless` holds the
    kinds without any further end.
    """
    closing = _COMMENTS[opening]
    if opening in endless or (opening == "%%" and lines[number].strip() != "%%"):
        return None
    for row in range(number, len(lines)):
        line = lines[row][lines[row].index(opening) + len(opening) :] if row == number else lines[row]
        if closing in line and (opening != "%%" or line.rstrip().endswith("%%")):
            return row, line.partition(closing)[2] if opening != "%%" else ""
    endless.add(opening)
    return None


def _titled(indent: str, title: str, inner: list[str], is_mdx: bool, depth: int) -> Iterator[ShownLine]:
    """A title and the content of a call-out, as paragraphs of their own."""
    blank = ShownLine("")
    yield blank
    if title:
        yield from (ShownLine(indent + title), blank)
    yield from (
        ShownLine(indent + line if line else "", is_code)
        for line, is_code in shown_lines(inner, is_mdx=is_mdx, depth=depth + 1)
    )
    yield blank


def _title(kind: str, title: str = "") -> str:
    kind = kind.lower().removeprefix("callout-")
    return title.strip().strip('"') or (
        _LABELS.get(kind, kind.replace("-", " ").capitalize()) if kind in _KINDS else ""
    )


def _block_at(lines: list[str], number: int, ends: dict[int, int]) -> tuple[str, str, list[str], int] | None:
    """(indentation, title, content, number of the line behind) of the call-out that begins at a line; None if none
    does.
    """
    line = lines[number]
    if quoted := _QUOTED.match(line):
        begin = f"{quoted[1]}>"
        end = next((row for row in range(number + 1, len(lines)) if not lines[row].startswith(begin)), len(lines))
        inner = [inside[len(begin) :].removeprefix(" ") for inside in lines[number + 1 : end]]
        return quoted[1], _title(quoted[2], quoted[3]) or quoted[2].strip().capitalize(), inner, end
    if number in ends and (colons := _COLONS.match(line)):
        end = ends[number]
        inner = [inside.removeprefix(colons[1]) for inside in lines[number + 1 : end]]
        return (
            colons[1],
            _title_of_container(colons[3]),
            _without_options(inner) if colons[3].startswith("{") else inner,
            end + 1,
        )
    if indenting := _INDENTING.match(line) or _TAB.match(line):
        indent = indenting[1]
        inner = _indented_below(lines, number + 1, indent)
        if any(inside.strip() for inside in inner):
            title = _title(indenting[2].split()[0]) if indenting[2] and indenting[3] is None else indenting[3] or ""
            return (
                indent,
                title or (indenting[2].capitalize() if indenting[3] is None else ""),
                inner,
                number + 1 + len(inner),
            )
    return None


def _title_of_container(said: str) -> str:
    if directive := _DIRECTIVE.match(said):
        return _title(directive[1], directive[2])
    if attributes := _ATTRIBUTES.match(said):
        title = _TITLE.search(attributes[1])
        name = re.search(r"\.([\w-]+)", attributes[1])
        return _title(name[1] if name else "", title[1] if title else "")
    container = _CONTAINER.match(said)
    return _title(container[1], container[2] or container[3]) if container else said


def _indented_below(lines: list[str], begin: int, indent: str) -> list[str]:
    """The lines below a marker that are indented deeper than it by four spaces or a tab, without that indentation;
    empty lines between them count.
    """
    inner: list[str] = []
    kept = 0
    for row in range(begin, len(lines)):
        line = lines[row]
        inside = line.removeprefix(indent)
        if line.strip() and not (line.startswith(indent) and inside.startswith(("    ", "\t"))):
            break
        inner.append(inside.removeprefix("\t") if inside.startswith("\t") else inside[4:])
        kept = len(inner) if line.strip() else kept
    return inner[:kept]


def _layout_at(lines: list[str], number: int, *, is_mdx: bool, is_head: bool) -> tuple[str, int] | None:
    """(title or empty, number of the line behind) of markup that only lays out what it contains; None if the line is
    none.
    """
    line = lines[number]
    if _LIST_ITEM.match(line) and number + 1 < len(lines) and lines[number + 1].strip() == "{:toc}":
        return "", number + 2
    if _KRAMDOWN.match(line) or _CONTENTS.match(line) or ((is_mdx or is_head) and _IMPORT.match(line)):
        return "", number + 1
    if (tag := _LIQUID.match(line)) or (tag := _COMPONENT.match(line)):
        title = _TITLE.search(tag[tag.re.groups])
        return title[1] if title else "", number + 1
    if (shortcode := _SHORTCODE.match(line)) and shortcode[2] in _KINDS | _BOXES:
        return "" if shortcode[1] else _title_of_shortcode(shortcode[2], shortcode[3]), number + 1
    if is_mdx and _OPEN_IMPORT.match(line):
        return "", _line_behind(lines, number, "}")
    if is_mdx and _EXPORT.match(line):
        return "", next((row for row in range(number + 1, len(lines)) if not lines[row].strip()), len(lines))
    if is_mdx and _OPEN_COMPONENT.match(line):
        end = _line_behind(lines, number, ">")
        title = _TITLE.search("\n".join(lines[number:end]))
        return title[1] if title else "", end
    return None


def _title_of_shortcode(name: str, arguments: str) -> str:
    """`tab "Linux"`, `alert title="Beware" color="warning"`, `callout type="tip"`, `hint info`."""
    said = _TITLE.search(arguments) or re.match(r"""[ \t]*(?:[\w-]+[ \t]+)*["'](.*?)["']""", arguments)
    words = [said[1]] if said and said[1] in _KINDS else re.findall(r"\w+", arguments)
    kind = next((word for word in words if word in _KINDS), name)
    return _title(kind, said[1] if said and said[1] not in _KINDS else "")


def _line_behind(lines: list[str], number: int, mark: str) -> int:
    """The number of the line behind the next one with `mark`, at most 50 lines on; else of the next line."""
    return next((row + 1 for row in range(number + 1, min(number + 50, len(lines))) if mark in lines[row]), number + 1)


def _without_options(lines: list[str]) -> list[str]:
    begin = next((number for number, line in enumerate(lines) if not _OPTION.match(line)), len(lines))
    return lines[begin:]


def _end_of_fence(lines: list[str], number: int, fence: re.Match[str]) -> int:
    """The number of the line that closes a fence, or of the line behind the last one."""
    mark, is_quoted = fence[2], ">" in fence[1]
    for row in range(number + 1, len(lines)):
        line = lines[row]
        if is_quoted and not line.lstrip().startswith(">"):
            return row - 1
        stripped = line.lstrip(" \t>").rstrip()
        if stripped.startswith(mark) and not stripped.strip(mark[0]):
            return row
    return len(lines)


def _ends_of_containers(lines: list[str]) -> dict[int, int]:
    """The line that closes each container of colons, by the line that opens it."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    number = 0
    while number < len(lines):
        if (fence := _FENCE.match(lines[number])) and not _DIRECTIVE.fullmatch(fence[3]):
            number = _end_of_fence(lines, number, fence)
        elif colons := _COLONS.match(lines[number]):
            if colons[3]:
                opened.append(number)
            elif opened:
                ends[opened.pop()] = number
        number += 1
    return ends


def runs_of(lines: Iterable[ShownLine]) -> Iterator[tuple[str, bool]]:
    """(text, is code) of neighbouring lines of one kind."""
    run: list[str] = []
    is_code = False
    for line in lines:
        if run and line.is_code != is_code:
            yield "\n".join(run), is_code
            run = []
        run.append(line.text)
        is_code = line.is_code
    if run:
        yield "\n".join(run), is_code
