"""Writes what dialects of Markdown add to it as their readers see it: wiki links, embeds, highlights, comments, block
ids, call-outs, `<sup>`.
"""

import re
from typing import Any

from almanac.spiders.reading.callouts import runs_of, shown_lines
from almanac.spiders.reading.raised import scripted

_MAY_BE = re.compile(
    r"<su[bp]>|"
    r"\[\[|\[!|:::|!!!|\?\?\?|===|==|%%|<!--|\{[:#%/]|[)\]`]\{|^[ "
    r"]{0,3}#.*\{|\{\{[<%]|\^\w|[`~]{3,}\{|\[_?toc_?\]|^[ \t]*</?[A-Z]|^(?:im|ex)port[ \t]",
    re.MULTILINE | re.IGNORECASE,
)
_TOKEN = re.compile(
    r"\\[^\w\s]|`+|<!--|\{/\*|%%|!?\[\[|==|\$\$?|\{:|(?<=[)\]`])\{|\{[ \t]*(?=[#.\w])(?=[^{}\n]*\}[ \t]*$)|[ "
    r"\t]\^(?=\w)|^\^(?=\w)"
    r"|<(?:pre|code|script|style|math|svg)\b|<su[bp]>",
    re.MULTILINE | re.IGNORECASE,
)
_LINK = re.compile(r"(!?)\[\[(?!\[)([^\[\]\n|]{0,500})((?:\|[^\[\]\n|]{0,500})*)\]\](?!\]|\(|\[(?!\[))")
_DATA = re.compile(r"""\s*(?:["'].*["']|[-\d.\s]*,[-\d.,\s]*)\s*$""")  # [["a", "b"]], [[1, 2]]
_SIZE = re.compile(r"\d+(?:x\d+)?%?|left|right|center", re.IGNORECASE)
_MEDIA = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|mp3|m4a|wav|ogg|flac|mp4|webm|mov|mkv|ogv)$", re.IGNORECASE
)
_HIGHLIGHT = re.compile(r"==(?=[^\s=])([^\n=]{0,1000}[^\s=])==(?!=)")
_INLINE_MATH = re.compile(r"\$(?=[^\s$])[^$\n]{0,300}[^\s$\\]\$(?!\d)|\$[^\s$\\]\$(?!\d)")
_ATTRIBUTES = re.compile(r"\{:(?:toc|[ \t]*[.#][\w-]|[ \t]*[\w-]+=)[^{}\n]*\}")
_LINK_END = re.compile(r"\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)?\)$")
_ATTRIBUTE = r"""(?:[.#][\w:.-]+|[A-Za-z][\w-]*=(?:"[^"\n]*"|'[^'\n]*'|[^\s{}"']+))"""
_ATTRIBUTE_LIST = re.compile(
    rf"\{{:?[ \t]*{_ATTRIBUTE}(?:[ \t]+{_ATTRIBUTE})*[ \t]*\}}"
)  # ![](a.png){ width="300" }, ## Title {#id .class}
_BLOCK_ID = re.compile(r"\s?\^(?=[\w-]*[A-Za-z])[A-Za-z0-9][A-Za-z0-9-]{2,60}[ \t]*$", re.MULTILINE)
_RAISED = re.compile(r"<(su[bp])>([^<>\n\[\]*_`]{1,30})</\1>", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_]")


def as_shown(text: str, *, is_mdx: bool = False) -> str:
    """The Markdown text as CommonMark with the same text that a reader sees in the dialect; unchanged if it has nothing
    of a dialect, or nothing else.

    `[[Page|shown]]` becomes `shown`, `[[Page#Section]]` `Page > Section`; an embedded note gives its name, an embedded
    picture its description. Code, in blocks and in lines, stays as it is, and so does what only looks like a link: `[[
    -f x ]]`, `[[1, 2], [3]]`.
    """
    if not _MAY_BE.search(text):
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    shown = "\n".join(
        run if is_code else _Inline(run).shown() for run, is_code in runs_of(shown_lines(lines, is_mdx=is_mdx))
    )
    if not shown.strip():
        return text
    return shown.replace("\n", "\r\n") if "\r\n" in text else shown


def without_links(value: Any) -> Any:
    """A value of the front matter with the wiki links in its texts as a reader sees them."""
    if isinstance(value, str):
        return (
            _LINK.sub(lambda link: link[0] if _is_data(value, link) else _shown_link(link), value)
            if "[[" in value
            else value
        )
    if isinstance(value, list):
        return [without_links(inner) for inner in value]
    if isinstance(value, dict):
        return {key: without_links(inner) for key, inner in value.items()}
    return value


class _Inline:
    """Rewrites the text of lines, from left to right. What has no end is looked for once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._endless: set[str] = set()
        self._paragraph = 0  # end of the paragraph that was last looked at

    def shown(self) -> str:
        written: list[str] = []
        position = 0
        while token := _TOKEN.search(self.text, position):
            written.append(self.text[position : token.start()])
            end, shown = self._rewritten(token)
            written.append(shown)
            position = end
        return "".join([*written, self.text[position:]])

    def _rewritten(self, token: re.Match[str]) -> tuple[int, str]:
        """(where the rewritten piece ends, what stands for it); the token itself if it means nothing here."""
        found, begin = token[0], token.start()
        as_it_is = (token.end(), found)
        if found[0] == "`":
            return self._code(token) or as_it_is
        if found == "<!--" or found == "{/*":
            end = self._after(token.end(), "-->" if found == "<!--" else "*/}")
            return (end, "") if end else as_it_is
        if found == "%%":
            return self._comment(token) or as_it_is
        if found[-2:] == "[[":
            link = _LINK.match(self.text, begin)
            return (link.end(), _shown_link(link)) if link and not _is_data(self.text, link) else as_it_is
        if found == "==":
            return self._highlight(token) or as_it_is
        if found[0] == "$":
            end = (
                self._after(token.end(), "$$")
                if found == "$$"
                else math.end()
                if (math := _INLINE_MATH.match(self.text, begin))
                else 0
            )
            return (end, self.text[begin:end]) if end else as_it_is
        if found[:3].lower() == "<su":
            raised = _RAISED.match(self.text, begin)
            return (raised.end(), self._raised(raised)) if raised else as_it_is
        if found[0] == "<":
            end = self._after(token.end(), f"</{found[1:].lower()}>")
            return (end, self.text[begin:end]) if end else as_it_is
        pattern = (
            _BLOCK_ID
            if "^" in found
            else _ATTRIBUTES
            if found == "{:"
            else _ATTRIBUTE_LIST
            if found[0] == "{"
            else None
        )
        match = pattern.match(self.text, begin) if pattern else None
        if match is None or (pattern is _ATTRIBUTE_LIST and not self._takes_attributes(begin)):
            return as_it_is
        return match.end(), ""

    def _raised(self, raised: re.Match[str]) -> str:
        text, (begin, end) = raised[2].strip(), raised.span()
        before, after = self.text[max(0, begin - 30) : begin], self.text[end : end + 30]
        return scripted(text, before, after, is_raised=raised[1].lower() == "sup") or raised[2]

    def _takes_attributes(self, begin: int) -> bool:
        """Whether a list of attributes may stand here: behind a link, an image or code, or in a heading."""
        line = self.text.rfind("\n", 0, begin) + 1
        before = self.text[max(line, begin - 2000) : begin]
        return (
            self.text[line : line + 4].lstrip().startswith("#")
            or before.endswith(("]", "`"))
            or _LINK_END.search(before) is not None
        )

    def _after(self, begin: int, mark: str) -> int:
        """Where the next `mark` ends; 0 if there is none."""
        if mark in self._endless:
            return 0
        found = self.text.find(mark, begin)
        if found < 0:
            self._endless.add(mark)
        return found + len(mark) if found >= 0 else 0

    def _code(self, token: re.Match[str]) -> tuple[int, str] | None:
        if self._paragraph < token.end():
            found = self.text.find("\n\n", token.end())
            self._paragraph = found if found >= 0 else len(self.text)
        end = re.compile(rf"(?<!`)`{{{len(token[0])}}}(?!`)").search(self.text, token.end(), self._paragraph)
        return (end.end(), self.text[token.start() : end.end()]) if end else None

    def _comment(self, token: re.Match[str]) -> tuple[int, str] | None:
        """A comment of Obsidian: `%%…%%` in a line, or from the beginning of a line to the end of another. `100%%` and
        `%%time` begin none.
        """
        begin = token.start()
        end = self._after(token.end(), "%%")
        if not end or _WORD.match(self.text[begin - 1 : begin]):
            return None
        is_line_end = self.text[end : end + 1] in ("", "\n")
        if "\n" in self.text[begin:end]:
            is_line_start = begin == 0 or self.text[begin - 1] == "\n"
            return (end, "") if is_line_start and is_line_end else None
        return None if _WORD.match(self.text, end) else (end, "")

    def _highlight(self, token: re.Match[str]) -> tuple[int, str] | None:
        marked = _HIGHLIGHT.match(self.text, token.start())
        before = self.text[token.start() - 1 : token.start()] if token.start() else ""
        if marked is None or before == "=" or _WORD.match(before) or _WORD.match(self.text, marked.end()):
            return None  # a==b or c==d
        return marked.end(), _Inline(marked[1]).shown()


def _is_data(text: str, link: re.Match[str]) -> bool:
    """Whether double brackets are code, not a link: `[[ -f x ]]`, `[["a"]]`, `[[1, 2]]`."""
    inside = link[2]
    return (
        not (inside + link[3]).strip()
        or inside[:1].isspace()
        or _DATA.match(inside) is not None
        or text[link.start() - 1 : link.start()] == "["
    )


def _shown_link(link: re.Match[str]) -> str:
    target, *names = (part.strip().removesuffix("\\").strip() for part in (link[2] + link[3]).split("|"))
    names = [name for name in names if name]
    if link[1]:
        names = [name for name in names if not _SIZE.fullmatch(name)]
    if names:
        return names[0]
    page, *sections = target.split("#")
    if link[1] and _MEDIA.search(page):
        return ""
    sections = [section for section in sections if section and not section.startswith("^") and "=" not in section]
    return " > ".join(part.strip() for part in (page, *sections) if part.strip())
