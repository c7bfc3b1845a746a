"""Links in generated text: a model repeats what a passage talked it into, and a link or an image carries what it knows
of the conversation elsewhere.

What no passage holds is taken out of each statement: the text of a link stays, its address goes. What Markdown or HTML
could make a link, a definition or a tag of all the same gets a space: statements stay apart by white space, so that
nothing is put together from two of them.
"""

import re
from collections.abc import Iterable
from functools import cache

LEFT_OUT = "…"  # stands for an address
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,30}://|(?:mailto|tel|sms|xmpp|javascript|vbscript):(?=[^\s])|data:(?=[a-z]+[/;,])|www"
    r"\.(?=[^\s.]))"
    r"[^\s<>\[\]\"`|“”«»。，、；！？）】」』》\0]*",
    re.IGNORECASE,
)
_AFTER = ".,;:!?'*_~"  # ends a sentence, not an address
_TARGET = re.compile(r"\]\(\s*<?([^\s<>()]+)")
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(((?:[^()]|\([^()]*\))*)\)")
_NUMBERS = re.compile(r"[\d\s,;–-]*\d[\d\s,;–-]*")
_AUTOLINK = re.compile(r"<(?:([a-z][a-z0-9+.-]{1,30}:[^\s<>]*)|([^\s<>@:/]+@[^\s<>@:/]+))>", re.IGNORECASE)
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9:-]*)(?=[\s/>])[^<>]*>|<!--(?:-?>|.*?-->)|<(?:\?|!(?!--))[^<>]*>", re.DOTALL)
_NO_TAG = re.compile(r"</?[A-Za-z][\w.]*>|<(?=[A-Za-z/!?\0])")  # List<String>, which nobody takes for one, or a mark
_JOINT = re.compile(r"\](?=[(:])")
_IN_SENTENCE = re.compile(r"[^\W\d_][^\n]*\[\d{1,3}$")  # "as said in [1]: …" defines nothing


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """The addresses that texts hold, by themselves and as targets of Markdown links."""
    found: set[str] = set()
    for text in texts:
        found.update(one[1] for one in _TARGET.finditer(text))
        found.update(_cut(one[0]) for one in _ADDRESS.finditer(text))
    return frozenset(found)


def without_foreign_links(text: str, held: frozenset[str]) -> str:
    """A text in which links and images whose address is not in `held` are their text, tags of HTML are left out, and
    other addresses are an ellipsis.
    """
    kept: list[str] = []

    def keep(part: str) -> str:
        kept.append(part)
        return f"\0{len(kept) - 1}\0"

    def link(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        if (address := _TARGET.match(f"]({target}")) and address[1] in held:
            return f"{keep(f'{mark}[')}{label}{keep(f']({address[1]})')}"
        if not _NUMBERS.fullmatch(label):
            return label
        return found[0] if re.fullmatch(r"\w*", target) else f"[{label}]"  # code that calls what it finds; a citation

    def autolink(found: re.Match[str]) -> str:
        return found[2] or (keep(found[0]) if found[1] in held else LEFT_OUT)

    def tag(found: re.Match[str]) -> str:
        return "" if not found[1] or found[1].lower() in _tags() else found[0]

    def addresses(text: str) -> str:
        written, position = "", 0
        while found := _ADDRESS.search(text, position):
            address = _cut(found[0])
            written += text[position : found.start()] + (keep(address) if address in held else LEFT_OUT)
            position = found.start() + len(address)
        return written + text[position:]

    def joint(found: re.Match[str]) -> str:
        is_citation = found.string.startswith(":", found.end()) and _IN_SENTENCE.search(found.string[: found.start()])
        return "]" if is_citation else "] "

    text, before = text.replace("\0", ""), ""
    while text != before:  # what is left may be a mark anew
        text, before = _TAG.sub(tag, _LINK.sub(link, _AUTOLINK.sub(autolink, text))), text
    text = _JOINT.sub(joint, addresses(text))
    text = _NO_TAG.sub(lambda found: found[0] if len(found[0]) > 1 else "< ", text)
    while "\0" in text:
        text = re.sub(r"\0(\d+)\0", lambda found: kept[int(found[1])], text)
    return text


@cache
def _tags() -> frozenset[str]:
    """The tags of HTML."""
    from lxml.html import defs  # the import takes 0.05 s, and quotations need none

    return frozenset(defs.tags) | {"svg", "math", "template"}


def _cut(address: str) -> str:
    """An address without what closes the sentence or the bracket around it."""
    depth = 0
    for place, character in enumerate(address):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            address = address[:place]
            break
    return address.rstrip(_AFTER)
