"""Writes a formula in MathML or OMML, Word's markup, on one line, no more than its texts need to mean the same: bare,
one half would be 12, and ten to the sixth 106.
"""

import re
from typing import Any

from almanac.spiders.reading.raised import subscript, superscript
from almanac.spiders.reading.rewriting import local_name

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MAX_DEPTH = 50
_INVISIBLE = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b"))
# Stands around fractions and behind roots, where a space tells them from what they are beside; no text keeps one.
_GAP = "\u2063"
_GAP_BETWEEN = re.compile(rf"(?<=[\w)\]}}]){_GAP}+(?=[\w(\[{{√])")
_UNREAD = frozenset({"annotation", "annotation-xml", "mphantom"})
# Elements of both markups by what they are: MathML tells their parts by order, OMML mostly so, too.
_OVER = ("mfrac", "f")
_RAISED = ("msup", "mover", "ssup", "limupp")
_LOWERED = ("msub", "munder", "ssub", "limlow")
_BOTH = ("msubsup", "munderover", "ssubsup")


def formula_text(math: Any) -> str:
    """The formula of a `<math>` or an `<m:oMath>`: `(a+b)/2`, `x²`, `√(a+b)`; empty if it has none."""
    return " ".join(_closed(_text(math, 0)).split())


def _text(element: Any, depth: int) -> str:
    name = local_name(element)
    if not name or name in _UNREAD or name.endswith("pr"):  # properties of OMML hold no text
        return ""
    if depth > _MAX_DEPTH:
        return "".join(element.itertext())
    parts = [child for child in element if local_name(child) and not local_name(child).endswith("pr")]
    if name in ("mtr", "mlabeledtr", "mr"):
        return " ".join(_text(part, depth + 1) for part in parts)
    texts = [_text(part, depth + 1) for part in parts]
    if name in _OVER:
        is_fraction = element.get("linethickness") != "0" and _property(element, "type", "bar") != "noBar"
        return f"{_GAP}{'/'.join(map(_grouped, texts))}{_GAP}" if is_fraction else f"({'; '.join(texts)})"
    if name in _RAISED and len(texts) == 2:
        return _grouped(texts[0]) + _scripts("", texts[1])
    if name in _LOWERED and len(texts) == 2:
        return _closed(texts[0]) + _scripts(texts[1])
    if name in _BOTH and len(texts) == 3:
        return _closed(texts[0]) + _scripts(*texts[1:])
    if name == "spre":
        return _scripts(*texts[:2]) + "".join(texts[2:])
    if name == "mmultiscripts":
        at = next((number for number, part in enumerate(parts) if local_name(part) == "mprescripts"), len(parts))
        return _scripts(*texts[at + 1 :]) + "".join(texts[:1]) + _scripts(*texts[1:at])
    if name in ("rad", "mroot") and len(texts) == 2:
        index, radicand = texts if name == "rad" else reversed(texts)
        return _scripts("", index) + "√" + _grouped(radicand) + _GAP
    if name == "msqrt":
        return "√" + _grouped("".join(texts)) + _GAP
    if name in ("mtable", "m", "eqarr"):
        return "; ".join(texts)
    if name == "nary":
        return f"{_property(element, 'chr', '∫')}{_scripts(*texts[:2])} {''.join(texts[2:])}"
    if name == "d":
        separator = _property(element, "sepChr", "|")
        return _property(element, "begChr", "(") + separator.join(texts) + _property(element, "endChr", ")")
    if name == "mfenced":
        marks = [f"{mark} " for mark in "".join(element.get("separators", ",").split())] or [""]
        marks = [*marks, *marks[-1:] * len(texts)][: max(0, len(texts) - 1)]
        inside = "".join(map("".join, zip(texts, [*marks, ""], strict=False)))
        return str(element.get("open", "(")) + inside + str(element.get("close", ")"))
    if name == "func":
        return " ".join(texts)
    if name == "acc":
        return "".join(texts) + _property(element, "chr", "\u0302")
    if name == "mspace":
        return " "
    if name == "phant" and _property(element, "show", "1") in ("0", "off", "false"):
        return ""
    return ((element.text or "") if not parts else "").translate(_INVISIBLE) + "".join(texts)


def _closed(text: str) -> str:
    """The text with a space in each gap between what would be read as one."""
    return _GAP_BETWEEN.sub(" ", text).replace(_GAP, "").strip()


def _grouped(text: str) -> str:
    text = _closed(text)
    is_one = text.isalnum() or len(text) < 2 or (text[0] + text[-1] == "()" and "(" not in text[1:])
    return text if is_one else f"({text})"


def _scripts(*texts: str) -> str:
    """Texts that are lowered and raised, in turn."""
    return "".join((superscript if number % 2 else subscript)(_closed(text)) for number, text in enumerate(texts))


def _property(element: Any, name: str, default: str) -> str:
    setting = element.find(f"{M}{local_name(element)}Pr/{M}{name}")
    return default if setting is None else str(setting.get(f"{M}val", default))
