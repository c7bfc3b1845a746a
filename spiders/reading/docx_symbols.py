"""Characters of Word's symbol fonts as the characters that they show: a tick that is a letter of Wingdings, an alpha
that is a letter of Symbol.
"""

from typing import Any

from almanac.spiders.reading.docx_merges import W

_FIRST_PRIVATE, _LAST_PRIVATE = 0xF000, 0xF0FF  # where fonts without characters of their own have their glyphs
_TAGS = (f"{W}sym", f"{W}t")


def _table(start: int, characters: str) -> dict[int, str]:
    return {start + number: character for number, character in enumerate(characters) if character != "\0"}


_SYMBOL = {
    **_table(0x20, " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"),
    **_table(0xA0, "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|―↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\0⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"),
}
_WINGDINGS = {
    **_table(0x20, " ✏✂✁\0🔔📖🕯☎✆✉"),
    **_table(0x36, "⌛⌨"),
    **_table(0x41, "✌\0\0\0☜☞☝☟\0☺\0☹\0☠⚐\0✈☼\0❄"),
    **_table(0x6C, "●❍■□\0❑❒\0⧫◆❖\0☒\0⌘"),
    **_table(0x80, "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿"),
    **_table(0x9E, "·•\0○\0\0\0\0\0▪☐\0✦★✶"),
    **_table(0xD8, "➢\0\0\0\0\0\0←→↑↓"),
    **_table(0xE8, "➔\0\0\0\0\0\0⇦⇨⇧⇩⬄"),
    **_table(0xFB, "✗✓☒☑"),
}
_FONTS = {
    "symbol": _SYMBOL,
    "wingdings": _WINGDINGS,
    "wingdings 2": {**_table(0x4F, "✗✓✗☑☒☒"), 0x97: "●", 0xA3: "☐"},
    "wingdings 3": _table(0x66, "←→↑↓\0\0⇄"),
}


def write_symbols(root: Any) -> bool:
    """Replaces symbols by what they show, in place; one that nobody knows by nothing. Whether there were any."""
    replaced = False
    for element in list(root.iter(*_TAGS)):
        if element.tag == f"{W}sym":
            element.tag, shown = f"{W}t", _shown(_code_of(element), element.get(f"{W}font", ""))
            element.text, replaced = shown, True
        elif element.text and any(_FIRST_PRIVATE <= ord(character) <= _LAST_PRIVATE for character in element.text):
            fonts = element.getparent().find(f"{W}rPr/{W}rFonts") if element.getparent() is not None else None
            font = "" if fonts is None else fonts.get(f"{W}ascii") or fonts.get(f"{W}hAnsi") or ""
            element.text, replaced = "".join(_shown(ord(character), font) for character in element.text), True
    return replaced


def _code_of(symbol: Any) -> int:
    try:
        code = int(symbol.get(f"{W}char", ""), 16)
    except ValueError:
        return 0
    return code if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else 0


def _shown(code: int, font: str) -> str:
    table = _FONTS.get(font.casefold())
    is_private = _FIRST_PRIVATE <= code <= _LAST_PRIVATE
    if table is not None and (is_private or code <= 0xFF):
        return table.get(code & 0xFF, "")
    return "" if is_private or code < 0x20 else chr(code)
