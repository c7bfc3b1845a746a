"""Replaces the formulas of a page by one line of text each, however they came to the page.

KaTeX, MathJax and Wikipedia write a formula two or three times: MathML for screen readers, the TeX source, and glyphs
or an image to look at. One is kept: the MathML where there is one, since tools write it from their own reading of the
source, else the TeX.
"""

import re
from functools import lru_cache
from typing import Any

import lxml.html
from lxml import etree

from almanac.core.controls import without_controls
from almanac.spiders.reading.mathml import formula_text
from almanac.spiders.reading.rewriting import class_names, local_name, remove, replace_by_text

# Elements that hold one formula in all its forms.
_RENDERED = frozenset(
    {
        "katex",
        "katex-display",
        "katex-error",
        "MathJax",
        "MathJax_Display",
        "MathJax_SVG",
        "MathJax_SVG_Display",
        "MathJax_CHTML",
        "mjx-chtml",
    }
    | {"mwe-math-element", "ltx_Math"}
)
_PREVIEWS = frozenset({"MathJax_Preview", "MathJax_Error"})
# Elements whose text is TeX, as generators write it for a script to render.
_SOURCES = frozenset({"arithmatex", "math-container", "js-render-math", "math"})
_IMAGES = frozenset(
    {
        "tex",
        "latex",
        "texrender",
        "mwe-math-fallback-image-inline",
        "mwe-math-fallback-image-display",
        "math-tex",
        "equation",
    }
)
_HOLDERS = frozenset({"span", "div", "mjx-container", "math-renderer", "code", "nobr", "p", "tex-math"})
_TEX_ATTRIBUTES = ("data-latex", "data-tex", "data-math", "data-formula", "data-expr", "data-equation")
_CODE = frozenset({"pre", "code", "kbd", "samp", "tt", "textarea", "script", "style"})
_DELIMITERS = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]|\$\$(.*)\$\$|\$(.*)\$", re.DOTALL)
_INSIDE = r"(?:\\\\|[^\\]|\\(?![()\[\]]))"
_TEX_IN_TEXT = re.compile(
    rf"(?<!\\)(?:\\\(({_INSIDE}{{1,2000}}?)\\\)|\\\[({_INSIDE}{{1,2000}}?)\\\]|\$\$([^$]{{1,2000}})\$\$)"
)
_LOOKS_LIKE_TEX = re.compile(r"[\\^_{}=]")
_IS_ONE_WORD = re.compile(r"\s*[^\W\d_]{3,}[\w\s.,;-]*")
_NOISE = re.compile(
    r"\\(?:label|tag\*?|ref|eqref)\s*\{[^{}]*\}|\\(?:nonumber|notag|displaystyle|textstyle|limits|nolimits)(?![a-zA-Z])"
)
_NUMBERED = re.compile(r"(\\(?:begin|end)\s*\{(?:align|gather|equation|eqnarray|multline|alignat|flalign))\}")
_MAX_TEX = 2000  # characters; longer ones stay as they are written


def write_formulas(root: Any) -> None:
    """Replaces each formula in the tree by its text, in place."""
    found = _outermost(root)
    for element, following in zip(found, [*found[1:], None], strict=False):
        if element.getparent() is None and element is not root:
            continue
        kind = _kind(element)
        if (
            kind == "preview"
            and following is not None
            and _follows(element, following)
            and _kind(following) != "preview"
        ):
            remove(element)  # the same formula follows
            continue
        source = (
            following
            if kind == "rendered"
            and following is not None
            and _kind(following) == "source"
            and _follows(element, following)
            else None
        )
        text = _text_of(element) or (_text_of(source) if source is not None else "")
        if source is not None:
            remove(source)
        if text or kind in ("preview", "source", "rendered"):
            _replace(element, text)
    _write_tex_in_text(root)


def _outermost(root: Any) -> list[Any]:
    found, waiting = [], [root]
    while waiting:
        element = waiting.pop()
        if _kind(element):
            found.append(element)
        else:
            waiting += [child for child in reversed(element) if isinstance(child.tag, str)]
    return found


def _kind(element: Any) -> str:
    """`rendered`, `source` (a script with TeX), `preview` (what stands there until the formula is rendered), `tex`, or
    empty if it is no formula.
    """
    name = local_name(element)
    if name in ("math", "mjx-container"):
        return "rendered"
    if name == "script":
        return "source" if (element.get("type") or "").startswith("math/") else ""
    if name == "math-renderer":
        return "tex"
    names = class_names(element)
    if not names:
        return ""
    if name == "img":
        return "tex" if names & _IMAGES and _LOOKS_LIKE_TEX.search(element.get("alt") or "") else ""
    if name not in _HOLDERS:
        return ""
    if names & _RENDERED and name != "p":
        return "rendered"
    if names & _PREVIEWS:
        return "preview"
    return "tex" if names & _SOURCES and _is_tex(element) else ""


def _is_tex(element: Any) -> bool:
    """Whether an element of a class such as `math` has nothing but the source of a formula in it."""
    text = (element.text or "").strip()
    return not len(element) and bool(
        _DELIMITERS.fullmatch(text) or ("math" not in class_names(element) and text) or _LOOKS_LIKE_TEX.search(text)
    )


def _follows(element: Any, other: Any) -> bool:
    """Whether `other` is the next element in the same parent, with nothing but space between them."""
    return element.getnext() is other and not (element.tail or "").strip()


def _replace(element: Any, text: str) -> None:
    """Puts the formula in the element's place; one that is displayed has spaces around it, or stays a block if it is
    one.
    """
    if element.tag == "div" and element.getparent() is not None:
        tail = element.tail
        element.clear()
        element.text, element.tail = without_controls(text), tail
        return
    if _is_displayed(element):
        text = f" {text}" + (" " if (element.tail or "")[:1].isalnum() else "")
    replace_by_text(element, text)


def _is_displayed(element: Any) -> bool:
    says = element.get("display") or element.get("mode") or (element.get("type") or "").partition("mode=")[2]
    return says in ("block", "true", "display") or any("isplay" in name for name in class_names(element))


def _text_of(element: Any) -> str:
    """The formula of an element; empty if there is none to read."""
    for math in (inner for inner in element.iter() if local_name(inner) == "math"):
        text = formula_text(math)
        text = tex_text(text) if re.search(r"\\[a-zA-Z]", text) else text
        if text or (text := tex_text(math.get("alttext") or "")):
            return text
        break
    for inner in element.iter():
        if (markup := inner.get("data-mathml")) and (text := _text_of_markup(markup)):
            return text
    for tex in _sources(element):
        if text := tex_text(tex):
            return text
    if label := element.get("aria-label"):
        return " ".join(label.split())
    return tex_text("".join(element.itertext()).replace("\u200b", ""))


def _text_of_markup(markup: str) -> str:
    try:
        parsed = lxml.html.fragment_fromstring(markup, create_parent="div")
    except etree.ParserError:
        return ""
    return next((formula_text(math) for math in parsed.iter() if local_name(math) == "math"), "")


def _sources(element: Any) -> list[str]:
    found = []
    for inner in element.iter():
        name = local_name(inner)
        found += [value for attribute in _TEX_ATTRIBUTES if (value := inner.get(attribute))]
        if (name == "annotation" and "tex" in (inner.get("encoding") or "").lower()) or (
            name == "script" and (inner.get("type") or "").startswith("math/tex")
        ):
            found.append("".join(inner.itertext()))
        elif name == "img" and inner.get("alt"):
            found.append(inner.get("alt"))
    return found


@lru_cache(maxsize=4096)
def tex_text(tex: str) -> str:
    """The formula that a TeX source stands for, as `formula_text` writes it; the source itself, without delimiters,
    where it cannot be read.
    """
    tex = tex.strip()
    if delimited := _DELIMITERS.fullmatch(tex):
        tex = next(inside for inside in delimited.groups() if inside is not None).strip()
    source = " ".join(tex.split())
    if len(tex) > _MAX_TEX or not tex:
        return source
    from latex2mathml.converter import convert

    try:
        math = etree.fromstring(convert(_NUMBERED.sub(r"\1*}", _NOISE.sub(" ", tex))))
    except Exception:  # its errors have no common class, and a source that it cannot read is no error of the page
        return source
    return formula_text(math) or source


def _write_tex_in_text(root: Any) -> None:
    """Rewrites `\\( … \\)`, `\\[ … \\]` and `$$ … $$` in running text; in code they stay."""
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        if event == "start":
            if element.tag in _CODE:
                walk.skip_subtree()
            elif element.text and _has_delimiter(element.text):
                element.text = without_controls(_TEX_IN_TEXT.sub(_rewritten, element.text))
        elif element is not root and element.tail and _has_delimiter(element.tail):
            element.tail = without_controls(_TEX_IN_TEXT.sub(_rewritten, element.tail))


def _has_delimiter(text: str) -> bool:
    return "\\(" in text or "\\[" in text or "$$" in text


def _rewritten(found: re.Match[str]) -> str:
    tex = next(inside for inside in found.groups() if inside is not None)
    is_formula = (
        _LOOKS_LIKE_TEX.search(tex)
        if found[0].startswith("$")
        else _LOOKS_LIKE_TEX.search(tex) or not _IS_ONE_WORD.fullmatch(tex)
    )
    if not is_formula:
        return found[0]
    return tex_text(tex) if found[0].startswith("\\(") else f" {tex_text(tex)} "
