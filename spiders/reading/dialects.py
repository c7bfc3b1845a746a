"""Writes what dialects of Markdown add to it as plain Markdown: call-outs, admonitions, tabs, wiki links, comments,
lists of attributes, imports, `<sup>`. Code stays as it is, and so does whatever is not known.
"""

import re
from functools import cache
from itertools import groupby
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin

from almanac.spiders.reading.raised import scripted

_QUOTED = re.compile(r'"(.*)"')
_TAB = re.compile(r'^([ \t]*)===[!+]?(?=[ \t]+".*"[ \t]*$)', re.MULTILINE)  # MkDocs: === "Linux"
_CALLOUT = re.compile(r"[^\w\\]*\[!(\w[\w -]{0,80})(?:\|[^\]]*)?\][+-]?[ \t]*(.*)")  # > [!note|right]- Title
# :::tip Title, :::note[Title]{.wide}, :::{note} Title, ::: {.callout-note title="Title"}
_CONTAINER = re.compile(
    r"\{(?=[.#]|[\w-]+=)(?:.*?\.callout-([\w-]+))?.*|\{?([a-zA-Z][\w-]*)?\}?[ \t]*(?:\[(.*)\]|([^{]*))"
)
_KINDS = frozenset({
    "abstract", "attention", "bug", "caution", "danger", "error", "example", "failure", "hint", "important", "info",
    "note", "question", "quote", "seealso", "success", "summary", "tip", "todo", "warning",
})  # fmt: skip
_COLONS = re.compile(r"^([ \t>]*):{3,}(?:[ \t]*(\{[\w-]+\}.*)(?:\n[ \t>]*:[\w-]+:.*)*|(.*))$", re.MULTILINE)
_CLOSED = re.compile(r"[ \t>]*:{3,}[ \t]*")
_MYST = re.compile(
    r"[ \t]*\{(?:admonition|attention|caution|danger|dropdown|error|hint|important|note|seealso|tip|warning)\}"
)
_TITLE = re.compile(r"""\b(?:title|label|header|heading|summary|name)[ \t]*=[ \t]*\{?(["'])(.*?)\1""")
_GITBOOK = r"\{%-?[ \t]*(?:end)?(?:hint|tabs?|code|content-ref|stepper|step|columns?)\b[^%\n]*%\}"
_TAGS = {
    False: re.compile(rf"^[ \t]*{_GITBOOK}[ \t]*$", re.MULTILINE),
    True: re.compile(rf"^[ \t]*(?:{_GITBOOK}|</?[A-Z][\w.]*(?:\s[^<>]*)?>)[ \t]*$", re.MULTILINE),  # MDX
}
_MODULE = (  # a statement of MDX: to its string, to the bracket that begins a line, or to the end of its line
    r"(?:import[ \t]+(?:(?:type[ \t]+)?[\w$]*,?\s*+(?:(?:\*\s+as\s+[\w$]+|\{[^{}]*\})\s*+)?from\s*)?([\"'])[^\"'\s]+\1"
    r"|export[ \t]+(?:default\b|(?:const|let|var|function|async|class)[ \t].*[={(]|\{|\*.*from\b)"
    r".*?(?:(?<=[({\[=>,])(?:(?:\n(?:[ \t].*)?)*\n[)\]}].*|(?:\n[ \t]+\S.*)*))?$)[ \t]*;?[ \t]*(?:\n|\Z)"
)
_MODULES = re.compile(rf"(?<![^\n]\n)^(?:{_MODULE})+", re.MULTILINE)
_HEADING_ATTRIBUTES = re.compile(r"[ \t]*\{:?[ \t]*(?:[#.][\w-]|[\w-]+=)[^{}]*\}[ \t]*$")

_INLINE = re.compile(
    r"""(?P<comment><!--.*?-->|\{/\*.*?\*/\}|(?<!\w)%%[^%\n]+%%(?!\w)|^%%\n.*?^%%$
        |(?:^[*+\d.-]+[ \t][^\n]*\n)?\{:toc[^{}\n]*\}|\{:[ \t]*(?:[.#][\w-]|[\w-]+=)[^{}\n]*\}
        |^[ \t]*\[\[?_?toc_?\]?\][ \t]*$|(?:^|[ \t])\^(?=[\w-]*[a-z])[a-z\d][a-z\d-]{2,60}[ \t]*$)
    |(?P<kept>(?:<!--|\{/\*|^%%$).*|\\[^\w\s]|<(?P<tag>pre|code|script|style|math|svg)\b.*?(?:</(?P=tag)>|\Z)
        |\$\$.*?(?:\$\$|\Z)|\$(?=\S)[^$\n]{0,300}(?<=[^\s\\$])\$(?!\d))
    |(?P<code>(?P<ticks>`++)(?:(?!\n[ \t]*\n).)*?(?<!`)(?P=ticks)(?!`)
        |(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?\)|`+)(?:\{:?[ \t]*(?:[#.][\w-]|[\w-]+=)[^{}\n`]*\})?
    |(?<![a-z\d_=])==(?=[^\s=])(?P<marked>[^\n=]*[^\s=])==(?![a-z\d_=])
    |(?P<embed>!?)(?<!\[)\[\[(?!\[)(?P<page>[^\[\]\n|]{0,500})(?P<names>(?:\|[^\[\]\n|]{0,500})*)\]\](?!\]|\(|\[(?!\[))
    |<(?P<script>su[bp])>(?P<raised>[^<>\n\[\]*_`]{1,30})</(?P=script)>""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_DATA = re.compile(r"""\s|["'].*["']\s*$|[-\d.\s]*,[-\d.,\s]*$|$""")  # [[ -f x ]], [["a", "b"]], [[1, 2]]
_SIZE = re.compile(r"\d+(?:x\d+)?%?|left|right|center", re.IGNORECASE)
_MEDIA = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|mp3|m4a|wav|ogg|flac|mp4|webm|mov|mkv|ogv)$", re.IGNORECASE
)


@cache
def _blocks(is_mdx: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).use(admon_plugin)
    parser.use(container_plugin, "directive", marker="`", validate=lambda params, _: _MYST.match(params) is not None)
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser.disable("code") if is_mdx else parser


def as_shown(text: str, *, is_mdx: bool = False) -> str:
    """The Markdown text as CommonMark with the same text that a reader sees in the dialect; unchanged if it has nothing
    of a dialect, or nothing else.

    `> [!note] Title` and its kin become their title and their text, `[[Page|shown]]` becomes `shown`,
    `[[Page#Section]]` `Page > Section`; an embedded note gives its name, an embedded picture its description. Code, in
    blocks and in lines, stays as it is, and so does what only looks like a link: `[[ -f x ]]`, `[[1, 2], [3]]`.
    """
    if "\r" in text:
        shown = as_shown(text.replace("\r\n", "\n").replace("\r", "\n"), is_mdx=is_mdx)
        return shown.replace("\n", "\r\n") if "\r\n" in text else shown
    lines = text.split("\n")
    code: set[int] = set()
    source = _TAB.sub(r"\1!!! tab", text)
    if text.lstrip().startswith("import") and (imports := _MODULES.match(text.lstrip())):  # as Docusaurus has in .md
        is_mdx = is_mdx or text.lstrip()[imports.end() :][:1] in ("", "\n")
    for token in _blocks(is_mdx).parse(source):
        begin, end = token.map or (0, 0)
        last = lines[end] if end < len(lines) else ""
        match token.type:
            case "fence" | "code_block":
                code.update(range(begin, end))
            case "html_block" if re.match(r"\s*<(?:pre|script|style|textarea)\b", token.content, re.IGNORECASE):
                code.update(range(begin, end))
            case "admonition_open" if any(lines[begin + 1 : end]):
                indent = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip())]
                quoted = _QUOTED.search(token.info)
                lines[begin] = f"\n{indent}{quoted[1] if quoted else token.info.strip().capitalize()}\n"
                lines[begin + 1 : end] = [re.sub(r"^(?: {1,4}|\t)", "", line) for line in lines[begin + 1 : end]]
                lines[end - 1] += "\n"
            case "container_directive_open" if last.strip(" >\t").startswith(token.markup):
                lines[begin] = lines[begin].replace(token.markup, ":::")  # :::{note}
                lines[end] = ":::"
            case "blockquote_open" if callout := _CALLOUT.fullmatch(lines[begin]):
                unquoted = [re.sub(r"^([ \t]*)> ?", r"\1", line) for line in lines[begin:end]]
                title = callout[2] or callout[1].capitalize()
                lines[begin:end] = [f"\n{unquoted[0].partition('[!')[0]}{title}\n", *unquoted[1:]]
                lines[end - 1] += "\n"
            case "heading_open":
                lines[begin] = _HEADING_ATTRIBUTES.sub("", lines[begin])
    is_closed = any(_CLOSED.fullmatch(line) for line in lines)
    written = []
    for is_code, group in groupby(enumerate(lines), key=lambda numbered: numbered[0] in code):
        run = "\n".join(line for _, line in group)
        if not is_code:
            run = _MODULES.sub("", run) if is_mdx else run
            run = _COLONS.sub(_title_of_container, run) if is_closed else run
            run = _TAGS[is_mdx].sub(_title_of_tag, run)
            run = _INLINE.sub(_shown_piece, run)
        written.append(run)
    shown = "\n".join(written)
    return shown if shown.strip() else text


def _title_of_tag(tag: re.Match[str]) -> str:
    title = _TITLE.search(tag[0])
    return f"\n{title[2]}\n" if title else ""


def _title_of_container(colons: re.Match[str]) -> str:
    info = (colons[2] or colons[3]).strip(" \t:")
    title, container = _TITLE.search(info), _CONTAINER.match(info)
    assert container is not None
    kind = (container[1] or container[2] or "").lower()
    named = kind.replace("seealso", "see also").capitalize() if kind in _KINDS else ""
    shown = title[2] if title else container[3] or (container[4] or "").strip().strip('"') or named
    return f"\n{colons[1]}{shown}\n" if info else ""


def _shown_piece(piece: re.Match[str]) -> str:
    if piece["code"]:
        return piece["code"]
    if piece["comment"]:
        return ""
    if piece["marked"]:
        return _INLINE.sub(_shown_piece, piece["marked"])
    if piece["page"] is not None:
        return piece[0] if _DATA.match(piece["page"] + piece["names"]) else _shown_link(piece)
    if piece["raised"]:
        begin, end = piece.span()
        before, after = piece.string[max(0, begin - 30) : begin], piece.string[end : end + 30]
        is_raised = piece["script"].lower() == "sup"
        return scripted(piece["raised"].strip(), before, after, is_raised=is_raised) or piece["raised"]
    return piece[0]


def _shown_link(link: re.Match[str]) -> str:
    target, *names = (part.strip().removesuffix("\\").strip() for part in (link["page"] + link["names"]).split("|"))
    names = [name for name in names if name and not (link["embed"] and _SIZE.fullmatch(name))]
    if names:
        return names[0]
    page, *sections = target.split("#")
    if link["embed"] and _MEDIA.search(page):
        return ""
    sections = [section for section in sections if section and not section.startswith("^") and "=" not in section]
    return " > ".join(part.strip() for part in (page, *sections) if part.strip())


def without_links(value: Any) -> Any:
    """A value of the front matter with the wiki links in its texts as a reader sees them."""
    if isinstance(value, str):
        return _INLINE.sub(_shown_piece, value) if "[[" in value else value
    if isinstance(value, list):
        return [without_links(inner) for inner in value]
    if isinstance(value, dict):
        return {key: without_links(inner) for key, inner in value.items()}
    return value
